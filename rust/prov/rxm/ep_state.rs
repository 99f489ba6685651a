// SPDX-License-Identifier: GPL-2.0

//! State of an endpoint's data path: peers, packet buffers, receives and the queues between them.
//!
//! Everything here is guarded by `EpCore::inner`, which is taken in any context: nothing here sleeps, and allocations are
//! atomic and may fail.

use super::{
    super::common::mr_table::{
        EpRights,
        MrTable, //
    },
    completion::CompSinks,
    conn::{
        is_loopback_idx,
        peer_idx_of,
        stalled::StallCheck,
        Conn,
        Peer, //
    },
    deferred_rx::DeferredKeys,
    ep::ctx::{
        CtxVec,
        RxCtx,
        RxSize, //
    },
    inflight::Inflight,
    info::PoolSize,
    matcher::SEARCH_STEP,
    pkt_buf::Packet,
    rx_entry::Receive,
    rx_pool::RxPool,
    turn::Turn,
    tx_pool::{
        queued::QueuedOps,
        unresolved::Unresolved,
        TxPool,
        TxShare, //
    },
    unexpected::UnexpMsg, //
};
use crate::{
    fi::{
        av::AddressVector,
        prelude::*, //
    },
    util::{
        paged_vec::PagedVec,
        stat_counter::StatCounter, //
    },
};

/// Number of entries of the cache of recently used peers; a power of two.
const PEER_CACHE: usize = 64;

/// Returns the place of an address in the cache of recently used peers.
fn cache_place(addr: &SocketAddr) -> usize {
    let ip = match addr {
        SocketAddr::V4(addr) => u32::from(*addr.ip()),
        SocketAddr::V6(addr) => addr.ip().to_bits() as u32,
    };
    place_of(ip, addr.port())
}

#[inline(always)]
fn place_of(ip: u32, port: u16) -> usize {
    (ip ^ u32::from(port)) as usize % PEER_CACHE
}

/// Number of reserved transmit buffers, of which a connected peer may hold one. They have the numbers from 0 on, and the
/// buffers of the pool those that follow.
pub(super) const RESERVES: usize = 128;

/// Returns the number of transmit operations of an endpoint that can be in progress: with buffers of the pool, and with
/// reserved buffers.
pub(super) const fn tx_ops(pool_size: PoolSize) -> usize {
    RESERVES + pool_size.most
}

/// Number that the contexts of reads begin with, beyond those of packets.
const FIRST_READ: usize = 1 << 32;

/// Names the work that the connection manager has to do for a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CmAction {
    /// No work.
    Nothing,
    /// Connect: an operation waits for a connection.
    Connect,
    /// Register the memory of a rendezvous message.
    Register,
    /// Allocate this number of receive buffers.
    GrowRx(usize),
    /// Close the connection.
    Disconnect,
}

/// Peers by index.
pub(super) type Peers = PagedVec<Option<KBox<Peer>>>;

/// State of the data path, guarded by `EpCore::inner`.
pub(super) struct EpState {
    /// Name of the provider, for log messages.
    pub(super) name: &'static CStr,
    /// Receive contexts.
    pub(super) rx_ctxs: CtxVec<RxCtx>,
    pub(super) peers: Peers,
    /// Indices of recently used peers, by a hash of their address.
    peer_cache: [u32; PEER_CACHE],
    /// Operations whose peer has no index yet.
    pub(super) unresolved: Unresolved,
    /// Index of the operations of which nothing has been posted.
    pub(super) queued_ops: QueuedOps,
    /// Indices of the peers that wait for the connection manager.
    pub(super) cm_queue: BoxList<u32>,
    /// Transmit buffers.
    pub(super) tx_pool: TxPool,
    /// Free reserved transmit buffers.
    pub(super) tx_reserves: BoxList<Packet>,
    /// Receive buffers.
    pub(super) rx_pool: RxPool,
    /// Free control buffers that belong to no connection.
    ctrl_bufs: BoxList<Packet>,
    /// Indices of the peers whose received packets are deferred; the next one to retry is the first.
    pub(super) deferred_peers: BoxList<u32>,
    /// Numbers of these peers by the key of their first deferred message.
    pub(super) deferred_keys: DeferredKeys,
    /// True if something has become free that deferred packets may wait for.
    pub(super) retry_wanted: bool,
    /// True if a deferred packet may wait for an entry of the consumer's queue.
    pub(super) awaits_entry: bool,
    /// True if the connection manager has to arm the timer of deferred packets.
    pub(super) needs_retry_timer: bool,
    /// True while the timer of deferred packets is armed.
    pub(super) has_retry_timer: bool,
    /// Number of these peers whose packets have to be processed again.
    pub(super) retries_left: usize,
    /// Completed operations whose memory has to be deregistered before they are reported.
    pub(super) pending_dereg: BoxList<Packet>,
    pub(super) inflight: Inflight<Packet>,
    pub(super) reads_inflight: Inflight<Receive>,
    /// Regions that atomic operations of peers can modify, and the rights of these peers.
    pub(super) regions: (Arc<MrTable>, EpRights),
    /// Number of connections closed because of a violation by the peer.
    pub(super) violations: StatCounter,
    /// Memory of all unexpected messages, in bytes.
    pub(super) unexp_bytes: usize,
    /// Number of segmented messages received, which numbers them.
    pub(super) sar_count: u64,
    /// Clock that counts uses of connections, for LRU eviction.
    pub(super) use_clock: u64,
    /// True if a shutdown handshake may be in progress.
    pub(super) shutdown_pending: bool,
    /// Number of times that `shutdown_pending` was set.
    pub(super) shutdowns_noted: u64,
    /// True if an imported SRX has to be asked again after a delay.
    pub(super) needs_srx_retry: bool,
    /// State of the check of deferred operations.
    pub(super) stall_check: StallCheck,
    /// State of the turn, and the number of copies without the lock.
    pub(super) turn: Turn,
}

/// Resources of a closed endpoint, which are freed in process context.
pub(super) struct DeferredFree {
    /// Packet buffers, with the operations that did not complete.
    pub(super) packets: BoxList<Packet>,
    /// Pool that the transmit buffers belong to.
    pub(super) tx_pool: TxPool,
    /// Receives that did not complete.
    pub(super) receives: BoxList<Receive>,
    unexp_msgs: BoxList<UnexpMsg>,
}

/// Schedules the close of the connection of generation `conn_gen`.
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

impl EpState {
    /// Creates the state of an endpoint with a transmit pool of that size, and `contexts` receive contexts of `size` entries
    /// each, without buffers and receives. Atomic operations of peers access `regions`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    #[inline(never)]
    pub(super) fn new(
        pool_size: PoolSize,
        (contexts, size): (usize, RxSize),
        regions: (Arc<MrTable>, EpRights),
        name: &'static CStr,
    ) -> Result<KBox<Self>> {
        // Initialised in place, because it is too large for the stack.
        let new = try_init!(Self {
            name,
            rx_ctxs: CtxVec::new(contexts, |_| RxCtx::new())?,
            peers: PagedVec::new(),
            peer_cache: [0; PEER_CACHE],
            unresolved: Unresolved::new(),
            queued_ops: QueuedOps::new(tx_ops(pool_size))?,
            cm_queue: BoxList::new(),
            tx_pool: TxPool::unallocated(pool_size.own),
            tx_reserves: BoxList::new(),
            rx_pool: RxPool::new(),
            ctrl_bufs: BoxList::new(),
            deferred_peers: BoxList::new(),
            deferred_keys: DeferredKeys::new(),
            retry_wanted: false,
            awaits_entry: false,
            needs_retry_timer: false,
            has_retry_timer: false,
            retries_left: 0,
            pending_dereg: BoxList::new(),
            inflight: Inflight::new(0, tx_ops(pool_size))?,
            reads_inflight: Inflight::new(FIRST_READ, contexts * size.max_entries())?,
            regions,
            violations: StatCounter::new(),
            unexp_bytes: 0,
            sar_count: 0,
            use_clock: 0,
            shutdown_pending: false,
            shutdowns_noted: 0,
            needs_srx_retry: false,
            stall_check: StallCheck::Off,
            turn: Turn::new()?,
        }? Error);
        Ok(KBox::init(new, GFP_KERNEL)?)
    }

    /// Takes a free receive buffer, or a free control buffer if `is_ctrl` is set.
    pub(super) fn get_free_buf(&mut self, is_ctrl: bool) -> Option<ListBox<Packet>> {
        match is_ctrl {
            true => self.ctrl_bufs.pop(),
            false => self.rx_pool.free_bufs().pop(),
        }
    }

    /// Puts back a receive buffer or control buffer.
    pub(super) fn keep(&mut self, packet: ListBox<Packet>) {
        match packet.is_ctrl() {
            true => self.ctrl_bufs.push(packet),
            false => self.put_rx_buf(packet),
        }
    }

    /// Returns the number of operations that can be started to every peer.
    pub(super) fn tx_left(&self) -> usize {
        self.tx_pool.left()
    }

    #[inline(always)]
    pub(super) fn peer(&mut self, peer_idx: u32) -> Option<&mut Peer> {
        self.peers.get_mut(peer_idx as usize)?.as_deref_mut()
    }

    /// Returns the connection to a peer.
    #[inline(always)]
    pub(super) fn conn(&mut self, peer_idx: u32) -> Option<&mut Conn> {
        self.peer(peer_idx)?.conn.as_mut()
    }

    /// Returns the index of the peer at an address, or `None` if `peer_av` has none.
    #[inline]
    pub(super) fn peer_idx_by_addr(
        &mut self,
        addr: &SocketAddr,
        peer_av: &AddressVector,
    ) -> Option<u32> {
        let place = cache_place(addr);
        let peer_cache = self.peer_cache.get(place).copied()?;
        if self.peer(peer_cache).is_some_and(|peer| peer.addr == *addr) {
            return Some(peer_cache);
        }
        let peer_idx = peer_av.find(addr).and_then(peer_idx_of)?;
        self.peer_cache[place] = peer_idx;
        Some(peer_idx)
    }

    /// Returns the peer at an IPv4 address with its index, if it was used recently, and what its operations need.
    #[inline(always)]
    pub(super) fn recent_peer(
        &mut self,
        (ip, port): (u32, u16),
    ) -> Option<(u32, &mut Peer, &mut Inflight<Packet>, &mut TxPool)> {
        let peer_idx = self.peer_cache[place_of(ip, port)];
        let peer = self.peers.get_mut(peer_idx as usize)?.as_deref_mut()?;
        match peer.is_at(ip, port) {
            true => Some((peer_idx, peer, &mut self.inflight, &mut self.tx_pool)),
            false => None,
        }
    }

    /// Queues a peer for the connection manager, unless it is queued.
    pub(super) fn queue_cm_work(&mut self, peer_idx: u32) {
        let cm_node = self.peer(peer_idx).and_then(|peer| peer.cm_node.take());
        if let Some(cm_node) = cm_node {
            self.cm_queue.push(cm_node);
        }
    }

    /// Returns whether the connection manager has to run.
    pub(super) fn needs_cm_work(&self) -> bool {
        self.has_cm_work()
            || self.needs_srx_retry
            || self.needs_retry_timer
            || self.stall_check == StallCheck::Wanted
    }

    /// Returns whether the connection manager has something to do besides arming its timer.
    pub(super) fn has_cm_work(&self) -> bool {
        !self.cm_queue.is_empty()
            || !self.unresolved.is_empty()
            || !self.pending_dereg.is_empty()
            || self.retries_left > 0
    }

    /// Takes the next peer from the connection manager's queue. The peer can be queued again from now on.
    pub(super) fn next_cm_work(&mut self) -> Option<u32> {
        let cm_node = self.cm_queue.pop()?;
        let peer_idx = *cm_node;
        if let Some(peer) = self.peer(peer_idx) {
            peer.cm_node = Some(cm_node);
        }
        Some(peer_idx)
    }

    /// Returns whether something may wait for a reader to free an entry of the consumer's queue.
    pub(super) fn awaits_reader(&self) -> bool {
        self.retry_wanted
            || self.awaits_entry
            || self
                .rx_ctxs
                .iter()
                .any(|rx_ctx| !rx_ctx.assigned.is_empty())
    }

    /// Returns the work that the connection manager has to do for a peer.
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

    /// Schedules the close of the connection of generation `conn_gen`.
    pub(super) fn schedule_disconnect(&mut self, peer_idx: u32, conn_gen: usize) {
        schedule_disconnect(&mut self.peers, &mut self.cm_queue, peer_idx, conn_gen);
    }

    /// Enters a peer under its index, unless the index is in use, and queues the operations that waited for the
    /// index. Returns the peer if the index is in use. Without capacity the peer is dropped.
    pub(super) fn insert_peer(&mut self, peer_idx: u32, peer: KBox<Peer>) -> Option<KBox<Peer>> {
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
            let mut theirs = self.unresolved.take_to(&addr);
            while let Some(packet) = theirs.pop() {
                self.queue(peer_idx, packet);
            }
            self.queue_cm_work(peer_idx);
        }
        left
    }

    /// Ends everything that is left when no connection is left.
    pub(super) fn end(&mut self) -> DeferredFree {
        let mut packets = self.unresolved.take_where(|_| true);
        self.tx_pool.put_share(&mut TxShare::slow(packets.len()));
        let mut receives = BoxList::new();
        for peer in self.peers.iter_mut().flatten() {
            packets.append(&mut peer.deferred);
            packets.append(&mut peer.deferred_rx);
            packets.append(&mut peer.awaiting_reply);
            self.tx_pool.put_share(&mut peer.tx_share);
            receives.append(&mut peer.rndv_reads);
            while let Some(mut sar) = peer.sar_rx.find(|_| true) {
                if let Some(receive) = sar.data.receive.take() {
                    receives.push(receive);
                }
            }
        }
        for others in [
            &mut self.pending_dereg,
            self.rx_pool.free_bufs(),
            &mut self.ctrl_bufs,
            &mut self.tx_reserves,
        ] {
            packets.append(others);
        }
        let mut unexp_msgs = BoxList::new();
        for rx_ctx in self.rx_ctxs.iter_mut() {
            unexp_msgs.append(&mut rx_ctx.assigned);
        }
        DeferredFree {
            packets,
            tx_pool: mem::replace(&mut self.tx_pool, TxPool::unallocated(0)),
            receives,
            unexp_msgs,
        }
    }

    /// Moves some posted receives, multi-receive buffers and unexpected messages to `to_free`, after [`Self::end`].
    /// Returns false when there are none left.
    pub(super) fn end_matching(&mut self, to_free: &mut DeferredFree) -> bool {
        let mut left = SEARCH_STEP;
        for rx_ctx in self.rx_ctxs.iter_mut() {
            while left > 0 {
                if let Some(receive) = rx_ctx.matcher.pop_receive() {
                    to_free.receives.push(receive);
                } else if let Some(unexp) = rx_ctx.matcher.pop_unexp() {
                    to_free.unexp_msgs.push(unexp);
                } else if let Some(unexp) = rx_ctx.matcher.pop_claimed() {
                    to_free.unexp_msgs.push(unexp);
                } else if let Some(receive) = rx_ctx.buffers.pop_exhausted(&mut left) {
                    to_free.receives.push(receive);
                } else {
                    break;
                }
                left = left.saturating_sub(1);
            }
        }
        left == 0
    }

    /// Keeps a receive that is not reported until the endpoint ends.
    pub(super) fn keep_until_end(&mut self, receive: ListBox<Receive>) {
        self.rx_ctxs
            .ctx_mut(receive.rx_ctx)
            .matcher
            .queue_receive(receive);
    }
}

/// Data-path state and completion sinks, which are under one lock.
pub(super) struct EpInner {
    state: KBox<EpState>,
    pub(super) sinks: CompSinks,
}

impl EpInner {
    /// Initialises the object from its two parts.
    pub(super) fn new(state: KBox<EpState>, sinks: CompSinks) -> impl Init<Self> {
        init!(Self { state, sinks })
    }

    /// Borrows both parts at once.
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
