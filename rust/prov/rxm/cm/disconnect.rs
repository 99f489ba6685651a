// SPDX-License-Identifier: GPL-2.0

//! Eviction and idle timeout of connections, by the handshake of [`shutdown`](super::shutdown). Guarded by
//! `EpCore::inner`.
//!
//! A peer without the extension, such as libfabric, cannot be asked. A packet that it sends while its connection is
//! being closed is lost. So such a connection is closed only to admit another peer, and only if it has been unused
//! for a while.

use super::{
    super::{
        completion::CompSinks,
        conn::{
            Conn,
            Peer,
            MAX_READS,
            MAX_SEGS, //
        },
        ep_state::EpState,
        wire::{
            Extensions,
            PktHdr,
            ProtoError,
            ShutdownMsg, //
        },
    },
    shutdown::OpsInFlight, //
};
use kernel::prelude::*;

/// Number of eviction checks without a use before a connection is closed without a handshake: one second.
const QUIET_ROUNDS: u32 = 50;

impl Conn {
    /// Returns whether the peer supports the handshake.
    fn supports_shutdown(&self) -> bool {
        self.extensions.have(Extensions::SHUTDOWN)
    }

    /// Returns whether the connection is going to end.
    fn is_ending(&self) -> bool {
        self.is_closing || self.shutdown.is_in_progress()
    }
}

impl Peer {
    /// Returns whether operations are deferred that have not been started.
    fn has_unstarted_ops(&self) -> bool {
        !self.deferred.is_empty() || self.is_registering
    }

    /// Returns the operations of this end that are in flight on the connection.
    fn ops_in_flight(&self) -> OpsInFlight {
        let Some(conn) = &self.conn else {
            return OpsInFlight::None;
        };
        let mut deferred = self.deferred.iter();
        let is_open = self.deferred_rx > 0
            || conn.tx_exclusive
            || conn.reads_left < MAX_READS
            || !self.awaiting_reply.is_empty()
            || !self.rndv_reads.is_empty()
            || deferred.any(|packet| packet.has_started())
            || self
                .sar_rx
                .any(|sar| sar.conn_gen == conn.conn_gen && !sar.is_complete)
            // With a handshake, the peer decides whether its unexpected rendezvous messages keep the connection.
            || !conn.supports_shutdown() && self.unexp_bytes > 0;
        let unstarted = self.deferred.len() + usize::from(self.is_registering);
        match is_open {
            true => OpsInFlight::Remote,
            false if self.tx_count > unstarted || conn.segments < MAX_SEGS => OpsInFlight::Local,
            false => OpsInFlight::None,
        }
    }

    /// Returns whether the peer has no state except its address.
    fn is_unused(&self) -> bool {
        self.conn.is_none()
            && self.tx_count == 0
            && self.tx_share.is_empty()
            && self.deferred_rx == 0
            && self.unexp_bytes == 0
            && self.rndv_reads.is_empty()
            && !self.sar_rx.any(|_| true)
            && self.cm_node.is_some()
    }

    /// Returns the cost of evicting the connection, or `None` if it cannot be evicted. Connections without operations
    /// in flight come first, in LRU order.
    fn evict_cost(&self) -> Option<(bool, u64)> {
        let conn = self.conn.as_ref()?;
        // A new connection has to be used before it is evicted for the next one.
        if !conn.credits.are_usable() {
            return None;
        }
        let is_quiet = conn.supports_shutdown() || conn.quiet.rounds() >= QUIET_ROUNDS;
        if !conn.is_open() || conn.is_ending() || !is_quiet {
            return None;
        }
        match self.ops_in_flight() {
            OpsInFlight::None => Some((self.has_unstarted_ops(), conn.last_used)),
            OpsInFlight::Local => Some((true, conn.last_used)),
            OpsInFlight::Remote => None,
        }
    }
}

impl EpState {
    /// Sends the next packet of a peer's handshake, after all operations have been started that can be. Returns true
    /// if operations can be started again.
    pub(in super::super) fn drive_shutdown(&mut self, peer_idx: u32) -> bool {
        let Self {
            peers, inflight, ..
        } = self;
        let Some(Some(peer)) = peers.get_mut(peer_idx as usize) else {
            return false;
        };
        let (ops_in_flight, has_unstarted) = (peer.ops_in_flight(), peer.has_unstarted_ops());
        let Some(conn) = peer.conn.as_mut().filter(|conn| conn.is_open()) else {
            return false;
        };
        let could_start = conn.shutdown.may_start_ops();
        match conn.shutdown.next_msg(ops_in_flight, has_unstarted) {
            None => {}
            Some(msg) if conn.supports_shutdown() => {
                if conn.send_ctrl_with_credit(inflight, &PktHdr::Shutdown(msg)) {
                    conn.shutdown.msg_sent(msg);
                }
            }
            Some(_) => {
                let conn_gen = conn.conn_gen;
                self.schedule_disconnect(peer_idx, conn_gen);
                return false;
            }
        }
        has_unstarted && !could_start && conn.shutdown.may_start_ops()
    }

    /// Handles a message of a peer during a handshake.
    ///
    /// # Errors
    ///
    /// The peer had agreed to close the connection.
    pub(in super::super) fn on_peer_message(
        &mut self,
        peer_idx: u32,
    ) -> core::result::Result<(), ProtoError> {
        let conn = self.conn(peer_idx);
        conn.map_or(Ok(()), |conn| conn.shutdown.on_message())
    }

    /// Handles a shutdown packet of a peer.
    pub(in super::super) fn on_shutdown_msg(
        &mut self,
        peer_idx: u32,
        msg: ShutdownMsg,
    ) -> core::result::Result<(), ProtoError> {
        let conn = self.conn(peer_idx);
        let Some(conn) = conn else {
            return Ok(());
        };
        if !conn.supports_shutdown() {
            return Err(ProtoError("a shutdown packet without its extension"));
        }
        let conn_gen = conn.conn_gen;
        let is_over = conn.shutdown.on_msg(msg)?;
        self.shutdown_pending = true;
        match is_over {
            true => self.schedule_disconnect(peer_idx, conn_gen),
            // The connection manager checks for a timeout.
            false => self.queue_cm_work(peer_idx),
        }
        Ok(())
    }

    /// Requests the shutdown of an unused connection.
    fn request_shutdown(&mut self, sinks: &CompSinks, peer_idx: u32) {
        let conn = self.conn(peer_idx);
        if conn.is_some_and(|conn| conn.shutdown.request()) {
            self.shutdown_pending = true;
            self.progress_peer(sinks, peer_idx);
        }
    }

    /// Counts an eviction check of all connections.
    pub(in super::super) fn update_quiet_rounds(&mut self) {
        for peer in self.peers.iter_mut().flatten() {
            if let Some(conn) = &mut peer.conn {
                conn.quiet.update(conn.last_used);
            }
        }
    }

    /// Requests shutdowns until `count` connections are ending.
    pub(in super::super) fn evict(&mut self, sinks: &CompSinks, count: usize) {
        let conns = self.peers.iter().flatten();
        let conns = conns.filter_map(|peer| peer.conn.as_ref());
        let ending = conns.filter(|conn| conn.is_ending()).count();
        for _ in ending..count {
            let peers = self.peers.iter().enumerate();
            let costs =
                peers.filter_map(|(peer_idx, peer)| Some((peer.as_ref()?.evict_cost()?, peer_idx)));
            let Some((_, peer_idx)) = costs.min() else {
                break;
            };
            self.request_shutdown(sinks, peer_idx as u32);
        }
    }

    /// Requests the shutdown of connections that were not used since the last check.
    pub(in super::super) fn shutdown_idle(&mut self, sinks: &CompSinks) {
        for peer_idx in 0..self.peers.len() as u32 {
            let Some(peer) = self.peer(peer_idx) else {
                continue;
            };
            let has_unstarted_ops = peer.has_unstarted_ops();
            let conn = peer.conn.as_mut();
            let Some(conn) = conn.filter(|conn| conn.is_open() && conn.supports_shutdown()) else {
                continue;
            };
            // An operation waits for credits of the peer, which has not granted any yet.
            let is_awaited = has_unstarted_ops || !conn.credits.are_usable();
            if conn.idle.update(conn.last_used) > 0 && !is_awaited {
                self.request_shutdown(sinks, peer_idx);
            }
        }
    }

    /// Checks the handshakes in progress, and closes connections whose peer has not answered in time.
    pub(in super::super) fn check_shutdowns(&mut self, sinks: &CompSinks) {
        let mut shutdown_pending = false;
        for peer_idx in 0..self.peers.len() as u32 {
            let conn = self.conn(peer_idx);
            let Some(conn) = conn.filter(|conn| conn.shutdown.is_in_progress()) else {
                continue;
            };
            shutdown_pending = true;
            let conn_gen = conn.conn_gen;
            match conn.shutdown.is_timed_out() {
                true => self.schedule_disconnect(peer_idx, conn_gen),
                false => self.progress_peer(sinks, peer_idx),
            }
        }
        self.shutdown_pending = shutdown_pending;
    }

    /// Removes a peer, under both its indices, if it has no state except its address. The result is dropped in
    /// process context.
    pub(in super::super) fn remove_peer(
        &mut self,
        peer_idxs: [u32; 2],
    ) -> Option<[Option<KBox<Peer>>; 2]> {
        let is_unused = peer_idxs
            .iter()
            .all(|&peer_idx| self.peer(peer_idx).is_none_or(|peer| peer.is_unused()));
        is_unused.then(|| {
            peer_idxs.map(|peer_idx| self.peers.get_mut(peer_idx as usize).and_then(Option::take))
        })
    }
}
