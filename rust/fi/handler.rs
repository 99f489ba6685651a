// SPDX-License-Identifier: GPL-2.0

//! The handler of a queue, called where it may sleep, and the close that waits for it.
//!
//! Its owner is a work item, which does not run twice at a time, and takes the handler along for the
//! time of a call. The spinlock is a leaf.

use crate::abi::{
    context::has_put_off_an_end,
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
        new_condvar,
        new_spinlock,
        CondVar,
        SpinLock, //
    },
    task::Task, //
};

struct State<H: ?Sized> {
    stopped: bool,
    /// Not there while it is called.
    handler: Option<KBox<H>>,
}

/// Where a queue keeps its handler.
#[pin_data]
pub(super) struct Slot<H: ?Sized> {
    filled: AtomicFlag,
    /// The address of the task that is in the handler, 0 for none.
    inside: Atomic<usize>,
    #[pin]
    state: SpinLock<State<H>>,
    /// The last call is over.
    #[pin]
    left: CondVar,
}

impl<H: ?Sized> Slot<H> {
    /// No handler yet.
    pub(super) fn new() -> impl PinInit<Self> {
        let state = State {
            stopped: false,
            handler: None,
        };
        pin_init!(Self {
            filled: AtomicFlag::new(false),
            inside: Atomic::new(0),
            state <- new_spinlock!(state, "kofi::Slot"),
            left <- new_condvar!("kofi::Slot"),
        })
    }

    /// Puts a handler in, once. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EBUSY if there is one.
    pub(super) fn fill(&self, handler: KBox<H>) -> Result {
        let mut state = self.state.lock();
        if self.filled.load(Relaxed) {
            // The handler is dropped after the guard.
            return Err(Errno::EBUSY);
        }
        state.handler = Some(handler);
        self.filled.store(true, Release);
        Ok(())
    }

    /// Whether there is, or was, a handler. Any context.
    pub(super) fn is_filled(&self) -> bool {
        self.filled.load(Acquire)
    }

    /// Calls the handler through `f`, unless it has been stopped. From the work item alone.
    pub(super) fn call(&self, f: impl FnOnce(&H)) {
        if let Some(handler) = self.begin() {
            f(&handler);
            self.end(handler);
        }
    }

    fn begin(&self) -> Option<KBox<H>> {
        let mut state = self.state.lock();
        if state.stopped {
            return None;
        }
        let handler = state.handler.take()?;
        self.inside.store(here(), Relaxed);
        Some(handler)
    }

    fn end(&self, handler: KBox<H>) {
        let mut state = self.state.lock();
        if !state.stopped {
            state.handler = Some(handler);
            self.inside.store(0, Relaxed);
            return;
        }
        drop(state);
        // Who waits for the end of the calls finds it gone.
        drop(handler);
        let _state = self.state.lock();
        self.inside.store(0, Relaxed);
        self.left.notify_all();
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
        let mut state = self.state.lock();
        state.stopped = true;
        if self.is_here() {
            has_put_off_an_end();
            return;
        }
        while self.inside.load(Relaxed) != 0 {
            self.left.wait(&mut state);
        }
        let handler = state.handler.take();
        drop(state);
        drop(handler);
    }
}

fn here() -> usize {
    Task::current_raw() as usize
}
