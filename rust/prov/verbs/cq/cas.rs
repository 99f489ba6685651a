// SPDX-License-Identifier: GPL-2.0

//! Completions of atomic operations that are built from compare-and-swap work requests, and the posting of the next
//! work request of each.
//!
//! The lock of the completion queue guards the state; it is not held while posting.

use super::{
    super::{
        cas_atomic::CasProgress,
        wc_backlog::WrOwner, //
    },
    poll::CqState,
    wq_entry::WqEntry,
    Cq, //
};
use crate::{
    fi::cq::Completion,
    prov::verbs::prelude::*, //
};

impl Cq {
    /// Posts the next work requests of atomic operations that take several. Any context.
    #[cold]
    #[inline(never)]
    pub(super) fn post_cas_steps(&self) {
        let mut at = 0;
        loop {
            let Some(queue) = self.lock_data().next_pending_wq(&mut at) else {
                return;
            };
            if !queue.post_ready_cas(|step| self.fail_cas_step(step)) {
                self.lock_data().requeue_pending_wq(&queue, at);
            }
        }
    }

    /// Fails an atomic operation whose next work request the device has refused, and wakes the readers.
    fn fail_cas_step(&self, wr_id: u64) {
        let mut freed = 0;
        let mut state = self.lock_data();
        state.fail_cas_step(wr_id, &mut freed);
        self.unlock_and_release(state, freed);
        self.interrupts.notify();
    }
}

impl CqState {
    /// Fails the operation of the work request `wr_id` that the device has refused. Adds the
    /// entries that it releases to `freed`.
    pub(super) fn fail_cas_step(&mut self, wr_id: u64, freed: &mut u32) {
        let wc = PolledWc::from_post_error(wr_id);
        if let WrOwner::Cas(cell) = wc.owner() {
            if let Some(done) = self.resolve_cas_wc(wc, cell) {
                // SAFETY: The operation has a CAS slot, and `resolve_cas_wc` has just ended it.
                unsafe { self.defer_wc(done, freed) };
            }
        }
    }

    /// Handles the completion of a work request of the operation in CAS slot `index`. Returns the
    /// completion of the operation; `None` if the operation needs another work request, or has ended
    /// with a success that is not reported.
    #[cold]
    pub(super) fn resolve_cas_wc(&mut self, mut wc: PolledWc, index: u32) -> Option<PolledWc> {
        let entry = self.wqs.get_mut(wc.wq_id().index())?.as_mut()?;
        match entry
            .wq
            .complete_cas_request(index, wc.status == WcStatus::SUCCESS)
        {
            CasProgress::NextRequest => {
                if !core::mem::replace(&mut entry.has_pending_cas, true) {
                    self.pending_cas_wqs += 1;
                }
                return None;
            }
            CasProgress::Contended => wc.status = wc_status::CAS_CONTENDED,
            CasProgress::Done => {}
        }
        let comp = entry.wq.cas_completion(index)?;
        let is_success = wc.status == WcStatus::SUCCESS;
        entry
            .wq
            .trace_completion(&wc, || Some((comp.context, comp.flags)));
        if let Some(tally) = &mut entry.counters {
            tally.count_one(comp.flags, is_success);
        }
        if is_success && !comp.is_reported {
            // No reader ends the operation, because its success is not reported.
            let _ = entry.wq.end_cas_atomic(index);
            return None;
        }
        Some(wc)
    }

    /// Returns the first queue from index `at` on that waits for its next work requests to be posted,
    /// and clears its mark. `at` becomes the index after that of the queue.
    pub(super) fn next_pending_wq(&mut self, at: &mut usize) -> Option<Arc<WorkQueue>> {
        if self.pending_cas_wqs == 0 {
            return None;
        }
        let rest = self.wqs.get_mut(*at..)?;
        let is_waiting =
            |entry: &Option<WqEntry>| entry.as_ref().is_some_and(|entry| entry.has_pending_cas);
        let found = rest.iter().position(is_waiting)?;
        *at += found + 1;
        let entry = rest.get_mut(found)?.as_mut()?;
        entry.has_pending_cas = false;
        self.pending_cas_wqs -= 1;
        Some(entry.wq.clone())
    }

    /// Marks the queue that [`Self::next_pending_wq`] returned last as waiting again. `at` is the index
    /// after that of the queue.
    pub(super) fn requeue_pending_wq(&mut self, wq: &Arc<WorkQueue>, at: usize) {
        let entry = at
            .checked_sub(1)
            .and_then(|at| self.wqs.get_mut(at)?.as_mut());
        if let Some(entry) = entry {
            if Arc::ptr_eq(&entry.wq, wq) && !core::mem::replace(&mut entry.has_pending_cas, true) {
                self.pending_cas_wqs += 1;
            }
        }
    }
}

/// Ends an operation that has a CAS slot, and returns the completion to report.
#[cold]
pub(super) fn complete_cas(wq: &WorkQueue, index: u32) -> Option<(Completion, WqDirection)> {
    let comp = wq.end_cas_atomic(index)?;
    let completion = Completion::new(comp.context, comp.flags);
    Some((completion, wq.direction))
}
