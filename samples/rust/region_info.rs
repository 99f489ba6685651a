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
        let (words, _) = bytes.as_chunks_mut::<8>();
        for (word, number) in words.iter_mut().zip(numbers) {
            *word = number.to_be_bytes();
        }
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, _) = bytes.as_chunks::<8>();
        let [addr, key, len, caps, ..] = *words else {
            return None;
        };
        Some(Self {
            remote: RemoteMemory {
                addr: u64::from_be_bytes(addr),
                key: u64::from_be_bytes(key),
            },
            len: usize::try_from(u64::from_be_bytes(len)).ok()?,
            has_atomics: u64::from_be_bytes(caps) & FI_ATOMIC != 0,
        })
    }
}
