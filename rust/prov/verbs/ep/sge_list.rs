// SPDX-License-Identifier: GPL-2.0

//! Posting of transmits whose memory is injected, or has to be mapped or takes several scatter/gather elements. Any
//! context; nothing here sleeps or allocates.

use super::{
    super::{
        pieces::exceeds_sges,
        sge::{
            InjectBuf,
            SgeList, //
        },
        wq::{
            PostResources,
            ReservedSlot, //
        },
    },
    post::TxRequest, //
};
use crate::{
    fi::provider::Operation,
    prov::verbs::prelude::*, //
};

impl Endpoint {
    /// Returns the maximum number of scatter/gather elements of a work request.
    pub(super) fn sge_limit(&self, request: &TxRequest) -> usize {
        match request.is_read {
            false => self.attrs.tx_iov_limit,
            true => self.attrs.read_iov_limit,
        }
    }

    /// Posts a transmit whose memory is injected, or has to be mapped or takes several elements.
    #[inline(never)]
    pub(super) fn post_sge_list(
        &self,
        request: TxRequest,
        operation: Operation<'_>,
        message: &Message<'_>,
    ) -> Result {
        let (memory, descriptors) = (message.memory, message.descriptors);
        if let (Operation::Rma(rma, remote), false) = (operation, request.inject) {
            let memory = (memory, descriptors, request.op.len);
            if exceeds_sges(&self.pd, memory, self.sge_limit(&request))? {
                return self.post_long_rma(rma, remote, message);
            }
        }
        // SAFETY: As in `post_single_sge`.
        let mut slot = unsafe { self.sq.reserve(&request.op) }?;
        let posted = self.build_and_post(&request, &mut slot, |list, inject_buf| {
            self.build_sges(list, &request, (memory, descriptors), inject_buf)?;
            Ok(request.remote)
        });
        slot.finish(&request.op, posted)
    }

    /// Posts a transmit in its slot. `build` builds the scatter/gather list, of which nothing is mapped after an error,
    /// and returns the remote memory.
    pub(super) fn build_and_post(
        &self,
        request: &TxRequest,
        slot: &mut ReservedSlot<'_>,
        build: impl FnOnce(&mut SgeList<'_>, Option<InjectBuf<'_>>) -> Result<Option<RemoteAddr>>,
    ) -> Result {
        let direction = match request.is_read {
            false => DataDirection::ToDevice,
            true => DataDirection::FromDevice,
        };
        let mut flags = self.send_flags(request, slot);
        let wr_id = slot.wr_id;
        let PostResources {
            qp,
            mappings,
            inject_buf,
        } = slot.resources();
        let mut list = SgeList::new(&self.pd, direction, self.sge_limit(request), mappings);
        let remote = build(&mut list, inject_buf)?;
        if list.is_inline {
            flags |= SendFlag::Inline;
        }
        let request = TxRequest { remote, ..*request };
        // SAFETY: The segments' types promise that the memory is the operation's until it completes. The inject buffer
        // is as well, and inline data is copied now; the slot keeps the mappings as long.
        unsafe { request.post(qp, wr_id, list.sges(), flags) }.inspect_err(|_| list.unmap_all())
    }

    /// Builds the scatter/gather list of a transmit; nothing is mapped after an error.
    fn build_sges(
        &self,
        list: &mut SgeList<'_>,
        request: &TxRequest,
        (memory, descriptors): (Memory<'_>, &[Descriptor]),
        inject_buf: Option<InjectBuf<'_>>,
    ) -> Result {
        if request.inject {
            return list.push_inject(memory, inject_buf);
        }
        list.push_memory(memory, descriptors)?;
        self.pad_read(list, request)
    }

    /// Adds an element to the empty list of a read on iWARP.
    pub(super) fn pad_read(&self, list: &mut SgeList<'_>, request: &TxRequest) -> Result {
        match request.is_read && self.attrs.is_iwarp {
            true => list.pad_if_empty(),
            false => Ok(()),
        }
    }
}
