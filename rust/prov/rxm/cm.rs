// SPDX-License-Identifier: GPL-2.0

//! Connection manager of an endpoint. Runs in process context under the mutex `EpCore::cm`.
//!
//! Called as handler of the lower event queue, which a sender that needs a connection schedules.

pub(super) mod admission;
pub(super) mod close;
pub(super) mod connect;
pub(super) mod disconnect;
pub(super) mod events;
pub(super) mod removal;
pub(super) mod shutdown;
pub(super) mod source;
pub(super) mod state;
pub(super) mod timers;

use self::{
    admission::Waiter,
    shutdown::GRACE_ROUNDS,
    source::Sources,
    state::ConnFsm,
    timers::{
        Backoff,
        CmTimers, //
    },
};
use super::{
    conn::{
        conn_gen_of,
        loopback_idx,
        peer_idx_of,
        peer_idx_of_gen,
        Peer,
        MAX_RX_BUFS, //
    },
    ep_core::{
        Bound,
        EpCore, //
    },
    ep_state::CmAction,
    lower::Route,
    ring::CmRing,
    unexpected::UnexpBytes,
    wire::{
        AcceptData,
        ConnId,
        ConnectData,
        Extensions,
        Flow, //
    },
};
use crate::{
    abi::FI_PROTO_IWARP,
    fi::{
        av::Insertion,
        eq::{
            EventQueue,
            Source, //
        },
        mr::Access,
        pep::PassiveEndpoint,
        prelude::*,
        provider::Rma,
        timer::ArmedTimer, //
    },
    util::{
        paged_vec::Growth,
        random::random, //
    },
};
use core::iter;

/// Use credits if the peer can: on iWARP a message without a receive ends the connection, and elsewhere the device
/// retries it only after a delay in which hundreds of messages could have been sent.
const FLOW: Flow = Flow::Credits;

/// Extensions that every endpoint supports.
const EXTENSIONS: Extensions = Extensions::SHUTDOWN.and(Extensions::DELIVERY);

/// Number of events and pieces of work that one run of the connection manager handles, before other endpoints have
/// their turn.
const TURN_BUDGET: usize = 256;

/// Source of the listener's events. The events of a connection have its generation, which is never 0.
pub(super) const LISTENER: Source = Source(0);

/// State of the connection manager for a peer.
pub(super) struct CmPeer {
    addr: SocketAddr,
    pub(super) fsm: ConnFsm,
    /// Generation of the last connection.
    conn_gen: usize,
    /// Route of the last connection.
    route: Route,
    /// True if the peer does not use credits.
    no_flow_ctrl: bool,
    /// Unexpected bytes of the peer's source.
    unexp_bytes: Arc<UnexpBytes>,
    /// True if the connection was being accepted at the last check.
    was_accepting: bool,
    /// Memory of the connection that is charged to the source of the peer, in bytes.
    charged: usize,
    /// Entry for the queue for admission; `None` while it is in the queue.
    wait_node: Option<ListBox<Waiter>>,
}

/// State of the connection manager.
pub(super) struct ConnMgr {
    pub(super) peers: KVVec<Option<CmPeer>>,
    /// Listener of each route.
    pub(super) listeners: [Option<Arc<PassiveEndpoint>>; 2],
    /// Address to listen on.
    pub(super) local: Option<SocketAddr>,
    /// Endpoint core that peers on the same host call, until all connections are closed.
    pub(super) core: Option<Arc<EpCore>>,
    /// Instance number of the endpoint: another endpoint at the same address has another one.
    instance: u32,
    /// Extensions that are announced to peers.
    extensions: Extensions,
    /// True on iWARP, where a send behind a read is fenced.
    pub(super) is_iwarp: bool,
    /// Traffic class of the connections.
    tclass: u32,
    /// True after the removal of the device: no connection is established any more.
    pub(super) is_device_removed: bool,
    last_gen: u32,
    /// Number of receive and control buffers that have been allocated, which numbers them.
    rx_bufs_made: u32,
    /// Number of reserved transmit buffers that have been allocated, which numbers them.
    tx_reserves_made: u32,
    /// Rings by index.
    pub(super) rings: KVVec<Option<CmRing>>,
    /// Numbers of receive and control buffers that have been freed.
    pub(super) free_numbers: KVVec<u32>,
    /// Sources of the peers.
    sources: Sources,
    /// Peers that wait for admission, in order.
    waiters: BoxList<Waiter>,
    /// Sequence number of the next peer that waits for admission.
    pub(super) next_wait_seq: u64,
    /// Number of the current eviction check.
    pub(super) evict_round: u64,
    /// Delay before a peer that announced its own request is asked again.
    pub(super) backoff: Backoff,
    /// Deadlines.
    pub(super) timers: CmTimers,
    /// Timer that is armed for the next deadline.
    pub(super) armed_timer: Option<ArmedTimer<EventQueue>>,
}

impl ConnMgr {
    /// Creates the connection manager of an endpoint that listens at `local` and has `contexts` receive contexts and
    /// `extensions` beyond those of every endpoint; `lower` is the lower info.
    #[inline(never)]
    pub(super) fn new(
        local: Option<SocketAddr>,
        tclass: u32,
        lower: &Info,
        (contexts, extensions): (usize, Extensions),
    ) -> Self {
        Self {
            peers: KVVec::new(),
            listeners: [const { None }; 2],
            local,
            core: None,
            instance: (random() as u32).max(1),
            extensions: EXTENSIONS.and(extensions).with_contexts(contexts),
            tclass,
            is_iwarp: lower.ep().is_some_and(|ep| ep.protocol == FI_PROTO_IWARP),
            is_device_removed: false,
            last_gen: 0,
            rx_bufs_made: 0,
            tx_reserves_made: 0,
            rings: KVVec::new(),
            free_numbers: KVVec::new(),
            sources: Sources::new(),
            waiters: BoxList::new(),
            next_wait_seq: 0,
            evict_round: GRACE_ROUNDS + 1,
            backoff: Backoff::new(),
            timers: CmTimers::new(),
            armed_timer: None,
        }
    }

    fn listener(&self, route: Route) -> Option<&Arc<PassiveEndpoint>> {
        let [device, local] = &self.listeners;
        match route {
            Route::Device => device.as_ref(),
            Route::Local => local.as_ref(),
        }
    }

    pub(super) fn cm_peer(&mut self, peer_idx: u32) -> Result<&mut CmPeer> {
        let cm_peer = self.peers.get_mut(peer_idx as usize);
        cm_peer.and_then(Option::as_mut).ok_or(Errno::EINVAL)
    }

    /// Returns the peer whose last connection has generation `conn_gen`.
    fn peer_of_gen(&mut self, conn_gen: usize) -> Option<(u32, &mut CmPeer)> {
        let peer_idx = peer_idx_of_gen(conn_gen);
        let cm_peer = self.peers.get_mut(peer_idx as usize)?.as_mut()?;
        (cm_peer.conn_gen == conn_gen).then_some((peer_idx, cm_peer))
    }

    fn next_conn_gen(&mut self, peer_idx: u32) -> Result<usize> {
        self.last_gen = self.last_gen.wrapping_add(1).max(1);
        let conn_gen = conn_gen_of(self.last_gen, peer_idx);
        self.cm_peer(peer_idx)?.conn_gen = conn_gen;
        Ok(conn_gen)
    }

    fn conn_id(&self, peer_idx: u32) -> ConnId {
        ConnId {
            instance: self.instance,
            index: peer_idx,
        }
    }

    /// Returns whether a request with that sender was sent by this endpoint itself.
    fn is_own(&self, who: ConnId) -> bool {
        who.instance == self.instance
    }

    fn port(&self) -> u16 {
        self.local.map_or(0, |local| local.port())
    }

    /// Returns the private data of a connection request.
    fn connect_data(&self, peer_idx: u32) -> [u8; 24] {
        ConnectData {
            port: self.port(),
            flow: FLOW,
            receives: MAX_RX_BUFS as u32,
            extensions: self.extensions,
            conn_id: self.conn_id(peer_idx),
        }
        .to_bytes()
    }

    /// Returns the private data of a reply.
    fn accept_data(&self, peer_idx: u32) -> [u8; 16] {
        AcceptData {
            conn_id: self.conn_id(peer_idx),
            receives: MAX_RX_BUFS as u32,
            extensions: self.extensions,
            flow: FLOW,
        }
        .to_bytes()
    }
}

impl EpCore {
    /// Runs the connection manager. May sleep.
    pub(super) fn run_cm(&self, here: ProcessContext) {
        let Ok(bound) = self.bound() else {
            return;
        };
        let Some(_call) = self.rundown.begin_call() else {
            return;
        };
        let mut cm = self.cm.lock();
        self.run_timers(here, bound, &mut cm);
        self.run_cm_work(here, bound, &mut cm);
        self.arm_timer(bound, &mut cm);
    }

    /// Handles events and queued work until nothing is left, or the next turn has to do the rest.
    fn run_cm_work(&self, here: ProcessContext, bound: &Bound, cm: &mut ConnMgr) {
        for _ in 0..TURN_BUDGET {
            // The other work has its turn between two events: peers can send requests as fast as they are handled.
            let event = bound.event(here);
            let has_event = event.is_some();
            if let Some((route, event)) = event {
                self.handle_cm_event(here, bound, cm, route, event);
            }
            let mut held = self.hold();
            let next_unresolved = held.unresolved.next_addr();
            let called = held.next_cm_work();
            let next_dereg = held.next_dereg();
            let has_retries = held.retry_step();
            drop(held);
            let is_over = next_dereg.is_some();
            if let Some(mut packet) = next_dereg {
                // Deregistered before the consumer gets its memory back.
                drop(packet.rndv_tx().and_then(|rndv_tx| rndv_tx.region.take()));
                self.with_state(|state, sinks| state.dereg_done(sinks, packet));
            }
            if let Some(addr) = next_unresolved {
                if let Err(errno) = self.add_peer(here, bound, cm, addr) {
                    self.with_state(|state, sinks| state.fail_unresolved(sinks, &addr, errno));
                }
            }
            if let Some(peer_idx) = called {
                self.run_action(here, bound, cm, peer_idx);
            }
            let has_work = next_unresolved.is_some() || called.is_some() || is_over || has_retries;
            if !has_event && !has_work && !self.admit_next(here, bound, cm) {
                return;
            }
        }
        bound.schedule_cm_work();
    }

    /// Connects again to the peers that announced their own requests and did not send them in time.
    pub(super) fn retry_awaiting(&self, here: ProcessContext, bound: &Bound, cm: &mut ConnMgr) {
        let has_waiters = cm.has_waiters();
        if has_waiters {
            cm.backoff.increase();
        }
        for peer_idx in 0..cm.peers.len() as u32 {
            if has_waiters {
                cm.leave_awaiting(peer_idx);
            } else if cm
                .cm_peer(peer_idx)
                .is_ok_and(|cm_peer| cm_peer.fsm.on_timeout())
            {
                self.connect_or_fail(here, bound, cm, peer_idx);
            }
        }
    }

    /// Does the work of one peer.
    fn run_action(&self, here: ProcessContext, bound: &Bound, cm: &mut ConnMgr, peer_idx: u32) {
        let cm_action = self.inner.lock().cm_action(peer_idx);
        match cm_action {
            // The peer may be unused.
            CmAction::Nothing => self.remove_peer(here, bound, cm, peer_idx),
            CmAction::Disconnect => self.conn_down(here, bound, cm, peer_idx),
            CmAction::Connect => self.start_connect(here, bound, cm, peer_idx),
            CmAction::Register => self.register_rndv(peer_idx),
            CmAction::GrowRx(count) => {
                let packets = self.alloc_charged(here, cm, peer_idx, count).ok();
                self.with_state(|state, sinks| {
                    state.rx_bufs_allocated(peer_idx, packets);
                    state.progress_peer(sinks, peer_idx);
                });
            }
        }
    }

    /// Registers the memory of the next deferred rendezvous message of a peer.
    fn register_rndv(&self, peer_idx: u32) {
        let mut state = self.inner.lock();
        let route = state.conn(peer_idx).map(|conn| conn.lower.route);
        let packet = state.take_unregistered(peer_idx);
        drop(state);
        let Some(mut packet) = packet else {
            return;
        };
        let region = packet.rndv_tx().ok_or(Errno::EINVAL).and_then(|rndv_tx| {
            let is_read = rndv_tx.access != Some(Rma::Read);
            let (is_permitted, access) = match is_read {
                true => (self.may_be_read(), Access::REMOTE_READ),
                false => (self.may_be_written(), Access::REMOTE_WRITE),
            };
            if !is_permitted {
                return Err(Errno::EOPNOTSUPP);
            }
            let lower_domain = self
                .protection
                .lower_domain(route.unwrap_or(Route::Device))?;
            rndv_tx.register(|parts| lower_domain.domain.register(parts, access))
        });
        self.with_state(|state, sinks| state.set_region(sinks, packet, region));
    }

    /// Deregisters the memory of rendezvous messages that have not been announced, because the route to the peer
    /// changes.
    fn unregister_rndv(&self, peer_idx: u32) {
        loop {
            let region = self.inner.lock().take_region(peer_idx);
            if region.is_none() {
                return;
            }
        }
    }

    /// Gives up connecting: the deferred operations fail.
    fn fail_conn(
        &self,
        here: ProcessContext,
        bound: &Bound,
        cm: &mut ConnMgr,
        peer_idx: u32,
        errno: Errno,
    ) {
        self.close_conn(cm, peer_idx);
        if let Ok(cm_peer) = cm.cm_peer(peer_idx) {
            cm_peer.fsm.on_down();
        }
        self.with_state(|state, sinks| state.fail(sinks, peer_idx, errno));
        self.remove_peer(here, bound, cm, peer_idx);
    }

    /// Handles the end of a connection: connects again if operations are deferred.
    fn conn_down(&self, here: ProcessContext, bound: &Bound, cm: &mut ConnMgr, peer_idx: u32) {
        self.close_conn(cm, peer_idx);
        if let Ok(cm_peer) = cm.cm_peer(peer_idx) {
            cm_peer.fsm.on_down();
        }
        let has_deferred_tx = self.inner.lock().has_deferred_tx(peer_idx);
        match has_deferred_tx {
            true => self.start_connect(here, bound, cm, peer_idx),
            false => self.remove_peer(here, bound, cm, peer_idx),
        }
    }

    /// Returns the index of a peer; assigns one if it has none.
    fn add_peer(
        &self,
        here: ProcessContext,
        bound: &Bound,
        cm: &mut ConnMgr,
        addr: SocketAddr,
    ) -> Result<u32> {
        let index = match bound.peer_av.find(&addr) {
            Some(index) => index,
            None => {
                let insertion = Insertion {
                    address: Ok(addr),
                    user_id: None,
                };
                let mut entered = Err(Errno::EINVAL);
                bound
                    .peer_av
                    .insert(here, iter::once(insertion), |_, outcome| entered = outcome)?;
                entered?
            }
        };
        let peer_idx = peer_idx_of(index).ok_or(Errno::ENOMEM)?;
        for peer_idx in [loopback_idx(peer_idx), peer_idx] {
            self.reserve_peer_idx(cm, peer_idx)?;
            if cm.cm_peer(peer_idx).is_err() {
                let wait_node = Some(ListBox::new((0, peer_idx))?);
                let unexp_bytes = cm.sources.add_peer(addr.ip())?;
                let place = cm.peers.get_mut(peer_idx as usize).ok_or(Errno::EINVAL)?;
                *place = Some(CmPeer {
                    addr,
                    fsm: ConnFsm::new(),
                    conn_gen: 0,
                    route: Route::Device,
                    no_flow_ctrl: false,
                    unexp_bytes,
                    was_accepting: false,
                    charged: 0,
                    wait_node,
                });
            }
            let unexp_bytes = cm.cm_peer(peer_idx)?.unexp_bytes.clone();
            let peer = Peer::new(addr, peer_idx, unexp_bytes)?;
            let left = self.inner.lock().insert_peer(peer_idx, peer);
            drop(left);
        }
        Ok(peer_idx)
    }

    /// Allocates memory for a peer with that index.
    fn reserve_peer_idx(&self, cm: &mut ConnMgr, peer_idx: u32) -> Result {
        while cm.peers.len() <= peer_idx as usize {
            cm.peers.push(None, GFP_KERNEL)?;
        }
        loop {
            let inner = self.inner.lock();
            let size = inner.peers.growth_size();
            if inner.peers.len() > peer_idx as usize {
                return Ok(());
            }
            drop(inner);
            let mut growth = Growth::new(size)?;
            let _ = self.inner.lock().peers.grow(&mut growth);
        }
    }
}
