// SPDX-License-Identifier: GPL-2.0

//! Who has a connection, where there are only so many: those wait in order who want one, and those make
//! room that use theirs least.
//!
//! A peer that asks while there is no room is told that it is being asked itself, which it is when its turn
//! comes: so those who come from outside wait in the same row. Whoever has been told so keeps the room
//! for it a while, or two that are both full would never meet.

use super::{
    agenda::Task,
    limits::Limits,
    link::State,
    links::{
        Known,
        Links, //
    },
    peer::mirror,
    station::{
        Bound,
        Station, //
    },
    traffic::MOST_LANES, //
};
use crate::fi::prelude::*;

/// How long connections have to make room before others are asked to.
const PATIENCE: Delta = Delta::from_millis(20);

/// How often somebody looks after connections that are to end.
const PARTING: Delta = Delta::from_secs(1);

/// And for peers that can be forgotten, where no connection ends by itself.
const ROUND: Delta = Delta::from_secs(60);

/// How long something is left alone that another module's provider has no room for.
const STARVED: Delta = Delta::from_millis(10);

/// Peers that wait for room, beyond which those are not remembered that come from outside.
const CROWD: usize = MOST_LANES;

impl Links {
    /// Whether there is no room for another connection.
    pub(super) fn is_full(&self, limits: &Limits) -> bool {
        let expected = self.list.iter().flatten();
        let expected = expected.filter(|known| known.link.state() == State::Expecting);
        limits.are_reached(expected.count())
    }

    /// Whether that connection has its room.
    pub(super) fn has_place(&mut self, slot: u32) -> bool {
        self.known(slot)
            .is_ok_and(|known| known.link.state() != State::Idle)
    }

    /// How many wait for room.
    fn waiting(&self) -> usize {
        let waiting = self.list.iter().flatten();
        waiting
            .filter(|known| known.link.ticket().is_some())
            .count()
    }

    /// Whether some do.
    pub(super) fn are_waiting(&self) -> bool {
        self.waiting() > 0
    }

    /// Whether there are enough.
    pub(super) fn is_crowded(&self) -> bool {
        self.waiting() >= CROWD
    }

    /// Has a peer wait for room, unless its connection has that.
    pub(super) fn wait(&mut self, slot: u32) {
        let ticket = self.tickets;
        if self.known(slot).is_ok_and(|known| known.link.wait(ticket)) {
            self.tickets += 1;
        }
    }

    /// Has one that is expected to ask itself wait behind the others.
    pub(super) fn step_back(&mut self, slot: u32) {
        if self.known(slot).is_ok_and(|known| known.link.step_back()) {
            self.wait(slot);
        }
    }

    /// Who has waited longest.
    fn first(&self) -> Option<u32> {
        let all = self.list.iter().zip(0..);
        let waiting = all.filter_map(|(known, slot)| Some((known.as_ref()?.link.ticket()?, slot)));
        waiting.min().map(|(_, slot)| slot)
    }
}

impl Station {
    /// Does what it is time for.
    pub(super) fn keep_time(&self, here: ProcessContext, bound: &Bound, links: &mut Links) {
        while let Some(task) = links.agenda.due() {
            match task {
                Task::Ask => self.ask_again(here, bound, links),
                // Whoever gives it away sees to the rest.
                Task::Room => self.traffic.lock().look_around(),
                Task::Part => self.with(|traffic, outlets| traffic.look_at_partings(outlets)),
                Task::Sweep => self.sweep(here, bound, links),
                Task::Resume => self.resume_abroad(),
            }
        }
    }

    /// Has somebody come back when it is time for something.
    pub(super) fn set_alarm(&self, bound: &Bound, links: &mut Links) {
        let (are_parting, is_starving) = self.with(|traffic, _| {
            let is_starving = mem::take(&mut traffic.is_starving);
            (traffic.are_parting, is_starving)
        });
        if are_parting {
            links.agenda.plan(Task::Part, PARTING);
        }
        if is_starving {
            links.agenda.plan(Task::Resume, STARVED);
        }
        if links.list.iter().flatten().next().is_some() {
            let idle = self.limits.idle();
            links.agenda.plan(Task::Sweep, idle.unwrap_or(ROUND));
        }
        if let Some(after) = links.agenda.news() {
            bound.clock.arm(&mut links.alarm, after);
        }
    }

    /// Gives room to who has waited longest, or has others make it: whether there is more to do at once.
    pub(super) fn give_room(&self, here: ProcessContext, bound: &Bound, links: &mut Links) -> bool {
        let Some(slot) = links.first() else {
            return false;
        };
        if links.is_full(&self.limits) {
            links.agenda.plan(Task::Room, PATIENCE);
            return self.with(|traffic, outlets| {
                traffic.make_room(outlets, links.waiting());
                traffic.is_calling()
            });
        }
        self.want(here, bound, links, slot);
        true
    }

    /// Has connections end that nobody uses, and forgets peers of which there is nothing to know.
    fn sweep(&self, here: ProcessContext, bound: &Bound, links: &mut Links) {
        if self.limits.idle().is_some() {
            self.with(|traffic, outlets| traffic.dismiss_idle(outlets));
        }
        for slot in (0..links.list.len() as u32).step_by(2) {
            self.forget(here, bound, links, slot);
        }
    }

    /// Forgets a peer, if there is nothing to know of it but where it is: it has another number when it
    /// comes again.
    pub(super) fn forget(&self, here: ProcessContext, bound: &Bound, links: &mut Links, slot: u32) {
        let slots = [slot & !1, mirror(slot)];
        let is_known =
            |known: &Known| known.link.state() != State::Idle || known.link.ticket().is_some();
        if slots
            .iter()
            .any(|&slot| links.known(slot).is_ok_and(|known| is_known(known)))
        {
            return;
        }
        let Some(left) = self.traffic.lock().forget(slots) else {
            return;
        };
        drop(left);
        for slot in slots {
            if let Some(known) = links.list.get_mut(slot as usize) {
                *known = None;
            }
        }
        // Nobody else takes it away.
        let _ = bound.ways.remove(here, u64::from(slot / 2));
    }
}
