// SPDX-License-Identifier: GPL-2.0

//! Protocol of a datagram server and its clients, as in `samples/c/datagram.h`.

use core::net::{
    Ipv4Addr,
    SocketAddr,
    SocketAddrV4, //
};
use kofi::fi::rdm::RemoteMemory;

/// A tag is the client's number times `TAGS`, plus one of these requests.
pub(crate) const TAGS: u64 = 256;
/// Returns the message.
pub(crate) const ECHO: u64 = 1;
/// Reads the client's region, and writes it back inverted.
pub(crate) const FLIP: u64 = 2;
/// Increments the first word of the client's region, and of the server's; see [`COUNTS`].
pub(crate) const COUNT: u64 = 3;

/// Number of times that a `COUNT` request increments the first word of the client's region, and that of the
/// server's.
pub(crate) const COUNTS: usize = 8;

/// Address family of a client.
const AF_INET: u16 = 2;

/// First message of a client: its address, and the memory region that it exposes.
pub(crate) struct Hello {
    pub(crate) address: SocketAddr,
    pub(crate) region: RemoteMemory,
    pub(crate) len: usize,
}

impl Hello {
    /// Length of the message: a `struct sockaddr_in`, and three big-endian words.
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

/// Length of a [`welcome`] message.
pub(crate) const WELCOME: usize = 32;

/// Returns the reply to a [`Hello`]: the client's number, and the memory region that the server exposes.
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
