// SPDX-License-Identifier: GPL-2.0

//! What servers that lend memory and their clients agree on.

// Each sample has its part.
#![allow(dead_code)]

use kofi::{
    abi::FI_ATOMIC,
    fi::msg::RemoteMemory, //
};

/// What is lent, as a server says with its accept: four numbers, most significant byte first.
#[derive(Clone, Copy)]
pub(crate) struct Grant {
    pub(crate) region: RemoteMemory,
    pub(crate) len: usize,
    pub(crate) has_atomics: bool,
}

impl Grant {
    pub(crate) fn to_bytes(self) -> [u8; 32] {
        let caps = if self.has_atomics { FI_ATOMIC } else { 0 };
        let numbers = [self.region.addr, self.region.key, self.len as u64, caps];
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
            region: RemoteMemory {
                addr: u64::from_be_bytes(addr),
                key: u64::from_be_bytes(key),
            },
            len: usize::try_from(u64::from_be_bytes(len)).ok()?,
            has_atomics: u64::from_be_bytes(caps) & FI_ATOMIC != 0,
        })
    }
}
