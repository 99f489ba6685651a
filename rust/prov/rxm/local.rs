// SPDX-License-Identifier: GPL-2.0

//! Same-host path: the sender copies a message once, into the memory of the receiver.
//!
//! The sender releases its own `EpCore::inner` before it takes the receiver's, so no thread holds two. Meanwhile
//! other operations to this peer wait (`Conn::tx_exclusive`), and the loop provider keeps the connection open.
//!
//! A message takes this path only if nothing else to the peer is in flight, and the receiver first handles what has
//! arrived before, so no message is overtaken. If the receiver does not take the message, it goes in packets as to
//! any other peer. Their number is limited, so a peer that does not receive slows its senders down.

use super::{
    super::r#loop,
    completion::CompSinks,
    conn::{
        peer_idx_of_gen,
        Conn, //
    },
    dispatch::{
        RxMsg,
        RxOutcome, //
    },
    ep_core::EpCore,
    ep_state::EpState,
    iov::PostedSrc,
    matcher::MsgKey,
    pkt_buf::{
        BufState,
        Packet,
        TxAck, //
    },
    progress::BATCH,
    ring::Ring,
    turn::Held,
    tx_op::{
        RndvTx,
        SarTx,
        TxComp,
        TxOp, //
    },
    wire::{
        Message,
        PktHdr,
        EAGER, //
    },
};
use crate::fi::{
    ep,
    eq::Source, //
};
use core::any::Any;
use kernel::sync::Arc;

/// Largest message in bytes that is sent in segments or delivered locally; longer ones go by rendezvous.
pub(super) const SEGMENTED: usize = 8 * EAGER;

/// Number of times that a sender asks for the turn of the receiver, which may last as long as a few copies, before the
/// message goes as a packet.
const TURN_TRIES: u32 = 64;

/// A message in the memory of its sender.
pub(super) struct LocalMsg<'a> {
    /// The message.
    pub(super) message: Message,
    /// Memory of the message.
    pub(super) from: PostedSrc<'a>,
    /// True if the message completes when it is in its receive.
    pub(super) wants_ack: bool,
}

/// Exclusive use of the connection to a peer on the same host.
pub(super) struct LocalPath {
    peer_idx: u32,
    conn_gen: usize,
    ep: Arc<ep::Endpoint>,
}

impl LocalMsg<'_> {
    /// Makes the message a transmit operation in a packet buffer.
    #[inline(always)]
    pub(super) fn fill_packet(&self, packet: &mut Packet) {
        let Self {
            message,
            from,
            wants_ack,
        } = *self;
        if wants_ack {
            packet.ack = TxAck::Wanted;
        }
        let len = message.len as usize;
        if len <= EAGER {
            from.copy_to_slice(0, packet.payload());
            packet.write(0, &PktHdr::Eager(message), len);
            packet.state = BufState::Tx(TxOp::Eager);
            return;
        }
        let from = from.into_entry(|| packet.slot());
        packet.state = BufState::Tx(match len <= SEGMENTED {
            true => TxOp::Sar(SarTx {
                message,
                from,
                next: 0,
            }),
            false => TxOp::Rndv(RndvTx::new(message, from)),
        });
    }
}

impl LocalPath {
    /// Delivers a message to the peer. Returns true if the peer has taken it. The caller holds no lock.
    pub(super) fn deliver(&self, local_msg: &LocalMsg<'_>) -> bool {
        let call = |peer: &(dyn Any + Send + Sync), source: Source| {
            let core: Option<&EpCore> = peer.downcast_ref();
            core.is_some_and(|core| core.receive_local(source, local_msg))
        };
        let loop_ep = r#loop::Endpoint::from_endpoint(&self.ep);
        loop_ep
            .and_then(|loop_ep| loop_ep.call_peer(call))
            .unwrap_or(false)
    }
}

impl EpCore {
    /// Receives a message from a peer on the same host, whose connection has the given `source`. Returns true if it
    /// was taken.
    fn receive_local(&self, source: Source, local_msg: &LocalMsg<'_>) -> bool {
        let Ok(bound) = self.bound() else {
            return false;
        };
        let deliver = |_| {
            let mut held = self.hold();
            let ring = held.other_ring_of(peer_idx_of_gen(source.0));
            let queue = ring.as_ref().map_or(&bound.queue, |ring| &ring.queue);
            let is_taken = held.with_turn(|held, batch| {
                // If a batch is left, earlier messages of the sender may be in it.
                let drained = held.poll_lower((batch, BATCH), queue, false).drained;
                drained && held.receive_local(source.0, local_msg)
            })?;
            Some((is_taken, held.needs_cm_work()))
        };
        let Some((is_taken, needs_cm_work)) = (0..TURN_TRIES).find_map(deliver) else {
            return false;
        };
        if needs_cm_work {
            bound.schedule_cm_work();
        }
        is_taken
    }
}

impl EpState {
    /// Returns the ring of the connection to a peer, unless it is the first one.
    #[inline(always)]
    fn other_ring_of(&mut self, peer_idx: u32) -> Option<Arc<Ring>> {
        let ring = self.conn(peer_idx)?.ring;
        match ring {
            0 => None,
            ring => self.rx_pool.ring(ring).cloned(),
        }
    }

    /// Takes exclusive use of the connection to a peer, if the message can be delivered locally. The caller
    /// [releases](Self::release_local_path) it.
    #[inline(always)]
    pub(super) fn local_path(&mut self, peer_idx: u32, message: &Message) -> Option<LocalPath> {
        let peer = self.peer(peer_idx)?;
        let conn = peer.conn.as_mut().filter(|conn| conn.lower.is_local_path)?;
        let is_free = peer.tx_count == 0
            && message.len as usize <= SEGMENTED
            && conn.is_open()
            && !conn.tx_exclusive
            && conn.shutdown.may_start_ops()
            && conn.check_context(message.context).is_ok();
        if !is_free {
            return None;
        }
        conn.tx_exclusive = true;
        peer.tx_count += 1;
        Some(LocalPath {
            peer_idx,
            conn_gen: conn.conn_gen,
            ep: conn.lower.ep.clone(),
        })
    }

    /// Releases the connection and, if the message was delivered, reports `comp`.
    pub(super) fn release_local_path(
        &mut self,
        sinks: &CompSinks,
        local_path: &LocalPath,
        comp: Option<&TxComp>,
    ) {
        let &LocalPath {
            peer_idx, conn_gen, ..
        } = local_path;
        if let Some(peer) = self.peer(peer_idx) {
            peer.tx_count -= 1;
            let conn = peer.conn.as_mut();
            if let Some(conn) = conn.filter(|conn| conn.conn_gen == conn_gen) {
                conn.tx_exclusive = false;
            }
        }
        if let Some(comp) = comp {
            sinks.complete_tx(comp, Ok(()));
        }
        self.progress_peer(sinks, peer_idx);
    }
}

impl Held<'_> {
    /// Receives a message after everything that arrived earlier on the connection. Returns true if it was taken.
    fn receive_local(&mut self, conn_gen: usize, local_msg: &LocalMsg<'_>) -> bool {
        let LocalMsg {
            message,
            from,
            wants_ack,
        } = local_msg;
        let peer_idx = peer_idx_of_gen(conn_gen);
        let has_ctx = usize::from(message.context) < self.rx_ctxs.len();
        let Some(peer) = self.peer(peer_idx) else {
            return false;
        };
        let conn = peer.conn.as_ref();
        let accepts_rx =
            |conn: &Conn| conn.conn_gen == conn_gen && conn.is_open() && conn.accepts_rx();
        let is_open = conn.is_some_and(accepts_rx);
        if !is_open || !has_ctx || !peer.deferred_rx.is_empty() {
            return false;
        }
        let key = MsgKey {
            context: message.context,
            tag: message.tag,
            from: peer.addr,
        };
        if self.shutdown_pending && self.on_peer_message(peer_idx).is_err() {
            return false;
        }
        let msg = RxMsg {
            peer_idx,
            conn_gen,
            key,
            message: *message,
            is_limited: true,
        };
        // A message that waits goes as a packet if it has to be acknowledged.
        let may_wait = message.len as usize <= EAGER && !wants_ack;
        let taken = self.eager(&msg, from, may_wait);
        let (state, sinks) = self.split();
        state.progress_peer(sinks, peer_idx);
        matches!(taken, RxOutcome::Done)
    }
}
