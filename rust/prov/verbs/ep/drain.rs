// SPDX-License-Identifier: GPL-2.0

//! Drains: waiting until everything posted has a completion.

use crate::prov::verbs::prelude::*;
use kernel::time::{
    Instant,
    Monotonic, //
};

/// Limit of a drain. A device that has not flushed its queues by then is broken. Closing goes on
/// all the same, because destroying the queue pair ends the device's use of memory for certain.
const DRAIN_TIMEOUT: Delta = Delta::from_secs(10);

/// Log message for such a device.
const HUNG_MESSAGE: &str = "the device did not flush posted operations within 10 seconds";

/// Interval between two polls of the completion queues.
pub(super) const POLL_INTERVAL: Delta = Delta::from_micros(500);

impl Endpoint {
    /// Waits until everything posted before the queue pair went into the error state has completed.
    ///
    /// A marker posted behind it, in each direction, shows when the last operation has completed.
    /// Completions are left for their readers. May sleep.
    pub(super) fn drain(&self) {
        let others = self.domain.enter_exclusive();
        for queue in [&self.sq, &self.rq] {
            if !self.post_marker(queue, &others) {
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
        // A queue that has been closed meanwhile has no operations left.
        let is_waiting = |queue: &&&Arc<WorkQueue>| {
            let is_over = queue.is_drained() && !queue.has_cas_in_flight();
            !is_over && queue.bound_cq(&others).is_some()
        };
        let is_over = poll_until(|| {
            for queue in queues {
                poll_cq(queue, &others);
            }
            !queues.iter().any(|queue| is_waiting(&queue))
        });
        if !is_over {
            let left = queues.iter().filter(is_waiting);
            left.for_each(|queue| queue.warn(HUNG_MESSAGE));
        }
    }

    /// Waits until the queue pair, which is in the error state, has completed the shared receives
    /// that it has taken. May sleep.
    pub(super) fn drain_srx_receives(&self, others: &ExclusiveGuard) {
        if self.pd.device().is_siw {
            return;
        }
        if !poll_until(|| self.rq.is_drained()) {
            // A receive that is lost with the queue pair is reclaimed when the shared receive
            // context is closed.
            self.rq.warn(HUNG_MESSAGE);
        }
        poll_cq(&self.rq, others);
    }

    /// Posts the marker behind the operations of a queue; false if the device does not take it. siw
    /// refuses posts while it is flushing, so there are retries.
    ///
    /// Shared receives have no marker: the queue pair reports the last one with an event. siw
    /// reports none, but has completed the receives when its state has changed.
    fn post_marker(&self, queue: &WorkQueue, _others: &ExclusiveGuard) -> bool {
        if queue.srx_attachment().is_some() {
            return !self.pd.device().is_siw;
        }
        for _ in 0..20 {
            // SAFETY: There is an `ExclusiveGuard`; the queue is not locked again before `finish`.
            let posted = unsafe { queue.reserve(&OpDesc::DRAIN_MARKER) }.and_then(|slot| {
                let (qp, wr_id) = (slot.qp(), slot.wr_id);
                let posted = match queue.direction {
                    WqDirection::Transmit => {
                        let wr = SendWr::new(wr_id, &[], WrOp::Send, SendFlag::Signaled.into());
                        // SAFETY: The request has no memory.
                        unsafe { qp.post_send(&wr) }
                    }
                    // SAFETY: As above.
                    WqDirection::Receive => unsafe { qp.post_recv(&RecvWr::new(wr_id, &[])) },
                };
                slot.finish(&OpDesc::DRAIN_MARKER, posted.map_err(Errno::from))
            });
            match posted {
                Ok(()) => return true,
                Err(Errno::ENOTCONN) => fsleep(POLL_INTERVAL),
                Err(_) => return false,
            }
        }
        false
    }

    /// Waits until every transmit has completed, read or not. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ETIMEDOUT after [`DRAIN_TIMEOUT`].
    pub(super) fn drain_transmits(&self) -> Result {
        let others = self.domain.enter_exclusive();
        let is_over = poll_until(|| {
            let is_over = !self.sq.has_signalled_in_flight(&others) && !self.sq.has_cas_in_flight();
            if !is_over {
                poll_cq(&self.sq, &others);
            }
            is_over
        });
        is_over.then_some(()).ok_or(Errno::ETIMEDOUT)
    }
}

/// Moves what the device has completed to the backlog of the queue's completion queue.
pub(super) fn poll_cq(queue: &WorkQueue, others: &ExclusiveGuard) {
    if let Some(cq) = queue.bound_cq(others) {
        cq.poll_to_backlog(others);
    }
}

/// Calls `is_over` until it returns true; false after [`DRAIN_TIMEOUT`]. May sleep.
fn poll_until(mut is_over: impl FnMut() -> bool) -> bool {
    let start = Instant::<Monotonic>::now();
    while !is_over() {
        if start.elapsed() > DRAIN_TIMEOUT {
            return false;
        }
        fsleep(POLL_INTERVAL);
    }
    true
}
