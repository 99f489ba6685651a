// SPDX-License-Identifier: GPL-2.0

//! Who takes messages from receives that endpoints share, where those complete, and what is left of one that
//! goes. `members` is held while completion queues are told, and while receives are posted again.

use super::{
    Srx,
    NO_SLOT,
    POSTED, //
};
use crate::{
    abi::{
        biased_lock::ExclusiveGuard,
        Result, //
    },
    prov::verbs::{
        cq::Cq,
        wq::WorkQueue, //
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Relaxed,
            Release, //
        },
        Arc, //
    },
    workqueue::{
        impl_has_work,
        WorkItem, //
    },
};

/// A completion queue that has room for all of the receives, for so many endpoints.
struct AttachedCq {
    cq: Arc<Cq>,
    endpoint_count: usize,
}

/// Who shares the receives.
#[derive(Default)]
pub(super) struct SrxEndpoints {
    /// The receive queues of endpoints whose queue pairs take messages from here.
    wqs: KVec<Arc<WorkQueue>>,
    cqs: KVec<AttachedCq>,
}

/// Slots that wait to be posted again: a list of those that an endpoint leaves unread.
pub(in crate::prov::verbs) struct UnreadSlots(u32);

impl UnreadSlots {
    /// None yet.
    pub(in crate::prov::verbs) const fn new() -> Self {
        Self(NO_SLOT)
    }
}

impl Srx {
    /// Adds a slot that has been met, whose reader will not come.
    ///
    /// # Safety
    ///
    /// The requirements of [`Srx::slot`] hold. `unread` has slots of these receives only; nobody else uses the slot
    /// until [`Self::repost_all`].
    pub(in crate::prov::verbs) unsafe fn add_unread(&self, unread: &mut UnreadSlots, slot: u32) {
        if let Some(mark) = self.slot_control(slot) {
            mark.next.store(unread.0, Relaxed);
            unread.0 = slot;
        }
    }

    /// Posts the slots of `unread` again. May sleep.
    ///
    /// # Safety
    ///
    /// [`Self::keep`] of these receives has added them.
    pub(in crate::prov::verbs) unsafe fn repost_all(&self, unread: UnreadSlots) {
        let mut slot = unread.0;
        while let Some(mark) = self.slot_control(slot) {
            let next = mark.next.load(Relaxed);
            // SAFETY: It is MET, and by the safety requirement of `keep` nobody else has used it since.
            unsafe { self.repost(slot) };
            slot = next;
        }
    }

    /// Lets the queue pair of an endpoint's receive queue take messages from here, which complete in `cq`:
    /// there is room for all of them. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOSPC if there is not, -FI_ENOMEM.
    pub(in crate::prov::verbs) fn attach_endpoint(
        &self,
        wq: &Arc<WorkQueue>,
        cq: &Arc<Cq>,
        others: &ExclusiveGuard,
    ) -> Result {
        let mut endpoints = self.endpoints.lock();
        endpoints.wqs.reserve(1, GFP_KERNEL)?;
        endpoints.cqs.reserve(1, GFP_KERNEL)?;
        let known = endpoints
            .cqs
            .iter_mut()
            .find(|payee| Arc::ptr_eq(&payee.cq, cq));
        match known {
            Some(payee) => payee.endpoint_count += 1,
            None => {
                cq.reserve_srx_entries(self.depth, others)?;
                let attached = AttachedCq {
                    cq: cq.clone(),
                    endpoint_count: 1,
                };
                // There is room: it has just been made.
                let _ = endpoints.cqs.push_within_capacity(attached);
            }
        }
        let _ = endpoints.wqs.push_within_capacity(wq.clone());
        Ok(())
    }

    /// The endpoint's queue pair is gone, and all of its completions have been met. May sleep.
    pub(in crate::prov::verbs) fn detach_endpoint(
        &self,
        wq: &Arc<WorkQueue>,
        cq: &Arc<Cq>,
        others: &ExclusiveGuard,
    ) {
        let mut endpoints = self.endpoints.lock();
        let at = |members: &SrxEndpoints| {
            let mut queues = members.wqs.iter();
            queues.position(|member| Arc::ptr_eq(member, wq))
        };
        if let Some(at) = at(&endpoints) {
            let _ = endpoints.wqs.remove(at);
        }
        let at = endpoints
            .cqs
            .iter()
            .position(|payee| Arc::ptr_eq(&payee.cq, cq));
        if let Some(payee) = at.and_then(|at| endpoints.cqs.get_mut(at)) {
            payee.endpoint_count -= 1;
        }
        if let Some(at) = at.filter(|at| endpoints.cqs[*at].endpoint_count == 0) {
            let _ = endpoints.cqs.remove(at);
            cq.release_srx_entries(self.depth, others);
        }
        if self.pd.device().is_rxe() {
            self.lost_check_end
                .store(self.producer.lock().post_seq, Release);
        }
        self.repost_lost(&endpoints);
    }

    /// Posts those again that queue pairs have taken with them: rxe forgets what a queue pair was filling
    /// when it broke.
    ///
    /// The device takes them by their numbers, and a queue pair completes them in the order in which it has
    /// taken them. So each member has none up to its last one, and what is posted before all of those, and
    /// has not completed, is nobody's. What is behind one of them waits for its next message.
    fn repost_lost(&self, endpoints: &SrxEndpoints) {
        let lasts = endpoints
            .wqs
            .iter()
            .filter_map(|queue| queue.srx_attachment());
        let lasts = lasts.map(|share| share.last_seq());
        let lowest = lasts.min().unwrap_or(self.max_completed_seq.load(Acquire));
        let is_forgetful = self.pd.device().is_rxe();
        for (slot, mark) in self.slot_controls.iter().enumerate() {
            // In this order: if it has been posted anew, that is no less than its number.
            let is_posted = mark.state.load(Acquire) == POSTED;
            let number = mark.post_seq.load(Relaxed);
            if is_posted && (number == 0 || (is_forgetful && number <= lowest)) {
                // SAFETY: Neither the device nor a poster nor a reader has the slot: it went with a queue pair.
                unsafe { self.repost(slot as u32) };
            }
        }
        let suspect = self.lost_check_end.load(Relaxed);
        if lowest >= suspect {
            // Only who holds the mutex makes it another one.
            self.lost_check_end.store(0, Relaxed);
        }
        // Often enough that a quarter of them is never waited for in vain, and no more often.
        let pause = u64::from(self.depth / 4) + 1;
        self.next_lost_check
            .store(self.max_completed_seq.load(Relaxed) + pause, Relaxed);
    }

    /// Whether somebody should look again, now that this number has completed.
    #[inline]
    pub(super) fn needs_lost_check(&self, number: u64) -> bool {
        self.lost_check_end.load(Relaxed) != 0 && number >= self.next_lost_check.load(Relaxed)
    }
}

impl_has_work! {
    impl HasWork<Self> for Srx { self.lost_check_work }
}

impl WorkItem for Srx {
    type Pointer = Arc<Srx>;

    fn run(this: Arc<Srx>) {
        this.repost_lost(&this.endpoints.lock());
    }
}
