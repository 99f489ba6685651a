// SPDX-License-Identifier: GPL-2.0

//! The slot of a queue's handler, which runs in process context; stopping it waits for a running call.
//!
//! The slot's owner is a work item, which does not run concurrently with itself. The handler is taken out of
//! the slot during a call. The spinlock is a leaf.

use crate::{
    fi::prelude::*,
    util::context::defer_module_unload, //
};
use kernel::{
    sync::{
        new_condvar,
        new_spinlock,
        CondVar,
        SpinLock, //
    },
    task::Task, //
};

struct State<H: ?Sized> {
    stopped: bool,
    /// `None` during a call.
    handler: Option<KBox<H>>,
}

/// The slot of a queue's handler.
#[pin_data]
pub(super) struct Slot<H: ?Sized> {
    has_handler: AtomicFlag,
    /// Address of the task that runs the handler, 0 for none.
    running_task: Atomic<usize>,
    #[pin]
    state: SpinLock<State<H>>,
    /// Notified when the last call has ended.
    #[pin]
    call_ended: CondVar,
}

impl<H: ?Sized> Slot<H> {
    /// Returns an empty slot.
    pub(super) fn new() -> impl PinInit<Self> {
        let state = State {
            stopped: false,
            handler: None,
        };
        pin_init!(Self {
            has_handler: AtomicFlag::new(false),
            running_task: Atomic::new(0),
            state <- new_spinlock!(state, "kofi::handler::Slot"),
            call_ended <- new_condvar!("kofi::handler::Slot::call_ended"),
        })
    }

    /// Installs the handler, once. Process context.
    ///
    /// # Errors
    ///
    /// -FI_EBUSY if there is a handler already.
    pub(super) fn install(&self, handler: KBox<H>) -> Result {
        let mut state = self.state.lock();
        if self.has_handler.load(Relaxed) {
            // `handler` is dropped after the guard.
            return Err(Errno::EBUSY);
        }
        state.handler = Some(handler);
        self.has_handler.store(true, Release);
        Ok(())
    }

    /// Returns true if there is, or was, a handler. Any context.
    pub(super) fn has_handler(&self) -> bool {
        self.has_handler.load(Acquire)
    }

    /// Calls the handler through `f`, unless it has been stopped. Called by the work item alone.
    pub(super) fn call(&self, f: impl FnOnce(&H)) {
        let mut state = self.state.lock();
        if state.stopped {
            return;
        }
        let Some(handler) = state.handler.take() else {
            return;
        };
        self.running_task.store(current_task(), Relaxed);
        drop(state);
        f(&handler);
        let mut state = self.state.lock();
        if !state.stopped {
            state.handler = Some(handler);
            self.running_task.store(0, Relaxed);
            return;
        }
        drop(state);
        // Dropped before the waiter in `stop` continues.
        drop(handler);
        let _state = self.state.lock();
        self.running_task.store(0, Relaxed);
        self.call_ended.notify_all();
    }

    /// Returns true if the caller is in the handler.
    pub(super) fn in_handler(&self) -> bool {
        // The address of a task is written only by the task itself.
        self.running_task.load(Relaxed) == current_task()
    }

    /// Stops the handler: when this returns it is not running, will not run, and has been dropped. May sleep.
    ///
    /// A call from the handler itself does not wait: the running call is the last one, and drops the handler.
    pub(super) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        if self.in_handler() {
            defer_module_unload();
            return;
        }
        while self.running_task.load(Relaxed) != 0 {
            self.call_ended.wait(&mut state);
        }
        let handler = state.handler.take();
        drop(state);
        drop(handler);
    }
}

fn current_task() -> usize {
    Task::current_raw() as usize
}
