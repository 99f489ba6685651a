// SPDX-License-Identifier: GPL-2.0

//! A send or receive queue of an endpoint: the operations between their post and their completion.
//!
//! The ring of slots is allocated with the endpoint, so that posting never allocates. A poster
//! fills the next slot and posts under the lock of `producer`, which no completion path takes. The
//! reader of the completion queue retires slots in order, under that queue's lock, by moving
//! `tail`. A completion also retires the unsignalled operations before it.

mod mr;
mod op;
mod part;
mod post;
mod reserve;
mod retire;
mod stats;
mod trace;

pub(super) use op::{
    OpDesc,
    OpKind,
    ReportPolicy, //
};
pub(super) use reserve::{
    PostResources,
    ReservedSlot, //
};
pub(super) use stats::StatKind;

use super::{
    cas_atomic::{
        self,
        CasAtomicTable, //
    },
    ep::siw_quirk,
    mr_pool::MrPool,
    prelude::*,
    srx::SrxAttachment,
    wr_ring::{
        InjectBufs,
        WrRing, //
    },
};
use crate::{
    prov::common::stats::Violations,
    rdma::{
        device_attr::Protocol,
        wr_template::{
            RecvTemplate,
            SendTemplate, //
        },
    },
    util::{
        biased_lock::BiasedLock,
        once::read_once, //
    },
};
use core::mem::replace;
use part::PartFailure;
use stats::{
    CompStats,
    PostStats, //
};

/// Bit of [`WorkQueue::drain_marker`] that is set when the marker has completed.
const MARKER_COMPLETED: u64 = 1 << 32;

/// Prepared work request with a single scatter/gather element.
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

/// Target of a queue's posts, from the enabling of its endpoint to its close. The fields that the
/// fast path needs come first.
#[repr(C)]
pub(super) struct PostTarget {
    pub(super) template: WrTemplate,
    /// Index of the queue in the completion queue's table.
    pub(super) wq_id: WqId,
    /// Queue pair that `template` posts to.
    pub(super) qp: Arc<Qp>,
    pub(super) cq: Arc<Cq>,
    /// Set with FI_SELECTIVE_COMPLETION: a success is reported only if the post asks for it.
    pub(super) is_selective: bool,
    /// Set if a counter counts each operation, which needs a completion of each.
    pub(super) has_counters: bool,
}

/// State that posters share, under the lock; the fields that each post needs come first.
#[repr(C)]
struct Producer {
    /// Number of operations posted, modulo 2^32.
    next_seq: u32,
    /// Sequence number after the last operation that has a free slot, as far as posters know; they
    /// read `tail` again when they get there.
    free_end: u32,
    /// Length of the run of unsignalled operations that the last silent operation ends. It counts
    /// only while `silent_end` is `next_seq`: operations posted after that are signalled, and end
    /// the run.
    unsignalled: u32,
    /// Sequence number after the last silent operation.
    silent_end: u32,
    /// Sequence number after the last RDMA read.
    read_end: u32,
    /// Maximum number of consecutive unsignalled operations.
    max_unsignalled: u32,
    /// Set if each operation reserves an entry of the completion queue; see [`Cq::add_wq`].
    is_accounting: bool,
    target: Option<PostTarget>,
    /// Buffers for injected data, where the device does not take it inline. Kept until nothing is
    /// posted any more.
    inject_bufs: Option<InjectBufs>,
}

/// Direction of the messages of a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WqDirection {
    Transmit,
    Receive,
}

/// A send or receive queue. Retiring an operation needs the first cache line, and posting one needs
/// the first two.
#[pin_data]
#[repr(C, align(64))]
pub(super) struct WorkQueue {
    pub(super) ring: WrRing,
    /// Number of retired operations less the number of completions that wait in the backlog for a
    /// reader, modulo 2^32. Posters may fill the slots before it. So many slots stay in use that
    /// the queue never has more unread completions than its depth.
    tail: Atomic<u32>,
    depth: u32,
    /// Number of bytes that the device takes inline, if all injected data goes inline; 0 otherwise.
    inline_size: Atomic<u32>,
    pub(super) direction: WqDirection,
    is_drained: AtomicFlag,
    #[pin]
    producer: BiasedLock<Producer>,
    post_stats: PostStats,
    comp_stats: CompStats,
    /// Sequence number after the last operation whose completion has been moved to the backlog.
    /// With a shared receive context: 1 once a message has arrived; see [`Self::set_received`].
    deferred_end: Atomic<u32>,
    /// Set on iWARP, because of siw. Once an operation has failed, each operation has a completion
    /// of its own (some have two), in any order: siw flushes a work request that is posted in its
    /// error state at once, and one that was posted earlier perhaps later.
    pub(super) completes_out_of_order: bool,
    /// Number of the drain marker of such a queue, with [`MARKER_COMPLETED`] once it has completed.
    drain_marker: Atomic<u64>,
    /// First failure of a part, and a last work request that has completed before a part.
    part_failure: PartFailure,
    /// Operations that take several work requests, if the queue has any.
    pub(super) cas_atomics: Option<CasAtomicTable>,
    /// Maximum number of siw kicks in flight, which are posted without a slot and without the lock.
    max_kicks: u32,
    pd: Arc<Pd>,
    /// Number of the queue pair, once there is one.
    qp_num: Atomic<u32>,
    /// Regions of the endpoint, whose keys a message to this queue may invalidate.
    mr_pool: SetOnce<Arc<MrPool>>,
    /// Violations by the peer of the endpoint; only for a receive queue.
    violations: SetOnce<Arc<Violations>>,
    /// Attachment to a shared receive context, if the endpoint uses one.
    srx_attachment: SetOnce<SrxAttachment>,
    /// Set by the first `set_fast_path(true)`, which ends the second revocation of [`Self::new`].
    fast_path_was_enabled: AtomicFlag,
}

impl WorkQueue {
    /// Creates a queue for `depth` operations of at most `width` scatter/gather elements each. May
    /// sleep.
    pub(super) fn new(
        serial: Option<Arc<BiasedLockList>>,
        pd: &Arc<Pd>,
        (depth, width): (u32, usize),
        direction: WqDirection,
        cas_atomics: Option<CasAtomicTable>,
    ) -> Result<Arc<Self>> {
        let is_loose = pd.device().protocol == Protocol::Iwarp;
        let most_unsignalled = match is_loose {
            // siw reports no completion for an unsignalled work request that fails.
            true => 0,
            // The rest of the queue can be used while these wait to be retired.
            false => (depth / 4).saturating_sub(1),
        };
        // The additional slot is the drain marker's.
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
                    c"kofi::verbs::WorkQueue",
                    static_lock_class!(),
                ),
                tail: Atomic::new(0),
                deferred_end: Atomic::new(0),
                completes_out_of_order: is_loose,
                drain_marker: Atomic::new(0),
                part_failure: PartFailure::new(),
                depth,
                cas_atomics: cas_atomics,
                max_kicks: match direction {
                    WqDirection::Transmit => siw_quirk::max_kicks(pd.device()),
                    WqDirection::Receive => 0,
                },
                pd: pd.clone(),
                qp_num: Atomic::new(0),
                mr_pool: SetOnce::new(),
                violations: SetOnce::new(),
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
        // One revocation until the queue has a target, and one until its endpoint is connected.
        wq.producer.revoke();
        wq.producer.revoke();
        Ok(wq)
    }

    /// Allows or forbids the fast path of posting, which needs an endpoint that is connected both
    /// ways. The first call with true allows it, later ones have no effect; each call with false
    /// forbids it for good.
    pub(super) fn set_fast_path(&self, is_plain: bool) {
        match is_plain {
            true if self.fast_path_was_enabled.xchg(true, Full) => {}
            // SAFETY: This ends the second revocation of `new`; `fast_path_was_enabled` lets only one call do so.
            true => unsafe { self.producer.restore() },
            false => self.producer.revoke(),
        }
    }

    /// Locks the queue for a data call.
    #[inline(always)]
    fn lock_data(&self) -> BiasedGuard<'_, Producer> {
        // SAFETY: The functions that call this are reached from a data call of the consumer, or with an
        // `ExclusiveGuard`. No guard of this queue exists in the thread: functions that return a guard,
        // or pass it to a closure, require that the queue is not locked meanwhile, and all others drop
        // theirs before they return.
        unsafe { self.producer.enter() }
    }

    /// Returns the number of bytes that go inline at most; 0 before the queue has a target.
    #[inline(always)]
    pub(super) fn inline_size(&self) -> u32 {
        read_once(&self.inline_size)
    }

    /// Returns the maximum number of entries that the queue can have in its completion queue.
    pub(super) fn max_cq_entries(&self) -> u32 {
        // Does not saturate: `new` has checked `depth + 1`, and devices have no queues of nearly
        // 2^32.
        self.depth.saturating_add(self.extra_cq_entries())
    }

    /// Returns the number of completion queue entries that the queue can have beyond its depth: one
    /// for the drain marker, those of siw kicks and of operations that take several work requests,
    /// and on iWARP one for the operation that siw may report twice. As many work requests can be
    /// posted beyond the depth.
    pub(super) fn extra_cq_entries(&self) -> u32 {
        let cells = self
            .cas_atomics
            .as_ref()
            .map_or(0, |_| cas_atomic::MAX_CAS_OPS);
        1 + self.max_kicks + cells + u32::from(self.completes_out_of_order)
    }

    /// Returns whether an operation has completed, read or not. Meant for a queue that has just
    /// been enabled.
    pub(super) fn has_completed(&self) -> bool {
        self.tail.load(Acquire) != 0 || self.deferred_end.load(Acquire) != 0
    }

    /// Makes the queue post to `target`. Without `inject_bufs` injected data, of at most `inject`
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
            // The fast path reports every success.
            self.producer.revoke();
        }
        if target.has_counters {
            // A counter counts from completions, so each operation is signalled.
            head.max_unsignalled = 0;
        }
        if target.template.direction() != self.direction {
            // The fast path relies on a template of the queue's own direction.
            self.producer.revoke();
        }
        let before = head.target.replace(target);
        head.inject_bufs = inject_bufs;
        if before.is_none() {
            // SAFETY: This ends the revocation that exists without a target, which is that of `new`
            // or `take_target`.
            unsafe { self.producer.restore() };
        }
        drop(head);
        drop(before);
    }

    /// Attaches the queue to a shared receive context; its queue pair has number `number`. Called
    /// at most once.
    pub(super) fn attach_srx(&self, attachment: SrxAttachment, number: u32) {
        self.qp_num.store(number, Relaxed);
        let _ = self.srx_attachment.populate(attachment);
    }

    /// Returns the attachment to a shared receive context, if the endpoint uses one.
    #[inline]
    pub(super) fn srx_attachment(&self) -> Option<&SrxAttachment> {
        self.srx_attachment.as_ref()
    }

    /// Records that a message has taken a shared receive, for [`Self::has_completed`].
    pub(super) fn set_received(&self) {
        self.deferred_end.store(1, Release);
    }

    /// Stops posting, and returns the target that the queue had.
    pub(super) fn take_target(&self, others: &ExclusiveGuard) -> Option<PostTarget> {
        let mut head = self.producer.lock(others);
        if head.target.is_some() {
            self.producer.revoke();
        }
        head.target.take()
    }

    /// Makes each post reserve an entry of the completion queue from now on. Returns the number of
    /// operations without a reserved entry: those in flight, from `tail` on, and `unread` that wait
    /// for a reader.
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
        self.producer.revoke();
        // SAFETY: `head` is locked, and by this function's safety requirement so is the completion
        // queue: slots are neither filled nor retired meanwhile.
        let kind = |seq: &u32| unsafe { self.ring.get(*seq) }.kind;
        let posted = seqs(tail, head.next_seq).filter(|seq| kind(seq) != OpKind::DrainMarker);
        unread + posted.count() as u32
    }

    /// Returns the number of operations that can be posted now; -FI_EOPBADSTATE without a target.
    pub(super) fn free_slots(&self) -> Result<usize> {
        let head = self.lock_data();
        if head.target.is_none() {
            return Err(Errno::EOPBADSTATE);
        }
        let used = head.next_seq.wrapping_sub(self.tail.load(Acquire));
        Ok(self.depth.saturating_sub(used) as usize)
    }

    /// Returns whether the success of an operation that is posted with `policy` is reported.
    pub(super) fn is_reported(&self, policy: ReportPolicy) -> Result<bool> {
        // SAFETY: The closure locks nothing.
        unsafe { self.with_target(|target| Ok(target.op_kind(policy) == OpKind::Reported)) }
    }

    /// Calls `f` with the target of the queue, with the queue locked.
    ///
    /// # Errors
    ///
    /// -FI_EOPBADSTATE without a target, and the errors of `f`.
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

    /// Returns whether a signalled operation has no completion yet, read or not.
    pub(super) fn has_signalled_in_flight(&self, others: &ExclusiveGuard) -> bool {
        let head = self.producer.lock(others);
        let signalled = head
            .next_seq
            .wrapping_sub(head.unsignalled_before(head.next_seq));
        drop(head);
        let is_behind = |seq: u32| signalled.wrapping_sub(seq) as i32 > 0;
        is_behind(self.tail.load(Acquire)) && is_behind(self.deferred_end.load(Acquire))
    }

    /// Records that the completion of `seq` has been polled from the device into the backlog.
    pub(super) fn set_deferred_end(&self, seq: u32) {
        self.deferred_end.store(seq.wrapping_add(1), Release);
    }

    /// Returns the completion queue of the target, for a data call.
    pub(super) fn cq_for_data_call(&self) -> Option<Arc<Cq>> {
        let head = self.lock_data();
        head.target.as_ref().map(|target| target.cq.clone())
    }

    /// Returns the completion queue of a queue that has a target or an open attachment.
    pub(super) fn bound_cq(&self, others: &ExclusiveGuard) -> Option<Arc<Cq>> {
        self.bound_cq_and_id(others).map(|(cq, _)| cq)
    }

    /// Returns that completion queue, with the index of this queue in its table.
    pub(super) fn bound_cq_and_id(&self, others: &ExclusiveGuard) -> Option<(Arc<Cq>, WqId)> {
        if let Some(share) = self.srx_attachment() {
            return share.cq_if_open();
        }
        let head = self.producer.lock(others);
        let target = head.target.as_ref()?;
        Some((target.cq.clone(), target.wq_id))
    }
}

/// Returns the sequence numbers from `from` up to, not including, `end`.
fn seqs(from: u32, end: u32) -> impl Iterator<Item = u32> {
    (0..end.wrapping_sub(from)).map(move |nth| from.wrapping_add(nth))
}
