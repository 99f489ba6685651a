// SPDX-License-Identifier: GPL-2.0

//! Reservation of a slot for a post: [`WorkQueue::reserve`] locks the queue and takes the slot,
//! [`ReservedSlot::finish`] keeps or releases the slot, and unlocks.
//!
//! [`WorkQueue::reserve_fast`] is the fast path, which most posts take. It is enabled while the
//! queue has a target, the endpoint is connected and neither direction is shut down, the completion
//! queue is bound without FI_SELECTIVE_COMPLETION and has space for all completions, and, on iWARP,
//! no read has been posted. Each condition that does not hold adds a revocation to the
//! [`BiasedLock`](crate::util::biased_lock::BiasedLock) `producer`, as control calls do, so that a
//! post checks a single number. The function has two instances: the one for consumers that
//! serialize their data calls skips the lock, and the other one takes it. A post that finds the fast
//! path disabled, or has to be traced, reserves its slot by [`WorkQueue::reserve`].

use super::{
    PostTarget,
    Producer,
    ReportPolicy,
    StatKind,
    WrTemplate, //
};
use crate::{
    abi::flags::FI_READ,
    prov::verbs::{
        prelude::*,
        sge::InjectBuf, //
    },
    rdma::wr_template::{
        RecvTemplate,
        SendTemplate, //
    },
};
use core::hint::unreachable_unchecked;

/// Resources of the slot for a post whose memory has to be mapped or copied.
pub(in crate::prov::verbs) struct PostResources<'a> {
    /// Queue pair to post to.
    pub(in crate::prov::verbs) qp: &'a Qp,
    /// Storage for the mappings of the operation's memory, which are unmapped when the operation completes.
    pub(in crate::prov::verbs) mappings: &'a mut [Option<DmaMapping>],
    /// Buffer for injected data, which belongs to the operation until it completes; `None` if the
    /// device takes injected data inline.
    pub(in crate::prov::verbs) inject_buf: Option<InjectBuf<'a>>,
}

/// A reserved slot, which has been filled; its sequence number is taken, and the operation is
/// counted. The queue is locked until [`Self::finish`] or [`Self::finish_fast`], one of which has to
/// be called.
///
/// # Invariants
///
/// `target` points to the target of `producer`, which is locked.
pub(in crate::prov::verbs) struct ReservedSlot<'a> {
    /// Queue of the slot.
    pub(in crate::prov::verbs) wq: &'a WorkQueue,
    producer: BiasedGuard<'a, Producer>,
    target: NonNull<PostTarget>,
    /// `wr_id` of the work request.
    pub(in crate::prov::verbs) wr_id: u64,
    /// Set if the work request has to be signalled.
    pub(in crate::prov::verbs) is_signalled: bool,
    is_silent: bool,
    stat_kind: StatKind,
    has_cq_entry: bool,
}

impl<'a> ReservedSlot<'a> {
    #[inline]
    fn target(&self) -> &PostTarget {
        // SAFETY: By the type invariant `target` is valid, and nothing changes it while the lock is held.
        unsafe { self.target.as_ref() }
    }

    /// Returns the queue pair to post to.
    #[inline]
    pub(in crate::prov::verbs) fn qp(&self) -> &Qp {
        &self.target().qp
    }

    /// Returns the prepared work request of a send queue.
    ///
    /// # Safety
    ///
    /// [`WorkQueue::reserve_fast`] of a send queue has returned the slot.
    #[inline(always)]
    pub(in crate::prov::verbs) unsafe fn send_template(&mut self) -> &mut SendTemplate {
        // SAFETY: By the type invariant `target` is valid, and the lock makes this its only user.
        // `set_target` disables the fast path of a queue whose template has the other direction.
        unsafe {
            match &mut self.target.as_mut().template {
                WrTemplate::Send(template) => template,
                WrTemplate::Recv(_) => unreachable_unchecked(),
            }
        }
    }

    /// Returns the prepared work request of a receive queue.
    ///
    /// # Safety
    ///
    /// [`WorkQueue::reserve_fast`] of a receive queue has returned the slot.
    #[inline(always)]
    pub(in crate::prov::verbs) unsafe fn recv_template(&mut self) -> &mut RecvTemplate {
        // SAFETY: As in `send_template`.
        unsafe {
            match &mut self.target.as_mut().template {
                WrTemplate::Recv(template) => template,
                WrTemplate::Send(_) => unreachable_unchecked(),
            }
        }
    }

    /// Returns whether an earlier RDMA read may still be in flight.
    #[inline]
    pub(in crate::prov::verbs) fn follows_read(&self) -> bool {
        let tail = self.producer.free_end.wrapping_sub(self.wq.depth);
        self.producer.read_end.wrapping_sub(tail) as i32 > 0
    }

    /// Returns the resources of the slot.
    pub(in crate::prov::verbs) fn resources(&mut self) -> PostResources<'_> {
        let ring = &self.wq.ring;
        let index = ring.index(self.producer.next_seq.wrapping_sub(1));
        let inject_bufs = self.producer.inject_bufs.as_ref();
        PostResources {
            qp: self.qp(),
            // SAFETY: The slot is ours; see `WorkQueue::take_slot`.
            mappings: unsafe { ring.slot_mappings(index) },
            // SAFETY: As above.
            inject_buf: inject_bufs.map(|bufs| unsafe { InjectBuf::new(bufs.slot(index)) }),
        }
    }

    /// Posts an empty RDMA write in place of a work request of an operation that fails. With
    /// `is_last`, the write is the last work request, and the operation fails when it completes.
    #[cold]
    pub(in crate::prov::verbs) fn post_aborted(&mut self, is_last: bool) -> Result {
        if is_last {
            let seq = self.producer.next_seq.wrapping_sub(1);
            // SAFETY: The slot is ours; see `WorkQueue::take_slot`.
            unsafe { self.wq.ring.update(seq, |slot| slot.kind = OpKind::Aborted) };
            self.is_signalled = true;
            self.is_silent = false;
        }
        // The fence orders the write behind RDMA reads of the operation, even on siw.
        let mut flags = SendFlags::from(SendFlag::Fence);
        if self.is_signalled {
            flags |= SendFlag::Signaled;
        }
        let posted = self.qp().post_empty_write(self.wr_id, flags);
        posted.map_err(wc_status::post_errno)
    }

    /// Ends the post; `posted` is the result of the driver's call, which is returned.
    #[inline(always)]
    pub(in crate::prov::verbs) fn finish(self, op: &OpDesc, posted: Result) -> Result {
        self.finish_one(op, posted).1
    }

    /// Ends the post like [`Self::finish`], and also returns the lock guard, for the next post.
    #[inline(always)]
    pub(super) fn finish_one(
        mut self,
        op: &OpDesc,
        posted: Result,
    ) -> (BiasedGuard<'a, Producer>, Result) {
        match posted {
            // The reserved completion queue entry, if any, now belongs to the completion.
            Ok(()) => {
                self.commit();
                let producer = &mut *self.producer;
                // A drain marker may have taken the additional slot, which is at `free_end`.
                if producer.free_end == producer.next_seq.wrapping_sub(1) {
                    producer.free_end = producer.next_seq;
                }
                if op.flags & FI_READ != 0 {
                    producer.read_end = producer.next_seq;
                }
            }
            Err(errno) => self.undo(op, errno),
        }
        (self.producer, posted)
    }

    /// Ends a post of [`WorkQueue::reserve_fast`]; `posted` is the result of the driver's call.
    #[inline(always)]
    pub(in crate::prov::verbs) fn finish_fast(mut self, posted: &kernel::error::Result) {
        match posted {
            Ok(()) => self.commit(),
            Err(_) => undo_fast(self.wq, &mut self.producer, self.stat_kind),
        }
    }

    /// Updates the run of unsignalled operations after the post of a silent one. No effect for other
    /// operations.
    #[inline(always)]
    fn commit(&mut self) {
        if !self.is_silent {
            return;
        }
        let producer = &mut *self.producer;
        producer.unsignalled = match self.is_signalled {
            true => 0,
            false => producer.unsignalled_before(producer.next_seq.wrapping_sub(1)) + 1,
        };
        producer.silent_end = producer.next_seq;
    }

    /// Releases the slot and the completion queue entry after a failed post, and traces the error.
    #[cold]
    fn undo(&mut self, op: &OpDesc, errno: Errno) {
        self.wq.trace_post_error(op, errno);
        if self.has_cq_entry {
            self.target().cq.release_entries(1);
        }
        self.wq
            .return_slot(&mut self.producer, self.stat_kind, op.len);
    }
}

/// Releases the slot of [`WorkQueue::reserve_fast`] after a failed post. The length is read from the
/// template, so that the caller need not keep it in a register.
#[cold]
fn undo_fast(wq: &WorkQueue, producer: &mut Producer, kind: StatKind) {
    let len = match producer.target.as_ref().map(|target| &target.template) {
        Some(WrTemplate::Send(template)) => template.len() as usize,
        Some(WrTemplate::Recv(_)) | None => 0,
    };
    wq.return_slot(producer, kind, len);
}

impl Producer {
    /// Returns the target, which stays valid and unchanged as long as the queue is locked.
    #[inline(always)]
    fn target(&mut self) -> Result<NonNull<PostTarget>> {
        match &mut self.target {
            Some(target) => Ok(target.into()),
            None => Err(Errno::EOPBADSTATE),
        }
    }

    /// Returns whether the silent operation `seq` has to be signalled: the last `max_unsignalled`
    /// operations are not, or `seq` takes the last slot known to be free. Only the completion of a
    /// signalled operation releases slots.
    #[inline(always)]
    pub(super) fn is_signal_due(&self, seq: u32) -> bool {
        self.unsignalled_before(seq) >= self.max_unsignalled || seq.wrapping_add(1) == self.free_end
    }

    /// Returns the number of operations before `seq` that were posted unsignalled since the last
    /// signalled one.
    #[inline(always)]
    pub(super) fn unsignalled_before(&self, seq: u32) -> u32 {
        match self.silent_end == seq {
            true => self.unsignalled,
            false => 0,
        }
    }
}

impl WorkQueue {
    /// Reserves a slot on the fast path for an operation of `len` bytes, whose completion has
    /// `flags`. Returns None, without any effect, if the fast path is disabled, posts are traced, or
    /// the queue looks full. `LOCKS` selects the instance for data calls that the consumer does not
    /// serialize, which takes the lock.
    ///
    /// # Safety
    ///
    /// The requirements of [`Self::reserve`] hold.
    #[inline(always)]
    pub(in crate::prov::verbs) unsafe fn reserve_fast<const LOCKS: bool>(
        &self,
        context: Context,
        (flags, len): (u64, usize),
        kind: OpKind,
    ) -> Option<ReservedSlot<'_>> {
        if trace::posts() {
            return None;
        }
        let mut producer = match LOCKS {
            // SAFETY: By this function's safety requirement.
            false => unsafe { self.producer.enter_biased() },
            true => self.producer.lock_fast(),
        }?;
        if producer.next_seq == producer.free_end {
            return None;
        }
        // SAFETY: Without a target (`new`, `take_target`) the bias is revoked, and no guard is returned.
        let target = NonNull::from(unsafe { producer.target.as_mut().unwrap_unchecked() });
        let is_signalled = kind != OpKind::Silent || producer.is_signal_due(producer.next_seq);
        let slot = WrSlot {
            context,
            flags,
            kind,
            is_deferred: false,
            is_reported: false,
        };
        let counted = (StatKind::from_flags(flags), len);
        // SAFETY: `free_end` shows the slot to be free.
        Some(unsafe { self.take_slot(producer, target, slot, counted, (is_signalled, false)) })
    }

    /// Reserves a slot for an operation; the queue is locked as long as the returned object exists.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN if the queue or its completion queue is full, -FI_EOPBADSTATE without a target.
    ///
    /// # Safety
    ///
    /// The call is made for a data call, or the caller has an [`ExclusiveGuard`] of the domain. The
    /// caller does not lock the queue before it has ended the post.
    ///
    /// [`ExclusiveGuard`]: crate::util::biased_lock::ExclusiveGuard
    #[inline(always)]
    pub(in crate::prov::verbs) unsafe fn reserve(&self, op: &OpDesc) -> Result<ReservedSlot<'_>> {
        self.reserve_locked(self.lock_data(), op, false)
    }

    /// Reserves a slot like [`Self::reserve`]; with `has_entry` an entry of the completion queue has
    /// been reserved before.
    #[inline(always)]
    pub(super) fn reserve_locked<'a>(
        &'a self,
        mut producer: BiasedGuard<'a, Producer>,
        op: &OpDesc,
        has_entry: bool,
    ) -> Result<ReservedSlot<'a>> {
        let is_marker = op.report_policy == ReportPolicy::DrainMarker;
        let mut target = producer.target()?;
        let has_cq_entry = match self.find_slot(&mut producer, is_marker, has_entry) {
            Some(has_cq_entry) => has_cq_entry,
            None => {
                let has_cq_entry;
                (producer, has_cq_entry) = self.find_slot_slow(producer, is_marker)?;
                target = producer.target()?;
                has_cq_entry
            }
        };
        // SAFETY: `target` points to the target of `producer`, which is locked.
        let kind = unsafe { target.as_ref() }.op_kind(op.report_policy);
        let is_signalled = kind.needs_signal()
            || producer.is_signal_due(producer.next_seq)
            // The operation holds a completion queue entry until it is retired, and other queues may
            // need that entry.
            || producer.is_accounting;
        let slot = WrSlot {
            context: op.context,
            flags: match (kind, op.report_policy) {
                (
                    OpKind::MultiRecv | OpKind::LastMultiRecv,
                    ReportPolicy::MultiRecv { start, .. },
                ) => start as u64,
                (OpKind::Part, ReportPolicy::Part { later }) => {
                    producer.next_seq.wrapping_add(later).into()
                }
                _ => op.flags,
            },
            kind,
            is_deferred: false,
            is_reported: false,
        };
        let counted = (op.stat_kind(), op.len);
        let signal = (is_signalled, has_cq_entry);
        // SAFETY: `tail` shows the slot to be free.
        let reserved = unsafe { self.take_slot(producer, target, slot, counted, signal) };
        self.trace_post(op, is_signalled);
        Ok(reserved)
    }

    /// Fills the next slot, takes its sequence number and counts the operation.
    ///
    /// # Safety
    ///
    /// The next slot is free, and `target` is that of `producer`, which is of this queue.
    #[inline(always)]
    unsafe fn take_slot<'a>(
        &'a self,
        mut producer: BiasedGuard<'a, Producer>,
        target: NonNull<PostTarget>,
        slot: WrSlot,
        (stat_kind, len): (StatKind, usize),
        (is_signalled, has_cq_entry): (bool, bool),
    ) -> ReservedSlot<'a> {
        let seq = producer.next_seq;
        // SAFETY: By this function's safety requirement `target` is valid, and the lock is held.
        let wr_id = unsafe { target.as_ref() }.wq_id.wr_id(seq);
        // SAFETY: The slot is ours: the queue is locked, and the slot is free by this function's
        // safety requirement.
        unsafe { self.ring.fill(seq, slot) };
        // `return_slot` undoes this if the post fails; nothing reads it before, as the queue is locked.
        // `next_seq` is read again, so that `seq` need not stay in a register.
        producer.next_seq = producer.next_seq.wrapping_add(1);
        self.post_stats.record_post(stat_kind, len);
        // INVARIANT: By this function's safety requirement.
        ReservedSlot {
            wq: self,
            producer,
            target,
            wr_id,
            is_signalled,
            is_silent: slot.kind.is_silent(),
            stat_kind,
            has_cq_entry,
        }
    }

    /// Undoes [`Self::take_slot`]: the next post gets the slot and its sequence number.
    fn return_slot(&self, producer: &mut Producer, kind: StatKind, len: usize) {
        producer.next_seq = producer.next_seq.wrapping_sub(1);
        self.post_stats.undo_post(kind, len);
    }

    /// Finds a free slot, and reserves an entry of the completion queue if entries are counted and
    /// the caller has none. Returns whether the operation has a reserved entry; None if no slot or
    /// no entry is free.
    #[inline(always)]
    fn find_slot(&self, producer: &mut Producer, is_marker: bool, has_entry: bool) -> Option<bool> {
        if producer.next_seq == producer.free_end {
            let used = producer.next_seq.wrapping_sub(self.tail.load(Acquire));
            producer.free_end = producer
                .next_seq
                .wrapping_add(self.depth.saturating_sub(used));
            // The additional slot is for the drain marker.
            if used >= self.depth + u32::from(is_marker) {
                return None;
            }
        }
        if has_entry {
            return Some(true);
        }
        // The entry of a drain marker was reserved by `Cq::add_wq`.
        if !producer.is_accounting || is_marker {
            return Some(false);
        }
        producer
            .target
            .as_ref()?
            .cq
            .reserve_entries(1)
            .then_some(true)
    }

    /// Finds a slot when [`Self::find_slot`] has returned None: retires silent operations, and tries
    /// again.
    #[cold]
    fn find_slot_slow<'a>(
        &'a self,
        producer: BiasedGuard<'a, Producer>,
        is_marker: bool,
    ) -> Result<(BiasedGuard<'a, Producer>, bool)> {
        let (mut producer, cq) = self.retire_silent(producer)?;
        let mut has_cq_entry = self.find_slot(&mut producer, is_marker, false);
        if has_cq_entry.is_none() && producer.is_accounting {
            cq.set_entry_waiter();
            has_cq_entry = self.find_slot(&mut producer, is_marker, false);
        }
        match has_cq_entry {
            Some(has_cq_entry) => Ok((producer, has_cq_entry)),
            None => {
                drop(producer);
                Err(self.reject_full(&cq))
            }
        }
    }

    /// Polls the completion queue if silent operations may hold slots or entries: a consumer need not
    /// read the queue for them. Unlocks the work queue meanwhile. Returns the lock guard and the
    /// completion queue.
    #[cold]
    pub(super) fn retire_silent<'a>(
        &'a self,
        mut producer: BiasedGuard<'a, Producer>,
    ) -> Result<(BiasedGuard<'a, Producer>, Arc<Cq>)> {
        let silent = producer.silent_end.wrapping_sub(self.tail.load(Acquire)) as i32;
        let target = producer.target.as_ref().ok_or(Errno::EOPBADSTATE)?;
        let cq = target.cq.clone();
        if silent > 0 || producer.is_accounting {
            // `Cq::retire_silent` takes the completion queue's lock, which comes before this one in the
            // lock order.
            drop(producer);
            cq.retire_silent();
            producer = self.lock_data();
            producer.target()?;
        }
        Ok((producer, cq))
    }

    /// Counts a post that finds the queue full, and arms the completion queue for its next
    /// completion, because readers may wait for solicited completions only. Returns FI_EAGAIN.
    #[cold]
    pub(super) fn reject_full(&self, cq: &Cq) -> Errno {
        self.post_stats.record_eagain();
        cq.arm_for_any();
        Errno::EAGAIN
    }
}
