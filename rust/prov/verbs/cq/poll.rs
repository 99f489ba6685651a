// SPDX-License-Identifier: GPL-2.0

//! The state of a completion queue, under its lock: the table of work queues, the backlog, and the
//! handling of polled completions.

use super::{
    super::{
        srx::UnreadSlots,
        wc_backlog::{
            DeferredWc,
            WcBacklog,
            WrOwner, //
        },
    },
    cas::complete_cas,
    wq_entry::{
        complete_srx,
        WqEntry, //
    },
};
use crate::{
    fi::cq::Completion,
    prov::verbs::prelude::*,
    rdma::{
        self,
        cq::WcBatch, //
    },
};
use kernel::rbtree::{
    RBTree,
    RBTreeNode, //
};

/// Number of completions that are polled at a time.
pub(super) const POLL_BATCH: usize = 16;

/// Number of unread completions that are discarded at a time.
pub(super) const DISCARD_BATCH: usize = 8;

/// State of a completion queue. The fields that a read of an empty queue uses come first, in one
/// cache line with the lock.
///
/// # Invariants
///
/// A completion in the backlog was put there by [`CqState::defer_wc`], and its operation has not
/// been ended since. If a completion has `retire_on_read`, its operation has not been retired. If it
/// is of a shared receive, the slot of the receive is COMPLETED.
#[repr(C)]
pub(super) struct CqState {
    /// Set if each post reserves an entry first, because not all completions fit.
    pub(super) is_accounting: bool,
    /// Number of work queues with [`WqEntry::has_pending_cas`].
    pub(super) pending_cas_wqs: u32,
    pub(super) backlog: WcBacklog,
    /// Work queues that complete here; the index is the upper half of a `wr_id`.
    pub(super) wqs: KVec<Option<WqEntry>>,
    /// Maximum number of entries that all work queues need together.
    pub(super) max_entries: usize,
    /// Indices of the work queues that use a shared receive context, by the address of the queue pair
    /// (`struct ib_qp`) that completions name.
    pub(super) srx_qps: RBTree<usize, u32>,
    /// Number of completions lost for want of an entry, including overruns that the driver reports.
    pub(super) overruns: Arc<Atomic<u64>>,
    /// Completions of the last poll, which are too large for the stack of a reader in an interrupt.
    pub(super) batch: KBox<WcBatch<POLL_BATCH>>,
}

/// Returns whether a completion of an operation of that kind writes no completion entry.
#[inline]
fn is_silent(kind: OpKind, wc: &PolledWc) -> bool {
    match kind {
        OpKind::DrainMarker | OpKind::Part => true,
        OpKind::Reported
        | OpKind::Aborted
        | OpKind::MultiRecv
        | OpKind::LastMultiRecv
        | OpKind::Invalidation => false,
        OpKind::Silent | OpKind::SilentInvalidation => wc.may_be_silent(),
    }
}

impl CqState {
    /// Polls one batch in place of a reader, and returns the number of completions. Silent
    /// operations are retired, which adds the entries that they release to `freed`; other
    /// completions go into the backlog.
    pub(super) fn poll_to_backlog(
        &mut self,
        poller: &rdma::cq::CqPoller,
        freed: &mut u32,
    ) -> usize {
        let count = self.batch.poll(poller, POLL_BATCH);
        for at in 0..count {
            // SAFETY: The batch has just been polled, and each of its completions is taken once.
            unsafe {
                if let Some(done) = self.resolve_wc(at) {
                    self.defer_wc(done, freed);
                }
            }
        }
        count
    }

    /// Calls [`Self::poll_to_backlog`] until the device has no more completions.
    pub(super) fn poll_all_to_backlog(&mut self, poller: &rdma::cq::CqPoller, freed: &mut u32) {
        while self.poll_to_backlog(poller, freed) == POLL_BATCH {}
    }

    /// Takes the completion at index `at` of the batch, and returns the completion to handle. Returns
    /// `None` for an operation with a CAS slot that needs another work request or has ended without a
    /// report, and where [`Self::resolve_srx_wc`] does.
    ///
    /// # Safety
    ///
    /// The completion has not been taken since the batch was polled.
    #[inline]
    unsafe fn resolve_wc(&mut self, at: usize) -> Option<PolledWc> {
        let wc = self.batch.completions().get(at)?;
        let (polled, qp) = (PolledWc::new(wc), wc.qp());
        let resolved = match polled.owner() {
            WrOwner::Wq => Some(polled),
            WrOwner::Cas(cell) => self.resolve_cas_wc(polled, cell),
            // SAFETY: By this function's safety requirement.
            WrOwner::Srx(slot) => unsafe { self.resolve_srx_wc(polled, slot, qp) },
        };
        if let ImmData::Invalidated(key) = polled.imm {
            if let Some(wq) = resolved.as_ref().and_then(|wc| self.wq(wc)) {
                wq.set_remotely_invalidated(key);
            }
        }
        resolved
    }

    /// Takes the completion of the shared receive in `slot`: a message to the queue pair `qp` has used
    /// the receive, or the receive was flushed. Returns `None` if no work queue has the queue pair, or
    /// if the slot is not posted.
    ///
    /// # Safety
    ///
    /// The completion has been polled, and has not been passed to this function before.
    #[inline(never)]
    unsafe fn resolve_srx_wc(
        &mut self,
        mut wc: PolledWc,
        slot: u32,
        qp: usize,
    ) -> Option<PolledWc> {
        let index = *self.srx_qps.get(&qp)?;
        let entry = self.wqs.get_mut(index as usize)?.as_mut()?;
        let wq = &*entry.wq;
        let attachment = wq.srx_attachment()?;
        // SAFETY: By this function's safety requirement.
        if !unsafe { attachment.complete_slot(slot) } {
            return None;
        }
        wq.set_received();
        wc.wr_id = WqId::from_index(index).srx_wr_id(slot);
        // SAFETY: `complete_slot` has taken the slot above, and the lock is held.
        wq.trace_completion(&wc, || unsafe { attachment.srx.slot(slot) }.trace_info());
        if let Some(tally) = &mut entry.counters {
            // SAFETY: As above.
            unsafe { attachment.srx.sync_slot_for_cpu(slot) };
            // A write with immediate data takes the receive, but is no message.
            if !matches!(wc.imm, ImmData::Write(_)) {
                tally.count_one(FI_RECV | FI_MSG, wc.status == WcStatus::SUCCESS);
            }
        }
        Some(wc)
    }

    /// Removes the mapping of the queue pair `qp`, if it still leads to the work queue `wq_id`.
    pub(super) fn unmap_srx_qp(
        &mut self,
        qp: usize,
        wq_id: WqId,
    ) -> Option<RBTreeNode<usize, u32>> {
        let index = *self.srx_qps.get(&qp)?;
        match index as usize == wq_id.index() {
            true => self.srx_qps.remove_node(&qp),
            // By now the mapping is another endpoint's.
            false => None,
        }
    }

    fn entry(&mut self, wc: &PolledWc) -> Option<&mut WqEntry> {
        self.wqs.get_mut(wc.wq_id().index())?.as_mut()
    }

    /// Puts a completion into the backlog for a later reader; a silent operation is retired instead, which adds the
    /// entries that it releases to `freed`. A failed completion may be that of an operation or of a part of one.
    ///
    /// # Safety
    ///
    /// [`Self::resolve_wc`] or [`Self::resolve_cas_wc`] has returned `wc`, and it has not been
    /// passed to this function or [`Self::complete_wc`].
    #[cold]
    pub(super) unsafe fn defer_wc(&mut self, wc: PolledWc, freed: &mut u32) {
        let Some(entry) = self.entry(&wc) else {
            // The completion of a siw kick, or of a work queue that has been removed.
            return;
        };
        let waiting = match wc.owner() {
            WrOwner::Wq => {
                // siw reports a read twice if it was started but not sent: `siw_sq_flush()` finds it in two of its
                // queues.
                // SAFETY: By this function's safety requirement, and as it has not been retired.
                if entry.is_retired(wc.seq()) || !unsafe { entry.wq.mark_deferred(wc.seq()) } {
                    return;
                }
                // SAFETY: As above, and it has been marked.
                let Some(wc) = (unsafe { entry.settle_part(wc, freed) }) else {
                    return;
                };
                // SAFETY: As above.
                let slot = unsafe {
                    let is_success = wc.status == WcStatus::SUCCESS;
                    entry.wq.end_invalidation(wc.seq(), is_success);
                    entry.wq.slot(wc.seq())
                };
                entry.wq.trace_completion(&wc, || slot.trace_info());
                if let Some(tally) = &mut entry.counters {
                    // SAFETY: As above; the counters are the queue's.
                    unsafe { tally.count_completed(&entry.wq, wc) };
                }
                entry.wq.set_deferred_end(wc.seq());
                if is_silent(slot.kind, &wc) {
                    // SAFETY: As above.
                    let count = unsafe { entry.complete_silent(&wc, slot.kind) };
                    *freed = freed.wrapping_add(count);
                    return;
                }
                // SAFETY: As above; it is put into the backlog below.
                unsafe { entry.defer(wc, slot, freed) }
            }
            WrOwner::Srx(slot) => {
                let attachment = entry.wq.srx_attachment();
                // SAFETY: `resolve_wc` has taken the slot, and it has not been released; the lock
                // is held.
                let usage =
                    attachment.map_or(OpKind::Silent, |share| unsafe { share.op_kind(slot) });
                if is_silent(usage, &wc) {
                    // SAFETY: As above.
                    let _ = unsafe { complete_srx(&entry.wq, &wc, slot) };
                    return;
                }
                DeferredWc {
                    wc,
                    slot: WrSlot::EMPTY,
                    retire_on_read: false,
                }
            }
            // `resolve_cas_wc` has ended the operations that are silent.
            WrOwner::Cas(_) => DeferredWc {
                wc,
                slot: WrSlot::EMPTY,
                retire_on_read: false,
            },
        };
        if self.backlog.push(waiting).is_err() {
            // The reservation of entries excludes this; it is logged, because a completion is lost.
            let _ = self.overruns.fetch_add(1, Relaxed);
            if let Some(queue) = self.wq(&wc) {
                queue.warn("the completion queue has overrun, a completion is lost");
            }
        }
    }

    /// Takes the oldest completion of the backlog, and returns the completion to report. Adds the
    /// entries that it releases to `freed`.
    pub(super) fn pop_deferred(
        &mut self,
        freed: &mut u32,
    ) -> Option<(Completion, WqDirection, PolledWc)> {
        let waiting = self.backlog.pop()?;
        let wc = waiting.wc;
        let entry = self.entry(&wc)?;
        let (completion, direction) = match wc.owner() {
            WrOwner::Wq => {
                // SAFETY: It was in the backlog; see the type invariant.
                *freed = freed.wrapping_add(unsafe { entry.release_deferred(&waiting) });
                entry.build_completion(&wc, &waiting.slot)
            }
            WrOwner::Cas(cell) => complete_cas(&entry.wq, cell)?,
            // SAFETY: As above.
            WrOwner::Srx(slot) => unsafe { complete_srx(&entry.wq, &wc, slot) }?,
        };
        Some((completion, direction, wc))
    }

    /// Removes up to [`DISCARD_BATCH`] completions of the work queue `wq_id` from the backlog, and
    /// returns their number. Contexts to reclaim go into `contexts`, shared receives into `unread`,
    /// and the number of released entries is added to `freed`.
    pub(super) fn discard_deferred(
        &mut self,
        wq_id: WqId,
        contexts: &mut [Option<Context>; DISCARD_BATCH],
        unread: &mut UnreadSlots,
        freed: &mut u32,
    ) -> usize {
        let mut taken = [None; DISCARD_BATCH];
        let count = self.backlog.take_wq(wq_id, &mut taken);
        let entry = self.wqs.get_mut(wq_id.index()).and_then(Option::as_mut);
        let Some(entry) = entry else {
            return count;
        };
        for (waiting, context) in taken.iter().flatten().zip(contexts) {
            match waiting.wc.owner() {
                WrOwner::Srx(slot) => {
                    if let Some(share) = entry.wq.srx_attachment() {
                        // SAFETY: It was in the backlog; see the type invariant. A work queue
                        // shares the receives of one context, and `unread` is that of
                        // `Cq::remove_wq`.
                        unsafe { share.srx.add_unread(unread, slot) };
                    }
                }
                // Operations that have not been retired are reclaimed with those in flight.
                WrOwner::Wq if !waiting.retire_on_read => {
                    // SAFETY: As above.
                    *freed = freed.wrapping_add(unsafe { entry.release_deferred(waiting) });
                    // The context of a multi-receive buffer is reclaimed with its last piece.
                    if waiting.slot.kind != OpKind::MultiRecv {
                        *context = Some(waiting.slot.context);
                    }
                }
                WrOwner::Wq | WrOwner::Cas(_) => {}
            }
        }
        count
    }

    /// Marks the receive `seq` of `wq`, which receives into the piece from offset `start` on, as the
    /// last one of its multi-receive buffer. Returns false if its completion has been read.
    ///
    /// # Safety
    ///
    /// `seq` has been posted, by the same data call.
    #[cold]
    pub(super) unsafe fn end_multi_recv(&mut self, wq: &WorkQueue, seq: u32, start: usize) -> bool {
        let mut entries = self.wqs.iter().enumerate();
        let is_its = |entry: &WqEntry| core::ptr::eq(&*entry.wq, wq);
        let found = entries.find_map(|(index, entry)| {
            let entry = entry.as_ref().filter(|entry| is_its(entry))?;
            Some((WqId::from_index(index as u32), entry.tail))
        });
        let Some((place, tail)) = found else {
            return false;
        };
        let end = |slot: &mut WrSlot| {
            slot.flags = start as u64;
            slot.kind = OpKind::LastMultiRecv;
        };
        if self.backlog.update_slot(place, seq, end) {
            return true;
        }
        let is_there = tail.wrapping_sub(seq) as i32 <= 0;
        if is_there {
            // SAFETY: By this function's safety requirement, and as it has not been retired; the lock is held.
            unsafe { wq.update_slot(seq, end) };
        }
        is_there
    }

    fn wq(&self, wc: &PolledWc) -> Option<&Arc<WorkQueue>> {
        let entry = self.wqs.get(wc.wq_id().index())?.as_ref()?;
        Some(&entry.wq)
    }

    /// Ends an operation whose completion was just polled, and returns the completion to report, if
    /// any. Adds the entries that it releases to `freed`. The backlog is empty.
    ///
    /// # Safety
    ///
    /// `wc` is a success that [`Self::resolve_wc`] has returned, and has not been passed to this
    /// function or [`Self::defer_wc`].
    #[inline(never)]
    unsafe fn complete_wc(&mut self, wc: &PolledWc, freed: &mut u32) -> Option<Completion> {
        let entry = self.wqs.get_mut(wc.wq_id().index())?.as_mut()?;
        match wc.owner() {
            WrOwner::Wq => {}
            WrOwner::Cas(cell) => return complete_cas(&entry.wq, cell).map(|(comp, _)| comp),
            WrOwner::Srx(slot) => {
                // SAFETY: `resolve_wc` has taken the slot, and it has not been released; the lock
                // is held.
                let comp = unsafe { complete_srx(&entry.wq, wc, slot) };
                return comp.map(|(comp, _)| comp);
            }
        }
        // SAFETY: By this function's safety requirement the operation has not been retired: no device reports a
        // success twice.
        let slot = unsafe {
            entry.wq.end_invalidation(wc.seq(), true);
            entry.wq.slot(wc.seq())
        };
        if slot.kind == OpKind::Aborted {
            // SAFETY: By this function's safety requirement.
            unsafe { self.defer_wc(*wc, freed) };
            return None;
        }
        entry.wq.trace_completion(wc, || slot.trace_info());
        if let Some(tally) = &mut entry.counters {
            // SAFETY: As above; the counters are the queue's.
            unsafe { tally.count_completed(&entry.wq, *wc) };
        }
        if is_silent(slot.kind, wc) {
            // SAFETY: As above.
            *freed = freed.wrapping_add(unsafe { entry.complete_silent(wc, slot.kind) });
            return None;
        }
        // SAFETY: As above.
        *freed = freed.wrapping_add(unsafe { entry.retire(wc) });
        entry.publish_tail();
        let (completion, _) = entry.build_completion(wc, &slot);
        Some(completion)
    }

    /// Returns the entry for the completion at index `at` of the batch, if it is reported now. A
    /// failure goes to the backlog with all reported completions after it, and a silent operation
    /// is only retired.
    ///
    /// # Safety
    ///
    /// The completion has not been taken since the batch was polled.
    #[inline(never)]
    pub(super) unsafe fn complete_one(&mut self, at: usize, freed: &mut u32) -> Option<Completion> {
        // SAFETY: By this function's safety requirement.
        let wc = unsafe { self.resolve_wc(at) }?;
        if !self.backlog.is_empty() || wc.status != WcStatus::SUCCESS {
            // SAFETY: `resolve_wc` has just returned it.
            unsafe { self.defer_wc(wc, freed) };
            return None;
        }
        // SAFETY: As above; it is a success.
        unsafe { self.complete_wc(&wc, freed) }
    }
}
