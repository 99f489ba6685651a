// SPDX-License-Identifier: GPL-2.0

//! Endpoints that take messages from a shared receive context, their completion queues, and the
//! receives that a closing endpoint leaves. `endpoints` stays locked while completion queues
//! reserve or release entries, and while receives are posted again.

use super::{
    lost::LostBound,
    Srx,
    NO_SLOT,
    POSTED, //
};
use crate::prov::verbs::prelude::*;

/// Endpoints of a shared receive context.
pub(super) struct SrxEndpoints {
    /// Receive queues whose queue pairs take messages from the context, and completion queues, each of
    /// which has entries for all of the receives.
    members: KVec<(Arc<WorkQueue>, Arc<Cq>)>,
    /// Bound on the receives that the device has lost.
    lost: LostBound,
}

impl SrxEndpoints {
    /// Creates the state of a context without endpoints.
    pub(super) const fn new() -> Self {
        Self {
            members: KVec::new(),
            lost: LostBound::new(),
        }
    }
}

/// Replaces the target of the receive queue for an endpoint that shares its receives.
pub(in crate::prov::verbs) struct SrxAttachment {
    pub(in crate::prov::verbs) srx: Arc<Srx>,
    pub(in crate::prov::verbs) cq: Arc<Cq>,
    /// Index of the receive queue in the completion queue's table.
    pub(in crate::prov::verbs) wq_id: WqId,
    /// Address of the queue pair, by which completions name it.
    pub(in crate::prov::verbs) qp_addr: usize,
    /// Set with FI_SELECTIVE_COMPLETION: a success is reported only if the post asks for it.
    pub(in crate::prov::verbs) is_selective: bool,
    /// Source that completions report, which identifies the endpoint.
    pub(in crate::prov::verbs) source: Source,
    /// Sequence number of the last receive that the endpoint has completed; at first that of a
    /// receive that it never had. It holds no receive up to this number.
    last_seq: Atomic<u64>,
    /// Number of receives that the endpoint has completed.
    pub(in crate::prov::verbs) completed: StatCounter,
    /// Set before the queue pair can take a receive.
    is_receiving: AtomicFlag,
    /// Set when the endpoint closes.
    is_closed: AtomicFlag,
}

impl SrxAttachment {
    /// Creates the attachment of an endpoint that [`Srx::attach_endpoint`] has just added.
    pub(in crate::prov::verbs) fn new(
        srx: Arc<Srx>,
        (cq, place): (Arc<Cq>, WqId),
        qp: usize,
        is_selective: bool,
        source: Source,
    ) -> Self {
        // Receives that have left the device's queue by now belong to other endpoints.
        let last = srx.max_completed_seq.load(Acquire);
        Self {
            srx,
            cq,
            wq_id: place,
            qp_addr: qp,
            is_selective,
            source,
            last_seq: Atomic::new(last),
            completed: StatCounter::new(),
            is_receiving: AtomicFlag::new(false),
            is_closed: AtomicFlag::new(false),
        }
    }

    /// Notes that the queue pair can take receives from now on.
    pub(in crate::prov::verbs) fn begin_receiving(&self) {
        self.is_receiving.store(true, Relaxed);
    }

    /// Returns the completion queue and the index of the receive queue there; none once the
    /// endpoint closes.
    pub(in crate::prov::verbs) fn cq_if_open(&self) -> Option<(Arc<Cq>, WqId)> {
        let is_over = self.is_closed.load(Acquire);
        (!is_over).then(|| (self.cq.clone(), self.wq_id))
    }

    /// Returns whether the queue pair could take receives.
    fn could_receive(&self) -> bool {
        self.is_receiving.load(Relaxed)
    }

    /// Marks the endpoint as closing; returns true the first time.
    pub(in crate::prov::verbs) fn close(&self) -> bool {
        !self.is_closed.xchg(true, Full)
    }

    /// Takes a slot whose receive has completed for this endpoint. Returns false if it has been
    /// taken before.
    ///
    /// # Safety
    ///
    /// The requirements of [`Srx::mark_completed`] hold.
    pub(in crate::prov::verbs) unsafe fn complete_slot(&self, slot: u32) -> bool {
        // SAFETY: By this function's safety requirement.
        let Some(number) = (unsafe { self.srx.mark_completed(slot) }) else {
            return false;
        };
        self.last_seq.store(number, Release);
        self.completed.add(1);
        if self.srx.needs_lost_check(number) {
            // Fails if the work is queued already.
            let _ = workqueue::system_long().enqueue(self.srx.clone());
        }
        true
    }

    /// Returns how the success of the receive in a slot is reported.
    ///
    /// # Safety
    ///
    /// The requirements of [`Srx::slot`] hold.
    pub(in crate::prov::verbs) unsafe fn op_kind(&self, slot: u32) -> OpKind {
        match self.is_selective {
            // SAFETY: By this function's safety requirement.
            true => unsafe { self.srx.slot(slot) }.kind,
            false => OpKind::Reported,
        }
    }
}

/// List of slots that an endpoint leaves unread, which wait to be posted again.
pub(in crate::prov::verbs) struct UnreadSlots(u32);

impl UnreadSlots {
    /// Creates an empty list.
    pub(in crate::prov::verbs) const fn new() -> Self {
        Self(NO_SLOT)
    }
}

impl Srx {
    /// Adds a COMPLETED slot that no reader will come for.
    ///
    /// # Safety
    ///
    /// The requirements of [`Srx::slot`] hold. `unread` has slots of these receives only; the slot
    /// is not used until [`Self::repost_all`].
    pub(in crate::prov::verbs) unsafe fn add_unread(&self, unread: &mut UnreadSlots, slot: u32) {
        if let Some(mark) = self.slot_control(slot) {
            mark.next.store(unread.0, Relaxed);
            unread.0 = slot;
        }
    }

    /// Posts the receives of `unread` again. May sleep.
    ///
    /// # Safety
    ///
    /// [`Self::add_unread`] of these receives has added the slots.
    pub(in crate::prov::verbs) unsafe fn repost_all(&self, unread: UnreadSlots) {
        let mut slot = unread.0;
        while let Some(mark) = self.slot_control(slot) {
            let next = mark.next.load(Relaxed);
            // SAFETY: The slot is COMPLETED, and by the safety requirement of `add_unread` it has
            // not been used since.
            unsafe { self.repost(slot) };
            slot = next;
        }
    }

    /// Adds an endpoint's receive queue, whose queue pair takes messages from here that complete in
    /// `cq`, and reserves entries for all receives there. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOSPC if `cq` has not that many free entries, -FI_ENOMEM.
    pub(in crate::prov::verbs) fn attach_endpoint(
        &self,
        wq: &Arc<WorkQueue>,
        cq: &Arc<Cq>,
        others: &ExclusiveGuard,
    ) -> Result {
        let members = &mut self.endpoints.lock().members;
        members.reserve(1, GFP_KERNEL)?;
        if !members.iter().any(|(_, other)| Arc::ptr_eq(other, cq)) {
            cq.reserve_srx_entries(self.depth, others)?;
        }
        // Cannot fail: capacity has been reserved above.
        let _ = members.push_within_capacity((wq.clone(), cq.clone()));
        Ok(())
    }

    /// Removes an endpoint whose queue pair is gone, after all of its completions have been taken.
    /// May sleep.
    pub(in crate::prov::verbs) fn detach_endpoint(
        &self,
        wq: &Arc<WorkQueue>,
        cq: &Arc<Cq>,
        others: &ExclusiveGuard,
    ) {
        let mut endpoints = self.endpoints.lock();
        let SrxEndpoints { members, lost } = &mut *endpoints;
        let at = members
            .iter()
            .position(|(member, _)| Arc::ptr_eq(member, wq));
        let removed = at.and_then(|at| members.remove(at).ok());
        if removed.is_some() && !members.iter().any(|(_, other)| Arc::ptr_eq(other, cq)) {
            cq.release_srx_entries(self.depth, others);
        }
        let attachment = wq.srx_attachment();
        let could_receive = attachment.is_some_and(|attachment| attachment.could_receive());
        if self.pd.device().is_rxe && could_receive {
            self.lost_check_end
                .store(self.producer.lock().post_seq, Release);
            lost.endpoint_closed(self.max_completed_seq.load(Acquire), members.len());
        }
        self.repost_lost(&mut endpoints);
    }

    /// Posts receives again that queue pairs have taken with them: rxe forgets the receive that a
    /// queue pair was filling when it broke.
    ///
    /// The device takes receives in the order of their numbers, and a queue pair completes them in
    /// the order in which it has taken them. So each endpoint holds no receive up to its last one.
    /// A receive posted before the last ones of all endpoints that has not completed is held by no
    /// endpoint: it is lost. A lost receive behind one of them is found after that endpoint's next
    /// message.
    fn repost_lost(&self, endpoints: &mut SrxEndpoints) {
        let SrxEndpoints { members, lost } = endpoints;
        let attachments = members.iter().filter_map(|(wq, _)| wq.srx_attachment());
        let lasts = attachments.map(|attachment| attachment.last_seq.load(Acquire));
        let newest = self.max_completed_seq.load(Acquire);
        let lowest = lasts.min().unwrap_or(newest);
        let is_forgetful = self.pd.device().is_rxe;
        let (mut found, mut overtaken) = (0, 0);
        for (slot, mark) in self.slot_controls.iter().enumerate() {
            // In this order: the number is then that of the post whose state was read, or of a
            // later one.
            let is_posted = mark.state.load(Acquire) == POSTED;
            let number = mark.post_seq.load(Relaxed);
            if is_posted && (number == 0 || (is_forgetful && number <= lowest)) {
                // SAFETY: Neither the device nor a poster nor a reader has the slot: it was lost
                // with a queue pair.
                unsafe { self.repost(slot as u32) };
                found += 1;
            } else if is_posted && number <= newest {
                overtaken += 1;
            }
        }
        let all_found = lowest >= self.lost_check_end.load(Relaxed);
        if all_found {
            // Only holders of the mutex change it.
            self.lost_check_end.store(0, Relaxed);
        }
        let lost_max = lost.found(found, all_found, (newest, overtaken));
        self.lost_max.store(lost_max, Relaxed);
        // Often enough that no more than a quarter of the receives stays lost, and no more often.
        let pause = u64::from(self.depth / 4) + 1;
        self.next_lost_check
            .store(self.max_completed_seq.load(Relaxed) + pause, Relaxed);
    }

    /// Returns whether a search for lost receives is due, now that `number` has completed.
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
        this.repost_lost(&mut this.endpoints.lock());
    }
}
