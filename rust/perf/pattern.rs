// SPDX-License-Identifier: GPL-2.0

//! The payload pattern of messages, which the receiver verifies.

use super::config::Traffic;

/// Returns byte `at` of message number `seq`: neighbours differ.
fn pattern(seq: u64, at: usize) -> u8 {
    (seq.wrapping_mul(7) as usize).wrapping_add(at) as u8
}

impl Traffic {
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

#[kernel::prelude::kunit_tests(kofi_perf_pattern)]
mod tests {
    use super::{
        super::config::Kind,
        *, //
    };

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
