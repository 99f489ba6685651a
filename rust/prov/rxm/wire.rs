// SPDX-License-Identifier: GPL-2.0

//! The packets of libfabric's `ofi_rxm`: what a peer may send, and nothing else.
//!
//! Each is one message of a connected endpoint: a header of 64 bytes, what belongs to its kind, and a
//! payload. Peers do not clear their buffers: fields that a kind does not have hold anything at all, and
//! are not looked at. What is looked at is checked here, as far as that needs no state: whoever has a
//! [`RxPkt`] has lengths that agree with each other and numbers that mean something.

mod cm_data;
mod layout;
mod parse;
#[cfg(CONFIG_KUNIT = "y")]
mod tests;
mod write;

use self::layout::{
    ATOMIC_RANGES,
    ATOMIC_RESP_HDR,
    RANGES, //
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
    write::set_conn_id, //
};
use crate::fi::atomic::Form;

/// Bytes of the header.
pub(super) const HEADER: usize = 64;

/// Most bytes of a message in one packet; of a longer one each but the last packet has as many.
pub(super) const EAGER: usize = 16384;

/// Bytes of the longest packet.
pub(super) const MAX_PACKET: usize = HEADER + EAGER;

/// Most bytes of the operands of an atomic operation, and of what it compares with.
pub(super) const ATOMIC_MAX_OPERANDS: usize = EAGER - ATOMIC_RANGES;

/// Most bytes of the old values that come back.
pub(super) const ATOMIC_MAX_RESULT: usize = EAGER - ATOMIC_RESP_HDR;

/// Most ranges of memory that a packet names.
pub(super) const MAX_RANGES: usize = 4;

/// A message, all of it: not only what one packet has of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Message {
    /// Which receive context it is for.
    pub(super) context: u8,
    /// Its tag, if it is for a receive with one.
    pub(super) tag: Option<u64>,
    /// Its bytes.
    pub(super) len: u64,
    /// The data that its completion tells.
    pub(super) data: Option<u64>,
}

/// Memory of the peer's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Range {
    /// Where it is.
    pub(super) addr: u64,
    /// Its bytes; of an atomic operation, its elements.
    pub(super) len: u64,
    /// What opens it.
    pub(super) key: u64,
}

/// Up to [`MAX_RANGES`] of them, one at least.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ranges {
    ranges: [Range; MAX_RANGES],
    count: usize,
}

impl Ranges {
    /// These; none if there are too many, or none at all.
    pub(super) fn new(ranges: &[Range]) -> Option<Self> {
        let mut all = [Range::default(); MAX_RANGES];
        all.get_mut(..ranges.len())?.copy_from_slice(ranges);
        let count = ranges.len();
        (count > 0).then_some(Self { ranges: all, count })
    }

    /// They.
    pub(super) fn as_slice(&self) -> &[Range] {
        self.ranges.get(..self.count).unwrap_or(&self.ranges)
    }

    /// How many bytes they have together; none if nothing can be as long, or none of them where it says.
    pub(super) fn total(&self) -> Option<u64> {
        self.as_slice().iter().try_fold(0u64, |total, range| {
            range.addr.checked_add(range.len)?;
            total.checked_add(range.len)
        })
    }

    /// How many elements they have together, of an atomic operation; none if nobody can count them.
    pub(super) fn elements(&self) -> Option<u64> {
        let mut lens = self.as_slice().iter().map(|range| range.len);
        lens.try_fold(0u64, u64::checked_add)
    }

    /// What is left of the range that the byte at `at` is in; of ranges that have a [`total`](Self::total).
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

/// Which part of a message it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SegPos {
    /// The first.
    First,
    /// Neither the first nor the last.
    Middle,
    /// The last.
    Last,
}

/// A part of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Segment {
    /// Which message of the sender's.
    pub(super) id: u64,
    /// How many parts came before.
    pub(super) number: u32,
    /// Whether more come.
    pub(super) pos: SegPos,
    /// All of the message.
    pub(super) message: Message,
}

impl Segment {
    /// How many bytes it has.
    pub(super) fn len(&self) -> usize {
        self.message.segment_len(self.number).unwrap_or(0)
    }

    /// How many bytes of the message come before it.
    pub(super) fn offset(&self) -> u64 {
        u64::from(self.number) * EAGER as u64
    }
}

/// An atomic operation, but for what it is done to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AtomicCall {
    /// How it is called.
    pub(super) form: Form,
    /// `enum fi_op`.
    pub(super) op: u8,
    /// `enum fi_datatype`.
    pub(super) datatype: u8,
}

/// What is said about the end of a connection, to those who understand it
/// ([`Extensions::SHUTDOWN`]); [`ShutdownState`](super::farewell::Parting) says when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ShutdownMsg {
    /// It is not needed: whether it may end.
    Ask,
    /// It may: nothing more comes by it.
    Agree,
    /// It may not: something is under way.
    Stay,
}

/// What a packet is, but for its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PktHdr {
    /// A message, which is the payload.
    Eager(Message),
    /// A part of a message, which is the payload.
    Segment(Segment),
    /// A message that the receiver is to fetch. No payload.
    RndvReq {
        /// Which message of the sender's.
        id: u64,
        /// The message.
        message: Message,
        /// Where it is, if the sender lets it be read.
        ranges: Ranges,
    },
    /// The message has been fetched. No payload.
    RndvRdDone {
        /// Which.
        id: u64,
    },
    /// The sender of an [`Offer`](Self::Offer) is to write it. No payload.
    RndvWrData {
        /// Which message.
        id: u64,
        /// Where to.
        ranges: Ranges,
    },
    /// The message has been written. No payload.
    RndvWrDone {
        /// Which.
        id: u64,
    },
    /// An operation on memory of the receiver's. The payload is the operands.
    AtomicReq {
        /// What its sender calls it.
        id: u64,
        /// Which.
        call: AtomicCall,
        /// On what.
        targets: Ranges,
    },
    /// What came of such an operation. The payload is what was there before.
    AtomicResp {
        /// Which of the sender's.
        id: u64,
        /// The same.
        call: AtomicCall,
        /// 0 or a negative errno, as the peer says.
        status: i32,
    },
    /// So many more packets may come.
    Credit(u64),
    /// The connection is to end, or not.
    Shutdown(ShutdownMsg),
}

/// What somebody has sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RxPkt<'a> {
    /// What the receiver calls the connection, if the sender knows what it does.
    pub(super) conn_id: u64,
    /// What it is.
    pub(super) hdr: PktHdr,
    /// The bytes that belong to it.
    pub(super) payload: &'a [u8],
}

/// What is wrong with a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ProtoError(pub(super) &'static str);

impl Message {
    /// How many packets it takes, of which the last may be shorter; 1 of a message of no bytes.
    pub(super) fn segments(&self) -> u64 {
        self.len.div_ceil(EAGER as u64).max(1)
    }

    /// How many of its bytes that one of its packets has; none if there is no such.
    pub(super) fn segment_len(&self, number: u32) -> Option<usize> {
        let before = u64::from(number) * EAGER as u64;
        let left = self.len.checked_sub(before)?.min(EAGER as u64);
        (left > 0).then_some(left as usize)
    }
}

impl SegPos {
    /// That of the packet with this number of a message that takes so many.
    pub(super) fn of(number: u32, segments: u64) -> Self {
        match u64::from(number) {
            0 => Self::First,
            number if number + 1 == segments => Self::Last,
            _ => Self::Middle,
        }
    }
}

impl PktHdr {
    /// Where the payload begins.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        HEADER
            + match self {
                Self::Eager(_) | Self::Segment(_) => 0,
                Self::RndvReq { .. } | Self::RndvWrData { .. } => RANGES,
                Self::RndvRdDone { .. } | Self::RndvWrDone { .. } => 0,
                Self::Credit(_) | Self::Shutdown(_) => 0,
                Self::AtomicReq { .. } => ATOMIC_RANGES,
                Self::AtomicResp { .. } => ATOMIC_RESP_HDR,
            }
    }
}
