// SPDX-License-Identifier: GPL-2.0

//! Retirement of operations: completions retire them, and the close of the queue reclaims those that have not been
//! retired.
//!
//! Guarded by the lock of the completion queue, until the work queue is removed from that completion queue's table.

use super::{
    super::prelude::*,
    seqs,
    MARKER_COMPLETED, //
};
use crate::util::once::store_release;
use core::mem::replace;

impl WorkQueue {
    /// Records that the drain marker has completed. On a queue that completes in order, everything
    /// before it has completed, too.
    #[cold]
    pub(in crate::prov::verbs) fn complete_marker(&self, seq: u32) {
        match self.completes_out_of_order {
            true => self
                .drain_marker
                .store(MARKER_COMPLETED | u64::from(seq), Relaxed),
            false => self.set_drained(),
        }
    }

    /// Marks a queue that completes out of order as drained if the marker and every operation
    /// before it have a completion; operations before `tail` have been retired.
    ///
    /// # Safety
    ///
    /// The caller holds the completion queue's lock, and `tail` operations have been retired.
    pub(in crate::prov::verbs) unsafe fn update_drained(&self, tail: u32) {
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

    /// Marks operation `seq` as moved to the backlog; returns false if it was marked before.
    ///
    /// # Safety
    ///
    /// The caller holds the completion queue's lock; operation `seq` has completed, and has not been retired.
    pub(in crate::prov::verbs) unsafe fn mark_deferred(&self, seq: u32) -> bool {
        // SAFETY: By this function's safety requirement the caller is the slot's user.
        unsafe {
            self.ring
                .update(seq, |slot| !replace(&mut slot.is_deferred, true))
        }
    }

    /// Retires operation `seq` in any order: marks it as reported, and then retires the marked
    /// operations from `tail` on, up to the first that is not marked. Operations behind that one
    /// keep their slots. Used for a queue that completes out of order, once an operation has failed.
    /// `ahead` is the number of marked operations that have not been retired; at 0 the loop ends,
    /// before a slot that a poster may fill. Returns the number of operations that have been
    /// retired.
    ///
    /// # Safety
    ///
    /// The requirements of [`Self::advance_tail`] hold, except that operations before `seq` may be
    /// in flight. `ahead` is used for this queue alone, and is 0 at first.
    pub(in crate::prov::verbs) unsafe fn retire_out_of_order(
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

    /// Returns a function that returns the slot of an operation.
    ///
    /// # Safety
    ///
    /// The caller holds the completion queue's lock as long as it has the function. It passes operations that have
    /// been posted, and whose slots have not been released by [`Self::publish_tail`].
    #[inline(always)]
    pub(in crate::prov::verbs) unsafe fn slot_reader(&self) -> impl Fn(u32) -> WrSlot + '_ {
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
    pub(in crate::prov::verbs) unsafe fn slot(&self, seq: u32) -> WrSlot {
        // SAFETY: By this function's safety requirement.
        unsafe { self.slot_reader()(seq) }
    }

    /// Retires the operations from `tail` through `seq`, moves `tail` behind them, and releases their
    /// slots. Returns their number.
    ///
    /// # Safety
    ///
    /// The requirements of [`Self::advance_tail`] hold, and no completion of the queue waits for a reader.
    #[inline(always)]
    pub(in crate::prov::verbs) unsafe fn retire(&self, tail: &mut u32, seq: u32) -> u32 {
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
    pub(in crate::prov::verbs) unsafe fn advance_tail(&self, tail: &mut u32, seq: u32) -> u32 {
        let end = seq.wrapping_add(1);
        let count = end.wrapping_sub(*tail);
        // SAFETY: A completion ends the operations before it too; their slots are not reused before
        // `publish_tail`.
        unsafe { self.ring.unmap(*tail, end) };
        *tail = end;
        count
    }

    /// Releases the slots of operations before `tail` to posters.
    ///
    /// # Safety
    ///
    /// The caller holds the completion queue's lock; the operations before `tail` have been
    /// retired, and their slots are not used any more. `tail` is not before that of an earlier
    /// call.
    #[inline(always)]
    pub(in crate::prov::verbs) unsafe fn publish_tail(&self, tail: u32) {
        // Pairs with the acquire in the posting path.
        store_release(&self.tail, tail);
    }

    /// Unmaps the memory of the operations from `from` through `last`, which have completed, and
    /// calls `visit` with the sequence number and the completion flags of each one, the drain marker
    /// and parts excepted.
    ///
    /// # Safety
    ///
    /// The caller holds the completion queue's lock. `last` has completed, or each operation of the
    /// range if the queue completes out of order, and no operation of the range has been retired.
    pub(in crate::prov::verbs) unsafe fn for_each_completed(
        &self,
        from: u32,
        last: u32,
        mut visit: impl FnMut(u32, u64),
    ) {
        let end = last.wrapping_add(1);
        // SAFETY: A completion ends the operations before it too, and by this function's safety
        // requirement they have not been retired. Retiring them later finds no mappings to undo.
        unsafe { self.ring.unmap(from, end) };
        let mut seq = from;
        while seq != end {
            // SAFETY: As above: the caller is the slot's user.
            let slot = unsafe { self.ring.get(seq) };
            if slot.is_operation() {
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
    pub(in crate::prov::verbs) unsafe fn update_slot(
        &self,
        seq: u32,
        change: impl FnOnce(&mut WrSlot),
    ) {
        // SAFETY: The poster does not use the slot any more, and other users hold the lock, which
        // is held here.
        unsafe { self.ring.update(seq, change) };
    }

    /// Marks the queue as drained: everything before the drain marker has a completion.
    #[cold]
    pub(in crate::prov::verbs) fn set_drained(&self) {
        self.is_drained.store(true, Release);
    }

    /// Returns whether everything before the drain marker has a completion.
    pub(in crate::prov::verbs) fn is_drained(&self) -> bool {
        self.is_drained.load(Acquire)
    }

    /// Retires everything from `tail` on, after the queue pair has been destroyed. Each context
    /// that has not been reported is passed to `reclaim`. Returns the number of work requests, drain
    /// markers excepted.
    ///
    /// # Safety
    ///
    /// The queue pair has been destroyed, or nothing has been posted to it. The queue is no longer in the table of its
    /// completion queue, where `tail` of its operations had been retired.
    pub(in crate::prov::verbs) unsafe fn reclaim_all(
        &self,
        tail: u32,
        reclaim: &mut dyn FnMut(Context),
        others: &ExclusiveGuard,
    ) -> u32 {
        let end = self.producer.lock(others).next_seq;
        // SAFETY: By this function's safety requirement nothing is in flight any more, and no other
        // thread retires.
        unsafe { self.ring.unmap(tail, end) };
        let mut count = 0;
        for seq in seqs(tail, end) {
            // SAFETY: As above.
            unsafe { self.end_invalidation(seq, false) };
            // SAFETY: As above.
            let slot = unsafe { self.ring.get(seq) };
            match slot.kind {
                OpKind::DrainMarker => continue,
                // The context is reclaimed with the last piece of a multi-receive buffer, and with the last work
                // request of an operation.
                OpKind::MultiRecv | OpKind::Part => {}
                _ if slot.is_reported => {}
                _ => reclaim(slot.context),
            }
            count += 1;
        }
        self.tail.store(end, Release);
        self.reclaim_cas_atomics(reclaim);
        count
    }
}
