// SPDX-License-Identifier: GPL-2.0

//! What is under way at an endpoint: its packets, its receives, and what waits for what.
//!
//! All of it is under one lock, which is taken in any context: nothing here sleeps or allocates.

use super::{
    bounce::Incoming,
    cq::{
        Cq,
        Outcome, //
    },
    credits::Credits,
    flights::Flights,
    matching::{
        Desk,
        Title,
        Wish,
        Wishing, //
    },
    posting::{
        Packet,
        Report,
        Use, //
    },
    wire::{
        Flow,
        Head,
        Malformed,
        Message,
        Packet as Parsed, //
    },
};
use crate::{
    abi::{
        flags::*,
        nodes::{
            Own,
            Queue, //
        },
        say::complain,
        Errno,
        Result,
        FI_ADDR_NOTAVAIL, //
    },
    fi::{
        av::AddressVector,
        cntr::Counters,
        cq::{
            Completion,
            Failure, //
        },
        ep,
        memory::Context, //
    },
};
use core::{
    mem,
    net::SocketAddr, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Packets to send that an endpoint has.
pub(super) const SENDS: usize = 128;

/// How many of them one peer may have, so that there are some for the others.
pub(super) const SHARE: usize = SENDS / 2;

/// Receives that each connection has.
pub(super) const RECEIVES: usize = 32;

/// Connections that an endpoint has at once.
pub(super) const MOST_LANES: usize = 128;

/// A receive of the consumer's.
pub(super) struct Receive {
    /// What it takes.
    pub(super) wish: Wish,
    /// Where it goes.
    pub(super) into: Incoming,
    /// What the consumer gets back.
    pub(super) context: Context,
    /// Whether a success is told too.
    pub(super) is_wanted: bool,
}

impl Receive {
    /// None.
    const IDLE: Self = Self {
        wish: Wish {
            tag: None,
            from: None,
        },
        into: Incoming::NOWHERE,
        context: Context::NULL,
        is_wanted: false,
    };
}

impl Wishing for Receive {
    fn wish(&self) -> &Wish {
        &self.wish
    }
}

/// Where outcomes are told.
pub(super) struct Outlets {
    /// Of what is sent.
    pub(super) transmit: Arc<Cq>,
    /// Of what is received.
    pub(super) receive: Arc<Cq>,
    /// Counted, whether or not somebody is told.
    pub(super) counters: Counters,
    /// What the sender of a message is called, if that is told.
    pub(super) sources: Option<Arc<AddressVector>>,
}

impl Outlets {
    fn count(&self, flags: u64, result: Result) {
        match (self.counters.of(flags), result) {
            (Some(counter), Ok(())) => counter.add(1),
            (Some(counter), Err(_)) => counter.add_errors(1),
            (None, _) => {}
        }
    }

    /// What has come of a send, for which there is room.
    pub(super) fn sent(&self, report: &Report, result: Result) {
        self.count(report.flags, result);
        let completion = Completion::of(report.context, report.flags);
        match result {
            Ok(()) if !report.is_wanted => self.transmit.release(),
            Ok(()) => self.transmit.put(Outcome::Done(completion)),
            Err(errno) => self.transmit.put(failed(completion, errno, 0)),
        }
    }

    /// What has come of a receive, for which there is room.
    fn received(&self, receive: &Receive, title: &Title, message: &Message, len: usize) {
        let kind = title.tag.map_or(FI_MSG, |_| FI_TAGGED);
        let data = message.data.map_or(0, |_| FI_REMOTE_CQ_DATA);
        let source = match &self.sources {
            None => FI_ADDR_NOTAVAIL,
            Some(sources) => sources
                .find(&title.from)
                .map_or(FI_ADDR_NOTAVAIL, |source| sources.reported(source)),
        };
        let completion = Completion {
            len,
            data: message.data.unwrap_or(0),
            tag: title.tag.unwrap_or(0),
            source,
            ..Completion::of(receive.context, FI_RECV | kind | data)
        };
        let dropped = (message.len as usize).saturating_sub(len);
        let result = match dropped {
            0 => Ok(()),
            _ => Err(Errno::ETRUNC),
        };
        self.count(FI_RECV, result);
        match result {
            Ok(()) if !receive.is_wanted => self.receive.release(),
            Ok(()) => self.receive.put(Outcome::Done(completion)),
            Err(errno) => self.receive.put(failed(completion, errno, dropped)),
        }
    }

    /// That nothing came of a receive.
    fn given_up(&self, receive: &Receive, errno: Errno) {
        let kind = receive.wish.tag.map_or(FI_MSG, |_| FI_TAGGED);
        self.count(FI_RECV, Err(errno));
        let completion = Completion::of(receive.context, FI_RECV | kind);
        self.receive.put(failed(completion, errno, 0));
    }
}

fn failed(completion: Completion, errno: Errno, dropped: usize) -> Outcome {
    Outcome::Failed(Failure {
        completion,
        dropped,
        errno,
        prov_errno: -errno.to_int(),
    })
}

/// A connection with a peer, or what is to become one.
pub(super) struct Lane {
    /// The endpoint below.
    pub(super) lower: Arc<ep::Endpoint>,
    /// Which attempt it is.
    pub(super) attempt: usize,
    /// What the peer calls it; known when it is there.
    pub(super) to: Option<u64>,
    /// What each side has room for.
    pub(super) credits: Credits,
    /// What says so, unless it is on its way.
    pub(super) word: Option<Own<Packet>>,
    /// Nothing goes or comes any more.
    is_broken: bool,
}

impl Lane {
    /// A new one.
    pub(super) fn new(
        lower: Arc<ep::Endpoint>,
        attempt: usize,
        credits: Credits,
        word: Own<Packet>,
    ) -> Self {
        Self {
            lower,
            attempt,
            to: None,
            credits,
            word: Some(word),
            is_broken: false,
        }
    }

    /// Tells the peer of receives, if that is due.
    fn say(&mut self, flights: &mut Flights<Packet>) {
        let Some(to) = self.to else {
            return;
        };
        let Some(mut word) = self.word.take() else {
            return;
        };
        let Some(count) = self.credits.word() else {
            self.word = Some(word);
            return;
        };
        word.usage = Use::Word(count);
        word.address(to);
        if let Err(refused) = Packet::send(word, flights, &self.lower) {
            self.credits.unsaid(count);
            self.is_broken |= refused.errno != Errno::EAGAIN;
            self.word = Some(refused.own);
        }
    }
}

/// Somebody whom there is, was, or is to be a connection with.
pub(super) struct Peer {
    /// Where it listens.
    pub(super) addr: SocketAddr,
    lane: Option<Lane>,
    /// What is to be sent, in order.
    waiting: Queue<Packet>,
    /// How many packets it has, those that wait included.
    load: usize,
    /// What calls for somebody to look after it, unless that has been done.
    call: Option<Own<u32>>,
}

impl Peer {
    /// One that nothing is known of but where it is; `slot` is its number.
    pub(super) fn new(addr: SocketAddr, slot: u32) -> Result<KBox<Self>> {
        let call = Some(Own::new(slot)?);
        Ok(KBox::new(
            Self {
                addr,
                lane: None,
                waiting: Queue::new(),
                load: 0,
                call,
            },
            GFP_KERNEL,
        )?)
    }
}

/// The number of the end that accepts a connection of ourselves with ourselves.
pub(super) const fn mirror(slot: u32) -> u32 {
    slot | 1
}

const fn is_mirror(slot: u32) -> bool {
    slot & 1 != 0
}

/// The number of the peer that is the `index`th to have one.
pub(super) fn slot_of(index: u64) -> Option<u32> {
    u32::try_from(index).ok()?.checked_mul(2)
}

/// What is to be done for a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Need {
    /// Nothing.
    Nothing,
    /// A connection: something waits for it.
    Lane,
    /// Its connection is to be closed.
    Close,
}

/// See the module.
pub(super) struct Traffic {
    desk: Desk<Receive, Packet>,
    peers: KVVec<Option<KBox<Peer>>>,
    /// Messages to those who have no number yet.
    strangers: Queue<Packet>,
    /// Whom somebody is to look after.
    calls: Queue<u32>,
    /// Packets to send with.
    idle: Queue<Packet>,
    /// Packets to receive with that no connection has.
    spare: Queue<Packet>,
    receives: Queue<Receive>,
    flights: Flights<Packet>,
}

impl Traffic {
    /// For so many receives at once; [`Self::provide`] brings packets. May sleep.
    pub(super) fn new(receives: usize) -> Result<Self> {
        let mut all = Queue::new();
        for _ in 0..receives {
            all.push(Own::new(Receive::IDLE)?);
        }
        Ok(Self {
            desk: Desk::new(),
            peers: KVVec::new(),
            strangers: Queue::new(),
            calls: Queue::new(),
            idle: Queue::new(),
            spare: Queue::new(),
            receives: all,
            flights: Flights::new(SENDS + MOST_LANES * (RECEIVES + 1))?,
        })
    }

    /// A packet more to send with.
    pub(super) fn provide(&mut self, packet: Own<Packet>) {
        self.idle.push(packet);
    }

    /// A packet to receive with that no connection has.
    pub(super) fn take_spare(&mut self) -> Option<Own<Packet>> {
        self.spare.pop()
    }

    /// The same, which is not needed any more.
    pub(super) fn keep_spare(&mut self, packet: Own<Packet>) {
        self.spare.push(packet);
    }

    /// How many receives can be posted.
    pub(super) fn receives_left(&self) -> usize {
        self.receives.len()
    }

    /// How many messages can be sent.
    pub(super) fn sends_left(&self) -> usize {
        self.idle.len()
    }

    fn peer(&mut self, slot: u32) -> Option<&mut Peer> {
        self.peers.get_mut(slot as usize)?.as_deref_mut()
    }

    /// Calls for somebody to look after a peer.
    fn call(&mut self, slot: u32) {
        let call = self.peer(slot).and_then(|peer| peer.call.take());
        if let Some(call) = call {
            self.calls.push(call);
        }
    }

    /// Whether somebody is to look after peers.
    pub(super) fn is_calling(&self) -> bool {
        !self.calls.is_empty() || !self.strangers.is_empty()
    }

    /// Takes a call; the peer may call again from now on.
    pub(super) fn answer(&mut self) -> Option<u32> {
        let call = self.calls.pop()?;
        let slot = *call;
        if let Some(peer) = self.peer(slot) {
            peer.call = Some(call);
        }
        Some(slot)
    }

    /// What is to be done for a peer.
    pub(super) fn need(&mut self, slot: u32) -> Need {
        match self.peer(slot) {
            Some(peer) if peer.lane.as_ref().is_some_and(|lane| lane.is_broken) => Need::Close,
            Some(peer) if peer.lane.is_none() && !peer.waiting.is_empty() => Need::Lane,
            _ => Need::Nothing,
        }
    }

    /// Whom a message waits for that has no number yet.
    pub(super) fn stranger(&self) -> Option<SocketAddr> {
        match self.strangers.first()?.usage {
            Use::Sent { to, .. } => Some(to),
            _ => None,
        }
    }

    /// Makes room for peers with numbers below `count`, in memory that was allocated for it: what there was
    /// is given back.
    pub(super) fn grow(
        &mut self,
        mut room: KVVec<Option<KBox<Peer>>>,
    ) -> KVVec<Option<KBox<Peer>>> {
        if room.capacity() > self.peers.capacity() {
            for peer in self.peers.drain_all() {
                let _ = room.push_within_capacity(peer);
            }
            mem::swap(&mut self.peers, &mut room);
        }
        room
    }

    /// How many peers there is room for.
    pub(super) fn room(&self) -> usize {
        self.peers.capacity()
    }

    /// Gives a peer its number, unless it has it: what waits for it is its own. The box comes back if it
    /// was not needed.
    pub(super) fn enter(&mut self, slot: u32, peer: KBox<Peer>) -> Option<KBox<Peer>> {
        while self.peers.len() <= slot as usize {
            self.peers.push_within_capacity(None).ok()?;
        }
        let addr = peer.addr;
        let place = self.peers.get_mut(slot as usize)?;
        let left = match place {
            Some(_) => Some(peer),
            None => {
                *place = Some(peer);
                None
            }
        };
        if !is_mirror(slot) {
            let mut theirs = self
                .strangers
                .take_all(|packet| matches!(packet.usage, Use::Sent { to, .. } if to == addr));
            while let Some(packet) = theirs.pop() {
                self.queue(slot, packet);
            }
            self.call(slot);
        }
        left
    }

    /// Gives a peer its connection, and its first packets to receive with.
    ///
    /// # Errors
    ///
    /// Why the packets cannot be posted: then it has none.
    pub(super) fn open(&mut self, slot: u32, lane: Lane, mut receives: Queue<Packet>) -> Result {
        let attempt = lane.attempt;
        let peer = self.peer(slot).ok_or(Errno::EINVAL)?;
        peer.lane = Some(lane);
        let mut posted = Ok(());
        while let Some(mut packet) = receives.pop() {
            packet.slot = slot;
            packet.attempt = attempt;
            if posted.is_ok() {
                posted = self.repost(packet);
            } else {
                self.spare.push(packet);
            }
        }
        posted
    }

    /// The connection is there, and the peer calls it `to`; `flow` is what both have agreed upon, where that
    /// was not known before.
    pub(super) fn establish(&mut self, slot: u32, attempt: usize, to: u64, flow: Option<Flow>) {
        let lane = self.peer(slot).and_then(|peer| peer.lane.as_mut());
        if let Some(lane) = lane.filter(|lane| lane.attempt == attempt) {
            lane.to = Some(to);
            if let Some(flow) = flow {
                lane.credits.agree(flow);
            }
            self.pump(slot);
        }
    }

    /// Takes a peer's connection.
    pub(super) fn close(&mut self, slot: u32) -> Option<Lane> {
        self.peer(slot)?.lane.take()
    }

    /// Whether something waits for a connection with that peer.
    pub(super) fn is_wanted(&mut self, slot: u32) -> bool {
        self.peer(slot).is_some_and(|peer| !peer.waiting.is_empty())
    }

    /// Has what waits for a peer fail.
    pub(super) fn fail(&mut self, outlets: &Outlets, slot: u32, errno: Errno) {
        let Some(peer) = self.peer(slot) else {
            return;
        };
        let mut waiting = mem::take(&mut peer.waiting);
        while let Some(packet) = waiting.pop() {
            self.retire(outlets, packet, Err(errno));
        }
    }

    /// The same with what waits for somebody who has no number.
    pub(super) fn fail_stranger(&mut self, outlets: &Outlets, errno: Errno) {
        if let Some(packet) = self.strangers.pop() {
            if let Use::Sent { report, .. } = packet.usage {
                outlets.sent(&report, Err(errno));
            }
            self.idle.push(packet);
        }
    }

    /// A packet for a message to a peer, if it may have one more.
    pub(super) fn packet(&mut self, slot: Option<u32>) -> Option<Own<Packet>> {
        let peer = slot.and_then(|slot| self.peer(slot));
        if peer.is_some_and(|peer| peer.load >= SHARE) {
            return None;
        }
        self.idle.pop()
    }

    /// Sends a message, at once or when there is a connection.
    pub(super) fn send(&mut self, slot: Option<u32>, packet: Own<Packet>) {
        let known = slot.filter(|&slot| self.peer(slot).is_some());
        let Some(slot) = known else {
            self.strangers.push(packet);
            return;
        };
        self.queue(slot, packet);
        self.pump(slot);
        if self.need(slot) != Need::Nothing {
            self.call(slot);
        }
    }

    /// Has a message wait for its turn.
    fn queue(&mut self, slot: u32, mut packet: Own<Packet>) {
        packet.slot = slot;
        if let Some(peer) = self.peer(slot) {
            peer.load += 1;
            peer.waiting.push(packet);
        }
    }

    /// Sends what can be sent.
    fn pump(&mut self, slot: u32) {
        let Self { peers, flights, .. } = self;
        let Some(Some(peer)) = peers.get_mut(slot as usize) else {
            return;
        };
        let Peer { lane, waiting, .. } = &mut **peer;
        let Some(lane) = lane.as_mut().filter(|lane| !lane.is_broken) else {
            return;
        };
        let Some(to) = lane.to else {
            return;
        };
        lane.say(flights);
        while !waiting.is_empty() && lane.credits.take() {
            let Some(mut packet) = waiting.pop() else {
                break;
            };
            packet.address(to);
            if let Err(refused) = Packet::send(packet, flights, &lane.lower) {
                lane.credits.give_back();
                lane.is_broken |= refused.errno != Errno::EAGAIN;
                waiting.push_first(refused.own);
                break;
            }
        }
        if lane.is_broken {
            self.call(slot);
        }
    }

    /// Takes a receive to post, if there is one.
    pub(super) fn receive(&mut self) -> Option<Own<Receive>> {
        self.receives.pop()
    }

    /// Posts it.
    pub(super) fn post(&mut self, outlets: &Outlets, receive: Own<Receive>) {
        if let Some((receive, packet)) = self.desk.post(receive) {
            self.deliver(outlets, receive, packet);
        }
    }

    /// Takes a receive back; -FI_ENOENT if it is not there.
    pub(super) fn cancel(&mut self, outlets: &Outlets, context: Context) -> Result {
        let mut find = |is_tagged| {
            let is = |receive: &Receive| receive.context == context;
            self.desk.cancel(is_tagged, is)
        };
        let receive = find(true).or_else(|| find(false)).ok_or(Errno::ENOENT)?;
        outlets.given_up(&receive, Errno::ECANCELED);
        self.put_back(receive);
        Ok(())
    }

    fn put_back(&mut self, mut receive: Own<Receive>) {
        *receive = Receive::IDLE;
        self.receives.push(receive);
    }

    /// A message has found its receive.
    fn deliver(&mut self, outlets: &Outlets, receive: Own<Receive>, packet: Own<Packet>) {
        if let Use::Arrived(title, message) = packet.usage {
            let len = packet.copy_to(&message, &receive.into);
            outlets.received(&receive, &title, &message, len);
        }
        self.put_back(receive);
        let slot = packet.slot;
        if self.repost(packet).is_err() {
            self.call(slot);
        }
    }

    /// Has a packet receive again, if its connection is there.
    fn repost(&mut self, packet: Own<Packet>) -> Result {
        let Self {
            peers,
            flights,
            spare,
            ..
        } = self;
        let peer = peers.get_mut(packet.slot as usize).and_then(Option::as_mut);
        let lane = peer.and_then(|peer| peer.lane.as_mut());
        let Some(lane) = lane.filter(|lane| lane.attempt == packet.attempt && !lane.is_broken)
        else {
            spare.push(packet);
            return Ok(());
        };
        match Packet::receive(packet, flights, &lane.lower) {
            Ok(()) => {
                lane.credits.posted(1);
                lane.say(flights);
                Ok(())
            }
            Err(refused) => {
                lane.is_broken = true;
                spare.push(refused.own);
                Err(refused.errno)
            }
        }
    }

    /// What has come of something that a lower endpoint had in hand: how many bytes, of a receive.
    pub(super) fn land(&mut self, outlets: &Outlets, context: Context, result: Result<usize>) {
        let Some(packet) = self.flights.land(context) else {
            return;
        };
        match packet.usage {
            Use::Posted => self.arrive(outlets, packet, result),
            Use::Word(count) => self.said(packet, count, result),
            _ => self.retire(outlets, packet, result.map(drop)),
        }
    }

    /// A word is over.
    fn said(&mut self, packet: Own<Packet>, count: u64, result: Result<usize>) {
        let (slot, attempt) = (packet.slot, packet.attempt);
        let lane = self.peer(slot).and_then(|peer| peer.lane.as_mut());
        match lane.filter(|lane| lane.attempt == attempt) {
            None => self.spare.push(packet),
            Some(lane) => {
                lane.word = Some(packet);
                if result.is_err() {
                    lane.credits.unsaid(count);
                } else {
                    self.pump(slot);
                }
            }
        }
    }

    /// A message has been sent, or has not.
    fn retire(&mut self, outlets: &Outlets, mut packet: Own<Packet>, result: Result) {
        if let Use::Sent { report, .. } = packet.usage {
            outlets.sent(&report, result);
        }
        packet.usage = Use::Idle;
        let slot = packet.slot;
        self.idle.push(packet);
        if let Some(peer) = self.peer(slot) {
            peer.load -= 1;
        }
        if result.is_ok() {
            self.pump(slot);
        }
    }

    /// Something has come from a peer.
    fn arrive(&mut self, outlets: &Outlets, packet: Own<Packet>, result: Result<usize>) {
        let slot = packet.slot;
        let Ok(len) = result else {
            self.spare.push(packet);
            return;
        };
        let parsed = Parsed::parse(packet.arrived(len)).map(|parsed| parsed.head);
        let taken = match parsed {
            Ok(Head::Eager(message)) => self.message(outlets, packet, message),
            Ok(Head::Credit(count)) => {
                let lane = self.peer(slot).and_then(|peer| peer.lane.as_mut());
                let told = lane.map_or(Ok(()), |lane| lane.credits.told(count));
                let _ = self.repost(packet);
                self.pump(slot);
                told.map_err(|_| Malformed("credits that nobody has"))
            }
            Ok(_) => {
                self.spare.push(packet);
                Err(Malformed("a packet of a kind that was not offered"))
            }
            Err(malformed) => {
                self.spare.push(packet);
                Err(malformed)
            }
        };
        if let Err(Malformed(why)) = taken {
            let peer = self.peer(slot);
            if let Some(lane) = peer.and_then(|peer| peer.lane.as_mut()) {
                lane.is_broken = true;
            }
            complain(&c"verbs;ofi_rxm", fmt!("a connection is closed: {}", why));
            self.call(slot);
        }
    }

    /// A message in one packet has come.
    fn message(
        &mut self,
        outlets: &Outlets,
        mut packet: Own<Packet>,
        message: Message,
    ) -> core::result::Result<(), Malformed> {
        let Some(from) = self.peer(packet.slot).map(|peer| peer.addr) else {
            self.spare.push(packet);
            return Ok(());
        };
        let title = Title {
            tag: message.tag,
            from,
        };
        packet.usage = Use::Arrived(title, message);
        match self.desk.arrive(&title) {
            Some(receive) => self.deliver(outlets, receive, packet),
            // It keeps its packet: whoever sends more than its connection has receives for is slowed.
            None => self.desk.wait(packet),
        }
        Ok(())
    }

    /// Takes what a lower endpoint had in hand that is closed with its consumer's: the context of a send.
    pub(super) fn abandon(&mut self, outlets: &Outlets, context: Context) -> Option<Context> {
        let packet = self.flights.land(context)?;
        let usage = packet.usage;
        self.spare.push(packet);
        match usage {
            Use::Sent { report, .. } => {
                outlets.transmit.release();
                Some(report.context)
            }
            _ => None,
        }
    }

    /// Ends everything, once there are no connections: the contexts of what has no outcome are given to
    /// `reclaim`. The packets are to be dropped where one may sleep.
    pub(super) fn end(
        &mut self,
        outlets: &Outlets,
        reclaim: &mut dyn FnMut(Context),
    ) -> [Queue<Packet>; 4] {
        let Self {
            strangers,
            peers,
            spare,
            ..
        } = self;
        let mut give = |packets: &mut Queue<Packet>| {
            while let Some(packet) = packets.pop() {
                if let Use::Sent { report, .. } = packet.usage {
                    outlets.transmit.release();
                    reclaim(report.context);
                }
                spare.push(packet);
            }
        };
        give(strangers);
        for peer in peers.iter_mut().flatten() {
            give(&mut peer.waiting);
        }
        for mut receives in self.desk.take_receives() {
            while let Some(receive) = receives.pop() {
                outlets.receive.release();
                reclaim(receive.context);
            }
        }
        let [plain, tagged] = self.desk.forget(|_| true);
        let (idle, spare) = (mem::take(&mut self.idle), mem::take(&mut self.spare));
        [plain, tagged, idle, spare]
    }
}
