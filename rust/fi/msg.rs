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
        read_tagged,
        sread,
        Attr,
        Completion,
        CompletionQueue,
        Entries,
        Format, //
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
mod remote_buffer;
mod shared_receives;
#[cfg(CONFIG_KUNIT = "y")]
mod tests;

pub use connection::{
    ConnectResult,
    Connection,
    NotConnected,
    Unconnected, //
};
pub use endpoint::{
    Connected,
    Connecting,
    Endpoint,
    Idle,
    Listener,
    NotYet,
    State, //
};
pub use handler::{
    HandlerGuard,
    Poster,
    ReadyQueue, //
};
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

/// Completion flags of a receive whose buffer was not written to: a peer wrote elsewhere with data, or read the buffer.
const UNFILLED: u64 = flags::FI_REMOTE_WRITE | flags::FI_READ;

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
    /// Right to turn contexts back into buffers, for the endpoints bound to the queue.
    pub(super) reclaim_right: ReclaimRight,
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
        let format = match reports_source {
            true => Format::Tagged,
            false => Format::Msg,
        };
        let queue = domain.completion_queue(&Attr {
            size,
            format,
            waitable: true,
            vector: 0,
        })?;
        new_arc(Self {
            queue: DeferredDrop::new(queue)?,
            reclaim_right: ReclaimRight::new(),
            reports_source,
        })
    }

    /// Returns this queue, with an optional counter, as the binding of one direction of an endpoint.
    pub fn side<'a>(self: &'a Arc<Self>, counter: Option<&'a Arc<Counter>>) -> Side<'a> {
        Side {
            completions: self,
            counter,
        }
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
        let mut done = None;
        self.queue.read_with(|queue| {
            done = self.read_next(queue)?;
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
        let core = &**self.queue.core();
        let deadline = Deadline::from_budget(budget);
        loop {
            let mut done = None;
            let read = || {
                done = self.read_next(core)?;
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
    fn read_next(&self, queue: &dyn provider::CompletionQueue) -> Result<Option<CompletedOp>> {
        for _ in 0..SKIPPED {
            let (done, result) = match self.read_entry(queue) {
                Ok(done) => (done, Ok(done.len)),
                Err(Errno::EAVAIL) => match queue.read_error() {
                    Ok(failure) => (failure.completion, Err(failure.errno)),
                    // Another reader took the error entry. More entries may follow.
                    Err(Errno::EAGAIN) => continue,
                    Err(errno) => return Err(errno),
                },
                Err(errno) => return Err(errno),
            };
            // An entry without a buffer reports a peer's write with data, not an operation that was posted
            // here.
            if let Some(done) = self.to_completed_op(done, result) {
                return Ok(Some(done));
            }
        }
        Ok(None)
    }

    /// Reads one entry, with tag and source if the queue reports them.
    ///
    /// # Errors
    ///
    /// As [`provider::CompletionQueue::read`].
    #[inline]
    fn read_entry(&self, queue: &dyn provider::CompletionQueue) -> Result<Completion> {
        if self.reports_source {
            return read_tagged(queue);
        }
        let mut slot = EntrySlots::<fi_cq_msg_entry, 1>::new();
        let count = queue.read(Entries::Msg(slot.as_mut_slots()))?;
        Errno::EAGAIN.when(count == 0)?;
        let [entry] = slot.get();
        Ok(Completion {
            len: entry.len,
            ..Completion::new(Context::new(entry.op_context), entry.flags)
        })
    }

    /// Converts an entry into the completed operation; `None` if the operation was not posted here.
    fn to_completed_op(&self, done: Completion, result: Result<usize>) -> Option<CompletedOp> {
        let has_title = self.reports_source && done.flags & flags::FI_RECV != 0;
        let is_known = has_title && done.source != FI_ADDR_NOTAVAIL;
        let is_tagged = has_title && done.flags & flags::FI_TAGGED != 0;
        Some(CompletedOp {
            buffer: self.reclaim_right.reclaim(done.context)?,
            direction: match done.flags & (RECEIVE_FLAGS | flags::FI_WRITE | flags::FI_READ) {
                bits if bits & RECEIVE_FLAGS != 0 => Direction::Received,
                flags::FI_WRITE => Direction::Written,
                flags::FI_READ => Direction::Read,
                _ => Direction::Sent,
            },
            result: match done.flags & RECEIVE_FLAGS != 0 && done.flags & UNFILLED != 0 {
                false => result,
                true => result.map(|_| 0),
            },
            from: is_known.then(|| PeerId::from_addr(done.source)),
            tag: is_tagged.then_some(done.tag),
        })
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        // No endpoint is bound any more. Shared receives that were in use stay posted when their endpoint
        // closes. The only error is that the queue is empty.
        while self.read_next(&**self.queue.core()).is_ok() {}
    }
}

/// The completion queue and counter of one direction of an endpoint.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    pub(super) completions: &'a Arc<Completions>,
    counter: Option<&'a Arc<Counter>>,
}

impl Side<'_> {
    /// Binds queue and counter to `endpoint` for `direction`.
    pub(super) fn bind(&self, endpoint: &ep::Endpoint, direction: u64) -> Result {
        endpoint.bind_cq(&self.completions.queue, direction)?;
        match self.counter {
            Some(counter) => endpoint.bind_counter(counter, direction),
            None => Ok(()),
        }
    }
}
