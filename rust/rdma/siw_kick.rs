// SPDX-License-Identifier: GPL-2.0

//! Writes of nothing, which have a peer's device look at what has arrived before them: siw may leave the
//! first messages of a connection lying.
//!
//! They are nobody's requests: no consumer hears of them whatever becomes of them, and what room they can
//! take in the device's queues is beside that of the others. They are unsignalled; those that are flushed
//! complete, with a `wr_id` of their own.

use super::{
    device::Device,
    qp::Qp, //
};
use kernel::{
    prelude::*,
    time::Delta, //
};

/// How many an end ever posts.
const MAX_KICKS: u32 = 6;

/// Which no other request has.
pub(crate) const KICK_WR_ID: u64 = 1 << 63;

/// How many an end on `device` ever posts.
pub(crate) fn max_kicks(device: &Device) -> u32 {
    match device.is_siw() {
        true => MAX_KICKS,
        false => 0,
    }
}

/// Those of an end that are still to be posted.
#[derive(Default)]
pub(crate) struct SiwKicks {
    remaining: u32,
}

impl SiwKicks {
    /// All that an end on `device` ever posts.
    pub(crate) fn for_device(device: &Device) -> Self {
        Self {
            remaining: max_kicks(device),
        }
    }

    /// How long to wait before the next: longer and longer, over a second altogether. What is overlooked
    /// is found after at most four times the time that it took the peer to get ready.
    pub(crate) fn next_delay(&self) -> Option<Delta> {
        (self.remaining > 0).then(|| Delta::from_millis(1 << (2 * (MAX_KICKS - self.remaining))))
    }

    /// Posts the next.
    pub(crate) fn post_next(&mut self, qp: &Qp) {
        self.remaining = self.remaining.saturating_sub(1);
        // What the driver has no time for it refuses. The next one is as good.
        let _ = qp.post_empty_write(KICK_WR_ID);
    }
}

#[kunit_tests(kofi_nudge)]
mod tests {
    use super::*;

    #[test]
    fn reach_over_a_second() {
        let pauses = (0..=MAX_KICKS).map_while(|left| {
            SiwKicks {
                remaining: MAX_KICKS - left,
            }
            .next_delay()
        });
        assert_eq!(pauses.clone().count(), MAX_KICKS as usize);
        assert!(pauses.map(|pause| pause.as_millis()).sum::<i64>() > 1000);
    }
}
