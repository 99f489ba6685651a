// SPDX-License-Identifier: GPL-2.0

//! Transmit operations whose peer has no index yet, until the connection manager assigns one. Guarded by
//! `EpCore::inner`.
//!
//! There are at most as many as buffers, so a walk over all of them is short.

use super::{
    super::{
        completion::CompSinks,
        ep_state::EpState,
        inflight::Indexed,
        pkt_buf::Packet, //
    },
    TxShare, //
};
use crate::fi::prelude::*;

/// Operations to addresses without a peer index, in order.
pub(in super::super) struct Unresolved(BoxList<Packet>);

impl Unresolved {
    /// Creates an empty list.
    pub(in super::super) const fn new() -> Self {
        Self(BoxList::new())
    }

    /// Returns whether there is no operation.
    #[inline(always)]
    pub(in super::super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the share of an address: the buffers of its operations. None of them can have completed.
    pub(in super::super) fn share(&self, addr: &SocketAddr) -> TxShare {
        TxShare::slow(self.iter().filter(|packet| packet.dest == *addr).count())
    }

    /// Adds an operation to `packet.dest`.
    pub(in super::super) fn push(&mut self, packet: ListBox<Packet>) {
        self.0.push(packet);
    }

    /// Removes the operation with that buffer.
    pub(in super::super) fn take(&mut self, number: u32) -> Option<ListBox<Packet>> {
        self.0
            .remove_first_where(|packet| packet.number() == number)
    }

    /// Returns the address of the first operation.
    pub(in super::super) fn next_addr(&self) -> Option<SocketAddr> {
        Some(self.0.front()?.dest)
    }

    /// Removes the operations for which `predicate` holds, in order.
    pub(in super::super) fn take_where(
        &mut self,
        predicate: impl Fn(&Packet) -> bool,
    ) -> BoxList<Packet> {
        self.0.drain_where(predicate)
    }

    /// Removes the operations to an address, in order.
    pub(in super::super) fn take_to(&mut self, addr: &SocketAddr) -> BoxList<Packet> {
        self.take_where(|packet| packet.dest == *addr)
    }

    /// Iterates over the operations.
    pub(in super::super) fn iter(&self) -> impl Iterator<Item = &Packet> {
        self.0.iter()
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
        self.tx_pool.put(packet, &mut TxShare::slow(1), false);
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
