// SPDX-License-Identifier: GPL-2.0

//! Parts: the work requests of an operation that has several, except the last one, which has the operation's context.
//!
//! A part is never reported. When one fails, the first failure is kept for the last work request, whose completion
//! reports it: the memory of the operation is then not accessed any more. On a queue that completes out of order, the
//! last work request may complete before a part; its report then waits for that part.
//!
//! The fields are changed under the completion queue's lock. The queue pair is in error after a failure, and takes no
//! further operation, so one record of each kind suffices.

use crate::prov::verbs::prelude::*;

/// Bit of the fields of [`PartFailure`] that is set if there is a value.
const IS_SET: u64 = 1 << 63;

/// Failure of a part.
pub(super) struct PartFailure {
    /// Status code of the first failure in bits 32 to 62, and sequence number of the last work request of its
    /// operation.
    first: Atomic<u64>,
    /// Sequence number of a last work request that has failed before a part of its operation has completed.
    early: Atomic<u64>,
}

impl PartFailure {
    pub(super) const fn new() -> Self {
        Self {
            first: Atomic::new(0),
            early: Atomic::new(0),
        }
    }
}

impl WorkQueue {
    /// Records that a part of the operation whose last work request is `last` has failed.
    #[cold]
    pub(in crate::prov::verbs) fn set_part_failure(&self, last: u32, status: WcStatus) {
        let first = &self.part_failure.first;
        if first.load(Relaxed) & IS_SET == 0 {
            let code = u64::from(status.code() & (u32::MAX >> 1));
            first.store(IS_SET | code << 32 | u64::from(last), Relaxed);
        }
    }

    /// Returns the status of the operation whose last work request is `last`, which has failed with `status`.
    pub(in crate::prov::verbs) fn operation_status(&self, last: u32, status: WcStatus) -> WcStatus {
        let first = self.part_failure.first.load(Relaxed);
        match first & IS_SET != 0 && first as u32 == last {
            true => WcStatus::from_code(((first & !IS_SET) >> 32) as u32),
            false => status,
        }
    }

    /// Records that the last work request `last` has failed before a part of its operation has completed.
    pub(in crate::prov::verbs) fn set_early_last(&self, last: u32) {
        self.part_failure
            .early
            .store(IS_SET | u64::from(last), Relaxed);
    }

    /// Returns whether [`Self::set_early_last`] has been called for `last`.
    pub(in crate::prov::verbs) fn is_early_last(&self, last: u32) -> bool {
        self.part_failure.early.load(Relaxed) == IS_SET | u64::from(last)
    }

    /// Returns whether all parts of the operation whose last work request is `last` have completed.
    ///
    /// # Safety
    ///
    /// The caller holds the completion queue's lock; `last` has been posted and has not been retired, and `tail`
    /// operations have been retired.
    pub(in crate::prov::verbs) unsafe fn are_parts_done(&self, tail: u32, last: u32) -> bool {
        let mut seq = last;
        loop {
            seq = seq.wrapping_sub(1);
            if (seq.wrapping_sub(tail) as i32) < 0 {
                return true;
            }
            // SAFETY: By this function's safety requirement: `seq` has not been retired and was posted before `last`.
            let slot = unsafe { self.slot(seq) };
            if slot.kind != OpKind::Part || slot.flags as u32 != last {
                return true;
            }
            if !slot.is_deferred && !slot.is_reported {
                return false;
            }
        }
    }
}
