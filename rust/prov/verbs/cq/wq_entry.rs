// SPDX-License-Identifier: GPL-2.0

//! The entry of a work queue in the table of its completion queue, and the end of operations: each is
//! retired, and its completion is built.
//!
//! The lock of the completion queue guards all this.

use super::{
    super::{
        cntr::WqCounters,
        wc_backlog::DeferredWc, //
    },
    WakePolicy, //
};
use crate::{
    fi::cq::Completion,
    prov::verbs::prelude::*, //
};

/// Table entry of a work queue that completes here; the alignment keeps it in one cache line.
///
/// # Invariants
///
/// An entry is in the table of the completion queue that `wq` completes in, and in no other; it is
/// used with the lock of that table held. `tail` and `reported_ahead` are the arguments of
/// [`WorkQueue::advance_tail`] and [`WorkQueue::retire_out_of_order`]. `unread` operations before
/// `tail` have completions in the backlog without `retire_on_read`.
#[repr(C, align(32))]
pub(super) struct WqEntry {
    pub(super) wq: Arc<WorkQueue>,
    /// Number of its operations that have been retired, modulo 2^32.
    pub(super) tail: u32,
    /// Number of completions in the backlog that wait for their reader.
    pub(super) unread: u32,
    /// Number of failures that have been reported before the completion of an earlier operation;
    /// see [`WorkQueue::retire_out_of_order`].
    pub(super) reported_ahead: u32,
    /// Set once an operation of a queue that completes out of order has failed; see
    /// [`WorkQueue::completes_out_of_order`].
    pub(super) has_failed: bool,
    /// Set while operations wait for their next work request to be posted.
    pub(super) has_pending_cas: bool,
    /// Selects the completions that wake readers.
    pub(super) wake_policy: WakePolicy,
    /// Counters of its operations, if any are bound.
    pub(super) counters: Option<KBox<WqCounters>>,
}

impl WqEntry {
    /// Returns whether operation `seq` has been retired, which only siw's double reports reach.
    pub(super) fn is_retired(&self, seq: u32) -> bool {
        self.wq.completes_out_of_order && (seq.wrapping_sub(self.tail) as i32) < 0
    }

    /// Releases the slots of retired operations to posters, except as many as have completions that wait for a
    /// reader.
    pub(super) fn publish_tail(&self) {
        // SAFETY: By the type invariant. The slots of operations before `tail` are used no more: what has a completion
        // in the backlog has a copy there. As only so many of them are unread, the difference never decreases.
        unsafe {
            self.wq.publish_tail(self.tail.wrapping_sub(self.unread));
            self.wq.update_drained(self.tail);
        }
    }

    /// Retires the operation of a completion that has a slot, and returns the number of operations retired. Their
    /// slots are not released to posters yet.
    ///
    /// # Safety
    ///
    /// The operation has completed, and has not been retired.
    pub(super) unsafe fn retire(&mut self, wc: &PolledWc) -> u32 {
        if self.wq.completes_out_of_order {
            self.has_failed |= wc.status != WcStatus::SUCCESS;
        }
        // SAFETY: By this function's safety requirement and the type invariant.
        unsafe {
            match self.has_failed {
                true => {
                    self.wq
                        .retire_out_of_order(&mut self.tail, &mut self.reported_ahead, wc.seq())
                }
                false => self.wq.advance_tail(&mut self.tail, wc.seq()),
            }
        }
    }

    /// Ends a silent operation that has a slot, and returns the number of operations retired with it.
    ///
    /// # Safety
    ///
    /// The operation has completed, and has not been retired.
    pub(super) unsafe fn complete_silent(&mut self, wc: &PolledWc, kind: OpKind) -> u32 {
        // SAFETY: By this function's safety requirement.
        let count = unsafe { self.retire(wc) };
        if kind == OpKind::DrainMarker {
            self.wq.complete_marker(wc.seq());
        }
        self.publish_tail();
        // The entry of a marker was reserved by `add_wq`, and stays reserved until `remove_wq`.
        count.wrapping_sub(u32::from(kind == OpKind::DrainMarker))
    }

    /// Prepares the backlog entry of an operation that has a slot, and retires the operation. Its
    /// own entry is released when the completion is read; the entries of silent operations retired
    /// with it are added to `freed`.
    ///
    /// # Safety
    ///
    /// The operation has completed, and has not been retired. The returned completion goes into the
    /// backlog.
    pub(super) unsafe fn defer(
        &mut self,
        wc: PolledWc,
        slot: WrSlot,
        freed: &mut u32,
    ) -> DeferredWc {
        let is_failure = wc.status != WcStatus::SUCCESS;
        // Operations of a queue that completes out of order and has failed are not retired yet: a
        // second report of one would be taken for another operation.
        let is_late = self.wq.completes_out_of_order && (self.has_failed || is_failure);
        if is_late {
            self.has_failed = true;
        } else {
            // SAFETY: By this function's safety requirement.
            let count = unsafe { self.retire(&wc) };
            *freed = freed.wrapping_add(count).wrapping_sub(1);
            // INVARIANT: It goes into the backlog, by this function's safety requirement.
            self.unread += 1;
        }
        self.publish_tail();
        DeferredWc {
            wc,
            slot,
            retire_on_read: is_late,
        }
    }

    /// Ends an operation whose completion in the backlog is being read. Returns the number of
    /// entries released.
    ///
    /// # Safety
    ///
    /// The completion has just been taken out of the backlog, where [`Self::defer`] of this entry
    /// had put it.
    pub(super) unsafe fn release_deferred(&mut self, deferred: &DeferredWc) -> u32 {
        let freed = match deferred.retire_on_read {
            // SAFETY: By this function's safety requirement it was deferred without being retired.
            true => unsafe { self.retire(&deferred.wc) },
            false => {
                // INVARIANT: It has left the backlog, by this function's safety requirement.
                self.unread -= 1;
                1
            }
        };
        self.publish_tail();
        freed
    }

    /// Returns the completion to report for an operation that has a slot.
    pub(super) fn build_completion(
        &self,
        wc: &PolledWc,
        slot: &WrSlot,
    ) -> (Completion, WqDirection) {
        let wq = &*self.wq;
        let direction = wq.direction;
        match wc.status {
            WcStatus::SUCCESS if direction == WqDirection::Receive => {
                wq.record_received(wc.len.into())
            }
            WcStatus::SUCCESS => {}
            _ => wq.record_error(),
        }
        let (flags, buf) = slot.completion_info();
        let mut completion = Completion {
            len: match direction {
                WqDirection::Transmit => 0,
                WqDirection::Receive => wc.len as usize,
            },
            buf,
            ..Completion::new(slot.context, flags)
        };
        set_imm_data(&mut completion, wc.imm);
        (completion, direction)
    }
}

/// Adds the peer's immediate data to a completion.
#[inline(always)]
fn set_imm_data(completion: &mut Completion, imm: ImmData) {
    match imm {
        ImmData::None => {}
        ImmData::Send(data) => {
            completion.flags |= FI_REMOTE_CQ_DATA;
            completion.data = data.into();
        }
        ImmData::Invalidated(key) => {
            completion.flags |= FI_REMOTE_INVALIDATE;
            completion.data = key.into();
        }
        ImmData::Write(data) => {
            // The write has taken a receive, which may be the last piece of a multi-receive buffer.
            let last = completion.flags & FI_MULTI_RECV;
            completion.flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA | last;
            completion.data = data.into();
        }
    }
}

/// Ends a shared receive, and returns the completion to report, if any.
///
/// # Safety
///
/// The completion queue's lock of `queue` is held. The slot is COMPLETED for `queue`, and has not
/// been released.
#[inline(never)]
pub(super) unsafe fn complete_srx(
    queue: &WorkQueue,
    done: &PolledWc,
    slot: u32,
) -> Option<(Completion, WqDirection)> {
    let attachment = queue.srx_attachment()?;
    // SAFETY: By this function's safety requirement.
    let is_reported =
        unsafe { attachment.op_kind(slot) } == OpKind::Reported || !done.may_be_silent();
    // SAFETY: As above.
    let saved = unsafe { attachment.srx.slot(slot) };
    match done.status {
        WcStatus::SUCCESS => queue.record_received(done.len.into()),
        _ => queue.record_error(),
    }
    // SAFETY: By this function's safety requirement; the slot is not used after this.
    unsafe { attachment.srx.release_slot(slot, done.status, done.len) };
    let mut completion = Completion {
        len: done.len as usize,
        source: attachment.source.0 as u64,
        ..Completion::new(saved.context, saved.flags)
    };
    set_imm_data(&mut completion, done.imm);
    is_reported.then_some((completion, queue.direction))
}
