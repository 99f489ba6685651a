// SPDX-License-Identifier: GPL-2.0

//! How many more completions a queue can take, so that it cannot overrun.

use kernel::sync::atomic::{
    Atomic,
    Full, //
};

/// Room that whoever posts takes, and that is given back with the completion. Any context; there is no
/// lock.
pub(crate) struct Room(Atomic<i32>);

impl Room {
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
