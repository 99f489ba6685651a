// SPDX-License-Identifier: GPL-2.0

//! Completion notification: the driver's completion interrupt raises the queue's signal, which wakes blocked
//! readers, counters and sets, and schedules the queue's handler.
//!
//! The driver may hold its own lock, or complete from within a post, so consumer code never runs in the interrupt call
//! itself: the handler runs in an irq_work, a BH work item or a work item. A read that finds the queue empty arms the
//! handler for one call; space for a refused post causes a call whether it is armed or not. The only locks are those of
//! [`Signal`] and of the handler's [`Slot`].

use super::super::{
    handler::Slot,
    wait::Signal, //
};
use crate::{
    fi::prelude::*,
    util::{
        bh_work::BhWork,
        callback::{
            Caller,
            Functions,
            Registered, //
        },
        context::Handlers,
        irq_work::{
            InterruptHandler,
            IrqWork, //
        },
    },
};
use core::pin::Pin;

/// A completion handler that runs in process context.
pub(crate) trait TaskHandler: Send + Sync {
    /// Called when the queue may have an entry. Process context; calls do not overlap.
    fn ready(&self, here: ProcessContext);

    /// Returns the functions of other modules that the handler calls.
    fn functions(&self) -> Functions {
        Functions::EMPTY
    }
}

/// A completion handler, by the context in which it runs.
pub(crate) enum Handler {
    /// FI_CB_CTX_INTR: hard interrupt.
    Interrupt(KBox<dyn InterruptHandler>),
    /// FI_CB_CTX_SOFTIRQ: soft interrupt.
    Softirq(KBox<dyn InterruptHandler>),
    /// Process context, may sleep.
    Task(KBox<dyn TaskHandler>),
}

impl Handler {
    /// Returns the functions of other modules that the handler calls.
    fn functions(&self) -> Functions {
        match self {
            Self::Interrupt(handler) | Self::Softirq(handler) => handler.functions(),
            Self::Task(handler) => handler.functions(),
        }
    }
}

/// Runs a [`TaskHandler`] from a work item.
#[pin_data]
struct WorkHandler {
    #[pin]
    work: Work<WorkHandler>,
    #[pin]
    handler: Slot<dyn TaskHandler>,
}

impl_has_work! {
    impl HasWork<Self> for WorkHandler { self.work }
}

impl WorkItem for WorkHandler {
    type Pointer = Arc<WorkHandler>;

    fn run(this: Arc<WorkHandler>) {
        this.handler
            .call(|handler| handler.ready(ProcessContext::assume()));
    }
}

enum HandlerSlot {
    Interrupt(Pin<KBox<IrqWork>>),
    Softirq(Pin<KBox<BhWork>>),
    Task(Arc<WorkHandler>),
}

impl HandlerSlot {
    fn new(handler: Handler) -> Result<Self> {
        Ok(match handler {
            Handler::Interrupt(handler) => Self::Interrupt(IrqWork::new(handler)?),
            Handler::Softirq(handler) => Self::Softirq(BhWork::new(handler)?),
            Handler::Task(handler) => {
                let work = pin_arc(pin_init!(WorkHandler {
                    work <- new_work!("kofi::cq::WorkHandler"),
                    handler <- Slot::new(),
                }))?;
                work.handler.install(handler)?;
                Self::Task(work)
            }
        })
    }

    fn schedule(&self) {
        match self {
            Self::Interrupt(work) => work.queue(),
            Self::Softirq(work) => work.queue(),
            Self::Task(deferred) => {
                // A work item that is already queued has not read the queue yet, so it covers this call.
                let _ = Handlers::handler_queue().enqueue(deferred.clone());
            }
        }
    }
}

impl Caller for HandlerSlot {
    fn stop_calls(&self) {
        match self {
            Self::Interrupt(work) => work.stop(),
            Self::Softirq(work) => work.stop(),
            Self::Task(work) => work.handler.stop(),
        }
    }
}

struct Callback {
    handler: Arc<HandlerSlot>,
    /// Registration of a handler that calls functions of another module.
    registered: Option<Registered>,
    /// True until the next arrival, which schedules the handler.
    armed: AtomicFlag,
    /// Number of times the handler was scheduled; concurrent updates may count once.
    calls: Atomic<u64>,
}

impl Callback {
    fn schedule(&self) {
        self.calls
            .store(self.calls.load(Relaxed).wrapping_add(1), Relaxed);
        self.handler.schedule();
    }
}

/// Wakes the blocked readers of a queue, and schedules its handler.
#[pin_data]
pub struct Notifier {
    #[pin]
    signal: Signal,
    /// True if a reader has yet to see an `fi_cq_signal()` call.
    reader_signaled: AtomicFlag,
    /// Number of `fi_cq_signal()` calls, for wait sets.
    signal_count: Atomic<u64>,
    callback: SetOnce<Callback>,
}

impl Notifier {
    /// Returns a notifier without a handler.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            signal <- Signal::new(c"kofi::Notifier", static_lock_class!()),
            reader_signaled: AtomicFlag::new(false),
            signal_count: Atomic::new(0),
            callback: SetOnce::new(),
        })
    }

    /// Raises the signal, and schedules the handler if it is armed: an entry may have arrived. Any context.
    pub fn notify(&self) {
        self.signal.raise();
        if let Some(callback) = self.callback.as_ref() {
            if callback.armed.xchg(false, Full) {
                callback.schedule();
            }
        }
    }

    /// Wakes the readers and calls the handler because a refused post can be repeated. The handler is called whether it
    /// is armed or not: one that is running may have been refused itself before it reads, and finds no entry then. Any
    /// context.
    pub fn notify_space(&self) {
        self.signal.raise();
        if let Some(callback) = self.callback.as_ref() {
            // Full barrier: a call that has been scheduled and not begun arms later.
            let _ = callback.armed.xchg(false, Full);
            callback.schedule();
        }
    }

    /// Returns the signal that is raised by [`Self::notify`] and [`Self::signal_reader`].
    pub(in super::super) fn signal(&self) -> &Signal {
        &self.signal
    }

    /// Arms the handler for the next arrival. The caller arms the device's queue afterwards. Any context.
    pub(super) fn arm_handler(&self) {
        if let Some(callback) = self.callback.as_ref() {
            // Full barrier: an arrival that the device reports after it was armed must find the flag set.
            let _ = callback.armed.xchg(true, Full);
        }
    }

    /// Schedules the handler whether or not there is an entry. Any context.
    pub(super) fn schedule_handler(&self) {
        if let Some(callback) = self.callback.as_ref() {
            callback.schedule();
        }
    }

    /// Returns how many times the handler was scheduled. Any context.
    pub(crate) fn handler_calls(&self) -> u64 {
        let callback = self.callback.as_ref();
        callback.map_or(0, |callback| callback.calls.load(Relaxed))
    }

    /// Installs the handler of the queue with this object number. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EBUSY if the queue has, or had, a handler; -FI_ENOMEM.
    pub(super) fn set_handler(&self, handler: Handler, number: u64) -> Result {
        let functions = handler.functions();
        let handler = new_arc(HandlerSlot::new(handler)?)?;
        let registered = (!functions.is_empty())
            .then(|| Registered::new(functions, fmt!("cq {number}"), handler.clone()))
            .transpose()?;
        let callback = Callback {
            handler,
            registered,
            armed: AtomicFlag::new(false),
            calls: Atomic::new(0),
        };
        Errno::EBUSY.when(!self.callback.populate(callback))
    }

    /// Returns the handler, if the queue has, or had, one.
    fn handler(&self) -> Option<&HandlerSlot> {
        Some(&self.callback.as_ref()?.handler)
    }

    /// Returns true if the queue has, or had, a handler. Any context.
    #[inline]
    pub(super) fn has_handler(&self) -> bool {
        self.callback.as_ref().is_some()
    }

    /// Returns true if the caller is the queue's task handler.
    pub(super) fn in_handler(&self) -> bool {
        matches!(self.handler(), Some(HandlerSlot::Task(work)) if work.handler.in_handler())
    }

    /// Prevents new calls of a handler that runs in interrupt context. Any context.
    pub(super) fn block_handler(&self) {
        match self.handler() {
            Some(HandlerSlot::Interrupt(work)) => work.block(),
            Some(HandlerSlot::Softirq(work)) => work.block(),
            _ => {}
        }
    }

    /// Stops the handler: when this returns it is not running, will not run, and has been dropped. A task
    /// handler that calls this is not waited for, and is not called again. May sleep.
    pub(super) fn stop_handler(&self) {
        let Some(callback) = self.callback.as_ref() else {
            return;
        };
        callback.handler.stop_calls();
        if let Some(registered) = &callback.registered {
            registered.unregister();
        }
    }

    /// `fi_cq_signal()`: makes one reader that finds no entry return.
    pub(super) fn signal_reader(&self) {
        self.reader_signaled.store(true, Release);
        let _ = self.signal_count.fetch_add(1u64, Full);
        self.signal.raise();
    }

    /// Returns the number of [`Self::signal_reader`] calls.
    pub(super) fn signal_count(&self) -> u64 {
        self.signal_count.load(Acquire)
    }

    /// Takes the pending `fi_cq_signal()`. Returns true if there was one, so that the reader returns.
    pub(super) fn take_signal(&self) -> bool {
        self.reader_signaled.load(Acquire) && self.reader_signaled.xchg(false, Full)
    }
}
