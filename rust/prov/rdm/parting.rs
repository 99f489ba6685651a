// SPDX-License-Identifier: GPL-2.0

//! Connections that end as they are not needed: [`farewell`](super::farewell) at work.
//!
//! A peer that does not understand that, as those in user space do not, is not asked. What it sends just
//! when its connection is closed is lost to it: so that is done only to make room for another, and if
//! nothing has come or gone for a while.

use super::{
    farewell::Business,
    outlets::Outlets,
    peer::{
        Lane,
        Peer,
        FETCHES,
        SEGMENTS, //
    },
    traffic::Traffic,
    wire::{
        Extensions,
        Farewell,
        Head,
        Malformed, //
    },
};
use kernel::prelude::*;

/// For how many looks of those who wait for room a connection has been quiet that is closed unasked: a second.
const QUIET: u32 = 50;

impl Lane {
    /// Whether its peer can be asked whether it may end.
    fn is_polite(&self) -> bool {
        self.extensions.have(Extensions::FAREWELL)
    }

    /// Whether it is to end, one way or another.
    fn is_ending(&self) -> bool {
        self.is_broken || self.parting.is_under_way()
    }
}

impl Peer {
    /// Whether something is to be sent by its connection that has not begun.
    fn has_more(&self) -> bool {
        !self.waiting.is_empty() || self.is_opening
    }

    /// What is under way by its connection, as far as this end has to do with it.
    fn business(&self) -> Business {
        let Some(lane) = &self.lane else {
            return Business::None;
        };
        let mut waiting = self.waiting.iter();
        let is_open = self.held > 0
            || lane.is_carrying
            || lane.fetches < FETCHES
            || !self.unanswered.is_empty()
            || !self.fetching.is_empty()
            || waiting.any(|packet| packet.is_begun())
            || self
                .partials
                .any(|collected| collected.attempt == lane.attempt && !collected.is_whole)
            // Who can be asked knows whether its messages are to be read yet, which wait for receives.
            || !lane.is_polite() && self.parked > 0;
        let not_begun = self.waiting.len() + usize::from(self.is_opening);
        match is_open {
            true => Business::Open,
            false if self.load > not_begun || lane.segments < SEGMENTS => Business::Settling,
            false => Business::None,
        }
    }

    /// Whether nothing is known of it but where it is.
    fn is_forgettable(&self) -> bool {
        self.lane.is_none()
            && self.load == 0
            && self.held == 0
            && self.parked == 0
            && self.fetching.is_empty()
            && !self.partials.any(|_| true)
            && self.call.is_some()
    }

    /// Whether its connection can make room for another, and how much that would hurt: the least where
    /// nothing is under way, and of those by the one that was used least recently.
    fn merit(&self) -> Option<(bool, u64)> {
        let lane = self.lane.as_ref()?;
        // Or one after the other would make room for the next before it has been of use.
        if !lane.credits.are_there() {
            return None;
        }
        let is_quiet = lane.is_polite() || lane.rest.rounds() >= QUIET;
        if !lane.is_open() || lane.is_ending() || !is_quiet {
            return None;
        }
        match self.business() {
            Business::None => Some((self.has_more(), lane.used)),
            Business::Settling => Some((true, lane.used)),
            Business::Open => None,
        }
    }
}

impl Traffic {
    /// Says what is to be said about the end of a peer's connection, where all has begun that can: whether
    /// more can now.
    pub(super) fn part(&mut self, slot: u32) -> bool {
        let Self { peers, flights, .. } = self;
        let Some(Some(peer)) = peers.get_mut(slot as usize) else {
            return false;
        };
        let (business, is_more) = (peer.business(), peer.has_more());
        let Some(lane) = peer.lane.as_mut().filter(|lane| lane.is_open()) else {
            return false;
        };
        let could_begin = lane.parting.may_begin();
        match lane.parting.word(business, is_more) {
            None => {}
            Some(word) if lane.is_polite() => {
                if lane.say(flights, &Head::Farewell(word)) {
                    lane.parting.said(word);
                }
            }
            Some(_) => {
                let attempt = lane.attempt;
                self.break_off(slot, attempt);
                return false;
            }
        }
        is_more && !could_begin && lane.parting.may_begin()
    }

    /// A peer begins something.
    ///
    /// # Errors
    ///
    /// It wanted its connection to end, and has no reason to.
    pub(super) fn interrupt(&mut self, slot: u32) -> core::result::Result<(), Malformed> {
        let lane = self.lane(slot);
        lane.map_or(Ok(()), |lane| lane.parting.interrupted())
    }

    /// A peer says something about the end of its connection.
    pub(super) fn hear_farewell(
        &mut self,
        slot: u32,
        word: Farewell,
    ) -> core::result::Result<(), Malformed> {
        let lane = self.lane(slot);
        let Some(lane) = lane else {
            return Ok(());
        };
        if !lane.is_polite() {
            return Err(Malformed("a farewell from somebody who knows none"));
        }
        let attempt = lane.attempt;
        let is_over = lane.parting.heard(word)?;
        self.are_parting = true;
        match is_over {
            true => self.break_off(slot, attempt),
            // Somebody is to see that it does not take for ever.
            false => self.call(slot),
        }
        Ok(())
    }

    /// A peer's connection is not needed any more.
    fn dismiss(&mut self, outlets: &Outlets, slot: u32) {
        let lane = self.lane(slot);
        if lane.is_some_and(|lane| lane.parting.wish()) {
            self.are_parting = true;
            self.pump(outlets, slot);
        }
    }

    /// Notes which connections nobody uses.
    pub(super) fn look_around(&mut self) {
        for peer in self.peers.iter_mut().flatten() {
            if let Some(lane) = &mut peer.lane {
                lane.rest.look(lane.used);
            }
        }
    }

    /// Has connections end until there are `count` of them that do.
    pub(super) fn make_room(&mut self, outlets: &Outlets, count: usize) {
        let lanes = self.peers.iter().flatten();
        let lanes = lanes.filter_map(|peer| peer.lane.as_ref());
        let ending = lanes.filter(|lane| lane.is_ending()).count();
        for _ in ending..count {
            let peers = self.peers.iter().enumerate();
            let merits = peers.filter_map(|(slot, peer)| Some((peer.as_ref()?.merit()?, slot)));
            let Some((_, slot)) = merits.min() else {
                break;
            };
            self.dismiss(outlets, slot as u32);
        }
    }

    /// Has connections end that nobody has used since the last time.
    pub(super) fn dismiss_idle(&mut self, outlets: &Outlets) {
        for slot in 0..self.peers.len() as u32 {
            let Some(peer) = self.peer(slot) else {
                continue;
            };
            let has_more = peer.has_more();
            let lane = peer.lane.as_mut();
            let Some(lane) = lane.filter(|lane| lane.is_open() && lane.is_polite()) else {
                continue;
            };
            // Somebody waits until the peer has room; at first it has told of none.
            let is_awaited = has_more || !lane.credits.are_there();
            if lane.idle.look(lane.used) > 0 && !is_awaited {
                self.dismiss(outlets, slot);
            }
        }
    }

    /// Looks after connections that are to end; a peer that has left one waiting has had its time.
    pub(super) fn look_at_partings(&mut self, outlets: &Outlets) {
        let mut are_parting = false;
        for slot in 0..self.peers.len() as u32 {
            let lane = self.lane(slot);
            let Some(lane) = lane.filter(|lane| lane.parting.is_under_way()) else {
                continue;
            };
            are_parting = true;
            let attempt = lane.attempt;
            match lane.parting.is_stuck() {
                true => self.break_off(slot, attempt),
                false => self.pump(outlets, slot),
            }
        }
        self.are_parting = are_parting;
    }

    /// Forgets a peer, both of its numbers, if nothing is known of it but where it is. What is left is to be
    /// dropped where one may sleep.
    pub(super) fn forget(&mut self, slots: [u32; 2]) -> Option<[Option<KBox<Peer>>; 2]> {
        let is_forgettable = slots
            .iter()
            .all(|&slot| self.peer(slot).is_none_or(|peer| peer.is_forgettable()));
        is_forgettable
            .then(|| slots.map(|slot| self.peers.get_mut(slot as usize).and_then(Option::take)))
    }
}
