// SPDX-License-Identifier: GPL-2.0

//! The pool of a domain's regions that endpoints register. It grows when an endpoint is enabled, and is freed
//! with the domain. The lock of [`RegionPool`] guards it.

use super::ep_region::EpRegion;
use crate::fi::{
    domain::Domain,
    prelude::*,
    provider, //
};

/// Size of the pages of a region in bytes.
pub(super) const PAGE_LEN: usize = 4096;

/// Number of classes of regions: up to 2^9 pages.
const CLASSES: usize = 10;

/// Returns the smallest class whose regions have `pages` pages.
fn class_of(pages: usize) -> usize {
    let pages = pages.checked_next_power_of_two();
    pages.map_or(CLASSES, |pages| pages.trailing_zeros() as usize)
}

/// Regions of one class.
struct Class {
    free: BoxList<EpRegion>,
    /// Number of regions, free or in use.
    count: usize,
    /// Number of regions that enabled endpoints may have in use.
    reserved: usize,
}

/// The regions of a domain.
#[pin_data]
pub(in crate::fi) struct RegionPool {
    #[pin]
    classes: FastLockIrq<[Class; CLASSES]>,
}

impl RegionPool {
    /// Creates an empty pool.
    pub(in crate::fi) fn new() -> impl PinInit<Self> {
        let classes = core::array::from_fn(|_| Class {
            free: BoxList::new(),
            count: 0,
            reserved: 0,
        });
        pin_init!(Self {
            classes <- FastLockIrq::new(classes, c"kofi::RegionPool", static_lock_class!()),
        })
    }

    /// Adds regions, until there are `count` more of `pages` pages than other endpoints have reserved. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for too many pages, -FI_ENOMEM.
    fn reserve(&self, core: &dyn provider::Domain, count: usize, pages: usize) -> Result {
        let at = class_of(pages);
        Errno::EINVAL.when(at >= CLASSES)?;
        loop {
            let mut classes = self.classes.lock();
            let class = &mut classes[at];
            if class.count >= class.reserved + count {
                class.reserved += count;
                return Ok(());
            }
            class.count += 1;
            drop(classes);
            let region = EpRegion::new(core, at, 1 << at);
            let mut classes = self.classes.lock();
            match region {
                Ok(region) => classes[at].free.push(region),
                Err(errno) => {
                    classes[at].count -= 1;
                    return Err(errno);
                }
            }
        }
    }

    /// Returns whether no endpoint has reserved a region yet. Any context.
    pub(in crate::fi) fn is_empty(&self) -> bool {
        self.classes.lock().iter().all(|class| class.count == 0)
    }

    /// Takes a region of at least `pages` pages. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if there is none, -FI_EAGAIN while all are in use.
    pub(super) fn take(&self, pages: usize) -> Result<ListBox<EpRegion>> {
        let mut classes = self.classes.lock();
        let fitting = classes.get_mut(class_of(pages)..).unwrap_or(&mut []);
        Errno::EINVAL.when(fitting.iter().all(|class| class.count == 0))?;
        let taken = fitting.iter_mut().find_map(|class| class.free.pop());
        taken.ok_or(Errno::EAGAIN)
    }

    /// Puts a region back. Any context.
    pub(super) fn put(&self, region: ListBox<EpRegion>) {
        let mut classes = self.classes.lock();
        if let Some(class) = classes.get_mut(region.class) {
            // The memory that was used last is the likeliest in the cache.
            class.free.push_front(region);
        }
    }
}

/// Regions that an enabled endpoint has reserved in the pool of its domain.
pub(in crate::fi) struct RegionReservation {
    domain: ChildRef<Domain>,
    count: usize,
    class: usize,
}

impl RegionReservation {
    /// Reserves regions of `pages` pages in `domain` for an endpoint that can have `count` regions bound; none if
    /// that is 0. As many again are for regions that are mapped and not bound: these do not wait for the end of
    /// others. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for too many pages, -FI_ENOMEM.
    pub(in crate::fi) fn new(
        domain: &Arc<Domain>,
        (count, pages): (usize, usize),
    ) -> Result<Option<Self>> {
        if count == 0 {
            return Ok(None);
        }
        let count = 2 * count;
        let held = ChildRef::new(domain)?;
        domain.regions().reserve(&**domain.core(), count, pages)?;
        Ok(Some(Self {
            domain: held,
            count,
            class: class_of(pages),
        }))
    }
}

impl Drop for RegionReservation {
    fn drop(&mut self) {
        let mut classes = self.domain.regions().classes.lock();
        if let Some(class) = classes.get_mut(self.class) {
            class.reserved -= self.count;
        }
    }
}
