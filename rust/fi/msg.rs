// SPDX-License-Identifier: GPL-2.0

//! Connected endpoints for Rust consumers. Errors that a C caller learns from an errno are compile errors
//! here:
//!
//! - A post takes ownership of its [`Buffer`], and the completion returns it: a posted buffer cannot be freed
//!   or changed.
//! - Only an [`Endpoint<Connected>`](Endpoint) sends; an [`Endpoint<Idle>`](Endpoint) can post receives,
//!   connect and accept.
//! - Calls that may sleep take a [`ProcessContext`]; a handler in interrupt context has none and cannot
//!   capture one.
//!
//! A [`Completions`] and the [`Endpoint`]s bound to it are reachable only through this module and
//! [`rdm`](super::rdm), so every context in the queue is a buffer that was posted there.

use super::{
    av::PeerId,
    cntr::Counter,
    cq::{
        sread,
        Attr,
        CompletionQueue,
        Format,
        FormatEntry, //
    },
    domain::Domain,
    ep,
    memory::{
        Buffer,
        EntrySlots,
        ReclaimRight, //
    },
    provider,
    wait::{
        Budget,
        Deadline, //
    },
};
use crate::{
    abi::{
        fi_cq_msg_entry,
        fi_cq_tagged_entry,
        flags,
        FI_ADDR_NOTAVAIL, //
    },
    fi::prelude::*,
    util::context::kthread_should_stop, //
};
use kernel::current;

pub mod connection;
mod endpoint;
mod handler;
mod listener;
mod remote_buffer;
mod rma;
mod shared_receives;
#[cfg(CONFIG_KUNIT = "y")]
mod tests;

pub use connection::{
    Connection,
    NotConnected,
    Unconnected, //
};
pub use endpoint::{
    Connected,
    Connecting,
    Endpoint,
    Idle,
    NotYet,
    State, //
};
pub use handler::{
    HandlerGuard,
    Poster,
    ReadyQueue, //
};
pub use listener::Listener;
pub use remote_buffer::{
    RemoteAccess,
    RemoteBuffer, //
};
pub use shared_receives::SharedReceives;

pub use super::post::{
    RemoteElements,
    RemoteMemory, //
};

/// The kind of a completed operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// A message was sent.
    Sent,
    /// A message was received, or a peer's write with remote CQ data consumed the receive.
    Received,
    /// The peer's memory was written.
    Written,
    /// The peer's memory was read, or changed by an atomic operation that returned the previous values.
    Read,
}

/// Completion flags of an operation that consumed a receive.
const RECEIVE_FLAGS: u64 = flags::FI_RECV | flags::FI_REMOTE_WRITE;

/// A completed operation.
pub struct CompletedOp {
    /// The buffer, as it was posted.
    pub buffer: KBox<Buffer>,
    /// Kind of the operation.
    pub direction: Direction,
    /// Length of a received message in bytes, or the error of the operation; 0 for a peer's write with remote
    /// CQ data that consumed a receive.
    pub result: Result<usize>,
    /// Source of a received datagram, if it is in the address vector and the queue reports sources: see
    /// [`Completions::of_datagrams`].
    pub from: Option<PeerId>,
    /// Tag of a received datagram, if it has one and the queue reports tags.
    pub tag: Option<u64>,
}

/// The fields of a completion or error entry.
struct EntryFields {
    context: Context,
    flags: u64,
    source: fi_addr_t,
    tag: u64,
    result: Result<usize>,
}

/// A completion entry format.
trait Entry: FormatEntry + Zeroable {
    /// Reads one entry into `slot`, and its source where the format reports sources.
    fn read(queue: &dyn provider::CompletionQueue, slot: &mut Slot<Self>) -> Result<usize>;

    /// Returns the fields of the entry of a successful operation.
    fn fields(&self, source: fi_addr_t) -> EntryFields;
}

/// Storage for one entry and its source.
struct Slot<E> {
    entry: EntrySlots<E, 1>,
    source: EntrySlots<fi_addr_t, 1>,
}

impl<E: Entry> Slot<E> {
    fn new() -> Self {
        Self {
            entry: EntrySlots::new(),
            source: EntrySlots::new(),
        }
    }

    /// Returns the fields of the entry that was read.
    fn fields(&self) -> EntryFields {
        let ([entry], [source]) = (self.entry.get(), self.source.get());
        entry.fields(*source)
    }
}

impl Entry for fi_cq_msg_entry {
    fn read(queue: &dyn provider::CompletionQueue, slot: &mut Slot<Self>) -> Result<usize> {
        queue.read(FormatEntry::entries(slot.entry.as_mut_slots()))
    }

    fn fields(&self, _source: fi_addr_t) -> EntryFields {
        EntryFields {
            context: Context::new(self.op_context),
            flags: self.flags,
            source: FI_ADDR_NOTAVAIL,
            tag: 0,
            result: Ok(self.len),
        }
    }
}

impl Entry for fi_cq_tagged_entry {
    fn read(queue: &dyn provider::CompletionQueue, slot: &mut Slot<Self>) -> Result<usize> {
        queue.read_from(
            FormatEntry::entries(slot.entry.as_mut_slots()),
            slot.source.as_mut_slots(),
        )
    }

    fn fields(&self, source: fi_addr_t) -> EntryFields {
        EntryFields {
            context: Context::new(self.op_context),
            flags: self.flags,
            source,
            tag: self.tag,
            result: Ok(self.len),
        }
    }
}

/// Maximum number of entries without a buffer that one read skips, so that a peer cannot occupy the reader.
const SKIPPED: usize = 64;

/// A completion queue.
///
/// The queue returns each posted buffer and reports nothing else. Remote CQ data is not reported: the data of
/// a message is dropped, and the entry of a peer's write with data is skipped if the write consumed no
/// receive, as for [datagrams](super::rdm). If the write consumed one, as on connected endpoints, the receive
/// completes with 0 bytes.
pub struct Completions {
    queue: DeferredDrop<Arc<CompletionQueue>>,
    reclaim_right: ReclaimRight,
    /// True if completions report source and tag.
    reports_source: bool,
}

impl Completions {
    /// Opens a queue for `size` completions; 0 selects the provider's default.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for a size over the device's limit, -FI_ENOMEM.
    pub fn new(here: ProcessContext, domain: &Arc<Domain>, size: usize) -> Result<Arc<Self>> {
        Self::open(here, domain, size, false)
    }

    /// Opens a queue that also reports the tag of a message, and its source if the info of the receiving
    /// endpoint has FI_SOURCE.
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub fn of_datagrams(
        here: ProcessContext,
        domain: &Arc<Domain>,
        size: usize,
    ) -> Result<Arc<Self>> {
        Self::open(here, domain, size, true)
    }

    fn open(
        _here: ProcessContext,
        domain: &Arc<Domain>,
        size: usize,
        reports_source: bool,
    ) -> Result<Arc<Self>> {
        let queue = domain.completion_queue(&Attr {
            size,
            format: match reports_source {
                true => Format::Tagged,
                false => Format::Msg,
            },
            waitable: true,
            vector: 0,
        })?;
        Ok(Arc::new(
            Self {
                queue: DeferredDrop::new(queue)?,
                reclaim_right: ReclaimRight::new(),
                reports_source,
            },
            GFP_KERNEL,
        )?)
    }

    /// Returns the right to turn contexts back into buffers, for the endpoints bound to the queue.
    pub(super) fn reclaim_right(&self) -> &ReclaimRight {
        &self.reclaim_right
    }

    /// Returns the next completed operation. Any context.
    ///
    /// Skips at most 64 entries of peers' writes with data. If more entries follow, the handler is called
    /// again.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN when the queue is empty or the limit is reached.
    pub fn read(&self) -> Result<CompletedOp> {
        match self.reports_source {
            true => self.read_as::<fi_cq_tagged_entry>(),
            false => self.read_as::<fi_cq_msg_entry>(),
        }
    }

    fn read_as<E: Entry>(&self) -> Result<CompletedOp> {
        let mut done = None;
        self.queue.read_with(|queue| {
            done = self.read_next::<E>(queue)?;
            Ok(1)
        })?;
        if done.is_none() {
            // Entries may be left, and the queue is not armed: without this call the handler could miss them.
            self.queue.schedule_handler();
        }
        done.ok_or(Errno::EAGAIN)
    }

    /// Returns the next completed operation; waits for it at most `budget`.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN when the budget is spent, a signal is pending or the kthread is asked to stop.
    pub fn wait(&self, here: ProcessContext, budget: &mut Budget) -> Result<CompletedOp> {
        match self.reports_source {
            true => self.wait_as::<fi_cq_tagged_entry>(here, budget),
            false => self.wait_as::<fi_cq_msg_entry>(here, budget),
        }
    }

    fn wait_as<E: Entry>(&self, here: ProcessContext, budget: &mut Budget) -> Result<CompletedOp> {
        let core = &**self.queue.core();
        let deadline = Deadline::from_budget(budget);
        loop {
            let mut done = None;
            let read = || {
                done = self.read_next::<E>(core)?;
                Ok(1)
            };
            sread(here, core, true, read, budget)?;
            if let Some(done) = done {
                return Ok(done);
            }
            // Skipped entries take time, too.
            *budget = deadline.remaining();
            if budget.is_spent() || current!().signal_pending() || kthread_should_stop() {
                return Err(Errno::EAGAIN);
            }
        }
    }

    /// Reads `queue` up to the next entry that has a buffer; `None` if the limit of skipped entries is
    /// reached.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN when the queue is empty.
    fn read_next<E: Entry>(
        &self,
        queue: &dyn provider::CompletionQueue,
    ) -> Result<Option<CompletedOp>> {
        for _ in 0..SKIPPED {
            let mut slot = Slot::<E>::new();
            let told = match E::read(queue, &mut slot) {
                Ok(0) => return Err(Errno::EAGAIN),
                Ok(_) => slot.fields(),
                Err(Errno::EAVAIL) => match Self::read_failure(queue) {
                    // Another reader took the error entry. More entries may follow.
                    Err(Errno::EAGAIN) => continue,
                    failure => failure?,
                },
                Err(errno) => return Err(errno),
            };
            // An entry without a buffer reports a peer's write with data, not an operation that was posted
            // here.
            if let Some(done) = self.to_completed_op(told) {
                return Ok(Some(done));
            }
        }
        Ok(None)
    }

    fn read_failure(queue: &dyn provider::CompletionQueue) -> Result<EntryFields> {
        let failure = queue.read_error()?;
        let done = failure.completion;
        Ok(EntryFields {
            context: done.context,
            flags: done.flags,
            source: done.source,
            tag: done.tag,
            result: Err(failure.errno),
        })
    }

    /// Converts an entry into the completed operation; `None` if the operation was not posted here.
    fn to_completed_op(&self, fields: EntryFields) -> Option<CompletedOp> {
        let has_title = self.reports_source && fields.flags & flags::FI_RECV != 0;
        let is_known = has_title && fields.source != FI_ADDR_NOTAVAIL;
        let is_tagged = has_title && fields.flags & flags::FI_TAGGED != 0;
        Some(CompletedOp {
            buffer: self.reclaim_right.reclaim(fields.context)?,
            direction: match fields.flags & (RECEIVE_FLAGS | flags::FI_WRITE | flags::FI_READ) {
                bits if bits & RECEIVE_FLAGS != 0 => Direction::Received,
                flags::FI_WRITE => Direction::Written,
                flags::FI_READ => Direction::Read,
                _ => Direction::Sent,
            },
            result: match fields.flags & flags::FI_REMOTE_WRITE {
                0 => fields.result,
                // A peer's write consumes the receive without writing to its buffer.
                _ => fields.result.map(|_| 0),
            },
            from: is_known.then(|| PeerId::from_addr(fields.source)),
            tag: is_tagged.then_some(fields.tag),
        })
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        // No endpoint is bound any more. Shared receives that were in use stay posted when their endpoint
        // closes. The only error is that the queue is empty.
        let core = &**self.queue.core();
        match self.reports_source {
            true => while self.read_next::<fi_cq_tagged_entry>(core).is_ok() {},
            false => while self.read_next::<fi_cq_msg_entry>(core).is_ok() {},
        }
    }
}

/// The completion queue and counter of one direction of an endpoint.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    completions: &'a Arc<Completions>,
    counter: Option<&'a Arc<Counter>>,
}

impl Side<'_> {
    /// Returns the completion queue.
    pub(super) fn completions(&self) -> &Arc<Completions> {
        self.completions
    }

    /// Binds queue and counter to `endpoint` for `direction`.
    pub(super) fn bind(&self, endpoint: &ep::Endpoint, direction: u64) -> Result {
        endpoint.bind_cq(&self.completions.queue, direction)?;
        match self.counter {
            Some(counter) => endpoint.bind_counter(counter, direction),
            None => Ok(()),
        }
    }
}

impl Completions {
    /// Returns this queue, with an optional counter, as the binding of one direction of an endpoint.
    pub fn side<'a>(self: &'a Arc<Self>, counter: Option<&'a Arc<Counter>>) -> Side<'a> {
        Side {
            completions: self,
            counter,
        }
    }
}
