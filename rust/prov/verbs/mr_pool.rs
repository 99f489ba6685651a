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
    rdma::mr::{
        FastMr,
        KEY_VARIANT, //
    },
    util::sort::sort_by_key, //
};

/// Regions under the lock.
struct PoolState {
    /// Regions without a valid key; the capacity suffices for all.
    free: KVVec<FastMr>,
    /// Regions that have been closed, and whose keys may be valid until the device frees them.
    unended: BoxList<EpRegion>,
}

/// The key of a region that a message has invalidated, if there is one.
struct InvalidatedKey {
    /// Key of the region without the bits that change.
    region: u32,
    /// The key plus one; 0 for none.
    key: Atomic<u64>,
}

impl InvalidatedKey {
    /// Returns the value of `key` for a key.
    fn mark(key: u32) -> u64 {
        u64::from(key) + 1
    }
}

/// The regions of one endpoint.
#[pin_data]
pub(super) struct MrPool {
    /// Maximum number of pages of a region.
    pub(super) max_pages: u32,
    /// Keys that messages have invalidated, sorted by the part of the key that a region always has.
    invalidated: KVVec<InvalidatedKey>,
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
        let mut free = KVVec::with_capacity(count, GFP_KERNEL)?;
        let mut invalidated = KVVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            let mr = FastMr::alloc(pd.clone(), pages)?;
            let key = InvalidatedKey {
                region: mr.rkey() & !KEY_VARIANT,
                key: Atomic::new(0),
            };
            invalidated.push(key, GFP_KERNEL)?;
            free.push(mr, GFP_KERNEL)?;
        }
        sort_by_key(&mut invalidated, |key| key.region);
        let state = PoolState {
            free,
            unended: BoxList::new(),
        };
        pin_arc(pin_init!(Self {
            max_pages: pages,
            invalidated,
            state <- FastLockIrq::new(state, c"kofi::verbs::MrPool", static_lock_class!()),
        }))
    }

    /// Takes a free region; -FI_EAGAIN if there is none. Any context.
    pub(super) fn take(&self) -> Result<FastMr> {
        self.state.lock().free.pop().ok_or(Errno::EAGAIN)
    }

    fn invalidated(&self, key: u32) -> Option<&InvalidatedKey> {
        let region = key & !KEY_VARIANT;
        let at = self
            .invalidated
            .binary_search_by_key(&region, |key| key.region);
        self.invalidated.get(at.ok()?)
    }

    /// Records that a message has invalidated a key; returns false if it is of no region of the pool. Any context.
    pub(super) fn set_invalidated(&self, key: u32) -> bool {
        let found = self.invalidated(key);
        found
            .map(|found| found.key.store(InvalidatedKey::mark(key), Release))
            .is_some()
    }

    /// Forgets, and returns, whether a message has invalidated a key. Any context.
    pub(super) fn take_invalidated(&self, key: u32) -> bool {
        let found = self.invalidated(key);
        found.is_some_and(|found| found.key.xchg(0, Full) == InvalidatedKey::mark(key))
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
