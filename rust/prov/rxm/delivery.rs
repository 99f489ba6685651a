// SPDX-License-Identifier: GPL-2.0

//! Messages with FI_DELIVERY_COMPLETE, which complete when they are in the receives of the peer. Guarded by
//! `EpCore::inner`.
//!
//! A peer with [`Extensions::DELIVERY`] acknowledges eager and segmented messages by their [slots](Acks). A rendezvous
//! message needs no slot: the peer notifies its sender when it has read it. To a peer without the extension, such as
//! libfabric, every message therefore goes by rendezvous, except one of no bytes, which completes when it has been sent.
//!
//! [`Acks`]: super::conn::acks::Acks

use super::{
    completion::CompSinks,
    conn::Conn,
    ep_state::EpState,
    inflight::Inflight,
    local::SEGMENTED,
    pkt_buf::Packet,
    tx_op::TxOp,
    wire::{
        AckSlot,
        Extensions,
        PktHdr,
        ProtoError, //
    },
};
use crate::fi::prelude::*;

impl Conn {
    /// Returns whether the peer acknowledges messages.
    #[inline]
    pub(super) fn has_acks(&self) -> bool {
        self.extensions.have(Extensions::DELIVERY)
    }

    /// Assigns an acknowledgement slot to a message that needs one. Returns false if none is free.
    #[cold]
    pub(super) fn assign_slot(&mut self, packet: &mut Packet) -> bool {
        if !self.has_acks() || !matches!(packet.as_tx_op(), Some(TxOp::Eager | TxOp::Sar(_))) {
            return true;
        }
        let slot = self.acks.take_slot();
        if slot.is_some() {
            packet.set_ack_slot(slot);
        }
        slot.is_some()
    }

    /// Frees the acknowledgement slot of an operation that was not posted, unless a segment of it was.
    #[inline]
    pub(super) fn unassign_slot(&mut self, packet: &mut Packet) {
        if let Some(slot) = packet.ack_slot().filter(|_| !packet.has_started()) {
            self.acks.free_slot(slot);
            packet.set_ack_slot(None);
        }
    }

    /// Acknowledges the delivered messages of the peer, if a packet can be sent.
    #[inline]
    pub(super) fn send_acks(&mut self, inflight: &mut Inflight<Packet>) {
        let slots = self.acks.delivered();
        if slots != 0 && self.send_ctrl_with_credit(inflight, &PktHdr::Ack(slots)) {
            self.acks.sent(slots);
        }
    }
}

impl EpState {
    /// Completes a message that has been sent, or keeps it until the peer has acknowledged it.
    #[inline]
    pub(super) fn message_sent(&mut self, sinks: &CompSinks, packet: ListBox<Packet>) {
        match packet.ack_slot() {
            None => self.finish(sinks, packet, Ok(())),
            Some(slot) => self.await_ack(sinks, packet, slot),
        }
    }

    #[cold]
    fn await_ack(&mut self, sinks: &CompSinks, packet: ListBox<Packet>, slot: AckSlot) {
        let conn = self.conn(packet.peer_idx);
        let conn = conn.filter(|conn| conn.conn_gen == packet.conn_gen);
        match conn.is_some_and(|conn| conn.acks.is_acked(slot)) {
            true => self.acknowledged(sinks, packet),
            false => self.await_reply(sinks, packet),
        }
    }

    /// Completes a message that has been sent and acknowledged.
    fn acknowledged(&mut self, sinks: &CompSinks, packet: ListBox<Packet>) {
        let conn = self.conn(packet.peer_idx);
        if let (Some(conn), Some(slot)) = (conn, packet.ack_slot()) {
            conn.acks.free_slot(slot);
        }
        self.finish(sinks, packet, Ok(()));
    }

    /// Handles an acknowledgement of the messages in `slots`.
    ///
    /// # Errors
    ///
    /// The acknowledgement names no message, or one that awaits none.
    pub(super) fn handle_ack(
        &mut self,
        sinks: &CompSinks,
        peer_idx: u32,
        slots: u64,
    ) -> core::result::Result<(), ProtoError> {
        let Some(peer) = self.peer(peer_idx) else {
            return Ok(());
        };
        let Some(conn) = &mut peer.conn else {
            return Ok(());
        };
        conn.acks.on_ack(slots)?;
        // The others complete when their sends have.
        let mut sent = peer.awaiting_reply.drain_where(|packet| {
            let slot = packet.ack_slot();
            slot.is_some_and(|slot| slots & slot.bit() != 0)
        });
        while let Some(packet) = sent.pop() {
            self.acknowledged(sinks, packet);
        }
        Ok(())
    }

    /// Records that a message, which may ask for an acknowledgement, is in its receive. The caller makes progress for
    /// the peer.
    #[inline(always)]
    pub(super) fn delivered(&mut self, peer_idx: u32, conn_gen: usize, ack: Option<AckSlot>) {
        if let Some(slot) = ack {
            self.deliver_slot(peer_idx, conn_gen, slot);
        }
    }

    #[cold]
    fn deliver_slot(&mut self, peer_idx: u32, conn_gen: usize, slot: AckSlot) {
        let conn = self.conn(peer_idx);
        if let Some(conn) = conn.filter(|conn| conn.conn_gen == conn_gen) {
            conn.acks.deliver(slot);
        }
    }

    /// Returns the result of a message whose memory could not be registered for rendezvous; `None` if it can be sent
    /// in segments.
    pub(super) fn registration_failed(
        &mut self,
        packet: &mut Packet,
        errno: Errno,
    ) -> Option<Result> {
        if packet.is_tagged_access() {
            return Some(Err(errno));
        }
        let len = packet.rndv_tx().map_or(0, |rndv_tx| rndv_tx.message.len);
        let conn = self.conn(packet.peer_idx);
        // A shorter message goes by rendezvous only because the peer does not acknowledge it otherwise.
        let must_be_read =
            len <= SEGMENTED as u64 || conn.is_some_and(|conn| !conn.has_acks() && conn.is_open());
        (packet.wants_ack() && must_be_read).then_some(Err(errno))
    }
}
