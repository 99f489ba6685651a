// SPDX-License-Identifier: GPL-2.0

//! Adaptive moderation of completion queues, by the kernel's DIM library.

use super::{
    cq::Cq,
    prelude::*, //
};
use crate::compat::EOPNOTSUPP;

/// Adaptive moderation of a completion queue: measures how many completions each read finds, and
/// changes the queue's moderation from a work item.
///
/// # Invariants
///
/// `raw` came from `kofi_dim_new()` for `cq`, and belongs to this object.
pub(crate) struct CqDim {
    raw: NonNull<c_void>,
    _cq: Arc<Cq>,
}

// SAFETY: The work item has its own locks, and `sample` has a safety requirement.
unsafe impl Send for CqDim {}

// SAFETY: As above.
unsafe impl Sync for CqDim {}

impl CqDim {
    /// Creates the adaptive moderation of a queue, turned off.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for a device without moderation, `ENOMEM`.
    pub(crate) fn new(cq: Arc<Cq>) -> Result<Self> {
        if !cq.has_moderation() {
            return Err(EOPNOTSUPP);
        }
        // SAFETY: The queue outlives the state, which holds it.
        let raw = unsafe { bindings::kofi_dim_new(cq.raw()) };
        // INVARIANT: By construction.
        Ok(Self {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
            _cq: cq,
        })
    }

    /// Counts the completions that a read has found. Any context.
    ///
    /// # Safety
    ///
    /// No other thread calls this for the same object at the same time.
    pub(crate) unsafe fn sample(&self, completions: u64) {
        // SAFETY: By the invariant and this function's contract.
        unsafe { bindings::kofi_dim_sample(self.raw.as_ptr(), completions) };
    }

    /// Turns the moderation's changes on or off: once they are off, none is under way. May sleep.
    ///
    /// # Errors
    ///
    /// The driver's errors, when they are turned on; they are off then.
    pub(crate) fn set_enabled(&self, is_enabled: bool) -> Result {
        // SAFETY: By the invariant.
        to_result(unsafe { bindings::kofi_dim_set(self.raw.as_ptr(), is_enabled) })
    }
}

impl Drop for CqDim {
    fn drop(&mut self) {
        // SAFETY: By the invariant; there is no other reference to it.
        unsafe { bindings::kofi_dim_free(self.raw.as_ptr()) };
    }
}
