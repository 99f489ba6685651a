// SPDX-License-Identifier: GPL-2.0

//! Messages to peers on this host that are copied once, by who sends: from where they are to where the
//! receiver wants them.
//!
//! Who sends has let go of its own lock when it takes the peer's, so nobody holds two. Meanwhile what it sends
//! to that peer waits (`Conn::tx_exclusive`), and the connection does not end, as loop does not let it.
//!
//! A message goes so only while nothing else is under way to its peer, who first handles what has come: none
//! is overtaken. One that the peer does not take then, as it waits for room or for another, goes in packets as
//! to any peer, of which there are not many: so a peer that does not receive slows its senders.

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
    iov::SrcBuf,
    matcher::MsgKey,
    pkt_buf::{
        BufState,
        Packet, //
    },
    tx_op::{
        RndvState,
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

/// Most bytes of a message that is sent in segments, or handed over: a longer one is offered.
const SEGMENTED: usize = 8 * EAGER;

/// A message, where its sender has it.
pub(super) struct LocalMsg {
    /// The message.
    pub(super) message: Message,
    /// Where it is.
    pub(super) from: SrcBuf,
}

/// A way to a peer on this host that is free, and kept so.
pub(super) struct LocalPath {
    peer_idx: u32,
    conn_gen: usize,
    ep: Arc<ep::Endpoint>,
}

impl LocalMsg {
    /// Has it go in packets, the first of which this is.
    #[inline(always)]
    pub(super) fn fill_packet(self, packet: &mut Packet) {
        let Self { message, from } = self;
        match message.len as usize {
            len if len <= EAGER => {
                from.copy_to_slice(0, packet.payload());
                packet.write(0, &PktHdr::Eager(message), len);
                packet.state = BufState::Tx(TxOp::Eager);
            }
            len if len <= SEGMENTED => {
                packet.state = BufState::Tx(TxOp::Sar(SarTx {
                    message,
                    from,
                    next: 0,
                }));
            }
            _ => {
                packet.state = BufState::Tx(TxOp::Rndv(RndvTx {
                    message,
                    from,
                    region: None,
                    state: RndvState::ReqSent(None),
                }));
            }
        }
    }
}

impl LocalPath {
    /// Hands a message to the peer: whether that has taken it. The caller holds no lock.
    pub(super) fn deliver(&self, local_msg: &LocalMsg) -> bool {
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
    /// Takes a message that a peer hands over, by the connection whose events carry `source`: whether it has.
    fn receive_local(&self, source: Source, local_msg: &LocalMsg) -> bool {
        let Ok(bound) = self.bound() else {
            return false;
        };
        let mut inner = self.inner.lock();
        let (state, sinks) = inner.split();
        // If more has come than is handled at once, what the peer sent before may be among it.
        let drained = state.poll_lower(sinks, &bound.queue, false).drained;
        let is_taken = drained && state.receive_local(sinks, source.0, local_msg);
        let needs_cm_work = state.needs_cm_work();
        drop(inner);
        if needs_cm_work {
            bound.schedule_cm_work();
        }
        is_taken
    }
}

impl EpState {
    /// The way on which a message can be handed to its peer, which is kept for that until it has been
    /// [`left`](Self::leave_shortcut).
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

    /// A message has been handed over, of which `comp` is to be told; or it has not.
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

    /// Takes a message that is handed over by that connection, behind all that has come: whether it has.
    fn receive_local(&mut self, sinks: &CompSinks, conn_gen: usize, local_msg: &LocalMsg) -> bool {
        let LocalMsg { message, from } = local_msg;
        let peer_idx = peer_idx_of_gen(conn_gen);
        let has_ctx = usize::from(message.context) < self.rx_ctxs.len();
        let Some(peer) = self.peer(peer_idx) else {
            return false;
        };
        let conn = peer.conn.as_ref();
        let accepts_rx =
            |conn: &Conn| conn.conn_gen == conn_gen && conn.is_open() && conn.accepts_rx();
        let is_open = conn.is_some_and(accepts_rx);
        if !is_open || !has_ctx || peer.deferred_rx > 0 {
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
        let may_wait = message.len as usize <= EAGER;
        let taken = self.eager(sinks, &msg, from, may_wait);
        self.progress_peer(sinks, peer_idx);
        matches!(taken, RxOutcome::Done)
    }
}
