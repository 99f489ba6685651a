// SPDX-License-Identifier: GPL-2.0

//! Completion queues: what a consumer asks of one, whatever provider feeds it.

use super::{
    domain::Domain,
    introspect::{
        Introspect,
        ObjectEntry,
        ObjectInfo, //
    },
    memory::Context,
    object::{
        ChildCount,
        ChildRef,
        Parent, //
    },
    provider,
    ready_set::PollResult,
    wait::{
        Budget,
        Signal,
        Woken, //
    },
};
use crate::abi::{
    self,
    context::ProcessContext,
    once::OnceBox,
    sequence_wait::WaitQueue,
    Errno,
    Result, //
};
use core::{
    mem::MaybeUninit,
    net::SocketAddr,
    ptr, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

mod entry_fifo;
mod free_slots;
mod notify;
mod peer_export;
mod peer_import;

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
    next,
    CqOwner,
    PeerForward, //
};

/// A successful operation.
#[derive(Clone, Copy)]
pub struct Completion {
    /// What the poster gave.
    pub context: Context,
    /// FI_SEND or FI_RECV, FI_MSG, ...
    pub flags: u64,
    /// Bytes received.
    pub len: usize,
    /// Remote CQ data, with FI_REMOTE_CQ_DATA in the flags.
    pub data: u64,
    /// Where the message is, in a buffer that takes several; else 0.
    pub buf: usize,
    /// The tag of a message that was received with one; else 0.
    pub tag: u64,
    /// Whom a received message is from; FI_ADDR_NOTAVAIL where that is not known. Of receives that connected
    /// endpoints share, the [`Source`](super::eq::Source) of the one that it has come by.
    pub source: abi::fi_addr_t,
}

impl Completion {
    /// One of which nothing but its context and its flags is known.
    #[inline(always)]
    pub fn of(context: Context, flags: u64) -> Self {
        Self {
            context,
            flags,
            len: 0,
            data: 0,
            buf: 0,
            tag: 0,
            source: abi::FI_ADDR_NOTAVAIL,
        }
    }
}

/// The error data of a failed operation: `fi_cq_err_entry::err_data`.
pub enum ErrData {
    /// No bytes.
    None,
    /// The address of a sender that is not in the address vector (FI_SOURCE_ERR). A reader gets it in the address
    /// format of its domain.
    Source(SocketAddr),
    /// Error data from another module's provider.
    Bytes(KVec<u8>),
}

/// A failed operation.
pub struct Failure {
    /// What is known of the operation.
    pub completion: Completion,
    /// How many bytes did not fit.
    pub dropped: usize,
    /// The fabric errno.
    pub errno: Errno,
    /// The provider's own number, for [`provider::CompletionQueue::describe`].
    pub prov_errno: i32,
    /// Error data of the failure.
    pub err_data: ErrData,
}

/// The shape of the entries that a consumer reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// The context alone.
    Context,
    /// And flags and length.
    Msg,
    /// And buffer and remote data.
    Data,
    /// And tag.
    Tagged,
}

impl From<Completion> for abi::fi_cq_entry {
    #[inline]
    fn from(done: Completion) -> Self {
        Self {
            op_context: done.context.as_ptr(),
        }
    }
}

impl From<Completion> for abi::fi_cq_msg_entry {
    #[inline]
    fn from(done: Completion) -> Self {
        Self {
            op_context: done.context.as_ptr(),
            flags: done.flags,
            len: done.len,
        }
    }
}

impl From<Completion> for abi::fi_cq_data_entry {
    #[inline]
    fn from(done: Completion) -> Self {
        Self {
            op_context: done.context.as_ptr(),
            flags: done.flags,
            len: done.len,
            buf: ptr::without_provenance_mut(done.buf),
            data: done.data,
        }
    }
}

impl From<Completion> for abi::fi_cq_tagged_entry {
    #[inline]
    fn from(done: Completion) -> Self {
        Self {
            op_context: done.context.as_ptr(),
            flags: done.flags,
            len: done.len,
            buf: ptr::without_provenance_mut(done.buf),
            data: done.data,
            tag: done.tag,
        }
    }
}

/// The shape of what a provider reads from a queue below its own: no consumer sees it.
#[derive(Clone, Copy, Zeroable)]
pub struct SourcedEntry {
    /// As those of [`Completion`].
    pub context: Context,
    /// The same.
    pub flags: u64,
    /// The same.
    pub len: usize,
    /// The same.
    pub data: u64,
    /// The same.
    pub source: abi::fi_addr_t,
}

impl From<Completion> for SourcedEntry {
    #[inline]
    fn from(done: Completion) -> Self {
        Self {
            context: done.context,
            flags: done.flags,
            len: done.len,
            data: done.data,
            source: done.source,
        }
    }
}

/// Where completions are written: the consumer's own array, in the queue's format.
pub enum Entries<'a> {
    /// FI_CQ_FORMAT_CONTEXT.
    Context(&'a mut [MaybeUninit<abi::fi_cq_entry>]),
    /// FI_CQ_FORMAT_MSG.
    Msg(&'a mut [MaybeUninit<abi::fi_cq_msg_entry>]),
    /// FI_CQ_FORMAT_DATA.
    Data(&'a mut [MaybeUninit<abi::fi_cq_data_entry>]),
    /// FI_CQ_FORMAT_TAGGED.
    Tagged(&'a mut [MaybeUninit<abi::fi_cq_tagged_entry>]),
    /// That of no consumer.
    Sourced(&'a mut [MaybeUninit<SourcedEntry>]),
}

/// An entry of one [`Format`].
pub(crate) trait FormatEntry: Sized + 'static {
    /// An array of them.
    fn entries(room: &mut [MaybeUninit<Self>]) -> Entries<'_>;
}

macro_rules! shapes {
    ($($entry:path => $variant:ident,)*) => {
        $(impl FormatEntry for $entry {
            #[inline(always)]
            fn entries(room: &mut [MaybeUninit<Self>]) -> Entries<'_> {
                Entries::$variant(room)
            }
        })*
    };
}

shapes! {
    abi::fi_cq_entry => Context,
    abi::fi_cq_msg_entry => Msg,
    abi::fi_cq_data_entry => Data,
    abi::fi_cq_tagged_entry => Tagged,
    SourcedEntry => Sourced,
}

/// How a completion queue is opened.
#[derive(Clone, Copy)]
pub struct Attr {
    /// How many completions it holds; 0 for the provider's choice.
    pub size: usize,
    /// The shape of its entries.
    pub format: Format,
    /// Whether `fi_cq_sread()` is allowed.
    pub waitable: bool,
    /// Which of the device's completion vectors to use.
    pub vector: u32,
}

/// A completion queue.
pub struct CompletionQueue {
    core: Arc<dyn provider::CompletionQueue>,
    /// From when it has been exported: the same with what others put into it.
    shared: OnceBox<Arc<ExportedCq>>,
    attr: Attr,
    users: ChildCount,
    card: ObjectEntry,
    domain: ChildRef<Domain>,
}

/// What of it is told of.
struct CqInfo(Arc<dyn provider::CompletionQueue>);

impl Introspect for CqInfo {
    fn tell(&self, told: &mut ObjectInfo<'_>) {
        self.0.tell(told);
    }
}

impl Parent for CompletionQueue {
    fn users(&self) -> &ChildCount {
        &self.users
    }
}

impl CompletionQueue {
    pub(super) fn new(
        domain: ChildRef<Domain>,
        attr: &Attr,
        sink: Option<Arc<dyn PeerSink>>,
    ) -> Result<Arc<Self>> {
        let core = domain.core().clone();
        let core = match sink {
            None => core.completion_queue(attr)?,
            Some(sink) => core.peer_queue(attr, sink)?,
        };
        let part = Arc::new(CqInfo(core.clone()), GFP_KERNEL)?;
        let card = domain.card().child(abi::KOFI_OBJECT_CQ, c"", Some(part))?;
        Ok(Arc::new(
            Self {
                core,
                shared: OnceBox::new(),
                attr: *attr,
                users: ChildCount::new(),
                card,
                domain,
            },
            GFP_KERNEL,
        )?)
    }

    /// The number that it is told of by.
    pub(super) fn number(&self) -> u64 {
        self.card.number()
    }

    /// The provider's part.
    pub fn core(&self) -> &Arc<dyn provider::CompletionQueue> {
        &self.core
    }

    /// All of it: the provider's part, and what others put into it if it is shared.
    #[inline]
    pub(crate) fn whole(&self) -> &dyn provider::CompletionQueue {
        match self.shared.get() {
            None => &*self.core,
            Some(shared) => &**shared,
        }
    }

    /// With what others put into it, if it is shared.
    pub(crate) fn shared(&self) -> Option<&Arc<ExportedCq>> {
        self.shared.get()
    }

    /// Shares it: from now on others may put something into it, so many outcomes for which there is no reader
    /// yet, or 0 for a default. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn share(&self, size: usize) -> Result<&Arc<ExportedCq>> {
        if self.shared.get().is_none() {
            let shared = ExportedCq::new(self.core.clone(), size)?;
            // Whoever was faster has made the same.
            let _ = self.shared.fill(KBox::new(shared, GFP_KERNEL)?);
        }
        self.shared.get().ok_or(Errno::ENOMEM)
    }

    /// Lets others put completions into it, beside the provider. It is not closed before what this returns
    /// has been dropped. May sleep.
    ///
    /// Whose contexts its readers get from then on, nobody checks: not for queues of Rust consumers.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if it has been closed, -FI_ENOMEM.
    pub(crate) fn export(self: &Arc<Self>) -> Result<CqExport> {
        let queue = ChildRef::new(self)?;
        let shared = self.share(self.attr.size)?.clone();
        Ok(CqExport::new(shared, queue))
    }

    /// Has whatever completes passed on to `owner`, and nothing read here. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EBUSY if the queue has, or had, a handler; -FI_ENOMEM.
    pub(crate) fn forward(self: &Arc<Self>, owner: KBox<dyn CqOwner>) -> Result<Arc<PeerForward>> {
        PeerForward::start(self, owner)
    }

    /// Whether both belong to the same domain.
    pub fn is_of(&self, domain: &Arc<Domain>) -> bool {
        Arc::ptr_eq(self.domain.arc(), domain)
    }

    /// How it was opened.
    pub fn attr(&self) -> &Attr {
        &self.attr
    }

    /// `fi_cq_signal()`: lets one blocked reader return, or the next one. Any context.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS if the queue was opened with FI_WAIT_NONE.
    pub fn signal(&self) -> Result {
        if !self.attr.waitable {
            return Err(Errno::ENOSYS);
        }
        self.core.interrupts().interrupt();
        Ok(())
    }

    /// Gives the queue a handler, which is not called yet. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EBUSY if the queue has, or had, a handler; -FI_ENOMEM.
    pub(crate) fn set_handler(&self, handler: Handler) -> Result {
        let interrupts = self.core.interrupts();
        interrupts.set_handler(handler, self.number())
    }

    /// Has the handler called for the next arrival. Any context.
    pub(crate) fn arm_handler(&self) {
        let interrupts = self.core.interrupts();
        interrupts.expect();
        if is_missed(self.whole()) {
            interrupts.call();
        }
    }

    /// Calls the handler whether or not something has arrived. Any context.
    pub(crate) fn call_handler(&self) {
        self.core.interrupts().call();
    }

    /// Has no new call of the handler begin, if it is called in an interrupt. Any context.
    pub(crate) fn forbid_calls(&self) {
        self.core.interrupts().forbid();
    }

    /// Ends the calls of the handler; see [`Notifier::stop`]. May sleep.
    pub(crate) fn end_calls(&self) {
        self.core.interrupts().stop();
    }

    /// Reads, and arms the queue for its handler if it has one. Any context.
    ///
    /// # Errors
    ///
    /// Those of [`read_or_arm`].
    pub(crate) fn read<E: FormatEntry>(&self, room: &mut [MaybeUninit<E>]) -> Result<usize> {
        self.read_by(|queue| queue.read(E::entries(room)))
    }

    /// The same, by whatever `read` reads with.
    #[inline]
    pub(super) fn read_by(
        &self,
        mut read: impl FnMut(&dyn provider::CompletionQueue) -> Result<usize>,
    ) -> Result<usize> {
        let queue = self.whole();
        if queue.interrupts().is_handled() {
            read_or_arm(queue, || read(queue))
        } else {
            read(queue)
        }
    }

    /// Given when there may be something to read, if it has been asked for.
    pub(super) fn signal_of_arrival(&self) -> &Signal {
        self.core.interrupts().arrival()
    }

    /// Whether there may be something to read; if not, its signal is given when there is. Any context.
    pub fn is_ready(&self) -> bool {
        is_missed(self.whole())
    }

    /// For a member of a poll set.
    pub(super) fn look(&self) -> PollResult {
        PollResult::at_queue(self.is_ready())
    }

    /// For a member of a wait set, whose waiter `fi_cq_signal()` wakes as it does a reader; `told` is
    /// how many such calls that has been told of.
    pub(super) fn look_for_waiter(&self, told: &mut u64) -> PollResult {
        let interrupted = self.core.interrupts().interrupted();
        let is_new = core::mem::replace(told, interrupted) != interrupted;
        match self.look() {
            PollResult::Nothing if is_new => PollResult::Once,
            look => look,
        }
    }

    /// The kernel's own wait queue, which is woken when there may be something to read, if that has been
    /// asked for. It is there until the queue is closed.
    pub fn wait_queue(&self) -> *mut WaitQueue {
        self.signal_of_arrival().wait_queue()
    }

    /// Closes the queue: -FI_EBUSY while an endpoint is bound, and for its own handler. May sleep.
    pub fn close(&self) -> Result {
        let interrupts = self.core.interrupts();
        if interrupts.is_here() {
            return Err(Errno::EBUSY);
        }
        self.users.retire()?;
        self.card.withdraw();
        interrupts.stop();
        self.core.close();
        Ok(())
    }
}

/// Reads, as `read` does, from a queue that has a handler: a read that finds nothing has the handler
/// called for what comes next. Any context.
///
/// # Errors
///
/// -FI_EAGAIN when there is nothing, -FI_EAVAIL when a failure is next.
pub(crate) fn read_or_arm<Q: provider::CompletionQueue + ?Sized>(
    queue: &Q,
    mut read: impl FnMut() -> Result<usize>,
) -> Result<usize> {
    match read() {
        Err(Errno::EAGAIN) => {}
        result => return result,
    }
    queue.interrupts().expect();
    while is_missed(queue) {
        match read() {
            Err(Errno::EAGAIN) => {}
            result => return result,
        }
    }
    Err(Errno::EAGAIN)
}

/// Arms a queue for its reader: true if what landed before that, and raises no interrupt, may be there.
fn is_missed<Q: provider::CompletionQueue + ?Sized>(queue: &Q) -> bool {
    queue.arm() || queue.has_put_off()
}

/// Reads completions, as `read` does, sleeping until there is at least one.
///
/// Generic so that the C API reaches its provider without a second indirect call.
///
/// # Errors
///
/// -FI_ENOSYS unless the queue was opened to be waited for, -FI_EAVAIL when an error is next, -FI_EAGAIN
/// when the budget is spent, `fi_cq_signal()` was called, a signal is pending or the kthread is told to
/// stop.
#[inline(always)]
pub(crate) fn sread<Q: provider::CompletionQueue + ?Sized>(
    here: ProcessContext,
    queue: &Q,
    waitable: bool,
    mut read: impl FnMut() -> Result<usize>,
    budget: &mut Budget,
) -> Result<usize> {
    if !waitable {
        return Err(Errno::ENOSYS);
    }
    here.might_sleep();
    let interrupts = queue.interrupts();
    loop {
        match read() {
            Err(Errno::EAGAIN) => {}
            result => return result,
        }
        let ticket = interrupts.arrival().ticket();
        interrupts.expect();
        if is_missed(queue) {
            continue;
        }
        if interrupts.take() || interrupts.arrival().wait(&ticket, budget) != Woken::Signal {
            return Err(Errno::EAGAIN);
        }
        if interrupts.take() {
            // One last look: what arrived together with the signal is not kept waiting.
            return read();
        }
    }
}
