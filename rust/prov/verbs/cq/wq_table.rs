// SPDX-License-Identifier: GPL-2.0

//! The table of work queues of a completion queue, and the entries that their completions need.

use super::{
    super::{
        cntr::WqCounters,
        prelude::*,
        srx::UnreadSlots, //
    },
    poll::{
        CqState,
        DISCARD_BATCH, //
    },
    wq_entry::WqEntry,
    Cq,
    WakePolicy, //
};
use crate::rdma::cq::CqNotify;
use kernel::rbtree::RBTreeNode;

impl Cq {
    /// Adds a work queue to the table, and reserves entries for its completions that belong to no
    /// slot, for example drain markers. May sleep.
    ///
    /// Posts reserve no entries while the queue has space for everything that its work queues can
    /// post. When a work queue is added for which the space does not suffice, accounting starts for
    /// all of them: each post then reserves an entry, and the retirement of the operation releases
    /// it.
    ///
    /// # Errors
    ///
    /// -FI_ENOSPC without free entries for the completions that belong to no slot, -FI_ENOMEM.
    ///
    /// # Safety
    ///
    /// The queue pair of `wq` completes into this completion queue. `wq` is in no table, nothing has
    /// been posted to it, and until [`Self::remove_wq`] it is added to no other table.
    pub(in crate::prov::verbs) unsafe fn add_wq(
        &self,
        wq: &Arc<WorkQueue>,
        (counters, wake_policy): (Option<KBox<WqCounters>>, WakePolicy),
        others: &ExclusiveGuard,
    ) -> Result<WqId> {
        let mut spare = KVec::new();
        let mut guard = loop {
            let guard = self.state.lock(others);
            let len = guard.wqs.len();
            if spare.capacity() > len || guard.wqs.iter().any(Option::is_none) {
                break guard;
            }
            drop(guard);
            spare = KVec::with_capacity((len + 1).next_power_of_two(), GFP_KERNEL)?;
        };
        let state = &mut *guard;
        if !self.reservation.try_reserve(wq.extra_cq_entries()) {
            return Err(Errno::ENOSPC);
        }
        let index = match state.wqs.iter().position(Option::is_none) {
            Some(index) => index,
            None => {
                // The entries move into memory that was allocated without the lock.
                for entry in state.wqs.drain_all() {
                    let _ = spare.push_within_capacity(entry);
                }
                let _ = spare.push_within_capacity(None);
                core::mem::swap(&mut state.wqs, &mut spare);
                state.wqs.len() - 1
            }
        };
        // INVARIANT: By this function's safety requirement; nothing has been posted yet.
        state.wqs[index] = Some(WqEntry {
            wq: wq.clone(),
            tail: 0,
            unread: 0,
            reported_ahead: 0,
            has_failed: false,
            has_pending_cas: false,
            wake_policy,
            counters,
        });
        state.max_entries += wq.max_cq_entries() as usize;
        self.start_accounting_if_needed(state, others);
        drop(guard);
        let _ = self.wq_count(wake_policy).fetch_add(1, Full);
        if wake_policy == WakePolicy::Always {
            // A waiter may have armed the queue for solicited completions only. Arming here is early enough: the
            // new work queue has no completion yet.
            let _ = self.poller.cq().req_notify(CqNotify::NextComp);
        }
        Ok(WqId::from_index(index as u32))
    }

    /// Returns the number of work queues that complete here with `policy`.
    fn wq_count(&self, policy: WakePolicy) -> &Atomic<i32> {
        match policy {
            WakePolicy::Always => &self.always_wqs,
            WakePolicy::SolicitedOnly => &self.solicited_wqs,
        }
    }

    /// Maps the address of a queue pair, `qp`, to its work queue `wq_id`. Completions of a shared
    /// receive queue name their endpoint by this address only. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(in crate::prov::verbs) fn map_srx_qp(
        &self,
        wq_id: WqId,
        qp: usize,
        others: &ExclusiveGuard,
    ) -> Result {
        let node = RBTreeNode::new(qp, wq_id.index() as u32, GFP_KERNEL)?;
        let mut freed = 0;
        let mut state = self.state.lock(others);
        if state.srx_qps.get(&qp).is_some() {
            // An earlier queue pair had the same address; it has been destroyed, and its endpoint is
            // still closing. Completions that name `qp` and are in the device now are that endpoint's.
            state.poll_all_to_backlog(&self.poller, &mut freed);
        }
        let old = state.srx_qps.insert(node);
        self.unlock_and_post(state, freed);
        drop(old);
        Ok(())
    }

    /// Reserves entries for the completions of `count` shared receives. A post of a shared receive
    /// reserves none. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOSPC if fewer than `count` entries are free.
    pub(in crate::prov::verbs) fn reserve_srx_entries(
        &self,
        count: u32,
        others: &ExclusiveGuard,
    ) -> Result {
        let mut state = self.state.lock(others);
        state.max_entries += count as usize;
        // Accounting starts before the reservation, so that operations that are already posted keep
        // their entries: a message never waits for an entry that such an operation holds.
        self.start_accounting_if_needed(&mut state, others);
        if !self.reservation.try_reserve(count) {
            state.max_entries -= count as usize;
            return Err(Errno::ENOSPC);
        }
        Ok(())
    }

    /// Releases the entries of [`Self::reserve_srx_entries`].
    pub(in crate::prov::verbs) fn release_srx_entries(&self, count: u32, others: &ExclusiveGuard) {
        self.state.lock(others).max_entries -= count as usize;
        self.release_entries(count);
    }

    /// Starts accounting if the work queues can post more than the queue has entries: from now on
    /// each post to any of them reserves an entry.
    ///
    /// Operations that were posted before still fit: they are of work queues that fitted without the
    /// one that is being added, which cannot post yet.
    fn start_accounting_if_needed(&self, state: &mut CqState, others: &ExclusiveGuard) {
        if state.max_entries > self.size {
            state.is_accounting = true;
        }
        if !state.is_accounting {
            return;
        }
        for entry in state.wqs.iter().flatten() {
            let under_way = (entry.tail, entry.unread);
            // SAFETY: The lock of this table is held; see the invariant of `WqEntry`.
            let count = unsafe { entry.wq.start_accounting(under_way, others) };
            self.reservation.reserve_posted(count);
        }
    }

    /// Adds the operations of a work queue that have completed to its counters, and then removes the
    /// counters from the work queue.
    pub(in crate::prov::verbs) fn stop_counters(&self, wq_id: WqId, others: &ExclusiveGuard) {
        self.poll_to_backlog(others);
        let mut state = self.state.lock(others);
        let entry = state.wqs.get_mut(wq_id.index());
        let counters = entry.and_then(|entry| entry.as_mut()?.counters.take());
        drop(state);
        drop(counters);
    }

    /// Removes a work queue whose queue pair has been destroyed from the table, and discards its
    /// unread completions. Passes the context of each unreported operation to `reclaim`. May sleep.
    ///
    /// # Safety
    ///
    /// The queue pair of the work queue has been destroyed, or nothing has been posted to it.
    pub(in crate::prov::verbs) unsafe fn remove_wq(
        &self,
        wq_id: WqId,
        reclaim: &mut dyn FnMut(Context),
        others: &ExclusiveGuard,
    ) {
        self.poll_to_backlog(others);
        let mut unread = UnreadSlots::new();
        loop {
            let (mut contexts, mut freed) = ([None; DISCARD_BATCH], 0);
            let mut state = self.state.lock(others);
            let count = state.discard_deferred(wq_id, &mut contexts, &mut unread, &mut freed);
            self.unlock_and_post(state, freed);
            contexts.into_iter().flatten().for_each(&mut *reclaim);
            if count < DISCARD_BATCH {
                break;
            }
        }
        let mut state = self.state.lock(others);
        let counted = state.is_accounting;
        let entry = state.wqs.get_mut(wq_id.index()).and_then(Option::take);
        let attachment = entry.as_ref().and_then(|entry| entry.wq.srx_attachment());
        let known = attachment.and_then(|share| state.unmap_srx_qp(share.qp_addr, wq_id));
        if let Some(entry) = &entry {
            state.max_entries -= entry.wq.max_cq_entries() as usize;
            state.pending_cas_wqs -= u32::from(entry.has_pending_cas);
        }
        drop(state);
        drop(known);
        if let Some(share) = attachment {
            // SAFETY: `discard_deferred` has added the slots, all of them of receives of `share.srx`.
            unsafe { share.srx.repost_all(unread) };
        }
        if let Some(WqEntry {
            wq,
            tail,
            wake_policy,
            ..
        }) = entry
        {
            let _ = self.wq_count(wake_policy).fetch_sub(1, Relaxed);
            // SAFETY: By this function's safety requirement; the work queue was removed from the table above.
            let abandoned = unsafe { wq.reclaim_all(tail, reclaim, others) };
            // Releases the entries that `add_wq` reserved, and those of operations that never completed.
            self.release_entries(wq.extra_cq_entries() + if counted { abandoned } else { 0 });
        }
    }
}
