// SPDX-License-Identifier: GPL-2.0

//! Requests that bring something back from the peer's memory. Any context; nothing here sleeps or
//! allocates.

use super::{
    Post,
    Queue,
    Resources, //
};
use crate::{
    abi::Result,
    fi::memory::{
        Descriptor,
        Memory, //
    },
    prov::verbs::{
        gather::Gather,
        status, //
    },
    rdma::{
        dma::Direction,
        wr::{
            SendFlag,
            SendFlags,
            SendWr,
            Sge, //
        },
    },
};

impl Queue {
    /// Posts what `request` makes of its number, the addresses of at most `limit` pieces of memory, and
    /// its flags.
    ///
    /// # Errors
    ///
    /// Those of [`Queue::begin`] and [`Gather::add`], and what the device says.
    ///
    /// # Safety
    ///
    /// The call is made for a data call; `request` does not lock the queue.
    pub(in crate::prov::verbs) unsafe fn post_fetching(
        &self,
        what: &Post,
        (memory, descriptors): (Memory<'_>, &[Descriptor]),
        (limit, mut flags): (usize, SendFlags),
        request: impl for<'a> FnOnce(u64, &'a [Sge], SendFlags) -> Result<SendWr<'a>>,
    ) -> Result {
        // SAFETY: By this function's safety requirement; nothing here locks the queue.
        let mut posting = unsafe { self.begin(what) }?;
        if posting.signal {
            flags |= SendFlag::Signaled;
        }
        let wr_id = posting.wr_id();
        let Resources { qp, mappings, .. } = posting.resources();
        let mut gather = Gather::new(qp, Direction::FromDevice, limit, mappings);
        let added = gather.add(memory, descriptors);
        let posted = added.and_then(|()| {
            let posted = request(wr_id, gather.sges(), flags).and_then(|wr| {
                // SAFETY: The segments' types promise that the memory is the operation's until it
                // completes; the slot keeps the mappings as long.
                unsafe { qp.post_send(&wr) }.map_err(status::refused)
            });
            posted.inspect_err(|_| gather.undo())
        });
        posting.settle(what, posted)
    }
}
