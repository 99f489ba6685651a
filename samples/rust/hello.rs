// SPDX-License-Identifier: GPL-2.0

//! What a datagram server and its clients tell each other, as `samples/c/datagram.h` has it.

use core::net::{
    Ipv4Addr,
    SocketAddr,
    SocketAddrV4, //
};
use kofi::fi::rdm::RemoteMemory;

/// A tag is the client's number, and what is to be done.
pub(crate) const TAGS: u64 = 256;
pub(crate) const ECHO: u64 = 1;
pub(crate) const FLIP: u64 = 2;
pub(crate) const COUNT: u64 = 3;

/// How often the server counts when it is asked to.
pub(crate) const COUNTS: usize = 8;

/// The family of the only addresses.
const AF_INET: u16 = 2;

/// From the client: where it receives, and memory that it lends.
pub(crate) struct Hello {
    pub(crate) address: SocketAddr,
    pub(crate) region: RemoteMemory,
    pub(crate) len: usize,
}

impl Hello {
    /// Bytes of one: a `struct sockaddr_in`, and three numbers, most significant byte first.
    pub(crate) const SIZE: usize = 40;

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, _) = bytes.as_chunks::<8>();
        let [name, _, base, key, len] = *words else {
            return None;
        };
        let [family @ .., p, q, a, b, c, d] = name;
        if u16::from_ne_bytes(family) != AF_INET {
            return None;
        }
        let port = u16::from_be_bytes([p, q]);
        Some(Self {
            address: SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), port).into(),
            region: RemoteMemory {
                addr: u64::from_be_bytes(base),
                key: u64::from_be_bytes(key),
            },
            len: usize::try_from(u64::from_be_bytes(len)).ok()?,
        })
    }
}

/// Bytes of a [`welcome`].
pub(crate) const WELCOME: usize = 32;

/// To the client: its number, and memory that the server lends.
pub(crate) fn welcome(number: usize, region: RemoteMemory, len: usize) -> [u8; WELCOME] {
    let mut bytes = [0; WELCOME];
    let (words, _) = bytes.as_chunks_mut::<8>();
    for (word, number) in words
        .iter_mut()
        .zip([number as u64, region.addr, region.key, len as u64])
    {
        *word = number.to_be_bytes();
    }
    bytes
}
