// SPDX-License-Identifier: GPL-2.0

//! The connections of an endpoint: who asks for one, what becomes of it, and when it ends.
//!
//! They are looked after in process context, under a mutex, by the handler of the event queue that the
//! lower endpoints tell of their connections; whoever sends to a peer without one has it called too.

mod hearing;

use super::{
    super::r#loop::{
        self,
        has_listener, //
    },
    agenda::{
        Agenda,
        Patience, //
    },
    below::{
        Lower,
        Route, //
    },
    credits::Credits,
    farewell::Parting,
    link::Link,
    peer::{
        attempt_of,
        mirror,
        slot_of,
        slot_of_attempt,
        Lane,
        Peer,
        FETCHES,
        FIRST,
        PARTIALS,
        RECEIVES,
        SEGMENTS,
        WORDS, //
    },
    posting::{
        Packet,
        SHORT, //
    },
    receive::{
        Collected,
        Parts, //
    },
    station::{
        Bound,
        Station, //
    },
    traffic::{
        Need,
        FLIGHTS,
        SENDS,
        SHARE, //
    },
    turns::Turns,
    wire::{
        Extensions,
        Flow,
        Hello,
        Identity,
        Welcome,
        MOST, //
    },
};
use crate::{
    abi::{
        addr::format_of,
        fi_ep_attr,
        flags::*,
        FI_PROTO_IWARP,
        FI_SHARED_CONTEXT, //
    },
    fi::{
        av::Insertion,
        cq::{
            self,
            CompletionQueue, //
        },
        ep,
        eq::{
            EventQueue,
            Source, //
        },
        mr::Access,
        pep::PassiveEndpoint,
        prelude::*,
        timer::ArmedTimer, //
    },
    util::{
        owned_list::{
            BoxList,
            ListBox, //
        },
        random::random, //
    },
};
use core::iter;

/// Whoever can has credits: on iWARP a message without a receive ends the connection, and elsewhere it is
/// sent again after a time in which hundreds could have been sent.
const FLOW: Flow = Flow::Credits;

/// What a connection on the same host has in hand at once beside the endpoint's packets to send.
const ROOM: usize = RECEIVES + WORDS + FETCHES;

/// What peers are told that every endpoint understands.
const EXTENSIONS: Extensions = Extensions::FAREWELL;

/// What the listener's events carry; those of an attempt carry its number, which is another.
pub(super) const LISTENER: Source = Source(0);

/// A connection with a peer, as far as it is looked after.
pub(super) struct Known {
    addr: SocketAddr,
    pub(super) link: Link,
    /// The last attempt at it.
    attempt: usize,
    /// And which way that goes.
    route: Route,
    /// It does not count what it sends.
    is_lavish: bool,
}

/// The connections of an endpoint.
pub(super) struct Links {
    pub(super) list: KVVec<Option<Known>>,
    /// One for each route.
    pub(super) listeners: [Option<Arc<PassiveEndpoint>>; 2],
    /// Where it listens, or is to.
    pub(super) local: Option<SocketAddr>,
    /// Whose they are, for peers on this host to call on; until all are closed.
    pub(super) this: Option<Arc<Station>>,
    /// Which endpoint this is: another one at the same address has another number.
    instance: u32,
    /// What peers are told that is understood here.
    extensions: Extensions,
    /// What is behind a read waits for it at the device.
    pub(super) is_iwarp: bool,
    /// The device has gone: there are no new connections.
    pub(super) is_deviceless: bool,
    attempts: u32,
    /// How many packets to receive with have been made.
    packets: u32,
    /// How many have ever waited for room.
    pub(super) tickets: u64,
    /// How long a peer has that has said it is asking itself.
    pub(super) patience: Patience,
    /// What is to be done later.
    pub(super) agenda: Agenda,
    /// What says when.
    pub(super) alarm: Option<ArmedTimer<EventQueue>>,
}

impl Links {
    /// None yet, for an endpoint that is to listen at `local` and has so many receive contexts; `lower` is
    /// the offer below.
    #[inline(never)]
    pub(super) fn new(local: Option<SocketAddr>, lower: &Info, contexts: usize) -> Self {
        Self {
            list: KVVec::new(),
            listeners: [const { None }; 2],
            local,
            this: None,
            instance: (random() as u32).max(1),
            extensions: EXTENSIONS.and_contexts(contexts),
            is_iwarp: lower.ep().is_some_and(|ep| ep.protocol == FI_PROTO_IWARP),
            is_deviceless: false,
            attempts: 0,
            packets: 0,
            tickets: 0,
            patience: Patience::new(),
            agenda: Agenda::new(),
            alarm: None,
        }
    }

    fn listener(&self, route: Route) -> Option<&Arc<PassiveEndpoint>> {
        let [wire, host] = &self.listeners;
        match route {
            Route::Wire => wire.as_ref(),
            Route::Host => host.as_ref(),
        }
    }

    pub(super) fn known(&mut self, slot: u32) -> Result<&mut Known> {
        let known = self.list.get_mut(slot as usize);
        known.and_then(Option::as_mut).ok_or(Errno::EINVAL)
    }

    /// The peer whose last attempt this is.
    fn of_attempt(&mut self, attempt: usize) -> Option<(u32, &mut Known)> {
        let slot = slot_of_attempt(attempt);
        let known = self.list.get_mut(slot as usize)?.as_mut()?;
        (known.attempt == attempt).then_some((slot, known))
    }

    fn next_attempt(&mut self, slot: u32) -> Result<usize> {
        self.attempts = self.attempts.wrapping_add(1).max(1);
        let attempt = attempt_of(self.attempts, slot);
        self.known(slot)?.attempt = attempt;
        Ok(attempt)
    }

    fn identity(&self, slot: u32) -> Identity {
        Identity {
            instance: self.instance,
            index: slot,
        }
    }

    /// Returns whether a request with that sender was sent by this endpoint itself.
    fn is_own(&self, who: Identity) -> bool {
        who.instance == self.instance
    }

    fn port(&self) -> u16 {
        self.local.map_or(0, |local| local.port())
    }

    /// What a peer is told with a request.
    fn hello(&self, slot: u32) -> [u8; 24] {
        Hello {
            port: self.port(),
            flow: FLOW,
            receives: RECEIVES as u32,
            extensions: self.extensions,
            identity: self.identity(slot),
        }
        .to_bytes()
    }

    /// What one is told with the reply.
    fn welcome(&self, slot: u32) -> [u8; 16] {
        Welcome {
            identity: self.identity(slot),
            receives: RECEIVES as u32,
            extensions: self.extensions,
            flow: FLOW,
        }
        .to_bytes()
    }
}

impl Station {
    /// Does what is to be done for connections. May sleep.
    pub(super) fn look_after(&self, here: ProcessContext) {
        let Ok(bound) = self.bound() else {
            return;
        };
        let Some(_pass) = self.gate.begin_call() else {
            return;
        };
        let mut links = self.links.lock();
        self.keep_time(here, bound, &mut links);
        self.tend(here, bound, &mut links);
        self.set_alarm(bound, &mut links);
    }

    /// Does what is to be done now.
    fn tend(&self, here: ProcessContext, bound: &Bound, links: &mut Links) {
        loop {
            if let Some((route, event)) = bound.event(here) {
                self.hear(here, bound, links, route, event);
                continue;
            }
            let (stranger, called, ending) = {
                let mut traffic = self.traffic.lock();
                (traffic.stranger(), traffic.answer(), traffic.ending())
            };
            let is_over = ending.is_some();
            if let Some(mut packet) = ending {
                // The consumer's memory is its own again when it hears of it.
                drop(packet.offer().and_then(|offer| offer.region.take()));
                self.with(|traffic, outlets| traffic.ended(outlets, packet));
            }
            if let Some(addr) = stranger {
                if let Err(errno) = self.enter(here, bound, links, addr) {
                    self.with(|traffic, outlets| traffic.fail_stranger(outlets, errno));
                }
            }
            if let Some(slot) = called {
                self.serve(here, bound, links, slot);
            }
            let is_done = stranger.is_none() && called.is_none() && !is_over;
            if is_done && !self.give_room(here, bound, links) {
                return;
            }
        }
    }

    /// Asks those peers once more that are asking themselves, and whose requests have not come.
    pub(super) fn ask_again(&self, here: ProcessContext, bound: &Bound, links: &mut Links) {
        let are_waiting = links.are_waiting();
        if are_waiting {
            links.patience.exhausted();
        }
        for slot in 0..links.list.len() as u32 {
            if are_waiting {
                links.step_back(slot);
            } else if links.known(slot).is_ok_and(|known| known.link.miss()) {
                self.ask_or_fail(here, bound, links, slot);
            }
        }
    }

    /// Does what one peer needs.
    fn serve(&self, here: ProcessContext, bound: &Bound, links: &mut Links, slot: u32) {
        let need = self.traffic.lock().need(slot);
        match need {
            // Nobody may need it any more.
            Need::Nothing => self.forget(here, bound, links, slot),
            Need::Close => self.lose(here, bound, links, slot),
            Need::Lane => self.want(here, bound, links, slot),
            Need::Region => self.open_up(slot),
            Need::Packets(count) => {
                let packets = self.packets(here, links, count, MOST);
                // Whoever still needs more asks again.
                let packets = packets.unwrap_or(BoxList::new());
                self.with(|traffic, outlets| {
                    traffic.supplied(slot, packets);
                    traffic.pump(outlets, slot);
                });
            }
        }
    }

    /// Returns whether peers may read long messages from this endpoint's memory: if its connections can access
    /// the consumer's regions, only if peers may read those too.
    fn may_be_read(&self) -> bool {
        self.rights.has_rma_read() || !self.domain.is_open(&self.protection)
    }

    /// Returns the capabilities for lower endpoints, which grant peers the same rights as this endpoint.
    fn lower_caps(&self) -> u64 {
        let mut caps = FI_MSG | FI_SEND | FI_RECV | FI_RMA | FI_READ | FI_WRITE;
        if self.may_be_read() {
            caps |= FI_REMOTE_READ;
        }
        if self.rights.has_rma_write() {
            caps |= FI_REMOTE_WRITE;
        }
        caps
    }

    /// Returns whether transmits are registered in the protection domain of the connections. Packets that
    /// endpoints share are registered in the domain with the consumer's regions.
    fn registers_transmits(&self) -> bool {
        self.domain.is_open(&self.protection) || !self.traffic.lock().sends.are_shared()
    }

    /// Opens the memory of the next message to the peer that it is offered to.
    fn open_up(&self, slot: u32) {
        let mut traffic = self.traffic.lock();
        let route = traffic.lane(slot).map(|lane| lane.lower.route);
        let packet = traffic.take_closed(slot);
        drop(traffic);
        let Some(mut packet) = packet else {
            return;
        };
        let region = packet.offer().ok_or(Errno::EINVAL).and_then(|offer| {
            if !self.may_be_read() {
                return Err(Errno::EACCES);
            }
            let below = self.protection.below(route.unwrap_or(Route::Wire))?;
            offer.register(|parts| below.domain.register(parts, Access::REMOTE_READ))
        });
        self.with(|traffic, outlets| traffic.open_up(outlets, packet, region));
    }

    /// Sees to it that there is a connection, once there is room for it.
    pub(super) fn want(&self, here: ProcessContext, bound: &Bound, links: &mut Links, slot: u32) {
        if links.is_full(&self.limits) {
            links.wait(slot);
        } else if links.known(slot).is_ok_and(|known| known.link.want()) {
            self.ask_or_fail(here, bound, links, slot);
        }
    }

    /// Asks the peer for a connection.
    fn ask_or_fail(&self, here: ProcessContext, bound: &Bound, links: &mut Links, slot: u32) {
        if let Err(errno) = self.ask(here, bound, links, slot) {
            self.give_up(here, bound, links, slot, errno);
        }
    }

    fn ask(&self, here: ProcessContext, bound: &Bound, links: &mut Links, slot: u32) -> Result {
        let addr = links.known(slot)?.addr;
        let is_here = self.is_local && has_listener(self.domain.fabric().net(), &addr);
        let route = match is_here {
            true => Route::Host,
            false => Route::Wire,
        };
        let mut info = self.protection.below(route)?.info.duplicate()?;
        let local = links.local.map(|mut local| {
            local.set_port(0);
            local
        });
        let local = local.filter(|local| !local.ip().is_unspecified());
        info.set_addresses(format_of(&addr), local.as_ref(), Some(&addr))?;
        let lower = self.open(here, bound, links, (slot, route), &mut info, None)?;
        lower.connect(Some(addr), &links.hello(slot))
    }

    /// Makes a lower endpoint, on which something can be received.
    fn open(
        &self,
        here: ProcessContext,
        bound: &Bound,
        links: &mut Links,
        (slot, route): (u32, Route),
        info: &mut Info,
        said: Option<(Flow, Extensions)>,
    ) -> Result<Arc<ep::Endpoint>> {
        if links.is_deviceless {
            return Err(Errno::ENODEV);
        }
        let attempt = links.next_attempt(slot)?;
        if core::mem::replace(&mut links.known(slot)?.route, route) != route {
            self.close_offers(slot);
        }
        let (flow, extensions) = said.unwrap_or((FLOW, Extensions::NONE));
        let is_lavish = flow == Flow::Device || links.known(slot)?.is_lavish;
        let shared = match is_lavish || route == Route::Host {
            true => None,
            false => self.traffic.lock().supply.shared().cloned(),
        };
        info.set_caps(self.lower_caps());
        info.tx_mut()?.size = SHARE + SEGMENTS + WORDS + FETCHES + RECEIVES;
        info.rx_mut()?.size = RECEIVES;
        if let (Some(_), Some(ep)) = (&shared, info.ep().copied()) {
            info.set_ep(&fi_ep_attr {
                rx_ctx_cnt: FI_SHARED_CONTEXT,
                ..ep
            })?;
        }
        let domain = &self.protection.below(route)?.domain;
        let lower = domain.endpoint(info, Source(attempt))?;
        let (events, queue) = self.queues(bound, route)?;
        lower.bind_eq(events, 0)?;
        lower.bind_cq(queue, FI_TRANSMIT | FI_RECV)?;
        if let Some(shared) = &shared {
            lower.bind_srx(shared, 0)?;
        }
        lower.enable()?;
        if let (Some(near), Some(this)) = (r#loop::Endpoint::from_endpoint(&lower), &links.this) {
            near.set_direct_receiver(this.clone())?;
        }
        let mut parts = BoxList::new();
        for _ in 0..PARTIALS {
            parts.push(ListBox::new(Parts::idle(Collected::idle()))?);
        }
        // Who does not count cannot be told of more later.
        let count = if is_lavish { RECEIVES } else { FIRST };
        let receives = self.packets(here, links, count, MOST)?;
        let words = match self.packets(here, links, WORDS, SHORT) {
            Ok(words) => words,
            Err(errno) => {
                self.keep_all(receives);
                return Err(errno);
            }
        };
        // Who has asked for the connection hears nobody else who wants to end it.
        let parting = Parting::new(said.is_some());
        let credits = Credits::new(flow, said.is_some());
        let turns = Turns::new(links.is_iwarp && route == Route::Wire);
        let mut lane = Lane::new(
            Lower::new(lower.clone(), route, self.registers_transmits()),
            attempt,
            shared,
            credits,
            turns,
            parting,
            parts,
        );
        lane.extensions = extensions;
        if !self.limits.begin() {
            self.keep_all(receives);
            self.keep_all(words);
            return Err(Errno::ENOMEM);
        }
        self.traffic.lock().open(slot, lane, receives, words)?;
        Ok(lower)
    }

    /// Where the endpoints of a route tell of their connections, and their operations complete.
    fn queues<'a>(
        &self,
        bound: &'a Bound,
        route: Route,
    ) -> Result<(&'a Arc<EventQueue>, &'a Arc<CompletionQueue>)> {
        if route == Route::Wire {
            return Ok((&bound.events, &bound.queue));
        }
        let local = bound.local.as_ref().ok_or(Errno::EHOSTUNREACH)?;
        // For all that the connections may have in hand, this one's included.
        let shared = bound.queue.enable_export(ROOM)?;
        shared.grow(SENDS + (self.limits.open() + 1) * ROOM)?;
        if local.queue.get().is_none() {
            let attr = cq::Attr {
                size: FLIGHTS,
                ..*bound.queue.attr()
            };
            let queue = self
                .protection
                .below(route)?
                .domain
                .peer_cq(&attr, shared.clone())?;
            let _ = local.queue.set(KBox::new(queue, GFP_KERNEL)?);
        }
        Ok((&local.events, local.queue.get().ok_or(Errno::ENOMEM)?))
    }

    /// Closes the memory of messages that are to be offered to a peer: it is reached another way.
    fn close_offers(&self, slot: u32) {
        loop {
            let region = self.traffic.lock().take_region(slot);
            if region.is_none() {
                return;
            }
        }
    }

    /// Packets of that size that no connection has.
    fn packets(
        &self,
        here: ProcessContext,
        links: &mut Links,
        count: usize,
        size: usize,
    ) -> Result<BoxList<Packet>> {
        let mut packets = BoxList::new();
        while packets.len() < count {
            let spare = self.traffic.lock().take_spare(size == SHORT);
            let Some(spare) = spare else {
                break;
            };
            packets.push(spare);
        }
        let first = SENDS as u32 + links.packets;
        let missing = first..first + (count - packets.len()) as u32;
        let made = Packet::make(here, self.protection.lower(), missing, size, |packet| {
            links.packets += 1;
            packets.push(packet);
        });
        match made {
            Ok(()) => Ok(packets),
            Err(errno) => {
                self.keep_all(packets);
                Err(errno)
            }
        }
    }

    fn keep_all(&self, mut packets: BoxList<Packet>) {
        let mut traffic = self.traffic.lock();
        while let Some(packet) = packets.pop() {
            traffic.keep(packet);
        }
    }

    /// Closes the connection, if there is one; what it had in hand fails.
    fn close_lane(&self, slot: u32) {
        // What has arrived is not lost.
        self.settle();
        let lane = self.with(|traffic, outlets| traffic.close(outlets, slot));
        let Some(lane) = lane else {
            return;
        };
        lane.lower.ep.close(&mut |context| {
            self.with(|traffic, outlets| {
                traffic.land(outlets, context, None, Err(Errno::ECANCELED));
            });
        });
        if lane.lower.route == Route::Host {
            // What has come of it meanwhile is not its own any more.
            self.settle();
        }
        self.with(|traffic, outlets| traffic.closed(outlets, slot, lane.attempt));
        self.limits.end();
    }

    /// There will be no connection: what waits for it fails.
    fn give_up(
        &self,
        here: ProcessContext,
        bound: &Bound,
        links: &mut Links,
        slot: u32,
        errno: Errno,
    ) {
        self.close_lane(slot);
        if let Ok(known) = links.known(slot) {
            known.link.lost();
        }
        self.with(|traffic, outlets| traffic.fail(outlets, slot, errno));
        self.forget(here, bound, links, slot);
    }

    /// The connection has ended: what waits gets another one.
    fn lose(&self, here: ProcessContext, bound: &Bound, links: &mut Links, slot: u32) {
        self.close_lane(slot);
        if let Ok(known) = links.known(slot) {
            known.link.lost();
        }
        let is_wanted = self.traffic.lock().is_wanted(slot);
        match is_wanted {
            true => self.want(here, bound, links, slot),
            false => self.forget(here, bound, links, slot),
        }
    }

    /// The number of a peer: a new one, unless it has one.
    fn enter(
        &self,
        here: ProcessContext,
        bound: &Bound,
        links: &mut Links,
        addr: SocketAddr,
    ) -> Result<u32> {
        let index = match bound.ways.find(&addr) {
            Some(index) => index,
            None => {
                let insertion = Insertion {
                    address: Ok(addr),
                    user_id: None,
                };
                let mut entered = Err(Errno::EINVAL);
                bound
                    .ways
                    .insert(here, iter::once(insertion), |_, outcome| entered = outcome)?;
                entered?
            }
        };
        let slot = slot_of(index).ok_or(Errno::ENOMEM)?;
        for slot in [mirror(slot), slot] {
            self.make_room(links, slot)?;
            if links.known(slot).is_err() {
                let place = links.list.get_mut(slot as usize).ok_or(Errno::EINVAL)?;
                *place = Some(Known {
                    addr,
                    link: Link::new(),
                    attempt: 0,
                    route: Route::Wire,
                    is_lavish: false,
                });
            }
            let peer = Peer::new(addr, slot)?;
            let left = self.traffic.lock().enter(slot, peer);
            drop(left);
        }
        Ok(slot)
    }

    /// Makes room for a peer with that number.
    fn make_room(&self, links: &mut Links, slot: u32) -> Result {
        while links.list.len() <= slot as usize {
            links.list.push(None, GFP_KERNEL)?;
        }
        let room = self.traffic.lock().room();
        if room > slot as usize {
            return Ok(());
        }
        let more = KVVec::with_capacity((2 * room).max(slot as usize + 16), GFP_KERNEL)?;
        let old = self.traffic.lock().grow(more);
        drop(old);
        Ok(())
    }

    /// Closes all connections; what they had in hand is given to `reclaim`. Nobody looks after them any
    /// more.
    #[inline(never)]
    pub(super) fn hang_up(&self, reclaim: &mut dyn FnMut(Context)) {
        let mut links = self.links.lock();
        drop((links.alarm.take(), links.this.take()));
        // Who listens at the device's port next has the other's, too.
        for listener in links.listeners.iter_mut().rev() {
            if let Some(listener) = listener.take() {
                listener.close();
            }
        }
        for slot in 0..links.list.len() as u32 {
            let lane = self.with(|traffic, outlets| traffic.close(outlets, slot));
            let Some(lane) = lane else {
                continue;
            };
            lane.lower
                .ep
                .close(&mut |context| self.traffic.lock().abandon(context));
        }
        self.abandon_rest();
        let shared = self.traffic.lock().supply.end();
        if let Some(shared) = shared {
            // Nobody is bound to it any more.
            let _ = shared.close(&mut |context| self.traffic.lock().abandon(context));
        }
        self.end_traffic(reclaim);
    }

    /// Ends all operations, once no connection is left: their contexts are passed to `reclaim`.
    #[inline(never)]
    fn end_traffic(&self, reclaim: &mut dyn FnMut(Context)) {
        let mut remains = self.traffic.lock().end();
        while let Some(mut packet) = remains.packets.pop() {
            // Nobody reaches the memory any more that is given back.
            drop(packet.offer().and_then(|offer| offer.region.take()));
            if let Some(report) = packet.report() {
                let by = report.by;
                self.with(|_, outlets| outlets.release_transmit(by));
                reclaim(report.context);
            }
            remains.sends.take_back(packet);
        }
        remains.sends.wake_refused();
        while let Some(mut receive) = remains.receives.pop() {
            if receive.is_told {
                continue;
            }
            if receive.has_room() {
                self.with(|_, outlets| outlets.release(receive.office));
            }
            if let Some(posted) = receive.take_posted() {
                self.post_again(posted);
            }
            // A buffer's is given back with its own receive.
            if !receive.is_helper() {
                reclaim(receive.context);
            }
        }
    }
}
