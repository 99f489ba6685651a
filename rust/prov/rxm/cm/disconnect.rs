// SPDX-License-Identifier: GPL-2.0

//! Eviction and idle timeout of connections, by the handshake of [`shutdown`](super::shutdown). Guarded by
//! `EpCore::inner`.
//!
//! A peer without the extension, such as libfabric, cannot be asked. A packet that it sends while its connection is
//! being closed is lost. So such a connection is closed only to admit another peer, and only if it has been unused
//! for a while.
//!
//! Operations that need both ends keep a connection from being evicted for a second, and so does a peer that refuses.
//! Then the connection is closed, and these operations fail. Messages that wait for a receive are kept.

use super::{
    super::{
        completion::CompSinks,
        conn::{
            Conn,
            Peer,
            MAX_READS,
            MAX_SEGS, //
        },
        ep_core::EpCore,
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

/// Number of connections that one check evicts.
const EVICT_BATCH: usize = 8;

/// Number of peers that are examined in one section under `EpCore::inner`.
const SCAN_STEP: u32 = 64;

/// Says how a connection can be evicted, in the order of preference.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum EvictRank {
    /// By the handshake: no operation is in progress.
    Idle,
    /// By the handshake, after operations that complete without the peer.
    Busy,
    /// Without the handshake: operations fail.
    Forced,
}

/// Connection that a check has chosen.
type Victim = (EvictRank, u64, u32);

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
        let is_open = !self.deferred_rx.is_empty()
            || conn.tx_exclusive
            || conn.reads_left < MAX_READS
            || !self.awaiting_reply.is_empty()
            || !self.rndv_reads.is_empty()
            || deferred.any(|packet| packet.has_started())
            || self
                .sar_rx
                .any(|sar| sar.conn_gen == conn.conn_gen && !sar.is_complete);
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
            && self.deferred_node.is_some()
            && self.unexp_bytes == 0
            && self.rndv_reads.is_empty()
            && !self.sar_rx.any(|_| true)
            && self.cm_node.is_some()
    }

    /// Returns the rank of the connection for the eviction check `round`, and the time of its last use; `None` if the
    /// check cannot evict it.
    fn evict_rank(&mut self, round: u64) -> Option<(EvictRank, u64)> {
        let (ops_in_flight, has_unstarted) = (self.ops_in_flight(), self.has_unstarted_ops());
        let conn = self.conn.as_mut().filter(|conn| conn.is_open())?;
        if !conn.supports_shutdown() && conn.quiet.rounds() < QUIET_ROUNDS {
            return None;
        }
        // A new connection has to be used before it is evicted for the next one.
        let in_handshake = conn.shutdown.is_in_progress();
        let can_end = conn.credits.are_usable() && !in_handshake;
        let rank = match ops_in_flight {
            OpsInFlight::None if can_end && !has_unstarted => EvictRank::Idle,
            OpsInFlight::None | OpsInFlight::Local if can_end => EvictRank::Busy,
            _ => EvictRank::Forced,
        };
        let is_over = conn.grace.is_over(round, in_handshake);
        let may_ask = conn.grace.may_ask(round);
        if rank == EvictRank::Forced {
            conn.grace.note(round);
        }
        match rank {
            _ if is_over => Some((EvictRank::Forced, conn.last_used)),
            EvictRank::Idle | EvictRank::Busy if may_ask => Some((rank, conn.last_used)),
            _ => None,
        }
    }
}

impl EpCore {
    /// Calls `visit` for each peer index under the lock, which is released every [`SCAN_STEP`] peers.
    pub(super) fn for_each_peer(&self, mut visit: impl FnMut(&mut EpState, &CompSinks, u32)) {
        let (mut next, mut end) = (0, 1);
        while next < end {
            self.with_state(|state, sinks| {
                end = state.peers.len() as u32;
                for peer_idx in next..end.min(next + SCAN_STEP) {
                    visit(state, sinks, peer_idx);
                }
            });
            next += SCAN_STEP;
        }
    }

    /// Counts an eviction check of all connections.
    pub(in super::super) fn update_quiet_rounds(&self) {
        self.for_each_peer(|state, _, peer_idx| {
            if let Some(conn) = state.conn(peer_idx) {
                conn.quiet.update(conn.last_used);
            }
        });
    }

    /// Requests the shutdown of connections that were not used since the last check.
    pub(in super::super) fn shutdown_idle(&self) {
        self.for_each_peer(EpState::shutdown_if_idle);
    }

    /// Checks the handshakes in progress, and closes connections whose peer has not answered in time.
    pub(in super::super) fn check_shutdowns(&self) {
        let noted = self.inner.lock().shutdowns_noted;
        let mut is_pending = false;
        self.for_each_peer(|state, sinks, peer_idx| {
            is_pending |= state.check_shutdown(sinks, peer_idx);
        });
        let mut state = self.inner.lock();
        // Others may have begun meanwhile.
        state.shutdown_pending = is_pending || state.shutdowns_noted != noted;
    }

    /// Evicts connections in the check `round`, until `count` of them are ending, and at most [`EVICT_BATCH`].
    pub(in super::super) fn evict(&self, count: usize, round: u64) {
        for _ in 0..EVICT_BATCH {
            let mut ending = 0;
            let mut victim: Option<Victim> = None;
            self.for_each_peer(|state, _, peer_idx| {
                let Some(peer) = state.peer(peer_idx) else {
                    return;
                };
                let rank = peer.evict_rank(round);
                if let Some((rank, last_used)) = rank {
                    let other = (rank, last_used, peer_idx);
                    victim = Some(victim.map_or(other, |victim| victim.min(other)));
                } else if peer.conn.as_ref().is_some_and(Conn::is_ending) {
                    ending += 1;
                }
            });
            let (Some((rank, _, peer_idx)), true) = (victim, ending < count) else {
                return;
            };
            self.with_state(|state, sinks| state.evict(sinks, peer_idx, rank, round));
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
            return Err(ProtoError("shutdown packet without the SHUTDOWN extension"));
        }
        let conn_gen = conn.conn_gen;
        let is_over = conn.shutdown.on_msg(msg)?;
        self.note_shutdown();
        match is_over {
            true => self.schedule_disconnect(peer_idx, conn_gen),
            // The connection manager checks for a timeout.
            false => self.queue_cm_work(peer_idx),
        }
        Ok(())
    }

    /// Records that a handshake is in progress.
    fn note_shutdown(&mut self) {
        self.shutdown_pending = true;
        self.shutdowns_noted += 1;
    }

    /// Requests the shutdown of an unused connection.
    fn request_shutdown(&mut self, sinks: &CompSinks, peer_idx: u32) {
        let conn = self.conn(peer_idx);
        if conn.is_some_and(|conn| conn.shutdown.request()) {
            self.note_shutdown();
            self.progress_peer(sinks, peer_idx);
        }
    }

    /// Evicts the connection of a peer that the check `round` has chosen.
    fn evict(&mut self, sinks: &CompSinks, peer_idx: u32, rank: EvictRank, round: u64) {
        let Some(conn) = self.conn(peer_idx) else {
            return;
        };
        let conn_gen = conn.conn_gen;
        conn.grace.note(round);
        match rank {
            EvictRank::Idle | EvictRank::Busy => self.request_shutdown(sinks, peer_idx),
            EvictRank::Forced => self.schedule_disconnect(peer_idx, conn_gen),
        }
    }

    /// Requests the shutdown of the connection of a peer if it was not used since the last check.
    fn shutdown_if_idle(&mut self, sinks: &CompSinks, peer_idx: u32) {
        let Some(peer) = self.peer(peer_idx) else {
            return;
        };
        let has_unstarted_ops = peer.has_unstarted_ops();
        let conn = peer.conn.as_mut();
        let Some(conn) = conn.filter(|conn| conn.is_open() && conn.supports_shutdown()) else {
            return;
        };
        // An operation waits for credits of the peer, which has not granted any yet.
        let is_awaited = has_unstarted_ops || !conn.credits.are_usable();
        if conn.idle.update(conn.last_used) > 0 && !is_awaited {
            self.request_shutdown(sinks, peer_idx);
        }
    }

    /// Checks the handshake with a peer, and closes its connection if the peer has not answered in time. Returns
    /// whether a handshake is in progress.
    fn check_shutdown(&mut self, sinks: &CompSinks, peer_idx: u32) -> bool {
        let conn = self.conn(peer_idx);
        let Some(conn) = conn.filter(|conn| conn.shutdown.is_in_progress()) else {
            return false;
        };
        let conn_gen = conn.conn_gen;
        match conn.shutdown.is_timed_out() {
            true => self.schedule_disconnect(peer_idx, conn_gen),
            false => self.progress_peer(sinks, peer_idx),
        }
        true
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
