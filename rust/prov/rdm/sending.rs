// SPDX-License-Identifier: GPL-2.0

//! What goes to peers: each has a queue, and what cannot go now goes when something has come back.
//!
//! A message in one packet has been copied there. A longer one is copied into packets one after the
//! other, or it is offered: its memory is opened to the peer, which reads it and says so.

mod lower;

use super::{
    order::{
        Answer,
        Phase,
        Work, //
    },
    outlets::Outlets,
    peer::Peer,
    posting::{
        self,
        Packet,
        Use, //
    },
    refused::Poster,
    traffic::{
        Need,
        Traffic, //
    },
    wire::{
        Head,
        Malformed,
        Ranges, //
    },
};
use crate::{
    fi::{
        mr::MemoryRegion,
        prelude::*, //
    },
    util::owned_list::ListBox, //
};

impl Traffic {
    /// Takes a packet for an operation with a peer, if the peer may have one more. Otherwise `poster` is woken when
    /// one is put back.
    #[inline(always)]
    pub(super) fn packet(
        &mut self,
        to: &SocketAddr,
        slot: Option<u32>,
        poster: &Arc<Poster>,
    ) -> Option<ListBox<Packet>> {
        let load = match slot.and_then(|slot| self.peer(slot)) {
            Some(peer) => peer.load,
            None => {
                let orders = self.strangers.iter();
                orders.filter(|packet| packet.is_with(to)).count()
            }
        };
        match load < self.sends.share() {
            true => self.sends.get_or_await(poster),
            false => {
                self.sends.await_return(poster);
                None
            }
        }
    }

    /// Starts an operation, at once or when there is a connection.
    #[inline]
    pub(super) fn send(
        &mut self,
        outlets: &Outlets,
        to: &SocketAddr,
        slot: Option<u32>,
        mut packet: ListBox<Packet>,
    ) {
        let Self {
            peers,
            flights,
            sends,
            ..
        } = self;
        let known = slot.and_then(|slot| Some((slot, peers.get_mut(slot as usize)?.as_mut()?)));
        let Some((slot, peer)) = known else {
            packet.to = *to;
            self.strangers.push(packet);
            return;
        };
        packet.slot = slot;
        peer.load += 1;
        match peer.post(packet, flights, sends) {
            Ok(()) => {}
            Err((packet, None)) => {
                peer.waiting.push(packet);
                self.pump(outlets, slot);
            }
            Err((packet, Some(errno))) => self.finish(outlets, packet, Err(errno)),
        }
    }

    /// Has an operation wait for its turn.
    pub(super) fn queue(&mut self, slot: u32, mut packet: ListBox<Packet>) {
        packet.slot = slot;
        if let Some(peer) = self.peer(slot) {
            peer.load += 1;
            peer.waiting.push(packet);
        }
    }

    /// Does what can be done for a peer, and calls for somebody to look after it if there is more.
    #[inline(always)]
    pub(super) fn pump(&mut self, outlets: &Outlets, slot: u32) {
        self.clock += 1;
        let (clock, are_parting) = (self.clock, self.are_parting);
        let Some(peer) = self.peer(slot) else {
            return;
        };
        if let Some(lane) = &mut peer.lane {
            lane.used = clock;
        }
        if are_parting || peer.has_business() {
            self.do_business(outlets, slot);
        }
    }

    #[inline(never)]
    fn do_business(&mut self, outlets: &Outlets, slot: u32) {
        loop {
            self.read_on(outlets, slot);
            while let Some((packet, errno)) = self.post_waiting(slot) {
                // It concerns this operation alone; finding that out goes on with the others.
                self.finish(outlets, packet, Err(errno));
            }
            let lane = self.lane(slot);
            let has_turn = lane.is_some_and(|lane| lane.turns.pass());
            let goes_on = self.are_parting && self.part(slot);
            if !has_turn && !goes_on {
                break;
            }
        }
        if self.need(slot) != Need::Nothing {
            self.call(slot);
        }
    }

    /// Posts what waits for a peer, as far as there is room; comes back with the first that cannot be
    /// posted at all, and why.
    fn post_waiting(&mut self, slot: u32) -> Option<(ListBox<Packet>, Errno)> {
        let lane = self.peer(slot)?.lane.as_ref()?;
        if lane.is_narrow() {
            self.widen(slot);
        }
        let Self {
            peers,
            flights,
            sends,
            ..
        } = self;
        let peer = peers.get_mut(slot as usize)?.as_mut()?;
        let lane = peer.lane.as_mut()?;
        lane.say_credits(flights);
        lane.send_answers(flights);
        loop {
            let packet = peer.waiting.pop()?;
            match peer.post_next(packet, flights, sends) {
                Ok(()) => {}
                Err((packet, None)) => {
                    peer.waiting.push_front(packet);
                    return None;
                }
                Err((packet, Some(errno))) => return Some((packet, errno)),
            }
        }
    }

    /// Reads on what is being fetched from a peer, and tells it what has been.
    fn read_on(&mut self, outlets: &Outlets, slot: u32) {
        loop {
            let Self {
                peers,
                flights,
                fetches,
                offices,
                ..
            } = self;
            let Some(Some(peer)) = peers.get_mut(slot as usize) else {
                return;
            };
            let Peer { lane, fetching, .. } = &mut **peer;
            let Some(lane) = lane.as_mut().filter(|lane| lane.is_open()) else {
                return;
            };
            let Some(mut receive) = fetching.pop() else {
                return;
            };
            let next = receive.next().map(|next| next.is_some());
            let Some(fetch) = &mut receive.fetch else {
                return;
            };
            match next {
                Err(errno) => {
                    // The memory has gone, and the peer is not to wait for it.
                    fetch.done = usize::MAX;
                    outlets.given_up(offices, &mut receive, errno);
                    fetching.push_front(receive);
                }
                Ok(true) => {
                    if lane.fetches == 0 || !lane.turns.may_read() {
                        fetching.push_front(receive);
                        return;
                    }
                    match posting::fetch(receive, fetches, &lane.lower) {
                        Ok(()) => {
                            lane.fetches -= 1;
                            lane.turns.begun();
                        }
                        Err(refused) => {
                            lane.refused(refused.errno);
                            fetching.push_front(refused.own);
                            return;
                        }
                    }
                }
                Ok(false) => {
                    let (id, len) = (fetch.id, fetch.done);
                    let (title, message) = (fetch.title, fetch.message);
                    outlets.received(offices, &mut receive, &title, &message, len);
                    if !lane.say(flights, &Head::Taken { id }) {
                        fetching.push_front(receive);
                        return;
                    }
                    self.put_back(receive);
                }
            }
        }
    }

    /// The next operation with a peer, whose memory is to be opened: [`Self::open_up`] has it come back.
    pub(super) fn take_closed(&mut self, slot: u32) -> Option<ListBox<Packet>> {
        let peer = self.peer(slot)?;
        if !peer.is_closed() {
            return None;
        }
        peer.is_opening = true;
        peer.waiting.pop()
    }

    /// What opens a message to a peer that has not been offered yet.
    pub(super) fn take_region(&mut self, slot: u32) -> Option<Arc<MemoryRegion>> {
        let waiting = &mut self.peer(slot)?.waiting;
        let mut taken = None;
        waiting.for_each_mut(|packet| {
            if taken.is_none() && !packet.is_begun() {
                taken = packet.offer().and_then(|offer| offer.region.take());
            }
        });
        taken
    }

    /// It is open, or cannot be: then the message goes in segments.
    pub(super) fn open_up(
        &mut self,
        outlets: &Outlets,
        mut packet: ListBox<Packet>,
        region: Result<Arc<MemoryRegion>>,
    ) {
        if let Some(work) = packet.work() {
            work.open_up(region);
        }
        let slot = packet.slot;
        if let Some(peer) = self.peer(slot) {
            peer.is_opening = false;
            peer.waiting.push_front(packet);
        }
        self.pump(outlets, slot);
    }

    /// A peer has taken a message.
    pub(super) fn taken(
        &mut self,
        outlets: &Outlets,
        slot: u32,
        id: u64,
    ) -> core::result::Result<(), Malformed> {
        if let Some(packet) = self.answered(slot, id, Answer::Taken)? {
            self.finish(outlets, packet, Ok(()));
        }
        Ok(())
    }

    /// A peer wants a message written to its memory.
    pub(super) fn make_way(
        &mut self,
        outlets: &Outlets,
        slot: u32,
        id: u64,
        ranges: Ranges,
    ) -> core::result::Result<(), Malformed> {
        if ranges.total().is_none() {
            return Err(Malformed("ranges that cannot be"));
        }
        if let Some(packet) = self.answered(slot, id, Answer::Room(ranges))? {
            self.write_to(outlets, packet, ranges);
        }
        Ok(())
    }

    /// What a peer has said to an offer: its packet, unless that is not known to have gone.
    fn answered(
        &mut self,
        slot: u32,
        id: u64,
        answer: Answer,
    ) -> core::result::Result<Option<ListBox<Packet>>, Malformed> {
        let is_meant = |packet: &Packet| packet.is_called(slot, id) && packet.is_offer();
        let on_its_way = self.flights.get(Packet::number_of(id));
        if let Some(packet) = on_its_way.filter(|packet| is_meant(packet)) {
            if let Some(Phase::Offered(said)) = packet.offer().map(|offer| &mut offer.phase) {
                if said.is_none() {
                    *said = Some(answer);
                    return Ok(None);
                }
            }
        }
        let peer = self.peer(slot);
        let offered = peer.and_then(|peer| peer.unanswered.remove_first_where(is_meant));
        let offered = offered.ok_or(Malformed("an answer to what was not offered"))?;
        Ok(Some(offered))
    }

    /// Writes a message to where its receiver wants it.
    fn write_to(&mut self, outlets: &Outlets, mut packet: ListBox<Packet>, ranges: Ranges) {
        if let Some(offer) = packet.offer() {
            offer.phase = Phase::Writing(ranges, 0, 0);
            if !offer.is_to_be_written() {
                offer.phase = Phase::Written;
            }
        }
        self.again(outlets, packet);
    }

    /// An operation goes on, before all others.
    fn again(&mut self, outlets: &Outlets, packet: ListBox<Packet>) {
        let slot = packet.slot;
        if let Some(peer) = self.peer(slot) {
            peer.waiting.push_front(packet);
        }
        self.pump(outlets, slot);
    }

    /// What a packet was sent for, or has done, is over.
    #[inline]
    pub(super) fn sent(&mut self, outlets: &Outlets, mut packet: ListBox<Packet>, result: Result) {
        let (slot, attempt) = (packet.slot, packet.attempt);
        let Some(work) = packet.work() else {
            self.helped(packet);
            match result {
                Ok(()) => self.pump(outlets, slot),
                // A failed credit packet, segment or response ends the connection like a failed message.
                Err(_) => self.break_off(slot, attempt),
            }
            return;
        };
        if work.is_read() {
            let peer = self.peer(slot);
            let lane = peer.and_then(|peer| peer.lane.as_mut());
            if let Some(lane) = lane.filter(|lane| lane.attempt == attempt) {
                lane.turns.over();
            }
        }
        if result.is_err() {
            // It may have been answered all the same.
            let answer = packet.asked().and_then(|asked| asked.answer);
            self.finish(outlets, packet, answer.unwrap_or(result));
            // Nothing more can be done by that connection.
            self.break_off(slot, attempt);
            return;
        }
        match work {
            Work::Eager | Work::Access(_) => self.finish(outlets, packet, result),
            Work::Atomic(asked) => match asked.answer {
                Some(answer) => {
                    self.finish(outlets, packet, answer);
                    self.pump(outlets, slot);
                }
                None => self.await_answer(outlets, packet),
            },
            Work::Segments(long) => match u64::from(long.next) >= long.message.segments() {
                true => self.finish(outlets, packet, result),
                false => {
                    let peer = self.peer(slot);
                    if let Some(lane) = peer.and_then(|peer| peer.lane.as_mut()) {
                        lane.is_carrying = false;
                    }
                    self.again(outlets, packet);
                }
            },
            Work::Offer(offer) => match &mut offer.phase {
                Phase::Offered(None) => self.await_answer(outlets, packet),
                Phase::Offered(Some(Answer::Taken)) | Phase::Written | Phase::Over(_) => {
                    self.finish(outlets, packet, result);
                }
                Phase::Offered(Some(Answer::Room(ranges))) => {
                    let ranges = *ranges;
                    self.write_to(outlets, packet, ranges);
                }
                Phase::Writing(_, done, coming) => {
                    *done += mem::take(coming);
                    if !offer.is_to_be_written() {
                        offer.phase = Phase::Written;
                    }
                    self.again(outlets, packet);
                }
            },
        }
    }

    /// The peer knows of an operation.
    fn await_answer(&mut self, outlets: &Outlets, packet: ListBox<Packet>) {
        let slot = packet.slot;
        if let Some(peer) = self.peer(slot) {
            peer.unanswered.push(packet);
        }
        self.pump(outlets, slot);
    }

    /// A packet is not needed any more that was sent for no operation of its own.
    fn helped(&mut self, packet: ListBox<Packet>) {
        let (slot, attempt) = (packet.slot, packet.attempt);
        let is_segment = matches!(packet.usage, Use::Segment);
        if matches!(packet.usage, Use::Answer) {
            self.answer_sent(packet);
            return;
        }
        let lane = self.lane(slot);
        let lane = lane.filter(|lane| lane.attempt == attempt);
        match (is_segment, lane) {
            (true, lane) => {
                if let Some(lane) = lane {
                    lane.segments += 1;
                }
                self.sends.put(packet);
            }
            (false, Some(lane)) => lane.words.push(packet),
            (false, None) => self.keep(packet),
        }
    }

    /// An operation is over: if its memory is open to the peer, as soon as it is not.
    #[inline]
    pub(super) fn finish(
        &mut self,
        outlets: &Outlets,
        mut packet: ListBox<Packet>,
        result: Result,
    ) {
        if let Some(offer) = packet.offer().filter(|offer| offer.region.is_some()) {
            offer.phase = Phase::Over(result);
            self.endings.push(packet);
            return;
        }
        let slot = packet.slot;
        if let Some(report) = packet.report() {
            outlets.sent(report, result);
        }
        self.sends.put(packet);
        if let Some(peer) = self.peer(slot) {
            peer.load -= 1;
        }
        if result.is_ok() {
            self.pump(outlets, slot);
        }
    }

    /// Takes an operation that is over, but for its memory, which is to be closed.
    pub(super) fn ending(&mut self) -> Option<ListBox<Packet>> {
        self.endings.pop()
    }

    /// It has been.
    pub(super) fn ended(&mut self, outlets: &Outlets, mut packet: ListBox<Packet>) {
        let phase = packet.offer().map(|offer| offer.phase);
        let result = match phase {
            Some(Phase::Over(result)) => result,
            _ => Ok(()),
        };
        self.finish(outlets, packet, result);
    }

    /// Has what waits for a peer fail.
    pub(super) fn fail(&mut self, outlets: &Outlets, slot: u32, errno: Errno) {
        let Some(peer) = self.peer(slot) else {
            return;
        };
        let mut waiting = mem::take(&mut peer.waiting);
        while let Some(packet) = waiting.pop() {
            self.finish(outlets, packet, Err(errno));
        }
    }

    /// The same with what waits for somebody who has no number.
    pub(super) fn fail_stranger(&mut self, outlets: &Outlets, errno: Errno) {
        if let Some(packet) = self.strangers.pop() {
            if let Some(report) = packet.report() {
                outlets.sent(report, Err(errno));
            }
            self.sends.put(packet);
        }
    }

    /// Ends what was begun by a connection that is no more.
    pub(super) fn fail_begun(&mut self, outlets: &Outlets, slot: u32, errno: Errno) {
        let Some(peer) = self.peer(slot) else {
            return;
        };
        let mut begun = mem::take(&mut peer.unanswered);
        let mut others = peer.waiting.drain_where(Packet::is_begun);
        let mut fetching = mem::take(&mut peer.fetching);
        begun.append(&mut others);
        while let Some(packet) = begun.pop() {
            self.finish(outlets, packet, Err(errno));
        }
        while let Some(receive) = fetching.pop() {
            self.give_up_receive(outlets, receive, errno);
        }
    }
}
