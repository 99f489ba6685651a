// SPDX-License-Identifier: GPL-2.0

//! How many more completions a queue can take, so that it cannot overrun.

use crate::abi::once::load_acquire;
use kernel::sync::atomic::{
    Atomic,
    Full, //
};

/// Set while a refused poster waits. A release of room or of operations takes the flag and wakes the readers.
pub(crate) struct WaitFlag(Atomic<u32>);

impl WaitFlag {
    /// Returns a flag that is not set.
    pub(crate) fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Sets the flag. Ordered before the poster's last attempt. Any context.
    pub(crate) fn set(&self) {
        let _ = self.0.xchg(1, Full);
    }

    /// Clears the flag, and returns whether it was set. Any context.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        load_acquire(&self.0) != 0 && self.0.xchg(0, Full) != 0
    }
}

/// Room that a poster takes, and that comes back with the completion. Any context; there is no lock.
pub(crate) struct FreeSlots(Atomic<i32>);

impl FreeSlots {
    /// Room for so many, at most `i32::MAX`.
    pub(crate) fn new(size: usize) -> Self {
        Self(Atomic::new(i32::try_from(size).unwrap_or(i32::MAX)))
    }

    /// Takes room for `count`, or for none.
    #[inline]
    pub(crate) fn take(&self, count: u32) -> bool {
        if self.0.fetch_sub(count as i32, Full) >= count as i32 {
            return true;
        }
        self.give(count);
        false
    }

    /// Takes room for `count` that are on their way already.
    pub(crate) fn take_anyway(&self, count: u32) {
        let _ = self.0.fetch_sub(count as i32, Full);
    }

    /// Gives it back.
    #[inline]
    pub(crate) fn give(&self, count: u32) {
        let _ = self.0.fetch_add(count as i32, Full);
    }
}
