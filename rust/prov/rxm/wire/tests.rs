// SPDX-License-Identifier: GPL-2.0

//! Tests of the wire format: round trips, packets of libfabric, and random changes of packets.

pub(in super::super) mod packets;

use self::packets::{
    for_each_packet,
    packet_buf,
    ATOMIC_CALL,
    MESSAGE,
    TARGET_RANGE, //
};
use super::{
    cm_data::CmDataError,
    layout::{
        at,
        op, //
    },
    *, //
};
use crate::util::random::SeededRandom;
use kernel::prelude::*;

/// Parses a packet with all extensions for an endpoint with that many receive contexts.
fn parse_for(bytes: &[u8], contexts: usize) -> Result<RxPkt<'_>, ProtoError> {
    let format = PeerFormat {
        contexts: Some(contexts),
        has_acks: true,
    };
    RxPkt::parse(bytes, format)
}

/// Parses a packet with all extensions for an endpoint with four receive contexts.
fn parse(bytes: &[u8]) -> Result<RxPkt<'_>, ProtoError> {
    parse_for(bytes, 4)
}

/// Parses a packet of a peer without extensions.
fn parse_plain(bytes: &[u8]) -> Result<RxPkt<'_>, ProtoError> {
    RxPkt::parse(bytes, PeerFormat::PLAIN)
}

#[kunit_tests(kofi_rdm_wire)]
mod cases {
    use super::*;

    #[test]
    fn written_packets_parse_to_the_same_header() -> kernel::error::Result {
        let mut buf = packet_buf()?;
        let mut count = 0;
        for_each_packet(|hdr, payload| {
            buf.fill(0x5a);
            let begin = hdr.write(41, payload, &mut buf);
            assert_eq!(begin, Some(hdr.len()));
            let packet = buf.get(..hdr.len() + payload).map(parse);
            assert!(packet.is_some_and(|packet| packet.is_ok_and(|packet| {
                packet.conn_id == 41 && packet.hdr == hdr && packet.payload.len() == payload
            })));
            count += 1;
        });
        assert!(count > 30);
        Ok(())
    }

    #[test]
    fn packets_longer_than_the_buffer_are_not_written() -> kernel::error::Result {
        let mut buf = packet_buf()?;
        for_each_packet(|hdr, payload| {
            let len = hdr.len() + payload;
            let short = buf.get_mut(..len - 1);
            assert!(short.is_some_and(|short| hdr.write(0, payload, short).is_none()));
            assert!(hdr.write(0, MAX_PACKET, &mut buf).is_none());
            assert!(hdr.write(0, usize::MAX, &mut buf).is_none());
        });
        Ok(())
    }

    #[test]
    fn packets_of_a_wrong_length_are_refused() -> kernel::error::Result {
        let mut buf = packet_buf()?;
        for_each_packet(|hdr, payload| {
            let _ = hdr.write(0, payload, &mut buf);
            let len = hdr.len() + payload;
            // A packet without a length field may have trailing bytes.
            let is_open =
                payload == 0 && !matches!(hdr, PktHdr::Eager(_) | PktHdr::AtomicResp { .. });
            for cut in [0, 1, HEADER - 1, hdr.len() - 1, len - 1] {
                let parsed = buf.get(..cut.min(len - 1)).map(parse);
                assert!(parsed.is_some_and(|parsed| parsed.is_err()));
            }
            if len < MAX_PACKET {
                let parsed = buf.get(..len + 1).map(parse);
                assert!(parsed.is_some_and(|parsed| parsed.is_ok() == is_open));
            }
        });
        Ok(())
    }

    #[test]
    fn fields_of_other_packet_types_are_ignored() -> kernel::error::Result {
        let mut buf = packet_buf()?;
        let eager = PktHdr::Eager(Message {
            context: 0,
            ack: None,
            len: 5,
            ..MESSAGE
        });
        let _ = eager.write(9, 5, &mut buf);
        // Stale bytes of an earlier packet, which a peer does not clear.
        for stale in [2..8, 16..32, 33..34, 35..36] {
            if let Some(stale) = buf.get_mut(stale) {
                stale.fill(0xff);
            }
        }
        let parsed = buf.get(..HEADER + 5).map(parse_plain);
        assert!(parsed.is_some_and(|parsed| parsed.is_ok_and(|packet| packet.hdr == eager)));
        let _ = PktHdr::RndvRdDone { id: 4 }.write(9, 0, &mut buf);
        if let Some(stale) = buf.get_mut(24..HEADER) {
            stale.fill(0xff);
        }
        let parsed = buf.get(..HEADER).map(parse_plain);
        let taken = PktHdr::RndvRdDone { id: 4 };
        assert!(parsed.is_some_and(|parsed| parsed.is_ok_and(|packet| packet.hdr == taken)));
        // Two bits hold the position of a segment; the rest of the field has no meaning.
        let segment = PktHdr::Segment(Segment {
            id: 7,
            number: 1,
            pos: SegPos::Middle,
            message: Message {
                context: 0,
                ack: None,
                len: 3 * EAGER as u64,
                ..MESSAGE
            },
        });
        let _ = segment.write(9, EAGER, &mut buf);
        if let Some(stale) = buf.get_mut(24..32) {
            stale.fill(0xff);
            stale[0] = 0x7e;
        }
        let parsed = buf.get(..MAX_PACKET).map(parse_plain);
        assert!(parsed.is_some_and(|parsed| parsed.is_ok_and(|packet| packet.hdr == segment)));
        Ok(())
    }

    #[test]
    fn segment_type_must_fit_its_number() -> kernel::error::Result {
        let mut buf = packet_buf()?;
        let message = Message {
            len: 3 * EAGER as u64,
            ..MESSAGE
        };
        for (number, pos, is_right) in [
            (0, SegPos::First, true),
            (1, SegPos::Middle, true),
            (2, SegPos::Last, true),
            (0, SegPos::Middle, false),
            (1, SegPos::First, false),
            (1, SegPos::Last, false),
            (2, SegPos::Middle, false),
            (3, SegPos::Last, false),
            (u32::MAX, SegPos::Middle, false),
        ] {
            let hdr = PktHdr::Segment(Segment {
                id: 7,
                number,
                pos,
                message,
            });
            let _ = hdr.write(0, EAGER, &mut buf);
            assert_eq!(parse(&buf).is_ok(), is_right);
        }
        // A segment of a message that fits into an eager packet is invalid.
        let hdr = PktHdr::Segment(Segment {
            id: 7,
            number: 0,
            pos: SegPos::First,
            message: MESSAGE,
        });
        let _ = hdr.write(0, 100, &mut buf);
        let parsed = buf.get(..HEADER + 100).map(parse);
        assert!(parsed.is_some_and(|parsed| parsed.is_err()));
        Ok(())
    }

    fn is_access(hdr: &PktHdr) -> bool {
        matches!(hdr, PktHdr::TaggedAccess { .. })
    }

    fn has_rndv_ranges(hdr: &PktHdr) -> bool {
        is_access(hdr) || matches!(hdr, PktHdr::RndvReq { .. } | PktHdr::RndvWrData { .. })
    }

    #[test]
    fn invalid_header_fields_are_refused() -> kernel::error::Result {
        let mut buf = packet_buf()?;
        type In = fn(&PktHdr) -> bool;
        // Offset, invalid value, and the packets that it is invalid in.
        let invalid: [(usize, u8, In); 18] = [
            (at::CTRL_VERSION, 3, |_| true),
            (at::KIND, 9, |_| true),
            (at::KIND, 0xff, |_| true),
            (at::OP, 2, |hdr| {
                !matches!(
                    hdr,
                    PktHdr::RndvRdDone { .. }
                        | PktHdr::RndvWrDone { .. }
                        | PktHdr::Credit(_)
                        | PktHdr::Shutdown(_)
                        | PktHdr::Ack(_)
                        | PktHdr::AccessRefused { .. }
                        | PktHdr::RndvWrData { .. }
                )
            }),
            (at::OP_DATA, SLOTS, |hdr| match hdr {
                PktHdr::Eager(message) => message.ack.is_some(),
                PktHdr::Segment(segment) => segment.message.ack.is_some(),
                _ => false,
            }),
            (at::LEN + 7, 1, |hdr| {
                matches!(hdr, PktHdr::Eager(_) | PktHdr::AtomicReq { .. })
            }),
            (HEADER + ATOMIC_RANGES, 0, has_rndv_ranges),
            (HEADER + ATOMIC_RANGES, 5, has_rndv_ranges),
            (at::CTRL_DATA, 0, is_access),
            (at::CTRL_DATA, 3, is_access),
            (at::LEN, 0xff, is_access),
            (at::OP, op::MSG, is_access),
            (at::CTRL_DATA + 7, 0x7f, |hdr| {
                matches!(hdr, PktHdr::AccessRefused { .. })
            }),
            (at::CTRL_DATA, 0, |hdr| matches!(hdr, PktHdr::Shutdown(_))),
            (at::CTRL_DATA, 4, |hdr| matches!(hdr, PktHdr::Shutdown(_))),
            (at::CTRL_DATA + 7, 1, |hdr| {
                matches!(hdr, PktHdr::Shutdown(_))
            }),
            (at::IOC_COUNT, 0, |hdr| {
                matches!(hdr, PktHdr::AtomicReq { .. })
            }),
            (at::IOC_COUNT, 5, |hdr| {
                matches!(hdr, PktHdr::AtomicReq { .. })
            }),
        ];
        for (at, value, concerns) in invalid {
            for_each_packet(|hdr, payload| {
                if concerns(&hdr) {
                    let _ = hdr.write(0, payload, &mut buf);
                    if let Some(byte) = buf.get_mut(at) {
                        *byte = value;
                    }
                    let parsed = buf.get(..hdr.len() + payload).map(parse);
                    assert!(parsed.is_some_and(|parsed| parsed.is_err()));
                }
            });
        }
        Ok(())
    }

    #[test]
    fn random_packets_are_refused_or_round_trip() -> kernel::error::Result {
        let mut random = SeededRandom::new(1);
        let (mut buf, mut again) = (packet_buf()?, packet_buf()?);
        let (mut taken, mut refused) = (0, 0);
        for _ in 0..50 {
            for_each_packet(|hdr, payload| {
                let _ = hdr.write(random.next_below(9), payload, &mut buf);
                for _ in 0..random.next_below(4) {
                    let at = random.next_below((HEADER + RANGES) as u64) as usize;
                    if let Some(byte) = buf.get_mut(at) {
                        *byte = random.next_below(256) as u8;
                    }
                }
                let len = match random.next_below(4) {
                    0 => random.next_below(MAX_PACKET as u64 + 1) as usize,
                    _ => hdr.len() + payload,
                };
                match buf.get(..len).map(parse) {
                    Some(Ok(packet)) => {
                        taken += 1;
                        let begin =
                            packet
                                .hdr
                                .write(packet.conn_id, packet.payload.len(), &mut again);
                        let written = again.get(..packet.hdr.len() + packet.payload.len());
                        let parsed = written.map(parse);
                        assert_eq!(begin, Some(packet.hdr.len()));
                        let is_same = |again: RxPkt<'_>| {
                            (again.hdr, again.conn_id) == (packet.hdr, packet.conn_id)
                                && again.payload.len() == packet.payload.len()
                        };
                        assert!(parsed.is_some_and(|parsed| parsed.is_ok_and(is_same)));
                    }
                    Some(Err(_)) => refused += 1,
                    None => {}
                }
            });
        }
        assert!(taken > 500 && refused > 500);
        Ok(())
    }

    #[test]
    fn rdm_08_messages_to_missing_contexts_are_refused() {
        let mut bytes = [0; HEADER];
        for context in 0..=u8::MAX {
            let message = Message {
                context,
                ack: None,
                tag: None,
                len: 0,
                data: None,
            };
            let _ = PktHdr::Eager(message).write(9, 0, &mut bytes);
            assert_eq!(bytes[33], context);
            for contexts in [1, 2, 16, 256] {
                let parsed = parse_for(&bytes, contexts);
                assert_eq!(parsed.is_ok(), usize::from(context) < contexts);
                let is_it = |packet: RxPkt<'_>| packet.hdr == PktHdr::Eager(message);
                assert!(!parsed.is_ok_and(|packet| !is_it(packet)));
            }
            // A peer that does not support contexts has not initialised the byte.
            let parsed = parse_plain(&bytes);
            let first = Message {
                context: 0,
                ..message
            };
            assert!(parsed.is_ok_and(|packet| packet.hdr == PktHdr::Eager(first)));
            assert_eq!(RxPkt::rx_index(&bytes), context);
        }
        assert_eq!(RxPkt::rx_index(&bytes[..33]), 0);
    }

    #[test]
    fn acknowledgement_slots_round_trip() {
        let plain = Message {
            context: 0,
            ack: None,
            tag: None,
            len: 0,
            data: Some(1),
        };
        for number in 0..=u8::MAX {
            let ack = AckSlot::new(number);
            assert_eq!(ack.is_some(), number < SLOTS);
            let mut bytes = [0; HEADER];
            let _ = PktHdr::Eager(plain).write(9, 0, &mut bytes);
            assert!(!RxPkt::asks_for_ack(&bytes));
            if let Some(ack) = ack {
                let mut other = bytes;
                let message = Message {
                    ack: Some(ack),
                    ..plain
                };
                let _ = PktHdr::Eager(message).write(9, 0, &mut other);
                let before = bytes;
                set_ack_slot(Some(ack), &mut bytes);
                assert_eq!(bytes, other);
                set_ack_slot(None, &mut other);
                assert_eq!(before, other);
                assert!(parse(&bytes).is_ok_and(|packet| packet.hdr == PktHdr::Eager(message)));
                assert!(RxPkt::asks_for_ack(&bytes));
            }
            bytes[at::OP_DATA] = number;
            bytes[at::FLAGS + 3] |= 0x10;
            assert_eq!(parse(&bytes).is_ok(), ack.is_some());
            // To a peer without the extension, the flag is a byte that libfabric has not initialised.
            let parsed = parse_plain(&bytes);
            assert!(parsed.is_ok_and(|packet| packet.hdr == PktHdr::Eager(plain)));
        }
        assert!(!RxPkt::asks_for_ack(&[0xff; HEADER - 1]));
    }

    #[test]
    fn compare_request_of_libfabric_is_parsed() {
        let mut bytes = [0; HEADER + ATOMIC_RANGES + 16];
        bytes[..2].copy_from_slice(&[4, 4]);
        bytes[16] = 9;
        bytes[at::OP] = 8;
        bytes[32] = 2;
        bytes[40] = 0x70;
        bytes[56..59].copy_from_slice(&[0x07, 0x0c, 0x01]);
        bytes[64..72].copy_from_slice(&TARGET_RANGE.addr.to_ne_bytes());
        bytes[72] = 1;
        bytes[80..88].copy_from_slice(&TARGET_RANGE.key.to_ne_bytes());
        let target = Range {
            len: 1,
            ..TARGET_RANGE
        };
        let packet = parse(&bytes);
        assert!(packet.is_ok_and(|packet| packet.payload.len() == 16
            && Some(packet.hdr)
                == Ranges::new(&[target]).map(|targets| PktHdr::AtomicReq {
                    id: 9,
                    call: ATOMIC_CALL,
                    targets
                })));
    }

    #[test]
    fn atomic_response_has_the_format_of_libfabric() {
        let mut bytes = [0; HEADER + ATOMIC_RESP_HDR + 8];
        let hdr = PktHdr::AtomicResp {
            id: 9,
            call: ATOMIC_CALL,
            status: -13,
        };
        assert_eq!(hdr.write(5, 8, &mut bytes), Some(HEADER + ATOMIC_RESP_HDR));
        assert_eq!(bytes[..2], [4, 5]);
        assert_eq!((bytes[8], bytes[16], bytes[32]), (5, 9, 2));
        assert_eq!(bytes[40..48], [0x10, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[56..59], [0x07, 0x0c, 0]);
        assert_eq!(bytes[64..72], [0xff, 0xff, 0xff, 0xf3, 0, 0, 0, 8]);
    }

    #[test]
    fn connect_data_of_libfabric_round_trip() {
        const BYTES: [u8; 24] = [
            0x01, 0x02, 0x04, 0x03, 0x2d, 0x8d, 0x01, 0x00, 0x00, 0x40, 0x00, 0x00, 0x80, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x46, 0x00, 0x00, 0x00,
        ];
        let connect_data = ConnectData {
            port: 0x8d2d,
            flow: Flow::Credits,
            receives: 128,
            extensions: Extensions::NONE,
            conn_id: ConnId {
                instance: 0x46,
                index: 0,
            },
        };
        assert_eq!(ConnectData::from_bytes(&BYTES), Ok(connect_data));
        assert_eq!(connect_data.to_bytes(), BYTES);
        for len in 0..BYTES.len() {
            assert_eq!(
                ConnectData::from_bytes(&BYTES[..len]),
                Err(CmDataError::Short)
            );
        }
        for (at, value, error) in [
            (0, 2, CmDataError::Version),
            (1, 1, CmDataError::Version),
            (2, 3, CmDataError::Version),
            (3, 4, CmDataError::Version),
            (6, 3, CmDataError::Invalid),
            (7, 1, CmDataError::SecondQp),
            (9, 0x20, CmDataError::EagerSize),
            (11, 1, CmDataError::EagerSize),
        ] {
            let mut other = BYTES;
            other[at] = value;
            assert_eq!(ConnectData::from_bytes(&other), Err(error));
        }
        let mut no_port = BYTES;
        no_port[4..6].fill(0);
        assert_eq!(ConnectData::from_bytes(&no_port), Err(CmDataError::Invalid));
        let mut old = BYTES;
        old[6] = 0;
        assert_eq!(ConnectData::from_bytes(&old), Ok(connect_data));
    }

    #[test]
    fn accept_data_of_libfabric_round_trip() {
        const BYTES: [u8; 16] = [
            0x00, 0x00, 0x00, 0x00, 0x42, 0x00, 0x00, 0x00, 0x80, 0x00, 0x00, 0x00, 0x01, 0x00,
            0x00, 0x00,
        ];
        let accept_data = AcceptData {
            conn_id: ConnId {
                instance: 0x42,
                index: 0,
            },
            receives: 128,
            extensions: Extensions::NONE,
            flow: Flow::Credits,
        };
        assert_eq!(AcceptData::from_bytes(&BYTES), Ok(accept_data));
        assert_eq!(accept_data.to_bytes(), BYTES);
        assert_eq!(
            AcceptData::from_bytes(&BYTES[..15]),
            Err(CmDataError::Short)
        );
        let mut other = BYTES;
        other[12] = 3;
        assert_eq!(AcceptData::from_bytes(&other), Err(CmDataError::Invalid));
    }

    #[test]
    fn extensions_use_a_field_that_libfabric_ignores() {
        let plain = AcceptData {
            conn_id: ConnId {
                instance: 1,
                index: 2,
            },
            receives: 32,
            extensions: Extensions::NONE,
            flow: Flow::Credits,
        };
        let all = AcceptData {
            extensions: Extensions::SHUTDOWN,
            ..plain
        };
        for accept_data in [plain, all] {
            assert_eq!(
                AcceptData::from_bytes(&accept_data.to_bytes()),
                Ok(accept_data)
            );
        }
        // Only one field differs.
        let (one, other) = (plain.to_bytes(), all.to_bytes());
        assert_eq!((&one[..8], &one[12..]), (&other[..8], &other[12..]));
        assert_eq!(other[8..12], [32, 1, 0x6f, 0x6b]);
        // Unknown extensions do not hide known ones.
        let mut more = other;
        more[9] = 0xff;
        let more = AcceptData::from_bytes(&more).map(|accept_data| accept_data.extensions);
        assert!(more.is_ok_and(|more| more.have(Extensions::SHUTDOWN)));
        assert!(!Extensions::NONE.have(Extensions::SHUTDOWN));
        assert_eq!(Extensions::SHUTDOWN.contexts(), None);
        for contexts in 1..=64 {
            let extensions = Extensions::SHUTDOWN.with_contexts(contexts);
            let sent = AcceptData {
                extensions,
                ..plain
            };
            let parsed = AcceptData::from_bytes(&sent.to_bytes());
            assert!(parsed.is_ok_and(|parsed| parsed.extensions == extensions));
            assert!(extensions.have(Extensions::SHUTDOWN));
            assert_eq!(extensions.contexts(), Some(contexts));
        }
        // The lower byte has extensions if a bit says so; otherwise it is a number of receives.
        let both = Extensions::SHUTDOWN.and(Extensions::DELIVERY);
        let all = AcceptData {
            extensions: both.with_contexts(3),
            receives: 0,
            ..plain
        };
        assert_eq!(all.to_bytes()[8..12], [4, 0x27, 0x6f, 0x6b]);
        assert_eq!(AcceptData::from_bytes(&all.to_bytes()), Ok(all));
        let mut old = all.to_bytes();
        old[9] &= !4;
        let old = AcceptData::from_bytes(&old);
        assert!(
            old.is_ok_and(|old| !old.extensions.have(Extensions::DELIVERY)
                && old.extensions.have(Extensions::SHUTDOWN)
                && old.receives == 4)
        );
        // Any number of receives of libfabric announces no extensions.
        for receives in [0, 128, 4096, 0x6b6e_ffff, 0x6b70_0100, u32::MAX] {
            let sent = AcceptData { receives, ..plain };
            assert_eq!(AcceptData::from_bytes(&sent.to_bytes()), Ok(sent));
        }
    }

    #[test]
    fn reject_data_carry_the_reason() {
        assert_eq!(RejectReason::Refused.to_bytes(), [1, 1]);
        for reason in [RejectReason::Refused, RejectReason::Already] {
            assert_eq!(RejectReason::from_bytes(&reason.to_bytes()), reason);
        }
        // The lower connection manager sends no data, and data of another version have no meaning.
        for bytes in [&[1][..], &[1, 0], &[2, 2], &[1, 3]] {
            assert_eq!(RejectReason::from_bytes(bytes), RejectReason::Refused);
        }
        assert_eq!(RejectReason::from_bytes(&[]), RejectReason::Unknown);
        assert_eq!(
            RejectReason::from_bytes(&[1, 2, 0, 0]),
            RejectReason::Already
        );
    }

    #[test]
    fn credits_need_support_at_both_ends() {
        let (credits, device) = (Flow::Credits, Flow::Device);
        assert_eq!(credits.with(credits), credits);
        assert_eq!(credits.with(device), device);
        assert_eq!(device.with(credits), device);
        assert_eq!(device.with(device), device);
    }

    #[test]
    fn range_at_finds_the_range_of_each_offset() -> kernel::error::Result {
        let range = |addr, len| Range {
            addr,
            len,
            key: addr,
        };
        let ranges = Ranges::new(&[range(100, 3), range(7, 0), range(50, 2)]).ok_or(EINVAL)?;
        assert_eq!(ranges.total(), Some(5));
        for (at, addr, len, key) in [
            (0, 100, 3, 100),
            (2, 102, 1, 100),
            (3, 50, 2, 50),
            (4, 51, 1, 50),
        ] {
            assert_eq!(ranges.range_at(at), Some(Range { addr, len, key }));
        }
        assert_eq!(ranges.range_at(5), None);
        assert_eq!(ranges.range_at(u64::MAX), None);
        // No range ends beyond the address space, and no sum overflows.
        for invalid in [
            &[range(u64::MAX, 2)][..],
            &[range(0, u64::MAX), range(0, 1)],
        ] {
            assert!(Ranges::new(invalid).is_some_and(|ranges| ranges.total().is_none()));
        }
        Ok(())
    }
}
