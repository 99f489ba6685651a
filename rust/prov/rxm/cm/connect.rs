// SPDX-License-Identifier: GPL-2.0

//! Opening of connections: lower endpoints, their queues and buffers. Called under the mutex `EpCore::cm`.

use super::{
    super::{
        super::r#loop::{
            self,
            has_listener, //
        },
        conn::{
            credits::Credits,
            iwarp_order::IwarpOrder,
            Conn,
            CTRL_BUFS,
            INITIAL_RX,
            MAX_READS,
            MAX_RX_BUFS, //
        },
        ep_core::{
            Bound,
            EpCore, //
        },
        ep_state::{
            tx_ops,
            RESERVES, //
        },
        lower::{
            LowerEp,
            Route, //
        },
        pkt_buf::{
            Packet,
            CTRL_BUF_SIZE, //
        },
        ring::{
            Ring,
            CONN_TRANSMITS, //
        },
        wire::{
            Extensions,
            Flow,
            MAX_PACKET,
            TX_BUF_SIZE, //
        },
    },
    shutdown::ShutdownState,
    ConnMgr,
    FLOW, //
};
use crate::{
    abi::{
        addr::format_of,
        fi_ep_attr,
        flags::*,
        FI_SHARED_CONTEXT, //
    },
    fi::{
        cq::{
            self,
            CompletionQueue, //
        },
        ep,
        eq::{
            EventQueue,
            Source, //
        },
        prelude::*, //
    },
    util::paged_vec::Growth, //
};

/// Number of operations of a local connection that can be in flight, besides those with transmit buffers of the pool.
const LOCAL_CQ_SLOTS: usize = MAX_RX_BUFS + CTRL_BUFS + MAX_READS + 1;

/// Size of the completion queue of local connections, which forwards its entries and has no memory for them.
const LOCAL_CQ_SIZE: usize = 1 << 20;

impl EpCore {
    /// Returns whether peers may read long messages from this endpoint's memory: if its connections can access the
    /// consumer's regions, only if peers may read those too.
    pub(in super::super) fn may_be_read(&self) -> bool {
        self.rights.has_rma_read() || !self.domain.is_open(&self.protection)
    }

    /// Returns whether peers may write to this endpoint's memory that it reads with FI_TAGGED_RMA: if its connections
    /// can access the consumer's regions, only if peers may write to those too.
    pub(in super::super) fn may_be_written(&self) -> bool {
        self.rights.has_rma_write()
            || self.rights.has_tagged_rma() && !self.domain.is_open(&self.protection)
    }

    /// Returns the capabilities for lower endpoints, which grant peers the same rights as this endpoint.
    fn lower_caps(&self) -> u64 {
        let mut caps = FI_MSG | FI_SEND | FI_RECV | FI_RMA | FI_READ | FI_WRITE;
        if self.may_be_read() {
            caps |= FI_REMOTE_READ;
        }
        if self.may_be_written() {
            caps |= FI_REMOTE_WRITE;
        }
        caps
    }

    /// Returns whether transmits are registered in the protection domain of the connections. Buffers of a shared
    /// transmit context are registered in the domain with the consumer's regions.
    fn registers_transmits(&self) -> bool {
        self.domain.is_open(&self.protection) || !self.inner.lock().tx_pool.are_shared()
    }

    /// Connects to a peer, or enqueues it until a connection is free.
    pub(in super::super) fn start_connect(
        &self,
        here: ProcessContext,
        bound: &Bound,
        cm: &mut ConnMgr,
        peer_idx: u32,
    ) {
        if cm.has_to_wait(&self.limits, peer_idx) {
            cm.enqueue(peer_idx);
        } else if cm
            .cm_peer(peer_idx)
            .is_ok_and(|cm_peer| cm_peer.fsm.start())
        {
            self.connect_or_fail(here, bound, cm, peer_idx);
        }
    }

    /// Sends a connection request; if that fails, fails the deferred operations.
    pub(in super::super) fn connect_or_fail(
        &self,
        here: ProcessContext,
        bound: &Bound,
        cm: &mut ConnMgr,
        peer_idx: u32,
    ) {
        if let Err(errno) = self.connect(here, bound, cm, peer_idx) {
            self.fail_conn(here, bound, cm, peer_idx, errno);
        }
    }

    fn connect(
        &self,
        here: ProcessContext,
        bound: &Bound,
        cm: &mut ConnMgr,
        peer_idx: u32,
    ) -> Result {
        let addr = cm.cm_peer(peer_idx)?.addr;
        let is_here = self.is_local && has_listener(self.domain.fabric().net(), &addr);
        let route = match is_here {
            true => Route::Local,
            false => Route::Device,
        };
        self.charge_conn(cm, (peer_idx, route), FLOW, true)?;
        let mut info = self.protection.lower_domain(route)?.info.duplicate()?;
        let local = cm.local.map(|mut local| {
            local.set_port(0);
            local
        });
        let local = local.filter(|local| !local.ip().is_unspecified());
        info.set_addresses(format_of(&addr), local.as_ref(), Some(&addr))?;
        let lower = self.open_lower(here, bound, cm, (peer_idx, route), &mut info, None)?;
        lower.connect(Some(addr), &cm.connect_data(peer_idx))
    }

    /// Opens and enables a lower endpoint with its receive buffers posted, in a ring that has space.
    pub(in super::super) fn open_lower(
        &self,
        here: ProcessContext,
        bound: &Bound,
        cm: &mut ConnMgr,
        (peer_idx, route): (u32, Route),
        info: &mut Info,
        agreed: Option<(Flow, Extensions)>,
    ) -> Result<Arc<ep::Endpoint>> {
        if cm.is_device_removed {
            return Err(Errno::ENODEV);
        }
        let ring = match route {
            Route::Device => self.ring_with_space(cm)?,
            // The completions of local connections go to the first ring, which takes any number of them.
            Route::Local => cm.ring(0).ok_or(Errno::EOPBADSTATE)?,
        };
        let opened = self.open_in_ring(here, bound, cm, (peer_idx, route), (info, agreed), &ring);
        if opened.is_err() {
            self.close_empty_ring(cm, ring.index);
        }
        opened
    }

    fn open_in_ring(
        &self,
        here: ProcessContext,
        bound: &Bound,
        cm: &mut ConnMgr,
        (peer_idx, route): (u32, Route),
        (info, agreed): (&mut Info, Option<(Flow, Extensions)>),
        ring: &Arc<Ring>,
    ) -> Result<Arc<ep::Endpoint>> {
        let conn_gen = cm.next_conn_gen(peer_idx)?;
        if core::mem::replace(&mut cm.cm_peer(peer_idx)?.route, route) != route {
            self.unregister_rndv(peer_idx);
        }
        let (flow, extensions) = agreed.unwrap_or((FLOW, Extensions::NONE));
        let no_flow_ctrl = flow == Flow::Device || cm.cm_peer(peer_idx)?.no_flow_ctrl;
        let shared = match no_flow_ctrl || route == Route::Local {
            true => None,
            false => ring.shared.clone(),
        };
        info.set_caps(self.lower_caps());
        info.tx_mut()?.size = CONN_TRANSMITS + self.iov_limits.long_requests();
        info.tx_mut()?.rma_iov_limit = self.iov_limits.ranges;
        info.tx_mut()?.tclass = cm.tclass;
        info.rx_mut()?.size = MAX_RX_BUFS;
        if let (Some(_), Some(ep)) = (&shared, info.ep().copied()) {
            info.set_ep(&fi_ep_attr {
                rx_ctx_cnt: FI_SHARED_CONTEXT,
                ..ep
            })?;
        }
        let domain = &self.protection.lower_domain(route)?.domain;
        let lower = domain.endpoint(info, Source(conn_gen))?;
        let (events, queue) = match route {
            Route::Device => (&bound.events, &ring.queue),
            Route::Local => self.local_queues(bound)?,
        };
        lower.bind_eq(events, 0)?;
        lower.bind_cq(queue, FI_TRANSMIT | FI_RECV)?;
        if let Some(shared) = &shared {
            lower.bind_srx(shared, 0)?;
        }
        lower.enable()?;
        if let (Some(loop_ep), Some(core)) = (r#loop::Endpoint::from_endpoint(&lower), &cm.core) {
            loop_ep.set_direct_receiver(core.clone())?;
        }
        self.alloc_tx_reserve(here, cm)?;
        let missing = self.inner.lock().missing_rx(ring.index);
        let receives = self.alloc_bufs(here, cm, missing, MAX_PACKET)?;
        self.inner.lock().add_to_ring(ring.index, receives);
        // A peer without credits gets all buffers, because it cannot be granted more later.
        let count = match route {
            _ if no_flow_ctrl => MAX_RX_BUFS,
            Route::Device => ring.size.initial_rx,
            Route::Local => INITIAL_RX,
        };
        let receives = self.alloc_bufs(here, cm, count, MAX_PACKET)?;
        let ctrl_bufs = match self.alloc_bufs(here, cm, CTRL_BUFS, CTRL_BUF_SIZE) {
            Ok(ctrl_bufs) => ctrl_bufs,
            Err(errno) => {
                self.put_bufs(receives);
                return Err(errno);
            }
        };
        // If both ends ask for shutdown, the acceptor yields.
        let shutdown = ShutdownState::new(agreed.is_some());
        let credits = Credits::new(flow, agreed.is_some());
        let iwarp_order = IwarpOrder::new(cm.is_iwarp && route == Route::Device);
        let mut conn = Conn::new(
            LowerEp::new(lower.clone(), route, self.registers_transmits()),
            conn_gen,
            shared,
            credits,
            iwarp_order,
            shutdown,
        );
        conn.extensions = extensions;
        conn.ring = ring.index;
        self.limits.add_conn();
        if route == Route::Device {
            cm.count_ring_conn(ring.index, 1);
        }
        self.inner
            .lock()
            .open(peer_idx, conn, receives, ctrl_bufs)?;
        Ok(lower)
    }

    /// Returns the event queue and the completion queue for endpoints of the local route.
    fn local_queues<'a>(
        &self,
        bound: &'a Bound,
    ) -> Result<(&'a Arc<EventQueue>, &'a Arc<CompletionQueue>)> {
        let local = bound.local.as_ref().ok_or(Errno::EHOSTUNREACH)?;
        // Entries for all local connections, this one included.
        let shared = bound.queue.enable_export(LOCAL_CQ_SLOTS)?;
        let most_conns = (self.limits.conn_count() + 1).next_power_of_two();
        shared.grow(self.pool_size.most + most_conns * LOCAL_CQ_SLOTS)?;
        if local.queue.get().is_none() {
            let attr = cq::Attr {
                size: LOCAL_CQ_SIZE,
                ..*bound.queue.attr()
            };
            let queue = self
                .protection
                .lower_domain(Route::Local)?
                .domain
                .peer_cq(&attr, shared.clone())?;
            let _ = local.queue.set(KBox::new(queue, GFP_KERNEL)?);
        }
        Ok((&local.events, local.queue.get().ok_or(Errno::ENOMEM)?))
    }

    /// Takes or allocates free buffers of `size` bytes.
    pub(in super::super) fn alloc_bufs(
        &self,
        here: ProcessContext,
        cm: &mut ConnMgr,
        count: usize,
        size: usize,
    ) -> Result<BoxList<Packet>> {
        let mut packets = BoxList::new();
        while packets.len() < count {
            let free_buf = self.inner.lock().get_free_buf(size == CTRL_BUF_SIZE);
            let Some(free_buf) = free_buf else {
                break;
            };
            packets.push(free_buf);
        }
        while packets.len() < count {
            let Some(number) = cm.free_numbers.pop() else {
                break;
            };
            let lower = self.protection.lower();
            let made = Packet::alloc(here, lower, number..number + 1, (size, 0), |packet| {
                packets.push(packet);
            });
            if let Err(errno) = made {
                let _ = cm.free_numbers.push(number, GFP_KERNEL);
                self.put_bufs(packets);
                return Err(errno);
            }
        }
        let first = tx_ops(self.pool_size) as u32 + cm.rx_bufs_made;
        let missing = first..first + (count - packets.len()) as u32;
        let made = self.reserve_inflight(missing.end).and_then(|()| {
            Packet::alloc(
                here,
                self.protection.lower(),
                missing,
                (size, 0),
                |packet| {
                    cm.rx_bufs_made += 1;
                    packets.push(packet);
                },
            )
        });
        match made {
            Ok(()) => Ok(packets),
            Err(errno) => {
                self.put_bufs(packets);
                Err(errno)
            }
        }
    }

    /// Grows the table of packets in flight for numbers below `most`.
    fn reserve_inflight(&self, most: u32) -> Result {
        loop {
            let size = self.inner.lock().inflight.growth_below(most as usize);
            let Some(size) = size else {
                return Ok(());
            };
            let mut growth = Growth::new(size)?;
            self.inner.lock().inflight.grow(&mut growth);
        }
    }

    /// Allocates a reserved transmit buffer for the next connection, up to [`RESERVES`].
    fn alloc_tx_reserve(&self, here: ProcessContext, cm: &mut ConnMgr) -> Result {
        let wanted = RESERVES.min(self.limits.conn_count() + 1);
        if cm.tx_reserves_made as usize >= wanted {
            return Ok(());
        }
        let number = cm.tx_reserves_made;
        let lower = self.protection.lower();
        let sizes = (TX_BUF_SIZE, self.iov_limits.slot_size());
        Packet::alloc(here, lower, number..number + 1, sizes, |packet| {
            cm.tx_reserves_made += 1;
            self.inner.lock().tx_reserves.push(packet);
        })
    }

    fn put_bufs(&self, mut packets: BoxList<Packet>) {
        let mut state = self.inner.lock();
        while let Some(packet) = packets.pop() {
            state.keep(packet);
        }
    }
}
