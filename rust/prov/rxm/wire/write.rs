// SPDX-License-Identifier: GPL-2.0

//! Writer: from packets to bytes.

use super::{
    layout::{
        at,
        kind,
        op,
        Fields,
        ATOMIC_RANGES,
        ATOMIC_RESP_HDR,
        CTRL_VERSION,
        OP_VERSION,
        RANGE,
        RANGES, //
    },
    AckSlot,
    AtomicCall,
    Form,
    Message,
    PktHdr,
    Ranges,
    SegPos,
    Segment,
    ShutdownMsg,
    HEADER,
    MAX_PACKET, //
};
use crate::{
    abi::flags::{
        FI_DELIVERY_COMPLETE,
        FI_REMOTE_CQ_DATA, //
    },
    fi::provider::Rma, //
};

impl Message {
    #[inline(always)]
    fn put(&self, header: &mut Fields<HEADER>) {
        header.set_u8::<{ at::OP }>(if self.tag.is_some() {
            op::TAGGED
        } else {
            op::MSG
        });
        header.set_u8::<{ at::RX_INDEX }>(self.context);
        header.set_u64::<{ at::LEN }>(self.len);
        header.set_u64::<{ at::TAG }>(self.tag.unwrap_or(0));
        let mut flags = 0;
        if let Some(data) = self.data {
            flags |= FI_REMOTE_CQ_DATA as u32;
            header.set_u64::<{ at::DATA }>(data);
        }
        if let Some(AckSlot(slot)) = self.ack {
            flags |= FI_DELIVERY_COMPLETE as u32;
            header.set_u8::<{ at::OP_DATA }>(slot);
        }
        header.set_u32::<{ at::FLAGS }>(flags);
    }
}

impl AtomicCall {
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

impl SegPos {
    fn to_ctrl_data(self) -> u64 {
        match self {
            Self::First => 1,
            Self::Middle => 2,
            Self::Last => 3,
        }
    }
}

impl ShutdownMsg {
    fn to_ctrl_data(self) -> u64 {
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

/// Sets or removes the acknowledgement slot of an eager message that has been written.
pub(in super::super) fn set_ack_slot(ack: Option<AckSlot>, packet: &mut [u8]) {
    let Some(header) = packet.first_chunk_mut::<HEADER>() else {
        return;
    };
    let Some(mut fields) = Fields::<HEADER>::first_of(header) else {
        return;
    };
    let flags = fields.u32::<{ at::FLAGS }>() & !(FI_DELIVERY_COMPLETE as u32);
    let (flags, slot) = match ack {
        None => (flags, 0),
        Some(AckSlot(slot)) => (flags | FI_DELIVERY_COMPLETE as u32, slot),
    };
    fields.set_u32::<{ at::FLAGS }>(flags);
    fields.set_u8::<{ at::OP_DATA }>(slot);
    *header = *fields.as_bytes();
}

/// Sets the connection id of a packet that has been written.
#[inline(always)]
pub(in super::super) fn set_conn_id(conn_id: u64, packet: &mut [u8]) {
    let field = packet
        .get_mut(at::CONN_ID..)
        .and_then(<[u8]>::first_chunk_mut);
    if let Some(field) = field {
        *field = conn_id.to_ne_bytes();
    }
}

impl PktHdr {
    /// Writes the header for a payload of `payload` bytes to the beginning of `packet`. Returns the offset of the
    /// payload; `None` if `packet` is too short.
    #[inline(always)]
    pub(in super::super) fn write(
        &self,
        conn_id: u64,
        payload: usize,
        packet: &mut [u8],
    ) -> Option<usize> {
        let begin = self.len();
        if packet.len().min(MAX_PACKET) < begin.checked_add(payload)? {
            return None;
        }
        let (header, body) = packet.split_first_chunk_mut::<HEADER>()?;
        *header = *self.header(conn_id, payload).as_bytes();
        match self {
            Self::RndvReq { ranges, .. }
            | Self::RndvWrData { ranges, .. }
            | Self::TaggedAccess { ranges, .. } => {
                let body = body.first_chunk_mut::<RANGES>()?;
                *body = [0; RANGES];
                put_ranges(ranges, body);
                body[ATOMIC_RANGES] = ranges.count as u8;
            }
            Self::AtomicReq { targets, .. } => {
                let body = body.first_chunk_mut::<ATOMIC_RANGES>()?;
                *body = [0; ATOMIC_RANGES];
                put_ranges(targets, body);
            }
            Self::AtomicResp { status, .. } => {
                let mut outcome = Fields::<ATOMIC_RESP_HDR>::new();
                outcome.set_bytes::<0, 4>(status.to_be_bytes());
                outcome.set_bytes::<4, 4>((payload as u32).to_be_bytes());
                *body.first_chunk_mut()? = *outcome.as_bytes();
            }
            _ => {}
        }
        Some(begin)
    }

    #[inline(always)]
    fn header(&self, conn_id: u64, payload: usize) -> Fields<HEADER> {
        let mut header = Fields::<HEADER>::new();
        header.set_u8::<{ at::CTRL_VERSION }>(CTRL_VERSION);
        header.set_u8::<{ at::OP_VERSION }>(OP_VERSION);
        header.set_u64::<{ at::CONN_ID }>(conn_id);
        let kind = match *self {
            Self::Eager(message) => {
                message.put(&mut header);
                kind::EAGER
            }
            Self::Segment(Segment {
                id,
                number,
                pos,
                message,
            }) => {
                message.put(&mut header);
                header.set_u64::<{ at::ID }>(id);
                header.set_u16::<{ at::SEGMENT_LEN }>(payload as u16);
                header.set_u32::<{ at::SEGMENT }>(number);
                header.set_u64::<{ at::CTRL_DATA }>(pos.to_ctrl_data());
                kind::SEGMENT
            }
            Self::RndvReq { id, message, .. } => {
                message.put(&mut header);
                header.set_u64::<{ at::ID }>(id);
                kind::RNDV_REQ
            }
            Self::RndvRdDone { id } => {
                header.set_u64::<{ at::ID }>(id);
                kind::RNDV_RD_DONE
            }
            Self::RndvWrData { id, .. } => {
                header.set_u64::<{ at::ID }>(id);
                kind::RNDV_WR_DATA
            }
            Self::RndvWrDone { id } => {
                header.set_u64::<{ at::ID }>(id);
                kind::RNDV_WR_DONE
            }
            Self::AtomicReq { id, call, targets } => {
                call.put(&mut header);
                header.set_u64::<{ at::ID }>(id);
                header.set_u64::<{ at::LEN }>((ATOMIC_RANGES + payload) as u64);
                header.set_u8::<{ at::IOC_COUNT }>(targets.count as u8);
                kind::ATOMIC
            }
            Self::AtomicResp { id, call, .. } => {
                call.put(&mut header);
                header.set_u64::<{ at::ID }>(id);
                header.set_u64::<{ at::LEN }>((ATOMIC_RESP_HDR + payload) as u64);
                kind::ATOMIC_RESP
            }
            Self::Credit(count) => {
                header.set_u64::<{ at::CTRL_DATA }>(count);
                kind::CREDIT
            }
            Self::Shutdown(msg) => {
                header.set_u64::<{ at::CTRL_DATA }>(msg.to_ctrl_data());
                kind::SHUTDOWN
            }
            Self::Ack(slots) => {
                header.set_u64::<{ at::CTRL_DATA }>(slots);
                kind::ACK
            }
            Self::TaggedAccess {
                id, way, message, ..
            } => {
                message.put(&mut header);
                header.set_u64::<{ at::ID }>(id);
                header.set_u64::<{ at::CTRL_DATA }>(match way {
                    Rma::Read => 1,
                    Rma::Write => 2,
                });
                kind::TAGGED_ACCESS
            }
            Self::AccessRefused { id, status } => {
                header.set_u64::<{ at::ID }>(id);
                header.set_u64::<{ at::CTRL_DATA }>(i64::from(status) as u64);
                kind::ACCESS_REFUSED
            }
        };
        header.set_u8::<{ at::KIND }>(kind);
        header
    }
}
