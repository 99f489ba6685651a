// SPDX-License-Identifier: GPL-2.0

//! Waiting for the hardware, for a bounded time: the kernel's completion.

use super::cq::CqHandler;
use kernel::{
    prelude::*,
    time::Jiffies,
    types::Opaque, //
};

/// Something that one task waits for, and any context says has happened.
#[pin_data]
pub(super) struct TimedCompletion {
    #[pin]
    raw: Opaque<kernel::bindings::completion>,
}

// SAFETY: A completion has its own lock, and may be given and waited for by any thread.
unsafe impl Send for TimedCompletion {}

// SAFETY: As above.
unsafe impl Sync for TimedCompletion {}

impl TimedCompletion {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            raw <- Opaque::ffi_init(|slot| {
                // SAFETY: `slot` is memory for a completion, which stays where it is.
                unsafe { kernel::bindings::init_completion(slot) }
            }),
        })
    }

    /// It has happened, once more. Any context.
    pub(super) fn complete(&self) {
        // SAFETY: `inner` was initialised with the object.
        unsafe { kernel::bindings::complete(self.raw.get()) };
    }

    /// Takes one [`Self::give`], for which it waits at most `left`; 0 when the time is over, else
    /// what is left of it. May sleep.
    pub(super) fn wait_timeout(&self, left: Jiffies) -> Jiffies {
        // SAFETY: `inner` was initialised with the object.
        unsafe { kernel::bindings::wait_for_completion_timeout(self.raw.get(), left) }
    }
}

impl CqHandler for TimedCompletion {
    fn handle_completion(&self) {
        self.complete();
    }
}
