// SPDX-License-Identifier: GPL-2.0

//! The end of one context, while others go on by the same connections.
//!
//! Nobody is told any more of what it has asked for. What no peer knows of is dropped at once. The rest
//! has [`GRACE`] to end by itself, as the device may have its memory, or a peer part of its message; where
//! it has not by then, the connection that it goes by is closed. Messages that wait for a receive context
//! stay: whoever opens it again receives them.

use super::{
    endpoint::Role,
    iov::DstBuf,
    office::Office,
    outlets::Outlets,
    posting::Packet,
    receive::{
        Goal,
        Kind,
        Receive, //
    },
    station::{
        Bound,
        Station, //
    },
    traffic::{
        break_off,
        Traffic, //
    },
};
use crate::{
    fi::prelude::*,
    util::owned_list::BoxList, //
};
use kernel::time::delay::fsleep;

/// How long what peers know of has to end by itself, in moments.
const GRACE: u32 = 250;

/// Between two looks at whether it has.
const MOMENT: Delta = Delta::from_millis(1);

/// What a context leaves, in memory that was allocated with it.
pub(super) struct Left {
    contexts: KVec<Context>,
    /// For how much of it room was taken in its completion queue.
    rooms: u32,
}

impl Left {
    /// Nothing, with room for what so many operations leave. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(most: usize) -> Result<Self> {
        Ok(Self {
            contexts: KVec::with_capacity(most, GFP_KERNEL)?,
            rooms: 0,
        })
    }

    /// For how many completions there was room.
    pub(super) fn rooms(&self) -> u32 {
        self.rooms
    }

    /// What the posters get back.
    pub(super) fn contexts(&self) -> &[Context] {
        &self.contexts
    }

    fn operation(&mut self, packet: &Packet) {
        if let Some(report) = packet.report() {
            self.rooms += 1;
            let _ = self.contexts.push_within_capacity(report.context);
        }
    }

    fn receive(&mut self, receive: &Receive) {
        self.rooms += u32::from(receive.has_room());
        // A buffer's is given back with its own receive.
        if !receive.is_helper() {
            let _ = self.contexts.push_within_capacity(receive.context);
        }
    }
}

impl Station {
    /// Ends what a context has under way, of which nobody is told any more. When it returns nothing
    /// touches the memory of that. May sleep, for [`GRACE`] and until connections are closed.
    pub(super) fn retire(&self, bound: &Bound, (role, context): (Role, u8), left: &mut Left) {
        // Nobody has an operation in hand meanwhile.
        let links = self.links.lock();
        let mut floor = self.traffic.lock();
        floor.sends.wake_refused();
        let outlet = floor.outlets.take(role, context);
        let (traffic, outlets) = floor.parts();
        match role {
            Role::Receives => traffic.retire_receives(outlets, context, left),
            _ => traffic.retire_transmits(outlets, context, left),
        }
        drop(floor);
        drop(links);
        drop(outlet);
        for moments in 0.. {
            self.settle();
            let is_late = moments >= GRACE;
            let is_over = self.with(|traffic, _| match role {
                Role::Receives => traffic.has_received(context, is_late),
                _ => traffic.has_transmitted(context, is_late),
            });
            // Memory is to be closed, or connections.
            bound.kick();
            if is_over {
                return;
            }
            fsleep(MOMENT);
        }
    }
}

impl Traffic {
    /// Drops what a context has asked for and no peer knows of.
    fn retire_transmits(&mut self, outlets: &Outlets, by: u8, left: &mut Left) {
        let is_its = |packet: &Packet| packet.is_by(by);
        for packet in self.flights.iter().filter(|packet| is_its(packet)) {
            left.operation(packet);
        }
        let peers = self.peers.iter().flatten();
        let of_peers = peers.flat_map(|peer| [&peer.waiting, &peer.unanswered]);
        for queue in Iterator::chain([&self.strangers, &self.endings].into_iter(), of_peers) {
            for packet in queue.iter().filter(|packet| is_its(packet)) {
                left.operation(packet);
            }
        }
        let mut dropped = self.strangers.drain_where(is_its);
        while let Some(packet) = dropped.pop() {
            self.sends.put(packet);
        }
        for slot in 0..self.peers.len() as u32 {
            let Some(peer) = self.peer(slot) else {
                continue;
            };
            let waiting = &mut peer.waiting;
            let mut dropped = waiting.drain_where(|packet| is_its(packet) && !packet.is_begun());
            while let Some(packet) = dropped.pop() {
                self.finish(outlets, packet, Err(Errno::ECANCELED));
            }
        }
    }

    /// Whether nothing of a context's is under way; what is when it `is_late` ends with its connection.
    fn has_transmitted(&mut self, by: u8, is_late: bool) -> bool {
        let is_its = |packet: &Packet| packet.is_by(by);
        let Self {
            flights,
            peers,
            calls,
            endings,
            ..
        } = self;
        let mut is_over = !endings.iter().any(&is_its);
        for packet in flights.iter().filter(|packet| is_its(packet)) {
            is_over = false;
            if is_late {
                break_off(peers, calls, packet.slot, packet.attempt);
            }
        }
        for peer in peers.iter_mut().flatten() {
            let known = [&peer.waiting, &peer.unanswered];
            let is_known = known.map(|queue| queue.iter().any(&is_its));
            if is_known.contains(&true) {
                is_over = false;
                if is_late {
                    peer.break_off(calls);
                }
            }
        }
        is_over
    }

    /// Takes the memory of a context's receives from them: those that have taken messages are kept for what
    /// is left to be said of these.
    fn retire_receives(&mut self, outlets: &Outlets, at: u8, left: &mut Left) {
        let Self {
            offices,
            peers,
            fetches,
            ..
        } = self;
        offices.of_mut(at).vacate(left);
        let mut retire = |receive: &mut Receive| {
            if receive.office != at {
                return;
            }
            if !receive.is_told {
                left.receive(receive);
                outlets.given_up(offices, receive, Errno::ECANCELED);
            }
            receive.into = DstBuf::EMPTY;
        };
        for receive in fetches.iter_mut() {
            retire(receive);
        }
        for peer in peers.iter_mut().flatten() {
            peer.fetching.for_each_mut(&mut retire);
            peer.partials.change(|collected| {
                if let Some(receive) = &mut collected.receive {
                    retire(receive);
                }
            });
        }
    }

    /// Whether no device has memory of a context's receives; what has when it `is_late` ends with its
    /// connection.
    fn has_received(&mut self, at: u8, is_late: bool) -> bool {
        let Self {
            fetches,
            peers,
            calls,
            ..
        } = self;
        let mut is_over = true;
        for receive in fetches.iter().filter(|receive| receive.office == at) {
            is_over = false;
            if let (true, Some(fetch)) = (is_late, &receive.fetch) {
                break_off(peers, calls, fetch.slot, fetch.attempt);
            }
        }
        is_over
    }
}

impl Office {
    /// Gives back what is posted; messages wait for whoever comes next.
    fn vacate(&mut self, left: &mut Left) {
        self.buffers.each_spent(|receive| left.receive(receive));
        let mut letters = BoxList::new();
        while let Some(mut letter) = self.placed.pop() {
            if let Some(Goal::Place(place)) = letter.goal.take() {
                if let Some(receive) = self.buffers.over(place.of) {
                    self.buffers.release(receive);
                }
            }
            letters.push(letter);
        }
        while let Some(mut letter) = self.claimed.pop() {
            letter.claim = None;
            letters.push(letter);
        }
        self.desk.wait_first(letters);
        for mut side in self.desk.take_receives() {
            while let Some(receive) = side.pop() {
                left.receive(&receive);
                let unused = match receive.kind {
                    Kind::Several { .. } => self.buffers.retire(receive),
                    _ => Some(receive),
                };
                if let Some(receive) = unused {
                    self.put_back(receive);
                }
            }
        }
    }
}
