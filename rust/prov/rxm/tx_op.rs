// SPDX-License-Identifier: GPL-2.0

//! What an endpoint has been asked to do, until its outcome is told.

use super::{
    iov::{
        DeviceBuf,
        DstBuf,
        SrcBuf, //
    },
    pkt_buf::remote,
    wire::{
        Message,
        ProtoError,
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

/// Whom the outcome is told.
#[derive(Clone, Copy)]
pub(super) struct TxComp {
    /// Which transmit context has been asked for it.
    pub(super) tx_ctx: u8,
    /// What the poster gets back.
    pub(super) context: Context,
    /// FI_SEND and what belongs to it.
    pub(super) flags: u64,
    /// Whether a success is told too.
    pub(super) reports_success: bool,
}

impl TxComp {
    /// Nobody.
    pub(super) const NONE: Self = Self {
        tx_ctx: 0,
        context: Context::NULL,
        flags: 0,
        reports_success: false,
    };
}

/// What is to be done.
pub(super) enum TxOp {
    /// A message, which is in the packet.
    Eager,
    /// A longer one.
    Sar(SarTx),
    /// One that the peer is to read.
    Rndv(RndvTx),
    /// An access to the peer's memory.
    Rma(RmaTx),
    /// An operation that the peer does to its memory.
    Atomic(AtomicTx),
}

/// An access to a peer's memory.
pub(super) struct RmaTx {
    /// Which way it goes.
    pub(super) way: Rma,
    /// What it is done to.
    pub(super) remote: fi_rma_iov,
    /// With what.
    pub(super) local: LocalBuf,
    /// What is asked of it.
    pub(super) flags: u64,
    /// What the peer is told, if the flags say so.
    pub(super) data: u64,
}

/// An operation that a peer is asked to do. The request is in the packet.
pub(super) struct AtomicTx {
    /// Where the old values go.
    pub(super) result: DstBuf,
    /// What has come of it, if that is known before the request is known to have gone.
    pub(super) early_result: Option<Result>,
}

impl AtomicTx {
    /// Takes what has come of it; the old values, if it has been done.
    ///
    /// # Errors
    ///
    /// There are not as many as were asked for.
    pub(super) fn take(&self, status: i32, old: &[u8]) -> core::result::Result<Result, ProtoError> {
        if status != 0 {
            let errno = status.checked_neg().and_then(Errno::new);
            return Ok(Err(errno.unwrap_or(Errno::EOTHER)));
        }
        if old.len() != self.result.len() {
            return Err(ProtoError("an answer with other values than asked for"));
        }
        self.result.copy_from_slice(0, old);
        Ok(Ok(()))
    }
}

/// Local memory.
pub(super) enum LocalBuf {
    /// The consumer's.
    Consumer(DeviceBuf),
    /// So many bytes of the packet.
    Inline(usize),
}

/// A message that is sent in segments.
pub(super) struct SarTx {
    /// The message.
    pub(super) message: Message,
    /// Where it is.
    pub(super) from: SrcBuf,
    /// The number of the next segment.
    pub(super) next: u32,
}

impl SarTx {
    /// The next segment of the message, which is called `id`.
    pub(super) fn segment(&self, id: u64) -> Segment {
        Segment {
            id,
            number: self.next,
            pos: SegPos::of(self.next, self.message.segments()),
            message: self.message,
        }
    }
}

/// A message that is offered.
pub(super) struct RndvTx {
    /// The message.
    pub(super) message: Message,
    /// Where it is.
    pub(super) from: SrcBuf,
    /// What opens it to the peer. Dropped where one may sleep.
    pub(super) region: Option<Arc<MemoryRegion>>,
    /// How far it has come.
    pub(super) state: RndvState,
}

/// How far an offer has come.
#[derive(Clone, Copy)]
pub(super) enum RndvState {
    /// The peer is to be told, and may have answered before that is known to be over.
    ReqSent(Option<RndvReply>),
    /// The peer wants it written to these ranges: so many bytes are there, so many on their way.
    Writing(Ranges, usize, usize),
    /// All are: the peer is to be told.
    WriteDone,
    /// It is over.
    Done(Result),
}

/// What a peer says to an offer.
#[derive(Clone, Copy)]
pub(super) enum RndvReply {
    /// It has taken the message.
    ReadDone,
    /// The message is to be written there.
    WriteTo(Ranges),
}

impl RndvTx {
    /// Registers the memory of the message with `register`.
    ///
    /// # Errors
    ///
    /// Errors of `register`.
    pub(super) fn register(
        &self,
        register: impl FnOnce(&[memory::Segment]) -> Result<Arc<MemoryRegion>>,
    ) -> Result<Arc<MemoryRegion>> {
        // SAFETY: The region is kept in `region`, and dropped before the completion of the message is
        // written.
        let parts = unsafe { self.from.segments() };
        let end = parts.iter().position(memory::Segment::is_empty);
        register(parts.get(..end.unwrap_or(parts.len())).unwrap_or(&[]))
    }

    /// Where the peer finds it, once it is open.
    pub(super) fn ranges(&self) -> Option<Ranges> {
        let region = self.region.as_ref()?;
        Ranges::new(&[Range {
            addr: region.base(),
            len: self.message.len,
            key: region.key(),
        }])
    }

    /// Whether there is more to be written.
    pub(super) fn has_more_to_write(&self) -> bool {
        match &self.state {
            RndvState::Writing(ranges, done, _) => {
                *done < self.from.len() && ranges.range_at(*done as u64).is_some()
            }
            _ => false,
        }
    }

    /// Has `post` write more of it.
    ///
    /// # Errors
    ///
    /// What `post` says, -FI_EINVAL for memory that is not there any more.
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
