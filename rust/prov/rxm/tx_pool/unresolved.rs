// SPDX-License-Identifier: GPL-2.0

//! Transmit operations whose peer has no index yet, until the connection manager assigns one. Guarded by
//! `EpCore::inner`.
//!
//! Operations are hashed by address, and the addresses of a hash share the budget of one peer.

use super::{
    super::{
        completion::CompSinks,
        ep_state::EpState,
        inflight::Indexed,
        pkt_buf::Packet, //
    },
    TxShare, //
};
use crate::{
    fi::prelude::*,
    util::owned_list::{
        BoxList,
        ListBox, //
    },
};

/// Number of hash values; a power of two.
const HASHES: usize = 16;

/// Operations to addresses of one hash.
struct Bucket {
    /// Operations, in order.
    packets: BoxList<Packet>,
    /// Buffers that they hold.
    share: TxShare,
}

/// Operations to addresses without a peer index.
pub(in super::super) struct Unresolved {
    buckets: [Bucket; HASHES],
    len: usize,
}

/// Returns a hash of an address, below a power of two `bound`.
pub(in super::super) fn addr_hash(addr: &SocketAddr, bound: usize) -> usize {
    let ip = match addr {
        SocketAddr::V4(addr) => u32::from(*addr.ip()),
        SocketAddr::V6(addr) => addr.ip().to_bits() as u32,
    };
    (ip ^ u32::from(addr.port())) as usize % bound
}

impl Unresolved {
    /// Creates an empty table.
    pub(in super::super) const fn new() -> Self {
        const EMPTY: Bucket = Bucket {
            packets: BoxList::new(),
            share: TxShare::new(),
        };
        Self {
            buckets: [EMPTY; HASHES],
            len: 0,
        }
    }

    /// Returns whether there is no operation.
    #[inline(always)]
    pub(in super::super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn bucket(&mut self, addr: &SocketAddr) -> &mut Bucket {
        &mut self.buckets[Self::hash(addr)]
    }

    /// Returns the share that operations to an address are counted in.
    pub(in super::super) fn share(&mut self, addr: &SocketAddr) -> &mut TxShare {
        &mut self.bucket(addr).share
    }

    /// Returns the hash of an address.
    pub(in super::super) fn hash(addr: &SocketAddr) -> usize {
        addr_hash(addr, HASHES)
    }

    /// Adds an operation to `packet.dest`.
    pub(in super::super) fn push(&mut self, packet: ListBox<Packet>) {
        self.len += 1;
        self.bucket(&packet.dest).packets.push(packet);
    }

    /// Removes the operation with that buffer, whose address has that hash.
    pub(in super::super) fn take(&mut self, hash: usize, number: u32) -> Option<ListBox<Packet>> {
        let packets = &mut self.buckets.get_mut(hash)?.packets;
        let taken = packets.remove_first_where(|packet| packet.number() == number)?;
        self.len -= 1;
        Some(taken)
    }

    /// Returns the address of one of the operations.
    pub(in super::super) fn next_addr(&self) -> Option<SocketAddr> {
        if self.is_empty() {
            return None;
        }
        let mut buckets = self.buckets.iter();
        buckets.find_map(|bucket| Some(bucket.packets.front()?.dest))
    }

    /// Removes the operations to an address, in order.
    pub(in super::super) fn take_to(&mut self, addr: &SocketAddr) -> BoxList<Packet> {
        let packets = &mut self.bucket(addr).packets;
        let taken = packets.drain_where(|packet| packet.dest == *addr);
        self.len -= taken.len();
        taken
    }

    /// Removes the operations for which `predicate` holds.
    pub(in super::super) fn take_where(
        &mut self,
        predicate: impl Fn(&Packet) -> bool,
    ) -> BoxList<Packet> {
        let mut taken = BoxList::new();
        for bucket in &mut self.buckets {
            taken.append(&mut bucket.packets.drain_where(&predicate));
        }
        self.len -= taken.len();
        taken
    }

    /// Iterates over the operations.
    pub(in super::super) fn iter(&self) -> impl Iterator<Item = &Packet> {
        self.buckets.iter().flat_map(|bucket| bucket.packets.iter())
    }

    /// Iterates over the shares, mutable.
    pub(in super::super) fn shares_mut(&mut self) -> impl Iterator<Item = &mut TxShare> {
        self.buckets.iter_mut().map(|bucket| &mut bucket.share)
    }
}

impl EpState {
    /// Ends an operation that has been removed.
    pub(in super::super) fn finish_unresolved(
        &mut self,
        sinks: &CompSinks,
        packet: ListBox<Packet>,
        errno: Errno,
    ) {
        self.queued_ops.remove(packet.number());
        if let Some(comp) = packet.tx_comp() {
            sinks.complete_tx(comp, Err(errno));
        }
        let share = self.unresolved.share(&packet.dest);
        self.tx_pool.put(packet, share, false);
    }

    /// Fails the operations to an address that cannot get an index.
    pub(in super::super) fn fail_unresolved(
        &mut self,
        sinks: &CompSinks,
        addr: &SocketAddr,
        errno: Errno,
    ) {
        let mut packets = self.unresolved.take_to(addr);
        while let Some(packet) = packets.pop() {
            self.finish_unresolved(sinks, packet, errno);
        }
    }
}
