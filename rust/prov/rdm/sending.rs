// SPDX-License-Identifier: GPL-2.0

//! What goes to peers: each has a queue, and what cannot go now goes when something has come back.
//!
//! A message in one packet has been copied there. A longer one is copied into packets one after the
//! other, or it is offered: its memory is opened to the peer, which reads it and says so.

use super::{
    bounce::Outgoing,
    flights::Flights,
    order::{
        Answer,
        Long,
        Offer,
        Order,
        Phase,
        Work, //
    },
    outlets::Outlets,
    peer::{
        Lane,
        Peer,
        SEGMENTS, //
    },
    posting::{
        self,
        Packet,
        Use, //
    },
    traffic::{
        Need,
        Traffic,
        SHARE, //
    },
    wire::{
        Head,
        Malformed,
        Place,
        Ranges, //
    },
};
use crate::{
    abi::{
        flags::FI_REMOTE_CQ_DATA,
        nodes::{
            Own,
            Queue, //
        },
        Errno,
        Result, //
    },
    fi::{
        mr::MemoryRegion,
        provider::Rma, //
    },
};
use core::{
    mem,
    net::SocketAddr, //
};
use kernel::sync::Arc;

impl Traffic {
    /// A packet for an operation with a peer, if it may have one more.
    pub(super) fn packet(&mut self, to: &SocketAddr, slot: Option<u32>) -> Option<Own<Packet>> {
        let load = match slot.and_then(|slot| self.peer(slot)) {
            Some(peer) => peer.load,
            None => {
                let orders = self.strangers.iter();
                orders.filter(|packet| packet.is_with(to)).count()
            }
        };
        match load < SHARE {
            true => self.idle.pop(),
            false => None,
        }
    }

    /// Starts an operation, at once or when there is a connection.
    pub(super) fn send(&mut self, outlets: &Outlets, slot: Option<u32>, packet: Own<Packet>) {
        let known = slot.filter(|&slot| self.peer(slot).is_some());
        let Some(slot) = known else {
            self.strangers.push(packet);
            return;
        };
        self.queue(slot, packet);
        self.pump(outlets, slot);
    }

    /// Has an operation wait for its turn.
    pub(super) fn queue(&mut self, slot: u32, mut packet: Own<Packet>) {
        packet.slot = slot;
        if let Some(peer) = self.peer(slot) {
            peer.load += 1;
            peer.waiting.push(packet);
        }
    }

    /// Does what can be done for a peer, and calls for somebody to look after it if there is more.
    pub(super) fn pump(&mut self, outlets: &Outlets, slot: u32) {
        self.use_lane(slot);
        loop {
            self.read_on(outlets, slot);
            while let Some((packet, errno)) = self.post_waiting(slot) {
                // It concerns this operation alone; finding that out goes on with the others.
                self.finish(outlets, packet, Err(errno));
            }
            let lane = self.peer(slot).and_then(|peer| peer.lane.as_mut());
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
    fn post_waiting(&mut self, slot: u32) -> Option<(Own<Packet>, Errno)> {
        let Self {
            peers,
            flights,
            idle,
            ..
        } = self;
        let peer = peers.get_mut(slot as usize)?.as_mut()?;
        let Peer {
            lane,
            waiting,
            is_opening,
            ..
        } = &mut **peer;
        let lane = lane.as_mut()?;
        let to = lane.to?;
        lane.say_credits(flights);
        lane.send_answers(flights);
        let may_begin = lane.parting.may_begin();
        while lane.is_open()
            && !lane.is_carrying
            && !*is_opening
            && waiting
                .first()
                .is_some_and(|next| !next.is_closed() && (may_begin || next.is_begun()))
        {
            let packet = waiting.pop()?;
            if let Err(errno) = lane.check_context(&packet) {
                return Some((packet, errno));
            }
            match go(lane, to, packet, flights, idle) {
                Ok(()) => {}
                Err((packet, None)) => {
                    waiting.push_first(packet);
                    break;
                }
                Err((packet, Some(errno))) => return Some((packet, errno)),
            }
        }
        None
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
                    fetching.push_first(receive);
                }
                Ok(true) => {
                    if lane.fetches == 0 || !lane.turns.may_read() {
                        fetching.push_first(receive);
                        return;
                    }
                    match posting::fetch(receive, fetches, &lane.lower) {
                        Ok(()) => {
                            lane.fetches -= 1;
                            lane.turns.begun();
                        }
                        Err(refused) => {
                            lane.refused(refused.errno);
                            fetching.push_first(refused.own);
                            return;
                        }
                    }
                }
                Ok(false) => {
                    let (id, len) = (fetch.id, fetch.done);
                    let (title, message) = (fetch.title, fetch.message);
                    outlets.received(offices, &mut receive, &title, &message, len);
                    if !lane.say(flights, &Head::Taken { id }) {
                        fetching.push_first(receive);
                        return;
                    }
                    self.put_back(receive);
                }
            }
        }
    }

    /// The next operation with a peer, whose memory is to be opened: [`Self::open_up`] has it come back.
    pub(super) fn take_closed(&mut self, slot: u32) -> Option<Own<Packet>> {
        let peer = self.peer(slot)?;
        if !peer.is_closed() {
            return None;
        }
        peer.is_opening = true;
        peer.waiting.pop()
    }

    /// It is open, or cannot be: then the message goes in segments.
    pub(super) fn open_up(
        &mut self,
        outlets: &Outlets,
        mut packet: Own<Packet>,
        region: Result<Arc<MemoryRegion>>,
    ) {
        if let Some(order) = packet.order() {
            order.open_up(region);
        }
        let slot = packet.slot;
        if let Some(peer) = self.peer(slot) {
            peer.is_opening = false;
            peer.waiting.push_first(packet);
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
    ) -> core::result::Result<Option<Own<Packet>>, Malformed> {
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
        let offered = peer.and_then(|peer| peer.unanswered.take(is_meant));
        let offered = offered.ok_or(Malformed("an answer to what was not offered"))?;
        Ok(Some(offered))
    }

    /// Writes a message to where its receiver wants it.
    fn write_to(&mut self, outlets: &Outlets, mut packet: Own<Packet>, ranges: Ranges) {
        if let Some(offer) = packet.offer() {
            offer.phase = Phase::Writing(ranges, 0, 0);
            if !offer.is_to_be_written() {
                offer.phase = Phase::Written;
            }
        }
        self.again(outlets, packet);
    }

    /// An operation goes on, before all others.
    fn again(&mut self, outlets: &Outlets, packet: Own<Packet>) {
        let slot = packet.slot;
        if let Some(peer) = self.peer(slot) {
            peer.waiting.push_first(packet);
        }
        self.pump(outlets, slot);
    }

    /// What a packet was sent for, or has done, is over.
    pub(super) fn sent(&mut self, outlets: &Outlets, mut packet: Own<Packet>, result: Result) {
        let (slot, attempt) = (packet.slot, packet.attempt);
        let Some(order) = packet.order() else {
            self.helped(packet);
            self.pump(outlets, slot);
            return;
        };
        if order.is_read() {
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
        match &mut order.work {
            Work::Eager(_) | Work::Access(_) => self.finish(outlets, packet, result),
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
    fn await_answer(&mut self, outlets: &Outlets, packet: Own<Packet>) {
        let slot = packet.slot;
        if let Some(peer) = self.peer(slot) {
            peer.unanswered.push(packet);
        }
        self.pump(outlets, slot);
    }

    /// A packet is not needed any more that was sent for no operation of its own.
    fn helped(&mut self, packet: Own<Packet>) {
        let (slot, attempt) = (packet.slot, packet.attempt);
        let is_segment = matches!(packet.usage, Use::Segment);
        if matches!(packet.usage, Use::Answer(..)) {
            // It receives again.
            let _ = self.repost(packet);
            return;
        }
        let lane = self.peer(slot).and_then(|peer| peer.lane.as_mut());
        let lane = lane.filter(|lane| lane.attempt == attempt);
        match (is_segment, lane) {
            (true, lane) => {
                if let Some(lane) = lane {
                    lane.segments += 1;
                }
                self.rest(packet);
            }
            (false, Some(lane)) => lane.words.push(packet),
            (false, None) => self.keep(packet),
        }
    }

    /// An operation is over: if its memory is open to the peer, as soon as it is not.
    pub(super) fn finish(&mut self, outlets: &Outlets, mut packet: Own<Packet>, result: Result) {
        if let Some(offer) = packet.offer().filter(|offer| offer.region.is_some()) {
            offer.phase = Phase::Over(result);
            self.endings.push(packet);
            return;
        }
        let slot = packet.slot;
        if let Some(order) = packet.as_order() {
            outlets.sent(&order.report, result);
        }
        self.rest(packet);
        if let Some(peer) = self.peer(slot) {
            peer.load -= 1;
        }
        if result.is_ok() {
            self.pump(outlets, slot);
        }
    }

    /// Takes an operation that is over, but for its memory, which is to be closed.
    pub(super) fn ending(&mut self) -> Option<Own<Packet>> {
        self.endings.pop()
    }

    /// It has been.
    pub(super) fn ended(&mut self, outlets: &Outlets, mut packet: Own<Packet>) {
        let phase = packet.offer().map(|offer| offer.phase);
        let result = match phase {
            Some(Phase::Over(result)) => result,
            _ => Ok(()),
        };
        self.finish(outlets, packet, result);
    }

    pub(super) fn rest(&mut self, mut packet: Own<Packet>) {
        packet.usage = Use::Idle;
        self.idle.push(packet);
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
            if let Some(order) = packet.as_order() {
                outlets.sent(&order.report, Err(errno));
            }
            self.rest(packet);
        }
    }

    /// Ends what was begun by a connection that is no more.
    pub(super) fn fail_begun(&mut self, outlets: &Outlets, slot: u32, errno: Errno) {
        let Some(peer) = self.peer(slot) else {
            return;
        };
        let mut begun = mem::take(&mut peer.unanswered);
        let mut others = peer.waiting.take_all(Packet::is_begun);
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

impl Order {
    /// Whether the peer knows of it.
    pub(super) fn is_begun(&self) -> bool {
        match &self.work {
            Work::Eager(_) | Work::Access(_) | Work::Atomic(_) => false,
            Work::Segments(long) => long.next > 0,
            Work::Offer(offer) => !matches!(offer.phase, Phase::Offered(_)),
        }
    }

    /// Whether it reads the peer's memory.
    fn is_read(&self) -> bool {
        matches!(&self.work, Work::Access(access) if access.way == Rma::Read)
    }

    /// Its memory is open, or cannot be.
    fn open_up(&mut self, region: Result<Arc<MemoryRegion>>) {
        let Work::Offer(offer) = &mut self.work else {
            return;
        };
        match region {
            Ok(region) => offer.region = Some(region),
            Err(_) => {
                let Offer { message, from, .. } = offer;
                let long = Long {
                    message: *message,
                    from: mem::replace(from, Outgoing::NOTHING),
                    next: 0,
                };
                self.work = Work::Segments(long);
            }
        }
    }
}

/// Posts what is next of an operation; what is left of it, if there is no room, or why it cannot be.
fn go(
    lane: &mut Lane,
    to: u64,
    mut packet: Own<Packet>,
    flights: &mut Flights<Packet>,
    idle: &mut Queue<Packet>,
) -> core::result::Result<(), (Own<Packet>, Option<Errno>)> {
    let accesses = match packet.order().map(|order| &order.work) {
        Some(Work::Offer(offer)) => offer.is_to_be_written(),
        Some(Work::Access(_)) => true,
        _ => false,
    };
    if accesses {
        return access(lane, packet, flights);
    }
    let asks = packet.asked().is_some();
    if asks && lane.atomics == 0 {
        return Err((packet, None));
    }
    loop {
        if !lane.credits.take() {
            return Err((packet, None));
        }
        if !lane.turns.may_send() {
            lane.credits.give_back();
            return Err((packet, None));
        }
        let (slot, id) = (packet.slot, packet.id());
        let attempt = lane.attempt;
        let long = match packet.order().map(|order| &mut order.work) {
            Some(Work::Segments(long)) => long,
            _ => break,
        };
        let segment = long.segment(id);
        if segment.place == Place::Last {
            break;
        }
        let helper = match lane.segments {
            0 => None,
            _ => idle.pop(),
        };
        let Some(mut helper) = helper else {
            if lane.segments == SEGMENTS {
                // None will come back: it goes by itself, and nothing goes before the rest of it.
                lane.is_carrying = true;
                break;
            }
            lane.credits.give_back();
            return Err((packet, None));
        };
        helper.slot = slot;
        helper.attempt = attempt;
        helper.carry(to, &long.from, &segment);
        match Packet::send(helper, flights, &lane.lower) {
            Ok(()) => {
                lane.segments -= 1;
                long.next += 1;
            }
            Err(refused) => {
                idle.push(refused.own);
                lane.refused(refused.errno);
                lane.credits.give_back();
                return Err((packet, None));
            }
        }
    }
    packet.attempt = lane.attempt;
    packet.address_order(to);
    packet.step(1);
    lane.atomics -= usize::from(asks);
    Packet::send(packet, flights, &lane.lower).map_err(|refused| {
        lane.is_carrying = false;
        lane.atomics += usize::from(asks);
        lane.credits.give_back();
        lane.refused(refused.errno);
        let mut packet = refused.own;
        packet.step(-1);
        (packet, None)
    })
}

/// Posts an access to the peer's memory; the operation, and why it cannot be, or that there is no room.
fn access(
    lane: &mut Lane,
    mut packet: Own<Packet>,
    flights: &mut Flights<Packet>,
) -> core::result::Result<(), (Own<Packet>, Option<Errno>)> {
    let is_read = packet.as_order().is_some_and(Order::is_read);
    let may_go = match is_read {
        true => lane.turns.may_read(),
        false => lane.turns.may_send(),
    };
    if !may_go {
        return Err((packet, None));
    }
    // The peer has a receive for its data.
    let takes_credit = match packet.order().map(|order| &order.work) {
        Some(Work::Access(access)) => access.flags & FI_REMOTE_CQ_DATA != 0,
        _ => false,
    };
    if takes_credit && !lane.credits.take() {
        return Err((packet, None));
    }
    packet.attempt = lane.attempt;
    let accessed = Packet::access(packet, flights, &lane.lower);
    if is_read && accessed.is_ok() {
        lane.turns.begun();
    }
    accessed.map_err(|refused| {
        if takes_credit {
            lane.credits.give_back();
        }
        match refused.errno {
            Errno::EAGAIN => (refused.own, None),
            // What the connection has come to is told with it.
            errno @ (Errno::ENOTCONN | Errno::ECONNABORTED | Errno::ESHUTDOWN) => {
                lane.refused(errno);
                (refused.own, None)
            }
            errno => (refused.own, Some(errno)),
        }
    })
}

impl Packet {
    /// A segment more of its message has been sent, or one less.
    fn step(&mut self, count: i32) {
        if let Some(Work::Segments(long)) = self.order().map(|order| &mut order.work) {
            long.next = long.next.wrapping_add_signed(count);
        }
    }
}
