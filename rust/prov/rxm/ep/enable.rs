// SPDX-License-Identifier: GPL-2.0

//! Enabling and closing of an endpoint core: the lower objects and the listeners.

use super::super::{
    cm::LISTENER,
    ep_core::{
        Bound,
        EpCore,
        Local, //
    },
    lower::Route,
    pkt_buf::Packet,
    progress::HandlerProgress,
    stx::Stx,
    tx_pool::TxPool,
    wire::TX_BUF_SIZE, //
};
use crate::{
    abi::{
        KOFI_VALUE_CONNECTIONS,
        KOFI_VALUE_VIOLATIONS, //
    },
    fi::{
        av::{
            self,
            AddressVector, //
        },
        cq::{
            CompletionQueue,
            Handler, //
        },
        eq::{
            self,
            EventQueue, //
        },
        introspect::Introspect,
        pep::PassiveEndpoint,
        prelude::*,
        provider::EpOption,
        timer::Timer, //
    },
    util::{
        callback::Functions,
        once::OnceBox, //
    },
};
use core::{
    mem::swap,
    net::{
        Ipv4Addr,
        Ipv6Addr, //
    },
};

/// Number of connection requests that wait for the connection manager.
const BACKLOG: c_int = 8192;

/// Number of such requests on iWARP, where `iw_cm` and the driver allocate half a kilobyte for each when the endpoint
/// begins to listen. TCP repeats requests beyond it.
const IWARP_BACKLOG: c_int = 1024;

/// Number of ports that an endpoint without one tries to listen on.
const PORT_ATTEMPTS: usize = 16;

impl EpCore {
    /// Opens the lower objects and listens, at an unspecified address of `format` if none is set; sources are
    /// reported by `addresses`. The completion vector `vector` reports completions. May sleep.
    ///
    /// # Errors
    ///
    /// Errors of the lower provider, -FI_ENOMEM. The call can be repeated.
    pub(in super::super) fn enable(
        self: &Arc<Self>,
        here: ProcessContext,
        addresses: &Arc<AddressVector>,
        format: u32,
        vector: u32,
    ) -> Result {
        let lower = self.protection.lower();
        let peer_av = lower.address_vector(
            here,
            &av::Attr {
                kind: Some(av::Type::Table),
                rx_ctx_bits: 0,
                count: 0,
                is_async: false,
                name: None,
                is_read_only: false,
            },
        )?;
        let queue = self.ring_queue(0, vector)?;
        let handler_progress = KBox::new(HandlerProgress(self.clone()), GFP_KERNEL)?;
        queue.set_handler(Handler::Task(handler_progress))?;
        let events = self
            .domain
            .fabric()
            .lower()
            .event_queue(here, eq::Attr::default())?;
        let local = match self.is_local {
            true => Some(self.local(here)?),
            false => None,
        };
        let local_events = local.as_ref().map(|local| local.events.clone());
        let bound = Bound {
            addresses: addresses.clone(),
            peer_av,
            queue: queue.clone(),
            events: events.clone(),
            local,
            progress_timer: Timer::new(queue.clone())?,
            cm_timer: Timer::new(events.clone())?,
        };
        if let Err(errno) = self.listen(here, format, &events, bound) {
            close_lower(&queue, &events);
            if let Some(events) = local_events {
                let _ = events.close();
            }
            return Err(errno);
        }
        // Set before the queue is armed, as in `poll_batch`.
        let _ = self.is_armed.xchg(1, Full);
        queue.arm_handler();
        Ok(())
    }

    /// Opens the objects for local connections.
    fn local(&self, here: ProcessContext) -> Result<Local> {
        let lower_domain = self.protection.lower_domain(Route::Local)?;
        Ok(Local {
            queue: OnceBox::new(),
            events: lower_domain.fabric.event_queue(here, eq::Attr::default())?,
        })
    }

    /// Opens a listener on a route, at `local` or at an unspecified address of `format`. Without a port, tries several:
    /// on iWARP, the port that rdma_cm has chosen may be in use by a TCP connection.
    fn listener(
        self: &Arc<Self>,
        route: Route,
        local: Option<SocketAddr>,
        format: u32,
        events: &Arc<EventQueue>,
    ) -> Result<Arc<PassiveEndpoint>> {
        let cm_core = self.clone();
        let handler = move |here: ProcessContext, _: &Arc<EventQueue>| cm_core.run_cm(here);
        events.set_handler(KBox::new(handler, GFP_KERNEL)?, Functions::EMPTY)?;
        let addr = local.unwrap_or(anywhere(format));
        for _ in 1..PORT_ATTEMPTS {
            match self.listen_at(route, addr, events) {
                Err(Errno::EADDRINUSE) if addr.port() == 0 => {}
                result => return result,
            }
        }
        self.listen_at(route, addr, events)
    }

    fn listen_at(
        &self,
        route: Route,
        addr: SocketAddr,
        events: &Arc<EventQueue>,
    ) -> Result<Arc<PassiveEndpoint>> {
        let lower_domain = self.protection.lower_domain(route)?;
        let listener = lower_domain
            .fabric
            .passive_endpoint(&lower_domain.info, LISTENER)?;
        listener.core().set_name(addr)?;
        let is_iwarp = route == Route::Device && self.cm.lock().is_iwarp;
        listener.core().set_backlog(match is_iwarp {
            true => IWARP_BACKLOG,
            false => BACKLOG,
        })?;
        listener.bind_eq(events, 0)?;
        listener.listen()?;
        Ok(listener)
    }

    /// Performs the steps of [`Self::enable`] that can fail after the queues have been opened.
    fn listen(
        self: &Arc<Self>,
        here: ProcessContext,
        format: u32,
        events: &Arc<EventQueue>,
        bound: Bound,
    ) -> Result {
        let local = self.cm.lock().local;
        let listener = self.listener(Route::Device, local, format, events)?;
        self.alloc_tx_bufs(here, self.pool_size.own)?;
        self.open_first_ring(&bound.queue)?;
        let name = listener.core().name()?;
        let local_listener = match &bound.local {
            Some(local) => Some(self.listener(Route::Local, Some(name), format, &local.events)?),
            None => None,
        };
        self.addrs.set_local(name);
        let mut cm = self.cm.lock();
        cm.local = Some(name);
        cm.listeners = [Some(listener), local_listener];
        drop(cm);
        let bound = KBox::new(bound, GFP_KERNEL)?;
        if let Some(removal_list) = self.domain.removal_list().filter(|_| self.is_local) {
            removal_list.add(self)?;
        }
        let mut cm = self.cm.lock();
        let is_first = self.bound.set(bound);
        if is_first {
            cm.core = Some(self.clone());
        }
        drop(cm);
        if !is_first {
            if let Some(removal_list) = self.domain.removal_list() {
                removal_list.remove(self);
            }
            return Err(Errno::EOPBADSTATE);
        }
        // Operations may wait for a connection already.
        self.bound()?.schedule_cm_work();
        Ok(())
    }

    /// Allocates transmit buffers unless the own pool has `total`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM, -FI_ENODEV when the device is removed.
    pub(in super::super) fn alloc_tx_bufs(&self, here: ProcessContext, total: usize) -> Result {
        // One thread at a time.
        let _cm = self.cm.lock();
        let missing = self.inner.lock().tx_pool.missing(total);
        let lower = self.protection.lower();
        let sizes = (TX_BUF_SIZE, self.iov_limits.slot_size());
        let mut packets = BoxList::new();
        Packet::alloc(here, lower, missing, sizes, |packet| packets.push(packet))?;
        self.inner.lock().tx_pool.add(total, packets);
        Ok(())
    }

    /// Uses the transmit buffers of a shared transmit context from enabling on. May sleep.
    pub(in super::super) fn use_stx(&self, stx: Arc<Stx>) -> Result {
        let (has, needs) = (stx.iov_limits, self.iov_limits);
        if has.segments < needs.segments || has.ranges < needs.ranges {
            return Err(Errno::EINVAL);
        }
        let mut tx_pool = TxPool::Shared(stx);
        swap(&mut self.inner.lock().tx_pool, &mut tx_pool);
        Ok(())
    }

    /// Opens the first ring over `queue`, in place of that of an earlier attempt.
    fn open_first_ring(&self, queue: &Arc<CompletionQueue>) -> Result {
        let mut cm = self.cm.lock();
        let earlier = cm.rings.pop().flatten();
        let ring_rx = self.inner.lock().rx_pool.set_ring(0, None);
        drop((earlier, ring_rx));
        self.add_ring(&mut cm, 0, queue).map(drop)
    }

    /// Ends the core: waits for the connection manager, closes all connections and the lower objects, and passes the
    /// contexts of operations in flight to `reclaim`. May sleep.
    pub(in super::super) fn end(&self, reclaim: &mut dyn FnMut(Context)) {
        self.rundown.run_down();
        let Ok(bound) = self.bound() else {
            return;
        };
        if let Some(removal_list) = self.domain.removal_list() {
            removal_list.remove(self);
        }
        // The handler would report what the close flushes.
        bound.queue.stop_handler();
        self.stop_rings();
        self.detach_srx();
        self.close_all_conns(reclaim);
        if let Some(local) = &bound.local {
            if let Some(queue) = local.queue.get() {
                let _ = queue.close();
            }
            let _ = local.events.close();
        }
        close_lower(&bound.queue, &bound.events);
        self.stop_poll_timer();
        let _ = bound.peer_av.close();
    }
}

impl EpCore {
    /// Sets the address to listen on. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EOPBADSTATE after the endpoint has been enabled.
    pub(in super::super) fn set_name(&self, addr: SocketAddr) -> Result {
        if self.bound().is_ok() {
            return Err(Errno::EOPBADSTATE);
        }
        self.cm.lock().local = Some(addr);
        self.addrs.set_local(addr);
        Ok(())
    }

    /// Returns the value of a connection option. Any context.
    ///
    /// # Errors
    ///
    /// -FI_ENOPROTOOPT for other options.
    pub(in super::super) fn getopt(&self, option: EpOption) -> Result<usize> {
        match option {
            EpOption::MaxConnections => Ok(self.limits.max_conns()),
            EpOption::IdleTimeout => Ok(self.limits.idle_millis()),
            EpOption::SourceBytes => Ok(self.limits.source_bytes()),
            EpOption::ConnectionCount => Ok(self.limits.conn_count()),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    /// Sets a connection option. Any context.
    ///
    /// # Errors
    ///
    /// -FI_ENOPROTOOPT for other and read-only options, -FI_EINVAL for an invalid value.
    pub(in super::super) fn setopt(&self, option: EpOption, value: usize) -> Result {
        match option {
            EpOption::MaxConnections => self.limits.set_max_conns(value),
            EpOption::IdleTimeout => self.limits.set_idle_millis(value),
            EpOption::SourceBytes => {
                self.limits.set_source_bytes(value);
                Ok(())
            }
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    /// Adds the core's values to an introspection entry. Any context.
    pub(in super::super) fn fill_info(&self, out: &mut ObjectInfo<'_>) {
        out.add_value(KOFI_VALUE_CONNECTIONS, self.limits.conn_count() as u64);
        out.add_value(KOFI_VALUE_VIOLATIONS, self.inner.lock().violations.get());
        self.addrs.fill_info(out);
    }

    /// Returns the address that the endpoint listens on, or will. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EADDRNOTAVAIL if it is not known yet.
    pub(in super::super) fn name(&self) -> Result<SocketAddr> {
        let local = self.cm.lock().local;
        local.ok_or(Errno::EADDRNOTAVAIL)
    }
}

/// Returns the unspecified address of a format.
fn anywhere(format: u32) -> SocketAddr {
    match format {
        abi::FI_SOCKADDR_IN6 => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        _ => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
    }
}

/// Closes the lower queues.
fn close_lower(queue: &CompletionQueue, events: &EventQueue) {
    // No object is bound to them, and this is not their handler.
    let _ = queue.close();
    let _ = events.close();
}
