// SPDX-License-Identifier: GPL-2.0

//! Completions of operations that have several work requests. The lock of the completion queue guards all this.

use super::wq_entry::WqEntry;
use crate::prov::verbs::prelude::*;

impl WqEntry {
    /// Takes the completion of a work request that has a slot. Returns the completion of its operation, perhaps of
    /// another work request that has waited for this one; None if the operation has not completed. Adds the entries of
    /// a part to `freed`.
    ///
    /// # Safety
    ///
    /// The work request has completed, has been marked with [`WorkQueue::mark_deferred`], and has not been retired.
    #[cold]
    pub(super) unsafe fn settle_part(&mut self, wc: PolledWc, freed: &mut u32) -> Option<PolledWc> {
        // SAFETY: By this function's safety requirement.
        let slot = unsafe { self.wq.slot(wc.seq()) };
        let is_failure = wc.status != WcStatus::SUCCESS;
        match slot.kind {
            OpKind::Part => {
                let last = slot.flags as u32;
                if is_failure {
                    self.wq.set_part_failure(last, wc.status);
                }
                if let Some(counters) = &mut self.counters {
                    // SAFETY: As above; the counters are the queue's.
                    unsafe { counters.count_completed(&self.wq, wc) };
                }
                self.wq.set_deferred_end(wc.seq());
                // SAFETY: As above.
                *freed = freed.wrapping_add(unsafe { self.complete_silent(&wc, slot.kind) });
                // SAFETY: An early last work request has been posted, and is not retired before it is reported.
                let is_over = self.wq.is_early_last(last)
                    && unsafe { self.wq.are_parts_done(self.tail, last) };
                is_over.then(|| PolledWc {
                    wr_id: wc.wq_id().wr_id(last),
                    status: self.wq.operation_status(last, wc.status),
                    ..wc
                })
            }
            OpKind::Aborted if !is_failure => Some(PolledWc {
                status: WcStatus::GENERAL_ERR,
                ..wc
            }),
            _ if !is_failure => Some(wc),
            _ => {
                // SAFETY: As above.
                let is_early = self.wq.completes_out_of_order
                    && !unsafe { self.wq.are_parts_done(self.tail, wc.seq()) };
                if is_early {
                    self.has_failed = true;
                    self.wq.set_early_last(wc.seq());
                    return None;
                }
                Some(PolledWc {
                    status: self.wq.operation_status(wc.seq(), wc.status),
                    ..wc
                })
            }
        }
    }
}
