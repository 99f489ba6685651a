// SPDX-License-Identifier: GPL-2.0

//! Messages that wait and are looked at, kept for somebody, or dropped.

use super::{
    iov::DstBuf,
    matching::Wish,
    outlets::{
        Looking,
        Outlets, //
    },
    receive::Letter,
    traffic::Traffic, //
};
use crate::{
    fi::prelude::*,
    util::owned_list::ListBox, //
};

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

impl Traffic {
    /// Looks for the message that a receive of the context `at` would take, and tells of it; it waits on, or
    /// `fate` is done to it.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN if there is no receive to take it with.
    pub(super) fn peek(
        &mut self,
        outlets: &Outlets,
        at: u8,
        (wish, fate): (&Wish, Fate),
        told: &Looking,
    ) -> Result {
        let office = self.offices.of_mut(at);
        let found = office.desk.look(wish);
        let Some((title, message)) = found.map(|letter| (letter.title, letter.message)) else {
            outlets.not_seen(at, told);
            return Ok(());
        };
        if fate == Fate::Discard && office.receives_left() == 0 {
            return Err(Errno::EAGAIN);
        }
        outlets.seen(at, told, &title, &message, message.len as usize);
        if fate == Fate::Stay {
            return Ok(());
        }
        if let Some(mut letter) = office.desk.claim(wish) {
            if fate == Fate::Claim {
                letter.claim = Some(told.context);
                office.claimed.push(letter);
            } else {
                self.discard(outlets, &letter);
            }
        }
        Ok(())
    }

    /// Takes the message that a context has claimed.
    fn claimed(&mut self, at: u8, told: &Looking) -> Result<ListBox<Letter>> {
        let is = |letter: &Letter| letter.claim == Some(told.context);
        let claimed = &mut self.offices.of_mut(at).claimed;
        claimed.remove_first_where(is).ok_or(Errno::EINVAL)
    }

    /// Has a receive take the message that was claimed for it.
    ///
    /// # Errors
    ///
    /// As of [`Self::discard_claimed`].
    pub(super) fn receive_claimed(
        &mut self,
        outlets: &Outlets,
        at: u8,
        into: DstBuf,
        told: &Looking,
    ) -> Result {
        let mut receive = self.receive(at, into, told).ok_or(Errno::EAGAIN)?;
        match self.claimed(at, told) {
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

    /// Drops a claimed message, and tells of it.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if there is none, -FI_EAGAIN if there is no receive to take it with.
    pub(super) fn discard_claimed(&mut self, outlets: &Outlets, at: u8, told: &Looking) -> Result {
        if self.offices.of(at).receives_left() == 0 {
            return Err(Errno::EAGAIN);
        }
        let letter = self.claimed(at, told)?;
        outlets.seen(at, told, &letter.title, &letter.message, 0);
        self.discard(outlets, &letter);
        Ok(())
    }

    /// Takes a message to nowhere: its sender knows no difference.
    fn discard(&mut self, outlets: &Outlets, letter: &Letter) {
        let office = self.offices.of_mut(letter.title.context);
        if let Some(mut receive) = office.spare() {
            receive.is_told = true;
            self.hand_over(outlets, receive, letter);
            self.go_on(outlets);
        }
    }
}
