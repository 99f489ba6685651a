// SPDX-License-Identifier: GPL-2.0

//! What the two sides of a test say to each other.
//!
//! A client says with its request to connect what it is going to do: sixteen bytes, numbers with their
//! most significant byte first: `kOFI`, a byte each for the version of all this (1), the kind, the flags
//! and 0, then four for the window and four for the length.
//!
//! Who is going to reach into the server's memory, which has room for a window of accesses or as many as
//! fit into 1 MiB, and is nothing but zeroes, is told with the accept where it is: eight bytes for the
//! address and eight for the key. The others are told nothing. A message there and back needs no more.
//!
//! A stream is sent on credit: there is no RNR retry on iWARP, and a message that finds no receive ends the
//! connection. The server has room for two windows, and gives an empty message back for each that it has
//! received and made room for again. An empty message ends the stream, and is answered with eight bytes:
//! how many were damaged.
//!
//! A server that refuses says why: `kOFI`, the version, a byte for the reason, and two that are 0.

use super::request::{
    Kind,
    Traffic, //
};
use crate::{
    abi,
    fi::msg::RemoteMemory, //
};

const MAGIC: [u8; 4] = *b"kOFI";
const VERSION: u8 = 1;
const VERIFY: u8 = 1;

/// Bytes of what a client says.
const LEN: usize = 16;

/// Bytes of what a server says.
const GRANT: usize = 16;

/// Bytes of the answer to a stream.
pub(super) const REPORT: usize = 8;

/// Bytes of why it does not.
const REASON: usize = 8;

/// Why a server refuses a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// It has as many clients as it can serve at once, or as large ones.
    Full,
    /// It does not know what it is asked for.
    Unknown,
}

/// As `enum kofi_test_refusal` has it.
impl From<Refusal> for u32 {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Full => abi::KOFI_TEST_REFUSAL_FULL,
            Refusal::Unknown => abi::KOFI_TEST_REFUSAL_UNKNOWN,
        }
    }
}

/// What a refusal says.
pub(super) fn write_refusal(refusal: Refusal) -> [u8; REASON] {
    let mut bytes = [0; REASON];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4] = VERSION;
    bytes[5] = match refusal {
        Refusal::Full => 1,
        Refusal::Unknown => 2,
    };
    bytes
}

/// Why the server refuses; none if nothing is said of it, or something that is not known here.
pub(super) fn read_refusal(bytes: &[u8]) -> Option<Refusal> {
    let bytes: &[u8; REASON] = bytes.first_chunk()?;
    [Refusal::Full, Refusal::Unknown]
        .into_iter()
        .find(|&refusal| *bytes == write_refusal(refusal))
}

/// What is said of memory that is lent.
pub(super) fn write_grant(region: RemoteMemory) -> [u8; GRANT] {
    let mut bytes = [0; GRANT];
    bytes[..8].copy_from_slice(&region.addr.to_be_bytes());
    bytes[8..].copy_from_slice(&region.key.to_be_bytes());
    bytes
}

/// Where the memory is; none if nothing is said of it.
pub(super) fn read_grant(bytes: &[u8]) -> Option<RemoteMemory> {
    let (words, _) = bytes.as_chunks::<8>();
    let [addr, key, ..] = *words else {
        return None;
    };
    Some(RemoteMemory {
        addr: u64::from_be_bytes(addr),
        key: u64::from_be_bytes(key),
    })
}

/// Puts how many were damaged into the answer.
pub(super) fn write_report(answer: &mut [u8], damaged: u64) {
    if let Some(count) = answer.first_chunk_mut() {
        *count = damaged.to_be_bytes();
    }
}

/// How many were damaged; none if the message is no such answer.
pub(super) fn read_report(message: &[u8], len: usize) -> Option<u64> {
    let count = message.get(..len)?.as_array()?;
    Some(u64::from_be_bytes(*count))
}

impl Traffic {
    /// What is said.
    pub(super) fn to_bytes(self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = match self.kind {
            Kind::PingPong => 0,
            Kind::Stream => 1,
            Kind::Memory => 2,
        };
        bytes[6] = if self.verify { VERIFY } else { 0 };
        // Both are bounded by far less.
        bytes[8..12].copy_from_slice(&(self.window as u32).to_be_bytes());
        bytes[12..].copy_from_slice(&(self.length as u32).to_be_bytes());
        bytes
    }

    /// What somebody has said; none if it is not this, or more than anybody may ask for.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LEN] = bytes.first_chunk()?;
        if bytes[..4] != MAGIC || bytes[4] != VERSION || bytes[6] & !VERIFY != 0 || bytes[7] != 0 {
            return None;
        }
        let number = |at: usize| -> Option<usize> {
            let number = u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?);
            usize::try_from(number).ok()
        };
        let traffic = Self {
            kind: match bytes[5] {
                0 => Kind::PingPong,
                1 => Kind::Stream,
                2 => Kind::Memory,
                _ => return None,
            },
            window: number(8)?,
            length: number(12)?,
            verify: bytes[6] & VERIFY != 0,
        };
        traffic.is_bounded().then_some(traffic)
    }
}

#[kernel::prelude::kunit_tests(kofi_dev_test_protocol)]
mod tests {
    use super::*;

    const ASKED: Traffic = Traffic {
        kind: Kind::Stream,
        window: 16,
        length: 65536,
        verify: true,
    };

    #[test]
    fn a_report_is_as_long_as_it_is() {
        let mut answer = [0xff; 12];
        write_report(&mut answer, 0x1_0000_0002);
        assert_eq!(answer, [0, 0, 0, 1, 0, 0, 0, 2, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(read_report(&answer, REPORT), Some(0x1_0000_0002));
        for len in [0, 7, 9, 12, 13] {
            assert_eq!(read_report(&answer, len), None);
        }
    }

    #[test]
    fn a_refusal_is_understood() {
        for refusal in [Refusal::Full, Refusal::Unknown] {
            let mut said = [0; 148];
            said[..REASON].copy_from_slice(&write_refusal(refusal));
            assert_eq!(read_refusal(&said), Some(refusal));
            assert_eq!(read_refusal(&said[..REASON]), Some(refusal));
            assert_eq!(read_refusal(&said[..REASON - 1]), None);
            for at in 0..REASON {
                said[at] ^= 0x80;
                assert_eq!(read_refusal(&said), None);
                said[at] ^= 0x80;
            }
        }
        assert_eq!(read_refusal(&[0; 148]), None);
        assert_eq!(read_refusal(&[]), None);
    }

    #[test]
    fn a_grant_is_understood() {
        let region = RemoteMemory {
            addr: 0x0102_0304_0506_0708,
            key: u64::MAX,
        };
        let said = write_grant(region);
        assert_eq!(read_grant(&said), Some(region));
        // User space may have padded it.
        let mut padded = [0; 56];
        padded[..16].copy_from_slice(&said);
        assert_eq!(read_grant(&padded), Some(region));
        assert_eq!(read_grant(&said[..15]), None);
    }

    #[test]
    fn what_is_said_is_understood() {
        for kind in [Kind::PingPong, Kind::Stream, Kind::Memory] {
            for verify in [false, true] {
                let said = Traffic {
                    kind,
                    verify,
                    ..ASKED
                };
                let heard = Traffic::from_bytes(&said.to_bytes());
                assert!(heard.is_some_and(|heard| heard.kind == kind && heard.verify == verify));
                assert!(heard.is_some_and(|heard| (heard.window, heard.length) == (16, 65536)));
            }
        }
    }

    #[test]
    fn what_is_something_else_is_refused() {
        let good = ASKED.to_bytes();
        for len in 0..good.len() {
            assert!(Traffic::from_bytes(&good[..len]).is_none());
        }
        // Any other value of what has but one, and more than there may be.
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
        for nothing in [8..12, 12..16] {
            let mut bytes = good;
            bytes[nothing].fill(0);
            assert!(Traffic::from_bytes(&bytes).is_none());
        }
    }
}
