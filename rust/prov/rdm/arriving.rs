// SPDX-License-Identifier: GPL-2.0

//! What comes from peers: packets, and messages without a receive.
//!
//! A message without a receive is copied out of its packet, so that the peer can go on, up to a bound; one
//! that goes to a buffer for several, and cannot be told of, is so as well. Beyond that, packets are held as
//! they came until a receive is posted, and as there are not many of them the peer is slowed. What a peer
//! says of our own messages is heard all the same.

use super::{
    credits::Absurd,
    iov::Payload,
    matching::Title,
    operating::Request,
    outlets::Outlets,
    placing::Lack,
    posting::{
        Arrival,
        Packet, //
    },
    receive::{
        Body,
        Fetch,
        Letter,
        ENVELOPE, //
    },
    traffic::Traffic,
    wire::{
        Head,
        Malformed,
        Message,
        Packet as Parsed,
        Place,
        Ranges, //
    },
};
use crate::{
    fi::{
        eq::Source,
        prelude::*, //
    },
    util::{
        log::warn_of_peer,
        owned_list::ListBox, //
    },
};

/// Memory for messages of one peer that wait for receives, in bytes.
const PEER_BOUND: usize = 1 << 20;

/// The same while a message of the peer's is there in part: where others wait in the packets that the rest
/// of it needs, nobody goes on.
const PARTIAL_BOUND: usize = 4 * PEER_BOUND;

/// The same of all peers.
const BOUND: usize = 32 << 20;

/// How far what a connection leaves in its packets, when it ends, may go beyond either. It is more than
/// they have; a peer that comes again and again does not leave more each time.
const LEFT_BOUND: usize = PEER_BOUND;

/// What has become of a packet.
pub(super) enum Taken {
    /// It is not needed any more.
    Done,
    /// It has to be looked at again when there is a receive.
    Later,
    /// It asks for an operation, and takes the answer back.
    Asked(Request),
}

/// The same, or why the connection is to be closed.
pub(super) type Outcome = core::result::Result<Taken, Malformed>;

impl Traffic {
    /// Something has come from a peer, or a packet to receive with has come back; where connections share,
    /// by that of `source`.
    pub(super) fn arrive(
        &mut self,
        outlets: &Outlets,
        mut packet: ListBox<Packet>,
        source: Option<Source>,
        result: Result<Arrival>,
    ) {
        match (result, self.unpost(&mut packet, source)) {
            (Ok(arrival), Ok(())) => {
                packet.arrival = arrival;
                self.admit(outlets, packet, true);
            }
            (Ok(_), Err(Absurd)) => {
                self.condemn(packet, Malformed("more packets than were asked for"));
            }
            (Err(_), _) => {
                let (slot, attempt) = (packet.slot, packet.attempt);
                self.keep(packet);
                let lane = self.peer(slot).and_then(|peer| peer.lane.as_ref());
                if lane.is_some_and(|lane| lane.is_open()) {
                    // Nothing comes by that connection any more. What has become of one that never
                    // was there is told otherwise, with the reason.
                    self.break_off(slot, attempt);
                }
            }
        }
    }

    /// Looks at a packet.
    fn admit(&mut self, outlets: &Outlets, packet: ListBox<Packet>, is_bounded: bool) {
        let slot = packet.slot;
        match self.take_in(outlets, &packet, is_bounded) {
            Ok(Taken::Done) => {
                let _ = self.repost(packet);
            }
            Ok(Taken::Later) => {
                if let Some(peer) = self.peer(slot) {
                    peer.held += 1;
                }
                self.held.push(packet);
                // Nobody says when something is posted.
                self.is_starving |= self.offices.of(0).is_abroad();
            }
            Ok(Taken::Asked(request)) => self.operate(packet, &request),
            Err(malformed) => self.condemn(packet, malformed),
        }
        self.pump(outlets, slot);
    }

    /// Has a connection closed by which something has come that nobody may send.
    #[cold]
    fn condemn(&mut self, packet: ListBox<Packet>, Malformed(why): Malformed) {
        let (slot, attempt) = (packet.slot, packet.attempt);
        self.note_violation(slot, why);
        self.keep(packet);
        self.break_off(slot, attempt);
    }

    /// Counts and logs a violation by a peer, for which its connection is closed.
    #[cold]
    pub(super) fn note_violation(&mut self, slot: u32, why: &str) {
        self.violations.add(1);
        let name = self.name;
        if let Some(peer) = self.peer(slot) {
            warn_of_peer(&name, &peer.addr, fmt!("a connection is closed: {}", why));
        }
    }

    /// Looks again at the packets that are held; those of one peer, whose connection ends, have room.
    pub(super) fn resume(&mut self, outlets: &Outlets, ending: Option<u32>) {
        let mut held = mem::take(&mut self.held);
        for packet in held.iter() {
            if let Some(peer) = self.peer(packet.slot).filter(|peer| peer.held > 0) {
                peer.held = 0;
                peer.partials.look_again();
            }
        }
        while let Some(packet) = held.pop() {
            let is_bounded = ending != Some(packet.slot);
            self.admit(outlets, packet, is_bounded);
        }
    }

    fn take_in(&mut self, outlets: &Outlets, packet: &Packet, is_bounded: bool) -> Outcome {
        let slot = packet.slot;
        let offices = self.offices.len();
        let Some(peer) = self.peer(slot) else {
            return Ok(Taken::Done);
        };
        let is_held = peer.held > 0;
        let from = peer.addr;
        if let Arrival::Written(len, data) = packet.arrival {
            if !outlets.hears_writes {
                return Err(Malformed(
                    "data of a write where there is nothing to write to",
                ));
            }
            return Ok(match !is_held && outlets.written(len, data) {
                true => Taken::Done,
                false => Taken::Later,
            });
        }
        let arrived = packet.arrived();
        let lane = peer.lane.as_ref();
        let contexts = match lane.filter(|lane| lane.attempt == packet.attempt) {
            Some(lane) if lane.extensions.contexts().is_some() => Some(offices),
            // It has not been heard yet what the peer knows; what is behind such a packet does not pass it.
            Some(lane) if lane.to.is_none() && (is_held || Parsed::named_context(arrived) != 0) => {
                return Ok(Taken::Later);
            }
            _ => None,
        };
        let Parsed { head, payload, .. } = Parsed::parse(arrived, contexts)?;
        let message = match &head {
            Head::Eager(message) | Head::Offer { message, .. } => *message,
            Head::Segment(segment) => segment.message,
            // Of what there was before, nothing is left that it could be about.
            _ if !peer.has(packet.attempt) => return Ok(Taken::Done),
            // No other key is tried; messages, whose senders have their success, are delivered.
            Head::Atomic { .. } if peer.is_refused() => return Ok(Taken::Done),
            &Head::Atomic { id, call, targets } => {
                return Ok(Taken::Asked(Request {
                    id,
                    call,
                    targets,
                    operands: payload.len(),
                }))
            }
            &Head::Answer { id, status, .. } => {
                let answered = self.answered_with(outlets, slot, id, status, payload);
                return answered.map(|()| Taken::Done);
            }
            _ => return self.hear(outlets, slot, head).map(|()| Taken::Done),
        };
        if self.are_parting {
            self.interrupt(slot)?;
        }
        let title = Title {
            context: message.context,
            tag: message.tag,
            from,
        };
        let mail = Mail {
            slot,
            attempt: packet.attempt,
            title,
            message,
            is_bounded,
        };
        match head {
            Head::Segment(segment) if segment.place != Place::First => {
                self.next_segment(outlets, &mail, &segment, payload, is_held)
            }
            _ if is_held => Ok(Taken::Later),
            Head::Segment(segment) => self.first_segment(outlets, &mail, &segment, payload),
            Head::Offer { id, ranges, .. } => self.offered(outlets, &mail, id, ranges),
            _ => Ok(self.eager(outlets, &mail, payload, true)),
        }
    }

    /// What a peer says of our own messages, or of its receives.
    fn hear(
        &mut self,
        outlets: &Outlets,
        slot: u32,
        head: Head,
    ) -> core::result::Result<(), Malformed> {
        match head {
            Head::Taken { id } => self.taken(outlets, slot, id),
            Head::Room { id, ranges } => self.make_way(outlets, slot, id, ranges),
            Head::Credit(count) => {
                let lane = self.lane(slot);
                let told = lane.map_or(Ok(()), |lane| lane.credits.told(count));
                told.map_err(|_| Malformed("credits that nobody has"))
            }
            Head::Farewell(word) => self.hear_farewell(slot, word),
            _ => Err(Malformed("a packet of a kind that was not offered")),
        }
    }

    /// Whether there is room for so many bytes more of a peer's.
    pub(super) fn has_room(&mut self, mail: &Mail, weight: usize) -> bool {
        let Some(peer) = self.peer(mail.slot) else {
            return false;
        };
        let bound = match peer.partials.any(|collected| !collected.is_whole) {
            true => PARTIAL_BOUND,
            false => PEER_BOUND,
        };
        let (bound, of_all) = match mail.is_bounded {
            true => (bound, BOUND),
            false => (bound + LEFT_BOUND, 2 * BOUND),
        };
        peer.parked + weight <= bound && self.parked + weight <= of_all
    }

    pub(super) fn add_weight(&mut self, slot: u32, weight: usize) {
        self.parked += weight;
        if let Some(peer) = self.peer(slot) {
            peer.parked += weight;
        }
    }

    pub(super) fn drop_weight(&mut self, slot: u32, weight: usize) {
        self.parked -= weight;
        if let Some(peer) = self.peer(slot) {
            peer.parked -= weight;
        }
    }

    /// Has a message wait for what it lacks.
    pub(super) fn park(
        &mut self,
        outlets: &Outlets,
        mail: &Mail,
        letter: Result<ListBox<Letter>>,
        lacks: Lack,
    ) -> Taken {
        match letter {
            Ok(letter) if self.has_room(mail, letter.weight()) => {
                self.add_weight(mail.slot, letter.weight());
                self.wait(outlets, letter, lacks);
                Taken::Done
            }
            // It goes with its connection.
            Ok(_) if !mail.is_bounded => Taken::Done,
            _ => Taken::Later,
        }
    }

    /// A message all of which is there; where it lacks something it waits if it `may_wait`.
    #[inline(always)]
    pub(super) fn eager(
        &mut self,
        outlets: &Outlets,
        mail: &Mail,
        payload: &(impl Payload + ?Sized),
        may_wait: bool,
    ) -> Taken {
        match self.meet(outlets, &mail.title, &mail.message) {
            Ok(receive) => {
                let len = payload.copy_to(&receive.into);
                self.end_receive(outlets, receive, &mail.title, &mail.message, len);
                Taken::Done
            }
            Err(_) if !may_wait => Taken::Later,
            Err(lacks) => {
                // It may be looked at again and again: what there is no room for is not copied first.
                let letter = match self.has_room(mail, ENVELOPE + payload.len()) || !mail.is_bounded
                {
                    true => Letter::whole(mail.title, mail.message, mail.slot, payload),
                    false => Err(Errno::ENOMEM),
                };
                self.park(outlets, mail, letter, lacks)
            }
        }
    }

    /// A message that is to be fetched.
    fn offered(&mut self, outlets: &Outlets, mail: &Mail, id: u64, ranges: Ranges) -> Outcome {
        if ranges.total().is_none_or(|total| total < mail.message.len) {
            return Err(Malformed("an offer of less than there is"));
        }
        let offer = Body::Offer {
            attempt: mail.attempt,
            id,
            ranges,
        };
        match self.meet(outlets, &mail.title, &mail.message) {
            Ok(receive) => {
                self.fetch(outlets, receive, mail.fetch(id, ranges));
                Ok(Taken::Done)
            }
            Err(lacks) => {
                let letter = ListBox::new_atomic(mail.letter(offer));
                Ok(self.park(outlets, mail, letter, lacks))
            }
        }
    }

    /// There may be room for what is held.
    pub(super) fn go_on(&mut self, outlets: &Outlets) {
        if !self.held.is_empty() {
            self.resume(outlets, None);
        }
    }
}

/// A message, and how it came.
pub(super) struct Mail {
    /// Whom it is from.
    pub(super) slot: u32,
    /// By which connection.
    pub(super) attempt: usize,
    /// Who takes it.
    pub(super) title: Title,
    /// The message.
    pub(super) message: Message,
    /// Whether it may have to wait in its packet.
    pub(super) is_bounded: bool,
}

impl Mail {
    /// Has it wait for its receive.
    pub(super) fn letter(&self, body: Body) -> Letter {
        Letter::new(self.title, self.message, self.slot, body)
    }

    /// Has it fetched from its sender.
    pub(super) fn fetch(&self, id: u64, ranges: Ranges) -> Fetch {
        Fetch {
            slot: self.slot,
            attempt: self.attempt,
            id,
            title: self.title,
            message: self.message,
            ranges,
            done: 0,
            coming: 0,
            is_doubtful: false,
        }
    }
}
