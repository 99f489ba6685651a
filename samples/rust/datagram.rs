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
        let bytes: &[u8; Self::SIZE] = bytes.try_into().ok()?;
        let word = |at: usize| Some(u64::from_be_bytes(*bytes.get(8 * at..)?.first_chunk()?));
        let [family @ .., p, q, a, b, c, d] = *bytes.first_chunk::<8>()?;
        if u16::from_ne_bytes(family) != AF_INET {
            return None;
        }
        let port = u16::from_be_bytes([p, q]);
        Some(Self {
            address: SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), port).into(),
            region: RemoteMemory {
                addr: word(2)?,
                key: word(3)?,
            },
            len: usize::try_from(word(4)?).ok()?,
        })
    }
}

/// Length of a [`welcome`] message.
pub(crate) const WELCOME: usize = 32;

/// Returns the reply to a [`Hello`]: the client's number, and the memory region that the server exposes.
pub(crate) fn welcome(number: usize, region: RemoteMemory, len: usize) -> [u8; WELCOME] {
    let mut bytes = [0; WELCOME];
    let numbers = [number as u64, region.addr, region.key, len as u64];
    for (word, number) in bytes.chunks_exact_mut(8).zip(numbers) {
        word.copy_from_slice(&number.to_be_bytes());
    }
    bytes
}
