// SPDX-License-Identifier: GPL-2.0

//! How a connection between two endpoints comes about, whoever begins, and how it ends.
//!
//! One connection is all that two endpoints have, and both may ask for it at once: then the request of
//! the higher address stands, and the other side refuses its own. What is said to the peer and done with
//! endpoints is the caller's; here is only what it comes to, which libfabric's `ofi_rxm` sees alike.

#[cfg(CONFIG_KUNIT = "y")]
mod tests;

use super::super::wire::{
    ConnId,
    RejectReason, //
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
pub(in super::super) enum State {
    /// Nobody has asked for it.
    Idle,
    /// Asked for, and not answered.
    Connecting,
    /// Refused, as the peer is asking itself: its request is on its way.
    AwaitingPeer,
    /// The peer's request has been accepted.
    Accepting(ConnId),
    /// It is there.
    Connected(ConnId),
}

/// What is to be done about a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum ConnReqAction {
    /// Accept it.
    Accept,
    /// Accept the peer's request, and drop our own.
    Replace,
    /// Refuse it: there is a connection, or there will be.
    Reject,
}

/// How often a peer may say that it is asking itself, and not do so: for two seconds at least.
const MAX_TIMEOUTS: u32 = 100;

/// The same of one who has said nothing that was understood.
const MAX_TIMEOUTS_UNKNOWN: u32 = 5;

/// The connection with one peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct ConnFsm {
    state: State,
    /// How often its request has not come.
    timeouts: u32,
    /// Its number among those who wait for others to make room, while it is [`State::Idle`].
    wait_seq: Option<u64>,
}

impl ConnFsm {
    /// None yet.
    pub(in super::super) const fn new() -> Self {
        Self {
            state: State::Idle,
            timeouts: 0,
            wait_seq: None,
        }
    }

    /// How far it has come.
    pub(in super::super) fn state(&self) -> State {
        self.state
    }

    /// Its number among those who wait for room, if it does.
    pub(in super::super) fn wait_seq(&self) -> Option<u64> {
        self.wait_seq
    }

    /// There is no room: it waits with that number, unless it has room or waits already. Whether the number is
    /// its own.
    pub(in super::super) fn enqueue(&mut self, wait_seq: u64) -> bool {
        let is_new = self.state == State::Idle && self.wait_seq.is_none();
        if is_new {
            self.wait_seq = Some(wait_seq);
        }
        is_new
    }

    /// Somebody wants it, and there is room: whether to ask the peer.
    pub(in super::super) fn start(&mut self) -> bool {
        let is_idle = self.state == State::Idle;
        if is_idle {
            self.enter(State::Connecting);
        }
        is_idle
    }

    /// It has room, and does not wait any more.
    fn enter(&mut self, state: State) {
        self.state = state;
        self.wait_seq = None;
    }

    /// The peer's request has not come for long: whether to ask once more.
    pub(in super::super) fn on_timeout(&mut self) -> bool {
        self.stop_awaiting(State::Connecting)
    }

    /// The same, but others come first: nobody asks for it now. Whether it was so.
    pub(in super::super) fn yield_turn(&mut self) -> bool {
        self.stop_awaiting(State::Idle)
    }

    fn stop_awaiting(&mut self, next: State) -> bool {
        let was_awaiting = self.state == State::AwaitingPeer;
        if was_awaiting {
            self.state = next;
            self.timeouts += 1;
        }
        was_awaiting
    }

    /// Handles a connection request; `order` compares the peer's address to our own. An existing connection is
    /// never replaced: the port in a request is not authenticated, and any process on the peer's host can claim
    /// it. A peer that has been restarted retries until the old connection has ended.
    pub(in super::super) fn on_connreq(&mut self, who: ConnId, order: Ordering) -> ConnReqAction {
        let action = match self.state {
            State::Idle | State::AwaitingPeer => ConnReqAction::Accept,
            State::Connecting if order == Ordering::Less => ConnReqAction::Reject,
            State::Connecting => ConnReqAction::Replace,
            State::Accepting(_) | State::Connected(_) => ConnReqAction::Reject,
        };
        if action != ConnReqAction::Reject {
            self.enter(State::Accepting(who));
            self.timeouts = 0;
        }
        action
    }

    /// Our request has been accepted: whether it was there.
    pub(in super::super) fn on_accept(&mut self, who: ConnId) -> bool {
        let was_connecting = self.state == State::Connecting;
        if was_connecting {
            self.state = State::Connected(who);
            self.timeouts = 0;
        }
        was_connecting
    }

    /// What we have accepted is there: who the peer is, if that was so.
    pub(in super::super) fn on_established(&mut self) -> Option<ConnId> {
        let State::Accepting(who) = self.state else {
            return None;
        };
        self.state = State::Connected(who);
        Some(who)
    }

    /// Our request has been refused: whether that is the end of it.
    pub(in super::super) fn on_reject(&mut self, reason: RejectReason) -> bool {
        if self.state != State::Connecting {
            return false;
        }
        let is_final = match reason {
            RejectReason::Refused => true,
            RejectReason::Already => self.timeouts >= MAX_TIMEOUTS,
            RejectReason::Unknown => self.timeouts >= MAX_TIMEOUTS_UNKNOWN,
        };
        match is_final {
            true => self.on_down(),
            false => self.state = State::AwaitingPeer,
        }
        is_final
    }

    /// It has ended, or has never come about.
    pub(in super::super) fn on_down(&mut self) {
        self.state = State::Idle;
        self.timeouts = 0;
    }
}

/// The order of addresses in which requests stand: of one family, that of their bytes on the wire.
pub(in super::super) fn order(one: &SocketAddr, other: &SocketAddr) -> Ordering {
    let ip = match (one.ip(), other.ip()) {
        (IpAddr::V4(one), IpAddr::V4(other)) => one.octets().cmp(&other.octets()),
        (IpAddr::V6(one), IpAddr::V6(other)) => one.octets().cmp(&other.octets()),
        (one, other) => one.is_ipv6().cmp(&other.is_ipv6()),
    };
    ip.then(one.port().cmp(&other.port()))
}
