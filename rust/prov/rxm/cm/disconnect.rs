// SPDX-License-Identifier: GPL-2.0

//! Connections that end as they are not needed: [`farewell`](super::farewell) at work.
//!
//! A peer that does not understand that, as those in user space do not, is not asked. What it sends just
//! when its connection is closed is lost to it: so that is done only to make room for another, and if
//! nothing has come or gone for a while.

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

/// For how many looks of those who wait for room a connection has been quiet that is closed unasked: a second.
const QUIET_ROUNDS: u32 = 50;

impl Conn {
    /// Whether its peer can be asked whether it may end.
    fn supports_shutdown(&self) -> bool {
        self.extensions.have(Extensions::SHUTDOWN)
    }

    /// Whether it is to end, one way or another.
    fn is_ending(&self) -> bool {
        self.is_closing || self.shutdown.is_in_progress()
    }
}

impl Peer {
    /// Whether something is to be sent by its connection that has not begun.
    fn has_unstarted_ops(&self) -> bool {
        !self.deferred.is_empty() || self.is_registering
    }

    /// What is under way by its connection, as far as this end has to do with it.
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
            // Who can be asked knows whether its messages are to be read yet, which wait for receives.
            || !conn.supports_shutdown() && self.unexp_bytes > 0;
        let unstarted = self.deferred.len() + usize::from(self.is_registering);
        match is_open {
            true => OpsInFlight::Remote,
            false if self.tx_count > unstarted || conn.segments < MAX_SEGS => OpsInFlight::Local,
            false => OpsInFlight::None,
        }
    }

    /// Whether nothing is known of it but where it is.
    fn is_unused(&self) -> bool {
        self.conn.is_none()
            && self.tx_count == 0
            && self.deferred_rx == 0
            && self.unexp_bytes == 0
            && self.rndv_reads.is_empty()
            && !self.sar_rx.any(|_| true)
            && self.cm_node.is_some()
    }

    /// Whether its connection can make room for another, and how much that would hurt: the least where
    /// nothing is under way, and of those by the one that was used least recently.
    fn evict_cost(&self) -> Option<(bool, u64)> {
        let conn = self.conn.as_ref()?;
        // Or one after the other would make room for the next before it has been of use.
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
    /// Says what is to be said about the end of a peer's connection, where all has begun that can: whether
    /// more can now.
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

    /// A peer begins something.
    ///
    /// # Errors
    ///
    /// It wanted its connection to end, and has no reason to.
    pub(in super::super) fn on_peer_message(
        &mut self,
        peer_idx: u32,
    ) -> core::result::Result<(), ProtoError> {
        let conn = self.conn(peer_idx);
        conn.map_or(Ok(()), |conn| conn.shutdown.on_message())
    }

    /// A peer says something about the end of its connection.
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
            return Err(ProtoError("a farewell from somebody who knows none"));
        }
        let conn_gen = conn.conn_gen;
        let is_over = conn.shutdown.on_msg(msg)?;
        self.shutdown_pending = true;
        match is_over {
            true => self.schedule_disconnect(peer_idx, conn_gen),
            // Somebody is to see that it does not take for ever.
            false => self.queue_cm_work(peer_idx),
        }
        Ok(())
    }

    /// A peer's connection is not needed any more.
    fn request_shutdown(&mut self, sinks: &CompSinks, peer_idx: u32) {
        let conn = self.conn(peer_idx);
        if conn.is_some_and(|conn| conn.shutdown.request()) {
            self.shutdown_pending = true;
            self.progress_peer(sinks, peer_idx);
        }
    }

    /// Notes which connections nobody uses.
    pub(in super::super) fn update_quiet_rounds(&mut self) {
        for peer in self.peers.iter_mut().flatten() {
            if let Some(conn) = &mut peer.conn {
                conn.quiet.update(conn.last_used);
            }
        }
    }

    /// Has connections end until there are `count` of them that do.
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

    /// Has connections end that nobody has used since the last time.
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
            // Somebody waits until the peer has room; at first it has told of none.
            let is_awaited = has_unstarted_ops || !conn.credits.are_usable();
            if conn.idle.update(conn.last_used) > 0 && !is_awaited {
                self.request_shutdown(sinks, peer_idx);
            }
        }
    }

    /// Looks after connections that are to end; a peer that has left one waiting has had its time.
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

    /// Forgets a peer, both of its numbers, if nothing is known of it but where it is. What is left is to be
    /// dropped where one may sleep.
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
