// SPDX-License-Identifier: GPL-2.0

//! Calls from hard-interrupt context by `irq_work`, which the kernel crate does not wrap yet.

use super::stoppable_handler::StoppableHandler;
use crate::{
    compat::synchronize_rcu,
    prelude::*,
    util::{
        callback::Functions,
        context::InterruptContext, //
    },
};
use core::pin::Pin;
use kernel::{
    bindings,
    container_of,
    error::Result,
    sync::rcu,
    types::Opaque, //
};

/// A handler that an interrupt calls.
pub(crate) trait InterruptHandler: Send + Sync {
    /// Handles the interrupt in the context `ctx`, and must not sleep. No lock of kOFI or of a driver is
    /// held.
    fn handle(&self, ctx: &InterruptContext);

    /// Returns the functions of other modules that this calls.
    fn functions(&self) -> Functions {
        Functions::EMPTY
    }
}

/// Calls a handler from a hard interrupt, one call at a time.
///
/// The CPU interrupts itself, as soon as interrupts are on. An architecture without such an interrupt makes
/// the call from the next timer tick, and PREEMPT_RT from a thread of its own.
///
/// # Invariants
///
/// `raw` is initialised, and its function is [`run`].
#[pin_data(PinnedDrop)]
pub(crate) struct IrqWork {
    #[pin]
    raw: Opaque<bindings::irq_work>,
    /// Number of interrupts since the running call began, its own included.
    pending: Atomic<u32>,
    #[pin]
    handler: StoppableHandler,
}

// SAFETY: `raw` may be queued and waited for by any thread.
unsafe impl Send for IrqWork {}

// SAFETY: As above.
unsafe impl Sync for IrqWork {}

impl IrqWork {
    /// Makes an `irq_work` for `handler`, which is not called before [`Self::queue`]. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(handler: KBox<dyn InterruptHandler>) -> Result<Pin<KBox<Self>>> {
        let raw = bindings::irq_work {
            func: Some(run),
            ..pin_init::zeroed()
        };
        // INVARIANT: `IRQ_WORK_INIT()` sets nothing but the function.
        KBox::pin_init(
            pin_init!(Self {
                raw: Opaque::new(raw),
                pending: Atomic::new(0),
                handler <- StoppableHandler::new(handler),
            }),
            GFP_KERNEL,
        )
    }

    /// Requests a call of the handler; one call serves all requests made before it. Any context.
    pub(crate) fn queue(&self) {
        let _reader = rcu::read_lock();
        if !self.handler.is_blocked() {
            // SAFETY: By the invariant `raw` is initialised, and `stop` waits before it is freed.
            unsafe { bindings::irq_work_queue(self.raw.get()) };
        }
    }

    /// Prevents new calls. Any context.
    pub(crate) fn block(&self) {
        self.handler.block();
    }

    /// Ends the calls: when this returns the handler is not running and will not run. The first call drops
    /// the handler. May sleep.
    pub(crate) fn stop(&self) {
        // SAFETY: `queue` queues nothing once calls are prevented, and `wait_idle` waits for what it has queued.
        unsafe { self.handler.stop(|| self.wait_idle()) };
    }

    /// Waits until nothing is queued or runs, once calls are prevented.
    fn wait_idle(&self) {
        // A `queue` that has not seen that calls are prevented, and queues, is an RCU reader.
        synchronize_rcu();
        // SAFETY: By the invariant `raw` is initialised.
        unsafe { bindings::irq_work_sync(self.raw.get()) };
        // A second interrupt hides the first from `irq_work_sync`; but both come with interrupts
        // off, or under RCU in a thread of PREEMPT_RT.
        synchronize_rcu();
    }
}

#[pinned_drop]
impl PinnedDrop for IrqWork {
    fn drop(self: Pin<&mut Self>) {
        self.block();
        // SAFETY: There is no other reference to the object; a running interrupt only reads.
        if !unsafe { self.handler.is_empty() } {
            self.wait_idle();
        }
    }
}

/// Runs the `irq_work`.
///
/// # Safety
///
/// Called by an interrupt, with the `raw` of an [`IrqWork`].
unsafe extern "C" fn run(raw: *mut bindings::irq_work) {
    // SAFETY: By this function's contract; `stop` waits for this call before the object is freed.
    let work = unsafe { &*container_of!(Opaque::cast_from(raw), IrqWork, raw) };
    // The work can be queued again before this call ends, and an interrupt may enter on another CPU: that one
    // leaves the call to the first.
    if work.pending.fetch_add(1, Full) > 0 {
        return;
    }
    // SAFETY: `pending` lets one call run at a time, and `wait_idle` waits for it.
    unsafe { work.handler.call() };
    if work.pending.xchg(0, Full) > 1 {
        // Queued again rather than looped, which lets this CPU run other work in between.
        work.queue();
    }
}

#[kunit_tests(kofi_irq_work)]
mod tests {
    use super::*;
    use crate::util::{
        context::ProcessContext,
        thread::Thread, //
    };
    use kernel::{
        sync::{
            atomic::Relaxed,
            Arc, //
        },
        time::{
            delay::{
                fsleep,
                udelay, //
            },
            Delta, //
        },
    };

    /// A handler that runs long enough for an interrupt on another CPU.
    struct SlowHandler {
        is_running: AtomicFlag,
        calls: Atomic<u32>,
    }

    impl InterruptHandler for Arc<SlowHandler> {
        fn handle(&self, _ctx: &InterruptContext) {
            self.is_running.store(true, Release);
            for _ in 0..20 {
                udelay(Delta::from_millis(1));
            }
            let _ = self.calls.fetch_add(1, Full);
            self.is_running.store(false, Release);
        }
    }

    /// Starts a thread that requests calls until it is dropped.
    fn spawn_raiser(work: &Arc<Pin<KBox<IrqWork>>>) -> Result<Thread> {
        let work = work.clone();
        let main = move |_| {
            while !crate::util::context::kthread_should_stop() {
                work.queue();
                fsleep(Delta::from_millis(1));
            }
        };
        Thread::spawn(ProcessContext::assume(), c"kofi_raiser", main).map_err(|_| ENOMEM)
    }

    #[test]
    fn cq_19_stop_waits_for_a_running_handler() -> Result {
        let handler = SlowHandler {
            is_running: AtomicFlag::new(false),
            calls: Atomic::new(0),
        };
        let handler = Arc::new(handler, GFP_KERNEL)?;
        let work = IrqWork::new(KBox::new(handler.clone(), GFP_KERNEL)?)?;
        let work = Arc::new(work, GFP_KERNEL)?;
        let thread = spawn_raiser(&work)?;
        let mut polls_left = 10_000;
        while handler.calls.load(Relaxed) == 0
            && !handler.is_running.load(Acquire)
            && polls_left > 0
        {
            fsleep(Delta::from_micros(500));
            polls_left -= 1;
        }
        work.stop();
        let is_running = handler.is_running.load(Acquire);
        let calls = handler.calls.load(Relaxed);
        fsleep(Delta::from_millis(50));
        let late_calls = handler.calls.load(Relaxed) - calls;
        drop(thread);
        assert!(polls_left > 0);
        assert!(!is_running);
        assert_eq!(late_calls, 0);
        Ok(())
    }
}
