// SPDX-License-Identifier: GPL-2.0

//! Receive entries: posted receives, and the receive side of rendezvous messages. Guarded by `EpCore::inner`.

use super::{
    inflight::Indexed,
    iov::{
        DstBuf,
        IovBlock,
        PostedDst,
        MAX_IOV, //
    },
    matcher::{
        HasMatchSpec,
        MatchSpec,
        MsgKey,
        RX_TABLES, //
    },
    multi_recv::MultiRecvSlot,
    srx::entry::SrxRecv,
    wire::{
        Message,
        Range,
        Ranges, //
    },
};
use crate::{
    abi::flags::{
        FI_READ,
        FI_RMA,
        FI_WRITE, //
    },
    fi::{
        prelude::*,
        provider::Rma, //
    },
    util::indexed_fifo::{
        impl_has_links,
        Links, //
    },
};

/// Kind of a receive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RxKind {
    /// Receive of one message.
    Single,
    /// Multi-receive buffer.
    Multi {
        /// True if the buffer takes no more messages because it was cancelled.
        is_cancelled: bool,
    },
    /// Message in a slot of a multi-receive buffer.
    Placed {
        /// Number of the buffer's receive.
        of: u32,
        /// Address of the slot.
        at: usize,
    },
    /// Message with a receive of a shared receive context.
    Shared,
}

/// Memory for a message that has no posted receive of its endpoint.
pub(super) enum RxTarget {
    /// Slot of a multi-receive buffer.
    Slot(MultiRecvSlot),
    /// Receive of a shared receive context.
    Shared(SrxRecv),
    /// No memory: the message is dropped and not reported.
    Discard,
}

/// A receive entry.
pub(super) struct Receive {
    number: u32,
    /// Index of the receive context.
    pub(super) rx_ctx: u8,
    /// True if the entry is internal: never posted, for messages with a [`RxTarget`].
    is_internal: bool,
    /// Kind of the receive.
    pub(super) kind: RxKind,
    /// Messages that it matches.
    pub(super) spec: MatchSpec,
    /// Memory.
    pub(super) into: DstBuf,
    /// Context of the consumer.
    pub(super) context: Context,
    /// True if a success is reported although the queue is selective.
    pub(super) reports_success: bool,
    /// True if the receive has been reported, and only its sender has to be notified.
    pub(super) is_reported: bool,
    /// Entry of a shared receive at an owner in another module, or number of its slot in the context.
    pub(super) peer_entry: usize,
    /// Descriptors of the memory.
    descriptors: [Descriptor; MAX_IOV],
    /// Rendezvous message that is being read.
    pub(super) rndv: Option<RndvRead>,
    rank: u64,
    links: Links<Self, RX_TABLES>,
}

// An entry, with the pointer of its list, uses one object of `kmalloc-512`.
const _: () = assert!(mem::size_of::<Receive>() <= 512 - mem::size_of::<usize>());

impl_has_links! {
    impl HasLinks<RX_TABLES> for Receive { self.links }
}

/// A rendezvous message that is being read, or an access of a peer to the receive's memory.
pub(super) struct RndvRead {
    /// Direction of an access, as the peer sees it; `None` for a message.
    pub(super) access: Option<Rma>,
    /// Index of the sender.
    pub(super) peer_idx: u32,
    /// Generation of the connection.
    pub(super) conn_gen: usize,
    /// Message id of the sender.
    pub(super) id: u64,
    /// Source of the message.
    pub(super) from: SocketAddr,
    /// The message.
    pub(super) message: Message,
    /// Memory of the message.
    pub(super) ranges: Ranges,
    /// Number of bytes that have been transferred.
    pub(super) done: usize,
    /// Number of bytes that are being transferred.
    pub(super) in_flight: usize,
    /// True if a read was reported that may not be complete, since nothing has been read behind it.
    pub(super) needs_confirm: bool,
}

impl RndvRead {
    /// Returns the direction of the transfer as this end sees it.
    pub(super) fn way(&self) -> Rma {
        match self.access {
            Some(Rma::Read) => Rma::Write,
            Some(Rma::Write) | None => Rma::Read,
        }
    }

    /// Returns the completion flags of an access, or 0 for a message.
    pub(super) fn flags(&self) -> u64 {
        match self.access {
            Some(Rma::Read) => FI_RMA | FI_READ,
            Some(Rma::Write) => FI_RMA | FI_WRITE,
            None => 0,
        }
    }

    /// Returns the matching key of the message.
    pub(super) fn key(&self) -> MsgKey {
        MsgKey {
            context: self.message.context,
            tag: self.message.tag,
            from: self.from,
        }
    }
}

/// Next read of a rendezvous message.
pub(super) struct RndvReadStep {
    pub(super) from: Range,
    pub(super) into: Segment,
    /// True if the read repeats the last byte, which confirms the reads before it.
    pub(super) is_confirm: bool,
}

impl Receive {
    /// Creates a free entry.
    pub(super) const fn idle(number: u32, rx_ctx: u8, is_internal: bool) -> Self {
        Self {
            number,
            rx_ctx,
            is_internal,
            kind: RxKind::Single,
            spec: MatchSpec {
                tag: None,
                from: None,
            },
            into: DstBuf::EMPTY,
            context: Context::NULL,
            reports_success: false,
            is_reported: false,
            peer_entry: 0,
            descriptors: [Descriptor::NONE; MAX_IOV],
            rndv: None,
            rank: 0,
            links: Links::new(),
        }
    }

    /// Clears the entry for its next use, which sets the other fields.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.kind = RxKind::Single;
        self.spec.tag = None;
        self.spec.from = None;
        self.into = DstBuf::EMPTY;
        self.is_reported = false;
        self.rndv = None;
    }

    /// Sets the memory of a receive that begins. A long vector is stored in the slot of the entry.
    #[inline(always)]
    pub(super) fn set_memory(&mut self, into: PostedDst<'_>, iov_block: &mut IovBlock) {
        // SAFETY: The slot has the number of this entry, which drops the vector when the receive has ended.
        self.into = into.into_entry(|| unsafe { iov_block.slot(self.number) });
    }

    /// Returns whether the entry is internal: never posted, for messages with a [`RxTarget`].
    pub(super) fn is_internal(&self) -> bool {
        self.is_internal
    }

    /// Assigns the memory of a message to an internal entry. Every message in a multi-receive buffer is reported,
    /// because only its completion names its address.
    pub(super) fn assign(&mut self, target: RxTarget) {
        match target {
            RxTarget::Slot(slot) => {
                self.kind = RxKind::Placed {
                    of: slot.of,
                    at: slot.at,
                };
                self.into = slot.into;
                self.context = slot.context;
                self.reports_success = true;
            }
            RxTarget::Shared(srx_recv) => {
                self.kind = RxKind::Shared;
                self.spec = MatchSpec {
                    tag: srx_recv.tag,
                    from: None,
                };
                self.into = srx_recv.into;
                self.context = srx_recv.context;
                self.reports_success = srx_recv.reports_success;
                self.peer_entry = srx_recv.peer_entry;
                self.descriptors = srx_recv.descriptors;
            }
            RxTarget::Discard => self.is_reported = true,
        }
    }

    /// Takes the shared receive of the entry, if it has one that has not been reported.
    pub(super) fn take_srx_recv(&mut self) -> Option<SrxRecv> {
        if self.kind != RxKind::Shared || self.is_reported {
            return None;
        }
        Some(SrxRecv {
            tag: self.spec.tag,
            into: mem::replace(&mut self.into, DstBuf::EMPTY),
            descriptors: self.descriptors,
            context: self.context,
            reports_success: self.reports_success,
            peer_entry: self.peer_entry,
        })
    }

    /// Returns whether a completion queue entry is reserved. A multi-receive buffer reserves one for each message.
    pub(super) fn has_cq_entry(&self) -> bool {
        match self.kind {
            RxKind::Single | RxKind::Placed { .. } | RxKind::Shared => true,
            RxKind::Multi { is_cancelled } => is_cancelled,
        }
    }

    /// Returns the next read of the rendezvous message, or `None` if all that fits has been read.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if the memory cannot be accessed.
    pub(super) fn next_read(&self) -> Result<Option<RndvReadStep>> {
        let Some(rndv) = &self.rndv else {
            return Ok(None);
        };
        let wanted = rndv.message.len.min(self.into.len() as u64) as usize;
        let (is_confirm, at, most) = match wanted.checked_sub(rndv.done) {
            None => return Ok(None),
            Some(0) if rndv.needs_confirm => (true, rndv.done.saturating_sub(1), 1),
            Some(left) => (false, rndv.done, left),
        };
        let Some(from) = rndv.ranges.range_at(at as u64) else {
            return Ok(None);
        };
        let len = most.min(from.len as usize);
        // SAFETY: The receive completes after the operation; only one at a time uses the memory.
        let into = unsafe { self.into.first_contiguous(at, len) }?;
        Ok(into.map(|into| RndvReadStep {
            from: Range {
                len: into.len() as u64,
                ..from
            },
            into,
            is_confirm,
        }))
    }
}

impl Indexed for Receive {
    fn number(&self) -> u32 {
        self.number
    }
}

impl HasMatchSpec for Receive {
    #[inline(always)]
    fn tag(&self) -> Option<(u64, u64)> {
        self.spec.tag
    }

    #[inline(always)]
    fn source(&self) -> Option<&SocketAddr> {
        self.spec.from.as_ref()
    }

    fn buffer(&self) -> Option<u32> {
        match self.kind {
            RxKind::Multi { .. } => Some(self.number),
            RxKind::Single | RxKind::Placed { .. } | RxKind::Shared => None,
        }
    }

    #[inline(always)]
    fn context(&self) -> Option<usize> {
        Some(self.context.as_ptr() as usize)
    }

    #[inline(always)]
    fn rank(&self) -> u64 {
        self.rank
    }

    #[inline(always)]
    fn set_rank(&mut self, rank: u64) {
        self.rank = rank;
    }
}

#[kunit_tests(kofi_rdm_rx_entry)]
mod tests {
    use super::*;
    use crate::abi::Errno;

    const LENS: [usize; 2] = [100, 200];
    const ALL: usize = LENS[0] + LENS[1];
    /// Address of the message at the peer.
    const FAR: u64 = 1 << 40;

    /// Creates a receive that reads a rendezvous message in two consecutive ranges into `bytes`.
    fn rndv_receive(bytes: &mut [u8]) -> Result<Receive> {
        let mut far = FAR;
        let ranges = LENS.map(|len| {
            let range = Range {
                addr: far,
                len: len as u64,
                key: len as u64,
            };
            far += len as u64;
            range
        });
        let mut receive = Receive::idle(0, 0, false);
        // SAFETY: The memory is never written to.
        receive.into = unsafe { DstBuf::from_bytes(bytes) }?;
        receive.rndv = Some(RndvRead {
            access: None,
            peer_idx: 0,
            conn_gen: 0,
            id: 0,
            from: MsgKey::NONE.from,
            message: Message {
                context: 0,
                ack: None,
                tag: None,
                len: ALL as u64,
                data: None,
            },
            ranges: Ranges::new(&ranges).ok_or(Errno::EOTHER)?,
            done: 0,
            in_flight: 0,
            needs_confirm: false,
        });
        Ok(receive)
    }

    /// Offset and length of a read, and whether it confirms earlier reads.
    type Read = Option<(u64, u64, bool)>;

    /// Returns the next read after `done` bytes.
    fn next(receive: &mut Receive, done: usize, needs_confirm: bool) -> Result<Read> {
        if let Some(rndv) = &mut receive.rndv {
            rndv.done = done;
            rndv.needs_confirm = needs_confirm;
        }
        let next = receive.next_read()?;
        Ok(next.map(|next| (next.from.addr - FAR, next.from.len, next.is_confirm)))
    }

    #[test]
    fn rndv_reads_cover_the_ranges_in_order() -> Result {
        let mut bytes = KVec::from_elem(0, ALL, GFP_KERNEL)?;
        let mut receive = rndv_receive(&mut bytes)?;
        assert!(next(&mut receive, 0, false)? == Some((0, 100, false)));
        assert!(next(&mut receive, 60, false)? == Some((60, 40, false)));
        assert!(next(&mut receive, 100, true)? == Some((100, 200, false)));
        assert!(next(&mut receive, ALL, false)?.is_none());
        assert!(next(&mut receive, usize::MAX, true)?.is_none());
        Ok(())
    }

    #[test]
    fn last_byte_is_read_again_to_confirm() -> Result {
        let mut bytes = KVec::from_elem(0, ALL, GFP_KERNEL)?;
        let mut receive = rndv_receive(&mut bytes)?;
        assert!(next(&mut receive, ALL, true)? == Some((ALL as u64 - 1, 1, true)));
        let into = receive.next_read()?.map(|next| next.into.addr());
        assert!(into == Some(bytes.as_ptr() as usize + ALL - 1));
        // Bytes that do not fit are not confirmed.
        let mut few = KVec::from_elem(0, 150, GFP_KERNEL)?;
        let mut receive = rndv_receive(&mut few)?;
        assert!(next(&mut receive, 100, true)? == Some((100, 50, false)));
        assert!(next(&mut receive, 150, true)? == Some((149, 1, true)));
        assert!(next(&mut receive, 150, false)?.is_none());
        Ok(())
    }
}
