// SPDX-License-Identifier: GPL-2.0

//! The way into a queue: a post is begun, which locks the queue, and settled.

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

/// What is posted, as far as the queue is concerned.
#[derive(Clone, Copy)]
pub(in crate::prov::verbs) struct OpDesc {
    pub(in crate::prov::verbs) context: Context,
    /// Those of its completion.
    pub(in crate::prov::verbs) flags: u64,
    /// Bytes of its memory.
    pub(in crate::prov::verbs) len: usize,
    pub(in crate::prov::verbs) report: ReportPolicy,
}

/// Whether the success of an operation is reported.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::prov::verbs) enum ReportPolicy {
    Always,
    /// Unless the completion queue is bound for selective completion.
    AsBound,
    Never,
    /// It is no operation but a [`OpKind::Marker`].
    Marker,
    /// It is a receive into a piece of a buffer, which begins at `start`; the last one is always
    /// reported, each of the others as the consumer asks.
    Piece {
        start: usize,
        last: bool,
        always: bool,
    },
}

impl OpDesc {
    /// The marker of a drain.
    pub(in crate::prov::verbs) const MARKER: Self = Self {
        context: Context::NULL,
        flags: 0,
        len: 0,
        report: ReportPolicy::Marker,
    };
}

/// What a post may use whose memory has to be put together.
pub(in crate::prov::verbs) struct PostResources<'a> {
    /// Where to post.
    pub(in crate::prov::verbs) qp: &'a Qp,
    /// Where to put the mappings that are to be undone when it completes.
    pub(in crate::prov::verbs) mappings: &'a mut [Option<DmaMapping>],
    /// Memory of its own until it completes; none where injected data goes inline.
    pub(in crate::prov::verbs) bounce: Option<InjectBuf<'a>>,
}

/// A post under way, which [`Self::settle`] ends.
///
/// # Invariants
///
/// `target` is that of `head`, which is locked.
pub(in crate::prov::verbs) struct PostGuard<'a> {
    head: BiasedGuard<'a, Producer>,
    target: NonNull<PostTarget>,
    queue: &'a WorkQueue,
    /// Whether its success is to be signalled.
    pub(in crate::prov::verbs) signal: bool,
    is_silent: bool,
    takes_room: bool,
}

impl<'a> PostGuard<'a> {
    #[inline]
    fn target(&self) -> &PostTarget {
        // SAFETY: By the type invariant it is there, and nobody changes it.
        unsafe { self.target.as_ref() }
    }

    /// Where to post.
    #[inline]
    pub(in crate::prov::verbs) fn qp(&self) -> &Qp {
        &self.target().qp
    }

    /// The number that its completion brings back.
    #[inline]
    pub(in crate::prov::verbs) fn wr_id(&self) -> u64 {
        self.target().place.wr_id(self.head.seq)
    }

    /// Whether a read before it may not have completed.
    #[inline]
    pub(in crate::prov::verbs) fn is_behind_read(&self) -> bool {
        let tail = self.head.end.wrapping_sub(self.queue.depth);
        self.head.reads.wrapping_sub(tail) as i32 > 0
    }

    /// What it may use.
    pub(in crate::prov::verbs) fn resources(&mut self) -> PostResources<'_> {
        let ring = &self.queue.ring;
        let index = ring.index(self.head.seq);
        let bounce = self.head.bounce.as_ref();
        PostResources {
            qp: self.qp(),
            // SAFETY: The slot is ours; see `WorkQueue::begin`.
            mappings: unsafe { ring.row(index) },
            // SAFETY: As above.
            bounce: bounce.map(|bounce| unsafe { bounce.slot(index) }),
        }
    }

    /// The operation has been posted, or has not.
    #[inline(always)]
    pub(in crate::prov::verbs) fn settle(self, what: &OpDesc, posted: Result) -> Result {
        self.settle_one(what, posted).1
    }

    /// [`Self::settle`], with the queue locked for the next one.
    #[inline(always)]
    fn settle_one(mut self, what: &OpDesc, posted: Result) -> (BiasedGuard<'a, Producer>, Result) {
        match posted {
            // What room it has taken is its completion's now.
            Ok(()) => {
                self.head.enter(what, self.signal, self.is_silent);
                self.queue.counts.posted(what.posted(), what.len);
            }
            Err(errno) => self.take_back(what, errno),
        }
        (self.head, posted)
    }
}

impl OpDesc {
    #[inline(always)]
    fn posted(&self) -> StatKind {
        match self.report {
            ReportPolicy::Marker => StatKind::Marker,
            _ => StatKind::of(self.flags),
        }
    }
}

impl PostGuard<'_> {
    /// Nothing has been posted.
    #[cold]
    fn take_back(&self, what: &OpDesc, errno: Errno) {
        self.queue.trace_refused(what, errno);
        if self.takes_room {
            self.target().cq.release(1);
        }
    }
}

impl PostTarget {
    /// What a slot is used for by an operation that is reported like this.
    #[inline(always)]
    pub(super) fn usage(&self, report: ReportPolicy) -> OpKind {
        match report {
            ReportPolicy::Always => OpKind::Reported,
            ReportPolicy::AsBound if !self.selective => OpKind::Reported,
            ReportPolicy::AsBound | ReportPolicy::Never => OpKind::Silent,
            ReportPolicy::Marker => OpKind::Marker,
            ReportPolicy::Piece { last: true, .. } => OpKind::LastPiece,
            ReportPolicy::Piece { always, .. } if always || !self.selective => OpKind::Piece,
            ReportPolicy::Piece { .. } => OpKind::Silent,
        }
    }
}

impl Producer {
    /// Where it posts to: there, and as it is, as long as the queue is locked.
    #[inline(always)]
    fn target(&self) -> Result<NonNull<PostTarget>> {
        match &self.target {
            Some(target) => Ok(target.into()),
            None => Err(Errno::EOPBADSTATE),
        }
    }

    /// Counts an operation that has been posted.
    #[inline(always)]
    fn enter(&mut self, what: &OpDesc, signal: bool, is_silent: bool) {
        // A marker may take the one that is nobody else's.
        if self.seq == self.end {
            self.end = self.end.wrapping_add(1);
        }
        if is_silent {
            self.unsignalled = match signal {
                true => 0,
                false => self.unsignalled_before(self.seq) + 1,
            };
            self.silent = self.seq.wrapping_add(1);
        }
        self.seq = self.seq.wrapping_add(1);
        if what.flags & FI_READ != 0 {
            self.reads = self.seq;
        }
    }

    /// Returns whether the silent operation `seq` needs a completion of the device: enough before it have none, or
    /// no slot is known behind it, and these slots are released only with a completion.
    #[inline(always)]
    pub(super) fn is_signal_due(&self, seq: u32) -> bool {
        self.unsignalled_before(seq) >= self.most_unsignalled || seq.wrapping_add(1) == self.end
    }

    /// How many before `seq` have been posted unsignalled since the last signalled one.
    #[inline(always)]
    pub(super) fn unsignalled_before(&self, seq: u32) -> u32 {
        match self.silent == seq {
            true => self.unsignalled,
            false => 0,
        }
    }
}

impl WorkQueue {
    /// Begins to post one operation; the queue is locked as long as what is returned is there.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN when the queue or its completion queue is full, -FI_EOPBADSTATE when it posts
    /// nowhere.
    ///
    /// # Safety
    ///
    /// The call is made for a data call, or the caller has an [`Others`](crate::abi::serial::Others) of the domain. The
    /// caller does not lock the queue before what this returns is dropped.
    #[inline(always)]
    pub(in crate::prov::verbs) unsafe fn begin(&self, what: &OpDesc) -> Result<PostGuard<'_>> {
        self.begin_one(self.enter(), what)
    }

    /// Posts `count` operations, for which there is room or none is posted: `post` posts the one with
    /// a number.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN, those of [`Self::begin`], and what `post` says; with the number of the last one that
    /// has been posted all the same, and the one that it has in the queue.
    ///
    /// # Safety
    ///
    /// The call is made for a data call; `what` and `post` do not lock the queue.
    pub(in crate::prov::verbs) unsafe fn post_all(
        &self,
        count: u32,
        what: impl Fn(u32) -> OpDesc,
        mut post: impl FnMut(&mut PostGuard<'_>, u32) -> Result,
    ) -> core::result::Result<(), (Errno, Option<(u32, u32)>)> {
        let mut guard = self.enter();
        let used = guard.seq.wrapping_sub(self.tail.load(Acquire));
        if let Some(target) = &guard.target {
            if count > self.depth.saturating_sub(used) {
                let cq = target.cq.clone();
                drop(guard);
                return Err((self.refuse(&cq), None));
            }
        }
        let mut last = None;
        for number in 0..count {
            let what = what(number);
            let mut posting = self
                .begin_one(guard, &what)
                .map_err(|errno| (errno, last))?;
            let posted = post(&mut posting, number);
            let settled;
            (guard, settled) = posting.settle_one(&what, posted);
            settled.map_err(|errno| (errno, last))?;
            last = Some((number, guard.seq.wrapping_sub(1)));
        }
        Ok(())
    }

    #[inline(always)]
    fn begin_one<'a>(
        &'a self,
        mut guard: BiasedGuard<'a, Producer>,
        what: &OpDesc,
    ) -> Result<PostGuard<'a>> {
        let is_marker = what.report == ReportPolicy::Marker;
        let mut at = guard.target()?;
        let takes_room = match self.take_room(&mut guard, is_marker) {
            Some(takes_room) => takes_room,
            None => {
                let takes_room;
                (guard, takes_room) = self.make_room(guard, is_marker)?;
                at = guard.target()?;
                takes_room
            }
        };
        let head = &*guard;
        // SAFETY: It is that of `head`, which is locked.
        let target = unsafe { at.as_ref() };
        let usage = target.usage(what.report);
        let signal = usage != OpKind::Silent
            || head.is_signal_due(head.seq)
            // Other queues need the room that it takes.
            || head.counted;
        let slot = WrSlot {
            context: what.context,
            flags: match (usage, what.report) {
                (OpKind::Piece | OpKind::LastPiece, ReportPolicy::Piece { start, .. }) => {
                    start as u64
                }
                _ => what.flags,
            },
            usage,
            is_met: false,
            is_told: false,
        };
        // SAFETY: The slot is ours: `head` is locked, and `tail` shows it to be free.
        unsafe { self.ring.fill(head.seq, slot) };
        self.trace_post(what, signal);
        // INVARIANT: Both are those of `head`.
        Ok(PostGuard {
            target: at,
            head: guard,
            queue: self,
            signal,
            is_silent: usage == OpKind::Silent,
            takes_room,
        })
    }

    /// Finds a free slot, and takes room in the completion queue if that is counted: true then. None
    /// when there is neither.
    #[inline(always)]
    fn take_room(&self, head: &mut Producer, is_marker: bool) -> Option<bool> {
        if head.seq == head.end {
            let used = head.seq.wrapping_sub(self.tail.load(Acquire));
            head.end = head.seq.wrapping_add(self.depth.saturating_sub(used));
            // One more slot is the marker's.
            if used >= self.depth + u32::from(is_marker) {
                return None;
            }
        }
        // The room of a marker was reserved when the queue was registered.
        if !head.counted || is_marker {
            return Some(false);
        }
        head.target.as_ref()?.cq.reserve().then_some(true)
    }

    /// The same for a queue that is full, perhaps of what nobody will read the completion of.
    #[cold]
    fn make_room<'a>(
        &'a self,
        head: BiasedGuard<'a, Producer>,
        is_marker: bool,
    ) -> Result<(BiasedGuard<'a, Producer>, bool)> {
        let silent = head.silent.wrapping_sub(self.tail.load(Acquire)) as i32;
        let target = head.target.as_ref().ok_or(Errno::EOPBADSTATE)?;
        let cq = target.cq.clone();
        if silent <= 0 && !head.counted {
            drop(head);
            return Err(self.refuse(&cq));
        }
        // Whoever retires holds the completion queue's lock, which comes before this one.
        drop(head);
        cq.retire_silent();
        let mut head = self.enter();
        head.target()?;
        let mut takes_room = self.take_room(&mut head, is_marker);
        if takes_room.is_none() && head.counted {
            cq.await_room();
            takes_room = self.take_room(&mut head, is_marker);
        }
        match takes_room {
            Some(takes_room) => Ok((head, takes_room)),
            None => {
                drop(head);
                Err(self.refuse(&cq))
            }
        }
    }

    /// Counts a post that finds no room. The next completion wakes the readers, who may sleep until a signalled one.
    #[cold]
    fn refuse(&self, cq: &Cq) -> Errno {
        self.counts.full();
        cq.await_any();
        Errno::EAGAIN
    }
}
