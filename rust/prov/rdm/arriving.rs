// SPDX-License-Identifier: GPL-2.0

//! What comes from peers: which receive a message is for, and where it waits if there is none.
//!
//! A message without a receive is copied out of its packet, so that the peer can go on, up to a bound;
//! beyond that, packets are held as they came until a receive is posted, and as there are not many of them
//! the peer is slowed. What a peer says of our own messages is heard all the same.

use super::{
    bounce::Incoming,
    matching::{
        Title,
        Wish, //
    },
    operating::Request,
    outlets::{
        Looking,
        Outlets, //
    },
    posting::{
        Arrival,
        Packet, //
    },
    receive::{
        Body,
        Fetch,
        Letter,
        Parts,
        Receive,
        ENVELOPE, //
    },
    traffic::Traffic,
    wire::{
        Head,
        Malformed,
        Message,
        Packet as Parsed,
        Place,
        Ranges,
        Segment, //
    },
};
use crate::{
    abi::{
        nodes::{
            Own,
            Queue, //
        },
        say::complain,
        Errno,
        Result, //
    },
    fi::memory::Context,
};
use core::mem;
use kernel::prelude::*;

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

/// What is done to a message that is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nothing.
    Stay,
    /// None takes it but who asks for it.
    Claim,
    /// It is dropped.
    Discard,
}

/// What has become of a packet.
enum Taken {
    /// It is not needed any more.
    Done,
    /// It has to be looked at again when there is a receive.
    Later,
    /// It asks for an operation, and takes the answer back.
    Asked(Request),
}

type Outcome = core::result::Result<Taken, Malformed>;

impl Traffic {
    /// Something has come from a peer, or a packet to receive with has come back.
    pub(super) fn arrive(
        &mut self,
        outlets: &Outlets,
        mut packet: Own<Packet>,
        result: Result<Arrival>,
    ) {
        match result {
            Ok(arrival) => {
                packet.arrival = arrival;
                self.admit(outlets, packet, true);
            }
            Err(_) => {
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
    fn admit(&mut self, outlets: &Outlets, packet: Own<Packet>, is_bounded: bool) {
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
            }
            Ok(Taken::Asked(request)) => self.operate(packet, &request),
            Err(Malformed(why)) => {
                complain(&c"verbs;ofi_rxm", fmt!("a connection is closed: {}", why));
                let attempt = packet.attempt;
                self.keep(packet);
                self.break_off(slot, attempt);
            }
        }
        self.pump(outlets, slot);
    }

    /// Looks again at the packets that are held; those of one peer, whose connection ends, have room.
    pub(super) fn resume(&mut self, outlets: &Outlets, ending: Option<u32>) {
        let mut held = mem::take(&mut self.held);
        for packet in held.iter() {
            if let Some(peer) = self.peer(packet.slot) {
                peer.held = 0;
            }
        }
        while let Some(packet) = held.pop() {
            let is_bounded = ending != Some(packet.slot);
            self.admit(outlets, packet, is_bounded);
        }
    }

    fn take_in(&mut self, outlets: &Outlets, packet: &Packet, is_bounded: bool) -> Outcome {
        let slot = packet.slot;
        let Some(peer) = self.peer(slot) else {
            return Ok(Taken::Done);
        };
        let is_held = peer.held > 0;
        let from = peer.addr;
        if let Arrival::Written(data) = packet.arrival {
            if !outlets.hears_writes {
                return Err(Malformed(
                    "data of a write where there is nothing to write to",
                ));
            }
            return Ok(match !is_held && outlets.written(data) {
                true => Taken::Done,
                false => Taken::Later,
            });
        }
        let Parsed { head, payload, .. } = Parsed::parse(packet.arrived())?;
        let message = match &head {
            Head::Eager(message) | Head::Offer { message, .. } => *message,
            Head::Segment(segment) => segment.message,
            // Of what there was before, nothing is left that it could be about.
            _ if !peer.has(packet.attempt) => return Ok(Taken::Done),
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
        let title = Title {
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
            Head::Segment(segment) => self.first_segment(&mail, &segment, payload),
            Head::Offer { id, ranges, .. } => self.offered(outlets, &mail, id, ranges),
            _ => Ok(self.eager(outlets, &mail, payload)),
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
                let lane = self.peer(slot).and_then(|peer| peer.lane.as_mut());
                let told = lane.map_or(Ok(()), |lane| lane.credits.told(count));
                told.map_err(|_| Malformed("credits that nobody has"))
            }
            _ => Err(Malformed("a packet of a kind that was not offered")),
        }
    }

    /// Whether there is room for so many bytes more of a peer's.
    fn has_room(&mut self, mail: &Mail, weight: usize) -> bool {
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

    fn add_weight(&mut self, slot: u32, weight: usize) {
        self.parked += weight;
        if let Some(peer) = self.peer(slot) {
            peer.parked += weight;
        }
    }

    fn drop_weight(&mut self, slot: u32, weight: usize) {
        self.parked -= weight;
        if let Some(peer) = self.peer(slot) {
            peer.parked -= weight;
        }
    }

    /// Has a message wait for its receive.
    fn park(&mut self, mail: &Mail, letter: Result<Own<Letter>>) -> Taken {
        match letter {
            Ok(letter) if self.has_room(mail, letter.weight()) => {
                self.add_weight(mail.slot, letter.weight());
                self.desk.wait(letter);
                Taken::Done
            }
            // It goes with its connection.
            Ok(_) if !mail.is_bounded => Taken::Done,
            _ => Taken::Later,
        }
    }

    /// A message in one packet.
    fn eager(&mut self, outlets: &Outlets, mail: &Mail, payload: &[u8]) -> Taken {
        let Some(mut receive) = self.desk.arrive(&mail.title) else {
            // It may be looked at again and again: what there is no room for is not copied first.
            let letter = match self.has_room(mail, ENVELOPE + payload.len()) || !mail.is_bounded {
                true => Letter::whole(mail.title, mail.message, mail.slot, payload),
                false => Err(Errno::ENOMEM),
            };
            return self.park(mail, letter);
        };
        let len = receive.into.write(0, payload);
        outlets.received(&mut receive, &mail.title, &mail.message, len);
        self.put_back(receive);
        Taken::Done
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
        match self.desk.arrive(&mail.title) {
            Some(receive) => {
                self.fetch(outlets, receive, mail.fetch(id, ranges));
                Ok(Taken::Done)
            }
            None => Ok(self.park(mail, Own::at_once(mail.letter(offer)))),
        }
    }

    /// The first segment of a message.
    fn first_segment(&mut self, mail: &Mail, segment: &Segment, payload: &[u8]) -> Outcome {
        let Some(peer) = self.peer(mail.slot) else {
            return Ok(Taken::Done);
        };
        let lane = peer.lane.as_mut();
        let Some(lane) = lane.filter(|lane| lane.attempt == mail.attempt) else {
            // There will not be another one.
            return Ok(Taken::Done);
        };
        peer.partials.begin(segment)?;
        let Some(mut parts) = lane.parts.pop() else {
            return match peer.partials.any(|collected| collected.receive.is_none()) {
                true => Ok(Taken::Later),
                false => Err(Malformed("segments of too many messages at once")),
            };
        };
        self.collected += 1;
        let number = self.collected;
        parts.begin(segment);
        parts.what.begin(number, mail.attempt, mail.title);
        let taken = match self.desk.arrive(&mail.title) {
            Some(receive) => {
                parts.what.take(receive);
                // There is a receive: nothing is allocated.
                let _ = parts.what.add(payload);
                Taken::Done
            }
            None => {
                let letter = Own::at_once(mail.letter(Body::Parts(number)));
                let added = match self.has_room(mail, ENVELOPE + payload.len()) {
                    true => parts.what.add(payload),
                    false => Err(Errno::ENOMEM),
                };
                match added.and(letter) {
                    Ok(letter) => {
                        self.add_weight(mail.slot, payload.len());
                        match self.park(mail, Ok(letter)) {
                            Taken::Later => {
                                self.drop_weight(mail.slot, payload.len());
                                Taken::Later
                            }
                            taken => taken,
                        }
                    }
                    Err(_) => Taken::Later,
                }
            }
        };
        match taken {
            Taken::Done => {
                parts.advance();
                if let Some(peer) = self.peer(mail.slot) {
                    peer.partials.keep(parts);
                }
            }
            _ => self.put_back_parts(mail.slot, parts),
        }
        Ok(taken)
    }

    /// Another one.
    fn next_segment(
        &mut self,
        outlets: &Outlets,
        mail: &Mail,
        segment: &Segment,
        payload: &[u8],
        is_held: bool,
    ) -> Outcome {
        let Some(peer) = self.peer(mail.slot) else {
            return Ok(Taken::Done);
        };
        if !peer.has(mail.attempt) {
            return Ok(Taken::Done);
        }
        if is_held && !peer.partials.continues(segment) {
            return Ok(Taken::Later);
        }
        let mut parts = peer.partials.take(segment)?;
        let is_taken = parts.what.receive.is_some();
        let has_room = is_taken || self.has_room(mail, payload.len());
        let added = match has_room {
            true => parts.what.add(payload),
            false => Err(Errno::ENOMEM),
        };
        if added.is_ok() {
            parts.advance();
            parts.what.is_whole = segment.place == Place::Last;
            if !is_taken {
                self.add_weight(mail.slot, payload.len());
            }
        }
        self.keep_or_end(outlets, mail.slot, parts);
        Ok(match added {
            Ok(()) => Taken::Done,
            Err(_) => Taken::Later,
        })
    }

    /// Keeps a message of which there are segments, unless it is all there and somebody has taken it.
    fn keep_or_end(&mut self, outlets: &Outlets, slot: u32, mut parts: Own<Parts>) {
        let receive = match parts.what.is_whole {
            true => parts.what.receive.take(),
            false => None,
        };
        let Some(mut receive) = receive else {
            if let Some(peer) = self.peer(slot) {
                peer.partials.keep(parts);
            }
            return;
        };
        let len = parts.what.len.min(receive.into.len());
        outlets.received(&mut receive, &parts.what.title, parts.message(), len);
        self.put_back(receive);
        self.put_back_parts(slot, parts);
    }

    fn put_back_parts(&mut self, slot: u32, mut parts: Own<Parts>) {
        parts.what.clear();
        let lane = self.peer(slot).and_then(|peer| peer.lane.as_mut());
        if let Some(lane) = lane {
            lane.parts.push(parts);
        }
    }

    /// Takes a receive to post, if there is one.
    pub(super) fn receive(&mut self, into: Incoming, told: &Looking) -> Option<Own<Receive>> {
        let mut receive = self.receives.pop()?;
        receive.into = into;
        receive.context = told.context;
        receive.is_wanted = told.is_wanted;
        Some(receive)
    }

    /// Posts it.
    pub(super) fn post(&mut self, outlets: &Outlets, mut receive: Own<Receive>, wish: Wish) {
        receive.wish = wish;
        if let Some((receive, letter)) = self.desk.post(receive) {
            self.hand_over(outlets, receive, &letter);
        }
        self.go_on(outlets);
    }

    /// A receive has found its message.
    fn hand_over(&mut self, outlets: &Outlets, mut receive: Own<Receive>, letter: &Letter) {
        let slot = letter.slot;
        self.drop_weight(slot, letter.weight());
        match &letter.body {
            Body::Whole(bytes) => {
                let len = receive.into.write(0, bytes);
                outlets.received(&mut receive, &letter.title, &letter.message, len);
                self.put_back(receive);
            }
            Body::Offer {
                attempt,
                id,
                ranges,
            } => {
                let mail = Mail {
                    slot,
                    attempt: *attempt,
                    title: letter.title,
                    message: letter.message,
                    is_bounded: true,
                };
                self.fetch(outlets, receive, mail.fetch(*id, *ranges));
            }
            Body::Parts(number) => {
                let peer = self.peer(slot);
                let parts = peer
                    .and_then(|peer| peer.partials.find(|collected| collected.number == *number));
                let Some(mut parts) = parts else {
                    self.give_up_receive(outlets, receive, Errno::ECONNABORTED);
                    return;
                };
                self.drop_weight(slot, parts.what.weight());
                parts.what.take(receive);
                self.keep_or_end(outlets, slot, parts);
            }
        }
    }

    /// Looks for the message that a receive would take, and tells of it; it waits on, or `fate` is done to it.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN if there is no receive to take it with.
    pub(super) fn peek(
        &mut self,
        outlets: &Outlets,
        wish: &Wish,
        told: &Looking,
        fate: Fate,
    ) -> Result {
        let found = self.desk.look(wish);
        let Some((title, message)) = found.map(|letter| (letter.title, letter.message)) else {
            outlets.not_seen(told);
            return Ok(());
        };
        if fate == Fate::Discard && self.receives.is_empty() {
            return Err(Errno::EAGAIN);
        }
        outlets.seen(told, &title, &message, message.len as usize);
        if fate == Fate::Stay {
            return Ok(());
        }
        if let Some(mut letter) = self.desk.claim(wish) {
            if fate == Fate::Claim {
                letter.claim = Some(told.context);
                self.claimed.push(letter);
            } else {
                self.discard(outlets, &letter);
            }
        }
        Ok(())
    }

    /// Takes the message that a context has claimed.
    fn claimed(&mut self, told: &Looking) -> Result<Own<Letter>> {
        let is = |letter: &Letter| letter.claim == Some(told.context);
        self.claimed.take(is).ok_or(Errno::EINVAL)
    }

    /// Has a receive take the message that was claimed for it.
    ///
    /// # Errors
    ///
    /// As of [`Self::discard_claimed`].
    pub(super) fn receive_claimed(
        &mut self,
        outlets: &Outlets,
        into: Incoming,
        told: &Looking,
    ) -> Result {
        let mut receive = self.receive(into, told).ok_or(Errno::EAGAIN)?;
        match self.claimed(told) {
            Ok(letter) => {
                receive.wish.tag = letter.title.tag.map(|tag| (tag, 0));
                self.hand_over(outlets, receive, &letter);
                self.go_on(outlets);
                Ok(())
            }
            Err(errno) => {
                self.put_back(receive);
                Err(errno)
            }
        }
    }

    /// There may be room for what is held.
    fn go_on(&mut self, outlets: &Outlets) {
        if !self.held.is_empty() {
            self.resume(outlets, None);
        }
    }

    /// Drops a claimed message, and tells of it.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if there is none, -FI_EAGAIN if there is no receive to take it with.
    pub(super) fn discard_claimed(&mut self, outlets: &Outlets, told: &Looking) -> Result {
        if self.receives.is_empty() {
            return Err(Errno::EAGAIN);
        }
        let letter = self.claimed(told)?;
        outlets.seen(told, &letter.title, &letter.message, 0);
        self.discard(outlets, &letter);
        Ok(())
    }

    /// Takes a message to nowhere: its sender knows no difference.
    fn discard(&mut self, outlets: &Outlets, letter: &Letter) {
        if let Some(mut receive) = self.receives.pop() {
            receive.is_told = true;
            self.hand_over(outlets, receive, letter);
            self.go_on(outlets);
        }
    }

    /// Takes a receive back; -FI_ENOENT if it is not there.
    pub(super) fn cancel(&mut self, outlets: &Outlets, context: Context) -> Result {
        let mut find = |is_tagged| {
            let is = |receive: &Receive| receive.context == context;
            self.desk.cancel(is_tagged, is)
        };
        let receive = find(true).or_else(|| find(false)).ok_or(Errno::ENOENT)?;
        self.give_up_receive(outlets, receive, Errno::ECANCELED);
        Ok(())
    }

    /// Nothing will come of a receive.
    pub(super) fn give_up_receive(
        &mut self,
        outlets: &Outlets,
        mut receive: Own<Receive>,
        errno: Errno,
    ) {
        outlets.given_up(&mut receive, errno);
        self.put_back(receive);
    }

    pub(super) fn put_back(&mut self, mut receive: Own<Receive>) {
        receive.clear();
        self.receives.push(receive);
    }

    /// Ends what a connection that is no more has left: of what has come, nothing is lost that is whole.
    pub(super) fn forget_arrivals(&mut self, outlets: &Outlets, slot: u32, attempt: usize) {
        loop {
            let peer = self.peer(slot);
            let parts = peer.and_then(|peer| {
                peer.partials
                    .find(|collected| collected.attempt == attempt && !collected.is_whole)
            });
            let Some(mut parts) = parts else {
                break;
            };
            if let Some(receive) = parts.what.receive.take() {
                self.give_up_receive(outlets, receive, Errno::ECONNABORTED);
            }
            let number = parts.what.number;
            self.drop_weight(slot, parts.what.weight());
            self.forget_letters(
                slot,
                |body| matches!(body, Body::Parts(it) if *it == number),
            );
        }
        self.forget_letters(
            slot,
            |body| matches!(body, Body::Offer { attempt: it, .. } if *it == attempt),
        );
    }

    fn forget_letters(&mut self, slot: u32, mut is: impl FnMut(&Body) -> bool) {
        let forgotten = self
            .desk
            .forget(|letter| letter.slot == slot && is(&letter.body));
        for letter in forgotten.iter().flat_map(Queue::iter) {
            self.drop_weight(slot, letter.weight());
        }
    }

    /// A receive has taken a message that is to be fetched.
    fn fetch(&mut self, outlets: &Outlets, mut receive: Own<Receive>, fetch: Fetch) {
        let slot = fetch.slot;
        let attempt = fetch.attempt;
        receive.fetch = Some(fetch);
        let peer = self.peer(slot);
        match peer.filter(|peer| peer.has(attempt)) {
            Some(peer) => {
                peer.fetching.push(receive);
                self.pump(outlets, slot);
            }
            None => self.give_up_receive(outlets, receive, Errno::ECONNABORTED),
        }
    }

    /// A read of such a message is over.
    pub(super) fn fetched(&mut self, outlets: &Outlets, mut receive: Own<Receive>, result: Result) {
        let Some(fetch) = &mut receive.fetch else {
            self.put_back(receive);
            return;
        };
        let (slot, attempt) = (fetch.slot, fetch.attempt);
        fetch.done += mem::take(&mut fetch.coming);
        let peer = self.peer(slot);
        let lane = peer.and_then(|peer| peer.lane.as_mut());
        if let Some(lane) = lane.filter(|lane| lane.attempt == attempt) {
            lane.fetches += 1;
            lane.turns.over();
        }
        match result {
            Ok(()) => {
                if let Some(peer) = self.peer(slot) {
                    peer.fetching.push_first(receive);
                }
                self.pump(outlets, slot);
            }
            Err(errno) => {
                self.give_up_receive(outlets, receive, errno);
                self.break_off(slot, attempt);
            }
        }
    }
}

/// A message, and how it came.
struct Mail {
    slot: u32,
    attempt: usize,
    title: Title,
    message: Message,
    /// Whether it may have to wait in its packet.
    is_bounded: bool,
}

impl Mail {
    fn letter(&self, body: Body) -> Letter {
        Letter {
            title: self.title,
            message: self.message,
            slot: self.slot,
            body,
            claim: None,
        }
    }

    fn fetch(&self, id: u64, ranges: Ranges) -> Fetch {
        Fetch {
            slot: self.slot,
            attempt: self.attempt,
            id,
            title: self.title,
            message: self.message,
            ranges,
            done: 0,
            coming: 0,
        }
    }
}
