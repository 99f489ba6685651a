// SPDX-License-Identifier: GPL-2.0

//! Completion queues, over completion queues of a verbs device.
//!
//! The lock of `state` serialises readers. It is taken with interrupts off and never held while
//! posting, and guards the backlog, the table of work queues and the tails of the work queues.
//!
//! A reader polls the device straight into the consumer's entries (`read`). Only completions behind
//! a failure, and completions that a thread other than a reader polls, go through the backlog
//! (`poll`). The device's queue cannot overrun: either it has an entry for every operation that the
//! work queues can post, or each post first reserves an entry.

mod cas;
mod part;
mod poll;
mod read;
mod wq_entry;
mod wq_table;

use super::{
    info,
    prelude::*,
    wc_backlog::WcBacklog, //
};
use crate::{
    fi::{
        self,
        cq::{
            FreeSlots,
            Notifier,
            WaitFlag, //
        },
    },
    rdma::{
        self,
        cq::{
            CqNotify,
            WcBatch, //
        },
        device::DeviceRef,
        dim::CqDim, //
    },
    util::{
        biased_lock::BiasedLock,
        downcast::downcast, //
    },
};
use kernel::rbtree::RBTree;
use poll::CqState;

/// Number of completions that a queue opened with size 0 holds.
const DEFAULT_SIZE: usize = 1024;

/// Number of entries beyond the requested size for drain markers: one for each work queue that
/// completes here.
const DRAIN_ENTRIES: usize = 64;

/// Number of endpoints for which a queue has entries beyond the requested size for their siw kicks
/// and for their operations that take several work requests.
const EXTRA_ENTRIES: usize = DRAIN_ENTRIES / 2;

/// Selects the completions of a work queue that wake readers of its completion queue and call its handler.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WakePolicy {
    /// Each completion.
    Always,
    /// Failures, and messages sent with FI_REMOTE_SIGNAL. Each completion while the completion queue has another work
    /// queue with [`Self::Always`].
    SolicitedOnly,
}

/// A completion queue of a verbs device. The fields that a poll of an empty queue uses come first, in one
/// cache line.
#[pin_data]
#[repr(C, align(64))]
pub(crate) struct Cq {
    poller: rdma::cq::CqPoller,
    #[pin]
    state: BiasedLock<CqState>,
    size: usize,
    /// Number of free entries. Posts reserve them only if `CqState::is_accounting` is set.
    reservation: FreeSlots,
    /// Set while a poster waits for an entry; an entry that is released without a completion then
    /// wakes the readers.
    entry_waiter: WaitFlag,
    /// Number of work queues that complete here with [`WakePolicy::Always`], and, in the next field, with
    /// [`WakePolicy::SolicitedOnly`].
    always_wqs: Atomic<i32>,
    solicited_wqs: Atomic<i32>,
    interrupts: Arc<Notifier>,
    /// Set while `dim` gets samples.
    is_adaptive: AtomicFlag,
    /// Adaptive moderation, once it has been requested. Samples are taken under the lock of `state`.
    dim: SetOnce<CqDim>,
    /// Serialises changes of the moderation.
    #[pin]
    moderation: Mutex<()>,
    /// Statistics of the entries and errors that readers got, changed under the lock of `state`.
    entries_read: StatCounter,
    errors_read: StatCounter,
    /// Number of overruns, shared with the notifier and `state`, which detect them.
    overruns: Arc<Atomic<u64>>,
}

/// Wakes the readers. Called by the driver in any context.
struct ReaderNotifier {
    interrupts: Arc<Notifier>,
    device: Arc<Device>,
    overruns: Arc<Atomic<u64>>,
}

impl rdma::cq::CqHandler for ReaderNotifier {
    fn handle_completion(&self) {
        self.interrupts.notify();
    }

    fn handle_error(&self) {
        let _ = self.overruns.fetch_add(1, Relaxed);
        warn(
            &self.device.name(),
            fmt!("a CQ failed (IB_EVENT_CQ_ERR) and may have lost completions: reopen the CQ with overruns in `kofi stat`"),
        );
    }
}

impl Cq {
    /// Opens a completion queue. May sleep.
    pub(super) fn new(
        serial: Option<Arc<BiasedLockList>>,
        device: rdma::device::DeviceRef,
        attr: &fi::cq::Attr,
    ) -> Result<Arc<Self>> {
        let limit = device.attributes.max_cqe as usize;
        let size = match attr.size {
            0 => DEFAULT_SIZE.min(limit),
            size if size > limit => return Err(Errno::EINVAL),
            size => size,
        };
        // `add_wq` reserves the extra entries for completions that belong to no slot.
        let size = size.saturating_add(Self::extra_entries(&device)).min(limit);
        let interrupts = Arc::pin_init(Notifier::new(), GFP_KERNEL)?;
        let overruns = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let notify = ReaderNotifier {
            interrupts: interrupts.clone(),
            device: device.device().clone(),
            overruns: overruns.clone(),
        };
        let ib = rdma::cq::Cq::new(device, size as u32, attr.vector, notify)?;
        let backlog = WcBacklog::new(size)?;
        let batch = WcBatch::new()?;
        Ok(Arc::pin_init(
            try_pin_init!(Self {
                poller: ib.poller(),
                reservation: FreeSlots::new(size),
                entry_waiter: WaitFlag::new(),
                always_wqs: Atomic::new(0),
                solicited_wqs: Atomic::new(0),
                size,
                is_adaptive: AtomicFlag::new(false),
                dim: SetOnce::new(),
                moderation <- new_mutex!((), "kofi::verbs::Cq::moderation"),
                entries_read: StatCounter::new(),
                errors_read: StatCounter::new(),
                state <- BiasedLock::new(
                    serial,
                    CqState {
                        backlog,
                        wqs: KVec::new(),
                        max_entries: 0,
                        srx_qps: RBTree::new(),
                        is_accounting: false,
                        pending_cas_wqs: 0,
                        overruns: overruns.clone(),
                        batch,
                    },
                    c"kofi::verbs::Cq",
                    static_lock_class!(),
                ),
                overruns,
                interrupts,
            }? Error),
            GFP_KERNEL,
        )?)
    }

    /// Returns the number of entries that a queue gets beyond the requested size, as far as the
    /// device's limit allows.
    pub(super) fn extra_entries(device: &DeviceRef) -> usize {
        DRAIN_ENTRIES + EXTRA_ENTRIES * info::extra_send_wrs(device) as usize
    }

    /// Returns this provider's object of a completion queue that a consumer binds.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for another provider's queue.
    pub(super) fn from_provider(queue: &Arc<dyn provider::CompletionQueue>) -> Result<Arc<Self>> {
        downcast(queue.clone().into_any()).ok_or(Errno::EINVAL)
    }

    /// Locks `state` for a data call.
    #[inline(always)]
    fn lock_data(&self) -> BiasedGuard<'_, CqState> {
        // SAFETY: Only functions of this file, `cas`, `read` and `wq_table` hold a guard. While they hold it
        // they call no function that locks, except `unlock_and_post`, which drops the guard first. They run
        // for data calls of the consumer, or with an `ExclusiveGuard`.
        unsafe { self.state.enter() }
    }

    /// Returns the device's completion queue.
    pub(super) fn ib_cq(&self) -> &Arc<rdma::cq::Cq> {
        self.poller.cq()
    }

    /// Reserves entries for `count` completions; returns false, and reserves none, if there are fewer.
    #[inline]
    pub(super) fn reserve_entries(&self, count: u32) -> bool {
        self.reservation.try_reserve(count)
    }

    /// Requests a wakeup of the readers and a call of the handler when an entry is released without
    /// a completion. A poster that found no free entry calls this, and then tries once more. Any
    /// context.
    #[cold]
    pub(super) fn set_entry_waiter(&self) {
        self.entry_waiter.set();
    }

    /// Releases the entries of operations that have no completion, and wakes the readers if a
    /// poster waits for one. Any context.
    pub(super) fn release_entries(&self, count: u32) {
        // Full ordering: either this sees the flag of a poster that found no entry, or the poster
        // sees the released entries.
        self.reservation.release(count);
        if count != 0 && self.entry_waiter.take() {
            self.interrupts.notify_space();
        }
    }

    /// Moves all completions of the device to the backlog, so that drain markers among them are
    /// seen. Any context.
    pub(super) fn poll_to_backlog(&self, others: &ExclusiveGuard) {
        let mut freed = 0;
        let mut state = self.state.lock(others);
        state.poll_all_to_backlog(&self.poller, &mut freed);
        let is_put_off = !state.backlog.is_empty();
        self.unlock_and_post(state, freed);
        if is_put_off && self.is_solicited_only() {
            // rxe flushes receives without a solicited event (`flush_recv_wqe()`).
            self.interrupts.notify();
        }
    }

    /// Returns whether only failures and solicited messages wake readers.
    fn is_solicited_only(&self) -> bool {
        self.solicited_wqs.load(Relaxed) != 0 && self.always_wqs.load(Relaxed) == 0
    }

    /// Makes the next completion wake the readers, whether solicited or not. Wakes them at once if
    /// there are unread completions. A poster that found no free entry calls this. Any context.
    #[cold]
    pub(super) fn arm_for_any(&self) {
        if !self.is_solicited_only() {
            return;
        }
        let is_missed = self.poller.cq().req_notify(CqNotify::NextComp);
        if is_missed || !self.lock_data().backlog.is_empty() {
            self.interrupts.notify();
        }
    }

    /// Unlocks, releases the entries of `freed` operations, and posts the work requests that were
    /// waiting for completions.
    #[inline(always)]
    fn unlock_and_post(&self, inner: BiasedGuard<'_, CqState>, freed: u32) {
        let waiting = inner.pending_cas_wqs;
        self.unlock_and_release(inner, freed);
        if waiting > 0 {
            self.post_cas_steps();
        }
    }

    /// Unlocks, and releases the entries of `freed` operations if entries are counted.
    #[inline(always)]
    fn unlock_and_release(&self, inner: BiasedGuard<'_, CqState>, freed: u32) {
        let counted = inner.is_accounting;
        drop(inner);
        if counted {
            // No wakeup is needed: the device has raised a completion event for these operations, so
            // the handler is called even if it is the only reader.
            self.reservation.release(freed);
        }
    }

    /// Polls the device into the backlog, from which readers get the completions later, and posts
    /// the next work requests of atomic operations. Any context.
    pub(super) fn progress_all(&self) {
        self.retire_silent();
        self.post_cas_steps();
    }

    /// Marks the receive `seq` of `wq`, which receives into the piece from offset `start` on, as the
    /// last one of its multi-receive buffer. Returns false if its completion has already been read.
    /// Any context.
    ///
    /// # Safety
    ///
    /// The data call that calls this has posted `seq`.
    #[cold]
    pub(super) unsafe fn end_multi_recv(&self, wq: &WorkQueue, seq: u32, start: usize) -> bool {
        // SAFETY: By this function's safety requirement.
        unsafe { self.lock_data().end_multi_recv(wq, seq, start) }
    }

    /// Polls the device into the backlog, and so retires operations that write no entry, even those
    /// behind completions that have not been read. Posts nothing, so that posting calls may call it.
    /// Any context.
    pub(super) fn retire_silent(&self) {
        let mut freed = 0;
        let mut state = self.lock_data();
        state.poll_all_to_backlog(&self.poller, &mut freed);
        self.unlock_and_release(state, freed);
    }
}
