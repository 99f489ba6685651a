// SPDX-License-Identifier: GPL-2.0

//! One direction of an endpoint: the operations between a post and its completion.
//!
//! The ring of slots is allocated with the endpoint, so that posting never allocates. A poster fills
//! the next slot and posts under `head`, which no completion path takes; whoever reads the
//! completion queue retires slots in order, under that queue's lock, by moving `tail`. A completion
//! also retires the unsignalled operations before it.

mod fast;
mod fetch;
mod post;
mod stats;
mod trace;

pub(super) use post::{
    OpDesc,
    PostGuard,
    PostResources,
    ReportPolicy, //
};
pub(super) use stats::StatKind;

use super::{
    cas_atomic::{
        self,
        CasAtomicTable, //
    },
    cq::Cq,
    inject_buf::InjectBufs,
    srx::SrxAttachment,
    wc_backlog::WqId,
    wr_ring::{
        WrRing,
        WrSlot, //
    },
};
use crate::{
    abi::{
        biased_lock::{
            BiasOwner,
            BiasedGuard,
            BiasedLock,
            ExclusiveGuard, //
        },
        once::{
            read_once,
            store_release, //
        },
        Errno,
        Result, //
    },
    fi::memory::Context,
    rdma::{
        device_attr::Protocol,
        pd::Pd,
        qp::Qp,
        siw_kick,
        wr_template::{
            RecvTemplate,
            SendTemplate, //
        }, //
    },
};
use core::mem::replace;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            AtomicFlag,
            Full,
            Relaxed,
            Release, //
        },
        static_lock_class,
        Arc,
        SetOnce, //
    },
};
use stats::{
    CompStats,
    PostStats, //
};

/// See [`Queue::marker`].
const MARKER_COMPLETED: u64 = 1 << 32;

/// Kind of operation that has a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u16)] // with the rest of the slot one store
pub(super) enum OpKind {
    /// An operation whose success is reported.
    Reported,
    /// An operation whose success is not.
    Silent,
    /// The work request behind which nothing is outstanding any more.
    DrainMarker,
    /// A receive into a piece of a buffer; it is told where the piece is.
    MultiRecv,
    /// The same, after which the buffer is the consumer's again. Always reported.
    LastMultiRecv,
}

/// What posts requests of a single piece.
pub(super) enum WrTemplate {
    Send(SendTemplate),
    Recv(RecvTemplate),
}

impl WrTemplate {
    fn direction(&self) -> WqDirection {
        match self {
            Self::Send(_) => WqDirection::Transmit,
            Self::Recv(_) => WqDirection::Receive,
        }
    }
}

/// Where a queue posts to, from its endpoint's enabling to its close. What the short way needs comes
/// first.
#[repr(C)]
pub(super) struct PostTarget {
    pub(super) template: WrTemplate,
    /// The queue's place in the completion queue's table.
    pub(super) wq_id: WqId,
    /// What `poster` posts to.
    pub(super) qp: Arc<Qp>,
    pub(super) cq: Arc<Cq>,
    /// Whether only those successes are reported that a poster asks for.
    pub(super) is_selective: bool,
    /// Whether a counter is told of each operation.
    pub(super) has_counters: bool,
}

/// What posters share; what each of them needs comes first.
#[repr(C)]
struct Producer {
    /// How many operations have been posted, modulo 2^32.
    next_seq: u32,
    /// One past the last that has a slot, as far as posters know; they look when they are there.
    free_end: u32,
    /// How many had been posted unsignalled since the last signalled one, when the last silent one was.
    unsignalled: u32,
    /// One past the last silent one; no other is unsignalled.
    silent_end: u32,
    /// One past the last read.
    read_end: u32,
    /// How many operations in a row may go unsignalled.
    max_unsignalled: u32,
    /// Whether each operation takes its room in the completion queue; see [`Cq::register`].
    is_accounting: bool,
    target: Option<PostTarget>,
    /// For what is injected, where the device does not take it inline. Stays until nothing is posted
    /// any more.
    inject_bufs: Option<InjectBufs>,
}

/// Which way messages go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WqDirection {
    Transmit,
    Receive,
}

/// A send or a receive queue. Who retires an operation needs the first cache line, and so does who
/// posts one, with the next.
#[pin_data]
#[repr(C, align(64))]
pub(super) struct WorkQueue {
    ring: WrRing,
    /// Number of retired operations, modulo 2^32, minus those whose completions wait for a reader. These keep their
    /// slots, so that the queue never has more unread completions than its depth.
    tail: Atomic<u32>,
    depth: u32,
    /// How many bytes the device takes inline, where that is as much as may be injected.
    inline_size: Atomic<u32>,
    direction: WqDirection,
    is_drained: AtomicFlag,
    #[pin]
    producer: BiasedLock<Producer>,
    post_stats: PostStats,
    comp_stats: CompStats,
    /// One past the last operation whose completion has been put off.
    deferred_end: Atomic<u32>,
    /// Whether completions come in any order at the end, one for each operation: what is posted in siw's
    /// error state is flushed at once, what was posted before it may be so later.
    completes_out_of_order: bool,
    /// Where they do, which one the marker is, and a bit above that, once it has come back.
    drain_marker: Atomic<u64>,
    /// Operations that take several requests, where there are such.
    cas_atomics: Option<CasAtomicTable>,
    /// How many nudges may be posted beside the operations, without `head`.
    max_kicks: u32,
    pd: Arc<Pd>,
    /// Its queue pair's, once there is one.
    qp_num: Atomic<u32>,
    /// Whose receives come here, if they are not its own.
    srx_attachment: SetOnce<SrxAttachment>,
    /// Set by the first `set_fast_path(true)`, which removes the second bar of [`Self::new`].
    fast_path_was_enabled: AtomicFlag,
}

impl WorkQueue {
    /// A queue for `depth` operations of at most `width` addresses at a time. May sleep.
    pub(super) fn new(
        serial: Option<Arc<BiasOwner>>,
        pd: &Arc<Pd>,
        (depth, width): (u32, usize),
        direction: WqDirection,
        cas_atomics: Option<CasAtomicTable>,
    ) -> Result<Arc<Self>> {
        let is_loose = pd.device().protocol() == Protocol::Iwarp;
        let most_unsignalled = match is_loose {
            // siw has no completion for an unsignalled request that fails.
            true => 0,
            // The rest of the queue can be used while these wait to be retired.
            false => (depth / 4).saturating_sub(1),
        };
        // One slot more, for the marker of a drain.
        let ring = WrRing::new(
            pd.clone(),
            depth.checked_add(1).ok_or(Errno::EINVAL)?,
            width,
        )?;
        let wq = Arc::pin_init(
            try_pin_init!(Self {
                producer <- BiasedLock::new(
                    serial,
                    Producer {
                        next_seq: 0,
                        free_end: depth,
                        unsignalled: 0,
                        silent_end: 0,
                        read_end: 0,
                        max_unsignalled: most_unsignalled,
                        is_accounting: false,
                        target: None,
                        inject_bufs: None,
                    },
                    c"kofi::Queue",
                    static_lock_class!(),
                ),
                tail: Atomic::new(0),
                deferred_end: Atomic::new(0),
                completes_out_of_order: is_loose,
                drain_marker: Atomic::new(0),
                depth,
                cas_atomics: cas_atomics,
                max_kicks: match direction {
                    WqDirection::Transmit => siw_kick::max_kicks(pd.device()),
                    WqDirection::Receive => 0,
                },
                pd: pd.clone(),
                qp_num: Atomic::new(0),
                srx_attachment: SetOnce::new(),
                fast_path_was_enabled: AtomicFlag::new(false),
                inline_size: Atomic::new(0),
                ring,
                direction,
                is_drained: AtomicFlag::new(false),
                comp_stats: CompStats::new(),
                post_stats: PostStats::new(),
            }? Error),
            GFP_KERNEL,
        )?;
        // One bar until it has a target, and one until its endpoint is connected.
        wq.producer.bar();
        wq.producer.bar();
        Ok(wq)
    }

    /// Allows or forbids the fast path of posting, which needs an endpoint that is connected both ways. The first call
    /// with true allows it, later ones have no effect; each call with false forbids it for good.
    pub(super) fn set_fast_path(&self, is_plain: bool) {
        match is_plain {
            true if self.fast_path_was_enabled.xchg(true, Full) => {}
            // SAFETY: This removes the second bar of `new`; `fast_path_was_enabled` lets only one call do so.
            true => unsafe { self.producer.unbar() },
            false => self.producer.bar(),
        }
    }

    /// Locks the queue for a data call.
    #[inline(always)]
    fn lock_data(&self) -> BiasedGuard<'_, Producer> {
        // SAFETY: By their safety requirements nobody locks the queue while the functions that return a guard, or call
        // back with one, have it locked; all others here unlock it before they return. They are reached from the
        // consumer's data calls, and otherwise with an `ExclusiveGuard`.
        unsafe { self.producer.enter() }
    }

    /// Those of its operations that take several requests.
    #[inline]
    pub(super) fn cas_atomics(&self) -> Option<&CasAtomicTable> {
        self.cas_atomics.as_ref()
    }

    /// Which way its messages go.
    #[inline]
    pub(super) fn direction(&self) -> WqDirection {
        self.direction
    }

    /// How many bytes better go inline; 0 before the queue is open.
    #[inline(always)]
    pub(super) fn inline_size(&self) -> u32 {
        read_once(&self.inline_size)
    }

    /// The most completions that it can have under way, whatever they are of.
    pub(super) fn max_cq_entries(&self) -> u32 {
        // One slot more has been found to be possible, and nobody asks for as many as that.
        self.depth.saturating_add(self.extra_cq_entries())
    }

    /// Those of them that are not of operations with a slot: the marker's, those of nudges, those of
    /// operations that take several requests, and the one that siw tells twice.
    pub(super) fn extra_cq_entries(&self) -> u32 {
        let cells = self
            .cas_atomics
            .as_ref()
            .map_or(0, |_| cas_atomic::MAX_CAS_OPS);
        1 + self.max_kicks + cells + u32::from(self.completes_out_of_order)
    }

    /// Whether an operation has completed, read or not, of a queue that is new.
    pub(super) fn has_completed(&self) -> bool {
        self.tail.load(Acquire) != 0 || self.deferred_end.load(Acquire) != 0
    }

    /// Memory for injected data of at most `size` bytes at a time. May sleep.
    pub(super) fn new_inject_bufs(&self, size: usize) -> Result<InjectBufs> {
        InjectBufs::new(self.ring.len(), size)
    }

    /// From now on the queue posts to `target`; without `bounce` injected data, of at most `inject`
    /// bytes, goes inline.
    pub(super) fn set_target(
        &self,
        target: PostTarget,
        inject: u32,
        inject_bufs: Option<InjectBufs>,
        others: &ExclusiveGuard,
    ) {
        if inject_bufs.is_none() {
            self.inline_size.store(inject, Relaxed);
        }
        self.qp_num.store(target.qp.qp_num(), Relaxed);
        let mut head = self.producer.lock(others);
        if target.is_selective {
            // The short way reports everything.
            self.producer.bar();
        }
        if target.has_counters {
            // Nobody else may come to tell that an operation is over.
            head.max_unsignalled = 0;
        }
        if target.template.direction() != self.direction {
            // The fast path takes the poster for one of the queue's own direction.
            self.producer.bar();
        }
        let before = head.target.replace(target);
        head.inject_bufs = inject_bufs;
        if before.is_none() {
            // SAFETY: This removes the bar that is there without a target, which is that of `new` or `shut`.
            unsafe { self.producer.unbar() };
        }
        drop(head);
        drop(before);
    }

    /// From now on messages go where `share` says, to the queue pair with that number. Once in its life.
    pub(super) fn attach_srx(&self, attachment: SrxAttachment, number: u32) {
        self.qp_num.store(number, Relaxed);
        let _ = self.srx_attachment.populate(attachment);
    }

    /// Where its messages go, if it posts no receives for them.
    #[inline]
    pub(super) fn srx_attachment(&self) -> Option<&SrxAttachment> {
        self.srx_attachment.as_ref()
    }

    /// A message has come that took no receive of its own.
    pub(super) fn set_received(&self) {
        self.deferred_end.store(1, Release);
    }

    /// The queue posts no more; what it posted to is returned.
    pub(super) fn take_target(&self, others: &ExclusiveGuard) -> Option<PostTarget> {
        let mut head = self.producer.lock(others);
        if head.target.is_some() {
            self.producer.bar();
        }
        head.target.take()
    }

    /// Makes each post reserve room in the completion queue from now on. Returns the number of operations without
    /// reserved room: those in flight, from `tail` on, and `unread` that wait for a reader.
    ///
    /// # Safety
    ///
    /// The caller holds the completion queue's lock, and `tail` operations have been retired.
    pub(super) unsafe fn start_accounting(
        &self,
        (tail, unread): (u32, u32),
        others: &ExclusiveGuard,
    ) -> u32 {
        let mut head = self.producer.lock(others);
        if replace(&mut head.is_accounting, true) {
            return 0;
        }
        self.producer.bar();
        let mut seq = tail;
        let mut count = unread;
        while seq != head.next_seq {
            // SAFETY: `head` is locked, and by this function's safety requirement so is the completion queue: nobody
            // fills or retires a slot.
            count += u32::from(unsafe { self.ring.get(seq) }.kind != OpKind::DrainMarker);
            seq = seq.wrapping_add(1);
        }
        count
    }

    /// How many operations can be posted now; -FI_EOPBADSTATE when it posts nowhere.
    pub(super) fn free_slots(&self) -> Result<usize> {
        let head = self.lock_data();
        if head.target.is_none() {
            return Err(Errno::EOPBADSTATE);
        }
        let used = head.next_seq.wrapping_sub(self.tail.load(Acquire));
        Ok(self.depth.saturating_sub(used) as usize)
    }

    /// Whether the success of an operation is reported that is posted like this.
    pub(super) fn is_reported(&self, policy: ReportPolicy) -> Result<bool> {
        // SAFETY: It locks nothing.
        unsafe { self.with_target(|target| Ok(target.op_kind(policy) == OpKind::Reported)) }
    }

    /// Does something with where the queue posts to, with the queue locked.
    ///
    /// # Errors
    ///
    /// -FI_EOPBADSTATE when it posts nowhere, and what `f` says.
    ///
    /// # Safety
    ///
    /// `f` does not lock this queue.
    pub(super) unsafe fn with_target<R>(
        &self,
        f: impl FnOnce(&PostTarget) -> Result<R>,
    ) -> Result<R> {
        let head = self.lock_data();
        f(head.target.as_ref().ok_or(Errno::EOPBADSTATE)?)
    }

    /// Whether a signalled operation has no completion yet, read or not.
    pub(super) fn has_signalled_in_flight(&self, others: &ExclusiveGuard) -> bool {
        let head = self.producer.lock(others);
        let signalled = head
            .next_seq
            .wrapping_sub(head.unsignalled_before(head.next_seq));
        drop(head);
        let is_behind = |seq: u32| signalled.wrapping_sub(seq) as i32 > 0;
        is_behind(self.tail.load(Acquire)) && is_behind(self.deferred_end.load(Acquire))
    }

    /// The completion of `seq` has been taken from the device, and its reader will come later.
    pub(super) fn set_deferred_end(&self, seq: u32) {
        self.deferred_end.store(seq.wrapping_add(1), Release);
    }

    /// The marker has come back, and with it everything before it, unless the queue is loose.
    #[cold]
    pub(super) fn complete_marker(&self, seq: u32) {
        match self.completes_out_of_order {
            true => self
                .drain_marker
                .store(MARKER_COMPLETED | u64::from(seq), Relaxed),
            false => self.set_drained(),
        }
    }

    /// Marks a loose queue as drained if every operation before a completed marker has a completion; operations
    /// before `tail` have been retired.
    ///
    /// # Safety
    ///
    /// The caller holds the completion queue's lock, and `tail` operations have been retired.
    pub(super) unsafe fn update_drained(&self, tail: u32) {
        let marker = self.drain_marker.load(Relaxed);
        if marker & MARKER_COMPLETED == 0 {
            return;
        }
        let is_before = |seq: u32| (seq.wrapping_sub(marker as u32) as i32) < 0;
        let mut seq = tail;
        let is_over = |slot: WrSlot| slot.is_deferred || slot.is_reported;
        // SAFETY: The operation was posted before the marker, and has not been retired; the lock is held by this
        // function's safety requirement.
        while is_before(seq) && is_over(unsafe { self.slot(seq) }) {
            seq = seq.wrapping_add(1);
        }
        if !is_before(seq) {
            self.set_drained();
        }
    }

    /// Whether completions come in any order at the end.
    pub(super) fn completes_out_of_order(&self) -> bool {
        self.completes_out_of_order
    }

    /// The completion of `seq` is put off; false if it has been met before.
    ///
    /// # Safety
    ///
    /// The caller holds the completion queue's lock; operation `seq` has completed, and has not been retired.
    pub(super) unsafe fn mark_deferred(&self, seq: u32) -> bool {
        // SAFETY: By this function's safety requirement the caller is the slot's user.
        unsafe {
            self.ring
                .update(seq, |slot| !replace(&mut slot.is_deferred, true))
        }
    }

    /// Retires the failed operation `seq`, as soon as those before it have been told of: until then their
    /// slots are theirs. `ahead` counts those that wait so: there is nothing to be looked for behind the
    /// last of them, if the slots are the poster's. Otherwise like [`Self::advance_tail`].
    ///
    /// # Safety
    ///
    /// The requirements of [`Self::advance_tail`] hold, except that operations before `seq` may be under way. `ahead`
    /// is used for this queue alone, and is 0 at first.
    pub(super) unsafe fn retire_out_of_order(
        &self,
        tail: &mut u32,
        ahead: &mut u32,
        seq: u32,
    ) -> u32 {
        // SAFETY: By this function's safety requirement the caller is the slot's user.
        unsafe { self.ring.update(seq, |slot| slot.is_reported = true) };
        *ahead += 1;
        let mut end = *tail;
        // SAFETY: As above: as `ahead` operations from `end` on have completed, `end` has been posted.
        while *ahead > 0 && unsafe { self.slot(end) }.is_reported {
            *ahead -= 1;
            end = end.wrapping_add(1);
        }
        match end == *tail {
            true => 0,
            // SAFETY: Each operation before `end` has completed.
            false => unsafe { self.advance_tail(tail, end.wrapping_sub(1)) },
        }
    }

    /// Where they go for a data call.
    pub(super) fn cq_for_data_call(&self) -> Option<Arc<Cq>> {
        let head = self.lock_data();
        head.target.as_ref().map(|target| target.cq.clone())
    }

    /// Where the queue's completions go, while it posts.
    pub(super) fn bound_cq(&self, others: &ExclusiveGuard) -> Option<Arc<Cq>> {
        self.bound_cq_and_id(others).map(|(cq, _)| cq)
    }

    /// The same, with the queue's place in that one's table.
    pub(super) fn bound_cq_and_id(&self, others: &ExclusiveGuard) -> Option<(Arc<Cq>, WqId)> {
        if let Some(share) = self.srx_attachment() {
            return share.cq_if_open();
        }
        let head = self.producer.lock(others);
        let target = head.target.as_ref()?;
        Some((target.cq.clone(), target.wq_id))
    }

    /// Returns a function that returns the slot of an operation.
    ///
    /// # Safety
    ///
    /// The caller holds the completion queue's lock as long as it has the function. It passes operations that have
    /// been posted, and whose slots have not been released by [`Self::publish_tail`].
    #[inline(always)]
    pub(super) unsafe fn slot_reader(&self) -> impl Fn(u32) -> WrSlot + '_ {
        let slots = self.ring.slots();
        // SAFETY: By the safety requirement of `slots` the caller is the slot's user.
        move |seq| unsafe { slots.get(seq) }
    }

    /// Returns the slot of operation `seq`.
    ///
    /// # Safety
    ///
    /// The caller holds the completion queue's lock; `seq` has been posted, and its slot has not been released by
    /// [`Self::publish_tail`].
    #[inline(always)]
    pub(super) unsafe fn slot(&self, seq: u32) -> WrSlot {
        // SAFETY: By this function's safety requirement.
        unsafe { self.slot_reader()(seq) }
    }

    /// Retires the operation `seq` and those before it, from `tail` on, which moves; says how many
    /// there are.
    ///
    /// # Safety
    ///
    /// The requirements of [`Self::advance_tail`] hold, and no completion of the queue waits for a reader.
    #[inline(always)]
    pub(super) unsafe fn retire(&self, tail: &mut u32, seq: u32) -> u32 {
        // SAFETY: By this function's safety requirement.
        unsafe {
            let count = self.advance_tail(tail, seq);
            self.publish_tail(*tail);
            count
        }
    }

    /// Retires operations as [`Self::retire`] does, without releasing their slots.
    ///
    /// # Safety
    ///
    /// The caller holds the completion queue's lock; `seq` has completed, and has not been retired. `tail` is the
    /// number of operations of this queue that have been retired, and nothing else changes it.
    #[inline(always)]
    pub(super) unsafe fn advance_tail(&self, tail: &mut u32, seq: u32) -> u32 {
        let end = seq.wrapping_add(1);
        let count = end.wrapping_sub(*tail);
        // SAFETY: A completion ends the operations before it too; their slots are not reused before `publish_tail`.
        unsafe { self.ring.unmap(*tail, end) };
        *tail = end;
        count
    }

    /// Releases the slots of operations before `tail` to posters.
    ///
    /// # Safety
    ///
    /// The caller holds the completion queue's lock; the operations before `tail` have been retired, and nobody uses
    /// their slots any more. `tail` is not before that of an earlier call.
    #[inline(always)]
    pub(super) unsafe fn publish_tail(&self, tail: u32) {
        // Pairs with the acquire in the posting path.
        store_release(&self.tail, tail);
    }

    /// Undoes the mappings of the operations from `from` through `last`, which have completed, and
    /// hands `visit` each with its flags, but for the marker.
    ///
    /// # Safety
    ///
    /// The caller holds the completion queue's lock; `last` has completed, or each of them where the queue is loose,
    /// and none of them has been retired.
    pub(super) unsafe fn for_each_completed(
        &self,
        from: u32,
        last: u32,
        mut visit: impl FnMut(u32, u64),
    ) {
        let end = last.wrapping_add(1);
        // SAFETY: A completion ends the operations before it too, and by this function's safety requirement none has
        // been retired. What is undone here is not there any more when they are.
        unsafe { self.ring.unmap(from, end) };
        let mut seq = from;
        while seq != end {
            // SAFETY: As above: the slot is ours.
            let slot = unsafe { self.ring.get(seq) };
            if slot.kind != OpKind::DrainMarker {
                visit(seq, slot.completion_info().0);
            }
            seq = seq.wrapping_add(1);
        }
    }

    /// Calls `change` with the slot of operation `seq`.
    ///
    /// # Safety
    ///
    /// The caller holds the completion queue's lock; `seq` has been posted by the caller, and has not been retired.
    pub(super) unsafe fn update_slot(&self, seq: u32, change: impl FnOnce(&mut WrSlot)) {
        // SAFETY: The poster does not use the slot any more, and others use it under the lock, which is held.
        unsafe { self.ring.update(seq, change) };
    }

    /// The marker has come back: everything before it has a completion.
    #[cold]
    pub(super) fn set_drained(&self) {
        self.is_drained.store(true, Release);
    }

    /// Whether the marker has come back.
    pub(super) fn is_drained(&self) -> bool {
        self.is_drained.load(Acquire)
    }

    /// Retires everything from `tail` on, after the queue pair has been destroyed: each context that has not been
    /// handed out goes to `reclaim`. Returns how many there were, markers aside.
    ///
    /// # Safety
    ///
    /// The queue pair has been destroyed, or nothing has been posted to it. The queue is no longer in the table of its
    /// completion queue, where `tail` of its operations had been retired.
    pub(super) unsafe fn reclaim_all(
        &self,
        tail: u32,
        reclaim: &mut dyn FnMut(Context),
        others: &ExclusiveGuard,
    ) -> u32 {
        let end = self.producer.lock(others).next_seq;
        let mut seq = tail;
        // SAFETY: By this function's safety requirement nothing is under way any more, and nobody else retires.
        unsafe { self.ring.unmap(seq, end) };
        let mut count = 0;
        while seq != end {
            // SAFETY: As above.
            let slot = unsafe { self.ring.get(seq) };
            match slot.kind {
                OpKind::DrainMarker => {}
                // The last one stands for the buffer.
                OpKind::MultiRecv => count += 1,
                OpKind::Reported | OpKind::Silent | OpKind::LastMultiRecv => {
                    if !slot.is_reported {
                        reclaim(slot.context);
                    }
                    count += 1;
                }
            }
            seq = seq.wrapping_add(1);
        }
        self.tail.store(end, Release);
        self.reclaim_cas_atomics(reclaim);
        count
    }
}
