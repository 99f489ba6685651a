// SPDX-License-Identifier: GPL-2.0

//! What happens when a driver says that a queue has something to read: its signal is given, which
//! wakes blocked readers and is passed on to counters and sets, and the queue's handler is called.
//!
//! The driver may hold a lock of its own, or call from within a post of ours, so that nothing of the
//! consumer's runs here: the handler is called from an interrupt or a work item of its own. It is
//! called once for each time that the queue was armed, which a read does that finds the queue
//! empty. There is no lock but those of [`Signal`] and of the handler's [`Slot`].

use super::super::{
    handler::Slot,
    wait::Signal, //
};
use crate::abi::{
    callback::{
        Caller,
        Functions,
        Registered, //
    },
    context::{
        Handlers,
        ProcessContext, //
    },
    irq_work::{
        InterruptHandler,
        IrqWork, //
    },
    once::OnceBox,
    Errno,
    Result, //
};
use core::pin::Pin;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            AtomicFlag,
            Full,
            Relaxed,
            Release, //
        },
        static_lock_class,
        Arc, //
    },
    workqueue::{
        impl_has_work,
        new_work,
        Work,
        WorkItem, //
    },
};

/// Who wants to be called when a queue has something to read, where it may sleep.
pub(crate) trait TaskHandler: Send + Sync {
    /// Process context; not called again before it has returned.
    fn ready(&self, here: ProcessContext);

    /// Returns the functions of other modules that this calls.
    fn functions(&self) -> Functions {
        Functions::NONE
    }
}

/// A handler, and where it is called.
pub(crate) enum Handler {
    /// FI_CB_CTX_INTR: in a hard interrupt.
    Interrupt(KBox<dyn InterruptHandler>),
    /// Where it may sleep.
    Task(KBox<dyn TaskHandler>),
}

impl Handler {
    /// Returns the functions of other modules that it calls.
    fn functions(&self) -> Functions {
        match self {
            Self::Interrupt(handler) => handler.functions(),
            Self::Task(handler) => handler.functions(),
        }
    }
}

/// Calls a handler where it may sleep.
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
    Task(Arc<WorkHandler>),
}

impl HandlerSlot {
    fn new(handler: Handler) -> Result<Self> {
        Ok(match handler {
            Handler::Interrupt(handler) => Self::Interrupt(IrqWork::new(handler)?),
            Handler::Task(handler) => {
                let deferred = Arc::pin_init(
                    pin_init!(WorkHandler {
                        work <- new_work!("kofi::cq::Deferred"),
                        handler <- Slot::new(),
                    }),
                    GFP_KERNEL,
                )?;
                deferred.handler.fill(handler)?;
                Self::Task(deferred)
            }
        })
    }

    /// Ends the calls; see [`Interrupts::stop`].
    fn stop(&self) {
        match self {
            Self::Interrupt(work) => work.stop(),
            Self::Task(deferred) => deferred.handler.stop(),
        }
    }

    fn call(&self) {
        match self {
            Self::Interrupt(work) => work.raise(),
            Self::Task(deferred) => {
                // Already queued is as good: it has not begun to read.
                let _ = Handlers::queue().enqueue(deferred.clone());
            }
        }
    }
}

impl Caller for HandlerSlot {
    fn end(&self) {
        self.stop();
    }
}

struct Callback {
    place: Arc<HandlerSlot>,
    /// Registration of a handler that calls functions of another module.
    registered: Option<Registered>,
    /// The next arrival is to be told.
    armed: AtomicFlag,
    /// How often the handler was asked to come; two at once may count as one.
    calls: Atomic<u64>,
}

impl Callback {
    fn call(&self) {
        self.calls
            .store(self.calls.load(Relaxed).wrapping_add(1), Relaxed);
        self.place.call();
    }
}

/// What wakes the blocked readers of a queue, and calls its handler.
#[pin_data]
pub struct Notifier {
    #[pin]
    arrival: Signal,
    /// `fi_cq_signal()` calls that no reader has seen yet.
    given: AtomicFlag,
    /// How many there were, for those who are told of each themselves.
    interrupted: Atomic<u64>,
    callback: OnceBox<Callback>,
}

impl Notifier {
    /// None so far.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            arrival <- Signal::new(c"kofi::Interrupts", static_lock_class!()),
            given: AtomicFlag::new(false),
            interrupted: Atomic::new(0),
            callback: OnceBox::new(),
        })
    }

    /// Something may be there to be read. Any context.
    pub fn arrived(&self) {
        self.arrival.give();
        if let Some(callback) = self.callback.get() {
            if callback.armed.xchg(false, Full) {
                callback.call();
            }
        }
    }

    /// Given at each arrival, and by [`Self::interrupt`].
    pub(in super::super) fn arrival(&self) -> &Signal {
        &self.arrival
    }

    /// The handler is to be told of the next arrival. The device's queue is armed after this. Any
    /// context.
    pub(super) fn expect(&self) {
        if let Some(callback) = self.callback.get() {
            // Full: the arrival that the device tells must find it.
            let _ = callback.armed.xchg(true, Full);
        }
    }

    /// Calls the handler whether or not something has arrived. Any context.
    pub(super) fn call(&self) {
        if let Some(callback) = self.callback.get() {
            callback.call();
        }
    }

    /// How often the handler was asked to come. Any context.
    pub(crate) fn calls(&self) -> u64 {
        self.callback
            .get()
            .map_or(0, |callback| callback.calls.load(Relaxed))
    }

    /// Sets the handler of the queue with this number. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EBUSY if the queue has, or had, a handler; -FI_ENOMEM.
    pub(super) fn set_handler(&self, handler: Handler, number: u64) -> Result {
        let functions = handler.functions();
        let place = Arc::new(HandlerSlot::new(handler)?, GFP_KERNEL)?;
        let registered = match functions.is_empty() {
            true => None,
            false => Some(Registered::new(
                functions,
                fmt!("cq {number}"),
                place.clone(),
            )?),
        };
        let callback = Callback {
            place,
            registered,
            armed: AtomicFlag::new(false),
            calls: Atomic::new(0),
        };
        if self.callback.fill(KBox::new(callback, GFP_KERNEL)?) {
            Ok(())
        } else {
            Err(Errno::EBUSY)
        }
    }

    /// Whether there is, or was, a handler. Any context.
    #[inline]
    pub(super) fn is_handled(&self) -> bool {
        self.callback.get().is_some()
    }

    /// Whether the caller is in the handler.
    pub(super) fn is_here(&self) -> bool {
        match self.callback.get().map(|callback| &*callback.place) {
            Some(HandlerSlot::Task(deferred)) => deferred.handler.is_here(),
            Some(HandlerSlot::Interrupt(_)) | None => false,
        }
    }

    /// Has no new call of a handler in an interrupt begin. Any context.
    pub(super) fn forbid(&self) {
        if let Some(HandlerSlot::Interrupt(work)) =
            self.callback.get().map(|callback| &*callback.place)
        {
            work.forbid();
        }
    }

    /// Ends the calls: when this returns the handler is not running, will not run, and has been
    /// dropped. A handler that calls this is not waited for, and is not called again. May sleep.
    pub(super) fn stop(&self) {
        let Some(callback) = self.callback.get() else {
            return;
        };
        callback.place.stop();
        if let Some(registered) = &callback.registered {
            registered.withdraw();
        }
    }

    /// Lets one reader return that finds nothing.
    pub(super) fn interrupt(&self) {
        self.given.store(true, Release);
        let _ = self.interrupted.fetch_add(1u64, Full);
        self.arrival.give();
    }

    /// How often there was an [`Self::interrupt`].
    pub(super) fn interrupted(&self) -> u64 {
        self.interrupted.load(Acquire)
    }

    /// Whether a reader is to return; it is not told again.
    pub(super) fn take(&self) -> bool {
        self.given.load(Acquire) && self.given.xchg(false, Full)
    }
}
