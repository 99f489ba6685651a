// SPDX-License-Identifier: GPL-2.0

//! The first moments of a connection over siw, which speaks of it too early.
//!
//! An end that accepts answers its peer (`siw_accept()`) before its queue pair is told of what arrives,
//! and an end whose queue pair is being modified does not look (`siw_qp_llp_data_ready()`). What is
//! overlooked stays in the socket until something else arrives: the consumer may wait for ever. So
//! each end nudges the other until it has heard of it.
//!
//! An end that asks takes what comes right behind the answer for a part of it, a broken one
//! (`siw_recv_mpa_rr()`). So who accepts leaves it time, unless something has come from it. That is too
//! little for an answer that is lost, and comes again with what follows; to wait for that would cost
//! every connection as much.
//!
//! A read of nothing would even be answered. But siw answers with what it has sent last, when it is
//! just sending (`siw_activate_tx()`).
//!
//! A work item does this: the handler would keep iw_cm from telling others, the other end among them.
//! Nothing waits for it to end. It uses the endpoint inside of the gate alone, and goes within some
//! milliseconds when the endpoint is closed.

use super::{
    super::conn_state::ConnState,
    drain::POLL_INTERVAL,
    Endpoint, //
};
use crate::{
    abi::biased_lock::ExclusiveGuard,
    rdma::{
        cm::ConnParam,
        siw_kick::SiwKicks, //
    },
};
use kernel::{
    sync::Arc,
    time::{
        delay::fsleep,
        Delta,
        Instant,
        Monotonic, //
    },
    workqueue::{
        self,
        impl_has_work,
        WorkItem, //
    },
};

/// How long a peer that has asked may take to read the answer.
const ACCEPT_DELAY: Delta = Delta::from_millis(50);

/// Between two looks at whether the endpoint is still there.
const POLL_SLICE: Delta = Delta::from_millis(5);

impl_has_work! {
    impl HasWork<Self> for Endpoint { self.siw_work }
}

impl WorkItem for Endpoint {
    type Pointer = Arc<Endpoint>;

    fn run(this: Arc<Endpoint>) {
        if this.delay_connected() {
            this.kick_peer();
        }
    }
}

impl Endpoint {
    /// rdma_cm has said that there is a connection. Who has asked may use it at once; for who accepts
    /// FI_CONNECTED follows.
    pub(super) fn start_siw_quirk(self: &Arc<Self>, conn: &ConnParam<'_>) {
        let accepts = {
            let mut link = self.conn.lock();
            link.is_connected_deferred = link.is_accepting;
            link.is_accepting
        };
        if !accepts {
            self.report_connected(conn.private_data);
        }
        // Queued once in its life.
        let _ = workqueue::system_long().enqueue(self.clone());
    }

    /// Whether there is, or was, a connection that the consumer may not have been told of.
    pub(super) fn is_connected_deferred(&self) -> bool {
        self.conn.lock().is_connected_deferred
    }

    /// Leaves the peer its time where it needs it, then reports FI_CONNECTED; false when there is
    /// nobody left to tell.
    fn delay_connected(&self) -> bool {
        let others = self.domain.enter_exclusive();
        let start = Instant::<Monotonic>::now();
        loop {
            {
                let Some(_pass) = self.rundown.begin_call() else {
                    return false;
                };
                if self.state.get() != ConnState::Connecting {
                    return self.state.get().is_connected();
                }
                if start.elapsed() >= ACCEPT_DELAY || self.has_received(&others) {
                    self.report_connected(&[]);
                    return true;
                }
            }
            fsleep(POLL_INTERVAL);
        }
    }

    /// Whether something has come from the peer. Completions are left for their readers.
    fn has_received(&self, others: &ExclusiveGuard) -> bool {
        if let Some(cq) = self.rq.bound_cq(others) {
            cq.poll_to_backlog(others);
        }
        self.rq.has_completed()
    }

    /// Nudges the peer until something has come from it, or the connection has ended.
    fn kick_peer(&self) {
        let mut kicks = SiwKicks::for_device(self.domain.pd().device());
        while let Some(pause) = kicks.next_delay() {
            if !self.sleep_while_connected(pause) {
                return;
            }
            let Some(_pass) = self.rundown.begin_call() else {
                return;
            };
            let Ok(qp) = self.qp() else {
                return;
            };
            kicks.post_next(&qp);
        }
    }

    /// Waits; false when there is nothing more to wait for.
    fn sleep_while_connected(&self, time: Delta) -> bool {
        let start = Instant::<Monotonic>::now();
        loop {
            if self.rundown.has_started()
                || !self.state.get().is_connected()
                || self.rq.has_completed()
            {
                return false;
            }
            let left = time - start.elapsed();
            if left <= Delta::ZERO {
                return true;
            }
            fsleep(left.min(POLL_SLICE));
        }
    }
}
