// SPDX-License-Identifier: GPL-2.0

//! Wire format of libfabric's `ofi_rxm`, in safe code: parser and writer. Pure: no locks, no I/O.
//!
//! A packet is one message of a connected endpoint: a header of 64 bytes, data of its type, and a payload. Peers do
//! not clear their buffers, so fields that a type does not have may hold anything, and are ignored. Everything else
//! is validated here as far as that needs no state: a [`RxPkt`] has consistent lengths and valid values.

mod cm_data;
mod layout;
mod parse;
#[cfg(CONFIG_KUNIT = "y")]
mod tests;
mod write;

use self::layout::{
    ATOMIC_RANGES,
    ATOMIC_RESP_HDR, //
};
pub(super) use self::{
    cm_data::{
        AcceptData,
        ConnId,
        ConnectData,
        Extensions,
        Flow,
        RejectReason, //
    },
    layout::RANGES,
    write::{
        set_ack_slot,
        set_conn_id, //
    },
};
use crate::fi::{
    atomic::Form,
    provider::Rma, //
};

/// Length of the header in bytes.
pub(super) const HEADER: usize = 64;

/// Longest eager message in bytes; all segments of a message but the last have this length.
pub(super) const EAGER: usize = 16384;

/// Length of the longest packet in bytes.
pub(super) const MAX_PACKET: usize = HEADER + EAGER;

/// Length of a rendezvous request with an eager message behind it in bytes.
pub(super) const TX_BUF_SIZE: usize = HEADER + RANGES + EAGER;

/// Largest length of the operands and compare values of an atomic operation in bytes.
pub(super) const ATOMIC_MAX_OPERANDS: usize = EAGER - ATOMIC_RANGES;

/// Largest length of the old values in a response in bytes.
pub(super) const ATOMIC_MAX_RESULT: usize = EAGER - ATOMIC_RESP_HDR;

/// Largest number of memory ranges in a packet.
pub(super) const MAX_RANGES: usize = 4;

/// Number of messages of a connection that can await an acknowledgement.
pub(super) const SLOTS: u8 = 64;

/// Acknowledgement slot of a message, less than [`SLOTS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AckSlot(u8);

impl AckSlot {
    /// Creates a slot; `None` for a number that is too large.
    pub(super) const fn new(number: u8) -> Option<Self> {
        match number < SLOTS {
            true => Some(Self(number)),
            false => None,
        }
    }

    /// Returns the bit of the slot in a bitmap.
    pub(super) const fn bit(self) -> u64 {
        1 << self.0
    }
}

/// Extensions that apply to the packets of a peer.
#[derive(Clone, Copy)]
pub(super) struct PeerFormat {
    /// Number of receive contexts, if messages name one.
    pub(super) contexts: Option<usize>,
    /// True if messages can ask for an acknowledgement.
    pub(super) has_acks: bool,
}

impl PeerFormat {
    /// Packets that this endpoint has written, without acknowledgement slots.
    pub(super) const OWN: Self = Self {
        contexts: Some(usize::MAX),
        has_acks: false,
    };

    /// Packets of libfabric.
    pub(super) const PLAIN: Self = Self {
        contexts: None,
        has_acks: false,
    };
}

/// A whole message, of which a packet may hold a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Message {
    /// Index of the receive context.
    pub(super) context: u8,
    /// Acknowledgement slot, if the message is acknowledged when it is in its receive. A rendezvous message has none.
    pub(super) ack: Option<AckSlot>,
    /// Tag of a tagged message.
    pub(super) tag: Option<u64>,
    /// Length in bytes.
    pub(super) len: u64,
    /// Remote CQ data.
    pub(super) data: Option<u64>,
}

/// A range of remote memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Range {
    /// Address.
    pub(super) addr: u64,
    /// Length in bytes, or in elements for an atomic operation.
    pub(super) len: u64,
    /// Memory key.
    pub(super) key: u64,
}

/// Between one and [`MAX_RANGES`] ranges of remote memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ranges {
    ranges: [Range; MAX_RANGES],
    count: usize,
}

impl Ranges {
    /// Creates ranges; `None` for no range or too many.
    pub(super) fn new(ranges: &[Range]) -> Option<Self> {
        let mut all = [Range::default(); MAX_RANGES];
        all.get_mut(..ranges.len())?.copy_from_slice(ranges);
        let count = ranges.len();
        (count > 0).then_some(Self { ranges: all, count })
    }

    /// Returns the ranges as a slice.
    pub(super) fn as_slice(&self) -> &[Range] {
        self.ranges.get(..self.count).unwrap_or(&self.ranges)
    }

    /// Returns the total length in bytes; `None` if it or the end of a range overflows.
    pub(super) fn total(&self) -> Option<u64> {
        self.as_slice().iter().try_fold(0u64, |total, range| {
            range.addr.checked_add(range.len)?;
            total.checked_add(range.len)
        })
    }

    /// Returns the total number of elements of an atomic operation; `None` if it overflows.
    pub(super) fn elements(&self) -> Option<u64> {
        let mut lens = self.as_slice().iter().map(|range| range.len);
        lens.try_fold(0u64, u64::checked_add)
    }

    /// Returns the rest of the range that holds the byte at `at`. The ranges have a [`total`](Self::total).
    pub(super) fn range_at(&self, mut at: u64) -> Option<Range> {
        for range in self.as_slice() {
            if at < range.len {
                return Some(Range {
                    addr: range.addr.wrapping_add(at),
                    len: range.len - at,
                    key: range.key,
                });
            }
            at -= range.len;
        }
        None
    }
}

/// Position of a segment in its message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SegPos {
    /// The first segment.
    First,
    /// A segment between the first and the last.
    Middle,
    /// The last segment.
    Last,
}

/// A segment of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Segment {
    /// Message id of the sender.
    pub(super) id: u64,
    /// Number of the segment.
    pub(super) number: u32,
    /// Position of the segment.
    pub(super) pos: SegPos,
    /// The whole message.
    pub(super) message: Message,
}

impl Segment {
    /// Returns the length of the segment in bytes.
    pub(super) fn len(&self) -> usize {
        self.message.segment_len(self.number).unwrap_or(0)
    }

    /// Returns the offset of the segment in the message in bytes.
    pub(super) fn offset(&self) -> u64 {
        u64::from(self.number) * EAGER as u64
    }
}

/// Operation of an atomic request, without its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AtomicCall {
    /// Base, fetch or compare.
    pub(super) form: Form,
    /// Operation, of `enum fi_op`.
    pub(super) op: u8,
    /// Datatype, of `enum fi_datatype`.
    pub(super) datatype: u8,
}

/// Packet of the shutdown handshake, for peers with [`Extensions::SHUTDOWN`]. See
/// [`ShutdownState`](super::cm::shutdown::ShutdownState).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ShutdownMsg {
    /// Asks whether the connection may be closed.
    Ask,
    /// Agrees: the sender sends nothing more.
    Agree,
    /// Declines: an operation is in progress.
    Stay,
}

/// Header of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PktHdr {
    /// Eager message, which is the payload.
    Eager(Message),
    /// Segment of a message, which is the payload.
    Segment(Segment),
    /// Rendezvous request (`rxm_ctrl_rndv_req`). No payload.
    RndvReq {
        /// Message id of the sender.
        id: u64,
        /// The message.
        message: Message,
        /// Memory of the message, if it can be read.
        ranges: Ranges,
    },
    /// The message of a [`RndvReq`](Self::RndvReq) has been read (`rxm_ctrl_rndv_rd_done`). No payload.
    RndvRdDone {
        /// Message id of the sender.
        id: u64,
    },
    /// The message of a [`RndvReq`](Self::RndvReq) will be written (`rxm_ctrl_rndv_wr_data`). No payload.
    RndvWrData {
        /// Message id of the sender.
        id: u64,
        /// Memory to write to.
        ranges: Ranges,
    },
    /// The message has been written (`rxm_ctrl_rndv_wr_done`). No payload.
    RndvWrDone {
        /// Message id of the sender.
        id: u64,
    },
    /// Atomic operation on the receiver's memory. The payload is the operands.
    AtomicReq {
        /// Message id of the sender.
        id: u64,
        /// The operation.
        call: AtomicCall,
        /// Target memory.
        targets: Ranges,
    },
    /// Response to an atomic operation. The payload is the old values.
    AtomicResp {
        /// Message id of the request.
        id: u64,
        /// The operation.
        call: AtomicCall,
        /// 0 or a negative errno, as sent by the peer.
        status: i32,
    },
    /// Grant of this number of further packets.
    Credit(u64),
    /// Shutdown handshake of the connection.
    Shutdown(ShutdownMsg),
    /// Acknowledgement of the messages in these slots, a bitmap.
    Ack(u64),
    /// Access to the memory of the receiver's tagged receive, for peers with [`Extensions::TAGGED_RMA`]. No payload.
    /// When it is done, the receiver answers with [`RndvRdDone`](Self::RndvRdDone).
    TaggedAccess {
        /// Message id of the sender.
        id: u64,
        /// Direction of the transfer.
        way: Rma,
        /// Tag and length, as of a message.
        message: Message,
        /// Memory of the sender.
        ranges: Ranges,
    },
    /// A [`TaggedAccess`](Self::TaggedAccess) is refused. No payload.
    AccessRefused {
        /// Message id of the access.
        id: u64,
        /// A negative errno.
        status: i32,
    },
}

/// A received packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RxPkt<'a> {
    /// Connection id that the receiver assigned, if the sender knows it.
    pub(super) conn_id: u64,
    /// Header.
    pub(super) hdr: PktHdr,
    /// Payload.
    pub(super) payload: &'a [u8],
}

/// Protocol violation, with its reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ProtoError(pub(super) &'static str);

impl Message {
    /// Returns the number of packets of the message: 1 if it is empty.
    pub(super) fn segments(&self) -> u64 {
        self.len.div_ceil(EAGER as u64).max(1)
    }

    /// Returns the length of a segment in bytes; `None` if the message has no such segment.
    pub(super) fn segment_len(&self, number: u32) -> Option<usize> {
        let before = u64::from(number) * EAGER as u64;
        let left = self.len.checked_sub(before)?.min(EAGER as u64);
        (left > 0).then_some(left as usize)
    }
}

impl SegPos {
    /// Returns the position of segment `number` in a message of `segments` segments.
    pub(super) fn of(number: u32, segments: u64) -> Self {
        match u64::from(number) {
            0 => Self::First,
            number if number + 1 == segments => Self::Last,
            _ => Self::Middle,
        }
    }
}

impl PktHdr {
    /// Returns the offset of the payload in bytes.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        HEADER
            + match self {
                Self::Eager(_) | Self::Segment(_) => 0,
                Self::RndvReq { .. } | Self::RndvWrData { .. } | Self::TaggedAccess { .. } => {
                    RANGES
                }
                Self::RndvRdDone { .. } | Self::RndvWrDone { .. } => 0,
                Self::Credit(_) | Self::Shutdown(_) | Self::Ack(_) => 0,
                Self::AccessRefused { .. } => 0,
                Self::AtomicReq { .. } => ATOMIC_RANGES,
                Self::AtomicResp { .. } => ATOMIC_RESP_HDR,
            }
    }
}
