// SPDX-License-Identifier: GPL-2.0

//! The packets of libfabric's `ofi_rxm`: what a peer may send, and nothing else.
//!
//! Each is one message of a connected endpoint: a header of 64 bytes, what belongs to its kind, and a
//! payload. Peers do not clear their buffers: fields that a kind does not have hold anything at all, and
//! are not looked at. What is looked at is checked here, as far as that needs no state: whoever has a
//! [`Packet`] has lengths that agree with each other and numbers that mean something.

mod fields;
mod hello;
#[cfg(CONFIG_KUNIT = "y")]
mod tests;

use crate::abi::flags::FI_REMOTE_CQ_DATA;
use fields::Fields;
pub(super) use hello::{
    Flow,
    Hello,
    Identity,
    Refusal,
    Strange,
    Welcome, //
};

/// Bytes of the header.
pub(super) const HEADER: usize = 64;

/// Most bytes of a message in one packet; of a longer one each but the last packet has as many.
pub(super) const EAGER: usize = 16384;

/// Bytes of the longest packet.
pub(super) const MOST: usize = HEADER + EAGER;

/// Most ranges of memory that a packet names.
pub(super) const MOST_RANGES: usize = 4;

/// Bytes of the description of a range.
const RANGE: usize = 24;

/// Bytes of what names ranges: of their count too.
const RANGES: usize = MOST_RANGES * RANGE + 8;

/// The same of an atomic operation, which has its count elsewhere.
const TARGETS: usize = MOST_RANGES * RANGE;

/// Bytes before the result of an atomic operation.
const OUTCOME: usize = 8;

const CTRL_VERSION: u8 = 4;
const OP_VERSION: u8 = 2;

/// The kinds of packets, at [`at::KIND`].
mod kind {
    pub(super) const EAGER: u8 = 0;
    pub(super) const SEGMENT: u8 = 1;
    pub(super) const OFFER: u8 = 2;
    pub(super) const TAKEN: u8 = 3;
    pub(super) const ATOMIC: u8 = 4;
    pub(super) const ANSWER: u8 = 5;
    pub(super) const CREDIT: u8 = 6;
    pub(super) const ROOM: u8 = 7;
    pub(super) const WRITTEN: u8 = 8;
}

/// What is asked for, at [`at::OP`].
mod op {
    pub(super) const MSG: u8 = 0;
    pub(super) const TAGGED: u8 = 1;
    pub(super) const ATOMIC: u8 = 6;
    pub(super) const FETCH: u8 = 7;
    pub(super) const COMPARE: u8 = 8;
}

/// Where the fields of the header are.
mod at {
    pub(super) const CTRL_VERSION: usize = 0;
    pub(super) const KIND: usize = 1;
    pub(super) const SEGMENT_LEN: usize = 2;
    pub(super) const SEGMENT: usize = 4;
    pub(super) const TO: usize = 8;
    pub(super) const ID: usize = 16;
    pub(super) const EXTRA: usize = 24;
    pub(super) const OP_VERSION: usize = 32;
    pub(super) const OP: usize = 34;
    pub(super) const FLAGS: usize = 36;
    pub(super) const LEN: usize = 40;
    pub(super) const DATA: usize = 48;
    pub(super) const TAG: usize = 56;
    pub(super) const DATATYPE: usize = 56;
    pub(super) const ATOMIC_OP: usize = 57;
    pub(super) const TARGETS: usize = 58;
}

/// A message, all of it: not only what one packet has of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Message {
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
    /// How many bytes of the message come before it.
    pub(super) fn offset(&self) -> u64 {
        u64::from(self.number) * EAGER as u64
    }
}

/// How an atomic operation is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// Nothing but its status comes back.
    Base,
    /// What was there comes back.
    Fetch,
    /// The same, and behind the operands stands as much to compare with.
    Compare,
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
    /// The message of a header; none of what is no message.
    fn of(header: &Fields<HEADER>) -> Result<Self, Malformed> {
        let tag = match header.u8::<{ at::OP }>() {
            op::MSG => None,
            op::TAGGED => Some(header.u64::<{ at::TAG }>()),
            _ => return Err(Malformed("neither a message nor a tagged one")),
        };
        let has_data = u64::from(header.u32::<{ at::FLAGS }>()) & FI_REMOTE_CQ_DATA != 0;
        Ok(Self {
            tag,
            len: header.u64::<{ at::LEN }>(),
            data: has_data.then(|| header.u64::<{ at::DATA }>()),
        })
    }

    fn put(&self, header: &mut Fields<HEADER>) {
        header.set_u8::<{ at::OP }>(if self.tag.is_some() {
            op::TAGGED
        } else {
            op::MSG
        });
        header.set_u64::<{ at::LEN }>(self.len);
        header.set_u64::<{ at::TAG }>(self.tag.unwrap_or(0));
        if let Some(data) = self.data {
            header.set_u32::<{ at::FLAGS }>(FI_REMOTE_CQ_DATA as u32);
            header.set_u64::<{ at::DATA }>(data);
        }
    }

    /// How many packets it takes, of which the last may be shorter; 1 of a message of no bytes.
    fn segments(&self) -> u64 {
        self.len.div_ceil(EAGER as u64).max(1)
    }

    /// How many of its bytes that one of its packets has; none if there is no such.
    fn segment_len(&self, number: u32) -> Option<usize> {
        let before = u64::from(number) * EAGER as u64;
        let left = self.len.checked_sub(before)?.min(EAGER as u64);
        (left > 0).then_some(left as usize)
    }
}

impl Call {
    fn of(header: &Fields<HEADER>) -> Result<Self, Malformed> {
        let form = match header.u8::<{ at::OP }>() {
            op::ATOMIC => Form::Base,
            op::FETCH => Form::Fetch,
            op::COMPARE => Form::Compare,
            _ => return Err(Malformed("no atomic operation")),
        };
        Ok(Self {
            form,
            op: header.u8::<{ at::ATOMIC_OP }>(),
            datatype: header.u8::<{ at::DATATYPE }>(),
        })
    }

    fn put(&self, header: &mut Fields<HEADER>) {
        header.set_u8::<{ at::OP }>(match self.form {
            Form::Base => op::ATOMIC,
            Form::Fetch => op::FETCH,
            Form::Compare => op::COMPARE,
        });
        header.set_u8::<{ at::DATATYPE }>(self.datatype);
        header.set_u8::<{ at::ATOMIC_OP }>(self.op);
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

    fn from_extra(extra: u64) -> Option<Self> {
        // Whatever else is there is what was there before.
        match extra & 3 {
            1 => Some(Self::First),
            2 => Some(Self::Middle),
            3 => Some(Self::Last),
            _ => None,
        }
    }

    fn to_extra(self) -> u64 {
        match self {
            Self::First => 1,
            Self::Middle => 2,
            Self::Last => 3,
        }
    }
}

/// The first `count` of the descriptions that begin `bytes`.
fn ranges(bytes: &[u8], count: u8) -> Result<Ranges, Malformed> {
    let mut ranges = [Range::default(); MOST_RANGES];
    let used = ranges
        .get_mut(..usize::from(count))
        .filter(|used| !used.is_empty())
        .ok_or(Malformed("no ranges, or too many"))?;
    let mut rest = bytes;
    for range in used {
        let fields = Fields::<RANGE>::first_of(rest).ok_or(Malformed("ranges cut off"))?;
        *range = Range {
            addr: fields.u64::<0>(),
            len: fields.u64::<8>(),
            key: fields.u64::<16>(),
        };
        rest = rest.get(RANGE..).unwrap_or(&[]);
    }
    Ok(Ranges {
        ranges,
        count: count.into(),
    })
}

fn put_ranges(ranges: &Ranges, to: &mut [u8]) {
    for (range, to) in ranges.as_slice().iter().zip(to.chunks_exact_mut(RANGE)) {
        let mut fields = Fields::<RANGE>::new();
        fields.set_u64::<0>(range.addr);
        fields.set_u64::<8>(range.len);
        fields.set_u64::<16>(range.key);
        to.copy_from_slice(fields.as_bytes());
    }
}

/// The ranges that are all that follows the header.
fn only_ranges(body: &[u8]) -> Result<Ranges, Malformed> {
    let fields = Fields::<RANGES>::first_of(body).ok_or(Malformed("ranges cut off"))?;
    ranges(body, fields.u8::<TARGETS>())
}

impl<'a> Packet<'a> {
    /// Reads what has arrived.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let header = Fields::<HEADER>::first_of(bytes).ok_or(Malformed("no header"))?;
        if header.u8::<{ at::CTRL_VERSION }>() != CTRL_VERSION {
            return Err(Malformed("another version"));
        }
        let body = bytes.get(HEADER..).unwrap_or(&[]);
        let id = header.u64::<{ at::ID }>();
        let (head, payload) = match header.u8::<{ at::KIND }>() {
            kind::EAGER => {
                let message = Message::of(&header)?;
                if message.len != body.len() as u64 || body.len() > EAGER {
                    return Err(Malformed("a message that is not as long as it says"));
                }
                (Head::Eager(message), body)
            }
            kind::SEGMENT => (Self::segment(&header, id, body)?, body),
            kind::OFFER => {
                let message = Message::of(&header)?;
                let ranges = only_ranges(body)?;
                let head = Head::Offer {
                    id,
                    message,
                    ranges,
                };
                (head, &[][..])
            }
            kind::TAKEN => (Head::Taken { id }, &[][..]),
            kind::ROOM => {
                let ranges = only_ranges(body)?;
                (Head::Room { id, ranges }, &[][..])
            }
            kind::WRITTEN => (Head::Written { id }, &[][..]),
            kind::ATOMIC => Self::atomic(&header, id, body)?,
            kind::ANSWER => Self::answer(&header, id, body)?,
            kind::CREDIT => (Head::Credit(header.u64::<{ at::EXTRA }>()), &[][..]),
            _ => return Err(Malformed("of no known kind")),
        };
        Ok(Self {
            to: header.u64::<{ at::TO }>(),
            head,
            payload,
        })
    }

    fn segment(header: &Fields<HEADER>, id: u64, body: &[u8]) -> Result<Head, Malformed> {
        let message = Message::of(header)?;
        let number = header.u32::<{ at::SEGMENT }>();
        let place = Place::from_extra(header.u64::<{ at::EXTRA }>())
            .ok_or(Malformed("a segment at no place"))?;
        if usize::from(header.u16::<{ at::SEGMENT_LEN }>()) != body.len() {
            return Err(Malformed("a segment that is not as long as it says"));
        }
        let segments = message.segments();
        if segments < 2 || place != Place::of(number, segments) {
            return Err(Malformed("a segment at the wrong place"));
        }
        if message.segment_len(number) != Some(body.len()) {
            return Err(Malformed("a segment of the wrong length"));
        }
        Ok(Head::Segment(Segment {
            id,
            number,
            place,
            message,
        }))
    }

    fn atomic(
        header: &Fields<HEADER>,
        id: u64,
        body: &'a [u8],
    ) -> Result<(Head, &'a [u8]), Malformed> {
        let call = Call::of(header)?;
        if header.u64::<{ at::LEN }>() != body.len() as u64 || body.len() > EAGER {
            return Err(Malformed("operands that are not as long as they say"));
        }
        let operands = body.get(TARGETS..).ok_or(Malformed("targets cut off"))?;
        let head = Head::Atomic {
            id,
            call,
            targets: ranges(body, header.u8::<{ at::TARGETS }>())?,
        };
        Ok((head, operands))
    }

    fn answer(
        header: &Fields<HEADER>,
        id: u64,
        body: &'a [u8],
    ) -> Result<(Head, &'a [u8]), Malformed> {
        let call = Call::of(header)?;
        let outcome = Fields::<OUTCOME>::first_of(body).ok_or(Malformed("an answer cut off"))?;
        let result = body.get(OUTCOME..).unwrap_or(&[]);
        // These two alone are in the network's order.
        let status = i32::from_be_bytes(outcome.bytes::<0, 4>());
        let len = u32::from_be_bytes(outcome.bytes::<4, 4>());
        if len as usize != result.len() || result.len() > EAGER {
            return Err(Malformed("an answer that is not as long as it says"));
        }
        Ok((Head::Answer { id, call, status }, result))
    }
}

impl Head {
    /// Where the payload begins.
    pub(super) fn len(&self) -> usize {
        HEADER
            + match self {
                Self::Eager(_) | Self::Segment(_) => 0,
                Self::Offer { .. } | Self::Room { .. } => RANGES,
                Self::Taken { .. } | Self::Written { .. } | Self::Credit(_) => 0,
                Self::Atomic { .. } => TARGETS,
                Self::Answer { .. } => OUTCOME,
            }
    }

    /// Writes all but the payload, of which there are `payload` bytes, to the beginning of `packet`, and
    /// says where it begins; none if there is not enough room for both.
    pub(super) fn write(&self, to: u64, payload: usize, packet: &mut [u8]) -> Option<usize> {
        let begin = self.len();
        if packet.len().min(MOST) < begin.checked_add(payload)? {
            return None;
        }
        let (header, body) = packet.split_first_chunk_mut::<HEADER>()?;
        *header = *self.header(to, payload).as_bytes();
        match self {
            Self::Offer { ranges, .. } | Self::Room { ranges, .. } => {
                let body = body.first_chunk_mut::<RANGES>()?;
                *body = [0; RANGES];
                put_ranges(ranges, body);
                body[TARGETS] = ranges.count as u8;
            }
            Self::Atomic { targets, .. } => {
                let body = body.first_chunk_mut::<TARGETS>()?;
                *body = [0; TARGETS];
                put_ranges(targets, body);
            }
            Self::Answer { status, .. } => {
                let mut outcome = Fields::<OUTCOME>::new();
                outcome.set_bytes::<0, 4>(status.to_be_bytes());
                outcome.set_bytes::<4, 4>((payload as u32).to_be_bytes());
                *body.first_chunk_mut()? = *outcome.as_bytes();
            }
            _ => {}
        }
        Some(begin)
    }

    fn header(&self, to: u64, payload: usize) -> Fields<HEADER> {
        let mut header = Fields::<HEADER>::new();
        header.set_u8::<{ at::CTRL_VERSION }>(CTRL_VERSION);
        header.set_u8::<{ at::OP_VERSION }>(OP_VERSION);
        header.set_u64::<{ at::TO }>(to);
        let kind = match *self {
            Self::Eager(message) => {
                message.put(&mut header);
                kind::EAGER
            }
            Self::Segment(Segment {
                id,
                number,
                place,
                message,
            }) => {
                message.put(&mut header);
                header.set_u64::<{ at::ID }>(id);
                header.set_u16::<{ at::SEGMENT_LEN }>(payload as u16);
                header.set_u32::<{ at::SEGMENT }>(number);
                header.set_u64::<{ at::EXTRA }>(place.to_extra());
                kind::SEGMENT
            }
            Self::Offer { id, message, .. } => {
                message.put(&mut header);
                header.set_u64::<{ at::ID }>(id);
                kind::OFFER
            }
            Self::Taken { id } => {
                header.set_u64::<{ at::ID }>(id);
                kind::TAKEN
            }
            Self::Room { id, .. } => {
                header.set_u64::<{ at::ID }>(id);
                kind::ROOM
            }
            Self::Written { id } => {
                header.set_u64::<{ at::ID }>(id);
                kind::WRITTEN
            }
            Self::Atomic { id, call, targets } => {
                call.put(&mut header);
                header.set_u64::<{ at::ID }>(id);
                header.set_u64::<{ at::LEN }>((TARGETS + payload) as u64);
                header.set_u8::<{ at::TARGETS }>(targets.count as u8);
                kind::ATOMIC
            }
            Self::Answer { id, call, .. } => {
                call.put(&mut header);
                header.set_u64::<{ at::ID }>(id);
                header.set_u64::<{ at::LEN }>((OUTCOME + payload) as u64);
                kind::ANSWER
            }
            Self::Credit(count) => {
                header.set_u64::<{ at::EXTRA }>(count);
                kind::CREDIT
            }
        };
        header.set_u8::<{ at::KIND }>(kind);
        header
    }
}
