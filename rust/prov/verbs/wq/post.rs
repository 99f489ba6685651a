// SPDX-License-Identifier: GPL-2.0

//! The posting path of a queue: `begin_post` locks the queue and fills a slot, `finish` accounts
//! for the posted work request.

use super::{
    OpKind,
    PostTarget,
    Producer,
    StatKind,
    WorkQueue, //
};
use crate::{
    abi::{
        biased_lock::BiasedGuard,
        flags::FI_READ,
        Errno,
        Result, //
    },
    fi::memory::Context,
    prov::verbs::{
        cq::Cq,
        inject_buf::InjectBuf,
        wr_ring::WrSlot, //
    },
    rdma::{
        dma::DmaMapping,
        qp::Qp, //
    },
};
use core::ptr::NonNull;
use kernel::sync::atomic::Acquire;

/// Description of an operation, as far as the queue needs it.
#[derive(Clone, Copy)]
pub(in crate::prov::verbs) struct OpDesc {
    pub(in crate::prov::verbs) context: Context,
    /// Flags of the completion.
    pub(in crate::prov::verbs) flags: u64,
    /// Number of bytes of its memory.
    pub(in crate::prov::verbs) len: usize,
    pub(in crate::prov::verbs) report_policy: ReportPolicy,
}

/// Policy for reporting the success of an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::prov::verbs) enum ReportPolicy {
    Always,
    /// Reported unless the completion queue is bound with FI_SELECTIVE_COMPLETION.
    PerBinding,
    Never,
    /// Not an operation, but an [`OpKind::DrainMarker`].
    DrainMarker,
    /// Receive into a piece of a multi-receive buffer; the piece begins at `start`. The last piece
    /// is always reported, the others as the consumer asks.
    MultiRecv {
        start: usize,
        last: bool,
        always: bool,
    },
}

impl OpDesc {
    /// The drain marker.
    pub(in crate::prov::verbs) const DRAIN_MARKER: Self = Self {
        context: Context::NULL,
        flags: 0,
        len: 0,
        report_policy: ReportPolicy::DrainMarker,
    };
}

/// Resources of the slot for a post whose memory has to be mapped or copied.
pub(in crate::prov::verbs) struct PostResources<'a> {
    /// Queue pair to post to.
    pub(in crate::prov::verbs) qp: &'a Qp,
    /// Place for the mappings that are undone when the operation completes.
    pub(in crate::prov::verbs) mappings: &'a mut [Option<DmaMapping>],
    /// Buffer that belongs to the operation until it completes; none where injected data goes
    /// inline.
    pub(in crate::prov::verbs) inject_buf: Option<InjectBuf<'a>>,
}

/// A post in progress, which [`Self::finish`] ends.
///
/// # Invariants
///
/// `target` is that of `producer`, which is locked.
pub(in crate::prov::verbs) struct PostGuard<'a> {
    producer: BiasedGuard<'a, Producer>,
    target: NonNull<PostTarget>,
    wq: &'a WorkQueue,
    /// Set if the work request has to be signalled.
    pub(in crate::prov::verbs) is_signalled: bool,
    is_silent: bool,
    has_reservation: bool,
}

impl<'a> PostGuard<'a> {
    #[inline]
    fn target(&self) -> &PostTarget {
        // SAFETY: By the type invariant it is there, and nothing changes it while the lock is held.
        unsafe { self.target.as_ref() }
    }

    /// Returns the queue pair to post to.
    #[inline]
    pub(in crate::prov::verbs) fn qp(&self) -> &Qp {
        &self.target().qp
    }

    /// Returns the `wr_id` of the work request.
    #[inline]
    pub(in crate::prov::verbs) fn wr_id(&self) -> u64 {
        self.target().wq_id.wr_id(self.producer.next_seq)
    }

    /// Returns whether an earlier RDMA read may not have completed.
    #[inline]
    pub(in crate::prov::verbs) fn follows_read(&self) -> bool {
        let tail = self.producer.free_end.wrapping_sub(self.wq.depth);
        self.producer.read_end.wrapping_sub(tail) as i32 > 0
    }

    /// Returns the resources of the slot.
    pub(in crate::prov::verbs) fn resources(&mut self) -> PostResources<'_> {
        let ring = &self.wq.ring;
        let index = ring.index(self.producer.next_seq);
        let inject_bufs = self.producer.inject_bufs.as_ref();
        PostResources {
            qp: self.qp(),
            // SAFETY: The slot is ours; see `WorkQueue::begin_post`.
            mappings: unsafe { ring.slot_mappings(index) },
            // SAFETY: As above.
            inject_buf: inject_bufs.map(|bounce| unsafe { bounce.buf(index) }),
        }
    }

    /// Ends the post; `posted` says whether the device has taken it. Returns `posted`.
    #[inline(always)]
    pub(in crate::prov::verbs) fn finish(self, op: &OpDesc, posted: Result) -> Result {
        self.finish_one(op, posted).1
    }

    /// Ends the post like [`Self::finish`], and returns the lock, for the next post.
    #[inline(always)]
    fn finish_one(mut self, op: &OpDesc, posted: Result) -> (BiasedGuard<'a, Producer>, Result) {
        match posted {
            // The reserved entry, if any, belongs to the completion now.
            Ok(()) => {
                self.producer.advance(op, self.is_signalled, self.is_silent);
                self.wq.post_stats.record_post(op.stat_kind(), op.len);
            }
            Err(errno) => self.undo_post(op, errno),
        }
        (self.producer, posted)
    }
}

impl OpDesc {
    #[inline(always)]
    fn stat_kind(&self) -> StatKind {
        match self.report_policy {
            ReportPolicy::DrainMarker => StatKind::DrainMarker,
            _ => StatKind::from_flags(self.flags),
        }
    }
}

impl PostGuard<'_> {
    /// Undoes the reservation of an operation that was not posted, and traces the error.
    #[cold]
    fn undo_post(&self, op: &OpDesc, errno: Errno) {
        self.wq.trace_post_error(op, errno);
        if self.has_reservation {
            self.target().cq.release_entries(1);
        }
    }
}

impl PostTarget {
    /// Returns the kind of the slot of an operation that is posted with `policy`.
    #[inline(always)]
    pub(super) fn op_kind(&self, policy: ReportPolicy) -> OpKind {
        match policy {
            ReportPolicy::Always => OpKind::Reported,
            ReportPolicy::PerBinding if !self.is_selective => OpKind::Reported,
            ReportPolicy::PerBinding | ReportPolicy::Never => OpKind::Silent,
            ReportPolicy::DrainMarker => OpKind::DrainMarker,
            ReportPolicy::MultiRecv { last: true, .. } => OpKind::LastMultiRecv,
            ReportPolicy::MultiRecv { always, .. } if always || !self.is_selective => {
                OpKind::MultiRecv
            }
            ReportPolicy::MultiRecv { .. } => OpKind::Silent,
        }
    }
}

impl Producer {
    /// Returns the target, which stays valid and unchanged as long as the queue is locked.
    #[inline(always)]
    fn target(&self) -> Result<NonNull<PostTarget>> {
        match &self.target {
            Some(target) => Ok(target.into()),
            None => Err(Errno::EOPBADSTATE),
        }
    }

    /// Accounts for an operation that has been posted.
    #[inline(always)]
    fn advance(&mut self, op: &OpDesc, signal: bool, is_silent: bool) {
        // A marker may take the additional slot.
        if self.next_seq == self.free_end {
            self.free_end = self.free_end.wrapping_add(1);
        }
        if is_silent {
            self.unsignalled = match signal {
                true => 0,
                false => self.unsignalled_before(self.next_seq) + 1,
            };
            self.silent_end = self.next_seq.wrapping_add(1);
        }
        self.next_seq = self.next_seq.wrapping_add(1);
        if op.flags & FI_READ != 0 {
            self.read_end = self.next_seq;
        }
    }

    /// Returns whether the silent operation `seq` has to be signalled: `max_unsignalled` operations
    /// before it are not, or it takes the last slot known to be free. Only a completion releases
    /// slots.
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
    /// Begins to post one operation; the queue is locked as long as the returned guard exists.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN when the queue or its completion queue is full, -FI_EOPBADSTATE without a target.
    ///
    /// # Safety
    ///
    /// The call is made for a data call, or the caller has an [`ExclusiveGuard`] of the domain. The
    /// caller does not lock the queue before it has dropped the guard.
    ///
    /// [`ExclusiveGuard`]: crate::abi::biased_lock::ExclusiveGuard
    #[inline(always)]
    pub(in crate::prov::verbs) unsafe fn begin_post(&self, op: &OpDesc) -> Result<PostGuard<'_>> {
        self.begin_post_locked(self.lock_data(), op)
    }

    /// Posts `count` operations; posts none if the queue has not that many free slots. `post(guard,
    /// i)` posts operation `i`.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN, the errors of [`Self::begin_post`], and those of `post`. The error comes with
    /// the index and the sequence number of the last operation that has been posted, if any.
    ///
    /// # Safety
    ///
    /// The call is made for a data call; `op_at` and `post` do not lock the queue.
    pub(in crate::prov::verbs) unsafe fn post_all(
        &self,
        count: u32,
        op_at: impl Fn(u32) -> OpDesc,
        mut post: impl FnMut(&mut PostGuard<'_>, u32) -> Result,
    ) -> core::result::Result<(), (Errno, Option<(u32, u32)>)> {
        let mut guard = self.lock_data();
        let used = guard.next_seq.wrapping_sub(self.tail.load(Acquire));
        if let Some(target) = &guard.target {
            if count > self.depth.saturating_sub(used) {
                let cq = target.cq.clone();
                drop(guard);
                return Err((self.reject_full(&cq), None));
            }
        }
        let mut last = None;
        for number in 0..count {
            let op = op_at(number);
            let mut op_guard = self
                .begin_post_locked(guard, &op)
                .map_err(|errno| (errno, last))?;
            let posted = post(&mut op_guard, number);
            let settled;
            (guard, settled) = op_guard.finish_one(&op, posted);
            settled.map_err(|errno| (errno, last))?;
            last = Some((number, guard.next_seq.wrapping_sub(1)));
        }
        Ok(())
    }

    #[inline(always)]
    fn begin_post_locked<'a>(
        &'a self,
        mut guard: BiasedGuard<'a, Producer>,
        op: &OpDesc,
    ) -> Result<PostGuard<'a>> {
        let is_marker = op.report_policy == ReportPolicy::DrainMarker;
        let mut at = guard.target()?;
        let takes_room = match self.reserve_slot(&mut guard, is_marker) {
            Some(takes_room) => takes_room,
            None => {
                let takes_room;
                (guard, takes_room) = self.reserve_slot_slow(guard, is_marker)?;
                at = guard.target()?;
                takes_room
            }
        };
        let head = &*guard;
        // SAFETY: It is that of `head`, which is locked.
        let target = unsafe { at.as_ref() };
        let usage = target.op_kind(op.report_policy);
        let signal = usage != OpKind::Silent
            || head.is_signal_due(head.next_seq)
            // Other queues need the entry that it reserves.
            || head.is_accounting;
        let slot = WrSlot {
            context: op.context,
            flags: match (usage, op.report_policy) {
                (
                    OpKind::MultiRecv | OpKind::LastMultiRecv,
                    ReportPolicy::MultiRecv { start, .. },
                ) => start as u64,
                _ => op.flags,
            },
            kind: usage,
            is_deferred: false,
            is_reported: false,
        };
        // SAFETY: The slot is ours: `head` is locked, and `tail` shows it to be free.
        unsafe { self.ring.fill(head.next_seq, slot) };
        self.trace_post(op, signal);
        // INVARIANT: Both are those of `head`.
        Ok(PostGuard {
            target: at,
            producer: guard,
            wq: self,
            is_signalled: signal,
            is_silent: usage == OpKind::Silent,
            has_reservation: takes_room,
        })
    }

    /// Finds a free slot, and reserves an entry of the completion queue if entries are counted;
    /// returns whether it has. Returns None without a free slot or entry.
    #[inline(always)]
    fn reserve_slot(&self, producer: &mut Producer, is_marker: bool) -> Option<bool> {
        if producer.next_seq == producer.free_end {
            let used = producer.next_seq.wrapping_sub(self.tail.load(Acquire));
            producer.free_end = producer
                .next_seq
                .wrapping_add(self.depth.saturating_sub(used));
            // The additional slot is the marker's.
            if used >= self.depth + u32::from(is_marker) {
                return None;
            }
        }
        // The entry of a marker was reserved when the queue was added to the table.
        if !producer.is_accounting || is_marker {
            return Some(false);
        }
        producer.target.as_ref()?.cq.reserve_entry().then_some(true)
    }

    /// Reserves a slot like [`Self::reserve_slot`] when the queue is full. Polls the completion
    /// queue first if silent operations, which no reader may come for, hold slots.
    #[cold]
    fn reserve_slot_slow<'a>(
        &'a self,
        head: BiasedGuard<'a, Producer>,
        is_marker: bool,
    ) -> Result<(BiasedGuard<'a, Producer>, bool)> {
        let silent = head.silent_end.wrapping_sub(self.tail.load(Acquire)) as i32;
        let target = head.target.as_ref().ok_or(Errno::EOPBADSTATE)?;
        let cq = target.cq.clone();
        if silent <= 0 && !head.is_accounting {
            drop(head);
            return Err(self.reject_full(&cq));
        }
        // The completion queue's lock, which retiring takes, comes before this one in the lock
        // order.
        drop(head);
        cq.retire_silent();
        let mut head = self.lock_data();
        head.target()?;
        let mut takes_room = self.reserve_slot(&mut head, is_marker);
        if takes_room.is_none() && head.is_accounting {
            cq.set_entry_waiter();
            takes_room = self.reserve_slot(&mut head, is_marker);
        }
        match takes_room {
            Some(takes_room) => Ok((head, takes_room)),
            None => {
                drop(head);
                Err(self.reject_full(&cq))
            }
        }
    }

    /// Counts a post that finds the queue full, and arms the completion queue for its next
    /// completion, as readers may sleep until a solicited one. Returns -FI_EAGAIN.
    #[cold]
    fn reject_full(&self, cq: &Cq) -> Errno {
        self.post_stats.record_eagain();
        cq.arm_for_any();
        Errno::EAGAIN
    }
}
