// SPDX-License-Identifier: GPL-2.0

//! The beginning and the end of a station: what is below it, and where it listens.

use super::{
    below::Route,
    links::LISTENER,
    posting::Packet,
    sends::Sends,
    station::{
        Bound,
        Local,
        Station,
        Watcher, //
    },
    stx::Stx,
    supply::DEPTH,
    traffic::FLIGHTS,
    wire::MOST, //
};
use crate::{
    abi::{
        flags::FI_MSG,
        KOFI_VALUE_CONNECTIONS,
        KOFI_VALUE_VIOLATIONS, //
    },
    fi::{
        av::{
            self,
            AddressVector, //
        },
        cq::{
            self,
            CompletionQueue,
            Format,
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
        srx,
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

impl Station {
    /// Makes what is below, and listens: for messages between those in `addresses`, where none is given at
    /// an address of that format. May sleep.
    ///
    /// # Errors
    ///
    /// Those of the provider below, -FI_ENOMEM: then it can be tried again.
    pub(super) fn begin(
        self: &Arc<Self>,
        here: ProcessContext,
        addresses: &Arc<AddressVector>,
        format: u32,
    ) -> Result {
        let lower = self.protection.lower();
        let ways = lower.address_vector(
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
        let queue = lower.completion_queue(&cq::Attr {
            size: FLIGHTS,
            // Nobody reads in that: see `Sourced`.
            format: Format::Data,
            waitable: false,
            vector: 0,
        })?;
        let watcher = KBox::new(Watcher(self.clone()), GFP_KERNEL)?;
        queue.set_handler(Handler::Task(watcher))?;
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
            ways,
            queue: queue.clone(),
            events: events.clone(),
            local,
            alarm: Timer::new(queue.clone())?,
            clock: Timer::new(events.clone())?,
        };
        if let Err(errno) = self.listen(here, format, &events, bound) {
            close_below(&queue, &events);
            if let Some(events) = local_events {
                let _ = events.close();
            }
            return Err(errno);
        }
        queue.arm_handler();
        Ok(())
    }

    /// What there is where peers on the same host are reached.
    fn local(&self, here: ProcessContext) -> Result<Local> {
        let below = self.protection.below(Route::Host)?;
        Ok(Local {
            queue: OnceBox::new(),
            events: below.fabric.event_queue(here, eq::Attr::default())?,
        })
    }

    /// A listener on that route, at `local`, or anywhere of that format.
    fn listener(
        self: &Arc<Self>,
        route: Route,
        local: Option<SocketAddr>,
        format: u32,
        events: &Arc<EventQueue>,
    ) -> Result<Arc<PassiveEndpoint>> {
        let below = self.protection.below(route)?;
        let listener = below.fabric.passive_endpoint(&below.info, LISTENER)?;
        listener
            .core()
            .set_name(local.unwrap_or(anywhere(format)))?;
        listener.bind_eq(events, 0)?;
        let looked_after = self.clone();
        let handler =
            move |here: ProcessContext, _: &Arc<EventQueue>| looked_after.look_after(here);
        events.set_handler(KBox::new(handler, GFP_KERNEL)?, Functions::EMPTY)?;
        listener.listen()?;
        Ok(listener)
    }

    /// What can fail of that with the queues there.
    fn listen(
        self: &Arc<Self>,
        here: ProcessContext,
        format: u32,
        events: &Arc<EventQueue>,
        bound: Bound,
    ) -> Result {
        let local = self.links.lock().local;
        let listener = self.listener(Route::Wire, local, format, events)?;
        // Those that a try before this one has made are there.
        let missing = self.traffic.lock().sends.missing();
        Packet::make(here, self.protection.lower(), missing, MOST, |packet| {
            self.traffic.lock().sends.put(packet);
        })?;
        self.share()?;
        let name = listener.core().name()?;
        let beside = match &bound.local {
            Some(local) => Some(self.listener(Route::Host, Some(name), format, &local.events)?),
            None => None,
        };
        self.ends.set_local(name);
        let mut links = self.links.lock();
        links.local = Some(name);
        links.listeners = [Some(listener), beside];
        drop(links);
        let bound = KBox::new(bound, GFP_KERNEL)?;
        if let Some(watchers) = self.domain.watchers().filter(|_| self.is_local) {
            watchers.add(self)?;
        }
        let mut links = self.links.lock();
        let is_first = self.bound.set(bound);
        if is_first {
            links.this = Some(self.clone());
        }
        drop(links);
        if !is_first {
            if let Some(watchers) = self.domain.watchers() {
                watchers.remove(self);
            }
            return Err(Errno::EOPBADSTATE);
        }
        // Somebody may have asked for a connection already.
        self.bound()?.kick();
        Ok(())
    }

    /// Has it send with packets that others have, too, from its beginning on. May sleep.
    pub(super) fn send_with(&self, stx: Arc<Stx>) {
        let mut sends = Sends::Shared(stx);
        swap(&mut self.traffic.lock().sends, &mut sends);
    }

    /// Has connections share what they receive with, where the device lets them.
    fn share(&self) -> Result {
        if self.links.lock().is_iwarp || self.traffic.lock().supply.shared().is_some() {
            return Ok(());
        }
        let attr = srx::Attr {
            size: DEPTH,
            segments: 1,
            caps: FI_MSG,
        };
        match self.protection.lower().shared_receive(&attr) {
            Ok(shared) => {
                self.traffic.lock().supply.share(shared);
                Ok(())
            }
            // It does not know of that, or not of so many.
            Err(Errno::ENOSYS | Errno::EINVAL) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Ends everything, if it has begun: nobody looks after it any more, and its consumers' readers do not
    /// ask it. What is under way is given to `reclaim`. May sleep.
    pub(super) fn end(&self, reclaim: &mut dyn FnMut(Context)) {
        self.gate.run_down();
        let Ok(bound) = self.bound() else {
            return;
        };
        if let Some(watchers) = self.domain.watchers() {
            watchers.remove(self);
        }
        // It is called in process context, and would tell of what the close flushes.
        bound.queue.stop_handler();
        self.leave();
        self.hang_up(reclaim);
        if let Some(local) = &bound.local {
            if let Some(queue) = local.queue.get() {
                let _ = queue.close();
            }
            let _ = local.events.close();
        }
        close_below(&bound.queue, &bound.events);
        self.stop_watching();
        let _ = bound.ways.close();
    }
}

impl Station {
    /// Has it listen there, once it begins. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EOPBADSTATE when it has begun.
    pub(super) fn set_name(&self, addr: SocketAddr) -> Result {
        if self.bound().is_ok() {
            return Err(Errno::EOPBADSTATE);
        }
        self.links.lock().local = Some(addr);
        self.ends.set_local(addr);
        Ok(())
    }

    /// What something of its connections is set to. Any context.
    ///
    /// # Errors
    ///
    /// -FI_ENOPROTOOPT for what they do not have.
    pub(super) fn setting(&self, setting: EpOption) -> Result<usize> {
        match setting {
            EpOption::MaxConnections => Ok(self.limits.connections()),
            EpOption::IdleTimeout => Ok(self.limits.idle_millis()),
            EpOption::ConnectionCount => Ok(self.limits.open()),
            EpOption::MinMultiRecv => Err(Errno::ENOPROTOOPT),
        }
    }

    /// Sets it. Any context.
    ///
    /// # Errors
    ///
    /// -FI_ENOPROTOOPT for what nobody sets of them, -FI_EINVAL for a value that it cannot have.
    pub(super) fn set(&self, setting: EpOption, value: usize) -> Result {
        match setting {
            EpOption::MaxConnections => self.limits.set_connections(value),
            EpOption::IdleTimeout => self.limits.set_idle_millis(value),
            EpOption::ConnectionCount | EpOption::MinMultiRecv => Err(Errno::ENOPROTOOPT),
        }
    }

    /// Tells of itself what there is beside its contexts. Any context.
    pub(super) fn tell(&self, out: &mut ObjectInfo<'_>) {
        out.add_value(KOFI_VALUE_CONNECTIONS, self.limits.open() as u64);
        out.add_value(KOFI_VALUE_VIOLATIONS, self.traffic.lock().violations.get());
        self.ends.fill_info(out);
    }

    /// Where it listens, or is to. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EADDRNOTAVAIL where it does not know.
    pub(super) fn name(&self) -> Result<SocketAddr> {
        let local = self.links.lock().local;
        local.ok_or(Errno::EADDRNOTAVAIL)
    }
}

/// Any address of that format.
fn anywhere(format: u32) -> SocketAddr {
    match format {
        abi::FI_SOCKADDR_IN6 => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        _ => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
    }
}

/// Closes what nobody uses any more.
fn close_below(queue: &CompletionQueue, events: &EventQueue) {
    // Neither has anybody bound to it, nor is this its handler.
    let _ = queue.close();
    let _ = events.close();
}
