// SPDX-License-Identifier: GPL-2.0

//! What lets calls into an object go on until it closes, and its close wait for them.

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

/// Lets callbacks of an object run until the object closes, and lets the close wait for them.
#[pin_data]
pub struct Rundown {
    #[pin]
    passage: FastLockIrq<RundownState>,
    #[pin]
    left: CondVar,
}

/// Being inside a [`Gate`].
pub struct RundownGuard<'a>(&'a Rundown);

impl Rundown {
    /// An open gate.
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

    /// Goes in, unless the gate has been shut. Any context.
    pub fn enter(&self) -> Option<RundownGuard<'_>> {
        let mut passage = self.passage.lock();
        if passage.shut {
            return None;
        }
        passage.inside += 1;
        Some(RundownGuard(self))
    }

    /// Whether it has been shut: who is inside should leave. Any context.
    pub fn is_shut(&self) -> bool {
        self.passage.lock().shut
    }

    /// Lets nobody in any more and waits until everybody has left. Process context.
    pub fn shut(&self) {
        let mut passage = self.passage.lock();
        passage.shut = true;
        while passage.inside > 0 {
            self.left.wait(&mut passage);
        }
    }
}

impl Rundown {
    /// Goes in to stay longer than the caller, unless the gate has been shut. Any context.
    pub fn stay(self: &Arc<Self>) -> Option<OwnedRundownGuard> {
        let pass = self.enter()?;
        // It is left when the stay ends.
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

/// Being inside a [`Gate`] for as long as something goes on by itself.
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

/// Being with somebody, who is there until this has ended.
pub(crate) struct RundownRef<T: ?Sized> {
    // Dropped in this order: the last reference is not the visitor's.
    pub(crate) who: Arc<T>,
    pub(crate) _stay: OwnedRundownGuard,
}
