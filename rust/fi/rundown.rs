// SPDX-License-Identifier: GPL-2.0

//! Rundown protection: calls into an object run until it closes, and the close waits for them.

use crate::abi::lock::FastLockIrq;
use kernel::{
    prelude::*,
    sync::{
        new_condvar,
        static_lock_class,
        Arc,
        CondVar, //
    },
};

struct RundownState {
    shut: bool,
    inside: u32,
}

/// Rundown protection of an object. The spinlock guards the state.
#[pin_data]
pub struct Rundown {
    #[pin]
    passage: FastLockIrq<RundownState>,
    #[pin]
    left: CondVar,
}

/// A call that the close waits for.
pub struct RundownGuard<'a>(&'a Rundown);

impl Rundown {
    /// Returns a rundown that lets calls in.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            passage <- FastLockIrq::new(
                RundownState { shut: false, inside: 0 },
                c"kofi::Gate",
                static_lock_class!(),
            ),
            left <- new_condvar!("kofi::Gate"),
        })
    }

    /// Begins a call; `None` once the rundown has started. Any context.
    pub fn enter(&self) -> Option<RundownGuard<'_>> {
        let mut passage = self.passage.lock();
        if passage.shut {
            return None;
        }
        passage.inside += 1;
        Some(RundownGuard(self))
    }

    /// Returns true once the rundown has started: running calls should end. Any context.
    pub fn is_shut(&self) -> bool {
        self.passage.lock().shut
    }

    /// Starts the rundown: prevents new calls, and waits for the running ones. Process context.
    pub fn shut(&self) {
        let mut passage = self.passage.lock();
        passage.shut = true;
        while passage.inside > 0 {
            self.left.wait(&mut passage);
        }
    }
}

impl Rundown {
    /// Begins a call that may outlive the caller; `None` once the rundown has started. Any context.
    pub fn stay(self: &Arc<Self>) -> Option<OwnedRundownGuard> {
        let pass = self.enter()?;
        // Dropping the returned guard ends the call.
        core::mem::forget(pass);
        Some(OwnedRundownGuard(self.clone()))
    }

    fn leave(&self) {
        let mut passage = self.passage.lock();
        passage.inside -= 1;
        if passage.shut && passage.inside == 0 {
            self.left.notify_all();
        }
    }
}

/// A call that the close waits for, which owns a reference to the [`Rundown`].
pub struct OwnedRundownGuard(Arc<Rundown>);

impl Drop for RundownGuard<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Drop for OwnedRundownGuard {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// A reference to an object whose close waits until the reference is dropped.
pub(crate) struct RundownRef<T: ?Sized> {
    // Fields drop in this order: until the guard is dropped the owner keeps its reference, so this one is
    // never the last.
    pub(crate) who: Arc<T>,
    pub(crate) _stay: OwnedRundownGuard,
}
