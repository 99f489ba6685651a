// SPDX-License-Identifier: GPL-2.0

//! What is written is read again, what libfabric has sent is understood, and nothing that anybody may
//! send does harm.

use super::{
    hello::Strange,
    layout::at,
    *, //
};
use crate::util::random::SeededRandom;
use kernel::{
    alloc::KVec,
    prelude::*, //
};

/// Reads what has arrived at an endpoint with some receive contexts.
fn parse(bytes: &[u8]) -> Result<Packet<'_>, Malformed> {
    Packet::parse(bytes, Some(4))
}

/// The same from a peer who knows of none.
fn parse_plain(bytes: &[u8]) -> Result<Packet<'_>, Malformed> {
    Packet::parse(bytes, None)
}

const MESSAGE: Message = Message {
    context: 3,
    tag: Some(0x0123_4567_89ab_cdef),
    len: 100,
    data: Some(u64::MAX - 1),
};

const CALL: Call = Call {
    form: Form::Compare,
    op: 12,
    datatype: 7,
};

const RANGE_OF_MEMORY: Range = Range {
    addr: 0xffff_8880_1234_5000,
    len: 1 << 20,
    key: 0x4711,
};

fn ranges(count: usize) -> Option<Ranges> {
    let all = core::array::from_fn::<_, MOST_RANGES, _>(|at| Range {
        addr: RANGE_OF_MEMORY.addr + at as u64,
        ..RANGE_OF_MEMORY
    });
    Ranges::new(all.get(..count)?)
}

/// One packet of each kind and variety, with the length of its payload.
fn each(mut f: impl FnMut(Head, usize)) {
    let plain = Message {
        context: 0,
        tag: None,
        data: None,
        ..MESSAGE
    };
    for len in [0, 1, 100, EAGER] {
        for message in [MESSAGE, plain] {
            let len = len as u64;
            f(Head::Eager(Message { len, ..message }), len as usize);
        }
    }
    for len in [EAGER + 1, 3 * EAGER, 5 * EAGER - 1] {
        let message = Message {
            len: len as u64,
            ..MESSAGE
        };
        for number in 0..message.segments() as u32 {
            let head = Head::Segment(Segment {
                id: 7,
                number,
                place: Place::of(number, message.segments()),
                message,
            });
            f(head, message.segment_len(number).unwrap_or(0));
        }
    }
    for ranges in (1..=MOST_RANGES).filter_map(ranges) {
        let id = u64::MAX;
        let message = MESSAGE;
        f(
            Head::Offer {
                id,
                message,
                ranges,
            },
            0,
        );
        f(Head::Room { id, ranges }, 0);
        for form in [Form::Base, Form::Fetch, Form::Compare] {
            let call = Call { form, ..CALL };
            f(
                Head::Atomic {
                    id,
                    call,
                    targets: ranges,
                },
                16,
            );
        }
    }
    f(Head::Taken { id: 1 }, 0);
    f(Head::Written { id: 2 }, 0);
    f(Head::Credit(127), 0);
    for word in [Farewell::Ask, Farewell::Agree, Farewell::Stay] {
        f(Head::Farewell(word), 0);
    }
    for status in [0, -13, i32::MIN] {
        for payload in [0, 8, EAGER - OUTCOME] {
            let head = Head::Answer {
                id: 3,
                call: CALL,
                status,
            };
            f(head, payload);
        }
    }
}

/// Room for any packet, with something in it.
fn room() -> kernel::error::Result<KVec<u8>> {
    Ok(KVec::from_elem(0x5a, MOST, GFP_KERNEL)?)
}

#[kunit_tests(kofi_rdm_wire)]
mod cases {
    use super::*;

    #[test]
    fn what_is_written_is_read() -> kernel::error::Result {
        let mut room = room()?;
        let mut count = 0;
        each(|head, payload| {
            room.fill(0x5a);
            let begin = head.write(41, payload, &mut room);
            assert_eq!(begin, Some(head.len()));
            let packet = room.get(..head.len() + payload).map(parse);
            assert!(packet.is_some_and(|packet| packet.is_ok_and(|packet| {
                packet.to == 41 && packet.head == head && packet.payload.len() == payload
            })));
            count += 1;
        });
        assert!(count > 30);
        Ok(())
    }

    #[test]
    fn what_has_no_room_is_not_written() -> kernel::error::Result {
        let mut room = room()?;
        each(|head, payload| {
            let len = head.len() + payload;
            let short = room.get_mut(..len - 1);
            assert!(short.is_some_and(|short| head.write(0, payload, short).is_none()));
            assert!(head.write(0, MOST, &mut room).is_none());
            assert!(head.write(0, usize::MAX, &mut room).is_none());
        });
        Ok(())
    }

    #[test]
    fn what_is_cut_off_or_longer_is_refused() -> kernel::error::Result {
        let mut room = room()?;
        each(|head, payload| {
            let _ = head.write(0, payload, &mut room);
            let len = head.len() + payload;
            // Where it does not say how long it is, what follows is not looked at.
            let is_open = payload == 0 && !matches!(head, Head::Eager(_) | Head::Answer { .. });
            for cut in [0, 1, HEADER - 1, head.len() - 1, len - 1] {
                let parsed = room.get(..cut.min(len - 1)).map(parse);
                assert!(parsed.is_some_and(|parsed| parsed.is_err()));
            }
            if len < MOST {
                let parsed = room.get(..len + 1).map(parse);
                assert!(parsed.is_some_and(|parsed| parsed.is_ok() == is_open));
            }
        });
        Ok(())
    }

    #[test]
    fn fields_of_other_kinds_are_not_looked_at() -> kernel::error::Result {
        let mut room = room()?;
        let eager = Head::Eager(Message {
            context: 0,
            len: 5,
            ..MESSAGE
        });
        let _ = eager.write(9, 5, &mut room);
        // What the buffer was used for before, as a peer leaves it.
        for stale in [2..8, 16..32, 33..34, 35..36] {
            if let Some(stale) = room.get_mut(stale) {
                stale.fill(0xff);
            }
        }
        let parsed = room.get(..HEADER + 5).map(parse_plain);
        assert!(parsed.is_some_and(|parsed| parsed.is_ok_and(|packet| packet.head == eager)));
        let _ = Head::Taken { id: 4 }.write(9, 0, &mut room);
        if let Some(stale) = room.get_mut(24..HEADER) {
            stale.fill(0xff);
        }
        let parsed = room.get(..HEADER).map(parse_plain);
        let taken = Head::Taken { id: 4 };
        assert!(parsed.is_some_and(|parsed| parsed.is_ok_and(|packet| packet.head == taken)));
        // Two bits say where in its message a segment stands, and the rest of the field nothing.
        let segment = Head::Segment(Segment {
            id: 7,
            number: 1,
            place: Place::Middle,
            message: Message {
                context: 0,
                len: 3 * EAGER as u64,
                ..MESSAGE
            },
        });
        let _ = segment.write(9, EAGER, &mut room);
        if let Some(stale) = room.get_mut(24..32) {
            stale.fill(0xff);
            stale[0] = 0x7e;
        }
        let parsed = room.get(..MOST).map(parse_plain);
        assert!(parsed.is_some_and(|parsed| parsed.is_ok_and(|packet| packet.head == segment)));
        Ok(())
    }

    #[test]
    fn segments_stand_at_their_place() -> kernel::error::Result {
        let mut room = room()?;
        let message = Message {
            len: 3 * EAGER as u64,
            ..MESSAGE
        };
        for (number, place, is_right) in [
            (0, Place::First, true),
            (1, Place::Middle, true),
            (2, Place::Last, true),
            (0, Place::Middle, false),
            (1, Place::First, false),
            (1, Place::Last, false),
            (2, Place::Middle, false),
            (3, Place::Last, false),
            (u32::MAX, Place::Middle, false),
        ] {
            let head = Head::Segment(Segment {
                id: 7,
                number,
                place,
                message,
            });
            let _ = head.write(0, EAGER, &mut room);
            assert_eq!(parse(&room).is_ok(), is_right);
        }
        // One that would have been eager is no segment.
        let head = Head::Segment(Segment {
            id: 7,
            number: 0,
            place: Place::First,
            message: MESSAGE,
        });
        let _ = head.write(0, 100, &mut room);
        let parsed = room.get(..HEADER + 100).map(parse);
        assert!(parsed.is_some_and(|parsed| parsed.is_err()));
        Ok(())
    }

    #[test]
    fn what_the_header_says_is_checked() -> kernel::error::Result {
        let mut room = room()?;
        type In = fn(&Head) -> bool;
        // A byte, a value that it must not have, and in which packets.
        let wrong: [(usize, u8, In); 12] = [
            (at::CTRL_VERSION, 3, |_| true),
            (at::KIND, 9, |_| true),
            (at::KIND, 0xff, |_| true),
            (at::OP, 2, |head| {
                !matches!(
                    head,
                    Head::Taken { .. }
                        | Head::Written { .. }
                        | Head::Credit(_)
                        | Head::Farewell(_)
                        | Head::Room { .. }
                )
            }),
            (at::LEN + 7, 1, |head| {
                matches!(head, Head::Eager(_) | Head::Atomic { .. })
            }),
            (HEADER + TARGETS, 0, |head| {
                matches!(head, Head::Offer { .. } | Head::Room { .. })
            }),
            (HEADER + TARGETS, 5, |head| {
                matches!(head, Head::Offer { .. } | Head::Room { .. })
            }),
            (at::EXTRA, 0, |head| matches!(head, Head::Farewell(_))),
            (at::EXTRA, 4, |head| matches!(head, Head::Farewell(_))),
            (at::EXTRA + 7, 1, |head| matches!(head, Head::Farewell(_))),
            (at::TARGETS, 0, |head| matches!(head, Head::Atomic { .. })),
            (at::TARGETS, 5, |head| matches!(head, Head::Atomic { .. })),
        ];
        for (at, value, concerns) in wrong {
            each(|head, payload| {
                if concerns(&head) {
                    let _ = head.write(0, payload, &mut room);
                    if let Some(byte) = room.get_mut(at) {
                        *byte = value;
                    }
                    let parsed = room.get(..head.len() + payload).map(parse);
                    assert!(parsed.is_some_and(|parsed| parsed.is_err()));
                }
            });
        }
        Ok(())
    }

    #[test]
    fn whatever_arrives_is_refused_or_means_what_it_says() -> kernel::error::Result {
        let mut random = SeededRandom::new(1);
        let (mut room, mut again) = (room()?, room()?);
        let (mut taken, mut refused) = (0, 0);
        for _ in 0..50 {
            each(|head, payload| {
                let _ = head.write(random.next_below(9), payload, &mut room);
                for _ in 0..random.next_below(4) {
                    let at = random.next_below((HEADER + RANGES) as u64) as usize;
                    if let Some(byte) = room.get_mut(at) {
                        *byte = random.next_below(256) as u8;
                    }
                }
                let len = match random.next_below(4) {
                    0 => random.next_below(MOST as u64 + 1) as usize,
                    _ => head.len() + payload,
                };
                match room.get(..len).map(parse) {
                    Some(Ok(packet)) => {
                        taken += 1;
                        let begin = packet
                            .head
                            .write(packet.to, packet.payload.len(), &mut again);
                        let written = again.get(..packet.head.len() + packet.payload.len());
                        let parsed = written.map(parse);
                        assert_eq!(begin, Some(packet.head.len()));
                        let is_same = |again: Packet<'_>| {
                            (again.head, again.to) == (packet.head, packet.to)
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
    fn rdm_08_a_message_names_a_context_that_there_is() {
        let mut bytes = [0; HEADER];
        for context in 0..=u8::MAX {
            let message = Message {
                context,
                tag: None,
                len: 0,
                data: None,
            };
            let _ = Head::Eager(message).write(9, 0, &mut bytes);
            assert_eq!(bytes[33], context);
            for contexts in [1, 2, 16, 256] {
                let parsed = Packet::parse(&bytes, Some(contexts));
                assert_eq!(parsed.is_ok(), usize::from(context) < contexts);
                let is_it = |packet: Packet<'_>| packet.head == Head::Eager(message);
                assert!(!parsed.is_ok_and(|packet| !is_it(packet)));
            }
            // Whoever does not know of any has left there what was there before.
            let parsed = parse_plain(&bytes);
            let first = Message {
                context: 0,
                ..message
            };
            assert!(parsed.is_ok_and(|packet| packet.head == Head::Eager(first)));
            assert_eq!(Packet::named_context(&bytes), context);
        }
        assert_eq!(Packet::named_context(&bytes[..33]), 0);
    }

    #[test]
    fn libfabric_asks_for_a_compare_and_swap() {
        let mut bytes = [0; HEADER + TARGETS + 16];
        bytes[..2].copy_from_slice(&[4, 4]);
        bytes[16] = 9;
        bytes[at::OP] = 8;
        bytes[32] = 2;
        bytes[40] = 0x70;
        bytes[56..59].copy_from_slice(&[0x07, 0x0c, 0x01]);
        bytes[64..72].copy_from_slice(&RANGE_OF_MEMORY.addr.to_ne_bytes());
        bytes[72] = 1;
        bytes[80..88].copy_from_slice(&RANGE_OF_MEMORY.key.to_ne_bytes());
        let target = Range {
            len: 1,
            ..RANGE_OF_MEMORY
        };
        let packet = parse(&bytes);
        assert!(packet.is_ok_and(|packet| packet.payload.len() == 16
            && Some(packet.head)
                == Ranges::new(&[target]).map(|targets| Head::Atomic {
                    id: 9,
                    call: CALL,
                    targets
                })));
    }

    #[test]
    fn libfabric_is_answered() {
        let mut bytes = [0; HEADER + OUTCOME + 8];
        let head = Head::Answer {
            id: 9,
            call: CALL,
            status: -13,
        };
        assert_eq!(head.write(5, 8, &mut bytes), Some(HEADER + OUTCOME));
        assert_eq!(bytes[..2], [4, 5]);
        assert_eq!((bytes[8], bytes[16], bytes[32]), (5, 9, 2));
        assert_eq!(bytes[40..48], [0x10, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[56..59], [0x07, 0x0c, 0]);
        assert_eq!(bytes[64..72], [0xff, 0xff, 0xff, 0xf3, 0, 0, 0, 8]);
    }

    #[test]
    fn libfabric_says_hello() {
        const SAID: [u8; 24] = [
            0x01, 0x02, 0x04, 0x03, 0x2d, 0x8d, 0x01, 0x00, 0x00, 0x40, 0x00, 0x00, 0x80, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x46, 0x00, 0x00, 0x00,
        ];
        let hello = Hello {
            port: 0x8d2d,
            flow: Flow::Credits,
            receives: 128,
            extensions: Extensions::NONE,
            identity: Identity {
                instance: 0x46,
                index: 0,
            },
        };
        assert_eq!(Hello::from_bytes(&SAID), Ok(hello));
        assert_eq!(hello.to_bytes(), SAID);
        for len in 0..SAID.len() {
            assert_eq!(Hello::from_bytes(&SAID[..len]), Err(Strange::Short));
        }
        for (at, value, strange) in [
            (0, 2, Strange::Foreign),
            (1, 1, Strange::Foreign),
            (2, 3, Strange::Foreign),
            (3, 4, Strange::Foreign),
            (6, 3, Strange::Nonsense),
            (7, 1, Strange::Second),
            (9, 0x20, Strange::Size),
            (11, 1, Strange::Size),
        ] {
            let mut other = SAID;
            other[at] = value;
            assert_eq!(Hello::from_bytes(&other), Err(strange));
        }
        let mut nowhere = SAID;
        nowhere[4..6].fill(0);
        assert_eq!(Hello::from_bytes(&nowhere), Err(Strange::Nonsense));
        let mut old = SAID;
        old[6] = 0;
        assert_eq!(Hello::from_bytes(&old), Ok(hello));
    }

    #[test]
    fn libfabric_bids_welcome() {
        const SAID: [u8; 16] = [
            0x00, 0x00, 0x00, 0x00, 0x42, 0x00, 0x00, 0x00, 0x80, 0x00, 0x00, 0x00, 0x01, 0x00,
            0x00, 0x00,
        ];
        let welcome = Welcome {
            identity: Identity {
                instance: 0x42,
                index: 0,
            },
            receives: 128,
            extensions: Extensions::NONE,
            flow: Flow::Credits,
        };
        assert_eq!(Welcome::from_bytes(&SAID), Ok(welcome));
        assert_eq!(welcome.to_bytes(), SAID);
        assert_eq!(Welcome::from_bytes(&SAID[..15]), Err(Strange::Short));
        let mut other = SAID;
        other[12] = 3;
        assert_eq!(Welcome::from_bytes(&other), Err(Strange::Nonsense));
    }

    #[test]
    fn extensions_are_said_where_nobody_else_looks() {
        let plain = Welcome {
            identity: Identity {
                instance: 1,
                index: 2,
            },
            receives: 32,
            extensions: Extensions::NONE,
            flow: Flow::Credits,
        };
        let all = Welcome {
            extensions: Extensions::FAREWELL,
            ..plain
        };
        for welcome in [plain, all] {
            assert_eq!(Welcome::from_bytes(&welcome.to_bytes()), Ok(welcome));
        }
        // All but that number is as it was.
        let (one, other) = (plain.to_bytes(), all.to_bytes());
        assert_eq!((&one[..8], &one[12..]), (&other[..8], &other[12..]));
        assert_eq!(other[8..12], [32, 1, 0x6f, 0x6b]);
        // What has other bits as well has these.
        let mut more = other;
        more[9] = 0xff;
        let more = Welcome::from_bytes(&more).map(|welcome| welcome.extensions);
        assert!(more.is_ok_and(|more| more.have(Extensions::FAREWELL)));
        assert!(!Extensions::NONE.have(Extensions::FAREWELL));
        assert_eq!(Extensions::FAREWELL.contexts(), None);
        for contexts in 1..=16 {
            let extensions = Extensions::FAREWELL.and_contexts(contexts);
            let said = Welcome {
                extensions,
                ..plain
            };
            let heard = Welcome::from_bytes(&said.to_bytes());
            assert!(heard.is_ok_and(|heard| heard.extensions == extensions));
            assert!(extensions.have(Extensions::FAREWELL));
            assert_eq!(extensions.contexts(), Some(contexts));
        }
        // As many receives as libfabric may be set to say nothing.
        for receives in [0, 128, 4096, 0x6b6e_ffff, 0x6b70_0100, u32::MAX] {
            let said = Welcome { receives, ..plain };
            assert_eq!(Welcome::from_bytes(&said.to_bytes()), Ok(said));
        }
    }

    #[test]
    fn a_refusal_says_why() {
        assert_eq!(Refusal::Refused.to_bytes(), [1, 1]);
        for refusal in [Refusal::Refused, Refusal::Already] {
            assert_eq!(Refusal::from_bytes(&refusal.to_bytes()), refusal);
        }
        // The connection manager's own has no words, and another version's mean nothing.
        for bytes in [&[1][..], &[1, 0], &[2, 2], &[1, 3]] {
            assert_eq!(Refusal::from_bytes(bytes), Refusal::Refused);
        }
        assert_eq!(Refusal::from_bytes(&[]), Refusal::Unknown);
        assert_eq!(Refusal::from_bytes(&[1, 2, 0, 0]), Refusal::Already);
    }

    #[test]
    fn credits_are_given_if_both_can() {
        let (credits, device) = (Flow::Credits, Flow::Device);
        assert_eq!(credits.with(credits), credits);
        assert_eq!(credits.with(device), device);
        assert_eq!(device.with(credits), device);
        assert_eq!(device.with(device), device);
    }

    #[test]
    fn every_byte_of_ranges_is_in_one_of_them() -> kernel::error::Result {
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
            assert_eq!(ranges.rest(at), Some(Range { addr, len, key }));
        }
        assert_eq!(ranges.rest(5), None);
        assert_eq!(ranges.rest(u64::MAX), None);
        // No memory ends behind the last byte that there can be, and none has as many bytes together.
        for wrong in [
            &[range(u64::MAX, 2)][..],
            &[range(0, u64::MAX), range(0, 1)],
        ] {
            assert!(Ranges::new(wrong).is_some_and(|ranges| ranges.total().is_none()));
        }
        Ok(())
    }
}
