// SPDX-License-Identifier: GPL-2.0

//! Receive buffers: posted for one connection, or to the receive queue that the connections of a ring share. Guarded by
//! `EpCore::inner`.
//!
//! A connection starts with a few buffers, which are granted to the peer as credits. If the peer uses them up within
//! [`SOON`], the number doubles, up to [`MAX_RX_BUFS`]. If the device supports it, the connections of a ring share a
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
        MAX_RX_BUFS, //
    },
    ep_state::EpState,
    inflight::Inflight,
    pkt_buf::Packet,
    ring::Ring, //
};
use crate::{
    fi::{
        eq::Source,
        prelude::*, //
    },
    util::paged_vec::{
        Growth,
        GrowthSize,
        PagedVec, //
    },
};

/// Time within which a peer has to use up its credits to get more buffers.
pub(super) const SOON: Delta = Delta::from_millis(100);

/// Counts the shared buffers of a ring beyond the initial ones. Buffers are counted before they are allocated, because
/// several connections may ask meanwhile.
struct ExtraRx {
    used: usize,
    limit: usize,
}

impl ExtraRx {
    /// Takes up to `wanted` buffers from the limit.
    fn take(&mut self, wanted: usize) -> usize {
        let taken = wanted.min(self.limit.saturating_sub(self.used));
        self.used += taken;
        taken
    }

    /// Returns buffers to the limit.
    fn give_back(&mut self, count: usize) {
        self.used -= count;
    }
}

/// Shared receive buffers of a ring.
pub(super) struct RingRx {
    ring: Arc<Ring>,
    /// Number of buffers in the shared queue that take messages and are assigned to no connection; negative if a peer
    /// has used more than its credits, or the device has lost assigned ones.
    unassigned: i64,
    /// Number of buffers in the queue that may take no message, because the device has lost them.
    lost: usize,
    extra_rx: ExtraRx,
}

impl RingRx {
    /// Creates the state of a ring without posted buffers.
    pub(super) fn new(ring: Arc<Ring>) -> Self {
        let limit = ring.size.extra_rx;
        Self {
            ring,
            unassigned: 0,
            lost: 0,
            extra_rx: ExtraRx { used: 0, limit },
        }
    }

    /// Sets the number of lost buffers. Others take their place in the queue, instead of some beyond the initial ones.
    fn set_lost(&mut self, lost: usize) {
        let size = self.ring.size;
        // Connections have the others.
        let lost = lost.min(size.extra_rx.saturating_sub(self.extra_rx.used));
        self.unassigned += self.lost as i64 - lost as i64;
        self.lost = lost;
        self.extra_rx.limit = size.extra_rx - lost;
    }

    /// Replaces the buffers that a peer used beyond its credits, and lost ones, by buffers of `free_bufs`.
    fn refill(&mut self, inflight: &mut Inflight<Packet>, free_bufs: &mut BoxList<Packet>) {
        let Some(shared) = &self.ring.shared else {
            return;
        };
        while self.unassigned < 0 {
            let Some(mut packet) = free_bufs.pop() else {
                return;
            };
            packet.ring = self.ring.index;
            let posted =
                Packet::receive(packet, inflight, |message| shared.core().receive(message));
            if let Err(error) = posted {
                free_bufs.push(error.node);
                return;
            }
            self.unassigned += 1;
        }
    }
}

/// Receive buffers of an endpoint.
pub(super) struct RxPool {
    /// Rings by index.
    rings: PagedVec<Option<KBox<RingRx>>>,
    /// Buffers that are not posted.
    free_bufs: BoxList<Packet>,
}

impl RxPool {
    /// Creates an empty pool without a ring.
    pub(super) const fn new() -> Self {
        Self {
            rings: PagedVec::new(),
            free_bufs: BoxList::new(),
        }
    }

    /// Returns the size that memory has to be allocated for, unless there is space for the ring with that index.
    pub(super) fn growth_for_ring(&self, index: usize) -> Option<GrowthSize> {
        (self.rings.len() <= index).then(|| self.rings.growth_size())
    }

    /// Adds memory for more rings.
    pub(super) fn grow_rings(&mut self, growth: &mut Growth<Option<KBox<RingRx>>>) {
        let _ = self.rings.grow(growth);
    }

    /// Replaces the ring with that index. The caller drops the result in process context.
    pub(super) fn set_ring(
        &mut self,
        index: u32,
        ring_rx: Option<KBox<RingRx>>,
    ) -> Option<KBox<RingRx>> {
        let place = self.rings.get_mut(index as usize)?;
        mem::replace(place, ring_rx)
    }

    /// Returns the ring with that index.
    pub(super) fn ring(&self, index: u32) -> Option<&Arc<Ring>> {
        Some(&self.rings.get(index as usize)?.as_ref()?.ring)
    }

    fn ring_rx(&mut self, index: u32) -> Option<&mut RingRx> {
        self.rings.get_mut(index as usize)?.as_deref_mut()
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
            let ring_rx = match conn.shared {
                None => None,
                Some(_) => self.ring_rx(conn.ring),
            };
            if let Some(ring_rx) = ring_rx.filter(|ring_rx| ring_rx.unassigned > 0) {
                ring_rx.unassigned -= 1;
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
}

impl EpState {
    /// Puts back a receive buffer, which may be posted at once.
    pub(super) fn put_rx_buf(&mut self, packet: ListBox<Packet>) {
        let ring = packet.ring;
        self.rx_pool.free_bufs.push(packet);
        self.refill(ring);
    }

    /// Returns the number of buffers that have to be posted in a ring before others are assigned to connections.
    pub(super) fn missing_rx(&mut self, ring: u32) -> usize {
        let ring_rx = self.rx_pool.ring_rx(ring);
        ring_rx.map_or(0, |ring_rx| (-ring_rx.unassigned).max(0) as usize)
    }

    /// Posts newly allocated buffers in place of those that are missing in a ring.
    pub(super) fn add_to_ring(&mut self, ring: u32, mut packets: BoxList<Packet>) {
        self.rx_pool.free_bufs.append(&mut packets);
        self.refill(ring);
    }

    /// Counts the buffers that the device may have lost, after a connection of a ring has been closed.
    pub(super) fn count_lost_rx(&mut self, ring: u32) {
        if let Some(ring_rx) = self.rx_pool.ring_rx(ring) {
            let shared = ring_rx.ring.shared.as_ref();
            let lost = shared.map_or(0, |shared| shared.core().receives_lost());
            ring_rx.set_lost(lost);
            self.refill(ring);
        }
    }

    /// Replaces the buffers of a ring that a peer used beyond its credits, and those that the device has lost.
    fn refill(&mut self, ring: u32) {
        let Self {
            rx_pool, inflight, ..
        } = self;
        let RxPool { rings, free_bufs } = rx_pool;
        let ring_rx = rings.get_mut(ring as usize).and_then(Option::as_mut);
        if let Some(ring_rx) = ring_rx.filter(|ring_rx| ring_rx.unassigned < 0) {
            ring_rx.refill(inflight, free_bufs);
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

    /// Requests as many more receive buffers as the connection has, up to [`MAX_RX_BUFS`] in all and to the extra
    /// buffers of its ring, because the peer uses its credits quickly. The connection manager allocates them.
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
            let ring_rx = rx_pool.ring_rx(conn.ring);
            more = ring_rx.map_or(0, |ring_rx| ring_rx.extra_rx.take(more));
            conn.extra_rx += more;
        }
        conn.rx_deficit = more;
    }

    /// Posts the buffers that the connection manager has allocated for the connection of a peer. `None` means that the
    /// allocation failed: the connection can request buffers again after the next credit grant.
    pub(super) fn rx_bufs_allocated(&mut self, peer_idx: u32, packets: Option<BoxList<Packet>>) {
        let wanted = self
            .conn(peer_idx)
            .map_or(0, |conn| mem::take(&mut conn.rx_deficit));
        let given = match packets {
            Some(mut packets) => {
                while let Some(packet) = packets.pop() {
                    self.put_rx_buf(packet);
                }
                self.post_rx_bufs(peer_idx, wanted)
            }
            None => {
                if let Some(conn) = self.conn(peer_idx) {
                    conn.forget_last_grant();
                }
                Ok(wanted)
            }
        };
        let Self { peers, rx_pool, .. } = self;
        let peer = peers.get_mut(peer_idx as usize).and_then(Option::as_mut);
        let Some(conn) = peer.and_then(|peer| peer.conn.as_mut()) else {
            return;
        };
        match given {
            Ok(missing) if conn.shared.is_some() => {
                conn.extra_rx -= missing;
                if let Some(ring_rx) = rx_pool.ring_rx(conn.ring) {
                    ring_rx.extra_rx.give_back(missing);
                }
            }
            Ok(_) => {}
            Err(errno) => conn.note_post_error(errno),
        }
    }

    /// Releases the posted buffers of a connection that has been removed from its peer.
    pub(super) fn release_conn_rx(&mut self, conn: &Conn) {
        let ring_rx = self.rx_pool.ring_rx(conn.ring);
        if let (Some(ring_rx), Some(_)) = (ring_rx, &conn.shared) {
            ring_rx.unassigned += conn.posted;
            ring_rx.extra_rx.give_back(conn.extra_rx);
            self.refill(conn.ring);
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
                if let Some(ring_rx) = self.rx_pool.ring_rx(packet.ring) {
                    ring_rx.unassigned -= i64::from(source.is_some());
                }
                Ok(())
            }
        }
    }
}

#[kernel::prelude::kunit_tests(kofi_rdm_rx_pool)]
mod tests {
    use super::*;
    use crate::{
        prov::rxm::ring::RingSize,
        util::random::SeededRandom, //
    };

    /// Lets the connections of a ring grow and end at random, without any allocation.
    fn check_ring(size: RingSize) -> Result {
        let mut random = SeededRandom::new(1);
        let mut extra_rx = ExtraRx {
            used: 0,
            limit: size.extra_rx,
        };
        let mut has = KVec::from_elem(size.initial_rx, size.conns, GFP_KERNEL)?;
        for _ in 0..100 * size.conns {
            let at = random.next_below(size.conns as u64) as usize;
            let Some(has) = has.get_mut(at) else {
                continue;
            };
            if random.next_below(10) == 0 {
                extra_rx.give_back(*has - size.initial_rx);
                *has = size.initial_rx;
            } else {
                let wanted = (*has).min(MAX_RX_BUFS - *has);
                *has += extra_rx.take(wanted);
            }
        }
        let posted: usize = has.iter().sum();
        assert!(posted <= size.depth());
        assert_eq!(posted, size.conns * size.initial_rx + extra_rx.used);
        Ok(())
    }

    #[test]
    fn rdm_06_receives_of_a_ring_fit_its_depth() -> Result {
        check_ring(RingSize::FIRST)?;
        check_ring(RingSize::OTHER)
    }

    #[test]
    fn buffers_beyond_the_limit_are_not_taken() {
        let mut extra_rx = ExtraRx { used: 0, limit: 10 };
        assert_eq!(
            (extra_rx.take(7), extra_rx.take(7), extra_rx.take(7)),
            (7, 3, 0)
        );
        extra_rx.give_back(4);
        assert_eq!(extra_rx.take(7), 4);
    }
}
