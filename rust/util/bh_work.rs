// SPDX-License-Identifier: GPL-2.0

//! Calls from softirq context by a work item on the kernel's BH workqueue, which the kernel crate can
//! queue but not wait for.

use super::{
    context::InterruptContext,
    irq_work::InterruptHandler, //
};
use crate::prelude::*;
use core::{
    cell::UnsafeCell,
    pin::Pin, //
};
use kernel::{
    bindings,
    container_of,
    error::Result,
    types::Opaque, //
};

/// Calls a handler from a softirq, one call at a time.
///
/// The softirq runs on the CPU that requests the call. PREEMPT_RT runs it in a thread.
///
/// # Invariants
///
/// - `raw` is initialised, and its function is [`run`].
/// - `handler` is read only by `run`, and written only by [`Self::stop`], once, after the last `run`.
#[pin_data(PinnedDrop)]
pub(crate) struct BhWork {
    #[pin]
    raw: Opaque<bindings::work_struct>,
    is_stopped: AtomicFlag,
    /// True once the calls have ended. The mutex is held while waiting for their end.
    #[pin]
    has_ended: Mutex<bool>,
    handler: UnsafeCell<Option<KBox<dyn InterruptHandler>>>,
}

// SAFETY: `raw` may be queued and waited for by anyone; the handler is `Send` and `Sync`.
unsafe impl Send for BhWork {}

// SAFETY: As above; by the invariant the handler is not touched by two at a time, because a work item does not
// run concurrently with itself.
unsafe impl Sync for BhWork {}

impl BhWork {
    /// Makes it; no call comes before [`Self::queue`]. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(handler: KBox<dyn InterruptHandler>) -> Result<Pin<KBox<Self>>> {
        KBox::pin_init(
            // INVARIANT: `raw` is initialised with `run`.
            pin_init!(Self {
                raw <- Opaque::ffi_init(|slot| {
                    // SAFETY: `slot` is memory for a work item, and both names are static.
                    unsafe {
                        bindings::init_work_with_key(
                            slot,
                            Some(run),
                            false,
                            c"kofi::BhWork::raw".as_char_ptr(),
                            static_lock_class!().as_ptr(),
                        )
                    }
                }),
                is_stopped: AtomicFlag::new(false),
                has_ended <- new_mutex!(false, "kofi::BhWork"),
                handler: UnsafeCell::new(Some(handler)),
            }),
            GFP_KERNEL,
        )
    }

    /// Requests a call of the handler; one call serves all requests made before it. Any context.
    pub(crate) fn queue(&self) {
        // SAFETY: By the invariant `raw` is initialised. `stop` disables the item before it is freed, and a
        // disabled item is not queued. The workqueue always exists.
        unsafe {
            bindings::queue_work_on(
                bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
                bindings::system_bh_wq,
                self.raw.get(),
            )
        };
    }

    /// Prevents new calls. Any context.
    pub(crate) fn block(&self) {
        self.is_stopped.store(true, Release);
    }

    /// Ends the calls: when this returns the handler is not running and will not run. The first call drops
    /// the handler. May sleep.
    pub(crate) fn stop(&self) {
        self.block();
        let mut ended = self.has_ended.lock();
        if *ended {
            return;
        }
        self.wait_idle();
        *ended = true;
        // SAFETY: By the invariant, for nothing runs any more.
        let handler = unsafe { (*self.handler.get()).take() };
        drop(ended);
        drop(handler);
    }

    /// Waits until nothing is queued or runs, and keeps it so.
    fn wait_idle(&self) {
        // SAFETY: By the invariant `raw` is initialised.
        unsafe { bindings::disable_work_sync(self.raw.get()) };
    }
}

#[pinned_drop]
impl PinnedDrop for BhWork {
    fn drop(self: Pin<&mut Self>) {
        self.block();
        // SAFETY: There is no other reference to the object; a running call only reads.
        if unsafe { (*self.handler.get()).is_some() } {
            self.wait_idle();
        }
    }
}

/// # Safety
///
/// Called by the workqueue, with the `raw` of a [`BhWork`].
unsafe extern "C" fn run(raw: *mut bindings::work_struct) {
    // SAFETY: By this function's contract; `stop` waits for this call before the object is freed.
    let work = unsafe { &*container_of!(Opaque::cast_from(raw), BhWork, raw) };
    if work.is_stopped.load(Acquire) {
        return;
    }
    // SAFETY: By the invariant it is not written while this runs.
    if let Some(handler) = unsafe { &*work.handler.get() } {
        handler.handle(&InterruptContext::assume());
    }
}
