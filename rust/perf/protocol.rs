// SPDX-License-Identifier: GPL-2.0

//! The control protocol between the client and the server of a test, and the payload pattern of messages, which the
//! receiver verifies. All numbers of the protocol are big-endian.
//!
//! - The private data of the connection request describes the traffic in 16 bytes: `kOFI`, a byte each for the
//!   version of the protocol (1), the kind, the flags and 0, then four bytes for the window and four for the length.
//! - For RMA and atomic operations the server exposes zeroed memory, for a window of accesses or as many as fit into
//!   1 MiB. The private data of its accept has the address and the key, eight bytes each; over raw verbs they are in
//!   the server's answer to an empty message (see `raw_verbs.rs`).
//! - A stream is sent on credit, because iWARP has no RNR retry: a message without a receive ends the connection. The
//!   server posts receives for two windows, and returns an empty message, a credit of one window, whenever it has
//!   received a window and posted its receives again. An empty message ends the stream; the server answers it with a
//!   report of eight bytes, the number of damaged messages.
//! - The private data of a rejection has the reason: `kOFI`, the version, a byte for the reason, and two bytes of 0.

use super::{
    bindings,
    config::{
        Kind,
        Traffic, //
    },
};
use kofi::fi::msg::RemoteMemory;

const MAGIC: [u8; 4] = *b"kOFI";
const VERSION: u8 = 1;
const VERIFY: u8 = 1;

/// Bytes that describe the traffic.
const LEN: usize = 16;

/// Bytes that describe exposed memory.
pub(super) const GRANT: usize = 16;

/// Bytes of the report on a stream.
pub(super) const REPORT: usize = 8;

/// Bytes of a rejection.
const REASON: usize = 8;

/// The reason why a server rejects a client. The numbers of `enum kofi_test_refusal` are those of the protocol, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// The server is at its limit of clients, or of their bytes.
    Full = bindings::KOFI_TEST_REFUSAL_FULL as isize,
    /// The server does not know the description of the traffic.
    Unknown = bindings::KOFI_TEST_REFUSAL_UNKNOWN as isize,
}

/// Encodes the private data of a rejection.
pub(super) fn write_refusal(refusal: Refusal) -> [u8; REASON] {
    let mut bytes = [0; REASON];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4] = VERSION;
    bytes[5] = refusal as u8;
    bytes
}

/// Decodes the private data of a rejection; `None` for anything else.
pub(super) fn read_refusal(bytes: &[u8]) -> Option<Refusal> {
    let bytes: &[u8; REASON] = bytes.first_chunk()?;
    [Refusal::Full, Refusal::Unknown]
        .into_iter()
        .find(|&refusal| *bytes == write_refusal(refusal))
}

/// Encodes the address and the key of exposed memory.
pub(super) fn write_grant(region: RemoteMemory) -> [u8; GRANT] {
    let mut bytes = [0; GRANT];
    bytes[..8].copy_from_slice(&region.addr.to_be_bytes());
    bytes[8..].copy_from_slice(&region.key.to_be_bytes());
    bytes
}

/// Decodes the address and the key of exposed memory; `None` if there are too few bytes.
pub(super) fn read_grant(bytes: &[u8]) -> Option<RemoteMemory> {
    let (addr, rest) = bytes.split_first_chunk()?;
    Some(RemoteMemory {
        addr: u64::from_be_bytes(*addr),
        key: u64::from_be_bytes(*rest.first_chunk()?),
    })
}

/// Encodes the report on a stream.
pub(super) fn write_report(answer: &mut [u8], damaged: u64) {
    if let Some(count) = answer.first_chunk_mut() {
        *count = damaged.to_be_bytes();
    }
}

/// Decodes a message of `len` bytes that is the report on a stream; `None` for another length.
pub(super) fn read_report(message: &[u8], len: usize) -> Option<u64> {
    let count = message.get(..len)?.try_into().ok()?;
    Some(u64::from_be_bytes(count))
}

/// Returns byte `at` of message number `seq`. Adjacent bytes differ, and so do the bytes of adjacent messages at one
/// index.
fn pattern(seq: u64, at: usize) -> u8 {
    (seq.wrapping_mul(7) as usize).wrapping_add(at) as u8
}

impl Traffic {
    /// Encodes the description of the traffic.
    pub(super) fn to_bytes(self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = self.kind as u8;
        bytes[6] = if self.verify { VERIFY } else { 0 };
        // Both are far below 2^32.
        bytes[8..12].copy_from_slice(&(self.window as u32).to_be_bytes());
        bytes[12..].copy_from_slice(&(self.length as u32).to_be_bytes());
        bytes
    }

    /// Decodes the description of the traffic; `None` for anything else, and for values above the limits.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LEN] = bytes.first_chunk()?;
        if bytes[..4] != MAGIC || bytes[4] != VERSION || bytes[6] & !VERIFY != 0 || bytes[7] != 0 {
            return None;
        }
        let number = |at: usize| -> Option<usize> {
            let number = u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?);
            usize::try_from(number).ok()
        };
        let kinds = [Kind::PingPong, Kind::Stream, Kind::Memory];
        let traffic = Self {
            kind: *kinds.get(usize::from(bytes[5]))?,
            window: number(8)?,
            length: number(12)?,
            verify: bytes[6] & VERIFY != 0,
        };
        traffic.is_within_limits().then_some(traffic)
    }

    /// Fills a buffer with the pattern of message number `seq`, if messages are verified.
    pub(crate) fn fill(&self, message: &mut [u8], seq: u64) {
        if self.verify {
            for (at, byte) in message.iter_mut().enumerate() {
                *byte = pattern(seq, at);
            }
        }
    }

    /// Returns whether the `len` received bytes of a buffer are message number `seq`: its length, and its content if
    /// messages are verified.
    pub(crate) fn is_intact(&self, message: &[u8], len: usize, seq: u64) -> bool {
        let mut bytes = message.iter().take(len).enumerate();
        len == self.length && (!self.verify || bytes.all(|(at, byte)| *byte == pattern(seq, at)))
    }
}

#[kernel::prelude::kunit_tests(kofi_perf_protocol)]
mod tests {
    use super::*;

    const STREAM: Traffic = Traffic {
        kind: Kind::Stream,
        window: 16,
        length: 65536,
        verify: true,
    };

    #[test]
    fn report_has_a_fixed_length() {
        let mut answer = [0xff; 12];
        write_report(&mut answer, 0x1_0000_0002);
        assert_eq!(answer, [0, 0, 0, 1, 0, 0, 0, 2, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(read_report(&answer, REPORT), Some(0x1_0000_0002));
        for len in [0, 7, 9, 12, 13] {
            assert_eq!(read_report(&answer, len), None);
        }
    }

    #[test]
    fn rejections_are_decoded() {
        for refusal in [Refusal::Full, Refusal::Unknown] {
            let mut data = [0; 148];
            data[..REASON].copy_from_slice(&write_refusal(refusal));
            assert_eq!(read_refusal(&data), Some(refusal));
            assert_eq!(read_refusal(&data[..REASON]), Some(refusal));
            assert_eq!(read_refusal(&data[..REASON - 1]), None);
            for at in 0..REASON {
                data[at] ^= 0x80;
                assert_eq!(read_refusal(&data), None);
                data[at] ^= 0x80;
            }
        }
        assert_eq!(read_refusal(&[0; 148]), None);
        assert_eq!(read_refusal(&[]), None);
    }

    #[test]
    fn grants_are_decoded() {
        let region = RemoteMemory {
            addr: 0x0102_0304_0506_0708,
            key: u64::MAX,
        };
        let data = write_grant(region);
        assert_eq!(read_grant(&data), Some(region));
        // Private data is padded with zeroes on some transports.
        let mut padded = [0; 56];
        padded[..16].copy_from_slice(&data);
        assert_eq!(read_grant(&padded), Some(region));
        assert_eq!(read_grant(&data[..15]), None);
    }

    #[test]
    fn traffic_parameters_round_trip() {
        for kind in [Kind::PingPong, Kind::Stream, Kind::Memory] {
            for verify in [false, true] {
                let sent = Traffic {
                    kind,
                    verify,
                    ..STREAM
                };
                let received = Traffic::from_bytes(&sent.to_bytes());
                assert!(received
                    .is_some_and(|traffic| traffic.kind == kind && traffic.verify == verify));
                assert!(
                    received.is_some_and(|traffic| (traffic.window, traffic.length) == (16, 65536))
                );
            }
        }
    }

    #[test]
    fn malformed_traffic_parameters_are_rejected() {
        let good = STREAM.to_bytes();
        for len in 0..good.len() {
            assert!(Traffic::from_bytes(&good[..len]).is_none());
        }
        // Another value of a constant field, and values above the limits.
        for (at, value) in [
            (0, 0),
            (3, 0),
            (4, 2),
            (5, 3),
            (6, 2),
            (7, 1),
            (8, 1),
            (12, 1),
        ] {
            let mut bytes = good;
            bytes[at] = value;
            assert!(Traffic::from_bytes(&bytes).is_none());
        }
        for zero in [8..12, 12..16] {
            let mut bytes = good;
            bytes[zero].fill(0);
            assert!(Traffic::from_bytes(&bytes).is_none());
        }
    }

    const VERIFIED: Traffic = Traffic {
        kind: Kind::PingPong,
        window: 1,
        length: 300,
        verify: true,
    };

    #[test]
    fn every_byte_is_verified() {
        let mut message = [0; 310];
        for seq in [0, 1, 36, u64::MAX] {
            VERIFIED.fill(&mut message, seq);
            assert!(VERIFIED.is_intact(&message, 300, seq));
            assert!(!VERIFIED.is_intact(&message, 299, seq));
            assert!(!VERIFIED.is_intact(&message, 301, seq));
            assert!(!VERIFIED.is_intact(&message, 300, seq.wrapping_add(1)));
            for at in [0, 1, 299] {
                message[at] ^= 1;
                assert!(!VERIFIED.is_intact(&message, 300, seq));
                message[at] ^= 1;
            }
        }
    }

    #[test]
    fn without_verification_only_the_length_is_checked() {
        let unverified = Traffic {
            verify: false,
            ..VERIFIED
        };
        let mut message = [7; 300];
        unverified.fill(&mut message, 1);
        assert_eq!(message, [7; 300]);
        assert!(unverified.is_intact(&message, 300, 1));
        assert!(!unverified.is_intact(&message, 0, 1));
    }
}
