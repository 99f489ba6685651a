// SPDX-License-Identifier: GPL-2.0

//! Progress for a consumer that reads none of its completions: a work item takes them from the device
//! in its place, as long as an operation is under way.
//!
//! A consumer that reads is faster, and so it is left some time.

use super::super::wq::WorkQueue;
use crate::{
    abi::{
        biased_lock::{
            BiasOwner,
            ExclusiveGuard, //
        },
        Result, //
    },
    fi::rundown::Rundown, //
};
use kernel::{
    prelude::*,
    sync::{
        new_spinlock,
        Arc,
        SpinLock, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
    workqueue::{
        self,
        impl_has_work,
        new_work,
        Work,
        WorkItem, //
    },
};

/// How long an operation waits for its consumer.
const PROGRESS_DELAY: Delta = Delta::from_millis(2);

/// Whom it moves, and what the domain's locks ask.
struct CasProgressTarget {
    wq: Arc<WorkQueue>,
    serial: Option<Arc<BiasOwner>>,
}

/// Looks after the operations of one queue, from its opening to its close.
#[pin_data]
pub(in super::super) struct CasProgressWork {
    #[pin]
    work: Work<CasProgressWork>,
    #[pin]
    rundown: Rundown,
    /// A leaf.
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
    /// Of nobody yet. May sleep.
    pub(super) fn new() -> Result<Arc<Self>> {
        Ok(Arc::pin_init(
            pin_init!(Self {
                work <- new_work!("kofi::Mover"),
                rundown <- Rundown::new(),
                target <- new_spinlock!(None, "kofi::Mover"),
            }),
            GFP_KERNEL,
        )?)
    }

    /// From now on it may be needed. May sleep.
    pub(in super::super) fn enable(&self, wq: Arc<WorkQueue>, serial: Option<Arc<BiasOwner>>) {
        *self.target.lock() = Some(CasProgressTarget { wq, serial });
    }

    /// Ends it; it holds nothing any more when this returns. May sleep.
    pub(in super::super) fn disable(&self) {
        self.rundown.run_down();
        let charge = self.target.lock().take();
        drop(charge);
    }

    /// An operation has begun. Any context.
    pub(super) fn schedule(self: &Arc<Self>) {
        // Queued already is as good: it has not looked yet.
        let _ = workqueue::system_long().enqueue(self.clone());
    }

    /// One look; false when there is nothing more to do.
    fn progress_once(&self) -> bool {
        let (wq, serial) = match &*self.target.lock() {
            Some(charge) => (charge.wq.clone(), charge.serial.clone()),
            None => return false,
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
