// SPDX-License-Identifier: GPL-2.0

//! Writes of nothing, which have a peer's device look at what has arrived before them.
//!
//! They are no operations: they have no slot, no consumer hears of them whatever becomes of them, and
//! what room they can take in the device's queues is beside that of the operations. They are
//! unsignalled; those that are flushed complete, with a `wr_id` that leads no reader to a queue.

use crate::rdma::device::Device;
use kernel::{
    prelude::*,
    time::Delta, //
};

/// How many an endpoint ever posts.
const NUDGES: u32 = 6;

/// The upper half is a place that no table of queues has.
pub(super) const WR_ID: u64 = 1 << 63;

/// How many an endpoint of `device` ever posts.
pub(super) fn most_on(device: &Device) -> u32 {
    match device.is_siw() {
        true => NUDGES,
        false => 0,
    }
}

/// How long to wait before each: longer and longer, over a second altogether. What is overlooked is
/// found after at most four times the time that it took the peer to get ready.
pub(super) fn pauses() -> impl Iterator<Item = Delta> {
    (0..NUDGES).map(|round| Delta::from_millis(1 << (2 * round)))
}

#[kunit_tests(kofi_verbs_nudge)]
mod tests {
    use super::*;
    use crate::prov::verbs::backlog::Place;

    #[test]
    fn reach_over_a_second() {
        assert_eq!(pauses().count(), NUDGES as usize);
        assert!(pauses().map(|pause| pause.as_millis()).sum::<i64>() > 1000);
    }

    #[test]
    fn belong_to_no_queue() {
        assert!(Place::of(WR_ID).index() > i32::MAX as usize);
    }
}
