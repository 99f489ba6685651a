// SPDX-License-Identifier: GPL-2.0

//! Parser: from bytes to packets.

use super::{
    layout::{
        at,
        kind,
        op,
        Fields,
        ATOMIC_RANGES,
        ATOMIC_RESP_HDR,
        CTRL_VERSION,
        RANGE,
        RANGES, //
    },
    AckSlot,
    AtomicCall,
    Form,
    Message,
    PeerFormat,
    PktHdr,
    ProtoError,
    Range,
    Ranges,
    RxPkt,
    SegPos,
    Segment,
    ShutdownMsg,
    EAGER,
    HEADER,
    MAX_RANGES, //
};
use crate::{
    abi::flags::{
        FI_DELIVERY_COMPLETE,
        FI_REMOTE_CQ_DATA, //
    },
    fi::provider::Rma, //
};

impl Message {
    /// Parses the message of a header.
    ///
    /// # Errors
    ///
    /// The header has no message, or names a context or an acknowledgement slot that does not exist.
    #[inline(always)]
    fn of(header: &Fields<HEADER>, format: PeerFormat) -> Result<Self, ProtoError> {
        let context = match format.contexts {
            None => 0,
            Some(contexts) => {
                let context = header.u8::<{ at::RX_INDEX }>();
                if usize::from(context) >= contexts {
                    return Err(ProtoError(
                        "message to a receive context that does not exist",
                    ));
                }
                context
            }
        };
        let tag = match header.u8::<{ at::OP }>() {
            op::MSG => None,
            op::TAGGED => Some(header.u64::<{ at::TAG }>()),
            _ => return Err(ProtoError("message with an unknown opcode")),
        };
        let flags = u64::from(header.u32::<{ at::FLAGS }>());
        let has_data = flags & FI_REMOTE_CQ_DATA != 0;
        let ack = match format.has_acks && flags & FI_DELIVERY_COMPLETE != 0 {
            false => None,
            true => {
                let slot = AckSlot::new(header.u8::<{ at::OP_DATA }>());
                Some(slot.ok_or(ProtoError(
                    "message with an acknowledgement slot that does not exist",
                ))?)
            }
        };
        Ok(Self {
            context,
            ack,
            tag,
            len: header.u64::<{ at::LEN }>(),
            data: has_data.then(|| header.u64::<{ at::DATA }>()),
        })
    }
}

impl AtomicCall {
    fn of(header: &Fields<HEADER>) -> Result<Self, ProtoError> {
        let form = match header.u8::<{ at::OP }>() {
            op::ATOMIC => Form::Base,
            op::FETCH => Form::Fetch,
            op::COMPARE => Form::Compare,
            _ => return Err(ProtoError("atomic packet with an unknown opcode")),
        };
        Ok(Self {
            form,
            op: header.u8::<{ at::ATOMIC_OP }>(),
            datatype: header.u8::<{ at::DATATYPE }>(),
        })
    }
}

impl SegPos {
    fn from_ctrl_data(ctrl_data: u64) -> Option<Self> {
        // The other bits are not initialised by libfabric.
        match ctrl_data & 3 {
            1 => Some(Self::First),
            2 => Some(Self::Middle),
            3 => Some(Self::Last),
            _ => None,
        }
    }
}

impl ShutdownMsg {
    fn from_ctrl_data(ctrl_data: u64) -> Result<Self, ProtoError> {
        match ctrl_data {
            1 => Ok(Self::Ask),
            2 => Ok(Self::Agree),
            3 => Ok(Self::Stay),
            _ => Err(ProtoError("shutdown packet of an unknown type")),
        }
    }
}

/// Parses the first `count` ranges of `bytes`.
fn ranges(bytes: &[u8], count: u8) -> Result<Ranges, ProtoError> {
    let mut ranges = [Range::default(); MAX_RANGES];
    let used = ranges
        .get_mut(..usize::from(count))
        .filter(|used| !used.is_empty())
        .ok_or(ProtoError("no memory ranges, or too many"))?;
    let mut rest = bytes;
    for range in used {
        let fields =
            Fields::<RANGE>::first_of(rest).ok_or(ProtoError("truncated list of memory ranges"))?;
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

/// Parses the ranges of a rendezvous packet.
fn rndv_ranges(body: &[u8]) -> Result<Ranges, ProtoError> {
    let fields =
        Fields::<RANGES>::first_of(body).ok_or(ProtoError("truncated list of memory ranges"))?;
    ranges(body, fields.u8::<ATOMIC_RANGES>())
}

impl<'a> RxPkt<'a> {
    /// Parses a packet of a peer that uses `format`.
    ///
    /// # Errors
    ///
    /// The reason why the packet is invalid.
    #[inline(always)]
    pub(in super::super) fn parse(bytes: &'a [u8], format: PeerFormat) -> Result<Self, ProtoError> {
        let header = Fields::<HEADER>::first_of(bytes)
            .ok_or(ProtoError("packet that is shorter than a header"))?;
        if header.u8::<{ at::CTRL_VERSION }>() != CTRL_VERSION {
            return Err(ProtoError("packet of another protocol version"));
        }
        if header.u8::<{ at::KIND }>() != kind::EAGER {
            return Self::parse_uncommon(bytes, format);
        }
        let message = Message::of(&header, format)?;
        let payload = bytes.get(HEADER..).unwrap_or(&[]);
        if message.len != payload.len() as u64 || payload.len() > EAGER {
            return Err(ProtoError("message whose length differs from its header"));
        }
        Ok(Self {
            conn_id: header.u64::<{ at::CONN_ID }>(),
            hdr: PktHdr::Eager(message),
            payload,
        })
    }

    /// Parses a packet that is not eager.
    #[inline(never)]
    fn parse_uncommon(bytes: &'a [u8], format: PeerFormat) -> Result<Self, ProtoError> {
        let header = Fields::<HEADER>::first_of(bytes)
            .ok_or(ProtoError("packet that is shorter than a header"))?;
        let body = bytes.get(HEADER..).unwrap_or(&[]);
        let id = header.u64::<{ at::ID }>();
        let (hdr, payload) = match header.u8::<{ at::KIND }>() {
            kind::SEGMENT => {
                let message = Message::of(&header, format)?;
                (Self::segment(&header, id, message, body)?, body)
            }
            kind::RNDV_REQ => {
                let message = Message {
                    // The notification that the message has been read acknowledges it.
                    ack: None,
                    ..Message::of(&header, format)?
                };
                let ranges = rndv_ranges(body)?;
                let hdr = PktHdr::RndvReq {
                    id,
                    message,
                    ranges,
                };
                (hdr, &[][..])
            }
            kind::RNDV_RD_DONE => (PktHdr::RndvRdDone { id }, &[][..]),
            kind::RNDV_WR_DATA => {
                let ranges = rndv_ranges(body)?;
                (PktHdr::RndvWrData { id, ranges }, &[][..])
            }
            kind::RNDV_WR_DONE => (PktHdr::RndvWrDone { id }, &[][..]),
            kind::ATOMIC => Self::atomic(&header, id, body)?,
            kind::ATOMIC_RESP => Self::answer(&header, id, body)?,
            kind::CREDIT => (PktHdr::Credit(header.u64::<{ at::CTRL_DATA }>()), &[][..]),
            kind::SHUTDOWN => {
                let msg = ShutdownMsg::from_ctrl_data(header.u64::<{ at::CTRL_DATA }>())?;
                (PktHdr::Shutdown(msg), &[][..])
            }
            kind::ACK => (PktHdr::Ack(header.u64::<{ at::CTRL_DATA }>()), &[][..]),
            kind::TAGGED_ACCESS => (Self::tagged_access(&header, id, format, body)?, &[][..]),
            kind::ACCESS_REFUSED => {
                let status = header.u64::<{ at::CTRL_DATA }>() as i64;
                let status = i32::try_from(status).ok().filter(|status| *status < 0);
                let status = status.ok_or(ProtoError("refusal without an error"))?;
                (PktHdr::AccessRefused { id, status }, &[][..])
            }
            _ => return Err(ProtoError("packet of an unknown type")),
        };
        Ok(Self {
            conn_id: header.u64::<{ at::CONN_ID }>(),
            hdr,
            payload,
        })
    }

    /// Returns the receive context that a packet names. The byte has no meaning if the peer does not support
    /// contexts.
    #[inline(always)]
    pub(in super::super) fn rx_index(bytes: &[u8]) -> u8 {
        bytes.get(at::RX_INDEX).copied().unwrap_or(0)
    }

    /// Returns whether a packet asks for an acknowledgement. The flag has no meaning if the peer does not support them.
    #[inline(always)]
    pub(in super::super) fn asks_for_ack(bytes: &[u8]) -> bool {
        let header = Fields::<HEADER>::first_of(bytes);
        header.is_some_and(|header| {
            u64::from(header.u32::<{ at::FLAGS }>()) & FI_DELIVERY_COMPLETE != 0
        })
    }

    fn tagged_access(
        header: &Fields<HEADER>,
        id: u64,
        format: PeerFormat,
        body: &[u8],
    ) -> Result<PktHdr, ProtoError> {
        let way = match header.u64::<{ at::CTRL_DATA }>() {
            1 => Rma::Read,
            2 => Rma::Write,
            _ => return Err(ProtoError("access of an unknown direction")),
        };
        let message = Message {
            ack: None,
            ..Message::of(header, format)?
        };
        if message.tag.is_none() {
            return Err(ProtoError("access without a tag"));
        }
        let ranges = rndv_ranges(body)?;
        if ranges.total().is_none_or(|total| total != message.len) {
            return Err(ProtoError("access whose memory differs from its length"));
        }
        Ok(PktHdr::TaggedAccess {
            id,
            way,
            message,
            ranges,
        })
    }

    fn segment(
        header: &Fields<HEADER>,
        id: u64,
        message: Message,
        body: &[u8],
    ) -> Result<PktHdr, ProtoError> {
        let number = header.u32::<{ at::SEGMENT }>();
        let pos = SegPos::from_ctrl_data(header.u64::<{ at::CTRL_DATA }>())
            .ok_or(ProtoError("segment of an unknown type"))?;
        if usize::from(header.u16::<{ at::SEGMENT_LEN }>()) != body.len() {
            return Err(ProtoError("segment whose length differs from its header"));
        }
        let segments = message.segments();
        if segments < 2 || pos != SegPos::of(number, segments) {
            return Err(ProtoError("segment whose type does not fit its number"));
        }
        if message.segment_len(number) != Some(body.len()) {
            return Err(ProtoError("segment whose length does not fit its number"));
        }
        Ok(PktHdr::Segment(Segment {
            id,
            number,
            pos,
            message,
        }))
    }

    fn atomic(
        header: &Fields<HEADER>,
        id: u64,
        body: &'a [u8],
    ) -> Result<(PktHdr, &'a [u8]), ProtoError> {
        let call = AtomicCall::of(header)?;
        if header.u64::<{ at::LEN }>() != body.len() as u64 || body.len() > EAGER {
            return Err(ProtoError(
                "atomic request whose length differs from its header",
            ));
        }
        let operands = body
            .get(ATOMIC_RANGES..)
            .ok_or(ProtoError("truncated atomic request"))?;
        let hdr = PktHdr::AtomicReq {
            id,
            call,
            targets: ranges(body, header.u8::<{ at::IOC_COUNT }>())?,
        };
        Ok((hdr, operands))
    }

    fn answer(
        header: &Fields<HEADER>,
        id: u64,
        body: &'a [u8],
    ) -> Result<(PktHdr, &'a [u8]), ProtoError> {
        let call = AtomicCall::of(header)?;
        let outcome = Fields::<ATOMIC_RESP_HDR>::first_of(body)
            .ok_or(ProtoError("truncated atomic response"))?;
        let result = body.get(ATOMIC_RESP_HDR..).unwrap_or(&[]);
        // These two fields are in network byte order.
        let status = i32::from_be_bytes(outcome.bytes::<0, 4>());
        let len = u32::from_be_bytes(outcome.bytes::<4, 4>());
        if len as usize != result.len() || result.len() > EAGER {
            return Err(ProtoError(
                "atomic response whose length differs from its header",
            ));
        }
        Ok((PktHdr::AtomicResp { id, call, status }, result))
    }
}
