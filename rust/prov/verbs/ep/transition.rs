// SPDX-License-Identifier: GPL-2.0

//! State transitions of an endpoint, which are traced.

use super::super::conn_state::{
    AtomicConnState,
    ConnState,
    Transition, //
};
use crate::prov::verbs::prelude::*;

/// Reason for a failed connection: the errno that is reported, and the provider's errno.
pub(super) type ConnFailure = (Errno, c_int);

impl Endpoint {
    /// Moves from one state to another; false if the endpoint was not in the first.
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

    /// Moves to [`ConnState::Connected`] and allows the fast path of posting: both directions are
    /// open.
    pub(super) fn set_connected(&self) -> bool {
        let is_connected = self.transition(ConnState::Connecting, ConnState::Connected, None);
        if is_connected {
            self.sq.set_fast_path(true);
            self.rq.set_fast_path(true);
        }
        is_connected
    }

    /// Moves to the state that `next` returns, which must differ from the current one. Returns the
    /// state before, or None if `next` returns None.
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

    /// Changes the state with `change`, and ends the fast path of posting, which needs both
    /// directions open. A caller that finds the state changed already finds the fast path ended,
    /// too. Takes the lock of `conn`.
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
