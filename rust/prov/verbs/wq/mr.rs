// SPDX-License-Identifier: GPL-2.0

//! Slots of invalidations, which own the region until its key has become invalid, and invalidations by messages.

use super::super::{
    ep_region::finish_close,
    mr_pool::MrPool, //
};
use crate::{
    fi::mr::ep_region::EpRegion,
    prov::{
        common::stats::Violations,
        verbs::prelude::*, //
    },
};

impl WorkQueue {
    /// Sets the regions whose keys messages to this receive queue may invalidate.
    pub(in crate::prov::verbs) fn set_mr_pool(&self, pool: &Arc<MrPool>) {
        let _ = self.mr_pool.populate(pool.clone());
    }

    /// Sets the counter of the violations by the peer.
    pub(in crate::prov::verbs) fn set_violations(&self, violations: &Arc<Violations>) {
        let _ = self.violations.populate(violations.clone());
    }

    /// Records that a message to this queue has invalidated a key. A key of no region of the endpoint is a violation,
    /// logged within the limit of its peer.
    #[cold]
    pub(in crate::prov::verbs) fn set_remotely_invalidated(&self, key: u32) {
        let pool = self.mr_pool.as_ref();
        if pool.is_some_and(|pool| pool.set_invalidated(key)) {
            return;
        }
        if let Some(violations) = self.violations.as_ref() {
            let number = self.qp_num.load(Relaxed);
            violations.record(
                &self.pd.device().name(),
                fmt!(
                    "endpoint {}: the peer invalidated a key that no region of the endpoint has",
                    number
                ),
            );
        }
    }

    /// Ends the region of operation `seq`, if that is an invalidation, and makes the slot that of an operation with
    /// the consumer's context.
    ///
    /// # Safety
    ///
    /// The caller holds the completion queue's lock; operation `seq` has completed and has not been retired. Or
    /// nothing is in flight any more, and no other thread retires.
    pub(in crate::prov::verbs) unsafe fn end_invalidation(&self, seq: u32, is_success: bool) {
        // SAFETY: By this function's safety requirement the caller is the slot's user.
        unsafe {
            self.ring.update(seq, |slot| {
                slot.kind = match slot.kind {
                    OpKind::Invalidation => OpKind::Reported,
                    OpKind::SilentInvalidation => OpKind::Silent,
                    _ => return,
                };
                let raw = slot.context.as_ptr().cast::<EpRegion>();
                slot.context = Context::NULL;
                if let Some(raw) = NonNull::new(raw) {
                    // SAFETY: The poster of such an operation has put the region there.
                    let region = ListBox::from_raw(raw);
                    slot.context = region.context();
                    finish_close(region, is_success);
                }
            })
        }
    }
}
