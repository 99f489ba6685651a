// SPDX-License-Identifier: GPL-2.0

//! Rundown protection: calls into an object run until it closes, and the close waits for them.

use crate::fi::prelude::*;
use kernel::sync::{
    new_condvar,
    CondVar, //
};

struct RundownState {
    started: bool,
    active_calls: u32,
}

/// Rundown protection of an object. The spinlock guards the state.
#[pin_data]
pub struct Rundown {
    #[pin]
    state: FastLockIrq<RundownState>,
    #[pin]
    drained: CondVar,
}

impl Rundown {
    /// Returns a rundown that lets calls in.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            state <- FastLockIrq::new(
                RundownState { started: false, active_calls: 0 },
                c"kofi::Rundown",
                static_lock_class!(),
            ),
            drained <- new_condvar!("kofi::Rundown::drained"),
        })
    }

    /// Begins a call; `None` once the rundown has started. Any context.
    pub fn begin_call(&self) -> Option<RundownGuard<&Self>> {
        let mut passage = self.state.lock();
        if passage.started {
            return None;
        }
        passage.active_calls += 1;
        Some(RundownGuard(self))
    }

    /// Returns true once the rundown has started: running calls should end. Any context.
    pub fn has_started(&self) -> bool {
        self.state.lock().started
    }

    /// Starts the rundown: prevents new calls, and waits for the running ones. Process context.
    pub fn run_down(&self) {
        let mut passage = self.state.lock();
        passage.started = true;
        while passage.active_calls > 0 {
            self.drained.wait(&mut passage);
        }
    }

    /// Begins a call that may outlive the caller; `None` once the rundown has started. Any context.
    pub fn begin_owned_call(self: &Arc<Self>) -> Option<OwnedRundownGuard> {
        let pass = self.begin_call()?;
        // Dropping the returned guard ends the call.
        core::mem::forget(pass);
        Some(RundownGuard(self.clone()))
    }

    fn end_call(&self) {
        let mut passage = self.state.lock();
        passage.active_calls -= 1;
        if passage.started && passage.active_calls == 0 {
            self.drained.notify_all();
        }
    }
}

/// A call that the close waits for, with a reference to the [`Rundown`].
pub struct RundownGuard<R: Deref<Target = Rundown>>(R);

/// A call that may outlive its caller.
pub type OwnedRundownGuard = RundownGuard<Arc<Rundown>>;

impl<R: Deref<Target = Rundown>> Drop for RundownGuard<R> {
    fn drop(&mut self) {
        self.0.end_call();
    }
}

/// A reference to an object whose close waits until the reference is dropped.
pub(crate) struct RundownRef<T: ?Sized> {
    // Fields drop in this order: until the guard is dropped the owner keeps its reference, so this one is
    // never the last.
    pub(crate) object: Arc<T>,
    pub(crate) _guard: OwnedRundownGuard,
}
