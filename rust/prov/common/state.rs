// SPDX-License-Identifier: GPL-2.0

//! How far a connection has come.

use crate::abi::{
    flags::{
        FI_READ,
        FI_WRITE, //
    },
    once::read_once,
    Errno,
    Result,
    KOFI_STATE_CONNECTED,
    KOFI_STATE_CONNECTING,
    KOFI_STATE_ENABLED,
    KOFI_STATE_LOST,
    KOFI_STATE_NO_RECEIVE,
    KOFI_STATE_NO_TRANSMIT,
    KOFI_STATE_OPEN,
    KOFI_STATE_SHUT, //
};
use kernel::{
    prelude::*,
    sync::atomic::{
        Acquire,
        Atomic,
        Full, //
    }, //
};

/// The state of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(in crate::prov) enum State {
    /// Not enabled.
    Idle,
    /// Enabled: receives can be posted.
    Ready,
    /// `fi_connect()` or `fi_accept()` is under way.
    Connecting,
    /// Messages flow.
    Connected,
    /// Transmits have been closed with `fi_shutdown(FI_WRITE)`.
    NoTransmit,
    /// Receives have been closed with `fi_shutdown(FI_READ)`.
    NoReceive,
    /// The peer has left, or could not be reached.
    Lost,
    /// `fi_shutdown()` or `fi_close()` ended it here.
    Shut,
}

const STATES: [State; 8] = [
    State::Idle,
    State::Ready,
    State::Connecting,
    State::Connected,
    State::NoTransmit,
    State::NoReceive,
    State::Lost,
    State::Shut,
];

/// The state in which nearly everything is posted.
const CONNECTED: u32 = State::Connected as u32;

impl State {
    fn from_raw(raw: u32) -> Self {
        *STATES.get(raw as usize).unwrap_or(&Self::Shut)
    }

    #[cold]
    fn check_transmit(self) -> Result {
        match self {
            Self::Connected | Self::NoReceive => Ok(()),
            Self::Ready | Self::Connecting | Self::Lost => Err(Errno::ENOTCONN),
            Self::Idle | Self::NoTransmit | Self::Shut => Err(Errno::EOPBADSTATE),
        }
    }

    #[cold]
    fn check_receive(self) -> Result {
        match self {
            Self::Ready | Self::Connecting | Self::Connected | Self::NoTransmit => Ok(()),
            Self::Lost => Err(Errno::ENOTCONN),
            Self::Idle | Self::NoReceive | Self::Shut => Err(Errno::EOPBADSTATE),
        }
    }

    /// Its name, for who traces.
    pub(in crate::prov) fn name(self) -> &'static CStr {
        match self {
            Self::Idle => c"idle",
            Self::Ready => c"ready",
            Self::Connecting => c"connecting",
            Self::Connected => c"connected",
            Self::NoTransmit => c"no-transmit",
            Self::NoReceive => c"no-receive",
            Self::Lost => c"lost",
            Self::Shut => c"shut",
        }
    }

    /// What those are told who only look.
    pub(in crate::prov) fn told(self) -> u32 {
        match self {
            Self::Idle => KOFI_STATE_OPEN,
            Self::Ready => KOFI_STATE_ENABLED,
            Self::Connecting => KOFI_STATE_CONNECTING,
            Self::Connected => KOFI_STATE_CONNECTED,
            Self::NoTransmit => KOFI_STATE_NO_TRANSMIT,
            Self::NoReceive => KOFI_STATE_NO_RECEIVE,
            Self::Lost => KOFI_STATE_LOST,
            Self::Shut => KOFI_STATE_SHUT,
        }
    }

    /// Whether there is a peer to talk to, in one direction at least.
    pub(in crate::prov) fn is_connected(self) -> bool {
        matches!(self, Self::Connected | Self::NoTransmit | Self::NoReceive)
    }
}

/// A change of state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::prov) struct Step {
    /// The state before.
    pub(in crate::prov) from: State,
    /// The state after.
    pub(in crate::prov) to: State,
}

/// Work left for `fi_shutdown()` after the state has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::prov) enum Shutdown {
    /// End the connection.
    Disconnect,
    /// Wait for the flush that another call, or the peer's disconnect, has started.
    Disconnected,
    /// Wait for the transmits that are posted; the receives go on.
    Transmits,
    /// End the receives that are posted; the transmits go on.
    Receives,
}

/// The state, as several CPUs see it.
pub(in crate::prov) struct StateCell(Atomic<u32>);

impl StateCell {
    pub(in crate::prov) const fn new() -> Self {
        Self(Atomic::new(State::Idle as u32))
    }

    pub(in crate::prov) fn get(&self) -> State {
        State::from_raw(self.0.load(Acquire))
    }

    /// Whether a transmit can be posted. What the queue pair needs to be ready has been published
    /// with the queue's target.
    ///
    /// # Errors
    ///
    /// -FI_ENOTCONN before and after the connection, -FI_EOPBADSTATE without transmits.
    #[inline]
    pub(in crate::prov) fn check_transmit(&self) -> Result {
        match read_once(&self.0) {
            CONNECTED => Ok(()),
            raw => State::from_raw(raw).check_transmit(),
        }
    }

    /// Whether a receive can be posted.
    ///
    /// # Errors
    ///
    /// -FI_ENOTCONN after the connection, -FI_EOPBADSTATE without receives.
    #[inline]
    pub(in crate::prov) fn check_receive(&self) -> Result {
        match read_once(&self.0) {
            CONNECTED => Ok(()),
            raw => State::from_raw(raw).check_receive(),
        }
    }

    /// What a transmit says that was refused with `errno`: a connection may have ended since it was
    /// looked at, and drivers have their own words for that.
    #[cold]
    pub(in crate::prov) fn transmit_refused(&self, errno: Errno) -> Errno {
        self.check_transmit().err().unwrap_or(errno)
    }

    /// The same for a receive.
    #[cold]
    pub(in crate::prov) fn receive_refused(&self, errno: Errno) -> Errno {
        self.check_receive().err().unwrap_or(errno)
    }

    /// Closes the directions in `flags` of `fi_shutdown()`. Returns the state change, if there was one, and
    /// the work left for the caller.
    ///
    /// A direction that is closed or being closed stays so, and the other direction is not affected.
    ///
    /// # Errors
    ///
    /// -FI_EBADFLAGS for flags other than FI_READ and FI_WRITE, -FI_ENOTCONN before there is a connection.
    pub(in crate::prov) fn shutdown(&self, flags: u64) -> Result<(Option<Step>, Shutdown)> {
        let (half, rest) = match flags {
            FI_WRITE => (State::NoTransmit, Shutdown::Transmits),
            FI_READ => (State::NoReceive, Shutdown::Receives),
            _ if flags & !(FI_READ | FI_WRITE) != 0 => return Err(Errno::EBADFLAGS),
            _ => (State::Shut, Shutdown::Disconnect),
        };
        let moved = self.advance(|state| match state {
            State::Connected => Some(half),
            state if state == half => None,
            // The other direction has been closed.
            state => state.is_connected().then_some(State::Shut),
        });
        match moved {
            Ok(step) if step.to == State::Shut => Ok((Some(step), Shutdown::Disconnect)),
            Ok(step) => Ok((Some(step), rest)),
            Err(State::Idle | State::Ready | State::Connecting) => Err(Errno::ENOTCONN),
            Err(state) if state.is_connected() => Ok((None, rest)),
            Err(_) => Ok((None, Shutdown::Disconnected)),
        }
    }

    /// Moves from one state to another; false if it was not in the first.
    pub(in crate::prov) fn step(&self, from: State, to: State) -> bool {
        self.0.cmpxchg(from as u32, to as u32, Full).is_ok()
    }

    /// Moves to the state that `next` returns for the present one, and returns both; if `next` returns
    /// none, the state stays, and is returned.
    pub(in crate::prov) fn advance(
        &self,
        next: impl Fn(State) -> Option<State>,
    ) -> core::result::Result<Step, State> {
        loop {
            let from = self.get();
            let to = next(from).ok_or(from)?;
            if self.step(from, to) {
                return Ok(Step { from, to });
            }
        }
    }
}

#[kunit_tests(kofi_prov_state)]
mod tests {
    use super::*;

    fn in_state(state: State) -> StateCell {
        let cell = StateCell::new();
        cell.step(State::Idle, state);
        cell
    }

    #[test]
    fn a_refusal_while_connected_is_the_drivers() {
        let cell = in_state(State::Connected);
        assert_eq!(cell.transmit_refused(Errno::EAGAIN), Errno::EAGAIN);
        assert_eq!(cell.receive_refused(Errno::EAGAIN), Errno::EAGAIN);
    }

    #[test]
    fn a_refusal_after_the_end_is_the_states() {
        let shut = in_state(State::Shut);
        assert_eq!(shut.transmit_refused(Errno::ENOTCONN), Errno::EOPBADSTATE);
        assert_eq!(shut.receive_refused(Errno::ENOTCONN), Errno::EOPBADSTATE);
        let lost = in_state(State::Lost);
        assert_eq!(lost.transmit_refused(Errno::EINVAL), Errno::ENOTCONN);
        assert_eq!(lost.receive_refused(Errno::EINVAL), Errno::ENOTCONN);
    }

    #[test]
    fn cm_05_a_half_is_closed_once() {
        let halves = [
            (FI_WRITE, State::NoTransmit, Shutdown::Transmits),
            (FI_READ, State::NoReceive, Shutdown::Receives),
        ];
        for (flags, half, rest) in halves {
            let cell = in_state(State::Connected);
            let from = State::Connected;
            let first = Step { from, to: half };
            assert_eq!(cell.shutdown(flags), Ok((Some(first), rest)));
            assert_eq!(cell.shutdown(flags), Ok((None, rest)));
            assert_eq!(cell.get(), half);
            let (from, to) = (half, State::Shut);
            let last = Step { from, to };
            let disconnects = Ok((Some(last), Shutdown::Disconnect));
            assert_eq!(cell.shutdown(flags ^ FI_READ ^ FI_WRITE), disconnects);
            assert_eq!(cell.shutdown(flags), Ok((None, Shutdown::Disconnected)));
            assert_eq!(in_state(half).shutdown(0), disconnects);
            assert_eq!(in_state(half).shutdown(FI_READ | FI_WRITE), disconnects);
        }
    }

    #[test]
    fn cm_05_there_is_nothing_to_shut_down() {
        for flags in [0, FI_READ, FI_WRITE, FI_READ | FI_WRITE] {
            for state in [State::Idle, State::Ready, State::Connecting] {
                assert_eq!(in_state(state).shutdown(flags), Err(Errno::ENOTCONN));
            }
            for state in [State::Lost, State::Shut] {
                let over = Ok((None, Shutdown::Disconnected));
                assert_eq!(in_state(state).shutdown(flags), over);
            }
        }
        let bad = in_state(State::Connected).shutdown(FI_READ | 1);
        assert_eq!(bad, Err(Errno::EBADFLAGS));
    }

    #[test]
    fn each_half_answers_for_itself() {
        let receives = in_state(State::NoTransmit);
        assert_eq!(receives.transmit_refused(Errno::EAGAIN), Errno::EOPBADSTATE);
        assert_eq!(receives.receive_refused(Errno::EAGAIN), Errno::EAGAIN);
    }
}
