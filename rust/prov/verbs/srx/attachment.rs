// SPDX-License-Identifier: GPL-2.0

//! Attachment of an endpoint to a shared receive context.

use super::Srx;
use crate::{
    fi::{
        eq::Source,
        prelude::*, //
    },
    prov::verbs::{
        cq::Cq,
        wc_backlog::WqId,
        wq::OpKind, //
    },
    util::stat_counter::StatCounter, //
};
use kernel::workqueue;

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
    pub(super) last_seq: Atomic<u64>,
    /// Number of receives that the endpoint has completed.
    pub(in crate::prov::verbs) completed: StatCounter,
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
            is_closed: AtomicFlag::new(false),
        }
    }

    /// Returns the completion queue and the index of the receive queue there; none once the
    /// endpoint closes.
    pub(in crate::prov::verbs) fn cq_if_open(&self) -> Option<(Arc<Cq>, WqId)> {
        let is_over = self.is_closed.load(Acquire);
        (!is_over).then(|| (self.cq.clone(), self.wq_id))
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
