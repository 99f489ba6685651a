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
    below::Route,
    flights::Flights,
    office::{
        Office,
        Size, //
    },
    outlets::Outlets,
    peer::{
        is_mirror,
        slot_of,
        Lane,
        Peer,
        FETCHES,
        RECEIVES,
        WORDS, //
    },
    posting::{
        Arrival,
        Packet,
        Use, //
    },
    receive::{
        Letter,
        Receive, //
    },
    row::Row,
    sends::Sends,
    supply::{
        Supply,
        DEPTH, //
    },
    wire::{
        Extensions,
        Flow,
        Head, //
    },
};
use crate::{
    abi::{
        flags::FI_REMOTE_WRITE,
        FI_ADDR_NOTAVAIL, //
    },
    fi::{
        av::AddressVector,
        cq::{
            CompletionQueue,
            FormatEntry,
            SourcedEntry, //
        },
        eq::Source,
        memory::EntrySlots,
        prelude::*,
        provider, //
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
const RECENT: usize = 64;

/// Packets to send that an endpoint has.
pub(super) const SENDS: usize = 128;

/// How many of them one peer may have, so that there are some for the others.
pub(super) const SHARE: usize = SENDS / 2;

/// Connections that an endpoint has at once, at most.
pub(super) const MOST_LANES: usize = 128;

/// The same with the second end of one with itself.
pub(super) const LANES: usize = MOST_LANES + 1;

/// Packets that an endpoint has at once: those that are posted where connections share are there still when none
/// does any more.
const PACKETS: usize = SENDS + DEPTH + LANES * (RECEIVES + WORDS);

/// What lower endpoints have in hand at once.
pub(super) const FLIGHTS: usize = PACKETS + LANES * FETCHES;

/// Completions that are taken from the lower queue at once.
pub(super) const BATCH: usize = 16;

/// What is to be done for a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Need {
    /// Nothing.
    Nothing,
    /// A connection: something waits for it.
    Lane,
    /// The memory of a message is to be opened to it.
    Region,
    /// So many packets are to be made, to receive with.
    Packets(usize),
    /// Its connection is to be closed.
    Close,
}

/// All peers, by their numbers.
pub(super) type Peers = KVVec<Option<KBox<Peer>>>;

/// See the module.
pub(super) struct Traffic {
    /// The provider's, for the log.
    pub(super) name: &'static CStr,
    /// Who receives.
    pub(super) offices: Row<Office>,
    pub(super) peers: Peers,
    /// Whom something was last sent to.
    recent: [u32; RECENT],
    /// Operations with those who have no number yet.
    pub(super) strangers: BoxList<Packet>,
    /// Whom somebody is to look after.
    pub(super) calls: BoxList<u32>,
    /// Packets for operations.
    pub(super) sends: Sends,
    /// What connections receive with.
    pub(super) supply: Supply,
    /// Packets for words that no connection has.
    words: BoxList<Packet>,
    /// Packets that have come and are to be looked at again, in order.
    pub(super) held: BoxList<Packet>,
    /// Operations that are over when their memory is closed.
    pub(super) endings: BoxList<Packet>,
    pub(super) flights: Flights<Packet>,
    pub(super) fetches: Flights<Receive>,
    /// Regions that peers' atomic operations can modify, and the rights of these peers.
    pub(super) regions: (Arc<MrTable>, EpRights),
    /// Number of connections closed because of a violation by the peer.
    pub(super) violations: StatCounter,
    /// How much memory all messages have that wait for receives, in bytes.
    pub(super) parked: usize,
    /// How many messages have come in segments.
    pub(super) collected: u64,
    /// How often something has been done by any connection.
    pub(super) clock: u64,
    /// Some connection may be about to end.
    pub(super) are_parting: bool,
    /// Something is to be tried again in a while with another module's provider.
    pub(super) is_starving: bool,
    /// Completions of the lower endpoints, on their way.
    pub(super) found: KBox<EntrySlots<SourcedEntry, BATCH>>,
}

/// What is left of an endpoint, to be dropped where one may sleep.
pub(super) struct Remains {
    /// Its packets, and the operations that have no outcome.
    pub(super) packets: BoxList<Packet>,
    /// Where those belong that are for operations.
    pub(super) sends: Sends,
    /// The receives that have none.
    pub(super) receives: BoxList<Receive>,
    _letters: BoxList<Letter>,
}

/// The connection of that attempt is to be closed.
pub(super) fn break_off(peers: &mut Peers, calls: &mut BoxList<u32>, slot: u32, attempt: usize) {
    let peer = peers.get_mut(slot as usize).and_then(Option::as_mut);
    if let Some(peer) = peer.filter(|peer| peer.has(attempt)) {
        peer.break_off(calls);
    }
}

/// What there was to be handled of what has come.
pub(super) struct Batch {
    /// Nothing is left.
    pub(super) is_all: bool,
    /// Something has come of it.
    pub(super) has_come: bool,
}

/// Reads a batch of completions of the lower provider. Returns the number of entries, and whether the queue is
/// empty.
///
/// A read stops before a failure: a short batch does not mean that the queue is empty.
fn read_batch(
    queue: &dyn provider::CompletionQueue,
    room: &mut [MaybeUninit<SourcedEntry>],
) -> Result<(usize, bool)> {
    let count = queue.read(FormatEntry::entries(room))?;
    Ok((count, count < BATCH && !queue.has_backlog()))
}

/// Whose completion it is that a lower queue tells of, where it says so.
fn source_of(source: fi_addr_t) -> Option<Source> {
    (source != FI_ADDR_NOTAVAIL).then_some(Source(source as usize))
}

/// Where an address has its place among those to which something was last sent.
fn place_of(addr: &SocketAddr) -> usize {
    let host = match addr {
        SocketAddr::V4(addr) => u32::from(*addr.ip()),
        SocketAddr::V6(addr) => addr.ip().to_bits() as u32,
    };
    (host ^ u32::from(addr.port())) as usize % RECENT
}

impl Traffic {
    /// Of so many receive contexts of that size each, which have nothing to receive with yet, and for
    /// operations on `regions`, with nothing to send with. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    #[inline(never)]
    pub(super) fn new(
        contexts: usize,
        size: Size,
        regions: (Arc<MrTable>, EpRights),
        name: &'static CStr,
    ) -> Result<KBox<Self>> {
        // Initialised in place: it is too large for the stack.
        let new = try_init!(Self {
            name,
            offices: Row::new(contexts, |_| Office::new())?,
            peers: KVVec::new(),
            recent: [0; RECENT],
            strangers: BoxList::new(),
            calls: BoxList::new(),
            sends: Sends::NONE,
            supply: Supply::new(),
            words: BoxList::new(),
            held: BoxList::new(),
            endings: BoxList::new(),
            flights: Flights::new(0, PACKETS)?,
            fetches: Flights::new(PACKETS, contexts * size.most())?,
            regions,
            violations: StatCounter::new(),
            parked: 0,
            collected: 0,
            clock: 0,
            are_parting: false,
            is_starving: false,
            found: EntrySlots::boxed()?,
        }? Error);
        Ok(KBox::init(new, GFP_KERNEL)?)
    }

    /// A packet to receive with that no connection has, or one for words.
    pub(super) fn take_spare(&mut self, is_short: bool) -> Option<ListBox<Packet>> {
        match is_short {
            true => self.words.pop(),
            false => self.supply.spare().pop(),
        }
    }

    /// The same, which is not needed any more.
    pub(super) fn keep(&mut self, packet: ListBox<Packet>) {
        match packet.is_short() {
            true => self.words.push(packet),
            false => self.keep_receive(packet),
        }
    }

    /// How many operations can be started.
    pub(super) fn sends_left(&self) -> usize {
        self.sends.left()
    }

    #[inline(always)]
    pub(super) fn peer(&mut self, slot: u32) -> Option<&mut Peer> {
        self.peers.get_mut(slot as usize)?.as_deref_mut()
    }

    /// The connection with a peer.
    #[inline(always)]
    pub(super) fn lane(&mut self, slot: u32) -> Option<&mut Lane> {
        self.peer(slot)?.lane.as_mut()
    }

    /// The number of the peer at an address, if it has one; `ways` has all numbers.
    #[inline]
    pub(super) fn number_of(&mut self, addr: &SocketAddr, ways: &AddressVector) -> Option<u32> {
        let place = place_of(addr);
        let recent = self.recent.get(place).copied()?;
        if self.peer(recent).is_some_and(|peer| peer.addr == *addr) {
            return Some(recent);
        }
        let slot = ways.find(addr).and_then(slot_of)?;
        self.recent[place] = slot;
        Some(slot)
    }

    /// Calls for somebody to look after a peer.
    pub(super) fn call(&mut self, slot: u32) {
        let call = self.peer(slot).and_then(|peer| peer.call.take());
        if let Some(call) = call {
            self.calls.push(call);
        }
    }

    /// Whether somebody is to look after peers, or operations.
    pub(super) fn is_calling(&self) -> bool {
        !self.calls.is_empty()
            || !self.strangers.is_empty()
            || !self.endings.is_empty()
            || self.is_starving
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

    /// Whether packets are to be looked at again.
    pub(super) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether something may be waiting for a reader to make room.
    pub(super) fn awaits_reader(&self) -> bool {
        self.is_holding() || self.offices.iter().any(|office| !office.placed.is_empty())
    }

    /// What is to be done for a peer.
    pub(super) fn need(&mut self, slot: u32) -> Need {
        match self.peer(slot) {
            Some(peer) if peer.lane.as_ref().is_some_and(|lane| lane.is_broken) => Need::Close,
            Some(peer) if peer.lacks() > 0 => Need::Packets(peer.lacks()),
            Some(peer) if peer.waiting.is_empty() => Need::Nothing,
            Some(peer) if peer.lane.is_none() => Need::Lane,
            Some(peer) if peer.is_closed() => Need::Region,
            _ => Need::Nothing,
        }
    }

    /// The connection of that attempt is to be closed.
    pub(super) fn break_off(&mut self, slot: u32, attempt: usize) {
        break_off(&mut self.peers, &mut self.calls, slot, attempt);
    }

    /// The same of all on the same host.
    pub(super) fn break_off_local(&mut self) {
        let Self { peers, calls, .. } = self;
        for peer in peers.iter_mut().flatten() {
            let lane = peer.lane.as_ref();
            if lane.is_some_and(|lane| lane.lower.route == Route::Host) {
                peer.break_off(calls);
            }
        }
    }

    /// Whom an operation is with that has no number yet.
    pub(super) fn stranger(&self) -> Option<SocketAddr> {
        Some(self.strangers.front()?.to)
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
            let mut theirs = self.strangers.drain_where(|packet| packet.is_with(&addr));
            while let Some(packet) = theirs.pop() {
                self.queue(slot, packet);
            }
            self.call(slot);
        }
        left
    }

    /// Gives a peer its connection, its packets for words, and its first packets to receive with.
    ///
    /// # Errors
    ///
    /// Why the packets cannot be posted: then it has none.
    pub(super) fn open(
        &mut self,
        slot: u32,
        mut lane: Lane,
        mut receives: BoxList<Packet>,
        mut words: BoxList<Packet>,
    ) -> Result {
        let count = receives.len();
        let attempt = lane.attempt;
        while let Some(mut word) = words.pop() {
            word.slot = slot;
            word.attempt = attempt;
            lane.words.push(word);
        }
        let peer = self.peer(slot).ok_or(Errno::EINVAL)?;
        peer.lane = Some(lane);
        while let Some(packet) = receives.pop() {
            self.keep_receive(packet);
        }
        match self.furnish(slot, count)? {
            0 => Ok(()),
            _ => Err(Errno::ENOMEM),
        }
    }

    /// The connection is there, and the peer calls it `to`; `said` is what the peer has said of itself, and
    /// both have agreed upon, where that was not known before.
    pub(super) fn establish(
        &mut self,
        outlets: &Outlets,
        slot: u32,
        attempt: usize,
        to: u64,
        said: Option<(Flow, Extensions)>,
    ) {
        let lane = self.lane(slot);
        if let Some(lane) = lane.filter(|lane| lane.attempt == attempt) {
            lane.to = Some(to);
            if let Some((flow, extensions)) = said {
                lane.credits.agree(flow);
                lane.extensions = extensions;
            }
            // What could not be understood before that can be now.
            self.go_on(outlets);
            self.pump(outlets, slot);
        }
    }

    /// Takes a peer's connection: what has come by it is there, as far as it is whole.
    pub(super) fn close(&mut self, outlets: &Outlets, slot: u32) -> Option<Lane> {
        if self.peer(slot)?.held > 0 {
            self.resume(outlets, Some(slot));
        }
        let mut lane = self.peer(slot)?.lane.take()?;
        self.leave(&lane);
        lane.words.append(&mut lane.answers);
        while let Some(packet) = lane.words.pop() {
            self.keep(packet);
        }
        Some(lane)
    }

    /// Ends what was left by a connection that is closed.
    pub(super) fn closed(&mut self, outlets: &Outlets, slot: u32, attempt: usize) {
        self.fail_begun(outlets, slot, Errno::ECONNABORTED);
        self.forget_arrivals(outlets, slot, attempt);
    }

    /// Sends the peer a credit packet that returns no credits, unless another packet is in flight, which serves
    /// as well: if the peer is gone, the device reports the failure and ends the connection.
    pub(super) fn probe(&mut self, slot: u32) {
        let Self { peers, flights, .. } = self;
        let peer = peers.get_mut(slot as usize).and_then(Option::as_mut);
        let lane = peer.and_then(|peer| peer.lane.as_mut());
        if let Some(lane) = lane.filter(|lane| lane.is_open() && lane.words.len() == WORDS) {
            let _ = lane.say(flights, &Head::Credit(0));
        }
    }

    /// Whether something waits for a connection with that peer.
    pub(super) fn is_wanted(&mut self, slot: u32) -> bool {
        self.peer(slot).is_some_and(|peer| !peer.waiting.is_empty())
    }

    /// Has a packet receive again, if its connection is there.
    pub(super) fn repost(&mut self, packet: ListBox<Packet>) -> Result {
        let (slot, attempt) = (packet.slot, packet.attempt);
        let Self { peers, flights, .. } = self;
        let peer = peers.get_mut(slot as usize).and_then(Option::as_mut);
        let lane = peer.and_then(|peer| peer.lane.as_mut());
        let Some(lane) = lane.filter(|lane| lane.attempt == attempt && lane.is_heard()) else {
            self.keep(packet);
            return Ok(());
        };
        match lane.receive(flights, packet) {
            Ok(()) => {
                lane.credits.posted();
                Ok(())
            }
            Err(refused) => {
                self.keep(refused.own);
                self.break_off(slot, attempt);
                Err(refused.errno)
            }
        }
    }

    /// Handles a batch of what the lower `queue` tells of, and has its handler called for the next if there was
    /// nothing and it `arms`.
    #[inline]
    pub(super) fn take(&mut self, outlets: &Outlets, queue: &CompletionQueue, arms: bool) -> Batch {
        let room = self.found.as_mut_slots();
        let found = match arms {
            // The queue is armed only after a read that finds it empty.
            true => queue.read(room).map(|count| (count, false)),
            false => read_batch(queue.read_queue(), room),
        };
        let (has_come, is_all) = match found {
            Ok((count, is_all)) => {
                for at in 0..count {
                    self.land_found(outlets, at);
                }
                (true, is_all)
            }
            Err(Errno::EAVAIL) => {
                if let Ok(failure) = queue.read_queue().read_error() {
                    let (context, errno) = (failure.completion.context, failure.errno);
                    let source = source_of(failure.completion.source);
                    self.land(outlets, context, source, Err(errno));
                }
                (true, false)
            }
            Err(_) => (false, true),
        };
        Batch { is_all, has_come }
    }

    /// What has come of something that a lower endpoint had in hand; where connections share what they
    /// receive with, `source` is the one.
    #[inline]
    pub(super) fn land(
        &mut self,
        outlets: &Outlets,
        context: Context,
        source: Option<Source>,
        result: Result<Arrival>,
    ) {
        if let Some(packet) = self.flights.land(context) {
            match packet.usage {
                Use::Posted => self.arrive(outlets, packet, source, result),
                _ => self.sent(outlets, packet, result.map(drop)),
            }
        } else if let Some(receive) = self.fetches.land(context) {
            self.fetched(outlets, receive, result.map(drop));
        }
    }

    /// The same of a completion that has been [`found`](Self::found).
    #[inline(always)]
    fn land_found(&mut self, outlets: &Outlets, at: usize) {
        let Some(entry) = self.found.nth(at) else {
            return;
        };
        let (context, source) = (entry.context, source_of(entry.source));
        let arrival = match entry.flags & FI_REMOTE_WRITE {
            0 => Arrival::Bytes(entry.len),
            _ => Arrival::Written(entry.len, entry.data),
        };
        self.land(outlets, context, source, Ok(arrival));
    }

    /// The same of one that is closed with its consumer's: nobody is told, [`Self::end`] has it.
    pub(super) fn abandon(&mut self, context: Context) {
        if let Some(receive) = self.fetches.land(context) {
            self.wait_on(receive);
        } else if let Some(packet) = self.flights.land(context) {
            self.endings.push(packet);
        }
    }

    /// Ends everything, once there are no connections.
    pub(super) fn end(&mut self) -> Remains {
        let mut packets = mem::take(&mut self.strangers);
        let mut receives = BoxList::new();
        for peer in self.peers.iter_mut().flatten() {
            packets.append(&mut peer.waiting);
            packets.append(&mut peer.unanswered);
            receives.append(&mut peer.fetching);
            while let Some(mut parts) = peer.partials.find(|_| true) {
                if let Some(receive) = parts.what.receive.take() {
                    receives.push(receive);
                }
            }
        }
        for others in [
            &mut self.endings,
            &mut self.held,
            self.supply.spare(),
            &mut self.words,
        ] {
            packets.append(others);
        }
        let mut letters = BoxList::new();
        for office in self.offices.iter_mut() {
            for mut side in office.desk.take_receives() {
                receives.append(&mut side);
            }
            receives.append(&mut office.buffers.take_spent());
            for mut side in office.desk.forget(|_| true) {
                letters.append(&mut side);
            }
            letters.append(&mut office.claimed);
            letters.append(&mut office.placed);
        }
        Remains {
            packets,
            sends: mem::replace(&mut self.sends, Sends::NONE),
            receives,
            _letters: letters,
        }
    }

    /// Keeps a receive of which nothing comes, until everything ends.
    pub(super) fn wait_on(&mut self, receive: ListBox<Receive>) {
        self.offices.of_mut(receive.office).desk.wait_on(receive);
    }
}

/// Traffic, and where consumers are told of it: all of it is under one lock.
pub(super) struct Floor {
    traffic: KBox<Traffic>,
    pub(super) outlets: Outlets,
}

impl Floor {
    /// Initialises the object from its two parts.
    pub(super) fn new(traffic: KBox<Traffic>, outlets: Outlets) -> impl Init<Self> {
        init!(Self { traffic, outlets })
    }

    /// Both, as they need each other.
    #[inline]
    pub(super) fn parts(&mut self) -> (&mut Traffic, &Outlets) {
        (&mut self.traffic, &self.outlets)
    }
}

impl Deref for Floor {
    type Target = Traffic;

    #[inline]
    fn deref(&self) -> &Traffic {
        &self.traffic
    }
}

impl DerefMut for Floor {
    #[inline]
    fn deref_mut(&mut self) -> &mut Traffic {
        &mut self.traffic
    }
}

#[kunit_tests(kofi_rdm_traffic)]
mod tests {
    use super::{
        super::sw_cq::SwCq,
        *, //
    };
    use crate::fi::cq::{
        Attr,
        Completion,
        CqEntry,
        ErrData,
        Failure,
        Format, //
    };

    #[test]
    fn rdm_03_a_read_that_ends_at_a_failure_is_not_all() -> kernel::error::Result {
        let attr = Attr {
            size: 4,
            format: Format::Data,
            waitable: false,
            vector: 0,
        };
        let queue = SwCq::new_connected(&attr).map_err(|_| ENOMEM)?;
        let completion = Completion::new(Context::NULL, 0);
        let failure = Failure {
            completion,
            olen: 0,
            errno: Errno::ECANCELED,
            prov_errno: 0,
            err_data: ErrData::None,
        };
        for outcome in [
            CqEntry::Done(completion),
            CqEntry::Failed(failure),
            CqEntry::Done(completion),
        ] {
            assert!(queue.reserve());
            queue.push(outcome);
        }
        let mut slots = EntrySlots::<SourcedEntry, BATCH>::new();
        assert!(read_batch(&*queue, slots.as_mut_slots()) == Ok((1, false)));
        assert!(read_batch(&*queue, slots.as_mut_slots()) == Err(Errno::EAVAIL));
        assert!(provider::CompletionQueue::read_error(&*queue).is_ok());
        assert!(read_batch(&*queue, slots.as_mut_slots()) == Ok((1, true)));
        assert!(read_batch(&*queue, slots.as_mut_slots()) == Err(Errno::EAGAIN));
        Ok(())
    }
}
