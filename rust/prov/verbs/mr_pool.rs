// SPDX-License-Identifier: GPL-2.0

//! The regions of the device that an endpoint registers again and again, allocated when it is enabled.
//!
//! The lock of [`MrPool`] guards the free ones, and the consumer's regions whose peers' access could not be ended.
//! A region that is registered belongs to the consumer's [`EpRegion`].

use super::{
    ep_region::Region,
    prelude::*, //
};
use crate::{
    fi::mr::ep_region::EpRegion,
    rdma::mr::FastMr,
    util::owned_list::{
        BoxList,
        ListBox, //
    }, //
};

/// Regions under the lock.
struct PoolState {
    /// Regions without a valid key; the capacity suffices for all.
    free: KVec<FastMr>,
    /// Regions that have been closed, and whose keys may be valid until the device frees them.
    unended: BoxList<EpRegion>,
}

/// The regions of one endpoint.
#[pin_data]
pub(super) struct MrPool {
    /// Maximum number of pages of a region.
    pub(super) max_pages: u32,
    #[pin]
    state: FastLockIrq<PoolState>,
}

impl MrPool {
    /// Allocates `count` regions of `pages` pages. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM, and the driver's errors.
    pub(super) fn new(pd: &Arc<Pd>, (count, pages): (usize, u32)) -> Result<Arc<Self>> {
        let mut free = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            free.push(FastMr::alloc(pd.clone(), pages)?, GFP_KERNEL)?;
        }
        let state = PoolState {
            free,
            unended: BoxList::new(),
        };
        pin_arc(pin_init!(Self {
            max_pages: pages,
            state <- FastLockIrq::new(state, c"kofi::verbs::MrPool", static_lock_class!()),
        }))
    }

    /// Takes a free region; -FI_EAGAIN if there is none. Any context.
    pub(super) fn take(&self) -> Result<FastMr> {
        self.state.lock().free.pop().ok_or(Errno::EAGAIN)
    }

    /// Puts a region back, whose key is not valid. Any context.
    pub(super) fn put(&self, mr: FastMr) {
        let refused = self.state.lock().free.push_within_capacity(mr);
        // Cannot fail: each region had a place when the pool was created.
        drop(refused);
    }

    /// Keeps a closed region whose key may still be valid until [`Self::clear`]. Any context.
    pub(super) fn put_unended(&self, region: ListBox<EpRegion>) {
        self.state.lock().unended.push(region);
    }

    /// Frees all regions, which ends their keys, and recycles the consumer's regions among them. May sleep.
    pub(super) fn clear(&self) {
        let mut state = self.state.lock();
        let free = mem::take(&mut state.free);
        let mut unended = mem::take(&mut state.unended);
        drop(state);
        drop(free);
        while let Some(mut region) = unended.pop() {
            if let Some(own) = Region::from_core(region.core_mut()) {
                // Waits for drivers that are still transferring a packet.
                drop(own.take_mr());
            }
            EpRegion::recycle(region);
        }
    }
}
