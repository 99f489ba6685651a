// SPDX-License-Identifier: GPL-2.0

//! Work requests that return data from the peer's memory: reads and fetching atomics. Any context;
//! nothing here sleeps or allocates.

use super::{
    OpDesc,
    PostResources,
    WorkQueue, //
};
use crate::{
    fi::prelude::*,
    prov::verbs::{
        sge::SgeList,
        wc_status, //
    },
    rdma::{
        dma::DataDirection,
        wr::{
            SendFlag,
            SendFlags,
            SendWr,
            Sge, //
        },
    },
};

impl WorkQueue {
    /// Posts the work request that `request` builds from its `wr_id`, at most `limit`
    /// scatter/gather elements, and its flags.
    ///
    /// # Errors
    ///
    /// The errors of [`WorkQueue::reserve`] and [`SgeList::push_memory`], and the device's.
    ///
    /// # Safety
    ///
    /// The call is made for a data call; `request` does not lock the queue.
    pub(in crate::prov::verbs) unsafe fn post_fetch(
        &self,
        op: &OpDesc,
        (memory, descriptors): (Memory<'_>, &[Descriptor]),
        (limit, mut flags): (usize, SendFlags),
        request: impl for<'a> FnOnce(u64, &'a [Sge], SendFlags) -> Result<SendWr<'a>>,
    ) -> Result {
        // SAFETY: By this function's safety requirement; nothing here locks the queue.
        let mut slot = unsafe { self.reserve(op) }?;
        if slot.is_signalled {
            flags |= SendFlag::Signaled;
        }
        let wr_id = slot.wr_id;
        let PostResources { qp, mappings, .. } = slot.resources();
        let mut list = SgeList::new(qp, DataDirection::FromDevice, limit, mappings);
        let added = list.push_memory(memory, descriptors);
        let posted = added.and_then(|()| {
            let posted = request(wr_id, list.sges(), flags).and_then(|wr| {
                // SAFETY: The segments' types promise that the memory is the operation's until it
                // completes; the slot keeps the mappings as long.
                unsafe { qp.post_send(&wr) }.map_err(wc_status::post_errno)
            });
            posted.inspect_err(|_| list.unmap_all())
        });
        slot.finish(op, posted)
    }
}
