// SPDX-License-Identifier: GPL-2.0

//! What connections receive with: packets that are posted, for one of them alone or for all that share.
//!
//! Each connection has a few packets from the beginning, of which its peer is told; one whose peer has used
//! them up soon after it has been told gets as many again. Where the device lets connections share, all of
//! these are in one queue: but no peer is told of more than there are, so that none waits for another that
//! does not receive. What a connection leaves there when it ends is for the next one.
//!
//! On iWARP they do not share, nor with a peer that does not count: either could use up what others have
//! been told of, and there that ends the connection of whoever comes next. Elsewhere such a message only
//! waits until another packet is there; and whoever sends more than it was told of is not heard again.

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

/// What connections that share may have beyond their first packets, all together.
const MAX_EXTRA_RX: usize = 1984;

/// What can be posted where they share.
pub(super) const DEPTH: usize = CONN_SLOTS * INITIAL_RX + MAX_EXTRA_RX;

/// Who has used up within that time what it was told of may have more.
pub(super) const SOON: Delta = Delta::from_millis(100);

/// How many packets connections have that share, all together, beyond their first ones. What is to be made for
/// one is its own before it is there: many may ask for some before that.
struct ExtraRx(usize);

impl ExtraRx {
    /// Takes as many of those `wanted` as there may be.
    fn take(&mut self, wanted: usize) -> usize {
        let taken = wanted.min(MAX_EXTRA_RX - self.0);
        self.0 += taken;
        taken
    }

    /// They are not needed, or not there.
    fn give_back(&mut self, count: usize) {
        self.0 -= count;
    }
}

/// See the module.
pub(super) struct RxPool {
    /// Where those are posted that share.
    shared: Option<Arc<SharedReceive>>,
    /// How many are posted there that no connection counts on; less than none where a peer has used more
    /// than it was told of.
    unassigned: i64,
    extra_rx: ExtraRx,
    /// Packets that are not posted.
    free_bufs: BoxList<Packet>,
}

impl RxPool {
    /// Nothing yet, and nobody shares.
    pub(super) const fn new() -> Self {
        Self {
            shared: None,
            unassigned: 0,
            extra_rx: ExtraRx(0),
            free_bufs: BoxList::new(),
        }
    }

    /// Where those are posted that share, if any do.
    pub(super) fn shared(&self) -> Option<&Arc<SharedReceive>> {
        self.shared.as_ref()
    }

    /// Connections share what is posted there, from now on.
    pub(super) fn start_sharing(&mut self, shared: Arc<SharedReceive>) {
        self.shared = Some(shared);
    }

    /// There are no connections any more: where they have shared.
    pub(super) fn stop_sharing(&mut self) -> Option<Arc<SharedReceive>> {
        self.shared.take()
    }

    /// Packets that are not posted.
    pub(super) fn free_bufs(&mut self) -> &mut BoxList<Packet> {
        &mut self.free_bufs
    }

    /// Posts `count` packets more for a connection, as far as there are any; says how many are lacking.
    ///
    /// # Errors
    ///
    /// Why one cannot be posted.
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

    /// Posts what a peer has used up of others' receives.
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
    /// Keeps a packet that a connection does not need any more, or that is to be posted.
    pub(super) fn put_rx_buf(&mut self, packet: ListBox<Packet>) {
        self.rx_pool.free_bufs.push(packet);
        if self.rx_pool.unassigned < 0 {
            self.rx_pool.refill(&mut self.inflight);
        }
    }

    /// Posts that many packets for a connection, which there are. Says how many are lacking all the same.
    ///
    /// # Errors
    ///
    /// Why one cannot be posted.
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

    /// Lets a peer send more at once that has soon used up what it was told of; where packets are lacking
    /// for that, they are to be made.
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

    /// Those that were lacking have been made, or cannot be.
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

    /// A connection has been taken from its peer: what is posted is there for others.
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

    /// A packet that was posted has come back: by the connection of `source`, where they share.
    ///
    /// # Errors
    ///
    /// Its peer was told of less.
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

    /// Connections ask for more until they have all that one may have, and end; no packet is ever made.
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
