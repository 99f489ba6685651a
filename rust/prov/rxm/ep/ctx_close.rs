// SPDX-License-Identifier: GPL-2.0

//! Closing one context of a scalable endpoint, while the others go on over the same connections.
//!
//! Operations of a closed context are not reported. Those that no peer has seen are dropped at once. The others,
//! whose memory a device or a peer may access, have [`DRAIN_TIMEOUT`] to complete; after that, their connections are
//! closed. Unexpected messages of a receive context stay queued for the next opening of the context.

use super::{
    super::{
        completion::CompSinks,
        ep_core::{
            Bound,
            EpCore, //
        },
        ep_state::{
            schedule_disconnect,
            EpState, //
        },
        iov::DstBuf,
        pkt_buf::Packet,
        rx_entry::{
            Receive,
            RxKind,
            RxTarget, //
        },
    },
    ctx::RxCtx,
    EpKind, //
};
use crate::fi::prelude::*;
use core::iter;
use kernel::time::delay::fsleep;

/// Number of [`DRAIN_INTERVAL`] before the connections of uncompleted operations are closed.
const DRAIN_TIMEOUT: u32 = 250;

/// Interval between two checks whether a context is drained.
const DRAIN_INTERVAL: Delta = Delta::from_millis(1);

/// Contexts of the operations that are left, in memory that was allocated with the endpoint.
pub(in super::super) struct CtxDrain {
    contexts: KVec<Context>,
    /// Number of completion queue entries that are reserved for them.
    cq_slots: u32,
}

impl CtxDrain {
    /// Creates the memory for `most` operations. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(in super::super) fn new(most: usize) -> Result<Self> {
        Ok(Self {
            contexts: KVec::with_capacity(most, GFP_KERNEL)?,
            cq_slots: 0,
        })
    }

    /// Returns the number of reserved completion queue entries.
    pub(in super::super) fn cq_slots(&self) -> u32 {
        self.cq_slots
    }

    /// Returns the contexts of the operations.
    pub(in super::super) fn contexts(&self) -> &[Context] {
        &self.contexts
    }

    fn operation(&mut self, packet: &Packet) {
        if let Some(comp) = packet.tx_comp() {
            self.cq_slots += 1;
            let _ = self.contexts.push_within_capacity(comp.context);
        }
    }

    fn receive(&mut self, receive: &Receive) {
        self.cq_slots += u32::from(receive.has_cq_entry());
        // A multi-receive buffer is returned with its own receive.
        if !receive.is_internal() {
            let _ = self.contexts.push_within_capacity(receive.context);
        }
    }
}

impl EpCore {
    /// Drains a context: when the call returns, nothing accesses the memory of its operations. May sleep, for
    /// [`DRAIN_TIMEOUT`] and until connections are closed.
    pub(in super::super) fn drain_ctx(
        &self,
        bound: &Bound,
        (kind, context): (EpKind, u8),
        drain: &mut CtxDrain,
    ) {
        // No operation is held outside the lock while the connection manager is locked out and no thread copies.
        let cm = self.cm.lock();
        let mut held = self.quiesced();
        held.tx_pool.wake_waiters();
        let sink = held.sinks.detach(kind, context);
        let (state, sinks) = held.split();
        match kind {
            EpKind::Rx => state.drain_rx(sinks, context, drain),
            _ => state.drain_tx(sinks, context, drain),
        }
        drop(held);
        drop(cm);
        drop(sink);
        for rounds in 0.. {
            self.drain_lower();
            let is_late = rounds >= DRAIN_TIMEOUT;
            let mut held = self.quiesced();
            let is_over = match kind {
                EpKind::Rx => held.is_rx_drained(context, is_late),
                _ => held.is_tx_drained(context, is_late),
            };
            drop(held);
            // Memory may have to be deregistered, or connections closed.
            bound.schedule_cm_work();
            if is_over {
                return;
            }
            fsleep(DRAIN_INTERVAL);
        }
    }
}

impl EpState {
    /// Drops the operations of a transmit context that no peer has seen.
    fn drain_tx(&mut self, sinks: &CompSinks, tx_ctx: u8, drain: &mut CtxDrain) {
        let is_from_ctx = |packet: &Packet| packet.is_from_ctx(tx_ctx);
        for packet in self.inflight.iter().filter(|packet| is_from_ctx(packet)) {
            drain.operation(packet);
        }
        let peers = self.peers.iter().flatten();
        let of_peers = peers.flat_map(|peer| [&peer.deferred, &peer.awaiting_reply]);
        let queues = Iterator::chain(iter::once(&self.pending_dereg), of_peers);
        let queued = queues.flat_map(|queue| queue.iter());
        let queued = Iterator::chain(queued, self.unresolved.iter());
        for packet in queued.filter(|packet| is_from_ctx(packet)) {
            drain.operation(packet);
        }
        let mut dropped = self.unresolved.take_where(is_from_ctx);
        while let Some(packet) = dropped.pop() {
            self.finish_unresolved(sinks, packet, Errno::ECANCELED);
        }
        for peer_idx in 0..self.peers.len() as u32 {
            let Some(peer) = self.peer(peer_idx) else {
                continue;
            };
            let deferred = &mut peer.deferred;
            let mut dropped =
                deferred.drain_where(|packet| is_from_ctx(packet) && !packet.has_started());
            while let Some(packet) = dropped.pop() {
                self.finish_queued(sinks, packet, Errno::ECANCELED);
            }
        }
    }

    /// Returns whether no operation of a transmit context is in flight. If `is_late`, closes the connections of those
    /// that are.
    fn is_tx_drained(&mut self, tx_ctx: u8, is_late: bool) -> bool {
        let is_from_ctx = |packet: &Packet| packet.is_from_ctx(tx_ctx);
        let Self {
            inflight,
            peers,
            cm_queue,
            pending_dereg,
            ..
        } = self;
        let mut is_over = !pending_dereg.iter().any(&is_from_ctx);
        for packet in inflight.iter().filter(|packet| is_from_ctx(packet)) {
            is_over = false;
            if is_late {
                schedule_disconnect(peers, cm_queue, packet.peer_idx, packet.conn_gen);
            }
        }
        for peer in peers.iter_mut().flatten() {
            let cm_peer = [&peer.deferred, &peer.awaiting_reply];
            let is_known = cm_peer.map(|queue| queue.iter().any(&is_from_ctx));
            if is_known.contains(&true) {
                is_over = false;
                if is_late {
                    peer.schedule_disconnect(cm_queue);
                }
            }
        }
        is_over
    }

    /// Removes the memory from the receives of a context. Those that have a message are kept until the protocol with
    /// its sender is complete.
    fn drain_rx(&mut self, sinks: &CompSinks, at: u8, drain: &mut CtxDrain) {
        let Self {
            rx_ctxs,
            peers,
            reads_inflight,
            ..
        } = self;
        rx_ctxs.ctx_mut(at).drain_entries(drain);
        let mut retire = |receive: &mut Receive| {
            if receive.rx_ctx != at {
                return;
            }
            if !receive.is_reported {
                drain.receive(receive);
                sinks.fail_rx(rx_ctxs, receive, Errno::ECANCELED);
            }
            receive.into = DstBuf::EMPTY;
        };
        for receive in reads_inflight.iter_mut() {
            retire(receive);
        }
        for peer in peers.iter_mut().flatten() {
            peer.rndv_reads.for_each_mut(&mut retire);
            peer.sar_rx.change(|sar| {
                if let Some(receive) = &mut sar.receive {
                    retire(receive);
                }
            });
        }
    }

    /// Returns whether no device accesses memory of the context's receives. If `is_late`, closes the connections that
    /// do.
    fn is_rx_drained(&mut self, at: u8, is_late: bool) -> bool {
        let Self {
            reads_inflight,
            peers,
            cm_queue,
            ..
        } = self;
        let mut is_over = true;
        for receive in reads_inflight.iter().filter(|receive| receive.rx_ctx == at) {
            is_over = false;
            if let (true, Some(rndv)) = (is_late, &receive.rndv) {
                schedule_disconnect(peers, cm_queue, rndv.peer_idx, rndv.conn_gen);
            }
        }
        is_over
    }
}

impl RxCtx {
    /// Returns the posted receives; unexpected messages stay queued.
    fn drain_entries(&mut self, drain: &mut CtxDrain) {
        self.buffers
            .for_each_exhausted(|receive| drain.receive(receive));
        let mut unexp_msgs = BoxList::new();
        while let Some(mut unexp) = self.matcher.pop_claimed() {
            unexp.claim = None;
            unexp_msgs.push_front(unexp);
        }
        let mut assigned = BoxList::new();
        while let Some(mut unexp) = self.assigned.pop() {
            if let Some(RxTarget::Slot(slot)) = unexp.target.take() {
                if let Some(receive) = self.buffers.complete_slot(slot.of) {
                    self.buffers.release(receive);
                }
            }
            assigned.push_front(unexp);
        }
        unexp_msgs.append(&mut assigned);
        // The last one first, so that they keep their order.
        while let Some(unexp) = unexp_msgs.pop() {
            self.matcher.requeue_front(unexp);
        }
        while let Some(receive) = self.matcher.pop_receive() {
            drain.receive(&receive);
            let unused = match receive.kind {
                RxKind::Multi { .. } => self.buffers.close(receive),
                _ => Some(receive),
            };
            if let Some(receive) = unused {
                self.put_back(receive);
            }
        }
    }
}
