// SPDX-License-Identifier: GPL-2.0

//! Calls from softirq context by a work item on the kernel's BH workqueue, which the kernel crate can
//! queue but not wait for.

use super::{
    irq_work::InterruptHandler, //
    stoppable_handler::StoppableHandler,
};
use crate::prelude::*;
use core::pin::Pin;
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
/// `raw` is initialised, and its function is [`run`].
#[pin_data(PinnedDrop)]
pub(crate) struct BhWork {
    #[pin]
    raw: Opaque<bindings::work_struct>,
    #[pin]
    handler: StoppableHandler,
}

// SAFETY: `raw` may be queued and waited for by any thread.
unsafe impl Send for BhWork {}

// SAFETY: As above.
unsafe impl Sync for BhWork {}

impl BhWork {
    /// Creates a work item for `handler`, which is not called before [`Self::queue`]. May sleep.
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
                handler <- StoppableHandler::new(handler),
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
        self.handler.block();
    }

    /// Ends the calls: when this returns the handler is not running and will not run. The first call drops
    /// the handler. May sleep.
    pub(crate) fn stop(&self) {
        // SAFETY: A disabled item does not run.
        unsafe { self.handler.stop(|| self.wait_idle()) };
    }

    /// Waits until the work item is neither queued nor running, and disables it.
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
        if !unsafe { self.handler.is_empty() } {
            self.wait_idle();
        }
    }
}

/// Runs the work item.
///
/// # Safety
///
/// Called by the workqueue, with the `raw` of a [`BhWork`].
unsafe extern "C" fn run(raw: *mut bindings::work_struct) {
    // SAFETY: By this function's contract; `stop` waits for this call before the object is freed.
    let work = unsafe { &*container_of!(Opaque::cast_from(raw), BhWork, raw) };
    // SAFETY: A work item does not run concurrently with itself, and `wait_idle` waits for it.
    unsafe { work.handler.call() };
}
