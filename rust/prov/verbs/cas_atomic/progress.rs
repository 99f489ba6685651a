// SPDX-License-Identifier: GPL-2.0

//! Progress for a consumer that does not read its completions: a work item polls the device in its
//! place, as long as an operation is in flight.
//!
//! A consumer that reads is faster, so the work item leaves it some time first.

use crate::{
    fi::rundown::Rundown,
    prov::verbs::prelude::*, //
};
use kernel::sync::{
    new_spinlock,
    SpinLock, //
};

/// Time that a consumer gets to poll first.
const PROGRESS_DELAY: Delta = Delta::from_millis(2);

/// Queue that the work item serves, and the owner of its domain's locks.
type CasProgressTarget = (Arc<WorkQueue>, Option<Arc<BiasedLockList>>);

/// Work item for the operations of one queue, from the enabling of its endpoint to its close.
#[pin_data]
pub(in super::super) struct CasProgressWork {
    #[pin]
    work: Work<CasProgressWork>,
    #[pin]
    rundown: Rundown,
    /// A leaf in the lock order.
    #[pin]
    target: SpinLock<Option<CasProgressTarget>>,
}

impl_has_work! {
    impl HasWork<Self> for CasProgressWork { self.work }
}

impl WorkItem for CasProgressWork {
    type Pointer = Arc<CasProgressWork>;

    fn run(this: Arc<CasProgressWork>) {
        loop {
            fsleep(PROGRESS_DELAY);
            let Some(_pass) = this.rundown.begin_call() else {
                return;
            };
            if !this.progress_once() {
                return;
            }
        }
    }
}

impl CasProgressWork {
    /// Creates the work item, without a queue. May sleep.
    pub(super) fn new() -> Result<Arc<Self>> {
        Ok(Arc::pin_init(
            pin_init!(Self {
                work <- new_work!("kofi::verbs::CasProgressWork::work"),
                rundown <- Rundown::new(),
                target <- new_spinlock!(None, "kofi::verbs::CasProgressWork"),
            }),
            GFP_KERNEL,
        )?)
    }

    /// Sets the queue that the work item serves. May sleep.
    pub(in super::super) fn enable(&self, wq: Arc<WorkQueue>, serial: Option<Arc<BiasedLockList>>) {
        *self.target.lock() = Some((wq, serial));
    }

    /// Stops the work item, which holds no references when this returns. May sleep.
    pub(in super::super) fn disable(&self) {
        self.rundown.run_down();
        let target = self.target.lock().take();
        drop(target);
    }

    /// Schedules the work item after an operation has begun. Any context.
    pub(super) fn schedule(self: &Arc<Self>) {
        // Failure means that it is queued already, and has not polled yet.
        let _ = workqueue::system_long().enqueue(self.clone());
    }

    /// Polls once; returns false if no operation is in flight.
    fn progress_once(&self) -> bool {
        let Some((wq, serial)) = self.target.lock().clone() else {
            return false;
        };
        if !wq.has_cas_in_flight() {
            return false;
        }
        let others = ExclusiveGuard::enter(serial.as_ref());
        if let Some(cq) = wq.bound_cq(&others) {
            cq.progress_all();
        }
        true
    }
}
