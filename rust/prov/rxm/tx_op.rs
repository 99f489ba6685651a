// SPDX-License-Identifier: GPL-2.0

//! Transmit operations, from the consumer's call to their completion.

use super::{
    iov::{
        DeviceBuf,
        DstBuf,
        RmaRanges,
        SrcBuf, //
    },
    pkt_buf::post::remote,
    wire::{
        Message,
        Range,
        Ranges,
        SegPos,
        Segment, //
    },
};
use crate::{
    abi::fi_rma_iov,
    fi::{
        memory,
        mr::MemoryRegion,
        prelude::*,
        provider::Rma, //
    },
};

/// Describes how an operation is reported.
#[derive(Clone, Copy)]
pub(super) struct TxComp {
    /// Transmit context that the operation was posted to.
    pub(super) tx_ctx: u8,
    /// Context of the consumer.
    pub(super) context: Context,
    /// Completion flags: FI_SEND and others.
    pub(super) flags: u64,
    /// True if a success is reported.
    pub(super) reports_success: bool,
}

impl TxComp {
    /// Reports nothing.
    pub(super) const NONE: Self = Self {
        tx_ctx: 0,
        context: Context::NULL,
        flags: 0,
        reports_success: false,
    };
}

/// A transmit operation.
pub(super) enum TxOp {
    /// Eager message, which is in the packet buffer.
    Eager,
    /// Message that is sent in segments.
    Sar(SarTx),
    /// Rendezvous message, or access to a tagged receive.
    Rndv(RndvTx),
    /// RDMA read or write.
    Rma(RmaTx),
    /// RDMA read or write that was posted at once.
    PostedRma(Rma),
    /// Atomic operation, which the peer executes.
    Atomic(AtomicTx),
}

/// An RDMA read or write.
pub(super) struct RmaTx {
    /// Direction of the transfer.
    pub(super) way: Rma,
    /// Remote memory.
    pub(super) remote: RmaRanges,
    /// Local memory.
    pub(super) local: LocalBuf,
    /// Flags for the lower operation.
    pub(super) flags: u64,
    /// Remote CQ data, if the flags have FI_REMOTE_CQ_DATA.
    pub(super) data: u64,
}

// Several ranges do not make packet buffers larger.
const _: () = assert!(mem::size_of::<RmaTx>() <= mem::size_of::<RndvTx>());

/// An atomic operation. The request is in the packet buffer.
pub(super) struct AtomicTx {
    /// Buffer for the old values.
    pub(super) result: DstBuf,
    /// Result of a response that arrived before the completion of the request.
    pub(super) early_result: Option<Result>,
}

/// Local memory of an RDMA operation.
pub(super) enum LocalBuf {
    /// Memory of the consumer.
    Consumer(DeviceBuf),
    /// This number of bytes of the packet buffer.
    Inline(usize),
}

/// A message that is sent in segments.
pub(super) struct SarTx {
    /// The message.
    pub(super) message: Message,
    /// Memory of the message.
    pub(super) from: SrcBuf,
    /// Number of the next segment.
    pub(super) next: u32,
}

impl SarTx {
    /// Returns the next segment of the message, whose id is `id`.
    pub(super) fn segment(&self, id: u64) -> Segment {
        Segment {
            id,
            number: self.next,
            pos: SegPos::of(self.next, self.message.segments()),
            message: self.message,
        }
    }
}

/// A rendezvous message, or an access to the memory of a tagged receive of the peer: the peer reads or writes the local
/// memory.
pub(super) struct RndvTx {
    /// The message. For an access, its tag and length.
    pub(super) message: Message,
    /// Local memory.
    pub(super) from: SrcBuf,
    /// Direction of an access; `None` for a message.
    pub(super) access: Option<Rma>,
    /// Region of the local memory. Dropped in process context.
    pub(super) region: Option<Arc<MemoryRegion>>,
    /// Progress of the protocol.
    pub(super) state: RndvState,
}

/// State of a rendezvous send.
#[derive(Clone, Copy)]
pub(super) enum RndvState {
    /// The request is deferred, is being sent, or awaits the reply, which may arrive before the send completes.
    ReqSent(Option<RndvReply>),
    /// The message is written to these ranges: bytes that are done, and bytes in flight.
    Writing(Ranges, usize, usize),
    /// The message has been written; the peer has to be notified.
    WriteDone,
    /// The operation is complete.
    Done(Result),
}

/// Reply of the peer to a rendezvous request.
#[derive(Clone, Copy)]
pub(super) enum RndvReply {
    /// The peer has read the message.
    ReadDone,
    /// The peer wants the message written to these ranges.
    WriteTo(Ranges),
    /// The peer refuses the access.
    Refused(Errno),
}

impl RndvTx {
    /// Creates a rendezvous message whose memory has to be registered.
    pub(super) fn new(message: Message, from: SrcBuf) -> Self {
        Self {
            message: Message {
                ack: None,
                ..message
            },
            from,
            access: None,
            region: None,
            state: RndvState::ReqSent(None),
        }
    }

    /// Creates an access to the tagged receive that matches `message`.
    pub(super) fn access(way: Rma, message: Message, memory: SrcBuf) -> Self {
        Self {
            access: Some(way),
            ..Self::new(message, memory)
        }
    }

    /// Returns whether the memory has to be registered before the request is sent. An access of no bytes has none.
    #[inline(always)]
    pub(super) fn needs_region(&self) -> bool {
        self.region.is_none() && (self.message.len > 0 || self.access.is_none())
    }

    /// Returns whether the peer may give this reply.
    pub(super) fn accepts(&self, reply: &RndvReply) -> bool {
        match reply {
            RndvReply::ReadDone => true,
            RndvReply::WriteTo(_) => self.access.is_none(),
            RndvReply::Refused(_) => self.access.is_some(),
        }
    }

    /// Registers the memory of the message with `register`.
    ///
    /// # Errors
    ///
    /// Errors of `register`.
    pub(super) fn register(
        &self,
        register: impl FnOnce(&[memory::Segment]) -> Result<Arc<MemoryRegion>>,
    ) -> Result<Arc<MemoryRegion>> {
        // SAFETY: The region is kept in `region`, and dropped before the completion of the message is written.
        unsafe { self.from.with_segments(register) }
    }

    /// Returns the ranges of the memory for the peer, once it is registered.
    pub(super) fn ranges(&self) -> Option<Ranges> {
        if self.access.is_some() && self.message.len == 0 {
            return Ranges::new(&[Range::default()]);
        }
        let region = self.region.as_ref()?;
        Ranges::new(&[Range {
            addr: region.base(),
            len: self.message.len,
            key: region.key(),
        }])
    }

    /// Returns whether more of the message has to be written.
    pub(super) fn has_more_to_write(&self) -> bool {
        match &self.state {
            RndvState::Writing(ranges, done, _) => {
                *done < self.from.len() && ranges.range_at(*done as u64).is_some()
            }
            _ => false,
        }
    }

    /// Writes the next part of the message with `post`.
    ///
    /// # Errors
    ///
    /// Errors of `post`; -FI_EINVAL if the memory cannot be accessed.
    pub(super) fn write(
        &mut self,
        post: impl FnOnce(&memory::Segment, &fi_rma_iov) -> Result,
    ) -> Result {
        let RndvState::Writing(ranges, done, in_flight) = &mut self.state else {
            return Err(Errno::EINVAL);
        };
        let to = ranges.range_at(*done as u64).ok_or(Errno::EINVAL)?;
        let len = (self.from.len() - *done).min(to.len as usize);
        // SAFETY: The message completes after all of its writes.
        let from = unsafe { self.from.first_contiguous(*done, len) }?.ok_or(Errno::EINVAL)?;
        let len = from.len() as u64;
        post(&from, &remote(&Range { len, ..to }))?;
        *in_flight = from.len();
        Ok(())
    }
}
