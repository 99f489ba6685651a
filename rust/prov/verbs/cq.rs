// SPDX-License-Identifier: GPL-2.0

//! Completion queues over a device's own.
//!
//! `inner`, taken with interrupts off and never while posting, makes readers take turns: it guards
//! the backlog and the table of queues, and with them the tails of the queues. A reader polls the
//! device straight into the consumer's entries; only what comes behind a failure, or what a drain
//! finds, goes through the backlog. What can be posted fits into the device's queue, or room in it is
//! reserved before each post.

mod poll;

use super::{
    cntr::WqCounters,
    info,
    srx::UnreadSlots,
    wc_backlog::{
        DeferredWc,
        WcBacklog,
        WqId, //
    },
    wc_status,
    wq::WorkQueue, //
};
use crate::{
    abi::{
        biased_lock::{
            BiasOwner,
            BiasedGuard,
            BiasedLock,
            ExclusiveGuard, //
        },
        downcast::downcast,
        log::complain,
        stat_counter::StatCounter,
        trace,
        Errno,
        Result,
        KOFI_VALUE_CALLBACKS,
        KOFI_VALUE_ENTRIES,
        KOFI_VALUE_ERRORS,
        KOFI_VALUE_OVERRUNS,
        KOFI_VALUE_SIZE, //
    },
    fi::{
        self,
        cq::{
            Completion,
            Entries,
            ErrData,
            Failure,
            FreeSlots,
            Notifier,
            WaitFlag, //
        },
        introspect::ObjectInfo,
        memory::Context,
        provider, //
    },
    rdma::{
        self,
        cq::{
            CqNotify,
            WcBatch,
            WcStatus, //
        },
        device::{
            Device,
            DeviceRef, //
        },
    },
};
use core::{
    any::Any,
    mem::MaybeUninit, //
};
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        static_lock_class,
        Arc, //
    },
};
use poll::{
    CqState,
    WqEntry,
    BATCH,
    FORGOTTEN, //
};

/// Completions that a queue opened with size 0 holds.
const DEFAULT_SIZE: usize = 1024;

/// Room beside the asked size, for the markers of drains: one for each queue that posts here.
const MARKERS: usize = 64;

/// And for the nudges of as many endpoints, or their operations of several requests.
const OTHERS: usize = MARKERS / 2;

/// Selects the completions of a work queue that wake readers of its completion queue and call its handler.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WakePolicy {
    /// Each completion.
    Always,
    /// Failures, and messages sent with FI_REMOTE_SIGNAL; each completion if another queue of the CQ needs that.
    IfSignalled,
}

/// A completion queue of a verbs device. What an empty poll needs comes first, in one cache line.
#[pin_data]
#[repr(C, align(64))]
pub(crate) struct Cq {
    ib: rdma::cq::CqPoller,
    #[pin]
    inner: BiasedLock<CqState>,
    size: usize,
    /// How many more operations may be posted, where that is counted.
    room: FreeSlots,
    /// Set while a poster waits for room: room that no completion announces then wakes the readers.
    wants_room: WaitFlag,
    /// Number of work queues that complete here with [`WakePolicy::Always`] and with [`WakePolicy::IfSignalled`].
    wakers: Atomic<i32>,
    signalled: Atomic<i32>,
    interrupts: Arc<Notifier>,
    /// What readers have been told of, under `inner`.
    told: StatCounter,
    failures: StatCounter,
    /// Shared with those who find out.
    overruns: Arc<Atomic<u64>>,
}

/// Wakes the readers: called by the driver in any context.
struct ReaderNotifier {
    interrupts: Arc<Notifier>,
    device: Arc<Device>,
    overruns: Arc<Atomic<u64>>,
}

impl rdma::cq::CqHandler for ReaderNotifier {
    fn completion(&self) {
        self.interrupts.arrived();
    }

    fn failed(&self) {
        let _ = self.overruns.fetch_add(1, Relaxed);
        complain(
            &self.device.name(),
            fmt!("a completion queue is broken, completions may be lost"),
        );
    }
}

impl Cq {
    /// Opens a queue. May sleep.
    pub(super) fn new(
        serial: Option<Arc<BiasOwner>>,
        device: rdma::device::DeviceRef,
        attr: &fi::cq::Attr,
    ) -> Result<Arc<Self>> {
        let limit = device.attributes().max_cqe as usize;
        let size = match attr.size {
            0 => DEFAULT_SIZE.min(limit),
            size if size > limit => return Err(Errno::EINVAL),
            size => size,
        };
        // See `register`.
        let size = size.saturating_add(Self::besides(&device)).min(limit);
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
                ib: ib.poller(),
                room: FreeSlots::new(size),
                wants_room: WaitFlag::new(),
                wakers: Atomic::new(0),
                signalled: Atomic::new(0),
                size,
                told: StatCounter::new(),
                failures: StatCounter::new(),
                inner <- BiasedLock::new(
                    serial,
                    CqState {
                        backlog,
                        queues: KVec::new(),
                        most: 0,
                        sharers: RBTree::new(),
                        counted: false,
                        waiting: 0,
                        overruns: overruns.clone(),
                        batch,
                    },
                    c"kofi::Cq",
                    static_lock_class!(),
                ),
                overruns,
                interrupts,
            }? Error),
            GFP_KERNEL,
        )?)
    }

    /// How much room a queue has beside what is asked for, if the device has so much.
    pub(super) fn besides(device: &DeviceRef) -> usize {
        MARKERS + OTHERS * info::besides(device) as usize
    }

    /// The verbs part of a queue that a consumer binds.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for another provider's queue.
    pub(super) fn of(queue: &Arc<dyn provider::CompletionQueue>) -> Result<Arc<Self>> {
        downcast(queue.clone().into_any()).ok_or(Errno::EINVAL)
    }

    /// Locks the table for a data call.
    #[inline(always)]
    fn enter(&self) -> BiasedGuard<'_, CqState> {
        // SAFETY: Only functions of this file have a guard, and none of them calls another one of the queue before it
        // drops it, except `leave`, which does so first. They are reached from the consumer's data calls, and otherwise
        // with an `ExclusiveGuard`.
        unsafe { self.inner.enter() }
    }

    /// The device's queue.
    pub(super) fn ib(&self) -> &Arc<rdma::cq::Cq> {
        self.ib.cq()
    }

    /// Reserves room for one completion.
    #[inline]
    pub(super) fn reserve(&self) -> bool {
        self.room.take(1)
    }

    /// Requests that room which comes back without a completion wakes the readers and calls the handler, because a
    /// poster found none. The poster then looks once more. Any context.
    #[cold]
    pub(super) fn await_room(&self) {
        self.wants_room.set();
    }

    /// Releases the room of operations that have no completion, and wakes the readers if a poster waits for that. Any
    /// context.
    pub(super) fn release(&self, count: u32) {
        // Full: either this sees the flag of a poster that found no room, or the poster sees the room.
        self.room.give(count);
        if count != 0 && self.wants_room.take() {
            self.interrupts.arrived();
        }
    }

    /// Enters a queue into the table, with room for what it posts besides operations. May sleep.
    ///
    /// As long as everything that the queues can post fits, nobody counts; from the first queue on
    /// with which it does not, each post takes room and gives it back when it is retired.
    ///
    /// # Errors
    ///
    /// -FI_ENOSPC when the completion queue is full, -FI_ENOMEM.
    ///
    /// # Safety
    ///
    /// The queue completes here. It is in no table and nothing has been posted to it, and until
    /// [`Self::unregister`] it is in no other.
    pub(super) unsafe fn register(
        &self,
        queue: &Arc<WorkQueue>,
        (mut tally, wakes): (Option<KBox<WqCounters>>, WakePolicy),
        others: &ExclusiveGuard,
    ) -> Result<WqId> {
        if !self.room.take(queue.besides()) {
            return Err(Errno::ENOSPC);
        }
        let mut spare = KVec::new();
        loop {
            let mut guard = self.inner.lock(others);
            let inner = &mut *guard;
            let len = inner.queues.len();
            let free = inner.queues.iter().position(Option::is_none);
            if free.is_some() || spare.capacity() > len {
                if free.is_none() {
                    // Moved under the lock into memory that was allocated outside of it.
                    for entry in inner.queues.drain_all() {
                        let _ = spare.push_within_capacity(entry);
                    }
                    let _ = spare.push_within_capacity(None);
                    core::mem::swap(&mut inner.queues, &mut spare);
                }
                let index = free.unwrap_or(len);
                // INVARIANT: By this function's safety requirement; nothing has been posted yet.
                inner.queues[index] = Some(WqEntry {
                    queue: queue.clone(),
                    tail: 0,
                    unread: 0,
                    ahead: 0,
                    has_failed: false,
                    is_waiting: false,
                    wakes,
                    tally: tally.take(),
                });
                inner.most += queue.most() as usize;
                self.count_if_needed(inner, others);
                drop(guard);
                self.add_waker(wakes);
                return Ok(WqId::new(index as u32));
            }
            drop(guard);
            match KVec::with_capacity((len + 1).next_power_of_two(), GFP_KERNEL) {
                Ok(larger) => spare = larger,
                Err(error) => {
                    self.release(queue.besides());
                    return Err(error.into());
                }
            }
        }
    }

    /// Returns the number of work queues that complete here with that setting.
    fn wakers_of(&self, wakes: WakePolicy) -> &Atomic<i32> {
        match wakes {
            WakePolicy::Always => &self.wakers,
            WakePolicy::IfSignalled => &self.signalled,
        }
    }

    /// Counts a new work queue with that setting.
    fn add_waker(&self, wakes: WakePolicy) {
        let _ = self.wakers_of(wakes).fetch_add(1, Full);
        if wakes == WakePolicy::Always {
            // A waiter may have armed the queue for fewer completions. The new work queue has none yet.
            let _ = self.ib.cq().arm(CqNotify::Any);
        }
    }

    /// The queue at `place` shares its receives: completions that name their queue pair by `qp` are its. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn know(&self, place: WqId, qp: usize, others: &ExclusiveGuard) -> Result {
        let node = RBTreeNode::new(qp, place.index() as u32, GFP_KERNEL)?;
        let mut freed = 0;
        let mut inner = self.inner.lock(others);
        if inner.sharers.get(&qp).is_some() {
            // Of one that is gone, whose endpoint still closes: all that there is of it is its own.
            inner.stash_all(&self.ib, &mut freed);
        }
        let old = inner.sharers.insert(node);
        self.leave(inner, freed);
        drop(old);
        Ok(())
    }

    /// Keeps room for so many completions of receives that are shared, which take none when they are posted.
    /// May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOSPC when there is not that much.
    pub(super) fn set_aside(&self, count: u32, others: &ExclusiveGuard) -> Result {
        let mut inner = self.inner.lock(others);
        inner.most += count as usize;
        // Before anything is taken: messages do not wait until what others have posted is over.
        self.count_if_needed(&mut inner, others);
        if !self.room.take(count) {
            inner.most -= count as usize;
            return Err(Errno::ENOSPC);
        }
        Ok(())
    }

    /// Gives that room back.
    pub(super) fn give_back(&self, count: u32, others: &ExclusiveGuard) {
        self.inner.lock(others).most -= count as usize;
        self.release(count);
    }

    /// Has each queue count from now on, if what they can post does not fit.
    ///
    /// What they post until they have been told still fits: the last queue posts only later.
    fn count_if_needed(&self, inner: &mut CqState, others: &ExclusiveGuard) {
        if inner.most > self.size {
            inner.counted = true;
        }
        if !inner.counted {
            return;
        }
        for entry in inner.queues.iter().flatten() {
            let under_way = (entry.tail, entry.unread);
            // SAFETY: The lock of this table is held; see the invariant of `WqEntry`.
            let count = unsafe { entry.queue.count(under_way, others) };
            self.room.take_anyway(count);
        }
    }

    /// Counts what has completed of a queue, and nothing after that.
    pub(super) fn end_count(&self, place: WqId, others: &ExclusiveGuard) {
        self.stash(others);
        let mut inner = self.inner.lock(others);
        let entry = inner.queues.get_mut(place.index());
        let tally = entry.and_then(|entry| entry.as_mut()?.tally.take());
        drop(inner);
        drop(tally);
    }

    /// Takes a queue, whose queue pair is gone, out of the table with all of its completions. Each
    /// context that no reader has seen goes to `reclaim`. May sleep.
    ///
    /// # Safety
    ///
    /// The queue pair that posts there has been destroyed, or nothing has been posted to it.
    pub(super) unsafe fn unregister(
        &self,
        place: WqId,
        reclaim: &mut dyn FnMut(Context),
        others: &ExclusiveGuard,
    ) {
        self.stash(others);
        let mut unread = UnreadSlots::new();
        loop {
            let (mut contexts, mut freed) = ([None; FORGOTTEN], 0);
            let mut inner = self.inner.lock(others);
            let count = inner.forget(place, &mut contexts, &mut unread, &mut freed);
            self.leave(inner, freed);
            contexts.into_iter().flatten().for_each(&mut *reclaim);
            if count < FORGOTTEN {
                break;
            }
        }
        let mut inner = self.inner.lock(others);
        let counted = inner.counted;
        let entry = inner.queues.get_mut(place.index()).and_then(Option::take);
        let share = entry.as_ref().and_then(|entry| entry.queue.share());
        let known = share.and_then(|share| inner.forget_sharer(share.qp, place));
        if let Some(WqEntry {
            queue, is_waiting, ..
        }) = &entry
        {
            inner.most -= queue.most() as usize;
            inner.waiting -= u32::from(*is_waiting);
        }
        drop(inner);
        drop(known);
        if let Some(share) = share {
            // SAFETY: `forget` has kept them, all from the queue's share.
            unsafe { share.srx.repost_all(unread) };
        }
        if let Some(WqEntry {
            queue, tail, wakes, ..
        }) = entry
        {
            let _ = self.wakers_of(wakes).fetch_sub(1, Relaxed);
            // SAFETY: By this function's safety requirement; the queue has left the table above.
            let abandoned = unsafe { queue.abandon(tail, reclaim, others) };
            // With the room that `register` reserved.
            self.release(queue.besides() + if counted { abandoned } else { 0 });
        }
    }

    /// Moves everything that the device has into the backlog, so that the markers among it are seen.
    /// Any context.
    pub(super) fn stash(&self, others: &ExclusiveGuard) {
        let mut freed = 0;
        let mut inner = self.inner.lock(others);
        inner.stash_all(&self.ib, &mut freed);
        let is_put_off = !inner.backlog.is_empty();
        self.leave(inner, freed);
        if is_put_off && self.waits_for_signals() {
            // rxe flushes receives without a solicited event (`flush_recv_wqe()`).
            self.interrupts.arrived();
        }
    }

    /// Returns whether only failures and signalled messages wake readers.
    fn waits_for_signals(&self) -> bool {
        self.signalled.load(Relaxed) != 0 && self.wakers.load(Relaxed) == 0
    }

    /// Has the next completion wake the readers, signalled or not, because a poster found no room. Completions that
    /// are there already wake them at once. Any context.
    #[cold]
    pub(super) fn await_any(&self) {
        if !self.waits_for_signals() {
            return;
        }
        let is_missed = self.ib.cq().arm(CqNotify::Any);
        if is_missed || !self.enter().backlog.is_empty() {
            self.interrupts.arrived();
        }
    }

    /// Ends what a holder of the lock has done: room for so many more operations has been freed, and
    /// the steps are posted that wait for that.
    #[inline(always)]
    fn leave(&self, inner: BiasedGuard<'_, CqState>, freed: u32) {
        let waiting = inner.waiting;
        self.release_if_counted(inner, freed);
        if waiting > 0 {
            self.post_steps();
        }
    }

    /// Unlocks, and releases the room of that many operations if room is counted.
    #[inline(always)]
    fn release_if_counted(&self, inner: BiasedGuard<'_, CqState>, freed: u32) {
        let counted = inner.counted;
        drop(inner);
        if counted {
            // The device has announced their completions: a handler that is the only reader is called.
            self.room.give(freed);
        }
    }

    /// Posts what waits for that. Any context.
    #[cold]
    #[inline(never)]
    fn post_steps(&self) {
        let mut at = 0;
        loop {
            let Some(queue) = self.enter().next_waiting(&mut at) else {
                return;
            };
            if !queue.move_on(|step| self.refuse(step)) {
                self.enter().wait_on(&queue, at);
            }
        }
    }

    /// Ends an operation in its middle: the device does not take its next request.
    fn refuse(&self, step: u64) {
        let mut freed = 0;
        let mut inner = self.enter();
        inner.refuse(step, &mut freed);
        self.release_if_counted(inner, freed);
        self.interrupts.arrived();
    }

    /// Takes what the device has in place of a reader, who is told later what there is to tell. Any
    /// context.
    pub(super) fn move_on(&self) {
        self.retire_silent();
        self.post_steps();
    }

    /// Makes the operation `seq` of `queue`, into a piece from `start` on, the last one of its buffer,
    /// if its completion has not been read. Any context.
    ///
    /// # Safety
    ///
    /// `seq` has been posted, by the same data call.
    #[cold]
    pub(super) unsafe fn end_buffer(&self, queue: &WorkQueue, seq: u32, start: usize) -> bool {
        // SAFETY: By this function's safety requirement.
        unsafe { self.enter().end_buffer(queue, seq, start) }
    }

    /// Takes completions into entries of one shape. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN when there is nothing, -FI_EAVAIL when a failure is next.
    #[inline(always)]
    fn take<E: From<Completion>>(&self, room: &mut [MaybeUninit<E>]) -> Result<usize> {
        // SAFETY: As in `enter`.
        match unsafe { self.inner.enter_alone() } {
            Some(inner) => self.take_run(inner, room),
            None => self.take_locked(room),
        }
    }

    /// [`Self::take`], where others are about, or may be.
    #[inline(never)]
    fn take_locked<E: From<Completion>>(&self, room: &mut [MaybeUninit<E>]) -> Result<usize> {
        self.take_run(self.enter(), room)
    }

    /// [`Self::take`], where nearly always one poll brings all there is, which one run tells.
    #[inline(always)]
    fn take_run<E: From<Completion>>(
        &self,
        mut inner: BiasedGuard<'_, CqState>,
        room: &mut [MaybeUninit<E>],
    ) -> Result<usize> {
        if room.is_empty() || !inner.is_plain() || trace::completions() {
            // SAFETY: No batch has been polled.
            return unsafe { self.take_rest(inner, room, None) };
        }
        let batch = room.len().min(BATCH);
        let polled = inner.batch.poll(&self.ib, batch);
        if polled == 0 {
            return Err(Errno::EAGAIN);
        }
        // Room in the completion queue is not counted.
        // SAFETY: The batch has just been polled, and the backlog is empty, as `is_plain` says.
        let run = unsafe { inner.tell_run(0, room, &mut 0) };
        if run == polled && (run < batch || run == room.len()) {
            self.told.add(run as u64);
            return Ok(run);
        }
        // SAFETY: So many have been taken above.
        unsafe { self.take_rest(inner, room, Some(run)) }
    }

    /// Continues [`Self::take`] after the first `told` completions of the batch, if a batch has been polled.
    ///
    /// # Safety
    ///
    /// The first `told` completions of the batch have been taken, and no others.
    #[inline(never)]
    unsafe fn take_rest<E: From<Completion>>(
        &self,
        mut inner: BiasedGuard<'_, CqState>,
        room: &mut [MaybeUninit<E>],
        told: Option<usize>,
    ) -> Result<usize> {
        let mut freed = 0;
        let count = match told {
            None => inner.read(&self.ib, room, &mut freed),
            // SAFETY: By this function's safety requirement.
            Some(told) => unsafe { inner.read_on(&self.ib, told, room, &mut freed) },
        };
        let found = if count > 0 {
            Ok(())
        } else if inner.backlog.is_empty() && !room.is_empty() {
            Err(Errno::EAGAIN)
        } else {
            inner.look(&self.ib, &mut freed)
        };
        self.told.add(count as u64);
        self.leave(inner, freed);
        found.map(|()| count)
    }

    /// Polls the device in place of a reader: retires silent operations, also those behind completions that wait for
    /// their reader. Posts nothing, so that posting calls may call it. Any context.
    pub(super) fn retire_silent(&self) {
        let mut freed = 0;
        let mut inner = self.enter();
        inner.stash_all(&self.ib, &mut freed);
        self.release_if_counted(inner, freed);
    }
}

impl provider::CompletionQueue for Cq {
    fn tell(&self, told: &mut ObjectInfo<'_>) {
        told.value(KOFI_VALUE_SIZE, self.size as u64);
        told.value(KOFI_VALUE_ENTRIES, self.told.get());
        told.value(KOFI_VALUE_ERRORS, self.failures.get());
        told.value(KOFI_VALUE_CALLBACKS, self.interrupts.calls());
        told.value(KOFI_VALUE_OVERRUNS, self.overruns.load(Relaxed));
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    #[inline(always)]
    fn read(&self, entries: Entries<'_>) -> Result<usize> {
        match entries {
            Entries::Context(room) => self.take(room),
            Entries::Msg(room) => self.take(room),
            Entries::Data(room) => self.take(room),
            Entries::Tagged(room) => self.take(room),
            Entries::Sourced(room) => self.take(room),
        }
    }

    fn read_error(&self) -> Result<Failure> {
        let mut freed = 0;
        let mut inner = self.enter();
        if inner.backlog.is_empty() {
            inner.stash(&self.ib, &mut freed);
        }
        let is_next = inner.backlog.front().is_some_and(DeferredWc::is_failure);
        let taken = if is_next {
            inner.take(&mut freed)
        } else {
            None
        };
        let failure = taken.map(|(completion, direction, done)| Failure {
            completion: Completion {
                len: 0,
                ..completion
            },
            dropped: 0,
            errno: wc_status::errno(done.status, direction),
            prov_errno: done.status.code() as i32,
            err_data: ErrData::None,
        });
        self.failures.add(u64::from(failure.is_some()));
        self.leave(inner, freed);
        failure.ok_or(Errno::EAGAIN)
    }

    fn progress(&self) {
        self.move_on();
    }

    fn arm(&self) -> bool {
        self.ib.cq().arm(match self.waits_for_signals() {
            true => CqNotify::Solicited,
            false => CqNotify::Any,
        })
    }

    fn has_put_off(&self) -> bool {
        // Who has polled something and not put it off yet holds the lock.
        !self.enter().backlog.is_empty()
    }

    fn interrupts(&self) -> &Notifier {
        &self.interrupts
    }

    fn describe(&self, prov_errno: i32) -> &'static CStr {
        wc_status::text(WcStatus::from_code(prov_errno as u32))
    }

    fn close(&self) {}
}
