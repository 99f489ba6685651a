// SPDX-License-Identifier: GPL-2.0

//! The packets of libfabric's `ofi_rxm`: what a peer may send, and nothing else.
//!
//! Each is one message of a connected endpoint: a header of 64 bytes, what belongs to its kind, and a
//! payload. Peers do not clear their buffers: fields that a kind does not have hold anything at all, and
//! are not looked at. What is looked at is checked here, as far as that needs no state: whoever has a
//! [`Packet`] has lengths that agree with each other and numbers that mean something.

mod fields;
mod hello;
mod layout;
mod parse;
#[cfg(CONFIG_KUNIT = "y")]
mod tests;
mod write;

use crate::fi::atomic::Form;
pub(super) use hello::{
    Extensions,
    Flow,
    Hello,
    Identity,
    Refusal,
    Welcome, //
};
use layout::{
    OUTCOME,
    RANGES,
    TARGETS, //
};
pub(super) use write::address;

/// Bytes of the header.
pub(super) const HEADER: usize = 64;

/// Most bytes of a message in one packet; of a longer one each but the last packet has as many.
pub(super) const EAGER: usize = 16384;

/// Bytes of the longest packet.
pub(super) const MOST: usize = HEADER + EAGER;

/// Most bytes of the operands of an atomic operation, and of what it compares with.
pub(super) const ATOMIC_REQUEST: usize = EAGER - TARGETS;

/// Most bytes of the old values that come back.
pub(super) const ATOMIC_ANSWER: usize = EAGER - OUTCOME;

/// Most ranges of memory that a packet names.
pub(super) const MOST_RANGES: usize = 4;

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

/// Up to [`MOST_RANGES`] of them, one at least.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ranges {
    ranges: [Range; MOST_RANGES],
    count: usize,
}

impl Ranges {
    /// These; none if there are too many, or none at all.
    pub(super) fn new(ranges: &[Range]) -> Option<Self> {
        let mut all = [Range::default(); MOST_RANGES];
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
    pub(super) fn rest(&self, mut at: u64) -> Option<Range> {
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
pub(super) enum Place {
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
    pub(super) place: Place,
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
pub(super) struct Call {
    /// How it is called.
    pub(super) form: Form,
    /// `enum fi_op`.
    pub(super) op: u8,
    /// `enum fi_datatype`.
    pub(super) datatype: u8,
}

/// What is said about the end of a connection, to those who understand it
/// ([`Extensions::FAREWELL`]); [`Parting`](super::farewell::Parting) says when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Farewell {
    /// It is not needed: whether it may end.
    Ask,
    /// It may: nothing more comes by it.
    Agree,
    /// It may not: something is under way.
    Stay,
}

/// What a packet is, but for its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Head {
    /// A message, which is the payload.
    Eager(Message),
    /// A part of a message, which is the payload.
    Segment(Segment),
    /// A message that the receiver is to fetch. No payload.
    Offer {
        /// Which message of the sender's.
        id: u64,
        /// The message.
        message: Message,
        /// Where it is, if the sender lets it be read.
        ranges: Ranges,
    },
    /// The message has been fetched. No payload.
    Taken {
        /// Which.
        id: u64,
    },
    /// The sender of an [`Offer`](Self::Offer) is to write it. No payload.
    Room {
        /// Which message.
        id: u64,
        /// Where to.
        ranges: Ranges,
    },
    /// The message has been written. No payload.
    Written {
        /// Which.
        id: u64,
    },
    /// An operation on memory of the receiver's. The payload is the operands.
    Atomic {
        /// What its sender calls it.
        id: u64,
        /// Which.
        call: Call,
        /// On what.
        targets: Ranges,
    },
    /// What came of such an operation. The payload is what was there before.
    Answer {
        /// Which of the sender's.
        id: u64,
        /// The same.
        call: Call,
        /// 0 or a negative errno, as the peer says.
        status: i32,
    },
    /// So many more packets may come.
    Credit(u64),
    /// The connection is to end, or not.
    Farewell(Farewell),
}

/// What somebody has sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Packet<'a> {
    /// What the receiver calls the connection, if the sender knows what it does.
    pub(super) to: u64,
    /// What it is.
    pub(super) head: Head,
    /// The bytes that belong to it.
    pub(super) payload: &'a [u8],
}

/// What is wrong with a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Malformed(pub(super) &'static str);

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

impl Place {
    /// That of the packet with this number of a message that takes so many.
    pub(super) fn of(number: u32, segments: u64) -> Self {
        match u64::from(number) {
            0 => Self::First,
            number if number + 1 == segments => Self::Last,
            _ => Self::Middle,
        }
    }
}

impl Head {
    /// Where the payload begins.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        HEADER
            + match self {
                Self::Eager(_) | Self::Segment(_) => 0,
                Self::Offer { .. } | Self::Room { .. } => RANGES,
                Self::Taken { .. } | Self::Written { .. } => 0,
                Self::Credit(_) | Self::Farewell(_) => 0,
                Self::Atomic { .. } => TARGETS,
                Self::Answer { .. } => OUTCOME,
            }
    }
}
