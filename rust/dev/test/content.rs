// SPDX-License-Identifier: GPL-2.0

//! What the messages of a test hold, where that is looked at.

use super::request::Traffic;

/// What byte `at` of message number `seq` is: no two in a row are alike.
fn pattern(seq: u64, at: usize) -> u8 {
    (seq.wrapping_mul(7) as usize).wrapping_add(at) as u8
}

impl Traffic {
    /// Makes a buffer message number `seq`, if it will be looked at.
    pub(super) fn fill(&self, message: &mut [u8], seq: u64) {
        if self.verify {
            for (at, byte) in message.iter_mut().enumerate() {
                *byte = pattern(seq, at);
            }
        }
    }

    /// Whether what was received, `len` bytes of it, is message number `seq`.
    pub(super) fn is_good(&self, message: &[u8], len: usize, seq: u64) -> bool {
        let mut bytes = message.iter().take(len).enumerate();
        len == self.length && (!self.verify || bytes.all(|(at, byte)| *byte == pattern(seq, at)))
    }
}

#[kernel::prelude::kunit_tests(kofi_dev_test_content)]
mod tests {
    use super::{
        super::request::Kind,
        *, //
    };

    const LOOKED_AT: Traffic = Traffic {
        kind: Kind::PingPong,
        window: 1,
        length: 300,
        verify: true,
    };

    #[test]
    fn every_byte_is_looked_at() {
        let mut message = [0; 310];
        for seq in [0, 1, 36, u64::MAX] {
            LOOKED_AT.fill(&mut message, seq);
            assert!(LOOKED_AT.is_good(&message, 300, seq));
            assert!(!LOOKED_AT.is_good(&message, 299, seq));
            assert!(!LOOKED_AT.is_good(&message, 301, seq));
            assert!(!LOOKED_AT.is_good(&message, 300, seq.wrapping_add(1)));
            for at in [0, 1, 299] {
                message[at] ^= 1;
                assert!(!LOOKED_AT.is_good(&message, 300, seq));
                message[at] ^= 1;
            }
        }
    }

    #[test]
    fn only_the_length_is_where_nothing_is_looked_at() {
        let unseen = Traffic {
            verify: false,
            ..LOOKED_AT
        };
        let mut message = [7; 300];
        unseen.fill(&mut message, 1);
        assert_eq!(message, [7; 300]);
        assert!(unseen.is_good(&message, 300, 1));
        assert!(!unseen.is_good(&message, 0, 1));
    }
}
