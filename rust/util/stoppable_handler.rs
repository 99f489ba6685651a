// SPDX-License-Identifier: GPL-2.0

//! Handler that an interrupt calls until it is stopped: the part that `irq_work` and BH work items share.

use super::irq_work::InterruptHandler;
use crate::{
    prelude::*,
    util::context::InterruptContext, //
};
use core::cell::UnsafeCell;

/// Handler, and the end of its calls.
///
/// # Invariants
///
/// `handler` is read only by [`Self::call`], and written only by [`Self::stop`], once, after the last call.
#[pin_data]
pub(super) struct StoppableHandler {
    is_stopped: AtomicFlag,
    /// True once the calls have ended. The mutex is held while waiting for their end.
    #[pin]
    has_ended: Mutex<bool>,
    handler: UnsafeCell<Option<KBox<dyn InterruptHandler>>>,
}

// SAFETY: The handler is `Send` and `Sync`.
unsafe impl Send for StoppableHandler {}

// SAFETY: As above; by the invariant the handler is not touched by two at a time.
unsafe impl Sync for StoppableHandler {}

impl StoppableHandler {
    /// Creates the calls of a handler.
    pub(super) fn new(handler: KBox<dyn InterruptHandler>) -> impl PinInit<Self> {
        pin_init!(Self {
            is_stopped: AtomicFlag::new(false),
            has_ended <- new_mutex!(false, "kofi::StoppableHandler"),
            handler: UnsafeCell::new(Some(handler)),
        })
    }

    /// Prevents new calls. Any context.
    pub(super) fn block(&self) {
        let _ = self.is_stopped.xchg(true, Full);
    }

    /// Returns whether new calls are prevented. Any context.
    #[inline(always)]
    pub(super) fn is_blocked(&self) -> bool {
        self.is_stopped.load(Acquire)
    }

    /// Calls the handler, unless calls are prevented.
    ///
    /// # Safety
    ///
    /// This is an interrupt, no other call runs, and `wait_idle` of [`Self::stop`] waits for this one.
    #[inline(always)]
    pub(super) unsafe fn call(&self) {
        if self.is_blocked() {
            return;
        }
        // SAFETY: By the invariant, as `stop` writes after `wait_idle`.
        if let Some(handler) = unsafe { &*self.handler.get() } {
            handler.handle(&InterruptContext::assume());
        }
    }

    /// Ends the calls: when this returns the handler is not running and will not run. The first call drops the
    /// handler. May sleep.
    ///
    /// # Safety
    ///
    /// When `wait_idle` returns, no call runs or will run.
    pub(super) unsafe fn stop(&self, wait_idle: impl FnOnce()) {
        self.block();
        let mut ended = self.has_ended.lock();
        if *ended {
            return;
        }
        wait_idle();
        *ended = true;
        // SAFETY: By this function's safety requirement nothing reads it, and `has_ended` lets one caller through.
        let handler = unsafe { (*self.handler.get()).take() };
        drop(ended);
        drop(handler);
    }

    /// Returns whether [`Self::stop`] has dropped the handler.
    ///
    /// # Safety
    ///
    /// There is no other reference to this object, except of a call that runs.
    pub(super) unsafe fn is_empty(&self) -> bool {
        // SAFETY: By this function's safety requirement nothing writes it.
        unsafe { (*self.handler.get()).is_none() }
    }
}
