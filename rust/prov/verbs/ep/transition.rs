// SPDX-License-Identifier: GPL-2.0

//! An endpoint's steps from state to state. Each is told to who traces.

use super::{
    super::conn_state::{
        AtomicConnState,
        ConnState,
        Transition, //
    },
    Endpoint, //
};
use crate::abi::{
    trace,
    Errno,
    Result, //
};
use kernel::prelude::*;

/// Why there is no connection: what is reported, and the provider's number.
pub(super) type ConnFailure = (Errno, c_int);

impl Endpoint {
    /// Moves from one state to another; false if it was not in the first.
    pub(super) fn transition(
        &self,
        from: ConnState,
        to: ConnState,
        failure: Option<ConnFailure>,
    ) -> bool {
        let has_moved = self.state.transition(from, to);
        if has_moved {
            self.trace_transition(from, to, failure);
        }
        has_moved
    }

    /// There is a connection: both ways are open.
    pub(super) fn set_connected(&self) -> bool {
        let is_connected = self.transition(ConnState::Connecting, ConnState::Connected, None);
        if is_connected {
            self.sq.set_fast_path(true);
            self.rq.set_fast_path(true);
        }
        is_connected
    }

    /// Moves to the state that `next` wants, as [`AtomicConnState::advance`](super::StateCell::advance) does,
    /// which is not the one before it. Returns the state before, or none if it stays.
    pub(super) fn transition_with(
        &self,
        next: impl Fn(ConnState) -> Option<ConnState>,
    ) -> Option<ConnState> {
        let (step, ()) = self
            .change_state(|state| {
                let step = state
                    .transition_with(next)
                    .map_err(|_| Errno::EOPBADSTATE)?;
                Ok((Some(step), ()))
            })
            .ok()?;
        Some(step?.from)
    }

    /// Changes the state with `change`, and ends the fast path of posting, which needs both directions open. A caller
    /// that finds the state changed already finds the fast path ended, too. Takes the lock of the link.
    pub(super) fn change_state<R>(
        &self,
        change: impl FnOnce(&AtomicConnState) -> Result<(Option<Transition>, R)>,
    ) -> Result<(Option<Transition>, R)> {
        let link = self.conn.lock();
        let (step, outcome) = change(&self.state)?;
        if let Some(Transition {
            from: ConnState::Connected,
            ..
        }) = step
        {
            self.sq.set_fast_path(false);
            self.rq.set_fast_path(false);
        }
        drop(link);
        if let Some(step) = &step {
            self.trace_transition(step.from, step.to, None);
        }
        Ok((step, outcome))
    }

    fn trace_transition(&self, from: ConnState, to: ConnState, failure: Option<ConnFailure>) {
        if trace::connections() {
            let names = (from.name(), to.name());
            self.sq
                .with_trace_point(|at| trace::connection(at, names, failure));
        }
    }
}
