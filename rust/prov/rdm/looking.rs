// SPDX-License-Identifier: GPL-2.0

//! Messages that wait and are looked at, kept for somebody, or dropped.

use super::{
    bounce::Incoming,
    matching::Wish,
    outlets::{
        Looking,
        Outlets, //
    },
    receive::Letter,
    traffic::Traffic, //
};
use crate::abi::{
    nodes::Own,
    Errno,
    Result, //
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
        if fate == Fate::Discard && self.receives_left() == 0 {
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

    /// Drops a claimed message, and tells of it.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if there is none, -FI_EAGAIN if there is no receive to take it with.
    pub(super) fn discard_claimed(&mut self, outlets: &Outlets, told: &Looking) -> Result {
        if self.receives_left() == 0 {
            return Err(Errno::EAGAIN);
        }
        let letter = self.claimed(told)?;
        outlets.seen(told, &letter.title, &letter.message, 0);
        self.discard(outlets, &letter);
        Ok(())
    }

    /// Takes a message to nowhere: its sender knows no difference.
    fn discard(&mut self, outlets: &Outlets, letter: &Letter) {
        if let Some(mut receive) = self.spare() {
            receive.is_told = true;
            self.hand_over(outlets, receive, letter);
            self.go_on(outlets);
        }
    }
}
