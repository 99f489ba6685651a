// SPDX-License-Identifier: GPL-2.0

//! Completion queues: the part that is the same for every provider.

use super::{
    domain::Domain,
    introspect::EntryGuard,
    memory::EntrySlots,
    object::{
        impl_parent,
        ChildCount, //
    },
    provider,
    ready_set::PollResult,
    wait::{
        Budget,
        Signal,
        Woken, //
    },
};
use crate::{
    fi::prelude::*,
    util::{
        once::OnceBox,
        sequence_wait::WaitQueue, //
    },
};

mod entry;
mod entry_fifo;
mod free_slots;
mod notify;
mod peer_export;
mod peer_import;

pub(crate) use entry::FormatEntry;
pub use entry::{
    Completion,
    Entries,
    ErrData,
    Failure,
    Format,
    SourcedEntry, //
};
pub use entry_fifo::CqEntry;
pub(crate) use entry_fifo::EntryFifo;
pub(crate) use free_slots::{
    FreeSlots,
    WaitFlag, //
};
pub use notify::Notifier;
pub(crate) use notify::{
    Handler,
    TaskHandler, //
};
pub use peer_export::PeerSink;
pub(crate) use peer_export::{
    CqExport,
    ExportedCq, //
};
pub(crate) use peer_import::{
    read_one,
    CqOwner,
    PeerForward, //
};

/// Attributes of a completion queue.
#[derive(Clone, Copy)]
pub struct Attr {
    /// Minimum number of completions that the queue holds; 0 for the provider's default.
    pub size: usize,
    /// Format of the entries.
    pub format: Format,
    /// True if `fi_cq_sread()` is allowed.
    pub waitable: bool,
    /// Completion vector of the device; less than [`provider::DomainDevice::comp_vectors`].
    pub vector: u32,
}

/// A completion queue.
pub struct CompletionQueue {
    core: Arc<dyn provider::CompletionQueue>,
    /// Export state: set once peers may write entries to the queue.
    exported: OnceBox<Arc<ExportedCq>>,
    attr: Attr,
    users: ChildCount,
    pub(super) entry_guard: EntryGuard<Domain>,
}

impl_parent!(CompletionQueue);

impl CompletionQueue {
    pub(super) fn new(
        domain: ChildRef<Domain>,
        attr: &Attr,
        sink: Option<Arc<dyn PeerSink>>,
    ) -> Result<Arc<Self>> {
        let core = domain.core().clone();
        let vectors = core.device().map(|device| device.comp_vectors);
        Errno::EINVAL.when(vectors.is_some_and(|vectors| attr.vector >= vectors))?;
        let core = match sink {
            None => core.completion_queue(attr)?,
            Some(sink) => core.peer_cq(attr, sink)?,
        };
        let describe = provider::CompletionQueue::fill_info;
        new_arc(Self {
            entry_guard: EntryGuard::of_core(domain, abi::KOFI_OBJECT_CQ, &core, describe)?,
            core,
            exported: OnceBox::new(),
            attr: *attr,
            users: ChildCount::new(),
        })
    }

    /// Returns the object's number for introspection.
    pub(super) fn number(&self) -> u64 {
        self.entry_guard.entry.number()
    }

    /// Returns the provider's queue, without the entries that peers wrote.
    pub fn core(&self) -> &Arc<dyn provider::CompletionQueue> {
        &self.core
    }

    /// Returns the queue that readers read: the exported queue, with the entries that peers wrote, or else
    /// the provider's queue.
    #[inline]
    pub(crate) fn read_queue(&self) -> &dyn provider::CompletionQueue {
        match self.exported.get() {
            None => &*self.core,
            Some(shared) => &**shared,
        }
    }

    /// Returns the export state, if the queue is exported.
    pub(crate) fn exported(&self) -> Option<&Arc<ExportedCq>> {
        self.exported.get()
    }

    /// Enables export: from now on peers may write entries, up to `size` unread ones, or 0 for a default. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn enable_export(&self, size: usize) -> Result<&Arc<ExportedCq>> {
        if self.exported.get().is_none() {
            let shared = ExportedCq::new(self.core.clone(), size)?;
            // A concurrent caller has already filled it with an equivalent object.
            let _ = self.exported.set(KBox::new(shared, GFP_KERNEL)?);
        }
        self.exported.get().ok_or(Errno::ENOMEM)
    }

    /// Exports the queue: peers write completions to it, beside the provider. The queue stays busy until the
    /// returned object is dropped. May sleep.
    ///
    /// The contexts that peers write are not checked: never for queues of Rust consumers.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if it has been closed, -FI_ENOMEM.
    pub(crate) fn export(self: &Arc<Self>) -> Result<CqExport> {
        let _queue = ChildRef::new(self)?;
        let shared = self.enable_export(self.attr.size)?.clone();
        Ok(CqExport { shared, _queue })
    }

    /// Imports the queue as a peer queue: each completion is forwarded to `owner`, and no consumer reads it.
    /// May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EBUSY if the queue has, or had, a handler; -FI_ENOMEM.
    pub(crate) fn import(self: &Arc<Self>, owner: KBox<dyn CqOwner>) -> Result<Arc<PeerForward>> {
        PeerForward::start(self, owner)
    }

    /// Returns the attributes that the queue was opened with.
    pub fn attr(&self) -> &Attr {
        &self.attr
    }

    /// `fi_cq_signal()`: wakes one blocked reader, or makes the next blocking read return. Any context.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS if the queue was opened with FI_WAIT_NONE.
    pub fn signal(&self) -> Result {
        Errno::ENOSYS.when(!self.attr.waitable)?;
        self.core.notifier().signal_reader();
        Ok(())
    }

    /// Installs the handler, which is not armed yet. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EBUSY if the queue has, or had, a handler; -FI_ENOMEM.
    pub(crate) fn set_handler(&self, handler: Handler) -> Result {
        self.core.notifier().set_handler(handler, self.number())
    }

    /// Arms the handler for the next completion. Any context.
    pub(crate) fn arm_handler(&self) {
        let interrupts = self.core.notifier();
        interrupts.arm_handler();
        if arm_and_check(self.read_queue()) {
            interrupts.schedule_handler();
        }
    }

    /// Schedules the handler whether or not there is an entry. Any context.
    pub(crate) fn schedule_handler(&self) {
        self.core.notifier().schedule_handler();
    }

    /// Prevents new calls of a handler that runs in interrupt context. Any context.
    pub(crate) fn block_handler(&self) {
        self.core.notifier().block_handler();
    }

    /// Stops the handler; see [`Notifier::stop_handler`]. May sleep.
    pub(crate) fn stop_handler(&self) {
        self.core.notifier().stop_handler();
    }

    /// Reads completions, and arms the queue's handler if it has one. Any context.
    ///
    /// # Errors
    ///
    /// As [`read_or_arm`].
    pub(crate) fn read<E: FormatEntry>(&self, space: &mut [MaybeUninit<E>]) -> Result<usize> {
        self.read_with(|queue| queue.read(E::entries(space)))
    }

    /// Reads with the function `read`, and arms the queue's handler if it has one. Any context.
    #[inline]
    pub(super) fn read_with(
        &self,
        mut read: impl FnMut(&dyn provider::CompletionQueue) -> Result<usize>,
    ) -> Result<usize> {
        let queue = self.read_queue();
        if queue.notifier().has_handler() {
            read_or_arm(queue, || read(queue))
        } else {
            read(queue)
        }
    }

    /// Returns the signal that is raised when an entry may have arrived, if the queue is armed.
    pub(super) fn arrival_signal(&self) -> &Signal {
        self.core.notifier().signal()
    }

    /// Arms the queue and returns true if an entry may be readable already; else the signal is raised when
    /// one arrives. Any context.
    pub fn is_ready(&self) -> bool {
        arm_and_check(self.read_queue())
    }

    /// Polls the queue for a poll set.
    pub(super) fn poll(&self) -> PollResult {
        PollResult::for_queue(self.is_ready())
    }

    /// Polls the queue for a wait set, whose waiter `fi_cq_signal()` wakes as it wakes a reader. `seen` is
    /// the number of such calls that the waiter has already seen.
    pub(super) fn poll_for_waiter(&self, seen: &mut u64) -> PollResult {
        let count = self.core.notifier().signal_count();
        let is_new = mem::replace(seen, count) != count;
        match self.poll() {
            PollResult::NotReady if is_new => PollResult::ReadyOnce,
            look => look,
        }
    }

    /// Returns the kernel wait queue that is woken when an armed queue may have an entry. It is valid until
    /// the queue is closed.
    pub fn wait_queue(&self) -> *mut WaitQueue {
        self.arrival_signal().wait_queue()
    }

    /// Closes the queue: -FI_EBUSY while an endpoint is bound, and in a call from its own task handler. May
    /// sleep.
    pub fn close(&self) -> Result {
        let interrupts = self.core.notifier();
        Errno::EBUSY.when(interrupts.in_handler())?;
        self.users.close(&self.entry_guard.entry)?;
        interrupts.stop_handler();
        self.core.close();
        Ok(())
    }
}

/// Reads one success with all its fields, whatever the queue's format. Any context.
///
/// # Errors
///
/// As [`provider::CompletionQueue::read`].
#[inline]
pub(super) fn read_tagged(queue: &dyn provider::CompletionQueue) -> Result<Completion> {
    let mut slot = EntrySlots::<abi::fi_cq_tagged_entry, 1>::new();
    let mut source = EntrySlots::<fi_addr_t, 1>::new();
    let entries = Entries::Tagged(slot.as_mut_slots());
    let count = queue.read_from(entries, source.as_mut_slots())?;
    Errno::EAGAIN.when(count == 0)?;
    let ([entry], [source]) = (slot.get(), source.get());
    Ok(Completion {
        context: Context::new(entry.op_context),
        flags: entry.flags,
        len: entry.len,
        data: entry.data,
        buf: entry.buf.addr(),
        tag: entry.tag,
        source: *source,
    })
}

/// Reads with `read` from a queue that has a handler: a read that finds no entry arms the handler for the
/// next one. Any context.
///
/// # Errors
///
/// -FI_EAGAIN when the queue is empty, -FI_EAVAIL when the next entry is an error.
pub(crate) fn read_or_arm<Q: provider::CompletionQueue + ?Sized>(
    queue: &Q,
    mut read: impl FnMut() -> Result<usize>,
) -> Result<usize> {
    match read() {
        Err(Errno::EAGAIN) => {}
        result => return result,
    }
    queue.notifier().arm_handler();
    while arm_and_check(queue) {
        match read() {
            Err(Errno::EAGAIN) => {}
            result => return result,
        }
    }
    Err(Errno::EAGAIN)
}

/// Arms the queue. Returns true if an entry may have arrived before that, for which no interrupt comes.
fn arm_and_check<Q: provider::CompletionQueue + ?Sized>(queue: &Q) -> bool {
    queue.arm() || queue.has_backlog()
}

/// Reads with `read`, and sleeps until there is at least one entry.
///
/// The function is generic, so that the C API reaches its provider without a second indirect call.
///
/// # Errors
///
/// -FI_ENOSYS if the queue was opened with FI_WAIT_NONE, -FI_EAVAIL when the next entry is an error,
/// -FI_EAGAIN when the budget is spent, `fi_cq_signal()` was called, a signal is pending or the kthread
/// should stop.
#[inline(always)]
pub(crate) fn sread<Q: provider::CompletionQueue + ?Sized>(
    here: ProcessContext,
    queue: &Q,
    waitable: bool,
    mut read: impl FnMut() -> Result<usize>,
    budget: &mut Budget,
) -> Result<usize> {
    Errno::ENOSYS.when(!waitable)?;
    here.might_sleep();
    let interrupts = queue.notifier();
    loop {
        match read() {
            Err(Errno::EAGAIN) => {}
            result => return result,
        }
        let ticket = interrupts.signal().ticket();
        interrupts.arm_handler();
        if arm_and_check(queue) {
            continue;
        }
        if interrupts.take_signal() || interrupts.signal().wait(&ticket, budget) != Woken::Signal {
            return Err(Errno::EAGAIN);
        }
        if interrupts.take_signal() {
            // A last read, so that an entry that arrived together with the signal is returned.
            return read();
        }
    }
}
