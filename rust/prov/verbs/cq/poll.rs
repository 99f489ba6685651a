// SPDX-License-Identifier: GPL-2.0

//! What the readers of a completion queue share, and take turns at.

use super::{
    super::{
        cas_atomic::CasProgress,
        cntr::WqCounters,
        srx::UnreadSlots,
        wc_backlog::{
            DeferredWc,
            ImmData,
            PolledWc,
            WcBacklog,
            WqId,
            WrOwner, //
        },
        wc_status,
        wq::{
            OpKind,
            WorkQueue,
            WqDirection, //
        },
        wr_ring::WrSlot, //
    },
    WakePolicy, //
};
use crate::{
    abi::{
        flags::*,
        trace,
        Errno,
        Result, //
    },
    fi::{
        cq::Completion,
        memory::Context, //
    },
    rdma::{
        self,
        cq::{
            Wc,
            WcBatch,
            WcStatus, //
        },
    },
};
use core::mem::MaybeUninit;
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

/// Completions polled at a time.
pub(super) const BATCH: usize = 16;

/// Number of unread completions that are given back at a time.
pub(super) const FORGOTTEN: usize = 8;

/// A queue that posts here; the alignment keeps it in one cache line.
///
/// # Invariants
///
/// An entry is in the table of the completion queue that `queue` completes in, and in no other; it is used with that
/// one's lock held. `tail` and `ahead` are what [`WorkQueue::advance_tail`] and [`WorkQueue::retire_loose`] ask for. `unread`
/// operations before `tail` have completions in the backlog that are not late.
#[repr(C, align(32))]
pub(super) struct WqEntry {
    pub(super) queue: Arc<WorkQueue>,
    /// How many of its operations have been retired, modulo 2^32.
    pub(super) tail: u32,
    /// Number of completions in the backlog that wait for their reader.
    pub(super) unread: u32,
    /// How many failures have been told of before one that was posted earlier; see
    /// [`WorkQueue::retire_loose`].
    pub(super) ahead: u32,
    /// Set once an operation of a loose queue has failed: its operations then complete in any order.
    pub(super) has_failed: bool,
    /// Whether the next steps of some operations wait to be posted.
    pub(super) is_waiting: bool,
    /// Selects the completions that wake readers.
    pub(super) wakes: WakePolicy,
    /// Counts its operations, where counters are bound.
    pub(super) tally: Option<KBox<WqCounters>>,
}

/// What an empty read needs comes first, in one cache line with the lock.
///
/// # Invariants
///
/// A completion in the backlog was put there by [`CqState::defer`], and its operation has not been ended since. The
/// operation of a late one has not been retired; one in a slot of shared receives has been met and not given back.
#[repr(C)]
pub(super) struct CqState {
    /// Whether what is posted takes its room first, because not everything fits.
    pub(super) counted: bool,
    /// How many queues wait for [`CqState::next_waiting`].
    pub(super) waiting: u32,
    pub(super) backlog: WcBacklog,
    /// Who posts here; an index is the upper half of a `wr_id`.
    pub(super) queues: KVec<Option<WqEntry>>,
    /// How many completions they can have under way.
    pub(super) most: usize,
    /// Those of them that share their receives, by what the completions name their queue pair by.
    pub(super) sharers: RBTree<usize, u32>,
    /// How many completions have been lost for want of room, the driver's complaints among them.
    pub(super) overruns: Arc<Atomic<u64>>,
    /// Completions of the last poll, which are too large for the stack of a reader in an interrupt.
    pub(super) batch: KBox<WcBatch<BATCH>>,
}

impl WqEntry {
    /// Whether an operation of a loose queue has been retired: it is told of a second time.
    fn is_retired(&self, seq: u32) -> bool {
        self.queue.is_loose() && (seq.wrapping_sub(self.tail) as i32) < 0
    }

    /// Releases the slots of retired operations to posters, except as many as have completions that wait for a
    /// reader.
    fn publish(&self) {
        // SAFETY: By the type invariant. The slots of operations before `tail` are used no more: what has a completion
        // in the backlog has a copy there. As only so many of them are unread, the difference never decreases.
        unsafe {
            self.queue.publish_tail(self.tail.wrapping_sub(self.unread));
            self.queue.drain_loosely(self.tail);
        }
    }

    /// Retires the operation of a completion that has a slot, and returns the number of operations retired. Their
    /// slots are not released to posters yet.
    ///
    /// # Safety
    ///
    /// The operation has completed, and has not been retired.
    unsafe fn retire(&mut self, done: &PolledWc) -> u32 {
        if self.queue.is_loose() {
            self.has_failed |= done.status != WcStatus::SUCCESS;
        }
        // SAFETY: By this function's safety requirement and the type invariant.
        unsafe {
            match self.has_failed {
                true => self
                    .queue
                    .retire_loose(&mut self.tail, &mut self.ahead, done.seq()),
                false => self.queue.advance_tail(&mut self.tail, done.seq()),
            }
        }
    }

    /// Ends a silent operation that has a slot, and returns the number of operations retired with it.
    ///
    /// # Safety
    ///
    /// The operation has completed, and has not been retired.
    unsafe fn end_silently(&mut self, done: &PolledWc, usage: OpKind) -> u32 {
        // SAFETY: By this function's safety requirement.
        let count = unsafe { self.retire(done) };
        if usage == OpKind::Marker {
            self.queue.marker_came(done.seq());
        }
        self.publish();
        // The room of a marker belongs to the entry in the table.
        count.wrapping_sub(u32::from(usage == OpKind::Marker))
    }

    /// Keeps the completion of an operation that has a slot for its reader, and retires the operation. Its own room
    /// is released when the completion is read; the room of silent operations retired with it is added to `freed`.
    ///
    /// # Safety
    ///
    /// The operation has completed, and has not been retired. What is returned goes into the backlog.
    unsafe fn keep(&mut self, done: PolledWc, slot: WrSlot, freed: &mut u32) -> DeferredWc {
        let is_failure = done.status != WcStatus::SUCCESS;
        // Operations of a loose queue that has failed stay: a second report of one would be taken for another
        // operation.
        let is_late = self.queue.is_loose() && (self.has_failed || is_failure);
        if is_late {
            self.has_failed = true;
        } else {
            // SAFETY: By this function's safety requirement.
            let count = unsafe { self.retire(&done) };
            *freed = freed.wrapping_add(count).wrapping_sub(1);
            // INVARIANT: It goes into the backlog, by this function's safety requirement.
            self.unread += 1;
        }
        self.publish();
        DeferredWc {
            done,
            slot,
            is_late,
        }
    }

    /// Ends an operation whose kept completion is being read. Returns the amount of room released.
    ///
    /// # Safety
    ///
    /// The completion has just been taken out of the backlog, where [`Self::keep`] of this entry had put it.
    unsafe fn release(&mut self, waiting: &DeferredWc) -> u32 {
        let freed = match waiting.is_late {
            // SAFETY: By this function's safety requirement it was kept without being retired.
            true => unsafe { self.retire(&waiting.done) },
            false => {
                // INVARIANT: It has left the backlog, by this function's safety requirement.
                self.unread -= 1;
                1
            }
        };
        self.publish();
        freed
    }

    /// Returns the completion to report for an operation that has a slot.
    fn describe(&self, done: &PolledWc, slot: &WrSlot) -> (Completion, WqDirection) {
        let queue = &*self.queue;
        let direction = queue.direction();
        match done.status {
            WcStatus::SUCCESS if direction == WqDirection::Receive => {
                queue.received(done.len.into())
            }
            WcStatus::SUCCESS => {}
            _ => queue.failed(),
        }
        let (flags, buf) = slot.told();
        let mut completion = Completion {
            len: match direction {
                WqDirection::Transmit => 0,
                WqDirection::Receive => done.len as usize,
            },
            buf,
            ..Completion::of(slot.context, flags)
        };
        bring(&mut completion, done.brought);
        (completion, direction)
    }
}

/// Returns whether an operation with that usage writes no completion entry.
#[inline]
fn is_silent(usage: OpKind, done: &PolledWc) -> bool {
    match usage {
        OpKind::Marker => true,
        OpKind::Reported | OpKind::Piece | OpKind::LastPiece => false,
        OpKind::Silent => done.is_unheard(),
    }
}

impl CqState {
    /// Whether a read may tell what it polls, and there is nothing else to do.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.backlog.is_empty() && !self.counted && self.waiting == 0
    }

    /// Polls one batch in place of a reader, and returns the number of completions. Silent operations are retired,
    /// which adds the room that they release to `freed`; other completions go into the backlog.
    pub(super) fn stash(&mut self, ib: &rdma::cq::CqPoller, freed: &mut u32) -> usize {
        let count = self.batch.poll(ib, BATCH);
        for at in 0..count {
            // SAFETY: The batch has just been polled, and each of its completions is taken once.
            unsafe {
                if let Some(done) = self.met(at) {
                    self.defer(done, freed);
                }
            }
        }
        count
    }

    /// Calls [`Self::stash`] until the device has no more completions.
    pub(super) fn stash_all(&mut self, ib: &rdma::cq::CqPoller, freed: &mut u32) {
        while self.stash(ib, freed) == BATCH {}
    }

    /// Takes the completion at index `at` of the batch. Returns the end of its operation, reported or not; none if
    /// it is not the last work request of its operation.
    ///
    /// # Safety
    ///
    /// The completion has not been taken since the batch was polled.
    #[inline]
    unsafe fn met(&mut self, at: usize) -> Option<PolledWc> {
        let wc = self.batch.found().get(at)?;
        let (done, qp) = (PolledWc::new(wc), wc.qp());
        match done.part() {
            WrOwner::Slot => Some(done),
            WrOwner::Cell(cell) => self.met_step(done, cell),
            // SAFETY: By this function's safety requirement.
            WrOwner::Shared(slot) => unsafe { self.met_shared(done, slot, qp) },
        }
    }

    /// Ends the operation of a work request `step` that the device did not take, and which has a cell. Adds the room
    /// that it releases to `freed`.
    pub(super) fn refuse(&mut self, step: u64, freed: &mut u32) {
        let done = PolledWc::refused(step);
        if let WrOwner::Cell(cell) = done.part() {
            if let Some(done) = self.met_step(done, cell) {
                // SAFETY: The operation has a cell, and `met_step` has just ended it.
                unsafe { self.defer(done, freed) };
            }
        }
    }

    /// A receive that is shared has been taken by a message of that queue pair, or came back with it.
    ///
    /// # Safety
    ///
    /// The completion of `slot` has been polled, and has not been taken before.
    #[inline(never)]
    unsafe fn met_shared(&mut self, mut done: PolledWc, slot: u32, qp: usize) -> Option<PolledWc> {
        let index = *self.sharers.get(&qp)?;
        let entry = self.queues.get_mut(index as usize)?.as_mut()?;
        let queue = &*entry.queue;
        let share = queue.share()?;
        // SAFETY: By this function's safety requirement.
        if !unsafe { share.meet(slot) } {
            return None;
        }
        queue.heard();
        done.wr_id = WqId::new(index).shared_id(slot);
        // SAFETY: It has been met above, and the lock is held.
        queue.trace_over(&done, || unsafe { share.srx.slot(slot) }.traced());
        if let Some(tally) = &mut entry.tally {
            // SAFETY: As above.
            unsafe { share.srx.show(slot) };
            // The data beside a peer's write has taken it, which brought no message.
            if !matches!(done.brought, ImmData::Write(_)) {
                tally.count_one(FI_RECV | FI_MSG, done.status == WcStatus::SUCCESS);
            }
        }
        Some(done)
    }

    #[cold]
    fn met_step(&mut self, mut done: PolledWc, cell: u32) -> Option<PolledWc> {
        let entry = self.queues.get_mut(done.place().index())?.as_mut()?;
        match entry.queue.answered(cell, done.status == WcStatus::SUCCESS) {
            CasProgress::Again => {
                if !core::mem::replace(&mut entry.is_waiting, true) {
                    self.waiting += 1;
                }
                return None;
            }
            CasProgress::Lost => done.status = wc_status::LOST,
            CasProgress::Over => {}
        }
        let told = entry.queue.told(cell)?;
        let is_success = done.status == WcStatus::SUCCESS;
        entry
            .queue
            .trace_over(&done, || Some((told.context, told.flags)));
        if let Some(tally) = &mut entry.tally {
            tally.count_one(told.flags, is_success);
        }
        if is_success && !told.is_reported {
            // Nobody is to come for it.
            let _ = entry.queue.end_exchange(cell);
            return None;
        }
        Some(done)
    }

    /// A queue from `at` on in which steps wait to be posted, if there is one; `at` moves behind it.
    pub(super) fn next_waiting(&mut self, at: &mut usize) -> Option<Arc<WorkQueue>> {
        if self.waiting == 0 {
            return None;
        }
        let rest = self.queues.get_mut(*at..)?;
        let is_waiting =
            |entry: &Option<WqEntry>| entry.as_ref().is_some_and(|entry| entry.is_waiting);
        let found = rest.iter().position(is_waiting)?;
        *at += found + 1;
        let entry = rest.get_mut(found)?.as_mut()?;
        entry.is_waiting = false;
        self.waiting -= 1;
        Some(entry.queue.clone())
    }

    /// The queue that [`Self::next_waiting`] found last waits on.
    pub(super) fn wait_on(&mut self, queue: &Arc<WorkQueue>, at: usize) {
        let entry = at
            .checked_sub(1)
            .and_then(|at| self.queues.get_mut(at)?.as_mut());
        if let Some(entry) = entry {
            if Arc::ptr_eq(&entry.queue, queue) && !core::mem::replace(&mut entry.is_waiting, true)
            {
                self.waiting += 1;
            }
        }
    }

    /// Takes out what says that completions of that queue pair are those of the queue at `place`.
    pub(super) fn forget_sharer(
        &mut self,
        qp: usize,
        place: WqId,
    ) -> Option<RBTreeNode<usize, u32>> {
        let index = *self.sharers.get(&qp)?;
        match index as usize == place.index() {
            true => self.sharers.remove_node(&qp),
            // Another one's by now.
            false => None,
        }
    }

    fn entry(&mut self, done: &PolledWc) -> Option<&mut WqEntry> {
        self.queues.get_mut(done.place().index())?.as_mut()
    }

    /// Takes a completion in place of its reader, for [`Self::stash`].
    ///
    /// # Safety
    ///
    /// [`Self::met`] or [`Self::met_step`] has returned `done`, and it has not been passed to this function or
    /// [`Self::finish`].
    #[cold]
    unsafe fn defer(&mut self, done: PolledWc, freed: &mut u32) {
        let Some(entry) = self.entry(&done) else {
            // Of no queue, or of one that has gone: nobody's.
            return;
        };
        let waiting = match done.part() {
            WrOwner::Slot => {
                // siw reports a read twice if it was started but not sent: `siw_sq_flush()` finds it in two of its
                // queues.
                // SAFETY: By this function's safety requirement, and as it has not been retired.
                if entry.is_retired(done.seq()) || !unsafe { entry.queue.meet(done.seq()) } {
                    return;
                }
                // SAFETY: As above.
                let slot = unsafe { entry.queue.slot(done.seq()) };
                entry.queue.trace_over(&done, || slot.traced());
                if let Some(tally) = &mut entry.tally {
                    // SAFETY: As above; the tally is the queue's.
                    unsafe { tally.count(&entry.queue, done) };
                }
                entry.queue.saw(done.seq());
                if is_silent(slot.usage, &done) {
                    // SAFETY: As above.
                    let count = unsafe { entry.end_silently(&done, slot.usage) };
                    *freed = freed.wrapping_add(count);
                    return;
                }
                // SAFETY: As above; it is put into the backlog below.
                unsafe { entry.keep(done, slot, freed) }
            }
            WrOwner::Shared(slot) => {
                let share = entry.queue.share();
                // SAFETY: `met` has taken the slot, and it has not been given back; the lock is held.
                let usage = share.map_or(OpKind::Silent, |share| unsafe { share.usage(slot) });
                if is_silent(usage, &done) {
                    // SAFETY: As above.
                    let _ = unsafe { finish_shared(&entry.queue, &done, slot) };
                    return;
                }
                DeferredWc {
                    done,
                    slot: WrSlot::NONE,
                    is_late: false,
                }
            }
            // Silent completions have been handled above.
            WrOwner::Cell(_) => DeferredWc {
                done,
                slot: WrSlot::NONE,
                is_late: false,
            },
        };
        if self.backlog.push(waiting).is_err() {
            // Excluded by the reservation of room; said aloud, for it would lose a completion.
            let _ = self.overruns.fetch_add(1, Relaxed);
            if let Some(queue) = self.queue(&done) {
                queue.complain("the completion queue has overrun, a completion is lost");
            }
        }
    }

    /// Takes the oldest completion of the backlog, and returns what to report to its reader. Adds the room that it
    /// releases to `freed`.
    pub(super) fn take(&mut self, freed: &mut u32) -> Option<(Completion, WqDirection, PolledWc)> {
        let waiting = self.backlog.pop()?;
        let done = waiting.done;
        let entry = self.entry(&done)?;
        let (completion, direction) = match done.part() {
            WrOwner::Slot => {
                // SAFETY: It was in the backlog; see the type invariant.
                *freed = freed.wrapping_add(unsafe { entry.release(&waiting) });
                entry.describe(&done, &waiting.slot)
            }
            WrOwner::Cell(cell) => finish_exchange(&entry.queue, cell)?,
            // SAFETY: As above.
            WrOwner::Shared(slot) => unsafe { finish_shared(&entry.queue, &done, slot) }?,
        };
        Some((completion, direction, done))
    }

    /// Removes some completions of the queue at `place` from the backlog, and returns their number. Contexts to give
    /// back go into `contexts`, shared receives into `unread`, and the room that is released is added to `freed`.
    pub(super) fn forget(
        &mut self,
        place: WqId,
        contexts: &mut [Option<Context>; FORGOTTEN],
        unread: &mut UnreadSlots,
        freed: &mut u32,
    ) -> usize {
        let mut taken = [None; FORGOTTEN];
        let count = self.backlog.take_of(place, &mut taken);
        let entry = self.queues.get_mut(place.index()).and_then(Option::as_mut);
        let Some(entry) = entry else {
            return count;
        };
        for (waiting, context) in taken.iter().flatten().zip(contexts) {
            match waiting.done.part() {
                WrOwner::Shared(slot) => {
                    if let Some(share) = entry.queue.share() {
                        // SAFETY: It was in the backlog; see the type invariant. One queue shares receives of one
                        // context, and its `unread` is that of `Cq::unregister`.
                        unsafe { share.srx.keep(unread, slot) };
                    }
                }
                // Operations that have not been retired are given back with those in flight.
                WrOwner::Slot if !waiting.is_late => {
                    // SAFETY: As above.
                    *freed = freed.wrapping_add(unsafe { entry.release(waiting) });
                    // The last piece stands for the multi-receive buffer.
                    if waiting.slot.usage != OpKind::Piece {
                        *context = Some(waiting.slot.context);
                    }
                }
                WrOwner::Slot | WrOwner::Cell(_) => {}
            }
        }
        count
    }

    /// Marks operation `seq` of a queue as the last piece of its multi-receive buffer, from `start` on; false if its
    /// completion has been read.
    ///
    /// # Safety
    ///
    /// `seq` has been posted, by the same data call.
    #[cold]
    pub(super) unsafe fn end_buffer(&mut self, queue: &WorkQueue, seq: u32, start: usize) -> bool {
        let mut entries = self.queues.iter().enumerate();
        let is_its = |entry: &WqEntry| core::ptr::eq(&*entry.queue, queue);
        let found = entries.find_map(|(index, entry)| {
            let entry = entry.as_ref().filter(|entry| is_its(entry))?;
            Some((WqId::new(index as u32), entry.tail))
        });
        let Some((place, tail)) = found else {
            return false;
        };
        let end = |slot: &mut WrSlot| {
            slot.flags = start as u64;
            slot.usage = OpKind::LastPiece;
        };
        if self.backlog.change(place, seq, end) {
            return true;
        }
        let is_there = tail.wrapping_sub(seq) as i32 <= 0;
        if is_there {
            // SAFETY: By this function's safety requirement, and as it has not been retired; the lock is held.
            unsafe { queue.change_slot(seq, end) };
        }
        is_there
    }

    fn queue(&self, done: &PolledWc) -> Option<&Arc<WorkQueue>> {
        let entry = self.queues.get(done.place().index())?.as_ref()?;
        Some(&entry.queue)
    }

    /// Ends an operation whose completion was just polled, and returns the completion to report, if any. Adds the
    /// room that it releases to `freed`. The backlog is empty.
    ///
    /// # Safety
    ///
    /// `done` is a success that [`Self::met`] has returned, and has not been passed to this function or
    /// [`Self::defer`].
    #[inline(never)]
    unsafe fn finish(&mut self, done: &PolledWc, freed: &mut u32) -> Option<Completion> {
        let entry = self.queues.get_mut(done.place().index())?.as_mut()?;
        match done.part() {
            WrOwner::Slot => {}
            WrOwner::Cell(cell) => {
                return finish_exchange(&entry.queue, cell).map(|(told, _)| told)
            }
            WrOwner::Shared(slot) => {
                // SAFETY: `met` has taken the slot, and it has not been given back; the lock is held.
                let told = unsafe { finish_shared(&entry.queue, done, slot) };
                return told.map(|(told, _)| told);
            }
        }
        // SAFETY: By this function's safety requirement the operation has not been retired: no device reports a
        // success twice.
        let slot = unsafe { entry.queue.slot(done.seq()) };
        entry.queue.trace_over(done, || slot.traced());
        if let Some(tally) = &mut entry.tally {
            // SAFETY: As above; the tally is the queue's.
            unsafe { tally.count(&entry.queue, *done) };
        }
        if is_silent(slot.usage, done) {
            // SAFETY: As above.
            *freed = freed.wrapping_add(unsafe { entry.end_silently(done, slot.usage) });
            return None;
        }
        // SAFETY: As above.
        *freed = freed.wrapping_add(unsafe { entry.retire(done) });
        entry.publish();
        let (completion, _) = entry.describe(done, &slot);
        Some(completion)
    }

    /// What a reader finds who has read nothing: a failure, something, or nothing.
    #[cold]
    pub(super) fn look(&mut self, ib: &rdma::cq::CqPoller, freed: &mut u32) -> Result {
        self.stash(ib, freed);
        match self.backlog.front() {
            None => Err(Errno::EAGAIN),
            Some(front) if front.is_failure() => Err(Errno::EAVAIL),
            Some(_) => Ok(()),
        }
    }

    /// Fills `room` and says how many entries it wrote; stops in front of a failure.
    pub(super) fn read<E: From<Completion>>(
        &mut self,
        ib: &rdma::cq::CqPoller,
        room: &mut [MaybeUninit<E>],
        freed: &mut u32,
    ) -> usize {
        let mut count = 0;
        while let Some(into) = room.get_mut(count) {
            match self.backlog.front() {
                None => return self.read_batches(ib, count, room, freed),
                Some(front) if front.is_failure() => break,
                Some(_) => {}
            }
            if let Some((completion, _, _)) = self.take(freed) {
                into.write(completion.into());
                count += 1;
            }
        }
        count
    }

    /// Continues [`Self::read`] after the first `told` completions of the batch.
    ///
    /// # Safety
    ///
    /// The first `told` completions of the batch have been taken, and no others.
    pub(super) unsafe fn read_on<E: From<Completion>>(
        &mut self,
        ib: &rdma::cq::CqPoller,
        told: usize,
        room: &mut [MaybeUninit<E>],
        freed: &mut u32,
    ) -> usize {
        let polled = self.batch.found().len();
        // SAFETY: By this function's safety requirement.
        let count = unsafe { self.tell_rest(told, room, freed) };
        // A batch that was not full was the last one.
        if polled < room.len().min(BATCH) {
            return count;
        }
        self.read_batches(ib, count, room, freed)
    }

    /// Fills `room` from `count` on with what the device has, as long as nothing is put off.
    fn read_batches<E: From<Completion>>(
        &mut self,
        ib: &rdma::cq::CqPoller,
        mut count: usize,
        room: &mut [MaybeUninit<E>],
        freed: &mut u32,
    ) -> usize {
        while let (Some(room @ [_, ..]), true) = (room.get_mut(count..), self.backlog.is_empty()) {
            let batch = room.len().min(BATCH);
            let polled = self.batch.poll(ib, batch);
            // SAFETY: The batch has just been polled.
            count += unsafe { self.tell_rest(0, room, freed) };
            if polled < batch {
                break;
            }
        }
        count
    }

    /// Writes the reportable completions of the batch to `room`, which is at least as long; its first `count` entries
    /// have been written. Returns the number of entries in `room`.
    ///
    /// # Safety
    ///
    /// The first `count` completions of the batch have been taken, and no others.
    unsafe fn tell_rest<E: From<Completion>>(
        &mut self,
        mut count: usize,
        room: &mut [MaybeUninit<E>],
        freed: &mut u32,
    ) -> usize {
        let (mut next, end) = (count, self.batch.found().len());
        while let (true, Some(room)) = (next < end, room.get_mut(count..)) {
            let run = match self.backlog.is_empty() && !trace::completions() {
                // SAFETY: By this function's safety requirement; what is taken here is before `next`.
                true => unsafe { self.tell_run(next, room, freed) },
                false => 0,
            };
            if run > 0 {
                count += run;
                next += run;
                continue;
            }
            // SAFETY: As above.
            let completion = unsafe { self.tell_one(next, freed) };
            next += 1;
            if let (Some(completion), Some(into)) = (completion, room.first_mut()) {
                into.write(completion.into());
                count += 1;
            }
        }
        count
    }

    /// Writes successes of the batch from index `from` on, as long as they are of one queue and need no more than an
    /// entry; returns their number. This is the common case: values that all of them share are looked up and stored
    /// once.
    ///
    /// # Safety
    ///
    /// The completions of the batch from index `from` on have not been taken, and the backlog is empty.
    #[inline(always)]
    pub(super) unsafe fn tell_run<E: From<Completion>>(
        &mut self,
        from: usize,
        room: &mut [MaybeUninit<E>],
        freed: &mut u32,
    ) -> usize {
        let polled = self.batch.found().get(from..).unwrap_or(&[]);
        let Some(first) = polled.first() else {
            return 0;
        };
        let (place, _) = first.wr_id_halves();
        let Some(Some(entry)) = self.queues.get_mut(place as usize) else {
            return 0;
        };
        if entry.tally.is_some() {
            return 0;
        }
        let queue = &*entry.queue;
        // SAFETY: `tell_each` passes operations that have succeeded. They have not been retired, by this function's
        // safety requirement, and the lock is held.
        let slots = unsafe { queue.slots() };
        // What comes beside a message is told by the long way.
        let count = match queue.direction() {
            WqDirection::Transmit => tell_each(polled, room, (place, slots), |_| Some(0)),
            WqDirection::Receive => {
                let mut bytes = 0;
                let count = tell_each(polled, room, (place, slots), |wc| {
                    let len = (!wc.has_imm()).then(|| wc.byte_len())?;
                    bytes += u64::from(len);
                    Some(len as usize)
                });
                queue.received(bytes);
                count
            }
        };
        if let Some(last) = count.checked_sub(1).and_then(|last| polled.get(last)) {
            let (_, seq) = last.wr_id_halves();
            // SAFETY: As above; by the type invariant of the entry. Without a backlog nothing waits for a reader.
            *freed = freed.wrapping_add(unsafe { queue.retire(&mut entry.tail, seq) });
        }
        count
    }

    /// Returns the entry for the completion at index `at` of the batch, if it is reported now. A failure goes to the
    /// backlog with all reported completions after it, and a silent operation is only retired.
    ///
    /// # Safety
    ///
    /// The completion has not been taken since the batch was polled.
    #[inline(never)]
    unsafe fn tell_one(&mut self, at: usize, freed: &mut u32) -> Option<Completion> {
        // SAFETY: By this function's safety requirement.
        let done = unsafe { self.met(at) }?;
        if !self.backlog.is_empty() || done.status != WcStatus::SUCCESS {
            // SAFETY: `met` has just returned it.
            unsafe { self.defer(done, freed) };
            return None;
        }
        // SAFETY: As above; it is a success.
        unsafe { self.finish(&done, freed) }
    }
}

/// Adds what the peer gave beside a message or a write.
#[inline(always)]
fn bring(completion: &mut Completion, brought: ImmData) {
    match brought {
        ImmData::Nothing => {}
        ImmData::Message(data) => {
            completion.flags |= FI_REMOTE_CQ_DATA;
            completion.data = data.into();
        }
        ImmData::Write(data) => {
            // The write takes a receive, which a buffer may end with.
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
/// The slot has been met for `queue`, whose completion queue's lock is held, and has not been given back.
#[inline(never)]
unsafe fn finish_shared(
    queue: &WorkQueue,
    done: &PolledWc,
    slot: u32,
) -> Option<(Completion, WqDirection)> {
    let share = queue.share()?;
    // SAFETY: By this function's safety requirement.
    let is_told = unsafe { share.usage(slot) } == OpKind::Reported || !done.is_unheard();
    // SAFETY: As above.
    let kept = unsafe { share.srx.slot(slot) };
    match done.status {
        WcStatus::SUCCESS => queue.received(done.len.into()),
        _ => queue.failed(),
    }
    // SAFETY: By this function's safety requirement; the slot is not used after this.
    unsafe { share.srx.give_back(slot, done.status, done.len) };
    let mut completion = Completion {
        len: done.len as usize,
        source: share.source.0 as u64,
        ..Completion::of(kept.context, kept.flags)
    };
    bring(&mut completion, done.brought);
    is_told.then_some((completion, queue.direction()))
}

/// Ends an operation that has a cell and no slot, and returns the completion to report.
#[cold]
fn finish_exchange(queue: &WorkQueue, cell: u32) -> Option<(Completion, WqDirection)> {
    let told = queue.end_exchange(cell)?;
    let completion = Completion::of(told.context, told.flags);
    Some((completion, queue.direction()))
}

/// The loop of [`CqState::tell_run`], for the queue at a place and with those slots; `len` says what was
/// received, if that is all there is to tell. Returns how many were told.
#[inline(always)]
fn tell_each<E: From<Completion>>(
    polled: &[Wc],
    room: &mut [MaybeUninit<E>],
    (place, slots): (u32, impl Fn(u32) -> WrSlot),
    mut len: impl FnMut(&Wc) -> Option<usize>,
) -> usize {
    let mut count = 0;
    for (wc, into) in polled.iter().zip(room) {
        let (upper, seq) = wc.wr_id_halves();
        if upper != place || !wc.is_success() {
            break;
        }
        let slot = slots(seq);
        if slot.usage != OpKind::Reported {
            break;
        }
        let Some(len) = len(wc) else {
            break;
        };
        into.write(E::from(Completion {
            len,
            ..Completion::of(slot.context, slot.flags)
        }));
        count += 1;
    }
    count
}
