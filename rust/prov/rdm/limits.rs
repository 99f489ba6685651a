// SPDX-License-Identifier: GPL-2.0

//! How many connections an endpoint has, and what its consumer may set of them.

use super::traffic::{
    LANES,
    MOST_LANES, //
};
use crate::fi::prelude::*;

/// After how many milliseconds a connection is closed that nobody uses, unless the consumer says otherwise.
const IDLE: usize = 60_000;

/// More milliseconds than anybody waits.
const LONGEST: usize = i32::MAX as usize;

/// See the module.
pub(super) struct Limits {
    /// Those that there are, whose mutex whoever changes that has.
    open: Atomic<usize>,
    connections: Atomic<usize>,
    idle: Atomic<usize>,
}

impl Limits {
    /// Those of an endpoint of which nobody has set anything.
    pub(super) const fn new() -> Self {
        Self {
            open: Atomic::new(0),
            connections: Atomic::new(MOST_LANES),
            idle: Atomic::new(IDLE),
        }
    }

    /// How many connections there are, those included that are being made. Any context.
    pub(super) fn open(&self) -> usize {
        self.open.load(Relaxed)
    }

    /// There is one more; false if there is no room whatever the consumer says.
    pub(super) fn begin(&self) -> bool {
        let open = self.open();
        let has_room = open < LANES;
        self.open.store(open + usize::from(has_room), Relaxed);
        has_room
    }

    /// There is one less.
    pub(super) fn end(&self) {
        self.open.store(self.open().saturating_sub(1), Relaxed);
    }

    /// Whether there are no more to be, where there is to be room for so many others.
    pub(super) fn are_reached(&self, others: usize) -> bool {
        self.open() + others >= self.connections()
    }

    /// How many connections it has at once, at most. Any context.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Relaxed)
    }

    /// So many, from now on: no more are made while there are as many. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for none, or more than there can be.
    pub(super) fn set_connections(&self, most: usize) -> Result {
        if !(1..=MOST_LANES).contains(&most) {
            return Err(Errno::EINVAL);
        }
        self.connections.store(most, Relaxed);
        Ok(())
    }

    /// After how many milliseconds a connection is closed that nobody uses; 0 for never. Any context.
    pub(super) fn idle_millis(&self) -> usize {
        self.idle.load(Relaxed)
    }

    /// The same, if there is such a time.
    pub(super) fn idle(&self) -> Option<Delta> {
        match self.idle_millis() {
            0 => None,
            millis => Some(Delta::from_millis(millis as i64)),
        }
    }

    /// After so many, from the next time on that somebody looks. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for more than 2^31 - 1.
    pub(super) fn set_idle_millis(&self, millis: usize) -> Result {
        if millis > LONGEST {
            return Err(Errno::EINVAL);
        }
        self.idle.store(millis, Relaxed);
        Ok(())
    }
}
