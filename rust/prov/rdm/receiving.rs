// SPDX-License-Identifier: GPL-2.0

//! Receives of the consumer's: they are posted, find a message that waits, fetch it, or are taken back.

use super::{
    arriving::Mail,
    iov::DstBuf,
    matching::{
        Title,
        Wish, //
    },
    outlets::{
        Looking,
        Outlets, //
    },
    receive::{
        Body,
        Fetch,
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

impl Traffic {
    /// Takes a receive of the context `at` that is not posted, if there is one, to be posted.
    pub(super) fn receive(
        &mut self,
        at: u8,
        into: DstBuf,
        told: &Looking,
    ) -> Option<ListBox<Receive>> {
        let mut receive = self.offices.of_mut(at).spare()?;
        receive.into = into;
        receive.context = told.context;
        receive.is_wanted = told.is_wanted;
        Some(receive)
    }

    /// Posts it.
    pub(super) fn post(&mut self, outlets: &Outlets, mut receive: ListBox<Receive>, wish: Wish) {
        receive.wish = wish;
        let office = self.offices.of_mut(receive.office);
        if let Some((receive, letter)) = office.desk.post(receive) {
            self.hand_over(outlets, receive, &letter);
        }
        self.go_on(outlets);
    }

    /// A receive has found its message.
    pub(super) fn hand_over(
        &mut self,
        outlets: &Outlets,
        receive: ListBox<Receive>,
        letter: &Letter,
    ) {
        let slot = letter.slot;
        self.drop_weight(slot, letter.weight());
        match &letter.body {
            Body::Whole(bytes) => {
                let len = receive.into.copy_from_slice(0, bytes);
                self.end_receive(outlets, receive, &letter.title, &letter.message, len);
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
            Body::Guest(_) => self.give_up_receive(outlets, receive, Errno::ECONNABORTED),
        }
    }

    /// A receive has its message, of which `len` bytes are there.
    pub(super) fn end_receive(
        &mut self,
        outlets: &Outlets,
        mut receive: ListBox<Receive>,
        title: &Title,
        message: &Message,
        len: usize,
    ) {
        outlets.received(&mut self.offices, &mut receive, title, message, len);
        self.put_back(receive);
    }

    /// Takes a receive back.
    ///
    /// # Errors
    ///
    /// -FI_ENOENT if it is not there, -FI_EAGAIN for one that takes several messages if there is no room to
    /// tell of it.
    pub(super) fn cancel(&mut self, outlets: &Outlets, at: u8, context: Context) -> Result {
        let mut refused = Errno::ENOENT;
        let mut is = |receive: &Receive| {
            let is_meant = receive.context == context;
            if is_meant && !receive.has_room() && !outlets.reserve(at) {
                refused = Errno::EAGAIN;
                return false;
            }
            is_meant
        };
        let desk = &mut self.offices.of_mut(at).desk;
        let found = desk.cancel(true, &mut is);
        let found = found.or_else(|| desk.cancel(false, is));
        let receive = found.ok_or(refused)?;
        match receive.kind {
            Kind::Several { .. } => self.end_several(outlets, receive),
            _ => self.give_up_receive(outlets, receive, Errno::ECANCELED),
        }
        Ok(())
    }

    /// Nothing will come of a receive.
    pub(super) fn give_up_receive(
        &mut self,
        outlets: &Outlets,
        mut receive: ListBox<Receive>,
        errno: Errno,
    ) {
        if receive.kind == Kind::Shared && self.offices.of(receive.office).has_left() {
            // What it has got is posted again.
            self.wait_on(receive);
            return;
        }
        outlets.given_up(&mut self.offices, &mut receive, errno);
        self.put_back(receive);
    }

    /// Takes back one that has been told of.
    #[inline(always)]
    pub(super) fn put_back(&mut self, receive: ListBox<Receive>) {
        self.offices.of_mut(receive.office).put_back(receive);
    }

    /// A receive has taken a message that is to be fetched.
    pub(super) fn fetch(&mut self, outlets: &Outlets, mut receive: ListBox<Receive>, fetch: Fetch) {
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
    pub(super) fn fetched(
        &mut self,
        outlets: &Outlets,
        mut receive: ListBox<Receive>,
        result: Result,
    ) {
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
                    peer.fetching.push_front(receive);
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
