// SPDX-License-Identifier: GPL-2.0

//! Statistics counters that cost a load and a store.

use super::once::{
    read_once,
    write_once, //
};
use kernel::sync::atomic::Atomic;

/// A counter with one writer at a time and any number of readers. It orders no other accesses.
#[repr(transparent)]
pub(crate) struct StatCounter(Atomic<u64>);

impl Default for StatCounter {
    fn default() -> Self {
        Self::new()
    }
}

impl StatCounter {
    /// Makes a counter of 0.
    pub(crate) const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Adds `count`. Callers are serialized: one thread, or the holder of one lock.
    #[inline(always)]
    pub(crate) fn add(&self, count: u64) {
        self.set(self.get().wrapping_add(count));
    }

    /// Subtracts `count`. Callers are serialized as for [`add`](Self::add).
    pub(crate) fn sub(&self, count: u64) {
        self.add(count.wrapping_neg());
    }

    /// Sets the value. Callers are serialized as for [`add`](Self::add).
    #[inline(always)]
    pub(crate) fn set(&self, count: u64) {
        write_once(&self.0, count);
    }

    /// Returns the current value. Any context.
    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        read_once(&self.0)
    }
}
