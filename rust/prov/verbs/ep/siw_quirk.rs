// SPDX-License-Identifier: GPL-2.0

//! Workaround for siw, which reports a connection too early.
//!
//! The passive side answers its peer (`siw_accept()`) before its queue pair is notified of incoming
//! data, and a queue pair that is being modified does not read its socket
//! (`siw_qp_llp_data_ready()`). Data that arrives meanwhile stays in the socket until more arrives:
//! the consumer may wait forever. So each side sends kicks until it has received something.
//!
//! The active side takes data that follows the answer immediately for a part of the answer, a
//! broken one (`siw_recv_mpa_rr()`). So the passive side waits for [`ACCEPT_DELAY`], or until it
//! has received something. That is too short if the answer is lost and is retransmitted together
//! with the data behind it, but waiting for that would delay every connection.
//!
//! A kick is no RDMA read of length 0, although that would be answered: siw answers with the data
//! that it has sent last, if it is just sending (`siw_activate_tx()`).
//!
//! A work item does this, as the handler would keep iw_cm from delivering other events, also to the
//! other side. Nothing waits for the work item. It uses the endpoint only inside of the rundown,
//! and ends within some milliseconds when the endpoint is closed.

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

/// Time that the active side gets to read the answer.
const ACCEPT_DELAY: Delta = Delta::from_millis(50);

/// Interval between two checks that the endpoint is still connected.
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
    /// Handles rdma_cm's event that the connection is established. The active side reports
    /// FI_CONNECTED at once, the passive side in the work item.
    pub(super) fn start_siw_quirk(self: &Arc<Self>, conn: &ConnParam<'_>) {
        let accepts = {
            let mut link = self.conn.lock();
            link.is_connected_deferred = link.is_accepting;
            link.is_accepting
        };
        if !accepts {
            self.report_connected(conn.private_data);
        }
        // Queued once in the endpoint's lifetime.
        let _ = workqueue::system_long().enqueue(self.clone());
    }

    /// Returns whether rdma_cm has established a connection that may not have been reported yet.
    pub(super) fn is_connected_deferred(&self) -> bool {
        self.conn.lock().is_connected_deferred
    }

    /// Waits as long as the peer needs, then reports FI_CONNECTED. Returns false if the endpoint is
    /// not connected any more.
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

    /// Returns whether anything has come from the peer. Completions are left for their readers.
    fn has_received(&self, others: &ExclusiveGuard) -> bool {
        if let Some(cq) = self.rq.bound_cq(others) {
            cq.poll_to_backlog(others);
        }
        self.rq.has_completed()
    }

    /// Sends kicks until something has come from the peer, or the connection has ended.
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

    /// Sleeps; returns false if there is nothing more to wait for.
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
