// SPDX-License-Identifier: GPL-2.0

//! How a connection between two endpoints comes about, whoever begins, and how it ends.
//!
//! One connection is all that two endpoints have, and both may ask for it at once: then the request of
//! the higher address stands, and the other side refuses its own. What is said to the peer and done with
//! endpoints is the caller's; here is only what it comes to, which libfabric's `ofi_rxm` sees alike.

#[cfg(CONFIG_KUNIT = "y")]
mod tests;

use super::wire::{
    Identity,
    Refusal, //
};
use core::{
    cmp::Ordering,
    net::{
        IpAddr,
        SocketAddr, //
    },
};

/// How far it has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Nobody has asked for it.
    Idle,
    /// Asked for, and not answered.
    Asking,
    /// Refused, as the peer is asking itself: its request is on its way.
    Expecting,
    /// The peer's request has been accepted.
    Answering(Identity),
    /// It is there.
    Open(Identity),
}

/// What is to be done about a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Accept it.
    Accept,
    /// Accept the peer's request, and drop our own.
    Replace,
    /// Refuse it: there is a connection, or there will be.
    Refuse,
}

/// How often a peer may say that it is asking itself, and not do so: for two seconds at least.
const MOST_MISSES: u32 = 100;

/// The same of one who has said nothing that was understood.
const SOME_MISSES: u32 = 5;

/// The connection with one peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Link {
    state: State,
    /// How often its request has not come.
    misses: u32,
    /// Its number among those who wait for others to make room, while it is [`State::Idle`].
    ticket: Option<u64>,
}

impl Link {
    /// None yet.
    pub(super) const fn new() -> Self {
        Self {
            state: State::Idle,
            misses: 0,
            ticket: None,
        }
    }

    /// How far it has come.
    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Its number among those who wait for room, if it does.
    pub(super) fn ticket(&self) -> Option<u64> {
        self.ticket
    }

    /// There is no room: it waits with that number, unless it has room or waits already. Whether the number is
    /// its own.
    pub(super) fn wait(&mut self, ticket: u64) -> bool {
        let begins = self.state == State::Idle && self.ticket.is_none();
        if begins {
            self.ticket = Some(ticket);
        }
        begins
    }

    /// Somebody wants it, and there is room: whether to ask the peer.
    pub(super) fn want(&mut self) -> bool {
        let is_idle = self.state == State::Idle;
        if is_idle {
            self.begin(State::Asking);
        }
        is_idle
    }

    /// It has room, and does not wait any more.
    fn begin(&mut self, state: State) {
        self.state = state;
        self.ticket = None;
    }

    /// The peer's request has not come for long: whether to ask once more.
    pub(super) fn miss(&mut self) -> bool {
        self.stop_expecting(State::Asking)
    }

    /// The same, but others come first: nobody asks for it now. Whether it was so.
    pub(super) fn step_back(&mut self) -> bool {
        self.stop_expecting(State::Idle)
    }

    fn stop_expecting(&mut self, next: State) -> bool {
        let is_missed = self.state == State::Expecting;
        if is_missed {
            self.state = next;
            self.misses += 1;
        }
        is_missed
    }

    /// Handles a connection request; `order` compares the peer's address to our own. An existing connection is
    /// never replaced: the port in a request is not authenticated, and any process on the peer's host can claim
    /// it. A peer that has been restarted retries until the old connection has ended.
    pub(super) fn asked(&mut self, who: Identity, order: Ordering) -> Verdict {
        let verdict = match self.state {
            State::Idle | State::Expecting => Verdict::Accept,
            State::Asking if order == Ordering::Less => Verdict::Refuse,
            State::Asking => Verdict::Replace,
            State::Answering(_) | State::Open(_) => Verdict::Refuse,
        };
        if verdict != Verdict::Refuse {
            self.begin(State::Answering(who));
            self.misses = 0;
        }
        verdict
    }

    /// Our request has been accepted: whether it was there.
    pub(super) fn accepted(&mut self, who: Identity) -> bool {
        let was_asking = self.state == State::Asking;
        if was_asking {
            self.state = State::Open(who);
            self.misses = 0;
        }
        was_asking
    }

    /// What we have accepted is there: who the peer is, if that was so.
    pub(super) fn established(&mut self) -> Option<Identity> {
        let State::Answering(who) = self.state else {
            return None;
        };
        self.state = State::Open(who);
        Some(who)
    }

    /// Our request has been refused: whether that is the end of it.
    pub(super) fn refused(&mut self, why: Refusal) -> bool {
        if self.state != State::Asking {
            return false;
        }
        let is_end = match why {
            Refusal::Refused => true,
            Refusal::Already => self.misses >= MOST_MISSES,
            Refusal::Unknown => self.misses >= SOME_MISSES,
        };
        match is_end {
            true => self.lost(),
            false => self.state = State::Expecting,
        }
        is_end
    }

    /// It has ended, or has never come about.
    pub(super) fn lost(&mut self) {
        self.state = State::Idle;
        self.misses = 0;
    }
}

/// The order of addresses in which requests stand: of one family, that of their bytes on the wire.
pub(super) fn order(one: &SocketAddr, other: &SocketAddr) -> Ordering {
    let ip = match (one.ip(), other.ip()) {
        (IpAddr::V4(one), IpAddr::V4(other)) => one.octets().cmp(&other.octets()),
        (IpAddr::V6(one), IpAddr::V6(other)) => one.octets().cmp(&other.octets()),
        (one, other) => one.is_ipv6().cmp(&other.is_ipv6()),
    };
    ip.then(one.port().cmp(&other.port()))
}
