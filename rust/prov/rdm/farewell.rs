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

use super::wire::{
    Farewell,
    Malformed, //
};

/// What is under way at this end of a connection, of what it has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Business {
    /// Nothing.
    None,
    /// What is over without a word from the peer's endpoint.
    Settling,
    /// What is not.
    Open,
}

/// How far it has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The connection is needed.
    Together,
    /// It is not.
    Wishing,
    /// The peer has been asked.
    Asking,
    /// The peer has asked, and hears first what has waited.
    Asked,
    /// And that has begun.
    Leaving,
    /// We have agreed.
    Agreed,
    /// Both know that the other sends nothing any more.
    Over,
}

/// What a side knows.
pub(super) struct Parting {
    state: State,
    /// It is this side's request that is not heard if both ask.
    yields: bool,
    /// How often somebody has looked and found it in the same state.
    age: u32,
}

impl Parting {
    /// Of a new connection.
    pub(super) const fn new(yields: bool) -> Self {
        Self {
            state: State::Together,
            yields,
            age: 0,
        }
    }

    /// Whether what is not under way may begin.
    #[inline]
    pub(super) fn may_begin(&self) -> bool {
        matches!(self.state, State::Together | State::Asked)
    }

    /// Whether it is about to end.
    pub(super) fn is_under_way(&self) -> bool {
        self.state != State::Together
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.age = 0;
    }

    /// The connection is not needed: whether that is new.
    pub(super) fn wish(&mut self) -> bool {
        let is_new = self.state == State::Together;
        if is_new {
            self.enter(State::Wishing);
        }
        is_new
    }

    /// All has begun that can: whether there `is_more`. What is to be said now, if anything; [`Self::said`]
    /// has it when it has been.
    pub(super) fn word(&mut self, business: Business, is_more: bool) -> Option<Farewell> {
        if self.state == State::Asked && !is_more {
            self.enter(State::Leaving);
        }
        match (self.state, business) {
            (State::Wishing, Business::None) => Some(Farewell::Ask),
            (State::Wishing, Business::Open) => {
                self.enter(State::Together);
                None
            }
            (State::Asked, _) | (State::Leaving, Business::Open) => Some(Farewell::Stay),
            (State::Leaving, Business::None) => Some(Farewell::Agree),
            _ => None,
        }
    }

    /// It has been said.
    pub(super) fn said(&mut self, word: Farewell) {
        self.enter(match word {
            Farewell::Ask => State::Asking,
            Farewell::Agree => State::Agreed,
            Farewell::Stay => State::Together,
        });
    }

    /// The peer has said it: whether the connection is to be closed now.
    ///
    /// # Errors
    ///
    /// It has no reason to.
    pub(super) fn heard(&mut self, word: Farewell) -> Result<bool, Malformed> {
        match (self.state, word) {
            (State::Together | State::Wishing, Farewell::Ask) => self.enter(State::Asked),
            (State::Asking, Farewell::Ask) if self.yields => self.enter(State::Asked),
            // The peer will not hear of it.
            (State::Asking, Farewell::Ask) => {}
            (State::Asking, Farewell::Agree) => self.enter(State::Over),
            (State::Asking, Farewell::Stay) => self.enter(State::Together),
            _ => return Err(Malformed("a farewell without a reason")),
        }
        Ok(self.state == State::Over)
    }

    /// The peer says something else.
    ///
    /// # Errors
    ///
    /// We have agreed: it had begun nothing that it had not ended, and begins nothing more.
    pub(super) fn interrupted(&mut self) -> Result<(), Malformed> {
        self.age = 0;
        match self.state {
            State::Agreed => Err(Malformed("a message behind a farewell")),
            _ => Ok(()),
        }
    }

    /// Somebody looks from time to time: whether the peer has left us waiting for that long. Who could not
    /// even ask for as long does not wish it any more.
    pub(super) fn is_stuck(&mut self) -> bool {
        self.age += 1;
        let is_late = self.age > 2;
        if is_late && self.state == State::Wishing {
            self.enter(State::Together);
        }
        is_late && matches!(self.state, State::Asking | State::Agreed)
    }
}

/// For how long something has not been used, for who looks from time to time.
pub(super) struct Rest {
    seen: u64,
    rounds: u32,
}

impl Rest {
    /// Nobody has looked.
    pub(super) const fn new() -> Self {
        Self { seen: 0, rounds: 0 }
    }

    /// Somebody looks: it was last used then. For how many rounds it has not been.
    pub(super) fn look(&mut self, used: u64) -> u32 {
        self.rounds = match self.seen == used {
            true => self.rounds.saturating_add(1),
            false => 0,
        };
        self.seen = used;
        self.rounds
    }

    /// How many that was the last time.
    pub(super) fn rounds(&self) -> u32 {
        self.rounds
    }
}

#[kernel::prelude::kunit_tests(kofi_rdm_farewell)]
mod tests {
    use super::*;
    use crate::util::random::SeededRandom;

    #[test]
    fn who_asks_closes_when_the_other_agrees() -> Result<(), Malformed> {
        let (mut one, mut other) = (Parting::new(false), Parting::new(true));
        assert!(one.wish() && !one.wish());
        assert!(!one.may_begin());
        assert_eq!(one.word(Business::Settling, false), None);
        assert_eq!(one.word(Business::None, false), Some(Farewell::Ask));
        one.said(Farewell::Ask);
        assert_eq!(one.word(Business::None, false), None);
        assert_eq!(other.heard(Farewell::Ask), Ok(false));
        assert!(other.may_begin() && !other.wish());
        assert_eq!(other.word(Business::Settling, false), None);
        assert!(!other.may_begin());
        assert_eq!(other.word(Business::None, false), Some(Farewell::Agree));
        other.said(Farewell::Agree);
        assert!(!other.may_begin());
        assert!(one.heard(Farewell::Agree)?);
        Ok(())
    }

    #[test]
    fn they_stay_while_something_needs_both() -> Result<(), Malformed> {
        let (mut one, mut other) = (Parting::new(false), Parting::new(true));
        // What has begun meanwhile is gone on with.
        assert!(one.wish());
        assert_eq!(one.word(Business::Open, false), None);
        assert!(one.may_begin() && one.wish());
        one.said(Farewell::Ask);
        assert!(!other.heard(Farewell::Ask)?);
        assert_eq!(other.word(Business::Open, false), Some(Farewell::Stay));
        other.said(Farewell::Stay);
        assert!(!one.heard(Farewell::Stay)?);
        // What cannot begin just now may not wait for another connection to be made.
        assert!(!other.heard(Farewell::Ask)?);
        assert_eq!(other.word(Business::None, true), Some(Farewell::Stay));
        other.said(Farewell::Stay);
        assert!(one.may_begin() && other.may_begin());
        Ok(())
    }

    #[test]
    fn what_nobody_has_asked_for_is_refused() {
        for word in [Farewell::Agree, Farewell::Stay] {
            assert!(Parting::new(false).heard(word).is_err());
        }
        let mut parting = Parting::new(true);
        assert_eq!(parting.heard(Farewell::Ask), Ok(false));
        assert!(parting.heard(Farewell::Ask).is_err() && parting.interrupted().is_ok());
        parting.said(Farewell::Agree);
        assert!(parting.heard(Farewell::Ask).is_err() && parting.interrupted().is_err());
    }

    #[test]
    fn nobody_waits_for_ever() {
        let mut parting = Parting::new(false);
        assert!((0..10).all(|_| !parting.is_stuck()));
        assert!(parting.wish() && !parting.may_begin());
        assert!((0..10).all(|_| !parting.is_stuck()));
        assert!(parting.may_begin());
        parting.said(Farewell::Ask);
        for _ in 0..10 {
            assert!(!parting.is_stuck());
            assert!(parting.interrupted().is_ok());
        }
        assert!((0..10).any(|_| parting.is_stuck()));
    }

    #[test]
    fn what_is_not_used_rests() {
        let mut rest = Rest::new();
        assert_eq!(rest.look(7), 0);
        assert_eq!((rest.look(7), rest.look(7)), (1, 2));
        assert_eq!(rest.rounds(), 2);
        assert_eq!(rest.look(8), 0);
    }

    /// One end, and what is on its way to it, in order.
    struct End {
        parting: Parting,
        words: [Option<Farewell>; 4],
        /// Messages that have been sent to it, and not yet taken.
        coming: u32,
        is_closed: bool,
    }

    impl End {
        fn put(&mut self, word: Farewell) {
            if let Some(place) = self.words.iter_mut().find(|place| place.is_none()) {
                *place = Some(word);
            }
        }
    }

    /// Whatever the two do, and in whatever order: who closes has nothing coming, and one closes before long.
    #[test]
    fn nothing_is_lost() -> Result<(), Malformed> {
        const ROUNDS: u32 = match cfg!(CONFIG_KASAN) {
            true => 200,
            false => 5_000,
        };
        let mut random = SeededRandom::new(1);
        let mut met = 0;
        for _ in 0..ROUNDS {
            let mut ends = [true, false].map(|yields| End {
                parting: Parting::new(yields),
                words: [None; 4],
                coming: 0,
                is_closed: false,
            });
            let mut wishes = 0;
            for _ in 0..400 {
                let [one, two] = &mut ends;
                let (here, there) = match random.next_below(2) {
                    0 => (one, two),
                    _ => (two, one),
                };
                match random.next_below(4) {
                    0 if here.parting.may_begin() => there.coming += 1,
                    1 => wishes += u32::from(here.parting.wish()),
                    2 => {
                        if let Some(word) = here.parting.word(Business::None, false) {
                            here.parting.said(word);
                            // It comes behind the messages: those are taken before it is heard.
                            there.put(word);
                        }
                    }
                    _ => {
                        here.coming = 0;
                        let [word, rest @ ..] = here.words;
                        here.words = [rest[0], rest[1], rest[2], None];
                        if let Some(word) = word {
                            here.is_closed = here.parting.heard(word)?;
                        }
                    }
                }
                if ends.iter().any(|end| end.is_closed) {
                    break;
                }
            }
            met += u32::from(wishes > 1);
            assert!(ends.iter().any(|end| end.is_closed));
            assert!(ends.iter().all(|end| end.coming == 0));
        }
        assert!(met > ROUNDS / 10);
        Ok(())
    }
}
