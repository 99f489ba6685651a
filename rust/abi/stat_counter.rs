// SPDX-License-Identifier: GPL-2.0

//! What costs a load and a store to count.

use super::once::{
    read_once,
    write_once, //
};
use kernel::sync::atomic::Atomic;

/// A number that one at a time changes and others look at. It orders nothing else.
#[repr(transparent)]
pub(crate) struct StatCounter(Atomic<u64>);

impl Default for StatCounter {
    fn default() -> Self {
        Self::new()
    }
}

impl StatCounter {
    /// Nothing.
    pub(crate) const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Adds to it. No two callers at once: one thread, or who holds one lock.
    #[inline(always)]
    pub(crate) fn add(&self, count: u64) {
        self.set(self.get().wrapping_add(count));
    }

    /// Takes from it what was added. As [`add`](Self::add).
    pub(crate) fn take(&self, count: u64) {
        self.add(count.wrapping_neg());
    }

    /// Makes it another one. As [`add`](Self::add).
    #[inline(always)]
    pub(crate) fn set(&self, count: u64) {
        write_once(&self.0, count);
    }

    /// As it is now. Any context.
    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        read_once(&self.0)
    }
}
