// SPDX-License-Identifier: GPL-2.0

//! Connected endpoints for Rust consumers. What a C caller is told by an errno does not compile here:
//!
//! - Whoever posts a [`Buffer`] gives it away, and its completion gives it back: nobody frees or changes
//!   what is posted.
//! - Only an [`Endpoint<Connected>`](Endpoint) sends: an [`Endpoint<Idle>`](Endpoint) can post receives,
//!   connect and accept.
//! - Whoever may sleep has an [`InProcess`] to show for it, which a handler in interrupt context is not
//!   given and cannot bring along.
//!
//! A [`Completions`] and the [`Endpoint`]s bound to it are reachable through this module alone, so
//! that every context in the queue is a buffer that was posted here.

use super::{
    cntr::Counter,
    cq::{
        sread,
        Attr,
        CompletionQueue,
        Format,
        Shape, //
    },
    domain::Domain,
    memory::{
        Buffer,
        Claim,
        Context,
        EntrySlots, //
    },
    wait::Budget,
};
use crate::abi::{
    closing::Closing,
    context::InProcess,
    fi_cq_msg_entry,
    flags,
    Errno,
    Result, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

mod calls;
pub mod connection;
mod endpoint;
mod lent;
mod listener;
mod reach;
mod receives;

pub use calls::{
    Arrived,
    Calls,
    Poster, //
};
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
pub use lent::{
    Lent,
    Right, //
};
pub use listener::Listener;
pub use reach::{
    Elements,
    Remote, //
};
pub use receives::Receives;

/// Which way it went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// A message was sent.
    Sent,
    /// A message was received.
    Received,
    /// The peer's memory was written.
    Written,
    /// The peer's memory was read, or changed and what was there before was read.
    Read,
}

/// Room for one completion.
type Slot = EntrySlots<fi_cq_msg_entry, 1>;

/// The flags of what has taken a receive.
const RECEIVES: u64 = flags::FI_RECV | flags::FI_REMOTE_WRITE;

/// An operation that is over.
pub struct Completed {
    /// The buffer, as it was posted.
    pub buffer: KBox<Buffer>,
    /// Which way it went.
    pub direction: Direction,
    /// How long a received message is, or why there is none.
    pub result: Result<usize>,
}

/// A completion queue.
pub struct Completions {
    queue: Closing<Arc<CompletionQueue>>,
    claim: Claim,
}

impl Completions {
    /// Opens a queue for `size` completions, or as many as the provider likes for 0.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for a size beyond the device's, -FI_ENOMEM.
    pub fn new(_here: InProcess, domain: &Arc<Domain>, size: usize) -> Result<Arc<Self>> {
        let queue = domain.completion_queue(&Attr {
            size,
            format: Format::Msg,
            waitable: true,
            vector: 0,
        })?;
        Ok(Arc::new(
            Self {
                queue: Closing::new(queue)?,
                claim: Claim::new(),
            },
            GFP_KERNEL,
        )?)
    }

    /// The next operation that is over, if there is one. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN when there is none.
    pub fn read(&self) -> Result<Completed> {
        loop {
            let mut slot = Slot::new();
            match self.queue.read(slot.room()) {
                Ok(0) => {}
                Err(Errno::EAVAIL) => match self.failure() {
                    // Another reader has taken it. Whether there is more is not known.
                    Err(Errno::EAGAIN) => {}
                    answer => return answer,
                },
                result => return self.success(result, &slot),
            }
        }
    }

    /// The next operation that is over, for which it waits at most `budget`.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN when the budget is spent, a signal is pending or the kthread is told to stop.
    pub fn wait(&self, here: InProcess, budget: &mut Budget) -> Result<Completed> {
        let mut slot = Slot::new();
        let core = &**self.queue.core();
        let read = || core.read(fi_cq_msg_entry::entries(slot.room()));
        match sread(here, core, true, read, budget) {
            Err(Errno::EAVAIL) => self.failure(),
            result => self.success(result, &slot),
        }
    }

    fn success(&self, result: Result<usize>, slot: &Slot) -> Result<Completed> {
        if result? == 0 {
            return Err(Errno::EAGAIN);
        }
        let [entry] = slot.get();
        let len = match entry.flags & flags::FI_REMOTE_WRITE {
            0 => entry.len,
            // The data of a peer's write takes a receive, and leaves its buffer alone.
            _ => 0,
        };
        self.completed(Context::new(entry.op_context), entry.flags, Ok(len))
    }

    fn failure(&self) -> Result<Completed> {
        let failure = self.queue.core().read_error()?;
        let done = failure.completion;
        self.completed(done.context, done.flags, Err(failure.errno))
    }

    fn completed(&self, context: Context, bits: u64, result: Result<usize>) -> Result<Completed> {
        Ok(Completed {
            buffer: self.claim.reclaim(context).ok_or(Errno::EOTHER)?,
            direction: match bits & (RECEIVES | flags::FI_WRITE | flags::FI_READ) {
                bits if bits & RECEIVES != 0 => Direction::Received,
                flags::FI_WRITE => Direction::Written,
                flags::FI_READ => Direction::Read,
                _ => Direction::Sent,
            },
            result,
        })
    }
}

/// Where the operations of one direction come back to, and what counts them.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    completions: &'a Arc<Completions>,
    counter: Option<&'a Arc<Counter>>,
}

impl Completions {
    /// One side of an endpoint, with what counts its messages, or nothing.
    pub fn side<'a>(self: &'a Arc<Self>, counter: Option<&'a Arc<Counter>>) -> Side<'a> {
        Side {
            completions: self,
            counter,
        }
    }
}
