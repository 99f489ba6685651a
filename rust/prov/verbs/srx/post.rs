// SPDX-License-Identifier: GPL-2.0

//! Posting of shared receives, and the life of their slots. See the type invariants of [`Srx`].

use super::{
    SlotControl,
    Srx,
    FREE,
    NO_SLOT,
    POSTED,
    SRX_WR_ID_BIT, //
};
use crate::{
    prov::{
        common::flags::check_message,
        verbs::{
            prelude::*,
            sge::{
                SgeList,
                SingleSge, //
            },
            wq::ReportPolicy, //
        },
    },
    rdma::srq::Srq,
    util::lock::assert_held, //
};

impl Srx {
    /// Posts a receive, for `fi_recv()` and its variants. Any context.
    pub(super) fn post(&self, message: &Message<'_>) -> Result {
        const FLAGS: u64 = FI_COMPLETION | FI_MORE;
        // Multi-receive buffers are not supported here: their pieces would go to different
        // endpoints, and the endpoint that ends a buffer may be another than the one that began it.
        let flags = (FLAGS | FI_MULTI_RECV, !FLAGS);
        let len = check_message(
            message,
            flags,
            (self.saved_sges.per_slot, self.max_msg_size),
        )?;
        let op = || OpDesc {
            context: message.context,
            flags: FI_RECV | FI_MSG,
            len,
            report_policy: ReportPolicy::Always,
        };
        let mut head = self.producer.lock();
        let head = &mut *head;
        let srq = head.srq.as_ref().ok_or(Errno::EOPBADSTATE)?;
        let Some(slot) = self.take_free_slot(&mut head.free_list) else {
            self.eagain.add(1);
            return Err(Errno::EAGAIN);
        };
        if trace::posts() {
            // A shared receive has no queue pair yet.
            op().emit_post(&self.pd, 0, true);
        }
        // SAFETY: `take_free_slot` has returned it.
        let posted = unsafe { self.post_slot(srq, slot, message, head.post_seq + 1) };
        match posted {
            Ok(()) => {
                head.post_seq += 1;
                self.posted.add(1);
            }
            Err(errno) => {
                op().emit_post_error(&self.pd, 0, errno);
                if let Some(mark) = self.slot_control(slot) {
                    // INVARIANT: The slot goes back to the list that it was in.
                    mark.state.store(FREE, Relaxed);
                    mark.next.store(head.free_list, Relaxed);
                }
                head.free_list = slot;
            }
        }
        posted
    }

    /// Takes a free slot of the posters' list `free`; the caller holds the lock of `producer`.
    fn take_free_slot(&self, free: &mut u32) -> Option<u32> {
        assert_held(&self.producer);
        if *free == NO_SLOT {
            // The whole list at once: taking a single slot would be open to the ABA problem, as
            // slots are released meanwhile.
            *free = self.released_list.xchg(NO_SLOT, Acquire);
        }
        let slot = *free;
        *free = self.slot_control(slot)?.next.load(Relaxed);
        Some(slot)
    }

    /// Posts a receive with a slot.
    ///
    /// # Safety
    ///
    /// The slot is FREE and in no list, and the caller is its user.
    unsafe fn post_slot(&self, srq: &Srq, slot: u32, message: &Message<'_>, number: u64) -> Result {
        let control = self.slot_control(slot).ok_or(Errno::EINVAL)?;
        let saved = WrSlot {
            context: message.context,
            flags: FI_RECV | FI_MSG,
            kind: match message.flags & FI_COMPLETION {
                0 => OpKind::Silent,
                _ => OpKind::Reported,
            },
            is_deferred: false,
            is_reported: false,
        };
        // SAFETY: By this function's safety requirement the slot is ours, and so are its mappings.
        let mappings = unsafe {
            self.ring.fill(slot, saved);
            self.ring.slot_mappings(self.ring.index(slot))
        };
        control.post_seq.store(number, Relaxed);
        if let Some(whole) = SingleSge::from_memory(message.memory, message.descriptors, &self.pd) {
            let sge = whole.build(false, &self.pd);
            // SAFETY: The slot is ours, and has no mappings.
            return unsafe {
                self.save_sges(slot, control, &[sge]);
                self.post_wr(srq, slot, control, &[sge])
            };
        }
        let limit = self.saved_sges.per_slot;
        let mut list = SgeList::new(&self.pd, DataDirection::FromDevice, limit, mappings);
        list.push_memory(message.memory, message.descriptors)?;
        // SAFETY: The slot is ours, and has the mappings.
        let posted = unsafe {
            self.save_sges(slot, control, list.sges());
            self.post_wr(srq, slot, control, list.sges())
        };
        posted.inspect_err(|_| list.unmap_all())
    }

    /// Saves the elements that a slot is posted with, for [`Self::repost`].
    ///
    /// # Safety
    ///
    /// The caller is the slot's user.
    unsafe fn save_sges(&self, slot: u32, control: &SlotControl, sges: &[Sge]) {
        // SAFETY: By this function's safety requirement.
        let saved = unsafe { self.saved_sges.slot(slot as usize) };
        for (to, from) in saved.iter_mut().zip(sges) {
            *to = *from;
        }
        control.sge_count.store(sges.len() as u32, Relaxed);
    }

    /// Posts the receive of a slot to the device.
    ///
    /// # Safety
    ///
    /// The caller is the slot's user, and the slot has the mappings of `sges`, or they are of a
    /// memory region.
    unsafe fn post_wr(&self, srq: &Srq, slot: u32, control: &SlotControl, sges: &[Sge]) -> Result {
        // INVARIANT: Before the post, as the receive may complete before the call has returned.
        control.state.store(POSTED, Release);
        let wr = RecvWr::new(SRX_WR_ID_BIT | u64::from(slot), sges);
        // SAFETY: The segments' types promise that the memory is the operation's until it
        // completes; by this function's safety requirement the mappings exist as long.
        unsafe { srq.post(&wr) }.map_err(wc_status::post_errno)
    }

    /// Posts a receive again that has not been reported, and whose endpoint is gone. May sleep.
    ///
    /// # Safety
    ///
    /// The caller is the slot's user, and the slot is not FREE.
    pub(super) unsafe fn repost(&self, slot: u32) {
        let mut head = self.producer.lock();
        let head = &mut *head;
        let (Some(mark), Some(srq)) = (self.slot_control(slot), &head.srq) else {
            return;
        };
        // SAFETY: By this function's safety requirement.
        let mappings = unsafe { self.ring.slot_mappings(self.ring.index(slot)) };
        for mapping in mappings.iter().flatten() {
            self.pd.dma().sync_for_device(mapping);
        }
        // SAFETY: As above.
        let saved = unsafe { self.saved_sges.slot(slot as usize) };
        let sges = saved
            .get(..mark.sge_count.load(Relaxed) as usize)
            .unwrap_or(saved);
        mark.post_seq.store(head.post_seq + 1, Relaxed);
        // SAFETY: As above; it has been posted with these elements before.
        match unsafe { self.post_wr(srq, slot, mark, sges) } {
            Ok(()) => head.post_seq += 1,
            // The next search finds it: number 0 is before those of all endpoints.
            Err(_) => mark.post_seq.store(0, Relaxed),
        }
    }

    /// Returns the data of a slot.
    ///
    /// # Safety
    ///
    /// The slot is COMPLETED, and has not been released; the caller holds the lock of the
    /// completion queue that its completion came from.
    pub(in crate::prov::verbs) unsafe fn slot(&self, slot: u32) -> WrSlot {
        // SAFETY: By this function's safety requirement, and the type invariant.
        unsafe { self.ring.get(slot) }
    }

    /// Syncs the memory of a slot for the CPU, before the consumer reads it.
    ///
    /// # Safety
    ///
    /// The requirements of [`Self::slot`] hold.
    pub(in crate::prov::verbs) unsafe fn sync_slot_for_cpu(&self, slot: u32) {
        // SAFETY: By this function's safety requirement, and the type invariant.
        let mappings = unsafe { self.ring.slot_mappings(self.ring.index(slot)) };
        for mapping in mappings.iter().flatten() {
            self.pd.dma().sync_for_cpu(mapping);
        }
    }

    /// Unmaps the memory of a slot, and returns the slot's data.
    ///
    /// # Safety
    ///
    /// The slot's operation is over, and the caller is its user.
    pub(super) unsafe fn unmap_slot(&self, slot: u32) -> WrSlot {
        // SAFETY: By this function's safety requirement, and the type invariant.
        unsafe {
            self.ring.unmap(slot, slot.wrapping_add(1));
            self.ring.get(slot)
        }
    }

    /// Releases the slot of a receive that is reported.
    ///
    /// # Safety
    ///
    /// The requirements of [`Self::slot`] hold; the slot is not used after this.
    pub(in crate::prov::verbs) unsafe fn release_slot(
        &self,
        slot: u32,
        status: WcStatus,
        len: u32,
    ) {
        // SAFETY: By this function's safety requirement.
        let _ = unsafe { self.unmap_slot(slot) };
        // Pairs with the acquire in `free_slots`.
        let _ = self.completed.fetch_add(1u64, Release);
        match status {
            WcStatus::SUCCESS => self.bytes.fetch_add(u64::from(len), Relaxed),
            _ => self.errors.fetch_add(1u64, Relaxed),
        };
        let Some(mark) = self.slot_control(slot) else {
            return;
        };
        // INVARIANT: The slot goes into the released list.
        mark.state.store(FREE, Relaxed);
        let mut first = self.released_list.load(Relaxed);
        loop {
            mark.next.store(first, Relaxed);
            // Pairs with the acquire of the poster that takes the list.
            match self.released_list.cmpxchg(first, slot, Release) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }
}
