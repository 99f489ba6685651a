// SPDX-License-Identifier: GPL-2.0

//! From bytes to packets.

use super::{
    fields::Fields,
    layout::{
        at,
        kind,
        op,
        CTRL_VERSION,
        OUTCOME,
        RANGE,
        RANGES,
        TARGETS, //
    },
    Call,
    Farewell,
    Form,
    Head,
    Malformed,
    Message,
    Packet,
    Place,
    Range,
    Ranges,
    Segment,
    EAGER,
    HEADER,
    MOST_RANGES, //
};
use crate::abi::flags::FI_REMOTE_CQ_DATA;

impl Message {
    /// The message of a header, to an endpoint with so many receive contexts, if that matters.
    ///
    /// # Errors
    ///
    /// It is no message, or to a context that there is not.
    #[inline(always)]
    fn of(header: &Fields<HEADER>, contexts: Option<usize>) -> Result<Self, Malformed> {
        let context = match contexts {
            None => 0,
            Some(contexts) => {
                let context = header.u8::<{ at::CONTEXT }>();
                if usize::from(context) >= contexts {
                    return Err(Malformed("a message to a context that there is not"));
                }
                context
            }
        };
        let tag = match header.u8::<{ at::OP }>() {
            op::MSG => None,
            op::TAGGED => Some(header.u64::<{ at::TAG }>()),
            _ => return Err(Malformed("neither a message nor a tagged one")),
        };
        let has_data = u64::from(header.u32::<{ at::FLAGS }>()) & FI_REMOTE_CQ_DATA != 0;
        Ok(Self {
            context,
            tag,
            len: header.u64::<{ at::LEN }>(),
            data: has_data.then(|| header.u64::<{ at::DATA }>()),
        })
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
}

impl Place {
    fn from_extra(extra: u64) -> Option<Self> {
        // Whatever else is there is what was there before.
        match extra & 3 {
            1 => Some(Self::First),
            2 => Some(Self::Middle),
            3 => Some(Self::Last),
            _ => None,
        }
    }
}

impl Farewell {
    fn from_extra(extra: u64) -> Result<Self, Malformed> {
        match extra {
            1 => Ok(Self::Ask),
            2 => Ok(Self::Agree),
            3 => Ok(Self::Stay),
            _ => Err(Malformed("strange words of farewell")),
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

/// The ranges that are all that follows the header.
fn only_ranges(body: &[u8]) -> Result<Ranges, Malformed> {
    let fields = Fields::<RANGES>::first_of(body).ok_or(Malformed("ranges cut off"))?;
    ranges(body, fields.u8::<TARGETS>())
}

impl<'a> Packet<'a> {
    /// Reads what has arrived at an endpoint with so many receive contexts: none from a peer who does not
    /// know of them, and names none.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    #[inline(always)]
    pub(in super::super) fn parse(
        bytes: &'a [u8],
        contexts: Option<usize>,
    ) -> Result<Self, Malformed> {
        let header = Fields::<HEADER>::first_of(bytes).ok_or(Malformed("no header"))?;
        if header.u8::<{ at::CTRL_VERSION }>() != CTRL_VERSION {
            return Err(Malformed("another version"));
        }
        if header.u8::<{ at::KIND }>() != kind::EAGER {
            return Self::parse_other(bytes, contexts);
        }
        let message = Message::of(&header, contexts)?;
        let payload = bytes.get(HEADER..).unwrap_or(&[]);
        if message.len != payload.len() as u64 || payload.len() > EAGER {
            return Err(Malformed("a message that is not as long as it says"));
        }
        Ok(Self {
            to: header.u64::<{ at::TO }>(),
            head: Head::Eager(message),
            payload,
        })
    }

    /// The same of all but the usual kind.
    #[inline(never)]
    fn parse_other(bytes: &'a [u8], contexts: Option<usize>) -> Result<Self, Malformed> {
        let header = Fields::<HEADER>::first_of(bytes).ok_or(Malformed("no header"))?;
        let body = bytes.get(HEADER..).unwrap_or(&[]);
        let id = header.u64::<{ at::ID }>();
        let (head, payload) = match header.u8::<{ at::KIND }>() {
            kind::SEGMENT => {
                let message = Message::of(&header, contexts)?;
                (Self::segment(&header, id, message, body)?, body)
            }
            kind::OFFER => {
                let message = Message::of(&header, contexts)?;
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
            kind::FAREWELL => {
                let word = Farewell::from_extra(header.u64::<{ at::EXTRA }>())?;
                (Head::Farewell(word), &[][..])
            }
            _ => return Err(Malformed("of no known kind")),
        };
        Ok(Self {
            to: header.u64::<{ at::TO }>(),
            head,
            payload,
        })
    }

    /// The receive context that a packet names, if that means something: a peer who knows of none leaves there
    /// what was there before.
    #[inline(always)]
    pub(in super::super) fn named_context(bytes: &[u8]) -> u8 {
        bytes.get(at::CONTEXT).copied().unwrap_or(0)
    }

    fn segment(
        header: &Fields<HEADER>,
        id: u64,
        message: Message,
        body: &[u8],
    ) -> Result<Head, Malformed> {
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
