// SPDX-License-Identifier: GPL-2.0

//! Waiting until everything posted has a completion.

use super::{
    super::wq::{
        OpDesc,
        WorkQueue, //
    },
    Endpoint, //
};
use crate::{
    abi::{
        biased_lock::ExclusiveGuard,
        Errno,
        Result, //
    },
    rdma::wr::{
        RecvWr,
        SendFlag,
        SendFlags,
        SendWr, //
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
};

/// A device that has not flushed its queues by then is broken; closing goes on all the same,
/// because destroying the queue pair ends its use of memory for certain.
const PATIENCE: Delta = Delta::from_secs(10);

/// What is said of one.
const HUNG: &str = "the device has not flushed what is posted in 10 seconds";

/// Between two looks at the completion queues.
pub(super) const PAUSE: Delta = Delta::from_micros(500);

impl Endpoint {
    /// Waits until what was posted before the queue pair went into the error state has completed.
    ///
    /// The last of it is known by a marker that is posted behind it, in each direction. Completions
    /// are left for their readers. May sleep.
    pub(super) fn drain(&self) {
        let others = self.domain.others();
        for (queue, marked) in [
            (&self.transmit, self.mark_transmits(&others)),
            (&self.receive, self.mark_receives(&others)),
        ] {
            if !marked {
                // Nothing will come back; what was flushed before the refusal has completed.
                queue.set_drained();
            }
        }
        self.wait_until_drained();
    }

    /// Waits for the end of a drain, whoever began it. May sleep.
    pub(super) fn wait_until_drained(&self) {
        let others = self.domain.others();
        let queues: [&Arc<WorkQueue>; 2] = [&self.transmit, &self.receive];
        let start = Instant::<Monotonic>::now();
        loop {
            for queue in queues {
                if let Some(cq) = queue.completion_queue(&others) {
                    cq.stash(&others);
                }
            }
            // A queue that has been closed meanwhile has nothing left to wait for.
            let waiting = |queue: &&Arc<WorkQueue>| {
                let is_over = queue.is_drained() && !queue.has_exchanges();
                !is_over && queue.completion_queue(&others).is_some()
            };
            if !queues.iter().any(waiting) {
                return;
            }
            if start.elapsed() > PATIENCE {
                let left = queues.iter().copied().filter(waiting);
                left.for_each(|queue| queue.complain(HUNG));
                return;
            }
            fsleep(PAUSE);
        }
    }

    /// Waits until the queue pair, which is in the error state, has completed what it has taken of the
    /// receives that it shares. May sleep.
    pub(super) fn wait_for_receives(&self, others: &ExclusiveGuard) {
        if self.domain.pd().device().is_siw() {
            return;
        }
        let start = Instant::<Monotonic>::now();
        while !self.receive.is_drained() {
            if start.elapsed() > PATIENCE {
                // A receive that goes with the queue pair is back when the shared ones are closed.
                self.receive.complain(HUNG);
                break;
            }
            fsleep(PAUSE);
        }
        if let Some(cq) = self.receive.completion_queue(others) {
            cq.stash(others);
        }
    }

    /// Posts the marker behind the transmits; false if the device does not take it.
    fn mark_transmits(&self, _others: &ExclusiveGuard) -> bool {
        mark(|| {
            // SAFETY: There is an `ExclusiveGuard`; the queue is not locked again before `posting` is gone.
            let posting = unsafe { self.transmit.begin(&OpDesc::MARKER) }?;
            let flags = SendFlags::from(SendFlag::Signaled);
            let wr = SendWr::send(posting.wr_id(), &[], flags);
            // SAFETY: The request has no memory.
            let posted = unsafe { posting.qp().post_send(&wr) };
            posting.settle(&OpDesc::MARKER, posted.map_err(Errno::from))
        })
    }

    /// Posts the marker behind the receives; false if the device does not take it.
    ///
    /// There is none where they are shared: the queue pair says when it has given back what it had taken,
    /// but for siw, which has done that when its state is changed.
    fn mark_receives(&self, _others: &ExclusiveGuard) -> bool {
        if self.receive.share().is_some() {
            return !self.domain.pd().device().is_siw();
        }
        mark(|| {
            // SAFETY: There is an `ExclusiveGuard`; the queue is not locked again before `posting` is gone.
            let posting = unsafe { self.receive.begin(&OpDesc::MARKER) }?;
            let wr = RecvWr::new(posting.wr_id(), &[]);
            // SAFETY: The request has no memory.
            let posted = unsafe { posting.qp().post_recv(&wr) };
            posting.settle(&OpDesc::MARKER, posted.map_err(Errno::from))
        })
    }

    /// Waits until every transmit has completed, read or not. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ETIMEDOUT.
    pub(super) fn wait_for_transmits(&self) -> Result {
        let others = self.domain.others();
        let start = Instant::<Monotonic>::now();
        while self.transmit.is_busy(&others) || self.transmit.has_exchanges() {
            if let Some(cq) = self.transmit.completion_queue(&others) {
                cq.stash(&others);
            }
            if start.elapsed() > PATIENCE {
                return Err(Errno::ETIMEDOUT);
            }
            fsleep(PAUSE);
        }
        Ok(())
    }
}

/// siw refuses posts for as long as it is flushing.
fn mark(post: impl Fn() -> Result) -> bool {
    for _ in 0..20 {
        match post() {
            Ok(()) => return true,
            Err(Errno::ENOTCONN) => fsleep(PAUSE),
            Err(_) => return false,
        }
    }
    false
}
