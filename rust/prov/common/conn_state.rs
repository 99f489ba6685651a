// SPDX-License-Identifier: GPL-2.0

//! State machine of a connected endpoint: one atomic word, changed without a lock.

use crate::{
    abi::{
        flags::{
            FI_READ,
            FI_WRITE, //
        },
        KOFI_STATE_CONNECTED,
        KOFI_STATE_CONNECTING,
        KOFI_STATE_ENABLED,
        KOFI_STATE_LOST,
        KOFI_STATE_NO_RECEIVE,
        KOFI_STATE_NO_TRANSMIT,
        KOFI_STATE_OPEN,
        KOFI_STATE_SHUT, //
    },
    fi::prelude::*,
    util::once::read_once, //
};

/// The state of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum ConnState {
    /// Not enabled.
    Open,
    /// Enabled: receives can be posted.
    Enabled,
    /// `fi_connect()` or `fi_accept()` is under way.
    Connecting,
    /// Connected: both directions can be used.
    Connected,
    /// Transmits have been closed with `fi_shutdown(FI_WRITE)`.
    NoTransmit,
    /// Receives have been closed with `fi_shutdown(FI_READ)`.
    NoReceive,
    /// The peer has disconnected, or could not be reached.
    Lost,
    /// This side has ended the connection by `fi_shutdown()` or `fi_close()`.
    Shut,
}

/// The states in the order of their numbers, with their names in tracepoints and in introspection.
const STATES: [(ConnState, &CStr, u32); 8] = [
    (ConnState::Open, c"idle", KOFI_STATE_OPEN),
    (ConnState::Enabled, c"ready", KOFI_STATE_ENABLED),
    (ConnState::Connecting, c"connecting", KOFI_STATE_CONNECTING),
    (ConnState::Connected, c"connected", KOFI_STATE_CONNECTED),
    (
        ConnState::NoTransmit,
        c"no-transmit",
        KOFI_STATE_NO_TRANSMIT,
    ),
    (ConnState::NoReceive, c"no-receive", KOFI_STATE_NO_RECEIVE),
    (ConnState::Lost, c"lost", KOFI_STATE_LOST),
    (ConnState::Shut, c"shut", KOFI_STATE_SHUT),
];

/// The state in which posts take the fast path.
const CONNECTED_RAW: u32 = ConnState::Connected as u32;

impl ConnState {
    fn from_raw(raw: u32) -> Self {
        STATES.get(raw as usize).map_or(Self::Shut, |state| state.0)
    }

    #[cold]
    fn check_transmit(self) -> Result {
        match self {
            Self::Connected | Self::NoReceive => Ok(()),
            Self::Enabled | Self::Connecting | Self::Lost => Err(Errno::ENOTCONN),
            Self::Open | Self::NoTransmit | Self::Shut => Err(Errno::EOPBADSTATE),
        }
    }

    #[cold]
    fn check_receive(self) -> Result {
        match self {
            Self::Enabled | Self::Connecting | Self::Connected | Self::NoTransmit => Ok(()),
            Self::Lost => Err(Errno::ENOTCONN),
            Self::Open | Self::NoReceive | Self::Shut => Err(Errno::EOPBADSTATE),
        }
    }

    /// Returns the name of the state in tracepoints.
    pub(crate) fn name(self) -> &'static CStr {
        STATES[self as usize].1
    }

    /// Returns the state as introspection reports it: `enum kofi_object_state`.
    pub(crate) fn to_uapi(self) -> u32 {
        STATES[self as usize].2
    }

    /// Returns whether at least one direction is open.
    pub(crate) fn is_connected(self) -> bool {
        matches!(self, Self::Connected | Self::NoTransmit | Self::NoReceive)
    }
}

/// A change of state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Transition {
    /// The state before.
    pub(crate) from: ConnState,
    /// The state after.
    pub(crate) to: ConnState,
}

/// Work left for `fi_shutdown()` after the state has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ShutdownAction {
    /// End the connection.
    Disconnect,
    /// Wait for the flush that another call, or the peer's disconnect, has started.
    AwaitFlush,
    /// Wait for the transmits that are posted; the receives go on.
    DrainTransmits,
    /// End the receives that are posted; the transmits go on.
    CloseReceives,
}

/// State of an endpoint, shared by all CPUs.
pub(crate) struct AtomicConnState(Atomic<u32>);

impl AtomicConnState {
    pub(crate) const fn new() -> Self {
        Self(Atomic::new(ConnState::Open as u32))
    }

    pub(crate) fn get(&self) -> ConnState {
        ConnState::from_raw(self.0.load(Acquire))
    }

    /// Checks that neither `fi_connect()` nor `fi_accept()` has begun.
    ///
    /// # Errors
    ///
    /// -FI_EOPBADSTATE.
    pub(crate) fn check_not_connecting(&self) -> Result {
        match self.get() {
            ConnState::Open | ConnState::Enabled => Ok(()),
            _ => Err(Errno::EOPBADSTATE),
        }
    }

    /// Returns the errno of `fi_connect()` or `fi_accept()` for an endpoint that is not [`ConnState::Enabled`].
    pub(crate) fn connect_error(&self) -> Errno {
        match self.get() {
            ConnState::Connecting => Errno::EISCONN,
            state if state.is_connected() => Errno::EISCONN,
            _ => Errno::EOPBADSTATE,
        }
    }

    /// Returns the errno of `fi_accept()` for an endpoint that has no connection request.
    pub(crate) fn accept_error(&self) -> Errno {
        match self.get() {
            ConnState::Open | ConnState::Enabled => Errno::EINVAL,
            _ => Errno::EISCONN,
        }
    }

    /// Checks that a transmit can be posted. The work queue's target, published before this state, is what
    /// makes the queue pair ready.
    ///
    /// # Errors
    ///
    /// -FI_ENOTCONN before and after the connection, -FI_EOPBADSTATE if transmits are shut down or the endpoint
    /// is not enabled.
    #[inline]
    pub(crate) fn check_transmit(&self) -> Result {
        match read_once(&self.0) {
            CONNECTED_RAW => Ok(()),
            raw => ConnState::from_raw(raw).check_transmit(),
        }
    }

    /// Checks that a receive can be posted.
    ///
    /// # Errors
    ///
    /// -FI_ENOTCONN after the connection, -FI_EOPBADSTATE if receives are shut down or the endpoint is not
    /// enabled.
    #[inline]
    pub(crate) fn check_receive(&self) -> Result {
        match read_once(&self.0) {
            CONNECTED_RAW => Ok(()),
            raw => ConnState::from_raw(raw).check_receive(),
        }
    }

    /// Returns the errno of a transmit that the driver refused with `errno`. If the connection has ended since
    /// the check, the state's errno replaces the driver's.
    #[cold]
    pub(crate) fn transmit_error(&self, errno: Errno) -> Errno {
        self.check_transmit().err().unwrap_or(errno)
    }

    /// Returns the errno of a receive that the driver refused with `errno`, as [`Self::transmit_error`].
    #[cold]
    pub(crate) fn receive_error(&self, errno: Errno) -> Errno {
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
    pub(crate) fn shutdown(&self, flags: u64) -> Result<(Option<Transition>, ShutdownAction)> {
        let (half, rest) = match flags {
            FI_WRITE => (ConnState::NoTransmit, ShutdownAction::DrainTransmits),
            FI_READ => (ConnState::NoReceive, ShutdownAction::CloseReceives),
            _ if flags & !(FI_READ | FI_WRITE) != 0 => return Err(Errno::EBADFLAGS),
            _ => (ConnState::Shut, ShutdownAction::Disconnect),
        };
        let moved = self.transition_with(|state| match state {
            ConnState::Connected => Some(half),
            state if state == half => None,
            // The other direction has been closed.
            state => state.is_connected().then_some(ConnState::Shut),
        });
        match moved {
            Ok(step) if step.to == ConnState::Shut => Ok((Some(step), ShutdownAction::Disconnect)),
            Ok(step) => Ok((Some(step), rest)),
            Err(ConnState::Open | ConnState::Enabled | ConnState::Connecting) => {
                Err(Errno::ENOTCONN)
            }
            Err(state) if state.is_connected() => Ok((None, rest)),
            Err(_) => Ok((None, ShutdownAction::AwaitFlush)),
        }
    }

    /// Changes the state from `from` to `to`; returns false if the state was not `from`.
    pub(crate) fn transition(&self, from: ConnState, to: ConnState) -> bool {
        self.0.cmpxchg(from as u32, to as u32, Full).is_ok()
    }

    /// Changes the state to the one that `next` returns for the current state, and returns both. If `next`
    /// returns none, the state stays, and the error holds it.
    pub(crate) fn transition_with(
        &self,
        next: impl Fn(ConnState) -> Option<ConnState>,
    ) -> core::result::Result<Transition, ConnState> {
        loop {
            let from = self.get();
            let to = next(from).ok_or(from)?;
            if self.transition(from, to) {
                return Ok(Transition { from, to });
            }
        }
    }
}

#[kunit_tests(kofi_prov_state)]
mod tests {
    use super::*;

    fn conn_in_state(state: ConnState) -> AtomicConnState {
        let conn = AtomicConnState::new();
        conn.transition(ConnState::Open, state);
        conn
    }

    #[test]
    fn post_error_while_connected_is_that_of_the_driver() {
        let conn = conn_in_state(ConnState::Connected);
        assert_eq!(conn.transmit_error(Errno::EAGAIN), Errno::EAGAIN);
        assert_eq!(conn.receive_error(Errno::EAGAIN), Errno::EAGAIN);
    }

    #[test]
    fn post_error_after_disconnect_is_that_of_the_state() {
        let shut = conn_in_state(ConnState::Shut);
        assert_eq!(shut.transmit_error(Errno::ENOTCONN), Errno::EOPBADSTATE);
        assert_eq!(shut.receive_error(Errno::ENOTCONN), Errno::EOPBADSTATE);
        let lost = conn_in_state(ConnState::Lost);
        assert_eq!(lost.transmit_error(Errno::EINVAL), Errno::ENOTCONN);
        assert_eq!(lost.receive_error(Errno::EINVAL), Errno::ENOTCONN);
    }

    #[test]
    fn cm_05_each_half_shuts_down_once() {
        let halves = [
            (
                FI_WRITE,
                ConnState::NoTransmit,
                ShutdownAction::DrainTransmits,
            ),
            (FI_READ, ConnState::NoReceive, ShutdownAction::CloseReceives),
        ];
        for (flags, half, action) in halves {
            let conn = conn_in_state(ConnState::Connected);
            let from = ConnState::Connected;
            let first = Transition { from, to: half };
            assert_eq!(conn.shutdown(flags), Ok((Some(first), action)));
            assert_eq!(conn.shutdown(flags), Ok((None, action)));
            assert_eq!(conn.get(), half);
            let (from, to) = (half, ConnState::Shut);
            let last = Transition { from, to };
            let disconnects = Ok((Some(last), ShutdownAction::Disconnect));
            assert_eq!(conn.shutdown(flags ^ FI_READ ^ FI_WRITE), disconnects);
            assert_eq!(conn.shutdown(flags), Ok((None, ShutdownAction::AwaitFlush)));
            assert_eq!(conn_in_state(half).shutdown(0), disconnects);
            assert_eq!(
                conn_in_state(half).shutdown(FI_READ | FI_WRITE),
                disconnects
            );
        }
    }

    #[test]
    fn cm_05_shutdown_needs_a_connection() {
        for flags in [0, FI_READ, FI_WRITE, FI_READ | FI_WRITE] {
            for state in [ConnState::Open, ConnState::Enabled, ConnState::Connecting] {
                assert_eq!(conn_in_state(state).shutdown(flags), Err(Errno::ENOTCONN));
            }
            for state in [ConnState::Lost, ConnState::Shut] {
                let await_flush = Ok((None, ShutdownAction::AwaitFlush));
                assert_eq!(conn_in_state(state).shutdown(flags), await_flush);
            }
        }
        let bad = conn_in_state(ConnState::Connected).shutdown(FI_READ | 1);
        assert_eq!(bad, Err(Errno::EBADFLAGS));
    }

    #[test]
    fn post_errors_follow_the_state_of_each_half() {
        let conn = conn_in_state(ConnState::NoTransmit);
        assert_eq!(conn.transmit_error(Errno::EAGAIN), Errno::EOPBADSTATE);
        assert_eq!(conn.receive_error(Errno::EAGAIN), Errno::EAGAIN);
    }
}
