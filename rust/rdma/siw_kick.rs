// SPDX-License-Identifier: GPL-2.0

//! Zero-length RDMA writes to a siw peer: siw may leave the first messages of a connection
//! unprocessed until another message arrives.
//!
//! No consumer gets a completion of these writes, and queues are sized for them in addition to
//! other requests. They are unsignalled; a flushed one completes with [`KICK_WR_ID`].

use super::{
    device::Device,
    qp::Qp, //
};
use kernel::{
    prelude::*,
    time::Delta, //
};

/// Limit of the writes that one endpoint posts.
const MAX_KICKS: u32 = 6;

/// Work request id that no other request has.
pub(crate) const KICK_WR_ID: u64 = 1 << 63;

/// Returns the limit of the writes that an endpoint on `device` posts.
pub(crate) fn max_kicks(device: &Device) -> u32 {
    match device.is_siw() {
        true => MAX_KICKS,
        false => 0,
    }
}

/// Counter of the writes that an endpoint has still to post.
#[derive(Default)]
pub(crate) struct SiwKicks {
    remaining: u32,
}

impl SiwKicks {
    /// Returns the full count for an endpoint on `device`.
    pub(crate) fn for_device(device: &Device) -> Self {
        Self {
            remaining: max_kicks(device),
        }
    }

    /// Returns the delay before the next write, or `None` after the last. Delays grow fourfold, to
    /// over a second in all: a message left unprocessed is found after at most four times the time
    /// that the peer took to get ready.
    pub(crate) fn next_delay(&self) -> Option<Delta> {
        (self.remaining > 0).then(|| Delta::from_millis(1 << (2 * (MAX_KICKS - self.remaining))))
    }

    /// Posts the next write.
    pub(crate) fn post_next(&mut self, qp: &Qp) {
        self.remaining = self.remaining.saturating_sub(1);
        // The driver may refuse the write; the next one has the same effect.
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
