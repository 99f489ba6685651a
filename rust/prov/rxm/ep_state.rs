// SPDX-License-Identifier: GPL-2.0

//! What is under way at an endpoint: its packets, its receives, and what waits for what.
//!
//! All of it is under one lock, which is taken in any context: nothing here sleeps, and what is allocated
//! may fail. [`sending`](super::sending) has what goes; [`arriving`](super::arriving) has packets that come,
//! [`assembling`](super::assembling) messages in several of them, [`receiving`](super::receiving) what takes
//! messages, [`placing`](super::placing) what takes several, and [`looking`](super::looking) who asks for them
//! first.

use super::{
    super::common::mr_table::{
        EpRights,
        MrTable, //
    },
    completion::CompSinks,
    conn::{
        is_loopback_idx,
        peer_idx_of,
        Conn,
        Peer,
        CTRL_BUFS,
        MAX_READS,
        MAX_RX_BUFS, //
    },
    ep::ctx::{
        CtxVec,
        RxCtx,
        RxSize, //
    },
    inflight::Inflight,
    lower::Route,
    pkt_buf::Packet,
    progress::BATCH,
    rx_entry::Receive,
    rx_pool::{
        RxPool,
        DEPTH, //
    },
    tx_pool::TxPool,
    unexpected::UnexpMsg, //
};
use crate::{
    fi::{
        av::AddressVector,
        cq::SourcedEntry,
        memory::EntrySlots,
        prelude::*, //
    },
    util::{
        owned_list::{
            BoxList,
            ListBox, //
        },
        stat_counter::StatCounter, //
    },
};

/// How many peers are found without a look into the vector of all, if no two of them share a place; a power
/// of two.
const PEER_CACHE: usize = 64;

/// Packets to send that an endpoint has.
pub(super) const TX_BUFS: usize = 128;

/// How many of them one peer may have, so that there are some for the others.
pub(super) const TX_SHARE: usize = TX_BUFS / 2;

/// Connections that an endpoint has at once, at most.
pub(super) const MAX_CONNS: usize = 128;

/// The same with the second end of one with itself.
pub(super) const CONN_SLOTS: usize = MAX_CONNS + 1;

/// Packets that an endpoint has at once: those that are posted where connections share are there still when none
/// does any more.
const PKT_BUFS: usize = TX_BUFS + DEPTH + CONN_SLOTS * (MAX_RX_BUFS + CTRL_BUFS);

/// What lower endpoints have in hand at once.
pub(super) const LOWER_OPS: usize = PKT_BUFS + CONN_SLOTS * MAX_READS;

/// What is to be done for a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CmAction {
    /// Nothing.
    Nothing,
    /// A connection: something waits for it.
    Connect,
    /// The memory of a message is to be opened to it.
    Register,
    /// So many packets are to be made, to receive with.
    GrowRx(usize),
    /// Its connection is to be closed.
    Disconnect,
}

/// All peers, by their numbers.
pub(super) type Peers = KVVec<Option<KBox<Peer>>>;

/// See the module.
pub(super) struct EpState {
    /// The provider's, for the log.
    pub(super) name: &'static CStr,
    /// Who receives.
    pub(super) rx_ctxs: CtxVec<RxCtx>,
    pub(super) peers: Peers,
    /// Whom something was last sent to.
    peer_cache: [u32; PEER_CACHE],
    /// Operations with those who have no number yet.
    pub(super) unresolved: BoxList<Packet>,
    /// Whom somebody is to look after.
    pub(super) cm_queue: BoxList<u32>,
    /// Packets for operations.
    pub(super) tx_pool: TxPool,
    /// What connections receive with.
    pub(super) rx_pool: RxPool,
    /// Packets for words that no connection has.
    ctrl_bufs: BoxList<Packet>,
    /// Packets that have come and are to be looked at again, in order.
    pub(super) deferred_rx: BoxList<Packet>,
    /// Operations that are over when their memory is closed.
    pub(super) pending_dereg: BoxList<Packet>,
    pub(super) inflight: Inflight<Packet>,
    pub(super) reads_inflight: Inflight<Receive>,
    /// Regions that peers' atomic operations can modify, and the rights of these peers.
    pub(super) regions: (Arc<MrTable>, EpRights),
    /// Number of connections closed because of a violation by the peer.
    pub(super) violations: StatCounter,
    /// How much memory all messages have that wait for receives, in bytes.
    pub(super) unexp_bytes: usize,
    /// How many messages have come in segments.
    pub(super) sar_count: u64,
    /// How often something has been done by any connection.
    pub(super) use_clock: u64,
    /// Some connection may be about to end.
    pub(super) shutdown_pending: bool,
    /// Something is to be tried again in a while with another module's provider.
    pub(super) needs_srx_retry: bool,
    /// Completions of the lower endpoints, on their way.
    pub(super) polled: KBox<EntrySlots<SourcedEntry, BATCH>>,
}

/// What is left of an endpoint, to be dropped where one may sleep.
pub(super) struct DeferredFree {
    /// Its packets, and the operations that have no outcome.
    pub(super) packets: BoxList<Packet>,
    /// Where those belong that are for operations.
    pub(super) tx_pool: TxPool,
    /// The receives that have none.
    pub(super) receives: BoxList<Receive>,
    _letters: BoxList<UnexpMsg>,
}

/// The connection of that attempt is to be closed.
pub(super) fn schedule_disconnect(
    peers: &mut Peers,
    cm_queue: &mut BoxList<u32>,
    peer_idx: u32,
    conn_gen: usize,
) {
    let peer = peers.get_mut(peer_idx as usize).and_then(Option::as_mut);
    if let Some(peer) = peer.filter(|peer| peer.has(conn_gen)) {
        peer.schedule_disconnect(cm_queue);
    }
}

/// Where an address has its place among those to which something was last sent.
fn peer_cache_slot(addr: &SocketAddr) -> usize {
    let exported = match addr {
        SocketAddr::V4(addr) => u32::from(*addr.ip()),
        SocketAddr::V6(addr) => addr.ip().to_bits() as u32,
    };
    (exported ^ u32::from(addr.port())) as usize % PEER_CACHE
}

impl EpState {
    /// Of so many receive contexts of that size each, which have nothing to receive with yet, and for
    /// operations on `regions`, with nothing to send with. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    #[inline(never)]
    pub(super) fn new(
        contexts: usize,
        size: RxSize,
        regions: (Arc<MrTable>, EpRights),
        name: &'static CStr,
    ) -> Result<KBox<Self>> {
        // Initialised in place: it is too large for the stack.
        let new = try_init!(Self {
            name,
            rx_ctxs: CtxVec::new(contexts, |_| RxCtx::new())?,
            peers: KVVec::new(),
            peer_cache: [0; PEER_CACHE],
            unresolved: BoxList::new(),
            cm_queue: BoxList::new(),
            tx_pool: TxPool::NONE,
            rx_pool: RxPool::new(),
            ctrl_bufs: BoxList::new(),
            deferred_rx: BoxList::new(),
            pending_dereg: BoxList::new(),
            inflight: Inflight::new(0, PKT_BUFS)?,
            reads_inflight: Inflight::new(PKT_BUFS, contexts * size.max_entries())?,
            regions,
            violations: StatCounter::new(),
            unexp_bytes: 0,
            sar_count: 0,
            use_clock: 0,
            shutdown_pending: false,
            needs_srx_retry: false,
            polled: EntrySlots::boxed()?,
        }? Error);
        Ok(KBox::init(new, GFP_KERNEL)?)
    }

    /// A packet to receive with that no connection has, or one for words.
    pub(super) fn get_free_buf(&mut self, is_ctrl: bool) -> Option<ListBox<Packet>> {
        match is_ctrl {
            true => self.ctrl_bufs.pop(),
            false => self.rx_pool.free_bufs().pop(),
        }
    }

    /// The same, which is not needed any more.
    pub(super) fn keep(&mut self, packet: ListBox<Packet>) {
        match packet.is_ctrl() {
            true => self.ctrl_bufs.push(packet),
            false => self.put_rx_buf(packet),
        }
    }

    /// How many operations can be started.
    pub(super) fn tx_left(&self) -> usize {
        self.tx_pool.left()
    }

    #[inline(always)]
    pub(super) fn peer(&mut self, peer_idx: u32) -> Option<&mut Peer> {
        self.peers.get_mut(peer_idx as usize)?.as_deref_mut()
    }

    /// The connection with a peer.
    #[inline(always)]
    pub(super) fn conn(&mut self, peer_idx: u32) -> Option<&mut Conn> {
        self.peer(peer_idx)?.conn.as_mut()
    }

    /// The number of the peer at an address, if it has one; `ways` has all numbers.
    #[inline]
    pub(super) fn peer_idx_by_addr(
        &mut self,
        addr: &SocketAddr,
        peer_av: &AddressVector,
    ) -> Option<u32> {
        let place = peer_cache_slot(addr);
        let peer_cache = self.peer_cache.get(place).copied()?;
        if self.peer(peer_cache).is_some_and(|peer| peer.addr == *addr) {
            return Some(peer_cache);
        }
        let peer_idx = peer_av.find(addr).and_then(peer_idx_of)?;
        self.peer_cache[place] = peer_idx;
        Some(peer_idx)
    }

    /// Calls for somebody to look after a peer.
    pub(super) fn queue_cm_work(&mut self, peer_idx: u32) {
        let cm_node = self.peer(peer_idx).and_then(|peer| peer.cm_node.take());
        if let Some(cm_node) = cm_node {
            self.cm_queue.push(cm_node);
        }
    }

    /// Whether somebody is to look after peers, or operations.
    pub(super) fn needs_cm_work(&self) -> bool {
        !self.cm_queue.is_empty()
            || !self.unresolved.is_empty()
            || !self.pending_dereg.is_empty()
            || self.needs_srx_retry
    }

    /// Takes a call; the peer may call again from now on.
    pub(super) fn next_cm_work(&mut self) -> Option<u32> {
        let cm_node = self.cm_queue.pop()?;
        let peer_idx = *cm_node;
        if let Some(peer) = self.peer(peer_idx) {
            peer.cm_node = Some(cm_node);
        }
        Some(peer_idx)
    }

    /// Whether packets are to be looked at again.
    pub(super) fn has_deferred_rx(&self) -> bool {
        !self.deferred_rx.is_empty()
    }

    /// Whether something may be waiting for a reader to make room.
    pub(super) fn awaits_reader(&self) -> bool {
        self.has_deferred_rx()
            || self
                .rx_ctxs
                .iter()
                .any(|rx_ctx| !rx_ctx.assigned.is_empty())
    }

    /// What is to be done for a peer.
    pub(super) fn cm_action(&mut self, peer_idx: u32) -> CmAction {
        match self.peer(peer_idx) {
            Some(peer) if peer.conn.as_ref().is_some_and(|conn| conn.is_closing) => {
                CmAction::Disconnect
            }
            Some(peer) if peer.rx_deficit() > 0 => CmAction::GrowRx(peer.rx_deficit()),
            Some(peer) if peer.deferred.is_empty() => CmAction::Nothing,
            Some(peer) if peer.conn.is_none() => CmAction::Connect,
            Some(peer) if peer.needs_registration() => CmAction::Register,
            _ => CmAction::Nothing,
        }
    }

    /// The connection of that attempt is to be closed.
    pub(super) fn schedule_disconnect(&mut self, peer_idx: u32, conn_gen: usize) {
        schedule_disconnect(&mut self.peers, &mut self.cm_queue, peer_idx, conn_gen);
    }

    /// The same of all on the same host.
    pub(super) fn disconnect_local(&mut self) {
        let Self {
            peers, cm_queue, ..
        } = self;
        for peer in peers.iter_mut().flatten() {
            let conn = peer.conn.as_ref();
            if conn.is_some_and(|conn| conn.lower.route == Route::Local) {
                peer.schedule_disconnect(cm_queue);
            }
        }
    }

    /// Whom an operation is with that has no number yet.
    pub(super) fn next_unresolved(&self) -> Option<SocketAddr> {
        Some(self.unresolved.front()?.dest)
    }

    /// Makes room for peers with numbers below `count`, in memory that was allocated for it: what there was
    /// is given back.
    pub(super) fn grow(&mut self, mut room: Peers) -> Peers {
        if room.capacity() > self.peers.capacity() {
            for peer in self.peers.drain_all() {
                let _ = room.push_within_capacity(peer);
            }
            mem::swap(&mut self.peers, &mut room);
        }
        room
    }

    /// How many peers there is room for.
    pub(super) fn peer_capacity(&self) -> usize {
        self.peers.capacity()
    }

    /// Gives a peer its number, unless it has it: what waits for it is its own. The box comes back if it
    /// was not needed.
    pub(super) fn insert_peer(&mut self, peer_idx: u32, peer: KBox<Peer>) -> Option<KBox<Peer>> {
        while self.peers.len() <= peer_idx as usize {
            self.peers.push_within_capacity(None).ok()?;
        }
        let addr = peer.addr;
        let place = self.peers.get_mut(peer_idx as usize)?;
        let left = match place {
            Some(_) => Some(peer),
            None => {
                *place = Some(peer);
                None
            }
        };
        if !is_loopback_idx(peer_idx) {
            let mut theirs = self.unresolved.drain_where(|packet| packet.is_to(&addr));
            while let Some(packet) = theirs.pop() {
                self.queue(peer_idx, packet);
            }
            self.queue_cm_work(peer_idx);
        }
        left
    }

    /// Ends everything, once there are no connections.
    pub(super) fn end(&mut self) -> DeferredFree {
        let mut packets = mem::take(&mut self.unresolved);
        let mut receives = BoxList::new();
        for peer in self.peers.iter_mut().flatten() {
            packets.append(&mut peer.deferred);
            packets.append(&mut peer.awaiting_reply);
            receives.append(&mut peer.rndv_reads);
            while let Some(mut sar) = peer.sar_rx.find(|_| true) {
                if let Some(receive) = sar.data.receive.take() {
                    receives.push(receive);
                }
            }
        }
        for others in [
            &mut self.pending_dereg,
            &mut self.deferred_rx,
            self.rx_pool.free_bufs(),
            &mut self.ctrl_bufs,
        ] {
            packets.append(others);
        }
        let mut unexp_msgs = BoxList::new();
        for rx_ctx in self.rx_ctxs.iter_mut() {
            for mut queue in rx_ctx.matcher.take_receives() {
                receives.append(&mut queue);
            }
            receives.append(&mut rx_ctx.buffers.take_exhausted());
            for mut queue in rx_ctx.matcher.remove_unexp(|_| true) {
                unexp_msgs.append(&mut queue);
            }
            unexp_msgs.append(&mut rx_ctx.claimed);
            unexp_msgs.append(&mut rx_ctx.assigned);
        }
        DeferredFree {
            packets,
            tx_pool: mem::replace(&mut self.tx_pool, TxPool::NONE),
            receives,
            _letters: unexp_msgs,
        }
    }

    /// Keeps a receive of which nothing comes, until everything ends.
    pub(super) fn keep_until_end(&mut self, receive: ListBox<Receive>) {
        self.rx_ctxs
            .ctx_mut(receive.rx_ctx)
            .matcher
            .queue_receive(receive);
    }
}

/// Traffic, and where consumers are told of it: all of it is under one lock.
pub(super) struct EpInner {
    state: KBox<EpState>,
    pub(super) sinks: CompSinks,
}

impl EpInner {
    /// Initialises the object from its two parts.
    pub(super) fn new(state: KBox<EpState>, sinks: CompSinks) -> impl Init<Self> {
        init!(Self { state, sinks })
    }

    /// Both, as they need each other.
    #[inline]
    pub(super) fn split(&mut self) -> (&mut EpState, &CompSinks) {
        (&mut self.state, &self.sinks)
    }
}

impl Deref for EpInner {
    type Target = EpState;

    #[inline]
    fn deref(&self) -> &EpState {
        &self.state
    }
}

impl DerefMut for EpInner {
    #[inline]
    fn deref_mut(&mut self) -> &mut EpState {
        &mut self.state
    }
}
