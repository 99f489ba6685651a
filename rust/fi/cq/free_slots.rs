// SPDX-License-Identifier: GPL-2.0

//! Reservation of completion queue slots, so that a queue cannot overrun.

use crate::{
    fi::prelude::*,
    util::once::load_acquire, //
};

/// A flag that is set while a refused poster waits for a slot. The thread that frees slots or operations
/// clears it and wakes the readers.
pub(crate) struct WaitFlag(Atomic<u32>);

impl WaitFlag {
    /// Returns a flag that is not set.
    pub(crate) fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Sets the flag, with a full barrier before the poster's last attempt. Any context.
    pub(crate) fn set(&self) {
        let _ = self.0.xchg(1, Full);
    }

    /// Clears the flag, and returns whether it was set. Any context.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        load_acquire(&self.0) != 0 && self.0.xchg(0, Full) != 0
    }
}

/// The count of free slots: a poster reserves a slot, which is freed with the completion. Any context; no
/// lock.
pub(crate) struct FreeSlots(Atomic<i32>);

impl FreeSlots {
    /// Returns a count of `size` free slots, at most `i32::MAX`.
    pub(crate) fn new(size: usize) -> Self {
        Self(Atomic::new(i32::try_from(size).unwrap_or(i32::MAX)))
    }

    /// Reserves `count` slots. Returns false, and reserves none, if there are fewer.
    #[inline]
    pub(crate) fn try_reserve(&self, count: u32) -> bool {
        if self.0.fetch_sub(count as i32, Full) >= count as i32 {
            return true;
        }
        self.release(count);
        false
    }

    /// Reserves `count` slots for operations that are already posted. The count may become negative.
    pub(crate) fn reserve_posted(&self, count: u32) {
        let _ = self.0.fetch_sub(count as i32, Full);
    }

    /// Frees `count` slots.
    #[inline]
    pub(crate) fn release(&self, count: u32) {
        let _ = self.0.fetch_add(count as i32, Full);
    }
}
