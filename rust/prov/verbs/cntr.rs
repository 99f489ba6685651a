// SPDX-License-Identifier: GPL-2.0

//! Counting of a queue's operations as their completions are polled from the device.
//!
//! The thread that polls a completion, to report it or to move it to the backlog, holds the
//! completion queue's lock, which guards this state. A completion may be seen again when it is read
//! from the backlog; `next_seq` tells.

use super::prelude::*;
use crate::fi::cntr::BoundCounters;
use kernel::sync::Arc;

/// Counters of one queue.
pub(super) struct WqCounters {
    counters: Arc<BoundCounters>,
    /// First operation that has not been counted, modulo 2^32.
    next_seq: u32,
}

impl WqCounters {
    /// Creates the state of a queue that nothing has been posted to.
    pub(super) fn new(counters: Arc<BoundCounters>) -> Self {
        Self {
            counters,
            next_seq: 0,
        }
    }

    /// Counts an operation and the unsignalled ones before it, unless that has been done. `wc` is
    /// passed by value, so that the polling loop can keep it in registers.
    ///
    /// # Safety
    ///
    /// The caller holds the lock of the completion queue in whose table `wq` is, with these
    /// counters. The operation has completed, and has not been retired.
    #[cold]
    pub(super) unsafe fn count_completed(&mut self, wq: &WorkQueue, wc: PolledWc) {
        let last = wc.seq();
        let first = match wq.completes_out_of_order {
            // Each operation has a completion of its own.
            true => last,
            false if (self.next_seq.wrapping_sub(last) as i32) > 0 => return,
            false => self.next_seq,
        };
        let visit = |seq, flags| {
            let Some(counter) = self.counters.counter_for(flags) else {
                return;
            };
            if seq == last && wc.status != WcStatus::SUCCESS {
                counter.add_errors(1);
            } else if seq == last && matches!(wc.imm, ImmData::Write(_)) {
                // The peer's write has taken the receive for its immediate data, without a message.
            } else {
                counter.add(1);
            }
        };
        // SAFETY: By this function's safety requirement; operations before it from `next_seq` on
        // are retired with it.
        unsafe { wq.for_each_completed(first, last, visit) };
        self.next_seq = last.wrapping_add(1);
    }

    /// Counts an operation that has no slot of the queue.
    #[cold]
    pub(super) fn count_one(&mut self, flags: u64, is_success: bool) {
        if let Some(counter) = self.counters.counter_for(flags) {
            match is_success {
                true => counter.add(1),
                false => counter.add_errors(1),
            }
        }
    }
}
