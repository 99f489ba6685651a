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
const PAUSE: Delta = Delta::from_millis(2);

/// Whom it moves, and what the domain's locks ask.
struct CasProgressTarget {
    queue: Arc<WorkQueue>,
    serial: Option<Arc<BiasOwner>>,
}

/// Looks after the operations of one queue, from its opening to its close.
#[pin_data]
pub(in super::super) struct CasProgressWork {
    #[pin]
    work: Work<CasProgressWork>,
    #[pin]
    gate: Rundown,
    /// A leaf.
    #[pin]
    charge: SpinLock<Option<CasProgressTarget>>,
}

impl_has_work! {
    impl HasWork<Self> for CasProgressWork { self.work }
}

impl WorkItem for CasProgressWork {
    type Pointer = Arc<CasProgressWork>;

    fn run(this: Arc<CasProgressWork>) {
        loop {
            fsleep(PAUSE);
            let Some(_pass) = this.gate.enter() else {
                return;
            };
            if !this.step() {
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
                gate <- Rundown::new(),
                charge <- new_spinlock!(None, "kofi::Mover"),
            }),
            GFP_KERNEL,
        )?)
    }

    /// From now on it may be needed. May sleep.
    pub(in super::super) fn begin(&self, queue: Arc<WorkQueue>, serial: Option<Arc<BiasOwner>>) {
        *self.charge.lock() = Some(CasProgressTarget { queue, serial });
    }

    /// Ends it; it holds nothing any more when this returns. May sleep.
    pub(in super::super) fn end(&self) {
        self.gate.shut();
        let charge = self.charge.lock().take();
        drop(charge);
    }

    /// An operation has begun. Any context.
    pub(super) fn start(self: &Arc<Self>) {
        // Queued already is as good: it has not looked yet.
        let _ = workqueue::system_long().enqueue(self.clone());
    }

    /// One look; false when there is nothing more to do.
    fn step(&self) -> bool {
        let (queue, serial) = match &*self.charge.lock() {
            Some(charge) => (charge.queue.clone(), charge.serial.clone()),
            None => return false,
        };
        if !queue.has_exchanges() {
            return false;
        }
        let others = ExclusiveGuard::enter(serial.as_ref());
        if let Some(cq) = queue.completion_queue(&others) {
            cq.move_on();
        }
        true
    }
}
