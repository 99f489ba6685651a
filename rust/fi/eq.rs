// SPDX-License-Identifier: GPL-2.0

//! Event queues: events and errors in order; none is ever dropped for lack of space.
//!
//! The events of an endpoint are allocated with the endpoint (see [`Event::alloc`]), so that reporting one
//! never allocates. Only `fi_eq_write()` is limited by the queue's size. The spinlock guards the list; it is
//! a leaf and is taken in process context only.
//!
//! A peer queue holds no events: each event goes to the owner's queue and is read there.

use super::{
    fabric::Fabric,
    handler::Slot,
    introspect::{
        EntryGuard,
        Introspect,
        NamedValue, //
    },
    object::{
        impl_parent,
        ChildCount, //
    },
    ready_set::PollResult,
    wait::{
        Budget,
        Signal,
        Woken, //
    },
};
use crate::{
    abi::{
        KOFI_OBJECT_EQ,
        KOFI_VALUE_DEPTH,
        KOFI_VALUE_OVERRUNS, //
    },
    fi::prelude::*,
    util::{
        callback::{
            Caller,
            Functions,
            Registered, //
        },
        sequence_wait::WaitQueue, //
    },
};
use kernel::{
    sync::{
        new_spinlock,
        SpinLock, //
    },
    workqueue, //
};

mod batch;
mod event;
mod handler;
#[cfg(CONFIG_KUNIT = "y")]
mod tests;

pub use batch::{
    Batch,
    Failure, //
};
pub use event::{
    Event,
    Kind,
    OwnedEvent,
    ReservedEvent,
    Source,
    MAX_DATA, //
};
pub use handler::{
    EventHandler,
    Handler, //
};

/// Maximum size of the data of `fi_eq_write()`, in bytes.
pub const MAX_WRITE: usize = 1 << 16;

/// Attributes of an event queue.
pub struct Attr {
    /// Maximum number of unread events of `fi_eq_write()`; 0 for a default.
    pub size: usize,
    /// True if `fi_eq_write()` is allowed.
    pub writable: bool,
    /// True if `fi_eq_sread()` is allowed.
    pub waitable: bool,
}

impl Default for Attr {
    /// Returns the attributes of a queue that can be waited for, and not written.
    fn default() -> Self {
        Self {
            size: 0,
            writable: false,
            waitable: true,
        }
    }
}

/// Size of a queue that was opened with size 0.
const DEFAULT_SIZE: usize = 64;

/// The introspection source of an event queue; changed under the queue's lock.
struct EqInfo {
    /// Number of events.
    depth: NamedValue,
    /// Number of writes that were refused for lack of space.
    overruns: NamedValue,
}

impl Introspect for EqInfo {
    fn fill_info(&self, info: &mut ObjectInfo<'_>) {
        self.depth.fill_info(info);
        self.overruns.fill_info(info);
    }
}

struct Inner {
    events: BoxList<Event>,
    /// Number of unread events of `fi_eq_write()`.
    written: usize,
    /// The error that was read last: its data stays valid until the queue is read again.
    last_error: Option<OwnedEvent>,
    /// `None` once the queue is closed: a work item that runs late holds the queue, but not the fabric.
    resources: Option<DeferredDrop<Resources>>,
}

/// The references that a queue holds until it is closed.
struct Resources {
    /// The owner's queue, for a peer queue.
    owner: Option<ChildRef<EventQueue>>,
    entry_guard: EntryGuard<Fabric>,
}

/// An event queue.
#[pin_data]
pub struct EventQueue {
    /// Object number for introspection.
    number: u64,
    #[pin]
    inner: SpinLock<Inner>,
    info: Arc<EqInfo>,
    /// True if there are events; read where the lock may not be taken.
    has_events: AtomicFlag,
    #[pin]
    signal: Signal,
    #[pin]
    handler: Slot<dyn Handler>,
    /// Registration of a handler that calls functions of another module.
    registered: SetOnce<Registered>,
    #[pin]
    work: Work<EventQueue>,
    attr: Attr,
    /// True if events go to an owner's queue.
    is_peer: bool,
    /// See [`Fabric::strerror_fn`](super::provider::Fabric::strerror_fn).
    strerror_fn: fn(c_int) -> &'static CStr,
    users: ChildCount,
}

impl_has_work! {
    impl HasWork<Self> for EventQueue { self.work }
}

impl WorkItem for EventQueue {
    type Pointer = Arc<EventQueue>;

    fn run(this: Arc<EventQueue>) {
        this.handler
            .call(|handler| handler.ready(ProcessContext::assume(), &this));
    }
}

impl Caller for EventQueue {
    fn stop_calls(&self) {
        self.handler.stop();
    }
}

impl_parent!(EventQueue);

impl EventQueue {
    /// Opens a queue of `fabric`. May sleep.
    pub(super) fn new(
        fabric: ChildRef<Fabric>,
        mut attr: Attr,
        owner: Option<ChildRef<Self>>,
    ) -> Result<Arc<Self>> {
        if attr.size == 0 {
            attr.size = DEFAULT_SIZE;
        }
        let info = new_arc(EqInfo {
            depth: NamedValue::new_embedded(KOFI_VALUE_DEPTH, 0),
            overruns: NamedValue::new_embedded(KOFI_VALUE_OVERRUNS, 0),
        })?;
        let strerror_fn = fabric.resources.core.strerror_fn();
        let is_peer = owner.is_some();
        let entry_guard = EntryGuard::new(fabric, KOFI_OBJECT_EQ, c"", Some(info.clone()))?;
        let number = entry_guard.entry.number();
        let resources = Some(DeferredDrop::new(Resources { owner, entry_guard })?);
        pin_arc(pin_init!(Self {
            number,
            info,
            inner <- new_spinlock!(
                Inner {
                    events: BoxList::new(),
                    written: 0,
                    last_error: None,
                    resources,
                },
                "kofi::EventQueue"
            ),
            has_events: AtomicFlag::new(false),
            signal <- Signal::new(c"kofi::EventQueue::signal", static_lock_class!()),
            handler <- Slot::new(),
            registered: SetOnce::new(),
            work <- new_work!("kofi::EventQueue::work"),
            attr,
            is_peer,
            strerror_fn,
            users: ChildCount::new(),
        }))
    }

    /// Returns the object's number for introspection.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns true if the queue belongs to `fabric`.
    pub(super) fn is_of(&self, fabric: &Arc<Fabric>) -> bool {
        let inner = self.inner.lock();
        let resources = inner.resources.as_ref();
        resources.is_some_and(|resources| resources.entry_guard.is_of(fabric))
    }

    /// Returns the text of a provider errno of the queue's error events. Any context.
    pub fn strerror(&self, prov_errno: c_int) -> &'static CStr {
        (self.strerror_fn)(prov_errno)
    }

    /// Installs the handler, which is called whenever events have been queued, until the queue is closed. To
    /// be called once, before the queue is used. `functions` are the functions of other modules that the
    /// handler calls. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EBUSY if there is a handler already, -FI_ENOMEM.
    pub(crate) fn set_handler(
        self: &Arc<Self>,
        handler: KBox<dyn Handler>,
        functions: Functions,
    ) -> Result {
        self.handler.install(handler)?;
        if !functions.is_empty() {
            let registered = Registered::new(functions, fmt!("eq {}", self.number), self.clone())?;
            let _ = self.registered.populate(registered);
        }
        Ok(())
    }

    /// Stops the handler; see [`Slot::stop`]. May sleep.
    fn stop_handler(&self) {
        self.handler.stop();
        if let Some(registered) = self.registered.as_ref() {
            registered.unregister();
        }
    }

    /// Returns the queue that gets the events of this queue: itself, or the owner of a peer queue, which may be a
    /// peer queue too; `None` once a peer queue has been closed.
    fn target(self: &Arc<Self>) -> Option<Arc<Self>> {
        let mut target = self.clone();
        while target.is_peer {
            let inner = target.inner.lock();
            let owner = inner.resources.as_ref()?.owner.as_ref()?.arc().clone();
            drop(inner);
            target = owner;
        }
        Some(target)
    }

    /// Writes an event, to the owner's queue if this is a peer queue. Process context.
    pub(crate) fn push(self: &Arc<Self>, event: OwnedEvent) {
        if let Some(target) = self.target() {
            target.append(&mut target.inner.lock(), event);
            target.notify();
        }
    }

    fn append(&self, inner: &mut Inner, event: OwnedEvent) {
        inner.events.push(event);
        self.info.depth.add(1);
        self.has_events.store(true, Release);
    }

    fn pop(&self, inner: &mut Inner) -> Option<OwnedEvent> {
        let event = inner.events.pop()?;
        if matches!(event.kind(), Kind::Written(_)) {
            inner.written -= 1;
        }
        self.info.depth.add(-1);
        self.has_events.store(!inner.events.is_empty(), Release);
        Some(event)
    }

    fn notify(self: &Arc<Self>) {
        self.signal.raise();
        self.schedule_handler();
    }

    /// Schedules the handler, if there is one, whether or not there is an event. Any context.
    pub(crate) fn schedule_handler(self: &Arc<Self>) {
        if self.handler.has_handler() {
            // A work item that is already queued has not read the queue yet, so it covers this event.
            let _ = workqueue::system_long().enqueue(self.clone());
        }
    }

    /// `fi_eq_write()`: writes `data` as event `number`, to the owner's queue if this is a peer queue.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL without FI_WRITE at open or for more than [`MAX_WRITE`] bytes, -FI_EOVERRUN when `size`
    /// written events are unread, -FI_ENOMEM.
    pub fn write(self: &Arc<Self>, _here: ProcessContext, number: u32, data: &[u8]) -> Result {
        let target = self.target().ok_or(Errno::EINVAL)?;
        target.append_written(number, data)
    }

    fn append_written(self: &Arc<Self>, number: u32, data: &[u8]) -> Result {
        Errno::EINVAL.when(!self.attr.writable || data.len() > MAX_WRITE)?;
        let event = Event::alloc_with_capacity(Source(0), data.len())?;
        let event = event.fill(Kind::Written(number), data, None);
        let mut inner = self.inner.lock();
        if inner.written >= self.attr.size {
            self.info.overruns.add(1);
            return Err(Errno::EOVERRUN);
        }
        inner.written += 1;
        self.append(&mut inner, event);
        drop(inner);
        self.notify();
        Ok(())
    }

    /// Reads the event at the head, unless it is an error.
    ///
    /// `fit` checks the event under the lock; if it returns an error, or if `peek` is set, the event stays.
    /// Process context.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN when the queue is empty, -FI_EAVAIL when the head is an error, or the error of `fit`.
    pub(crate) fn read<R>(
        &self,
        peek: bool,
        fit: impl FnOnce(&Event) -> Result<R>,
    ) -> Result<(R, Option<OwnedEvent>)> {
        // Declared before the guard: the old error is freed outside the lock.
        let _old;
        let mut inner = self.inner.lock();
        _old = inner.last_error.take();
        let head = inner.events.front().ok_or(Errno::EAGAIN)?;
        Errno::EAVAIL.when(matches!(head.kind(), Kind::Error(..)))?;
        let result = fit(head)?;
        if peek {
            return Ok((result, None));
        }
        Ok((result, self.pop(&mut inner)))
    }

    /// Reads the error at the head, whose data stays valid until the queue is read again. With `peek` the
    /// error stays. Process context.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN when the head is not an error.
    pub(crate) fn read_error<R>(&self, peek: bool, fit: impl FnOnce(&Event) -> R) -> Result<R> {
        let _old;
        let mut inner = self.inner.lock();
        _old = inner.last_error.take();
        let head = inner.events.front().ok_or(Errno::EAGAIN)?;
        Errno::EAGAIN.when(!matches!(head.kind(), Kind::Error(..)))?;
        let result = fit(head);
        if peek {
            return Ok(result);
        }
        if let Some(batch) = head.batch() {
            batch.mark_reported();
        } else {
            inner.last_error = self.pop(&mut inner);
        }
        Ok(result)
    }

    /// Sleeps until there is an event.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS if the queue was opened with FI_WAIT_NONE, -FI_EAGAIN when the budget is spent, a
    /// signal is pending or the kthread should stop.
    pub fn wait(&self, here: ProcessContext, budget: &mut Budget) -> Result {
        Errno::ENOSYS.when(!self.attr.waitable)?;
        here.might_sleep();
        loop {
            let ticket = self.signal.ticket();
            if !self.inner.lock().events.is_empty() {
                return Ok(());
            }
            Errno::EAGAIN.when(self.signal.wait(&ticket, budget) != Woken::Signal)?;
        }
    }

    /// Takes the next event or error; sleeps for it at most `budget`.
    ///
    /// # Errors
    ///
    /// As [`Self::wait`].
    pub fn next(&self, here: ProcessContext, budget: &mut Budget) -> Result<OwnedEvent> {
        loop {
            self.wait(here, budget)?;
            let event = self.pop(&mut self.inner.lock());
            if let Some(event) = event {
                return Ok(event);
            }
        }
    }

    /// Returns true if there is an event. Any context.
    pub fn is_ready(&self) -> bool {
        self.has_events.load(Acquire)
    }

    /// Returns the signal that is raised with each event.
    pub(super) fn signal(&self) -> &Signal {
        &self.signal
    }

    /// Polls the queue for a set.
    pub(super) fn poll(&self) -> PollResult {
        PollResult::for_queue(self.is_ready())
    }

    /// Returns the kernel wait queue, which is woken by each event. It is valid until the queue is closed.
    pub fn wait_queue(&self) -> *mut WaitQueue {
        self.signal.wait_queue()
    }

    /// Drops the unread events about an object that is being closed, except batch results and events of
    /// `fi_eq_write()`. Process context.
    pub(crate) fn drop_events(self: &Arc<Self>, source: Source) {
        let Some(target) = self.target() else {
            return;
        };
        let mut inner = target.inner.lock();
        // Dropped after the lock is released.
        let dropped = inner.events.drain_where(|event| {
            let stays = event.batch().is_some() || matches!(event.kind(), Kind::Written(_));
            event.source() == source && !stays
        });
        target.info.depth.add(-(dropped.len() as i64));
        target.has_events.store(!inner.events.is_empty(), Release);
        drop(inner);
    }

    /// Closes the queue: -FI_EBUSY while an object or a peer queue uses it, and in a call from its own
    /// handler. May sleep.
    ///
    /// Unread events are freed; the provider then rejects the connection requests among them.
    pub(crate) fn close(&self) -> Result {
        Errno::EBUSY.when(self.handler.in_handler())?;
        self.users.try_close()?;
        let resources = self.inner.lock().resources.take();
        if let Some(resources) = &resources {
            resources.entry_guard.entry.remove();
        }
        self.stop_handler();
        let mut inner = self.inner.lock();
        // Dropped after the lock is released.
        let _left = (mem::take(&mut inner.events), inner.last_error.take());
        self.has_events.store(false, Release);
        drop(inner);
        Ok(())
    }
}
