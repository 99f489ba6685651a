// SPDX-License-Identifier: GPL-2.0

//! Pool of the device's memory regions (`struct ib_mr`) that an endpoint registers repeatedly by work requests. The
//! regions are allocated when the endpoint is enabled.
//!
//! The lock of [`MrPool`] guards the free regions, and the closed regions of the consumer whose keys may still be
//! valid. While a region of the device is in use, the consumer's [`EpRegion`] owns it.

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

/// State of a pool, which its lock guards.
struct PoolState {
    /// Regions of the device whose keys are not valid. The capacity suffices for all regions of the pool.
    free: KVVec<PooledMr>,
    /// Closed regions of the consumer, whose keys may be valid until their regions of the device are freed.
    closed: BoxList<EpRegion>,
}

/// Region of the device that belongs to a pool.
pub(super) struct PooledMr {
    pub(super) mr: FastMr,
    /// Index of the region's record in [`MrPool::records`].
    record: usize,
}

/// Records whether a message has invalidated the current key of a region.
struct KeyRecord {
    /// Key of the region without the bits of [`KEY_VARIANT`], which change with each registration.
    base_key: u32,
    /// Current key, with [`KeyRecord::INVALIDATED`] if a message has invalidated it.
    state: Atomic<u64>,
}

impl KeyRecord {
    const INVALIDATED: u64 = 1 << 32;

    /// Sets the current key, and clears the record of an invalidation.
    fn set_current(&self, key: u32) {
        self.state.store(key.into(), Release);
    }

    /// Records that a message has invalidated `key`. Has no effect if the current key is another variant of `key`.
    fn set_invalidated(&self, key: u32) {
        let _ = self
            .state
            .cmpxchg(key.into(), Self::INVALIDATED | u64::from(key), Full);
    }

    /// Returns whether a message has invalidated `key`, and clears the record of that.
    fn take_invalidated(&self, key: u32) -> bool {
        let invalidated = Self::INVALIDATED | u64::from(key);
        self.state.cmpxchg(invalidated, key.into(), Full).is_ok()
    }
}

/// Pool of the regions of one endpoint.
#[pin_data]
pub(super) struct MrPool {
    /// Maximum number of pages of a region.
    pub(super) max_pages: u32,
    /// Records of all regions, sorted by `base_key`.
    records: KVVec<KeyRecord>,
    #[pin]
    state: FastLockIrq<PoolState>,
    /// Held while closed regions are freed, so that a concurrent call of [`Self::free_closed`] waits for that.
    #[pin]
    freeing: Mutex<()>,
}

impl MrPool {
    /// Allocates `count` regions of `pages` pages. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM, and the driver's errors.
    pub(super) fn new(pd: &Arc<Pd>, (count, pages): (usize, u32)) -> Result<Arc<Self>> {
        let mut free = KVVec::with_capacity(count, GFP_KERNEL)?;
        let mut records = KVVec::with_capacity(count, GFP_KERNEL)?;
        for record in 0..count {
            let mr = FastMr::alloc(pd.clone(), pages)?;
            free.push(PooledMr { mr, record }, GFP_KERNEL)?;
        }
        sort_by_key(&mut free, |pooled: &PooledMr| pooled.mr.rkey());
        for (at, pooled) in free.iter_mut().enumerate() {
            pooled.record = at;
            let key = pooled.mr.rkey();
            let record = KeyRecord {
                base_key: key & !KEY_VARIANT,
                state: Atomic::new(key.into()),
            };
            records.push(record, GFP_KERNEL)?;
        }
        let state = PoolState {
            free,
            closed: BoxList::new(),
        };
        pin_arc(pin_init!(Self {
            max_pages: pages,
            records,
            state <- FastLockIrq::new(state, c"kofi::verbs::MrPool", static_lock_class!()),
            freeing <- new_mutex!((), "kofi::verbs::MrPool::freeing"),
        }))
    }

    /// Takes a free region; -FI_EAGAIN if there is none. Any context.
    pub(super) fn take(&self) -> Result<PooledMr> {
        self.state.lock().free.pop().ok_or(Errno::EAGAIN)
    }

    /// Records the new key of a region of the pool, which no message has invalidated. Any context.
    pub(super) fn set_current_key(&self, pooled: &PooledMr) {
        if let Some(record) = self.records.get(pooled.record) {
            record.set_current(pooled.mr.rkey());
        }
    }

    /// Returns whether a message has invalidated the current key of a region, and clears the record of that. Any
    /// context.
    pub(super) fn take_invalidated(&self, pooled: &PooledMr) -> bool {
        let record = self.records.get(pooled.record);
        record.is_some_and(|record| record.take_invalidated(pooled.mr.rkey()))
    }

    /// Records that a message has invalidated a key, if that is the current key of its region. Returns false if no
    /// region of the pool has any variant of the key. Any context.
    pub(super) fn set_invalidated(&self, key: u32) -> bool {
        let base_key = key & !KEY_VARIANT;
        let at = self
            .records
            .binary_search_by_key(&base_key, |record| record.base_key);
        let record = at.ok().and_then(|at| self.records.get(at));
        record.map(|record| record.set_invalidated(key)).is_some()
    }

    /// Puts a region, whose key is not valid, back into the pool. Any context.
    pub(super) fn put(&self, pooled: PooledMr) {
        let refused = self.state.lock().free.push_within_capacity(pooled);
        // Cannot fail: `free` had capacity for each region when the pool was created.
        drop(refused);
    }

    /// Keeps a closed region whose key may still be valid until [`Self::free_closed`] or [`Self::clear`]. Any context.
    pub(super) fn put_closed(&self, region: ListBox<EpRegion>) {
        self.state.lock().closed.push(region);
    }

    /// Deregisters the free regions of the device, and frees the closed regions as [`Self::free_closed`] does. May
    /// sleep.
    pub(super) fn clear(&self) {
        let free = mem::take(&mut self.state.lock().free);
        drop(free);
        self.free_closed();
    }

    /// Deregisters the regions of the device that closed regions own, which invalidates their keys, and recycles the
    /// closed regions. No work request in the queue pair names their keys. May sleep.
    pub(super) fn free_closed(&self) {
        let _freeing = self.freeing.lock();
        let mut closed = mem::take(&mut self.state.lock().closed);
        while let Some(mut region) = closed.pop() {
            if let Some(own) = Region::from_core(region.core_mut()) {
                // Deregistration waits for a driver that is still transferring a packet.
                drop(own.take_mr());
            }
            EpRegion::recycle(region);
        }
    }
}

#[kunit_tests(kofi_verbs_mr_pool)]
mod tests {
    use super::*;

    #[test]
    fn only_the_current_key_is_recorded_as_invalidated() {
        let record = KeyRecord {
            base_key: 0x100,
            state: Atomic::new(0x100),
        };
        record.set_current(0x101);
        record.set_invalidated(0x102);
        assert!(!record.take_invalidated(0x102) && !record.take_invalidated(0x101));
        record.set_invalidated(0x101);
        // A message that names another variant does not clear the record of the first message.
        record.set_invalidated(0x102);
        assert!(record.take_invalidated(0x101));
        assert!(!record.take_invalidated(0x101));
    }

    #[test]
    fn new_key_clears_the_invalidation_of_the_old_one() {
        let record = KeyRecord {
            base_key: !KEY_VARIANT,
            state: Atomic::new(0),
        };
        record.set_current(u32::MAX);
        record.set_invalidated(u32::MAX);
        record.set_current(u32::MAX - 1);
        assert!(!record.take_invalidated(u32::MAX) && !record.take_invalidated(u32::MAX - 1));
    }
}
