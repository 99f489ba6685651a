// SPDX-License-Identifier: GPL-2.0

//! A wait queue with a sequence count, on which threads sleep until the count changes.
//!
//! The kernel crate's `CondVar` needs a second lock beside that of its wait queue. The waiter and the waker
//! both take it for each wait. Here the count replaces the state that such a lock would guard.

use crate::prelude::*;
use kernel::{
    bindings::{
        self,
        wait_queue_head, //
    },
    error::Result,
    ffi::c_long,
    sync::LockClassKey,
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

/// Returns the current jiffies. Any context.
#[inline]
pub(crate) fn now_jiffies() -> Jiffies {
    // SAFETY: The kernel's counter always exists, and is read by a single access.
    unsafe { (&raw const bindings::jiffies).read_volatile() }
}

/// A count, and the threads that wait for it to change.
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
    /// Creates a wait queue without waiters; `name` and `class` are the lockdep name and class of its lock.
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

    /// Returns the count. Any context.
    #[inline]
    pub(crate) fn count(&self) -> i64 {
        self.count.load(Acquire)
    }

    /// Returns the wait queue, which lives as long as `self`.
    pub(crate) fn wait_queue(&self) -> *mut WaitQueue {
        self.head.get()
    }

    /// Increments the count and wakes all waiters. Any context.
    pub(crate) fn wake_all(&self) {
        // Full barrier: a thread that is about to sleep sees the count, or the wakeup sees the thread.
        let _ = self.count.fetch_add(1, Full);
        // SAFETY: By the invariant.
        unsafe { ffi::kofi_wake(self.head.get()) };
    }

    /// Sleeps while the count is `seen`, for at most `timeout`; returns the remaining time. Process context.
    ///
    /// # Errors
    ///
    /// `ERESTARTSYS` if a signal is pending. In a kthread that should stop, the call returns early, without an error.
    #[inline]
    pub(crate) fn wait_change(&self, seen: i64, timeout: Jiffies) -> Result<Jiffies> {
        let timeout = c_long::try_from(timeout).unwrap_or(c_long::MAX);
        let count = self.count.as_ptr();
        // SAFETY: By the invariant; the count is pinned.
        let left = unsafe { ffi::kofi_sleep(self.head.get(), count, seen, timeout) };
        Jiffies::try_from(left).map_err(|_| ERESTARTSYS)
    }
}
