// SPDX-License-Identifier: GPL-2.0

//! Receive buffers: posted for one connection, or to a receive queue that connections share. Guarded by
//! `EpCore::inner`.
//!
//! A connection starts with [`INITIAL_RX`] buffers, which are granted to the peer as credits. If the peer uses them
//! up within [`SOON`], the number doubles, up to [`MAX_RX_BUFS`]. If the device supports it, connections share a
//! receive queue. The credits of all peers together never exceed the posted buffers, so no peer waits for a buffer
//! because of another one. Buffers that a connection leaves in the queue are granted to the next one.
//!
//! Connections on iWARP, and to peers without credits, have receive queues of their own: a peer could use up buffers
//! granted to others, which on iWARP ends the connection of the next sender. Elsewhere that sender is only retried
//! until a buffer has been posted, and the connection of a peer that exceeds its credits is closed.

use super::{
    conn::{
        credits::CreditError,
        peer_idx_of_gen,
        Conn,
        INITIAL_RX,
        MAX_RX_BUFS, //
    },
    ep_state::{
        EpState,
        CONN_SLOTS, //
    },
    inflight::Inflight,
    pkt_buf::Packet, //
};
use crate::{
    fi::{
        eq::Source,
        prelude::*,
        srx::SharedReceive, //
    },
    util::owned_list::{
        BoxList,
        ListBox, //
    },
};

/// Number of shared buffers beyond the initial ones of each connection.
const MAX_EXTRA_RX: usize = 1984;

/// Depth of the shared receive queue.
pub(super) const DEPTH: usize = CONN_SLOTS * INITIAL_RX + MAX_EXTRA_RX;

/// Time within which a peer has to use up its credits to get more buffers.
pub(super) const SOON: Delta = Delta::from_millis(100);

/// Counts the shared buffers beyond the initial ones. Buffers are counted before they are allocated, because several
/// connections may ask meanwhile.
struct ExtraRx(usize);

impl ExtraRx {
    /// Takes up to `wanted` buffers from the limit.
    fn take(&mut self, wanted: usize) -> usize {
        let taken = wanted.min(MAX_EXTRA_RX - self.0);
        self.0 += taken;
        taken
    }

    /// Returns buffers to the limit.
    fn give_back(&mut self, count: usize) {
        self.0 -= count;
    }
}

/// Receive buffers of an endpoint.
pub(super) struct RxPool {
    /// Receive queue that connections share.
    shared: Option<Arc<SharedReceive>>,
    /// Number of buffers in the shared queue that are assigned to no connection; negative if a peer has used more
    /// than its credits.
    unassigned: i64,
    extra_rx: ExtraRx,
    /// Buffers that are not posted.
    free_bufs: BoxList<Packet>,
}

impl RxPool {
    /// Creates an empty pool without a shared queue.
    pub(super) const fn new() -> Self {
        Self {
            shared: None,
            unassigned: 0,
            extra_rx: ExtraRx(0),
            free_bufs: BoxList::new(),
        }
    }

    /// Returns the shared receive queue, if there is one.
    pub(super) fn shared(&self) -> Option<&Arc<SharedReceive>> {
        self.shared.as_ref()
    }

    /// Sets the receive queue that connections share from now on.
    pub(super) fn start_sharing(&mut self, shared: Arc<SharedReceive>) {
        self.shared = Some(shared);
    }

    /// Removes the shared receive queue, when no connection is left.
    pub(super) fn stop_sharing(&mut self) -> Option<Arc<SharedReceive>> {
        self.shared.take()
    }

    /// Returns the buffers that are not posted.
    pub(super) fn free_bufs(&mut self) -> &mut BoxList<Packet> {
        &mut self.free_bufs
    }

    /// Posts up to `count` more buffers for a connection. Returns the number that was missing.
    ///
    /// # Errors
    ///
    /// The errno of the lower receive.
    fn post_for_conn(
        &mut self,
        inflight: &mut Inflight<Packet>,
        conn: &mut Conn,
        count: usize,
    ) -> Result<usize> {
        let mut left = count;
        let mut posted = Ok(());
        while left > 0 && posted.is_ok() {
            if conn.shared.is_some() && self.unassigned > 0 {
                self.unassigned -= 1;
                conn.posted += 1;
            } else if let Some(packet) = self.free_bufs.pop() {
                let error = conn.receive(inflight, packet).err();
                if let Some(error) = error {
                    self.free_bufs.push(error.node);
                    posted = Err(error.errno);
                    break;
                }
            } else {
                break;
            }
            conn.credits.add_rx_buf();
            left -= 1;
        }
        posted.map(|()| left)
    }

    /// Replaces the buffers that a peer used beyond its credits.
    fn refill(&mut self, inflight: &mut Inflight<Packet>) {
        let Some(shared) = &self.shared else {
            return;
        };
        while self.unassigned < 0 {
            let Some(packet) = self.free_bufs.pop() else {
                return;
            };
            let posted =
                Packet::receive(packet, inflight, |message| shared.core().receive(message));
            if let Err(error) = posted {
                self.free_bufs.push(error.node);
                return;
            }
            self.unassigned += 1;
        }
    }
}

impl EpState {
    /// Puts back a receive buffer, which may be posted at once.
    pub(super) fn put_rx_buf(&mut self, packet: ListBox<Packet>) {
        self.rx_pool.free_bufs.push(packet);
        if self.rx_pool.unassigned < 0 {
            self.rx_pool.refill(&mut self.inflight);
        }
    }

    /// Posts up to `count` buffers for the connection of a peer. Returns the number that was missing.
    ///
    /// # Errors
    ///
    /// The errno of the lower receive.
    pub(super) fn post_rx_bufs(&mut self, peer_idx: u32, count: usize) -> Result<usize> {
        let Self {
            peers,
            inflight,
            rx_pool,
            ..
        } = self;
        let peer = peers.get_mut(peer_idx as usize).and_then(Option::as_mut);
        match peer.and_then(|peer| peer.conn.as_mut()) {
            Some(conn) => rx_pool.post_for_conn(inflight, conn, count),
            None => Ok(0),
        }
    }

    /// Doubles the receive buffers of a connection whose peer uses its credits quickly. Missing buffers are allocated
    /// by the connection manager.
    #[inline(never)]
    pub(super) fn grow_rx(&mut self, peer_idx: u32) {
        let Self { peers, rx_pool, .. } = self;
        let peer = peers.get_mut(peer_idx as usize).and_then(Option::as_mut);
        let Some(conn) = peer.and_then(|peer| peer.conn.as_mut()) else {
            return;
        };
        let has = conn.credits.receives() as usize;
        let mut more = has.min(MAX_RX_BUFS.saturating_sub(has));
        if conn.shared.is_some() {
            more = rx_pool.extra_rx.take(more);
            conn.extra_rx += more;
        }
        let given = self.post_rx_bufs(peer_idx, more);
        if let Some(conn) = self.conn(peer_idx) {
            match given {
                Ok(rx_deficit) => conn.rx_deficit = rx_deficit,
                Err(errno) => conn.note_post_error(errno),
            }
        }
    }

    /// Handles the buffers that the connection manager has allocated, or could not allocate.
    pub(super) fn rx_bufs_allocated(&mut self, peer_idx: u32, mut packets: BoxList<Packet>) {
        while let Some(packet) = packets.pop() {
            self.put_rx_buf(packet);
        }
        let conn = self.conn(peer_idx);
        let rx_deficit = conn.map_or(0, |conn| mem::take(&mut conn.rx_deficit));
        let given = self.post_rx_bufs(peer_idx, rx_deficit);
        let Self { peers, rx_pool, .. } = self;
        let peer = peers.get_mut(peer_idx as usize).and_then(Option::as_mut);
        let Some(conn) = peer.and_then(|peer| peer.conn.as_mut()) else {
            return;
        };
        match given {
            Ok(rx_deficit) if conn.shared.is_some() => {
                conn.extra_rx -= rx_deficit;
                rx_pool.extra_rx.give_back(rx_deficit);
            }
            Ok(_) => {}
            Err(errno) => conn.note_post_error(errno),
        }
    }

    /// Releases the posted buffers of a connection that has been removed from its peer.
    pub(super) fn release_conn_rx(&mut self, conn: &Conn) {
        let Self {
            rx_pool, inflight, ..
        } = self;
        if conn.shared.is_some() {
            rx_pool.unassigned += conn.posted;
            rx_pool.extra_rx.give_back(conn.extra_rx);
            rx_pool.refill(inflight);
        }
    }

    /// Counts the completion of a receive buffer for its connection, which `source` names if the queue is shared.
    ///
    /// # Errors
    ///
    /// The peer had no credit.
    #[inline(always)]
    pub(super) fn on_rx_completion(
        &mut self,
        packet: &mut Packet,
        source: Option<Source>,
    ) -> core::result::Result<(), CreditError> {
        if let Some(Source(conn_gen)) = source {
            packet.conn_gen = conn_gen;
            packet.peer_idx = peer_idx_of_gen(conn_gen);
        }
        let conn_gen = packet.conn_gen;
        let conn = self.conn(packet.peer_idx);
        match conn.filter(|conn| conn.conn_gen == conn_gen) {
            Some(conn) => {
                conn.posted -= 1;
                conn.credits.on_rx()
            }
            None => {
                self.rx_pool.unassigned -= i64::from(source.is_some());
                Ok(())
            }
        }
    }
}

#[kernel::prelude::kunit_tests(kofi_rdm_supply)]
mod tests {
    use super::*;
    use crate::util::random::SeededRandom;

    /// Lets connections grow and end at random, without any allocation.
    #[test]
    fn rdm_06_no_more_is_promised_than_there_is() {
        let mut random = SeededRandom::new(1);
        let mut extra_rx = ExtraRx(0);
        let mut has = [INITIAL_RX; CONN_SLOTS];
        let mut was_scarce = false;
        for _ in 0..100 * CONN_SLOTS {
            let at = random.next_below(CONN_SLOTS as u64) as usize;
            let Some(has) = has.get_mut(at) else {
                continue;
            };
            if random.next_below(10) == 0 {
                extra_rx.give_back(*has - INITIAL_RX);
                *has = INITIAL_RX;
            } else {
                let wanted = (*has).min(MAX_RX_BUFS - *has);
                let taken = extra_rx.take(wanted);
                was_scarce |= taken < wanted;
                *has += taken;
            }
        }
        let posted: usize = has.iter().sum();
        assert!(was_scarce && posted <= DEPTH);
        assert_eq!(posted, CONN_SLOTS * INITIAL_RX + extra_rx.0);
    }
}
