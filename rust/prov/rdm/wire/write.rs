// SPDX-License-Identifier: GPL-2.0

//! From packets to bytes.

use super::{
    fields::Fields,
    layout::{
        at,
        kind,
        op,
        CTRL_VERSION,
        OP_VERSION,
        OUTCOME,
        RANGE,
        RANGES,
        TARGETS, //
    },
    Call,
    Farewell,
    Form,
    Head,
    Message,
    Place,
    Ranges,
    Segment,
    HEADER,
    MOST, //
};
use crate::abi::flags::FI_REMOTE_CQ_DATA;

impl Message {
    #[inline(always)]
    fn put(&self, header: &mut Fields<HEADER>) {
        header.set_u8::<{ at::OP }>(if self.tag.is_some() {
            op::TAGGED
        } else {
            op::MSG
        });
        header.set_u8::<{ at::CONTEXT }>(self.context);
        header.set_u64::<{ at::LEN }>(self.len);
        header.set_u64::<{ at::TAG }>(self.tag.unwrap_or(0));
        if let Some(data) = self.data {
            header.set_u32::<{ at::FLAGS }>(FI_REMOTE_CQ_DATA as u32);
            header.set_u64::<{ at::DATA }>(data);
        }
    }
}

impl Call {
    #[inline(always)]
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
    fn to_extra(self) -> u64 {
        match self {
            Self::First => 1,
            Self::Middle => 2,
            Self::Last => 3,
        }
    }
}

impl Farewell {
    fn to_extra(self) -> u64 {
        match self {
            Self::Ask => 1,
            Self::Agree => 2,
            Self::Stay => 3,
        }
    }
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

/// Says whom a packet is for that has been written: what they call the connection.
#[inline(always)]
pub(in super::super) fn address(to: u64, packet: &mut [u8]) {
    let field = packet.get_mut(at::TO..).and_then(<[u8]>::first_chunk_mut);
    if let Some(field) = field {
        *field = to.to_ne_bytes();
    }
}

impl Head {
    /// Writes all but the payload, of which there are `payload` bytes, to the beginning of `packet`, and
    /// says where it begins; none if there is not enough room for both.
    #[inline(always)]
    pub(in super::super) fn write(
        &self,
        to: u64,
        payload: usize,
        packet: &mut [u8],
    ) -> Option<usize> {
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

    #[inline(always)]
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
            Self::Farewell(word) => {
                header.set_u64::<{ at::EXTRA }>(word.to_extra());
                kind::FAREWELL
            }
        };
        header.set_u8::<{ at::KIND }>(kind);
        header
    }
}
