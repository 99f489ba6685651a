// SPDX-License-Identifier: GPL-2.0

//! Transmit buffers of operations to a peer: buffers of the pool, as far as its budget permits, or a reserved buffer.
//! Guarded by `EpCore::inner`.
//!
//! A connected peer that the budget refuses gets one of `RESERVES` buffers. That gives each of as many peers one
//! operation, whatever the others hold. Peers whose operations complete have the share of the budget that slow peers
//! leave, and seldom need a reserved buffer.

use super::super::{
    ep_state::EpState,
    pkt_buf::{
        BufState,
        Packet, //
    },
    tx_pool::TxWaiter, //
};
use crate::fi::prelude::*;

impl EpState {
    /// Takes a transmit buffer for an operation to a peer. If there is none for it, `tx_waiter` is woken when a buffer
    /// is put back.
    #[inline(always)]
    pub(in super::super) fn packet(
        &mut self,
        to: &SocketAddr,
        peer_idx: Option<u32>,
        tx_waiter: &Arc<TxWaiter>,
    ) -> Option<ListBox<Packet>> {
        let Self {
            peers,
            tx_pool,
            tx_reserves,
            unresolved,
            ..
        } = self;
        let peer = peer_idx.and_then(|peer_idx| peers.get_mut(peer_idx as usize)?.as_mut());
        let Some(peer) = peer else {
            return tx_pool.take_or_wait(&mut unresolved.share(to), tx_waiter);
        };
        tx_pool
            .take_or_wait(&mut peer.tx_share, tx_waiter)
            .or_else(|| {
                let is_open = peer.conn.as_ref().is_some_and(|conn| conn.is_open());
                if !is_open || peer.holds_reserve {
                    return None;
                }
                let packet = tx_reserves.pop()?;
                peer.holds_reserve = true;
                Some(packet)
            })
    }

    /// Puts back the buffer of an operation that has ended; `is_done` tells whether it was successful.
    #[inline(always)]
    pub(in super::super) fn put_tx_buf(&mut self, packet: ListBox<Packet>, is_done: bool) {
        let Some(Some(peer)) = self.peers.get_mut(packet.peer_idx as usize) else {
            // Cannot happen: a peer with an operation is not removed.
            return;
        };
        peer.tx_count -= 1;
        if is_done {
            peer.stalled_checks = 0;
        }
        match packet.is_reserve() {
            false => self.tx_pool.put(packet, &mut peer.tx_share, is_done),
            true => self.put_reserve(packet, is_done),
        }
    }

    /// Puts back the buffer of a segment.
    pub(in super::super) fn put_segment_buf(&mut self, packet: ListBox<Packet>) {
        if let Some(Some(peer)) = self.peers.get_mut(packet.peer_idx as usize) {
            self.tx_pool.put(packet, &mut peer.tx_share, false);
        }
    }

    /// Puts back a reserved buffer.
    #[cold]
    fn put_reserve(&mut self, mut packet: ListBox<Packet>, is_done: bool) {
        packet.state = BufState::Free;
        let Some(Some(peer)) = self.peers.get_mut(packet.peer_idx as usize) else {
            return;
        };
        if is_done {
            self.tx_pool.note_completion(&mut peer.tx_share);
        }
        peer.holds_reserve = false;
        self.tx_reserves.push(packet);
        self.tx_pool.wake_waiters();
    }
}
