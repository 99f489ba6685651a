// SPDX-License-Identifier: GPL-2.0

//! A module-wide list of entries of several types: ports, named address vectors, lingering rdma_cm ids and
//! registered providers.
//!
//! A mutex guards it, and is a leaf but for the allocator's locks.

use crate::prelude::*;
use core::any::Any;
use kernel::{
    error::Result,
    sync::global_lock, //
};

/// An entry, which is identified by its type.
pub(crate) type Entry = Arc<dyn Any + Send + Sync>;

global_lock! {
    // SAFETY: Initialised by the first `Registry`, before `LIST_STATE` says that it may be taken.
    unsafe(uninit) static ENTRIES: Mutex<KVec<Entry>> = KVec::new();
}

const UNINITIALIZED: u32 = 0;
const INITIALIZING: u32 = 1;
const INITIALIZED: u32 = 2;

/// State of `ENTRIES`, which may be locked once it is `INITIALIZED`; it never goes back.
static LIST_STATE: Atomic<u32> = Atomic::new(UNINITIALIZED);

/// Owner of the list, for the life of the module.
pub(crate) struct Registry(());

impl Registry {
    /// Initialises the list, once in the module's life.
    ///
    /// # Errors
    ///
    /// `EBUSY` for a second call.
    pub(crate) fn init() -> Result<Self> {
        let first = LIST_STATE.cmpxchg(UNINITIALIZED, INITIALIZING, Relaxed);
        first.map_err(|_| EBUSY)?;
        // SAFETY: `LIST_STATE` left `UNINITIALIZED`, which happens once.
        unsafe { ENTRIES.init() };
        // SAFETY: As above.
        unsafe { crate::introspect::object_table::init_table() };
        // SAFETY: As above.
        unsafe { super::callback::init_list() };
        LIST_STATE.store(INITIALIZED, Release);
        Ok(Self(()))
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // Emptied because a static is never dropped, and even an empty list can own memory.
        drop(with_list(core::mem::take));
    }
}

/// Runs `f` on the locked list, or before initialisation on an empty list, which is then discarded. Process
/// context.
pub(crate) fn with_list<R>(f: impl FnOnce(&mut KVec<Entry>) -> R) -> R {
    if LIST_STATE.load(Acquire) != INITIALIZED {
        return f(&mut KVec::new());
    }
    f(&mut ENTRIES.lock())
}
