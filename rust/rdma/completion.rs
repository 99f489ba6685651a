// SPDX-License-Identifier: GPL-2.0

//! Completions of the kernel with a timeout, which [`kernel::sync::Completion`] does not have.

use super::{
    cq::CqHandler,
    prelude::*, //
};
use kernel::time::Jiffies;

/// A kernel `struct completion` that one task waits for.
#[pin_data]
pub(super) struct TimedCompletion {
    #[pin]
    raw: Opaque<kernel::bindings::completion>,
}

// SAFETY: A completion has its own lock, and any thread may complete it or wait for it.
unsafe impl Send for TimedCompletion {}

// SAFETY: As above.
unsafe impl Sync for TimedCompletion {}

impl TimedCompletion {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            raw <- Opaque::ffi_init(|slot| {
                // SAFETY: `slot` is memory for a completion, and pinned.
                unsafe { kernel::bindings::init_completion(slot) }
            }),
        })
    }

    /// Completes it once. Any context.
    pub(super) fn complete(&self) {
        // SAFETY: `raw` was initialised with the object.
        unsafe { kernel::bindings::complete(self.raw.get()) };
    }

    /// Waits up to `left` jiffies for one [`Self::complete`]. Returns the jiffies left, or 0 after
    /// a timeout. May sleep.
    pub(super) fn wait_timeout(&self, left: Jiffies) -> Jiffies {
        // SAFETY: `raw` was initialised with the object.
        unsafe { kernel::bindings::wait_for_completion_timeout(self.raw.get(), left) }
    }
}

impl CqHandler for Arc<TimedCompletion> {
    fn handle_completion(&self) {
        self.complete();
    }
}
