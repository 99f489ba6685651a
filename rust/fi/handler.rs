// SPDX-License-Identifier: GPL-2.0

//! The handler of a queue, called where it may sleep, and the close that waits for it.
//!
//! Its owner is a work item, which does not run twice at a time. The gate lets calls in until
//! [`Slot::stop`]; the spinlock guards the handler itself, which is dropped then. Both are leaves.

use super::wait::Gate;
use crate::abi::{
    Errno,
    Result, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            AtomicFlag,
            Relaxed,
            Release, //
        },
        new_spinlock,
        Arc,
        SpinLock, //
    },
    task::Task, //
};

/// Where a queue keeps its handler.
#[pin_data]
pub(super) struct Slot<H: ?Sized> {
    filled: AtomicFlag,
    /// The address of the task that is in the handler, 0 for none.
    inside: Atomic<usize>,
    #[pin]
    gate: Gate,
    #[pin]
    handler: SpinLock<Option<Arc<KBox<H>>>>,
}

impl<H: ?Sized> Slot<H> {
    /// No handler yet.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            filled: AtomicFlag::new(false),
            inside: Atomic::new(0),
            gate <- Gate::new(),
            handler <- new_spinlock!(None, "kofi::Slot"),
        })
    }

    /// Puts a handler in, once. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EBUSY if there is one, -FI_ENOMEM.
    pub(super) fn fill(&self, handler: KBox<H>) -> Result {
        let handler = Arc::new(handler, GFP_KERNEL)?;
        let mut slot = self.handler.lock();
        if self.filled.load(Relaxed) {
            return Err(Errno::EBUSY);
        }
        *slot = Some(handler);
        self.filled.store(true, Release);
        Ok(())
    }

    /// Whether there is, or was, a handler. Any context.
    pub(super) fn is_filled(&self) -> bool {
        self.filled.load(Acquire)
    }

    /// Calls the handler through `f`, unless it has been stopped. From the work item alone.
    pub(super) fn call(&self, f: impl FnOnce(&H)) {
        let Some(_pass) = self.gate.enter() else {
            return;
        };
        // Dropped before the pass is: by then a handler that stopped itself is gone as well.
        let handler = self.handler.lock().clone();
        if let Some(handler) = handler {
            self.inside.store(here(), Relaxed);
            f(&handler);
            self.inside.store(0, Relaxed);
        }
    }

    /// Whether the caller is in the handler.
    pub(super) fn is_here(&self) -> bool {
        // Only the task itself writes its own address.
        self.inside.load(Relaxed) == here()
    }

    /// Ends the calls: when this returns the handler is not running, will not run, and has been
    /// dropped. May sleep.
    ///
    /// Within the handler it does not wait for itself: the call under way is the last.
    pub(super) fn stop(&self) {
        if self.is_here() {
            self.gate.forbid();
        } else {
            self.gate.shut();
        }
        let handler = self.handler.lock().take();
        drop(handler);
    }
}

fn here() -> usize {
    Task::current_raw() as usize
}
