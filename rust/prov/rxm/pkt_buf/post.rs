// SPDX-License-Identifier: GPL-2.0

//! Posts packets and RDMA reads and writes to a lower endpoint.

use super::{
    super::{
        inflight::{
            Inflight,
            PostError, //
        },
        lower::LowerEp,
        tx_op::{
            LocalBuf,
            RmaTx,
            TxOp, //
        },
        wire::{
            self,
            MAX_PACKET, //
        },
    },
    BufState,
    Packet, //
};
use crate::{
    abi::{
        fi_rma_iov,
        flags::FI_COMPLETION,
        FI_ADDR_UNSPEC, //
    },
    fi::{
        prelude::*,
        provider::{
            self,
            Operation,
            Rma,
            SingleSegment, //
        },
    },
};

impl Packet {
    /// Posts the first `len` bytes with `post`.
    #[inline(always)]
    fn lend(
        &mut self,
        len: usize,
        context: Context,
        post: impl FnOnce(&provider::Message<'_>) -> Result,
    ) -> Result {
        // SAFETY: `Inflight` holds the buffer until the operation has completed, and does not access its memory
        // meanwhile.
        let (segment, descriptor) = unsafe { self.memory.segment(len) };
        let descriptors = slice::from_ref(&descriptor);
        post(&provider::Message::with_segment(
            &segment,
            descriptors,
            context,
        ))
    }

    /// Sends the packet by `lower`.
    ///
    /// # Errors
    ///
    /// Errors of the lower transmit, with the buffer.
    #[inline(always)]
    pub(in super::super) fn send(
        node: ListBox<Self>,
        inflight: &mut Inflight<Self>,
        lower: &LowerEp,
    ) -> core::result::Result<(), PostError<Self>> {
        inflight.post(node, |packet, context| {
            // SAFETY: As in `lend()`.
            let (segment, descriptor) = unsafe { packet.memory.segment(packet.len) };
            lower.send(&SingleSegment {
                segment: &segment,
                descriptor,
                context,
                flags: FI_COMPLETION,
            })
        })
    }

    /// Posts the buffer as a receive with `post`.
    ///
    /// # Errors
    ///
    /// Errors of `post`, with the buffer.
    #[inline(always)]
    pub(in super::super) fn receive(
        node: ListBox<Self>,
        inflight: &mut Inflight<Self>,
        post: impl FnOnce(&provider::Message<'_>) -> Result,
    ) -> core::result::Result<(), PostError<Self>> {
        inflight.post(node, |packet, context| {
            packet.state = BufState::RxPosted;
            packet.lend(MAX_PACKET, context, post)
        })
    }

    /// Posts an RDMA read or write of one segment of the consumer's memory by `lower`.
    ///
    /// # Errors
    ///
    /// Errors of the lower transmit, with the buffer.
    #[inline(always)]
    pub(in super::super) fn access_segment(
        node: ListBox<Self>,
        inflight: &mut Inflight<Self>,
        lower: &LowerEp,
        (way, remote): (Rma, &fi_rma_iov),
        single: &SingleSegment<'_>,
    ) -> core::result::Result<(), PostError<Self>> {
        inflight.post(node, |_, context| {
            let single = SingleSegment {
                context,
                flags: single.flags | FI_COMPLETION,
                ..*single
            };
            lower.access(way, remote, &single)
        })
    }

    /// Posts the RDMA read or write of the operation by `lower`.
    ///
    /// # Errors
    ///
    /// Errors of the lower transmit, with the buffer.
    pub(in super::super) fn access(
        node: ListBox<Self>,
        inflight: &mut Inflight<Self>,
        lower: &LowerEp,
    ) -> core::result::Result<(), PostError<Self>> {
        inflight.post(node, |packet, context| {
            let Self { state, memory, .. } = packet;
            let BufState::Tx(tx_op) = state else {
                return Err(Errno::EINVAL);
            };
            match tx_op {
                TxOp::Rndv(rndv_tx) => rndv_tx.write(|segment, remote| {
                    let message = provider::Message::with_segment(segment, &[], context);
                    let operation = Operation::Rma(Rma::Write, slice::from_ref(remote));
                    lower.transmit(operation, &message)
                }),
                TxOp::Rma(access) => match &access.local {
                    // SAFETY: The operation completes after that of the lower endpoint.
                    LocalBuf::Consumer(lent) => unsafe {
                        lent.with_memory(|memory, descriptors| {
                            access.post(lower, memory, descriptors, context)
                        })
                    },
                    LocalBuf::Inline(len) => {
                        // SAFETY: As in `lend()`.
                        let (segment, descriptor) = unsafe { memory.segment(*len) };
                        let memory = Memory::Segments(slice::from_ref(&segment));
                        access.post(lower, memory, slice::from_ref(&descriptor), context)
                    }
                },
                _ => Err(Errno::EINVAL),
            }
        })
    }
}

impl RmaTx {
    fn post(
        &self,
        lower: &LowerEp,
        memory: Memory<'_>,
        descriptors: &[Descriptor],
        context: Context,
    ) -> Result {
        let message = provider::Message {
            memory,
            descriptors,
            context,
            flags: self.flags | FI_COMPLETION,
            errors_only: false,
            data: self.data,
            peer: FI_ADDR_UNSPEC,
            tag: None,
        };
        let operation = Operation::Rma(self.way, self.remote.as_slice());
        lower.transmit(operation, &message)
    }
}

/// Returns a range as the lower endpoint takes it.
pub(in super::super) fn remote(range: &wire::Range) -> fi_rma_iov {
    fi_rma_iov {
        addr: range.addr,
        len: range.len as usize,
        key: range.key,
    }
}
