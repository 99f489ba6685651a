// SPDX-License-Identifier: GPL-2.0

//! Receives of the consumer's: they are posted, find a message that waits, fetch it, or are taken back.

use super::{
    arriving::Mail,
    bounce::Incoming,
    matching::Wish,
    outlets::{
        Looking,
        Outlets, //
    },
    receive::{
        Body,
        Fetch,
        Letter,
        Receive, //
    },
    traffic::Traffic, //
};
use crate::{
    abi::{
        nodes::Own,
        Errno,
        Result, //
    },
    fi::memory::Context,
};
use core::mem;

impl Traffic {
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
    pub(super) fn hand_over(
        &mut self,
        outlets: &Outlets,
        mut receive: Own<Receive>,
        letter: &Letter,
    ) {
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

    /// A receive has taken a message that is to be fetched.
    pub(super) fn fetch(&mut self, outlets: &Outlets, mut receive: Own<Receive>, fetch: Fetch) {
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
