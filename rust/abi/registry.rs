// SPDX-License-Identifier: GPL-2.0

//! What consumers of the whole module find by name: one list, behind one lock.
//!
//! The lock is a mutex, and a leaf but for the allocator's.

use core::any::Any;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        global_lock,
        Arc, //
    },
};

/// What is in the list; whoever put it there knows it by its type.
pub(crate) type Entry = Arc<dyn Any + Send + Sync>;

global_lock! {
    // SAFETY: Initialised by the first `Registry`, before `STATE` says that it may be taken.
    unsafe(uninit) static ENTRIES: Mutex<KVec<Entry>> = KVec::new();
}

const NEVER: u32 = 0;
const STARTING: u32 = 1;
const READY: u32 = 2;

/// Whether `ENTRIES` may be locked; never goes back.
static STATE: Atomic<u32> = Atomic::new(NEVER);

/// The list, as long as the module has it.
pub(crate) struct Registry(());

impl Registry {
    /// Makes the list usable, once in the module's life.
    ///
    /// # Errors
    ///
    /// `EBUSY` for a second time.
    pub(crate) fn start() -> Result<Self> {
        if STATE.cmpxchg(NEVER, STARTING, Relaxed).is_err() {
            return Err(EBUSY);
        }
        // SAFETY: `STATE` left `NEVER`, which happens once.
        unsafe { ENTRIES.init() };
        // SAFETY: As above.
        unsafe { super::object_table::start() };
        // SAFETY: As above.
        unsafe { super::callback::start() };
        STATE.store(READY, Release);
        Ok(Self(()))
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // A static is never dropped, and even an empty list has memory.
        drop(with(core::mem::take));
    }
}

/// Runs `f` on the list; on one that is forgotten before there is any. Process context.
pub(crate) fn with<R>(f: impl FnOnce(&mut KVec<Entry>) -> R) -> R {
    if STATE.load(Acquire) != READY {
        return f(&mut KVec::new());
    }
    f(&mut ENTRIES.lock())
}
