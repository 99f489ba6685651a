// SPDX-License-Identifier: GPL-2.0

//! How two endpoints end a connection that is not needed, and lose nothing by it.
//!
//! Whoever wants that begins nothing new; when nothing of its own is under way it asks the other. The
//! other begins what was waiting, then nothing more, and agrees when that is over: what it says of that
//! comes behind all that it has sent. So there is nothing by the connection any more when the first has
//! heard it and closes. Where something is under way that needs both, such as a message that has been
//! offered, or something cannot begin now, they stay.
//!
//! If both ask, whoever has accepted the connection is not heard. Whoever has agreed waits for the other to
//! close: on iWARP, what is sent need not have arrived.

use super::super::wire::{
    ProtoError,
    ShutdownMsg, //
};

/// What is under way at this end of a connection, of what it has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum OpsInFlight {
    /// Nothing.
    None,
    /// What is over without a word from the peer's endpoint.
    Local,
    /// What is not.
    Remote,
}

/// How far it has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The connection is needed.
    Connected,
    /// It is not.
    Requested,
    /// The peer has been asked.
    AskSent,
    /// The peer has asked, and hears first what has waited.
    AskReceived,
    /// And that has begun.
    Draining,
    /// We have agreed.
    AgreeSent,
    /// Both know that the other sends nothing any more.
    Closed,
}

/// What a side knows.
pub(in super::super) struct ShutdownState {
    state: State,
    /// It is this side's request that is not heard if both ask.
    yields: bool,
    /// How often somebody has looked and found it in the same state.
    age: u32,
}

impl ShutdownState {
    /// Of a new connection.
    pub(in super::super) const fn new(yields: bool) -> Self {
        Self {
            state: State::Connected,
            yields,
            age: 0,
        }
    }

    /// Whether what is not under way may begin.
    #[inline]
    pub(in super::super) fn may_start_ops(&self) -> bool {
        matches!(self.state, State::Connected | State::AskReceived)
    }

    /// Whether it is about to end.
    pub(in super::super) fn is_in_progress(&self) -> bool {
        self.state != State::Connected
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.age = 0;
    }

    /// The connection is not needed: whether that is new.
    pub(in super::super) fn request(&mut self) -> bool {
        let is_new = self.state == State::Connected;
        if is_new {
            self.enter(State::Requested);
        }
        is_new
    }

    /// All has begun that can: whether there `has_unstarted`. What is to be said now, if anything; [`Self::said`]
    /// has it when it has been.
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

    /// It has been said.
    pub(in super::super) fn msg_sent(&mut self, msg: ShutdownMsg) {
        self.enter(match msg {
            ShutdownMsg::Ask => State::AskSent,
            ShutdownMsg::Agree => State::AgreeSent,
            ShutdownMsg::Stay => State::Connected,
        });
    }

    /// The peer has said it: whether the connection is to be closed now.
    ///
    /// # Errors
    ///
    /// It has no reason to.
    pub(in super::super) fn on_msg(&mut self, msg: ShutdownMsg) -> Result<bool, ProtoError> {
        match (self.state, msg) {
            (State::Connected | State::Requested, ShutdownMsg::Ask) => {
                self.enter(State::AskReceived)
            }
            (State::AskSent, ShutdownMsg::Ask) if self.yields => self.enter(State::AskReceived),
            // The peer will not hear of it.
            (State::AskSent, ShutdownMsg::Ask) => {}
            (State::AskSent, ShutdownMsg::Agree) => self.enter(State::Closed),
            (State::AskSent, ShutdownMsg::Stay) => self.enter(State::Connected),
            _ => return Err(ProtoError("a farewell without a reason")),
        }
        Ok(self.state == State::Closed)
    }

    /// The peer says something else.
    ///
    /// # Errors
    ///
    /// We have agreed: it had begun nothing that it had not ended, and begins nothing more.
    pub(in super::super) fn on_message(&mut self) -> Result<(), ProtoError> {
        self.age = 0;
        match self.state {
            State::AgreeSent => Err(ProtoError("a message behind a farewell")),
            _ => Ok(()),
        }
    }

    /// Somebody looks from time to time: whether the peer has left us waiting for that long. Who could not
    /// even ask for as long does not wish it any more.
    pub(in super::super) fn is_timed_out(&mut self) -> bool {
        self.age += 1;
        let is_late = self.age > 2;
        if is_late && self.state == State::Requested {
            self.enter(State::Connected);
        }
        is_late && matches!(self.state, State::AskSent | State::AgreeSent)
    }
}

/// For how long something has not been used, for who looks from time to time.
pub(in super::super) struct IdleRounds {
    seen: u64,
    rounds: u32,
}

impl IdleRounds {
    /// Nobody has looked.
    pub(in super::super) const fn new() -> Self {
        Self { seen: 0, rounds: 0 }
    }

    /// Somebody looks: it was last used then. For how many rounds it has not been.
    pub(in super::super) fn update(&mut self, used: u64) -> u32 {
        self.rounds = match self.seen == used {
            true => self.rounds.saturating_add(1),
            false => 0,
        };
        self.seen = used;
        self.rounds
    }

    /// How many that was the last time.
    pub(in super::super) fn rounds(&self) -> u32 {
        self.rounds
    }
}

#[kernel::prelude::kunit_tests(kofi_rdm_farewell)]
mod tests {
    use super::*;
    use crate::util::random::SeededRandom;

    #[test]
    fn who_asks_closes_when_the_other_agrees() -> Result<(), ProtoError> {
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
    fn they_stay_while_something_needs_both() -> Result<(), ProtoError> {
        let (mut one, mut other) = (ShutdownState::new(false), ShutdownState::new(true));
        // What has begun meanwhile is gone on with.
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
        // What cannot begin just now may not wait for another connection to be made.
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
    fn what_nobody_has_asked_for_is_refused() {
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
    fn nobody_waits_for_ever() {
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
    fn what_is_not_used_rests() {
        let mut idle = IdleRounds::new();
        assert_eq!(idle.update(7), 0);
        assert_eq!((idle.update(7), idle.update(7)), (1, 2));
        assert_eq!(idle.rounds(), 2);
        assert_eq!(idle.update(8), 0);
    }

    /// One end, and what is on its way to it, in order.
    struct End {
        shutdown: ShutdownState,
        msgs: [Option<ShutdownMsg>; 4],
        /// Messages that have been sent to it, and not yet taken.
        coming: u32,
        needs_registration: bool,
    }

    impl End {
        fn put(&mut self, msg: ShutdownMsg) {
            if let Some(place) = self.msgs.iter_mut().find(|place| place.is_none()) {
                *place = Some(msg);
            }
        }
    }

    /// Whatever the two do, and in whatever order: who closes has nothing coming, and one closes before long.
    #[test]
    fn nothing_is_lost() -> Result<(), ProtoError> {
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
                needs_registration: false,
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
                            // It comes behind the messages: those are taken before it is heard.
                            there.put(msg);
                        }
                    }
                    _ => {
                        here.coming = 0;
                        let [msg, idle @ ..] = here.msgs;
                        here.msgs = [idle[0], idle[1], idle[2], None];
                        if let Some(msg) = msg {
                            here.needs_registration = here.shutdown.on_msg(msg)?;
                        }
                    }
                }
                if ends.iter().any(|end| end.needs_registration) {
                    break;
                }
            }
            collisions += u32::from(requests > 1);
            assert!(ends.iter().any(|end| end.needs_registration));
            assert!(ends.iter().all(|end| end.coming == 0));
        }
        assert!(collisions > ROUNDS / 10);
        Ok(())
    }
}
