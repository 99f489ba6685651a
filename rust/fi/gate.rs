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

struct Passage {
    shut: bool,
    inside: u32,
}

/// Lets callbacks of an object run until the object closes, and lets the close wait for them.
#[pin_data]
pub struct Gate {
    #[pin]
    passage: FastLockIrq<Passage>,
    #[pin]
    left: CondVar,
}

/// Being inside a [`Gate`].
pub struct Pass<'a>(&'a Gate);

impl Gate {
    /// An open gate.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            passage <- FastLockIrq::new(
                Passage { shut: false, inside: 0 },
                c"kofi::Gate",
                static_lock_class!(),
            ),
            left <- new_condvar!("kofi::Gate"),
        })
    }

    /// Goes in, unless the gate has been shut. Any context.
    pub fn enter(&self) -> Option<Pass<'_>> {
        let mut passage = self.passage.lock();
        if passage.shut {
            return None;
        }
        passage.inside += 1;
        Some(Pass(self))
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

impl Gate {
    /// Goes in to stay longer than the caller, unless the gate has been shut. Any context.
    pub fn stay(self: &Arc<Self>) -> Option<Stay> {
        let pass = self.enter()?;
        // It is left when the stay ends.
        core::mem::forget(pass);
        Some(Stay(self.clone()))
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
pub struct Stay(Arc<Gate>);

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// Being with somebody, who is there until this has ended.
pub(crate) struct Visit<T: ?Sized> {
    // Dropped in this order: the last reference is not the visitor's.
    pub(crate) who: Arc<T>,
    pub(crate) _stay: Stay,
}
