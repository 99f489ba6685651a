// SPDX-License-Identifier: GPL-2.0

//! What an endpoint has of the receives that it shares.

use super::Srx;
use crate::{
    abi::stat_counter::StatCounter,
    fi::eq::Source,
    prov::verbs::{
        cq::Cq,
        wc_backlog::WqId,
        wq::OpKind, //
    },
};
use kernel::{
    sync::{
        atomic::{
            Acquire,
            Atomic,
            AtomicFlag,
            Full,
            Release, //
        },
        Arc, //
    },
    workqueue, //
};

/// What an endpoint that shares its receives has in place of a target of its receive queue.
pub(in crate::prov::verbs) struct SrxAttachment {
    pub(in crate::prov::verbs) srx: Arc<Srx>,
    pub(in crate::prov::verbs) cq: Arc<Cq>,
    /// The queue's place in the completion queue's table.
    pub(in crate::prov::verbs) wq_id: WqId,
    /// What its completions name its queue pair by.
    pub(in crate::prov::verbs) qp_addr: usize,
    /// Whether only those successes are reported that a poster asks for.
    pub(in crate::prov::verbs) is_selective: bool,
    /// Whose completions they are.
    pub(in crate::prov::verbs) source: Source,
    /// The number of the receive that it has completed last, or of one that it never had: it has none of
    /// those up to there.
    last_seq: Atomic<u64>,
    /// How many it has completed.
    completed: StatCounter,
    /// Whether the endpoint closes.
    is_closed: AtomicFlag,
}

impl SrxAttachment {
    /// That of an endpoint that has just been admitted.
    pub(in crate::prov::verbs) fn new(
        srx: Arc<Srx>,
        (cq, place): (Arc<Cq>, WqId),
        qp: usize,
        is_selective: bool,
        source: Source,
    ) -> Self {
        // What has been taken from the device's queue by now, others have.
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
            is_closed: AtomicFlag::new(false),
        }
    }

    /// Where its receives complete, and its place there, until the endpoint closes.
    pub(in crate::prov::verbs) fn cq_if_open(&self) -> Option<(Arc<Cq>, WqId)> {
        let is_over = self.is_closed.load(Acquire);
        (!is_over).then(|| (self.cq.clone(), self.wq_id))
    }

    /// The endpoint closes; true the first time.
    pub(in crate::prov::verbs) fn close(&self) -> bool {
        !self.is_closed.xchg(true, Full)
    }

    /// Takes a slot whose receive was completed for this endpoint from the device. Returns false if it has been taken
    /// before.
    ///
    /// # Safety
    ///
    /// The requirements of [`Srx::meet`] hold.
    pub(in crate::prov::verbs) unsafe fn complete_slot(&self, slot: u32) -> bool {
        // SAFETY: By this function's safety requirement.
        match unsafe { self.srx.mark_completed(slot) } {
            None => false,
            Some(number) => {
                self.last_seq.store(number, Release);
                self.completed.add(1);
                if self.srx.needs_lost_check(number) {
                    // Refused where it is queued already.
                    let _ = workqueue::system_long().enqueue(self.srx.clone());
                }
                true
            }
        }
    }

    /// It has none with this number, and none with a smaller one.
    pub(super) fn last_seq(&self) -> u64 {
        self.last_seq.load(Acquire)
    }

    /// How many it has completed.
    pub(in crate::prov::verbs) fn completed(&self) -> u64 {
        self.completed.get()
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
