// SPDX-License-Identifier: GPL-2.0

//! Endpoints, as their consumers see them.

mod access;
mod atomic;

pub(super) use atomic::most_elements;

use super::{
    alarm::Alarm,
    bounce::{
        Incoming,
        Outgoing, //
    },
    buffers::Least,
    cq::{
        Cq,
        Feeder, //
    },
    domain::Domain,
    links::{
        Links,
        LISTENER, //
    },
    looking::Fate,
    matching::Wish,
    offer,
    order::{
        Long,
        Offer,
        Phase,
        Report,
        Work, //
    },
    outlets::{
        Looking,
        Outlets, //
    },
    posting::{
        Packet,
        Use, //
    },
    station::{
        Bound,
        Mover,
        Station, //
    },
    traffic::{
        Traffic,
        FLIGHTS,
        SENDS, //
    },
    wire::{
        self,
        Head,
        EAGER,
        MOST, //
    },
};
use crate::{
    abi::{
        self,
        context::{
            self,
            InProcess, //
        },
        flags::*,
        info::Info,
        Errno,
        Result,
        FI_ADDR_UNSPEC,
        KOFI_STATE_ENABLED,
        KOFI_STATE_OPEN,
        KOFI_VALUE_RX_SIZE,
        KOFI_VALUE_TX_SIZE, //
    },
    fi::{
        atomic::{
            Atomic,
            Datatype,
            Form,
            Op, //
        },
        av,
        card::{
            Tell,
            Told, //
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
        memory::{
            Context,
            Memory, //
        },
        object::Held,
        provider::{
            self,
            Bindings,
            Message,
            Operation,
            Peers,
            Setting, //
        }, //
    },
};
use core::{
    any::Any,
    net::{
        Ipv4Addr,
        Ipv6Addr,
        SocketAddr, //
    },
};
use kernel::{
    prelude::*,
    sync::{
        new_mutex,
        Arc,
        Mutex, //
    },
};

/// Flags that a send may have.
const SEND_FLAGS: u64 = FI_COMPLETION
    | FI_INJECT
    | FI_MORE
    | FI_REMOTE_CQ_DATA
    | FI_INJECT_COMPLETE
    | FI_TRANSMIT_COMPLETE;

/// Most bytes of a message that is sent in segments: a longer one is offered.
const SEGMENTED: usize = 8 * EAGER;

/// Flags that a receive may have.
const RECEIVE_FLAGS: u64 = FI_COMPLETION | FI_MORE;

/// Flags that a receive with a tag may have beside them.
const LOOK_FLAGS: u64 = FI_PEEK | FI_CLAIM | FI_DISCARD;

/// What has been claimed is not wanted after all.
const CLAIMED_AWAY: u64 = FI_CLAIM | FI_DISCARD;

/// What is bound, kept open until the endpoint is closed.
struct Holds {
    _addresses: Held<av::AddressVector>,
    transmit: Held<CompletionQueue>,
    receive: Held<CompletionQueue>,
    mover: Arc<dyn Feeder>,
}

/// An endpoint.
#[pin_data]
pub(crate) struct Endpoint {
    station: Arc<Station>,
    receives: usize,
    /// Most bytes of a message that is injected.
    inject: usize,
    /// And of any.
    most: usize,
    is_directed: bool,
    has_rma: bool,
    has_atomics: bool,
    /// Bytes of the data that a write may bring.
    written_data_size: usize,
    tells_sources: bool,
    tells_strangers: bool,
    /// Whether receives may take several messages.
    takes_several: bool,
    /// When less than that is left, they take no more.
    least: Least,
    /// What addresses look like, where none is given to listen at.
    format: u32,
    #[pin]
    holds: Mutex<Option<Holds>>,
}

/// The provider's own part of a queue that is bound.
fn exact(queue: &CompletionQueue) -> Result<Arc<Cq>> {
    let exact = queue.core().clone().into_any().downcast::<Cq>();
    exact.map_err(|_| Errno::EINVAL)
}

impl Endpoint {
    /// Makes an endpoint. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for an info that is not of `domain`, or more than is offered; -FI_ENOMEM.
    pub(super) fn new(domain: Arc<Domain>, info: &Info) -> Result<Arc<Self>> {
        offer::check(info)?;
        if info.domain_name() != domain.lower_info().domain_name() {
            return Err(Errno::EINVAL);
        }
        let (local, _) = info.ends()?;
        let most = offer::most(domain.lower_info());
        let lower = domain.lower_info().domain();
        let written_data_size = lower.map_or(0, |domain| domain.cq_data_size);
        let links = Links::new(local, domain.lower_info());
        let receives = match info.rx().map_or(0, |rx| rx.size) {
            0 => offer::RECEIVES,
            receives if receives > offer::RECEIVES => return Err(Errno::EINVAL),
            receives => receives,
        };
        let takes_several = info.caps() & FI_MULTI_RECV != 0;
        let traffic = Traffic::new(receives, takes_several, domain.regions().clone())?;
        let station = Station::new(domain, traffic, links)?;
        Ok(Arc::pin_init(
            pin_init!(Self {
                station,
                receives,
                most,
                inject: info.tx().map_or(0, |tx| tx.inject_size).min(EAGER),
                is_directed: info.caps() & FI_DIRECTED_RECV != 0,
                has_rma: info.caps() & FI_RMA != 0,
                has_atomics: info.caps() & FI_ATOMIC != 0,
                written_data_size,
                tells_sources: info.caps() & (FI_SOURCE | FI_SOURCE_ERR) != 0,
                tells_strangers: info.caps() & FI_SOURCE_ERR != 0,
                takes_several,
                least: Least::new(),
                format: info.addr_format(),
                holds <- new_mutex!(None, "kofi::rdm::Endpoint"),
            }),
            GFP_KERNEL,
        )?)
    }

    /// Makes what is below, and listens.
    fn open(&self, here: InProcess, bindings: Bindings) -> Result {
        let station = &self.station;
        let domain = &station.domain;
        let addresses = bindings.addresses.ok_or(Errno::ENOAV)?;
        let ways = domain.lower().address_vector(
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
        let queue = domain.lower().completion_queue(&cq::Attr {
            size: FLIGHTS,
            format: Format::Data,
            waitable: false,
            vector: 0,
        })?;
        let mover = KBox::new(Mover(station.clone()), GFP_KERNEL)?;
        queue.set_handler(Handler::Task(mover))?;
        let events = domain
            .fabric()
            .lower()
            .event_queue(here, eq::Attr::default())?;
        let transmit = exact(&bindings.transmit)?;
        let receive = exact(&bindings.receive)?;
        let bound = Bound {
            outlets: Outlets {
                transmit: transmit.clone(),
                receive: receive.clone(),
                counters: bindings.counters,
                hears_writes: self.has_rma,
                sources: self.tells_sources.then(|| addresses.arc().clone()),
                tells_strangers: self.tells_strangers,
            },
            addresses: addresses.arc().clone(),
            selective_transmit: bindings.selective_transmit,
            selective_receive: bindings.selective_receive,
            ways,
            queue: queue.clone(),
            events: events.clone(),
            alarm: Alarm::new(queue.clone())?,
            clock: Alarm::new(events.clone())?,
        };
        let mover: Arc<dyn Feeder> = Arc::new(Mover(station.clone()), GFP_KERNEL)?;
        let started = self.begin(here, &transmit, &receive, &mover, &events, bound);
        if let Err(errno) = started {
            for feeds in [&transmit, &receive] {
                feeds.dismiss(&mover);
            }
            close_below(&queue, &events);
            return Err(errno);
        }
        *self.holds.lock() = Some(Holds {
            _addresses: addresses,
            transmit: bindings.transmit,
            receive: bindings.receive,
            mover,
        });
        queue.arm_handler();
        Ok(())
    }

    /// What can fail of that with the queues there.
    fn begin(
        &self,
        here: InProcess,
        transmit: &Arc<Cq>,
        receive: &Arc<Cq>,
        mover: &Arc<dyn Feeder>,
        events: &Arc<EventQueue>,
        bound: Bound,
    ) -> Result {
        let station = self.station.clone();
        let listener = {
            let fabric = station.domain.fabric().lower();
            fabric.passive_endpoint(station.domain.lower_info(), LISTENER)?
        };
        let local = station.links.lock().local;
        listener.core().set_name(local.unwrap_or(self.anywhere()))?;
        listener.bind_events(events, 0)?;
        transmit.admit(mover)?;
        if !Arc::ptr_eq(transmit, receive) {
            receive.admit(mover)?;
        }
        let looked_after = station.clone();
        let handler = move |here: InProcess, _: &Arc<EventQueue>| looked_after.look_after(here);
        events.set_handler(KBox::new(handler, GFP_KERNEL)?)?;
        listener.listen()?;
        // Those that a try before this one has made are there.
        let there = station.traffic.lock().sends_left() as u32;
        Packet::make(
            here,
            station.domain.lower(),
            there..SENDS as u32,
            MOST,
            |packet| station.traffic.lock().provide(packet),
        )?;
        let name = listener.core().name()?;
        station.ends.set_local(name);
        let mut links = station.links.lock();
        links.local = Some(name);
        links.listener = Some(listener);
        drop(links);
        if !station.bound.fill(KBox::new(bound, GFP_KERNEL)?) {
            return Err(Errno::EOPBADSTATE);
        }
        // Somebody may have asked for a connection already.
        events.call_handler();
        Ok(())
    }

    /// Any address of its own.
    fn anywhere(&self) -> SocketAddr {
        match self.format {
            abi::FI_SOCKADDR_IN6 => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
            _ => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        }
    }

    /// Sends a message.
    fn send(&self, message: &Message<'_>) -> Result {
        if message.flags & !SEND_FLAGS != 0 {
            return Err(Errno::EBADFLAGS);
        }
        let bound = self.station.bound()?;
        let is_injected = message.flags & FI_INJECT != 0;
        let most = match is_injected {
            true => self.inject,
            false => self.most,
        };
        let len = message.memory.total()?;
        if len > most {
            return Err(Errno::EMSGSIZE);
        }
        // What goes in one packet is copied now.
        let memory = match is_injected || len <= EAGER {
            true => Outgoing::at_once(message.memory)?,
            false => Outgoing::new(message.memory)?,
        };
        let to = bound.addresses.lookup(message.peer)?;
        let kind = message.tag.map_or(FI_MSG, |_| FI_TAGGED);
        let report = Report {
            context: message.context,
            flags: FI_SEND | kind,
            is_wanted: message.flags & FI_COMPLETION != 0
                || !bound.selective_transmit && !is_injected,
        };
        let has_data = message.flags & FI_REMOTE_CQ_DATA != 0;
        let title = wire::Message {
            tag: message.tag.map(|tag| tag.tag),
            len: len as u64,
            data: has_data.then_some(message.data),
        };
        self.start(bound, &to, report, |packet| match len {
            len if len <= EAGER => {
                memory.read(0, packet.payload());
                packet.write(0, &Head::Eager(title), len);
                packet.usage = Use::Order(Work::Eager);
            }
            len if len <= SEGMENTED => {
                packet.usage = Use::Order(Work::Segments(Long {
                    message: title,
                    from: memory,
                    next: 0,
                }));
            }
            _ => {
                packet.usage = Use::Order(Work::Offer(Offer {
                    message: title,
                    from: memory,
                    region: None,
                    phase: Phase::Offered(None),
                }));
            }
        })
    }

    /// Starts an operation with a packet of which `fill` makes it.
    #[inline(always)]
    fn start(
        &self,
        bound: &Bound,
        to: &SocketAddr,
        report: Report,
        fill: impl FnOnce(&mut Packet),
    ) -> Result {
        if !bound.outlets.transmit.reserve() {
            return Err(Errno::EAGAIN);
        }
        let mut traffic = self.station.traffic.lock();
        let slot = traffic.number_of(to, &bound.ways);
        let Some(mut packet) = traffic.packet(to, slot) else {
            drop(traffic);
            bound.outlets.transmit.release();
            return Err(Errno::EAGAIN);
        };
        packet.begin(report);
        fill(&mut packet);
        traffic.send(&bound.outlets, to, slot, packet);
        let is_calling = traffic.is_calling();
        drop(traffic);
        if is_calling {
            bound.kick();
        }
        Ok(())
    }

    /// Posts a receive.
    fn post(&self, message: &Message<'_>) -> Result {
        let known = match message.tag {
            Some(_) => RECEIVE_FLAGS | LOOK_FLAGS,
            None => RECEIVE_FLAGS | FI_MULTI_RECV,
        };
        if message.flags & !known != 0 {
            return Err(Errno::EBADFLAGS);
        }
        let bound = self.station.bound()?;
        let told = Looking {
            context: message.context,
            is_wanted: message.flags & FI_COMPLETION != 0 || !bound.selective_receive,
        };
        match message.flags & (LOOK_FLAGS | FI_MULTI_RECV) {
            FI_MULTI_RECV => self.post_several(bound, message, &told),
            0 => {
                let into = Incoming::new(message.memory)?;
                let wish = self.wish(bound, message)?;
                self.with_room(bound, |traffic| {
                    let receive = traffic.receive(into, &told).ok_or(Errno::EAGAIN)?;
                    traffic.post(&bound.outlets, receive, wish);
                    Ok(())
                })
            }
            FI_CLAIM => {
                let into = Incoming::new(message.memory)?;
                self.with_room(bound, |traffic| {
                    traffic.receive_claimed(&bound.outlets, into, &told)
                })
            }
            CLAIMED_AWAY => self.with_room(bound, |traffic| {
                traffic.discard_claimed(&bound.outlets, &told)
            }),
            flags => {
                let fate = match flags ^ FI_PEEK {
                    0 => Fate::Stay,
                    FI_CLAIM => Fate::Claim,
                    FI_DISCARD => Fate::Discard,
                    _ => return Err(Errno::EBADFLAGS),
                };
                let wish = self.wish(bound, message)?;
                self.with_room(bound, |traffic| {
                    traffic.peek(&bound.outlets, &wish, &told, fate)
                })
            }
        }
    }

    /// Posts a receive for several messages. Room to tell of them is taken when they are there.
    fn post_several(&self, bound: &Bound, message: &Message<'_>, told: &Looking) -> Result {
        if !self.takes_several {
            return Err(Errno::EOPNOTSUPP);
        }
        let Memory::Segments([segment]) = message.memory else {
            return Err(Errno::EINVAL);
        };
        let into = Incoming::new(message.memory)?;
        let wish = self.wish(bound, message)?;
        let least = self.least.get();
        self.act(bound, |traffic| {
            let receive = traffic.receive(into, told).ok_or(Errno::EAGAIN)?;
            traffic.post_several(receive, segment.addr(), least, wish);
            Ok(())
        })?;
        self.station.deliver(bound);
        Ok(())
    }

    /// What a receive is to take.
    #[inline(always)]
    fn wish(&self, bound: &Bound, message: &Message<'_>) -> Result<Wish> {
        let from = match self.is_directed && message.peer != FI_ADDR_UNSPEC {
            true => Some(bound.addresses.lookup(message.peer)?),
            false => None,
        };
        Ok(Wish {
            tag: message.tag.map(|tag| (tag.tag, tag.ignore)),
            from,
        })
    }

    /// Does something of which the consumer is told, if there is room for that.
    #[inline(always)]
    fn with_room(&self, bound: &Bound, act: impl FnOnce(&mut Traffic) -> Result) -> Result {
        if !bound.outlets.receive.reserve() {
            return Err(Errno::EAGAIN);
        }
        self.act(bound, act)
            .inspect_err(|_| bound.outlets.receive.release())
    }

    /// Does something, and has somebody look after what comes of it.
    #[inline(always)]
    fn act(&self, bound: &Bound, act: impl FnOnce(&mut Traffic) -> Result) -> Result {
        let mut traffic = self.station.traffic.lock();
        let done = act(&mut traffic);
        let is_calling = traffic.is_calling();
        drop(traffic);
        if is_calling {
            bound.kick();
        }
        done
    }
}

/// Closes what nobody uses any more.
fn close_below(queue: &CompletionQueue, events: &EventQueue) {
    // Neither has anybody bound to it, nor is this its handler.
    let _ = queue.close();
    let _ = events.close();
}

impl provider::Endpoint for Endpoint {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn peers(&self) -> Peers {
        Peers::Any
    }

    fn countable(&self) -> u64 {
        FI_SEND | FI_RECV | FI_READ | FI_WRITE
    }

    fn enable(self: Arc<Self>, bindings: Bindings) -> Result {
        self.open(context::in_process()?, bindings)
    }

    fn connect(self: Arc<Self>, _to: Option<SocketAddr>, _private_data: &[u8]) -> Result {
        provider::not_implemented()
    }

    fn accept(self: Arc<Self>, _private_data: &[u8]) -> Result {
        provider::not_implemented()
    }

    fn shutdown(&self, _flags: u64) -> Result {
        provider::not_implemented()
    }

    fn set_name(&self, addr: SocketAddr) -> Result {
        if self.station.bound().is_ok() {
            return Err(Errno::EOPBADSTATE);
        }
        self.station.links.lock().local = Some(addr);
        self.station.ends.set_local(addr);
        Ok(())
    }

    fn name(&self) -> Result<SocketAddr> {
        let local = self.station.links.lock().local;
        local.ok_or(Errno::EADDRNOTAVAIL)
    }

    fn peer(&self) -> Result<SocketAddr> {
        provider::not_implemented()
    }

    fn private_data_limit(&self) -> usize {
        0
    }

    fn receives_left(&self) -> Result<usize> {
        self.station.bound()?;
        Ok(self.station.traffic.lock().receives_left())
    }

    fn transmits_left(&self) -> Result<usize> {
        self.station.bound()?;
        Ok(self.station.traffic.lock().sends_left())
    }

    fn transmit(&self, operation: Operation<'_>, message: &Message<'_>) -> Result {
        match operation {
            Operation::Send => self.send(message),
            Operation::Rma(way, remote) => self.access(way, remote, message),
        }
    }

    fn atomic(&self, atomic: &Atomic<'_>, message: &Message<'_>) -> Result {
        self.ask(atomic, message)
    }

    fn most_elements(&self, form: Form, _op: Op, datatype: Datatype) -> Result<usize> {
        match self.has_atomics {
            true => Ok(most_elements(form, datatype)),
            false => provider::not_implemented(),
        }
    }

    fn setting(&self, setting: Setting) -> Result<usize> {
        let limits = &self.station.limits;
        Ok(match setting {
            Setting::MultiReceive => self.least.get(),
            Setting::Connections => limits.connections(),
            Setting::Idle => limits.idle_millis(),
            Setting::Connected => limits.open(),
        })
    }

    fn set(&self, setting: Setting, value: usize) -> Result {
        let limits = &self.station.limits;
        match setting {
            Setting::MultiReceive => self.least.set(value),
            Setting::Connections => limits.set_connections(value),
            Setting::Idle => limits.set_idle_millis(value),
            Setting::Connected => Err(Errno::ENOPROTOOPT),
        }
    }

    fn receive(&self, message: &Message<'_>) -> Result {
        self.post(message)
    }

    fn cancel(&self, context: Context) -> Result {
        let bound = self.station.bound()?;
        let mut traffic = self.station.traffic.lock();
        traffic.cancel(&bound.outlets, context)
    }

    fn tell(&self, told: &mut Told<'_>) {
        told.state(match self.station.bound() {
            Ok(_) => KOFI_STATE_ENABLED,
            Err(_) => KOFI_STATE_OPEN,
        });
        told.value(KOFI_VALUE_TX_SIZE, SENDS as u64);
        told.value(KOFI_VALUE_RX_SIZE, self.receives as u64);
        self.station.ends.tell(told);
    }

    fn close(&self, reclaim: &mut dyn FnMut(Context)) {
        self.station.gate.shut();
        let holds = self.holds.lock().take();
        let (Some(holds), Ok(bound)) = (holds, self.station.bound()) else {
            return;
        };
        for queue in [&holds.transmit, &holds.receive] {
            if let Ok(queue) = exact(queue) {
                queue.dismiss(&holds.mover);
            }
        }
        bound.queue.forbid_calls();
        self.station.hang_up(bound, reclaim);
        close_below(&bound.queue, &bound.events);
        self.station.stop_watching();
        let _ = bound.ways.close();
        drop(holds);
    }
}
