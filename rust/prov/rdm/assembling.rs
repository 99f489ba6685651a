// SPDX-License-Identifier: GPL-2.0

//! Messages that come in segments, put together for the receive that takes them, or until there is one.

use super::{
    arriving::{
        Mail,
        Outcome,
        Taken, //
    },
    outlets::Outlets,
    receive::{
        Body,
        Parts,
        ENVELOPE, //
    },
    traffic::Traffic,
    wire::{
        Malformed,
        Place,
        Segment, //
    },
};
use crate::{
    abi::Errno,
    util::owned_list::{
        BoxList,
        ListBox, //
    },
};

impl Traffic {
    /// The first segment of a message.
    pub(super) fn first_segment(
        &mut self,
        outlets: &Outlets,
        mail: &Mail,
        segment: &Segment,
        payload: &[u8],
    ) -> Outcome {
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
        let parked = match self.meet(outlets, &mail.title, &mail.message) {
            Ok(receive) => {
                parts.what.take(receive);
                // There is a receive: nothing is allocated.
                let _ = parts.what.add(payload);
                None
            }
            Err(lacks) => {
                let letter = ListBox::new_atomic(mail.letter(Body::Parts(number)));
                let added = match self.has_room(mail, ENVELOPE + payload.len()) {
                    true => parts.what.add(payload),
                    false => Err(Errno::ENOMEM),
                };
                let Ok(letter) = added.and(letter) else {
                    self.put_back_parts(mail.slot, parts);
                    return Ok(Taken::Later);
                };
                self.add_weight(mail.slot, letter.weight() + payload.len());
                Some((letter, lacks))
            }
        };
        parts.advance();
        if let Some(peer) = self.peer(mail.slot) {
            peer.partials.keep(parts);
        }
        // Whoever takes it looks for the segment.
        if let Some((letter, lacks)) = parked {
            self.wait(outlets, letter, lacks);
        }
        Ok(Taken::Done)
    }

    /// Another one.
    pub(super) fn next_segment(
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
        match added {
            Ok(()) => {
                parts.advance();
                parts.what.is_whole = segment.place == Place::Last;
                if !is_taken {
                    self.add_weight(mail.slot, payload.len());
                }
            }
            Err(_) => parts.hold(),
        }
        self.keep_or_end(outlets, mail.slot, parts);
        Ok(match added {
            Ok(()) => Taken::Done,
            Err(_) => Taken::Later,
        })
    }

    /// Keeps a message of which there are segments, unless it is all there and somebody has taken it.
    pub(super) fn keep_or_end(&mut self, outlets: &Outlets, slot: u32, mut parts: ListBox<Parts>) {
        let receive = match parts.what.is_whole {
            true => parts.what.receive.take(),
            false => None,
        };
        let Some(receive) = receive else {
            if let Some(peer) = self.peer(slot) {
                peer.partials.keep(parts);
            }
            return;
        };
        let len = parts.what.len.min(receive.into.len());
        self.end_receive(outlets, receive, &parts.what.title, parts.message(), len);
        self.put_back_parts(slot, parts);
    }

    pub(super) fn put_back_parts(&mut self, slot: u32, mut parts: ListBox<Parts>) {
        parts.what.clear();
        let lane = self.lane(slot);
        if let Some(lane) = lane {
            lane.parts.push(parts);
        }
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
        for at in 0..self.offices.len() as u8 {
            let office = self.offices.of_mut(at);
            let forgotten = office.forget(|letter| letter.slot == slot && is(&letter.body));
            for letter in forgotten.iter().flat_map(BoxList::iter) {
                self.drop_weight(slot, letter.weight());
            }
        }
    }
}
