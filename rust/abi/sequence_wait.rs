// SPDX-License-Identifier: GPL-2.0

//! Threads that sleep until a count goes on.
//!
//! The kernel crate's `CondVar` needs a lock beside it, which both sides take for each wait, and its
//! wait queue has one of its own. Here a count stands in place of what that lock would guard.

use kernel::{
    bindings::{
        self,
        wait_queue_head, //
    },
    ffi::c_long,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full, //
        },
        LockClassKey, //
    },
    time::Jiffies,
    types::Opaque, //
};

/// `wait_queue_head_t`.
pub(crate) type WaitQueue = wait_queue_head;

mod ffi {
    use super::*;

    extern "C" {
        pub(super) fn kofi_sleep(
            sleepers: *mut wait_queue_head,
            count: *const i64,
            seen: i64,
            timeout: c_long,
        ) -> c_long;
        pub(super) fn kofi_wake(sleepers: *mut wait_queue_head);
    }
}

/// The tick that it is. Any context.
#[inline]
pub(crate) fn now() -> Jiffies {
    // SAFETY: The kernel's own, which is there for ever and is read in one piece.
    unsafe { (&raw const bindings::jiffies).read_volatile() }
}

/// A count, and the threads that wait for it to go on.
///
/// # Invariants
///
/// `head` is initialised.
#[pin_data]
pub(crate) struct SequenceWait {
    count: Atomic<i64>,
    #[pin]
    head: Opaque<wait_queue_head>,
}

// SAFETY: Wait queues may be used by any thread.
unsafe impl Send for SequenceWait {}

// SAFETY: As above.
unsafe impl Sync for SequenceWait {}

impl SequenceWait {
    /// Nobody sleeps, with the lockdep class of the queue's lock.
    pub(crate) fn new(
        name: &'static CStr,
        class: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            count: Atomic::new(0),
            // SAFETY: The slot is valid, name and class live for ever.
            head <- Opaque::ffi_init(|slot| unsafe {
                bindings::__init_waitqueue_head(slot, name.as_char_ptr(), class.as_ptr())
            }),
        })
    }

    /// The count. Any context.
    #[inline]
    pub(crate) fn count(&self) -> i64 {
        self.count.load(Acquire)
    }

    /// Where they sleep; it lives as long as this.
    pub(crate) fn wait_queue(&self) -> *mut WaitQueue {
        self.head.get()
    }

    /// Counts one, and wakes everybody. Any context.
    pub(crate) fn wake(&self) {
        // Full: who is about to sleep sees the count, or is seen.
        let _ = self.count.fetch_add(1, Full);
        // SAFETY: By the invariant.
        unsafe { ffi::kofi_wake(self.head.get()) };
    }

    /// Sleeps as long as the count is what was `seen`, for at most `timeout`; returns what is left of
    /// that. Process context.
    ///
    /// # Errors
    ///
    /// `ERESTARTSYS` if a signal is pending. A kthread that is to stop returns early, without an error.
    #[inline]
    pub(crate) fn sleep(&self, seen: i64, timeout: Jiffies) -> Result<Jiffies> {
        let timeout = c_long::try_from(timeout).unwrap_or(c_long::MAX);
        let count = self.count.as_ptr();
        // SAFETY: By the invariant; the count stays where it is meanwhile.
        let left = unsafe { ffi::kofi_sleep(self.head.get(), count, seen, timeout) };
        Jiffies::try_from(left).map_err(|_| ERESTARTSYS)
    }
}
