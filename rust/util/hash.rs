// SPDX-License-Identifier: GPL-2.0

//! Hashes for hash tables. If a peer chooses the entries of a table, the hash is the kernel's `hsiphash` or `siphash`
//! with a random secret key, so that a peer cannot cause collisions.

use super::random::random;
use core::net::SocketAddr;

/// Returns an unkeyed hash of a word that no peer chooses, such as a pointer.
#[inline(always)]
pub(crate) fn hash_local(word: usize) -> u32 {
    ((word as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// Secret random key for the hashes of one or several tables.
pub(crate) struct HashSeed([u64; 2]);

impl HashSeed {
    /// Creates a random key. Any context.
    pub(crate) fn new() -> Self {
        Self([random(), random()])
    }

    /// Returns the hash of one word.
    #[inline]
    pub(crate) fn hash_1(&self, word: u64) -> u32 {
        // SAFETY: The key has two words, which are not shorter than those of `hsiphash_key_t`.
        unsafe {
            kernel::bindings::hsiphash_2u32(
                word as u32,
                (word >> 32) as u32,
                self.0.as_ptr().cast(),
            )
        }
    }

    /// Returns the hash of a word and an address.
    #[inline]
    pub(crate) fn hash_addr(&self, word: u64, addr: &SocketAddr) -> u32 {
        match addr {
            SocketAddr::V4(addr) => {
                let addr = u64::from(addr.ip().to_bits()) << 16 | u64::from(addr.port());
                self.hash_2([word, addr])
            }
            SocketAddr::V6(addr) => {
                let ip = addr.ip().to_bits();
                self.hash_4([word, (ip >> 64) as u64, ip as u64, addr.port().into()])
            }
        }
    }

    /// Returns the hash of two words.
    #[inline]
    fn hash_2(&self, [first, second]: [u64; 2]) -> u32 {
        // SAFETY: As in `hash_1()`.
        unsafe {
            kernel::bindings::hsiphash_4u32(
                first as u32,
                (first >> 32) as u32,
                second as u32,
                (second >> 32) as u32,
                self.0.as_ptr().cast(),
            )
        }
    }

    /// Returns the hash of four words.
    fn hash_4(&self, [first, second, third, fourth]: [u64; 4]) -> u32 {
        // SAFETY: The key has two words of 64 bits, as `siphash_key_t` has.
        let hash = unsafe {
            kernel::bindings::siphash_4u64(first, second, third, fourth, self.0.as_ptr().cast())
        };
        hash as u32
    }
}
