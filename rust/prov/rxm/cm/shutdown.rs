// SPDX-License-Identifier: GPL-2.0

//! Shutdown handshake, which ends an unused connection without losing a message. Pure: no locks, no I/O.
//!
//! The end that wants to close starts no operations, and sends ASK when it has none in flight. The other end starts
//! its deferred operations, then no more, and sends AGREE when they have completed, behind everything else. So the
//! connection is empty when AGREE arrives, and the first end disconnects. If an operation needs both ends, such as a
//! rendezvous, or cannot be started, the answer is STAY.
//!
//! If both ends send ASK, the acceptor yields. The end that has agreed waits for the disconnect, because on iWARP a
//! sent packet need not have arrived.

use super::super::wire::{
    ProtoError,
    ShutdownMsg, //
};

/// Operations of this end that are in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum OpsInFlight {
    /// No operation.
    None,
    /// Operations that complete without a packet of the peer.
    Local,
    /// Operations that need a packet of the peer.
    Remote,
}

/// State of the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The connection is in use.
    Connected,
    /// The endpoint has to close the connection.
    Requested,
    /// ASK has been sent.
    AskSent,
    /// ASK has been received; deferred operations are started first.
    AskReceived,
    /// ASK has been received, and the deferred operations have been started.
    Draining,
    /// AGREE has been sent.
    AgreeSent,
    /// Sending has stopped at both ends.
    Closed,
}

/// Handshake of one end.
pub(in super::super) struct ShutdownState {
    state: State,
    /// True if this end's ASK is ignored when both ends send one.
    yields: bool,
    /// Number of checks in the same state.
    age: u32,
}

impl ShutdownState {
    /// Creates the handshake of a new connection.
    pub(in super::super) const fn new(yields: bool) -> Self {
        Self {
            state: State::Connected,
            yields,
            age: 0,
        }
    }

    /// Returns whether operations may be started.
    #[inline]
    pub(in super::super) fn may_start_ops(&self) -> bool {
        matches!(self.state, State::Connected | State::AskReceived)
    }

    /// Returns whether a handshake is in progress.
    pub(in super::super) fn is_in_progress(&self) -> bool {
        self.state != State::Connected
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.age = 0;
    }

    /// Requests a shutdown. Returns false if a handshake is in progress.
    pub(in super::super) fn request(&mut self) -> bool {
        let is_new = self.state == State::Connected;
        if is_new {
            self.enter(State::Requested);
        }
        is_new
    }

    /// Returns the packet to send now, after all operations have been started that can be; `has_unstarted` tells
    /// whether others are left. The caller reports the packet to [`Self::msg_sent`].
    pub(in super::super) fn next_msg(
        &mut self,
        ops_in_flight: OpsInFlight,
        has_unstarted: bool,
    ) -> Option<ShutdownMsg> {
        if self.state == State::AskReceived && !has_unstarted {
            self.enter(State::Draining);
        }
        match (self.state, ops_in_flight) {
            (State::Requested, OpsInFlight::None) => Some(ShutdownMsg::Ask),
            (State::Requested, OpsInFlight::Remote) => {
                self.enter(State::Connected);
                None
            }
            (State::AskReceived, _) | (State::Draining, OpsInFlight::Remote) => {
                Some(ShutdownMsg::Stay)
            }
            (State::Draining, OpsInFlight::None) => Some(ShutdownMsg::Agree),
            _ => None,
        }
    }

    /// Handles a packet that has been sent.
    pub(in super::super) fn msg_sent(&mut self, msg: ShutdownMsg) {
        self.enter(match msg {
            ShutdownMsg::Ask => State::AskSent,
            ShutdownMsg::Agree => State::AgreeSent,
            ShutdownMsg::Stay => State::Connected,
        });
    }

    /// Handles a packet of the peer. Returns true if the endpoint has to close the connection now.
    ///
    /// # Errors
    ///
    /// The packet does not fit the state.
    pub(in super::super) fn on_msg(&mut self, msg: ShutdownMsg) -> Result<bool, ProtoError> {
        match (self.state, msg) {
            (State::Connected | State::Requested, ShutdownMsg::Ask) => {
                self.enter(State::AskReceived)
            }
            (State::AskSent, ShutdownMsg::Ask) if self.yields => self.enter(State::AskReceived),
            // The peer ignores the own ASK.
            (State::AskSent, ShutdownMsg::Ask) => {}
            (State::AskSent, ShutdownMsg::Agree) => self.enter(State::Closed),
            (State::AskSent, ShutdownMsg::Stay) => self.enter(State::Connected),
            _ => return Err(ProtoError("unexpected shutdown packet")),
        }
        Ok(self.state == State::Closed)
    }

    /// Handles a message of the peer.
    ///
    /// # Errors
    ///
    /// AGREE has been sent: the peer had no operation in flight and must not start one.
    pub(in super::super) fn on_message(&mut self) -> Result<(), ProtoError> {
        self.age = 0;
        match self.state {
            State::AgreeSent => Err(ProtoError(
                "message during the shutdown that the peer requested",
            )),
            _ => Ok(()),
        }
    }

    /// Counts a periodic check. Returns true if the peer has not answered for too long. A request that could not be
    /// sent for that long is dropped.
    pub(in super::super) fn is_timed_out(&mut self) -> bool {
        self.age += 1;
        let is_late = self.age > 2;
        if is_late && self.state == State::Requested {
            self.enter(State::Connected);
        }
        is_late && matches!(self.state, State::AskSent | State::AgreeSent)
    }
}

/// Counts periodic checks without a use.
pub(in super::super) struct IdleRounds {
    seen: u64,
    rounds: u32,
}

impl IdleRounds {
    /// Creates the counter.
    pub(in super::super) const fn new() -> Self {
        Self { seen: 0, rounds: 0 }
    }

    /// Counts a check; `used` identifies the last use. Returns the number of checks since then.
    pub(in super::super) fn update(&mut self, used: u64) -> u32 {
        self.rounds = match self.seen == used {
            true => self.rounds.saturating_add(1),
            false => 0,
        };
        self.seen = used;
        self.rounds
    }

    /// Returns the number of checks since the last use.
    pub(in super::super) fn rounds(&self) -> u32 {
        self.rounds
    }
}

/// Number of eviction checks, 20 ms apart, after which a connection is closed without its peer's consent: one second.
pub(in super::super) const GRACE_ROUNDS: u64 = 50;

/// Grace period of a connection that eviction checks have chosen, and that the handshake cannot end now.
///
/// Eviction checks are numbered; the first one has a number above [`GRACE_ROUNDS`].
pub(in super::super) struct EvictGrace {
    first: u64,
    last: u64,
}

impl EvictGrace {
    /// Creates the state of a connection that no check has found.
    pub(in super::super) const fn new() -> Self {
        Self { first: 0, last: 0 }
    }

    /// Records that the check `round` has asked the peer, or has found an operation that keeps the connection. The
    /// period begins anew if no check has done so for as long as it lasts.
    pub(in super::super) fn note(&mut self, round: u64) {
        if round > self.last + GRACE_ROUNDS {
            self.first = round;
        }
        self.last = round;
    }

    /// Returns whether the peer may be asked in the check `round`: once, so that a refusal is not followed by the
    /// next request at once.
    pub(in super::super) fn may_ask(&self, round: u64) -> bool {
        round > self.last
    }

    /// Returns whether the period has ended before the check `round`. It is longer for a connection `in_handshake`,
    /// whose peer may only be slow.
    pub(in super::super) fn is_over(&self, round: u64, in_handshake: bool) -> bool {
        let period = match in_handshake {
            true => 3 * GRACE_ROUNDS,
            false => GRACE_ROUNDS,
        };
        round <= self.last + GRACE_ROUNDS && round >= self.first + period
    }
}

#[kernel::prelude::kunit_tests(kofi_rdm_shutdown)]
mod tests {
    use super::*;
    use crate::util::random::SeededRandom;

    #[test]
    fn requester_closes_when_the_peer_agrees() -> Result<(), ProtoError> {
        let (mut one, mut other) = (ShutdownState::new(false), ShutdownState::new(true));
        assert!(one.request() && !one.request());
        assert!(!one.may_start_ops());
        assert_eq!(one.next_msg(OpsInFlight::Local, false), None);
        assert_eq!(
            one.next_msg(OpsInFlight::None, false),
            Some(ShutdownMsg::Ask)
        );
        one.msg_sent(ShutdownMsg::Ask);
        assert_eq!(one.next_msg(OpsInFlight::None, false), None);
        assert_eq!(other.on_msg(ShutdownMsg::Ask), Ok(false));
        assert!(other.may_start_ops() && !other.request());
        assert_eq!(other.next_msg(OpsInFlight::Local, false), None);
        assert!(!other.may_start_ops());
        assert_eq!(
            other.next_msg(OpsInFlight::None, false),
            Some(ShutdownMsg::Agree)
        );
        other.msg_sent(ShutdownMsg::Agree);
        assert!(!other.may_start_ops());
        assert!(one.on_msg(ShutdownMsg::Agree)?);
        Ok(())
    }

    #[test]
    fn operation_that_needs_both_ends_is_answered_with_stay() -> Result<(), ProtoError> {
        let (mut one, mut other) = (ShutdownState::new(false), ShutdownState::new(true));
        // Operations that have started meanwhile are completed.
        assert!(one.request());
        assert_eq!(one.next_msg(OpsInFlight::Remote, false), None);
        assert!(one.may_start_ops() && one.request());
        one.msg_sent(ShutdownMsg::Ask);
        assert!(!other.on_msg(ShutdownMsg::Ask)?);
        assert_eq!(
            other.next_msg(OpsInFlight::Remote, false),
            Some(ShutdownMsg::Stay)
        );
        other.msg_sent(ShutdownMsg::Stay);
        assert!(!one.on_msg(ShutdownMsg::Stay)?);
        // An operation that cannot be started now must not wait for another connection.
        assert!(!other.on_msg(ShutdownMsg::Ask)?);
        assert_eq!(
            other.next_msg(OpsInFlight::None, true),
            Some(ShutdownMsg::Stay)
        );
        other.msg_sent(ShutdownMsg::Stay);
        assert!(one.may_start_ops() && other.may_start_ops());
        Ok(())
    }

    #[test]
    fn unexpected_shutdown_packets_are_violations() {
        for msg in [ShutdownMsg::Agree, ShutdownMsg::Stay] {
            assert!(ShutdownState::new(false).on_msg(msg).is_err());
        }
        let mut shutdown = ShutdownState::new(true);
        assert_eq!(shutdown.on_msg(ShutdownMsg::Ask), Ok(false));
        assert!(shutdown.on_msg(ShutdownMsg::Ask).is_err() && shutdown.on_message().is_ok());
        shutdown.msg_sent(ShutdownMsg::Agree);
        assert!(shutdown.on_msg(ShutdownMsg::Ask).is_err() && shutdown.on_message().is_err());
    }

    #[test]
    fn handshake_times_out() {
        let mut shutdown = ShutdownState::new(false);
        assert!((0..10).all(|_| !shutdown.is_timed_out()));
        assert!(shutdown.request() && !shutdown.may_start_ops());
        assert!((0..10).all(|_| !shutdown.is_timed_out()));
        assert!(shutdown.may_start_ops());
        shutdown.msg_sent(ShutdownMsg::Ask);
        for _ in 0..10 {
            assert!(!shutdown.is_timed_out());
            assert!(shutdown.on_message().is_ok());
        }
        assert!((0..10).any(|_| shutdown.is_timed_out()));
    }

    #[test]
    fn idle_rounds_count_rounds_without_use() {
        let mut idle = IdleRounds::new();
        assert_eq!(idle.update(7), 0);
        assert_eq!((idle.update(7), idle.update(7)), (1, 2));
        assert_eq!(idle.rounds(), 2);
        assert_eq!(idle.update(8), 0);
    }

    #[test]
    fn evict_grace_ends_after_a_second_of_refusals() {
        let mut grace = EvictGrace::new();
        let begin = 1000;
        assert!(grace.may_ask(begin) && !grace.is_over(begin, false));
        for round in begin..begin + GRACE_ROUNDS {
            assert!(!grace.is_over(round, false));
            grace.note(round);
            assert!(!grace.may_ask(round) && grace.may_ask(round + 1));
        }
        let end = begin + GRACE_ROUNDS;
        assert!(grace.is_over(end, false) && !grace.is_over(end, true));
        // Later requests have a period of their own.
        let later = begin + 3 * GRACE_ROUNDS;
        assert!(!grace.is_over(later, false));
        grace.note(later);
        assert!(!grace.is_over(later + 1, false) && grace.is_over(later + GRACE_ROUNDS, false));
    }

    /// End of a connection, with the packets in flight to it, in order.
    struct End {
        shutdown: ShutdownState,
        msgs: [Option<ShutdownMsg>; 4],
        /// Number of messages in flight to the end.
        coming: u32,
        must_close: bool,
    }

    impl End {
        fn put(&mut self, msg: ShutdownMsg) {
            if let Some(place) = self.msgs.iter_mut().find(|place| place.is_none()) {
                *place = Some(msg);
            }
        }
    }

    /// Checks that no message is lost, whatever the ends do in whatever order, and that one end closes.
    #[test]
    fn random_handshakes_lose_no_message() -> Result<(), ProtoError> {
        const ROUNDS: u32 = match cfg!(CONFIG_KASAN) {
            true => 200,
            false => 5_000,
        };
        let mut random = SeededRandom::new(1);
        let mut collisions = 0;
        for _ in 0..ROUNDS {
            let mut ends = [true, false].map(|yields| End {
                shutdown: ShutdownState::new(yields),
                msgs: [None; 4],
                coming: 0,
                must_close: false,
            });
            let mut requests = 0;
            for _ in 0..400 {
                let [one, two] = &mut ends;
                let (here, there) = match random.next_below(2) {
                    0 => (one, two),
                    _ => (two, one),
                };
                match random.next_below(4) {
                    0 if here.shutdown.may_start_ops() => there.coming += 1,
                    1 => requests += u32::from(here.shutdown.request()),
                    2 => {
                        if let Some(msg) = here.shutdown.next_msg(OpsInFlight::None, false) {
                            here.shutdown.msg_sent(msg);
                            // The packet follows the messages, which are received first.
                            there.put(msg);
                        }
                    }
                    _ => {
                        here.coming = 0;
                        let [msg, idle @ ..] = here.msgs;
                        here.msgs = [idle[0], idle[1], idle[2], None];
                        if let Some(msg) = msg {
                            here.must_close = here.shutdown.on_msg(msg)?;
                        }
                    }
                }
                if ends.iter().any(|end| end.must_close) {
                    break;
                }
            }
            collisions += u32::from(requests > 1);
            assert!(ends.iter().any(|end| end.must_close));
            assert!(ends.iter().all(|end| end.coming == 0));
        }
        assert!(collisions > ROUNDS / 10);
        Ok(())
    }
}
