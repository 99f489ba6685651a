// SPDX-License-Identifier: GPL-2.0

//! Receives that take several messages: each has a place in the buffer at once, and is received when there
//! is room to tell of it. Those that wait for that do so in order, and nobody overtakes them.

use super::{
    buffers::Place,
    flights::Numbered,
    iov::DstBuf,
    matching::{
        Taker,
        Title,
        Wish, //
    },
    office::Office,
    outlets::Outlets,
    receive::{
        Goal,
        Kind,
        Letter,
        Receive, //
    },
    traffic::Traffic,
    wire::Message, //
};
use crate::{
    fi::prelude::*,
    util::owned_list::ListBox, //
};
use core::result::Result;

/// How many messages may be coming into buffers, or what is shared, at once.
pub(super) const HELPERS: usize = 128;

/// How many are handed over before others have their turn.
const BATCH: usize = 16;

/// What a message lacks.
pub(super) enum Lack {
    /// A receive; or room to be told of one that is shared.
    Receive,
    /// Room to be told of: it goes to the buffer of that number.
    Room(u32),
}

impl Traffic {
    /// The receive of a message that has come, if that can be received now.
    #[inline]
    pub(super) fn meet(
        &mut self,
        outlets: &Outlets,
        title: &Title,
        message: &Message,
    ) -> Result<ListBox<Receive>, Lack> {
        let office = self.offices.of_mut(title.context);
        let buffer = match office.desk.arrive(title) {
            None => {
                let shared = office.get_shared(outlets, title, message);
                return shared.ok_or(Lack::Receive);
            }
            Some(Taker::One(receive)) => return Ok(receive),
            Some(Taker::Several(buffer)) => buffer,
        };
        let helper = match office.placed.is_empty() {
            true => office.helper(outlets),
            false => None,
        };
        let helper = helper.ok_or(Lack::Room(buffer))?;
        let place = office.cut(buffer, message.len);
        let goal = place.map(Goal::Place);
        office.help(outlets, helper, goal).ok_or(Lack::Receive)
    }

    /// Has a message wait for what it lacks.
    pub(super) fn wait(&mut self, outlets: &Outlets, mut letter: ListBox<Letter>, lacks: Lack) {
        let is_holding = self.is_holding();
        let at = letter.title.context;
        let office = self.offices.of_mut(at);
        if let Lack::Room(buffer) = lacks {
            letter.goal = office.cut(buffer, letter.message.len).map(Goal::Place);
        }
        if letter.goal.is_some() {
            office.placed.push(letter);
        } else if let Some((posted, letter)) = office.queue(outlets, letter, is_holding) {
            self.started(outlets, posted, letter);
        }
        self.is_starving |= self.offices.of(at).is_starving();
    }

    /// Hands over some of the messages that have got something, as far as there is room to tell of them;
    /// whether to come again at once.
    pub(super) fn deliver(&mut self, outlets: &Outlets) -> bool {
        let mut offices = 0..self.offices.len() as u8;
        offices.any(|at| self.deliver_at(outlets, at))
    }

    pub(super) fn deliver_at(&mut self, outlets: &Outlets, at: u8) -> bool {
        for _ in 0..BATCH {
            let office = self.offices.of_mut(at);
            if office.placed.is_empty() {
                return false;
            }
            let Some(helper) = office.helper(outlets) else {
                return false;
            };
            let letter = office.placed.pop();
            let Some(mut letter) = letter else {
                office.help(outlets, helper, None);
                return false;
            };
            let goal = letter.goal.take();
            if let Some(Goal::Nowhere) = goal {
                outlets.release(helper.office);
            }
            if let Some(receive) = office.help(outlets, helper, goal) {
                self.hand_over(outlets, receive, &letter);
            }
        }
        !self.offices.of(at).placed.is_empty()
    }

    /// Ends a receive that takes no more messages, as the consumer does not want it; once all that is in its
    /// buffer is over. Room has been taken to tell of it.
    pub(super) fn end_several(&mut self, outlets: &Outlets, mut receive: ListBox<Receive>) {
        receive.kind = Kind::Several { is_cancelled: true };
        let office = self.offices.of_mut(receive.office);
        if let Some(receive) = office.buffers.retire(receive) {
            self.give_up_receive(outlets, receive, Errno::ECANCELED);
        }
    }
}

impl Office {
    /// A receive for a message that has got something, and room to tell of it.
    pub(super) fn helper(&mut self, outlets: &Outlets) -> Option<ListBox<Receive>> {
        let helper = self.helpers.pop()?;
        if outlets.reserve(helper.office) {
            return Some(helper);
        }
        self.helpers.push(helper);
        None
    }

    /// Has it receive a message that has got that; if it has got nothing it is not needed.
    pub(super) fn help(
        &mut self,
        outlets: &Outlets,
        mut helper: ListBox<Receive>,
        goal: Option<Goal>,
    ) -> Option<ListBox<Receive>> {
        match goal {
            Some(goal) => {
                helper.help(goal);
                Some(helper)
            }
            None => {
                outlets.release(helper.office);
                self.helpers.push(helper);
                None
            }
        }
    }

    /// Takes a place for a message of `len` bytes in the buffer of a receive that waits.
    fn cut(&mut self, buffer: u32, len: u64) -> Option<Place> {
        let place = self.buffers.cut(buffer, len);
        if !self.buffers.takes_more(buffer) {
            let is = |receive: &Receive| receive.number() == buffer;
            if let Some(receive) = self.desk.cancel(false, is) {
                self.retire(receive);
            }
        }
        place
    }

    /// A receive takes no more messages.
    fn retire(&mut self, receive: ListBox<Receive>) {
        if let Some(receive) = self.buffers.retire(receive) {
            self.put_back(receive);
        }
    }

    /// Posts a receive for several messages, into memory that begins at `at`: it waits until less than
    /// `least` bytes of that are left. Those that are there have places then, and are to be
    /// [`delivered`](Traffic::deliver).
    pub(super) fn post_several(
        &mut self,
        mut receive: ListBox<Receive>,
        at: usize,
        least: usize,
        wish: Wish,
    ) {
        receive.wish = wish;
        receive.kind = Kind::Several {
            is_cancelled: false,
        };
        let number = receive.number();
        let memory = mem::replace(&mut receive.into, DstBuf::EMPTY);
        self.buffers.open(&receive, (at, memory), least);
        let Self { desk, buffers, .. } = self;
        let mut placed = desk.claim_several(&receive.wish, |letter| {
            letter.goal = buffers.cut(number, letter.message.len).map(Goal::Place);
            letter.goal.is_some()
        });
        self.placed.append(&mut placed);
        match self.buffers.takes_more(number) {
            true => self.desk.wait_on(receive),
            false => self.retire(receive),
        }
    }
}
