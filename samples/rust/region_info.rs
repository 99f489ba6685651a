// SPDX-License-Identifier: GPL-2.0

//! The memory region that a server exposes, as in `samples/c/region_info.h`.

// A sample uses only some of the functions.
#![allow(dead_code)]

use kofi::{
    abi::FI_ATOMIC,
    fi::msg::RemoteMemory, //
};

/// Memory region that a server exposes: the private data of its accept is this, as four big-endian words.
#[derive(Clone, Copy)]
pub(crate) struct RegionInfo {
    pub(crate) remote: RemoteMemory,
    pub(crate) len: usize,
    pub(crate) has_atomics: bool,
}

impl RegionInfo {
    pub(crate) fn to_bytes(self) -> [u8; 32] {
        let caps = if self.has_atomics { FI_ATOMIC } else { 0 };
        let numbers = [self.remote.addr, self.remote.key, self.len as u64, caps];
        let mut bytes = [0; 32];
        for (word, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            word.copy_from_slice(&number.to_be_bytes());
        }
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_be_bytes(*bytes.get(8 * at..)?.first_chunk()?));
        Some(Self {
            remote: RemoteMemory {
                addr: word(0)?,
                key: word(1)?,
            },
            len: usize::try_from(word(2)?).ok()?,
            has_atomics: word(3)? & FI_ATOMIC != 0,
        })
    }
}
