// SPDX-License-Identifier: GPL-2.0

use super::super::*;
use crate::fi::provider::Rma;
use kernel::{
    alloc::KVec,
    prelude::*, //
};

/// A message with a tag, remote CQ data and an acknowledgement slot.
pub(in super::super::super) const MESSAGE: Message = Message {
    context: 3,
    ack: AckSlot::new(SLOTS - 1),
    tag: Some(0x0123_4567_89ab_cdef),
    len: 100,
    data: Some(u64::MAX - 1),
};

pub(in super::super::super) const ATOMIC_CALL: AtomicCall = AtomicCall {
    form: Form::Compare,
    op: 12,
    datatype: 7,
};

pub(in super::super::super) const TARGET_RANGE: Range = Range {
    addr: 0xffff_8880_1234_5000,
    len: 1 << 20,
    key: 0x4711,
};

/// Returns `count` ranges; `None` if there are too many.
pub(in super::super::super) fn ranges(count: usize) -> Option<Ranges> {
    let all = core::array::from_fn::<_, MAX_RANGES, _>(|at| Range {
        addr: TARGET_RANGE.addr + at as u64,
        ..TARGET_RANGE
    });
    Ranges::new(all.get(..count)?)
}

/// Calls `f` with the header of a packet of each type and variant, and the length of its payload.
pub(in super::super::super) fn for_each_packet(mut f: impl FnMut(PktHdr, usize)) {
    let plain = Message {
        context: 0,
        ack: None,
        tag: None,
        data: None,
        ..MESSAGE
    };
    for len in [0, 1, 100, EAGER] {
        for message in [MESSAGE, plain] {
            let len = len as u64;
            f(PktHdr::Eager(Message { len, ..message }), len as usize);
        }
    }
    for len in [EAGER + 1, 3 * EAGER, 5 * EAGER - 1] {
        let message = Message {
            len: len as u64,
            ..MESSAGE
        };
        for number in 0..message.segments() as u32 {
            let hdr = PktHdr::Segment(Segment {
                id: 7,
                number,
                pos: SegPos::of(number, message.segments()),
                message,
            });
            f(hdr, message.segment_len(number).unwrap_or(0));
        }
    }
    for ranges in (1..=MAX_RANGES).filter_map(ranges) {
        let id = u64::MAX;
        let message = Message {
            ack: None,
            ..MESSAGE
        };
        f(
            PktHdr::RndvReq {
                id,
                message,
                ranges,
            },
            0,
        );
        f(PktHdr::RndvWrData { id, ranges }, 0);
        for way in [Rma::Read, Rma::Write] {
            let message = Message {
                len: ranges.total().unwrap_or(0),
                ..message
            };
            f(
                PktHdr::TaggedAccess {
                    id,
                    way,
                    message,
                    ranges,
                },
                0,
            );
        }
        for form in [Form::Base, Form::Fetch, Form::Compare] {
            let call = AtomicCall {
                form,
                ..ATOMIC_CALL
            };
            f(
                PktHdr::AtomicReq {
                    id,
                    call,
                    targets: ranges,
                },
                16,
            );
        }
    }
    f(PktHdr::RndvRdDone { id: 1 }, 0);
    f(PktHdr::RndvWrDone { id: 2 }, 0);
    f(PktHdr::Credit(127), 0);
    f(PktHdr::Ack(1 << 63 | 1), 0);
    for msg in [ShutdownMsg::Ask, ShutdownMsg::Agree, ShutdownMsg::Stay] {
        f(PktHdr::Shutdown(msg), 0);
    }
    for status in [-1, -42, i32::MIN] {
        f(PktHdr::AccessRefused { id: 4, status }, 0);
    }
    for status in [0, -13, i32::MIN] {
        for payload in [0, 8, EAGER - ATOMIC_RESP_HDR] {
            let hdr = PktHdr::AtomicResp {
                id: 3,
                call: ATOMIC_CALL,
                status,
            };
            f(hdr, payload);
        }
    }
}

/// Returns a buffer for the longest packet, filled with a pattern.
pub(in super::super::super) fn packet_buf() -> kernel::error::Result<KVec<u8>> {
    Ok(KVec::from_elem(0x5a, MAX_PACKET, GFP_KERNEL)?)
}
