// SPDX-License-Identifier: GPL-2.0

//! State machine of a connection's establishment, simultaneous requests included. Pure: no locks, no I/O.
//!
//! Two endpoints share one connection. If both send requests at once, the request of the endpoint with the higher
//! address is kept: that endpoint rejects the other request, and its peer drops its own request and accepts.
//! libfabric's `ofi_rxm` follows the same rule. The caller sends the messages and opens the lower endpoints.

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

/// State of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum State {
    /// There is no connection and no request. The peer may be in the queue for admission.
    Idle,
    /// The own request is outstanding.
    Connecting,
    /// The peer rejected the own request with [`RejectReason::Already`], because the peer's request is in flight, or
    /// will be when the peer has a connection free, or with [`RejectReason::Unknown`]. The peer's request is awaited
    /// until a timeout.
    AwaitingPeer,
    /// The peer's request, which has this connection id, has been accepted.
    Accepting(ConnId),
    /// The connection is established; the peer has this connection id.
    Connected(ConnId),
}

/// Action for a connection request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum ConnReqAction {
    /// Accept the request.
    Accept,
    /// Accept the request, and drop the own one.
    Replace,
    /// Reject the request: a connection exists or is being established.
    Reject,
}

/// Number of timeouts after which another rejection with [`RejectReason::Already`] is final. They take two seconds at
/// least.
const MAX_TIMEOUTS: u32 = 100;

/// Number of timeouts after which another rejection without data ([`RejectReason::Unknown`]) is final.
const MAX_TIMEOUTS_UNKNOWN: u32 = 5;

/// State machine of the connection to one peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct ConnFsm {
    state: State,
    /// Number of times that the peer's request did not arrive in time.
    timeouts: u32,
    /// Sequence number in the queue for admission; `None` if the peer is not queued. Set only in [`State::Idle`].
    wait_seq: Option<u64>,
}

impl ConnFsm {
    /// Creates the state machine.
    pub(in super::super) const fn new() -> Self {
        Self {
            state: State::Idle,
            timeouts: 0,
            wait_seq: None,
        }
    }

    /// Returns the state.
    pub(in super::super) fn state(&self) -> State {
        self.state
    }

    /// Returns the sequence number in the queue for admission.
    pub(in super::super) fn wait_seq(&self) -> Option<u64> {
        self.wait_seq
    }

    /// Enters the queue for admission with the number `wait_seq`. Returns false, without using the number, if a
    /// connection exists or the peer is queued.
    pub(in super::super) fn enqueue(&mut self, wait_seq: u64) -> bool {
        let is_new = self.state == State::Idle && self.wait_seq.is_none();
        if is_new {
            self.wait_seq = Some(wait_seq);
        }
        is_new
    }

    /// Starts a connection. Returns true if a request has to be sent.
    pub(in super::super) fn start(&mut self) -> bool {
        let is_idle = self.state == State::Idle;
        if is_idle {
            self.enter(State::Connecting);
        }
        is_idle
    }

    /// Changes the state and leaves the queue for admission.
    fn enter(&mut self, state: State) {
        self.state = state;
        self.wait_seq = None;
    }

    /// Handles the timeout of the peer's request. Returns true if a request has to be sent again.
    pub(in super::super) fn on_timeout(&mut self) -> bool {
        self.stop_awaiting(State::Connecting)
    }

    /// Handles the timeout of the peer's request while other peers wait for admission: goes back to idle. Returns
    /// true if the state has changed.
    pub(in super::super) fn leave_awaiting(&mut self) -> bool {
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

    /// Handles a connection request with the connection id `conn_id`; `order` compares the peer's address to the own one.
    /// A connection that exists or is being accepted is never replaced: the port in a request is not authenticated, and
    /// any process on the peer's host can claim it. A peer that has been restarted retries until the old connection has
    /// ended.
    pub(in super::super) fn on_connreq(
        &mut self,
        conn_id: ConnId,
        order: Ordering,
    ) -> ConnReqAction {
        let action = match self.state {
            State::Idle | State::AwaitingPeer => ConnReqAction::Accept,
            State::Connecting if order == Ordering::Less => ConnReqAction::Reject,
            State::Connecting => ConnReqAction::Replace,
            State::Accepting(_) | State::Connected(_) => ConnReqAction::Reject,
        };
        if action != ConnReqAction::Reject {
            self.enter(State::Accepting(conn_id));
            self.timeouts = 0;
        }
        action
    }

    /// Handles the reply to the own request. Returns false if no request was outstanding.
    pub(in super::super) fn on_accept(&mut self, conn_id: ConnId) -> bool {
        let was_connecting = self.state == State::Connecting;
        if was_connecting {
            self.state = State::Connected(conn_id);
            self.timeouts = 0;
        }
        was_connecting
    }

    /// Handles the establishment of an accepted connection. Returns the connection id of the peer, or `None` if no
    /// connection was being accepted.
    pub(in super::super) fn on_established(&mut self) -> Option<ConnId> {
        let State::Accepting(conn_id) = self.state else {
            return None;
        };
        self.state = State::Connected(conn_id);
        Some(conn_id)
    }

    /// Handles a rejection of the own request. Returns true if the peer is given up.
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

    /// Handles the end of a connection or of an attempt to connect.
    pub(in super::super) fn on_down(&mut self) {
        self.state = State::Idle;
        self.timeouts = 0;
    }
}

/// Compares addresses in the order that decides between simultaneous requests: IPv4 before IPv6, then by the bytes of
/// the IP address and of the port on the wire.
pub(in super::super) fn order(one: &SocketAddr, other: &SocketAddr) -> Ordering {
    let ip = match (one.ip(), other.ip()) {
        (IpAddr::V4(one), IpAddr::V4(other)) => one.octets().cmp(&other.octets()),
        (IpAddr::V6(one), IpAddr::V6(other)) => one.octets().cmp(&other.octets()),
        (one, other) => one.is_ipv6().cmp(&other.is_ipv6()),
    };
    ip.then(one.port().cmp(&other.port()))
}
