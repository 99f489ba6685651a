// SPDX-License-Identifier: GPL-2.0

//! Close of connections, and of all that is left of an endpoint. Called under the mutex `EpCore::cm`.

use super::{
    super::{
        ep_core::EpCore,
        lower::Route,
        ring::CmRing, //
    },
    ConnMgr, //
};
use crate::fi::prelude::*;

impl EpCore {
    /// Stops the handlers of all rings but the first one: no ring is added to the list of ready ones any more. May
    /// sleep.
    pub(in super::super) fn stop_rings(&self) {
        for cm_ring in self.cm.lock().rings.iter().flatten() {
            if cm_ring.ring.index != 0 {
                cm_ring.ring.queue.stop_handler();
            }
        }
        // The references are dropped here, not by a reader. Without a turn no reader is between taking a ring from the
        // list and putting it back.
        loop {
            let held = self.quiesced();
            let ring = self.ready_rings.pop();
            drop(held);
            if ring.is_none() {
                return;
            }
        }
    }

    /// Closes the connection to a peer, if there is one. Operations that have started fail; deferred ones stay.
    pub(super) fn close_conn(&self, cm: &mut ConnMgr, peer_idx: u32) {
        cm.release_source(peer_idx, usize::MAX);
        let ring = self.inner.lock().conn(peer_idx).map(|conn| conn.ring);
        let Some(ring) = ring.and_then(|index| cm.ring(index)) else {
            return;
        };
        // Messages that have arrived are kept.
        self.drain_ring(&ring);
        let mut closed = self.quiesced().close(peer_idx);
        // Borrowed: a connection is large for the stack.
        let Some(conn) = &closed else {
            return;
        };
        conn.lower.ep.close(&mut |context| {
            self.hold()
                .complete_one(context, None, Err(Errno::ECANCELED));
        });
        if conn.lower.route == Route::Local {
            // Completions that arrived meanwhile belong to the old connection.
            self.drain_ring(&ring);
        }
        // A batch that was polled before has been dispatched.
        let mut held = self.quiesced();
        let (state, sinks) = held.split();
        let removed = state.closed(sinks, peer_idx, conn.conn_gen);
        // Memory of incomplete messages is free for others.
        held.retry_deferred();
        drop(held);
        drop(removed);
        self.limits.remove_conn();
        if conn.lower.route == Route::Device {
            cm.count_ring_conn(ring.index, -1);
        }
        // The endpoint is bound to the queues of the ring.
        closed = None;
        drop(closed);
        self.inner.lock().count_lost_rx(ring.index);
        self.close_empty_ring(cm, ring.index);
    }

    /// Closes all connections, and passes the contexts of operations in flight to `reclaim`. The connection manager
    /// does not run any more.
    #[inline(never)]
    pub(in super::super) fn close_all_conns(&self, reclaim: &mut dyn FnMut(Context)) {
        let mut cm = self.cm.lock();
        drop((cm.armed_timer.take(), cm.core.take()));
        // In reverse, so that the next listener of the device's port gets the loop port too.
        for listener in cm.listeners.iter_mut().rev() {
            if let Some(listener) = listener.take() {
                listener.close();
            }
        }
        for peer_idx in 0..cm.peers.len() as u32 {
            let conn = self.quiesced().close(peer_idx);
            let Some(conn) = conn else {
                continue;
            };
            conn.lower
                .ep
                .close(&mut |context| self.inner.lock().abandon(context));
        }
        while let Some(place) = cm.rings.pop() {
            let Some(CmRing { ring, .. }) = place else {
                continue;
            };
            self.abandon_completions(&ring.queue);
            let ring_rx = self.inner.lock().rx_pool.set_ring(ring.index, None);
            drop(ring_rx);
            ring.close(&mut |context| self.inner.lock().abandon(context));
        }
        self.end_ops(reclaim);
    }

    /// Ends all operations, once no connection is left: their contexts are passed to `reclaim`.
    #[inline(never)]
    fn end_ops(&self, reclaim: &mut dyn FnMut(Context)) {
        let mut to_free = self.quiesced().end();
        while self.inner.lock().end_matching(&mut to_free) {}
        while let Some(mut packet) = to_free.packets.pop() {
            // No peer can access the memory any more.
            drop(packet.rndv_tx().and_then(|rndv_tx| rndv_tx.region.take()));
            if let Some(comp) = packet.tx_comp() {
                let tx_ctx = comp.tx_ctx;
                self.with_state(|_, sinks| sinks.release_tx(tx_ctx));
                reclaim(comp.context);
            }
            to_free.tx_pool.take_back(packet);
        }
        to_free.tx_pool.wake_waiters();
        while let Some(mut receive) = to_free.receives.pop() {
            if receive.is_reported {
                continue;
            }
            if receive.has_cq_entry() {
                self.with_state(|_, sinks| sinks.release_rx(receive.rx_ctx));
            }
            if let Some(srx_recv) = receive.take_srx_recv() {
                self.post_again(srx_recv);
            }
            // A multi-receive buffer is returned with its own receive.
            if !receive.is_internal() {
                reclaim(receive.context);
            }
        }
    }
}
