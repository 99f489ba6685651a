// SPDX-License-Identifier: GPL-2.0

//! Posting and completion of the work requests of such operations. Any context; nothing here sleeps
//! or allocates.

use super::{
    operands,
    AtomicComp,
    CasAtomic,
    CasProgress,
    MAX_OP_SIZE,
    WORD_SIZE, //
};
use crate::{
    fi::atomic::Atomic,
    prov::verbs::{
        prelude::*,
        wq::{
            PostTarget,
            ReportPolicy, //
        },
    },
    rdma::dma::PhysRanges, //
};

impl CasAtomic {
    /// Stores the old values in the consumer's memory.
    pub(super) fn store_results(&self) {
        // SAFETY: By the documentation of `results`.
        unsafe { operands::store_results(&self.old_values[..self.len], &self.results) };
    }
}

impl WorkQueue {
    /// Returns whether an operation that takes several work requests is in flight.
    pub(in crate::prov::verbs) fn has_cas_in_flight(&self) -> bool {
        self.cas_atomics
            .as_ref()
            .is_some_and(|cas_atomics| cas_atomics.has_in_flight())
    }

    /// Starts the work item that polls for such operations. May sleep.
    pub(in crate::prov::verbs) fn enable_cas_progress(
        self: &Arc<Self>,
        serial: Option<Arc<BiasedLockList>>,
    ) {
        if let Some(cas_atomics) = &self.cas_atomics {
            cas_atomics.progress.enable(self.clone(), serial);
        }
    }

    /// Stops that work item. May sleep.
    pub(in crate::prov::verbs) fn disable_cas_progress(&self) {
        if let Some(cas_atomics) = &self.cas_atomics {
            cas_atomics.progress.disable();
        }
    }

    /// Starts an operation on the bytes at `target`, which is aligned for its elements.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN without a free slot; -FI_EMSGSIZE for more than [`MAX_OP_SIZE`] bytes; the errors
    /// of [`CasAtomic::load_operands`], and the device's.
    pub(in crate::prov::verbs) fn start_cas_atomic(
        &self,
        atomic: &Atomic<'_>,
        operands: &[Segment],
        target: (RemoteAddr, usize),
        completion: AtomicComp,
        flags: SendFlags,
    ) -> Result {
        let cas_atomics = self.cas_atomics.as_ref().ok_or(Errno::EOPNOTSUPP)?;
        let (_, len) = target;
        if len > MAX_OP_SIZE {
            return Err(Errno::EMSGSIZE);
        }
        let mut new = CasAtomic::new(atomic, target, completion);
        new.load_operands(atomic, operands)?;
        let index = cas_atomics.insert(new)?;
        let op = OpDesc {
            context: completion.context,
            flags: completion.flags,
            len,
            report_policy: ReportPolicy::Always,
        };
        self.trace_post(&op, true);
        self.post_cas_request(index, flags).inspect_err(|errno| {
            self.trace_post_error(&op, *errno);
            let _ = cas_atomics.remove(index);
        })?;
        self.record_cas_atomic(len);
        cas_atomics.progress.schedule();
        Ok(())
    }

    /// Posts the next work request of each operation that waits for that. Returns false if one
    /// could not be posted for now and waits on. `refused` gets the `wr_id` of each work request
    /// that the device refuses for good.
    pub(in crate::prov::verbs) fn post_ready_cas(&self, mut refused: impl FnMut(u64)) -> bool {
        let Some(cas_atomics) = &self.cas_atomics else {
            return true;
        };
        let mut is_done = true;
        for index in cas_atomics.take_ready() {
            match self.post_cas_request(index, SendFlags::default()) {
                Ok(()) => {}
                Err(Errno::EAGAIN | Errno::ENOMEM) => {
                    cas_atomics.set_ready(index);
                    is_done = false;
                }
                // Without a target the operation ends with its queue.
                Err(_) => {
                    // SAFETY: The closure locks nothing.
                    let step =
                        unsafe { self.with_target(|target| Ok(target.wq_id.cas_wr_id(index))) };
                    step.into_iter().for_each(&mut refused);
                }
            }
        }
        is_done
    }

    /// Posts the next work request of an operation. The device's queue always has space for it.
    fn post_cas_request(&self, index: u32, flags: SendFlags) -> Result {
        let cas_atomics = self.cas_atomics.as_ref().ok_or(Errno::EOPNOTSUPP)?;
        let (request, result) = cas_atomics.next_request(index).ok_or(Errno::EOPBADSTATE)?;
        let piece = PhysRanges::new(result, WORD_SIZE)?
            .next()
            .ok_or(Errno::EINVAL)??;
        let post = |target: &PostTarget| {
            // SAFETY: The slot lives as long as the queue, which is closed after its queue pair is
            // gone; it is not accessed otherwise until the device has completed the work request.
            let mapping = unsafe { cas_atomics.pd.dma().map(piece, DataDirection::FromDevice) }?;
            let lkey = cas_atomics.pd.local_dma_lkey();
            let sges = [Sge::new(mapping.addr(), WORD_SIZE as u32, lkey)];
            // Before the post, as the completion may come before it returns.
            cas_atomics.set_mapping(index, mapping);
            let wr_id = target.wq_id.cas_wr_id(index);
            let flags = flags | SendFlag::Signaled;
            let op = WrOp::CmpSwap(request.remote, request.compare, request.swap);
            let wr = SendWr::new(wr_id, &sges, op, flags);
            // SAFETY: As above.
            unsafe { target.qp.post_send(&wr) }.map_err(|error| {
                self.unmap_cas_result(cas_atomics.take_mapping(index));
                wc_status::post_errno(error)
            })
        };
        // SAFETY: The closure locks the slots of the table, and not the queue.
        unsafe { self.with_target(post) }
    }

    fn unmap_cas_result(&self, mapping: Option<DmaMapping>) {
        if let (Some(cas_atomics), Some(mapping)) = (&self.cas_atomics, mapping) {
            // SAFETY: It was mapped there, and its work request has completed, or was not posted.
            unsafe { cas_atomics.pd.dma().unmap(mapping) };
        }
    }

    /// Handles the completion of an operation's work request, successful or not.
    pub(in crate::prov::verbs) fn complete_cas_request(
        &self,
        index: u32,
        is_success: bool,
    ) -> CasProgress {
        let Some(cas_atomics) = &self.cas_atomics else {
            return CasProgress::Contended;
        };
        // Before the result is read: the unmap makes the device's write visible.
        self.unmap_cas_result(cas_atomics.take_mapping(index));
        let progress = cas_atomics.handle_result(index, is_success);
        if progress == CasProgress::NextRequest {
            cas_atomics.set_ready(index);
        }
        progress
    }

    /// Returns the completion data of an operation.
    pub(in crate::prov::verbs) fn cas_completion(&self, index: u32) -> Option<AtomicComp> {
        self.cas_atomics.as_ref()?.completion(index)
    }

    /// Ends an operation when it is reported, or has succeeded without a report: its slot is free
    /// again. Returns its completion data.
    pub(in crate::prov::verbs) fn end_cas_atomic(&self, index: u32) -> Option<AtomicComp> {
        let (completion, mapping) = self.cas_atomics.as_ref()?.remove(index)?;
        self.unmap_cas_result(mapping);
        Some(completion)
    }

    /// Ends all operations, when nothing is posted any more: the consumer's contexts go to
    /// `reclaim`.
    pub(in crate::prov::verbs) fn reclaim_cas_atomics(&self, reclaim: &mut dyn FnMut(Context)) {
        let used = self
            .cas_atomics
            .iter()
            .flat_map(|cas_atomics| cas_atomics.used_slots());
        for completion in used.filter_map(|index| self.end_cas_atomic(index)) {
            reclaim(completion.context);
        }
    }
}
