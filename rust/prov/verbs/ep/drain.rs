// SPDX-License-Identifier: GPL-2.0

//! Drains: waiting until everything posted has a completion.

use super::{
    super::wq::{
        OpDesc,
        WorkQueue, //
    },
    Endpoint, //
};
use crate::{
    fi::prelude::*,
    rdma::wr::{
        RecvWr,
        SendFlag,
        SendFlags,
        SendWr, //
    },
    util::biased_lock::ExclusiveGuard, //
};
use kernel::time::{
    delay::fsleep,
    Instant,
    Monotonic, //
};

/// Limit of a drain. A device that has not flushed its queues by then is broken. Closing goes on
/// all the same, because destroying the queue pair ends the device's use of memory for certain.
const DRAIN_TIMEOUT: Delta = Delta::from_secs(10);

/// Log message for such a device.
const HUNG_MESSAGE: &str = "the device has not flushed what is posted in 10 seconds";

/// Interval between two polls of the completion queues.
pub(super) const POLL_INTERVAL: Delta = Delta::from_micros(500);

impl Endpoint {
    /// Waits until everything posted before the queue pair went into the error state has completed.
    ///
    /// A marker posted behind it, in each direction, shows when the last operation has completed.
    /// Completions are left for their readers. May sleep.
    pub(super) fn drain(&self) {
        let others = self.domain.enter_exclusive();
        for (queue, marked) in [
            (&self.sq, self.post_send_marker(&others)),
            (&self.rq, self.post_recv_marker(&others)),
        ] {
            if !marked {
                // No marker will complete; what was flushed before the refusal has completed.
                queue.set_drained();
            }
        }
        self.wait_until_drained();
    }

    /// Waits for the end of a drain that this or another thread has begun. May sleep.
    pub(super) fn wait_until_drained(&self) {
        let others = self.domain.enter_exclusive();
        let queues: [&Arc<WorkQueue>; 2] = [&self.sq, &self.rq];
        let start = Instant::<Monotonic>::now();
        loop {
            for queue in queues {
                if let Some(cq) = queue.bound_cq(&others) {
                    cq.poll_to_backlog(&others);
                }
            }
            // A queue that has been closed meanwhile has no operations left.
            let waiting = |queue: &&Arc<WorkQueue>| {
                let is_over = queue.is_drained() && !queue.has_cas_in_flight();
                !is_over && queue.bound_cq(&others).is_some()
            };
            if !queues.iter().any(waiting) {
                return;
            }
            if start.elapsed() > DRAIN_TIMEOUT {
                let left = queues.iter().copied().filter(waiting);
                left.for_each(|queue| queue.warn(HUNG_MESSAGE));
                return;
            }
            fsleep(POLL_INTERVAL);
        }
    }

    /// Waits until the queue pair, which is in the error state, has completed the shared receives
    /// that it has taken. May sleep.
    pub(super) fn drain_srx_receives(&self, others: &ExclusiveGuard) {
        if self.domain.pd().device().is_siw() {
            return;
        }
        let start = Instant::<Monotonic>::now();
        while !self.rq.is_drained() {
            if start.elapsed() > DRAIN_TIMEOUT {
                // A receive that is lost with the queue pair is reclaimed when the shared receive
                // context is closed.
                self.rq.warn(HUNG_MESSAGE);
                break;
            }
            fsleep(POLL_INTERVAL);
        }
        if let Some(cq) = self.rq.bound_cq(others) {
            cq.poll_to_backlog(others);
        }
    }

    /// Posts the marker behind the transmits; false if the device does not take it.
    fn post_send_marker(&self, _others: &ExclusiveGuard) -> bool {
        post_marker(|| {
            // SAFETY: There is an `ExclusiveGuard`; the queue is not locked again before `finish`.
            let slot = unsafe { self.sq.reserve(&OpDesc::DRAIN_MARKER) }?;
            let flags = SendFlags::from(SendFlag::Signaled);
            let wr = SendWr::send(slot.wr_id, &[], flags);
            // SAFETY: The request has no memory.
            let posted = unsafe { slot.qp().post_send(&wr) };
            slot.finish(&OpDesc::DRAIN_MARKER, posted.map_err(Errno::from))
        })
    }

    /// Posts the marker behind the receives; false if the device does not take it.
    ///
    /// Shared receives have no marker: the queue pair reports the last one with an event. siw
    /// reports none, but has completed the receives when its state has changed.
    fn post_recv_marker(&self, _others: &ExclusiveGuard) -> bool {
        if self.rq.srx_attachment().is_some() {
            return !self.domain.pd().device().is_siw();
        }
        post_marker(|| {
            // SAFETY: There is an `ExclusiveGuard`; the queue is not locked again before `finish`.
            let slot = unsafe { self.rq.reserve(&OpDesc::DRAIN_MARKER) }?;
            let wr = RecvWr::new(slot.wr_id, &[]);
            // SAFETY: The request has no memory.
            let posted = unsafe { slot.qp().post_recv(&wr) };
            slot.finish(&OpDesc::DRAIN_MARKER, posted.map_err(Errno::from))
        })
    }

    /// Waits until every transmit has completed, read or not. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ETIMEDOUT after [`DRAIN_TIMEOUT`].
    pub(super) fn drain_transmits(&self) -> Result {
        let others = self.domain.enter_exclusive();
        let start = Instant::<Monotonic>::now();
        while self.sq.has_signalled_in_flight(&others) || self.sq.has_cas_in_flight() {
            if let Some(cq) = self.sq.bound_cq(&others) {
                cq.poll_to_backlog(&others);
            }
            if start.elapsed() > DRAIN_TIMEOUT {
                return Err(Errno::ETIMEDOUT);
            }
            fsleep(POLL_INTERVAL);
        }
        Ok(())
    }
}

/// Posts a marker, with retries: siw refuses posts while it is flushing.
fn post_marker(post: impl Fn() -> Result) -> bool {
    for _ in 0..20 {
        match post() {
            Ok(()) => return true,
            Err(Errno::ENOTCONN) => fsleep(POLL_INTERVAL),
            Err(_) => return false,
        }
    }
    false
}
