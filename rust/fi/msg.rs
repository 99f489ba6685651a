// SPDX-License-Identifier: GPL-2.0

//! Messages for Rust consumers: whoever posts a buffer gives it away, and its completion gives it
//! back.
//!
//! A [`Completions`] and the [`Endpoint`]s bound to it are reachable through this module alone, so
//! that every context in the queue is a buffer that was posted here.

use super::{
    cntr::Counter,
    cq::{
        sread,
        Attr,
        CompletionQueue,
        Format, //
    },
    domain::Domain,
    ep,
    eq::{
        EventQueue,
        Source, //
    },
    fabric::Fabric,
    memory::{
        Buffer,
        Claim,
        Context,
        Descriptor,
        EntrySlot,
        Memory,
        Refused, //
    },
    pep::PassiveEndpoint,
    provider::{
        Message,
        Operation, //
    },
    wait::Budget,
};
use crate::abi::{
    flags,
    info::Info,
    Errno,
    Result, //
};
use core::slice;
use kernel::{
    prelude::*,
    sync::Arc, //
};

mod calls;
pub mod connection;
mod reach;

pub use calls::{
    Arrived,
    Calls,
    Poster, //
};
pub use connection::Connection;
pub use reach::{
    Elements,
    Remote, //
};

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
    queue: Arc<CompletionQueue>,
    claim: Claim,
}

impl Completions {
    /// Opens a queue for `size` completions, or as many as the provider likes for 0. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for a size beyond the device's, -FI_ENOMEM.
    pub fn new(domain: &Arc<Domain>, size: usize) -> Result<Arc<Self>> {
        let queue = domain.completion_queue(&Attr {
            size,
            format: Format::Msg,
            waitable: true,
            vector: 0,
        })?;
        Ok(Arc::new(
            Self {
                queue,
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
            let mut slot = EntrySlot::new();
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

    /// The next operation that is over, for which it waits at most `budget`. Process context.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN when the budget is spent, a signal is pending or the kthread is told to stop,
    /// -FI_EOPBADSTATE in atomic context.
    pub fn wait(&self, budget: &mut Budget) -> Result<Completed> {
        let mut slot = EntrySlot::new();
        let core = &**self.queue.core();
        match sread(core, true, slot.room(), budget) {
            Err(Errno::EAVAIL) => self.failure(),
            result => self.success(result, &slot),
        }
    }

    fn success(&self, result: Result<usize>, slot: &EntrySlot) -> Result<Completed> {
        if result? == 0 {
            return Err(Errno::EAGAIN);
        }
        let entry = slot.get();
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

/// A connected endpoint. Dropping it closes it, silently; buffers that are still posted are freed.
pub struct Endpoint {
    endpoint: Arc<ep::Endpoint>,
    /// For transmits and for receives.
    completions: [Arc<Completions>; 2],
}

impl Endpoint {
    /// Makes an endpoint, for the connection request in `info` if there is one. May sleep.
    ///
    /// Its events go to `events` and carry `source`; sent buffers come back from `transmit`,
    /// received ones from `receive`, which may be the same queue.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for an info that is not of `domain`, -FI_EDOMAIN for completions of another one,
    /// -FI_ENOMEM.
    pub fn new(
        domain: &Arc<Domain>,
        info: &Info,
        source: Source,
        events: &Arc<EventQueue>,
        transmit: &Arc<Completions>,
        receive: &Arc<Completions>,
    ) -> Result<Self> {
        let sides = (transmit.side(None), receive.side(None));
        Self::counted(domain, info, source, events, sides.0, sides.1)
    }

    /// The same with counters: of the messages that it has sent, and of those that it has received.
    /// One counter may count for both, and for several endpoints.
    ///
    /// # Errors
    ///
    /// As of [`Self::new`]; -FI_EDOMAIN for a counter of another domain too.
    pub fn counted(
        domain: &Arc<Domain>,
        info: &Info,
        source: Source,
        events: &Arc<EventQueue>,
        transmit: Side<'_>,
        receive: Side<'_>,
    ) -> Result<Self> {
        let made = Self {
            endpoint: domain.endpoint(info, source)?,
            completions: [transmit.completions.clone(), receive.completions.clone()],
        };
        let endpoint = &made.endpoint;
        endpoint.bind_events(events, 0)?;
        for (side, kind) in [(transmit, flags::FI_TRANSMIT), (receive, flags::FI_RECV)] {
            endpoint.bind_completions(&side.completions.queue, kind)?;
            if let Some(counter) = side.counter {
                endpoint.bind_counter(counter, kind)?;
            }
        }
        endpoint.enable()?;
        Ok(made)
    }

    /// Starts to connect to the destination of the endpoint's info: an FI_CONNECTED or an error
    /// event follows. May sleep.
    pub fn connect(&self, private_data: &[u8]) -> Result {
        self.endpoint.connect(None, private_data)
    }

    /// Accepts the request that the endpoint was made for: FI_CONNECTED follows. May sleep.
    pub fn accept(&self, private_data: &[u8]) -> Result {
        self.endpoint.accept(private_data)
    }

    /// Ends the connection: what is posted has completed when this returns. May sleep.
    pub fn shutdown(&self) -> Result {
        self.endpoint.core().shutdown(0)
    }

    /// Sends the first `len` bytes of `buffer`. Any context.
    ///
    /// # Errors
    ///
    /// With the buffer: -FI_EAGAIN when a queue is full, -FI_ENOTCONN without a connection,
    /// -FI_EINVAL when the buffer is shorter, -FI_EMSGSIZE when the device takes no such message.
    pub fn send(&self, buffer: KBox<Buffer>, len: usize) -> core::result::Result<(), Refused> {
        self.post(buffer, len, |message| {
            self.endpoint.core().transmit(Operation::Send, message)
        })
    }

    /// Posts `buffer` for the next message. Any context.
    ///
    /// # Errors
    ///
    /// With the buffer, as of [`Self::send`].
    pub fn receive(&self, buffer: KBox<Buffer>) -> core::result::Result<(), Refused> {
        let len = buffer.len();
        self.post(buffer, len, |message| self.endpoint.core().receive(message))
    }

    fn post(
        &self,
        buffer: KBox<Buffer>,
        len: usize,
        post: impl FnOnce(&Message<'_>) -> Result,
    ) -> core::result::Result<(), Refused> {
        Buffer::give(buffer, len, |segment, context| {
            post(&Message {
                memory: Memory::Segments(slice::from_ref(segment)),
                descriptors: &[Descriptor::NONE],
                context,
                flags: flags::FI_COMPLETION,
                data: 0,
            })
        })
    }
}

/// A listener. Dropping it closes it; the peers that nobody accepted are refused.
pub struct Listener(Arc<PassiveEndpoint>);

impl Listener {
    /// Listens on the source address of `info`: FI_CONNREQ events go to `events` and carry `source`.
    /// May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EADDRINUSE, -FI_EADDRNOTAVAIL, -FI_ENODEV when no device has the address, -FI_ENOMEM.
    pub fn new(
        fabric: &Arc<Fabric>,
        info: &Info,
        source: Source,
        events: &Arc<EventQueue>,
    ) -> Result<Self> {
        let listener = Self(fabric.passive_endpoint(info, source)?);
        listener.0.bind_events(events, 0)?;
        listener.0.listen()?;
        Ok(listener)
    }

    /// Refuses the request that `info` describes. May sleep.
    pub fn reject(&self, info: &Info, private_data: &[u8]) -> Result {
        self.0.core().reject(info.handle(), private_data)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // What is still posted was given by `post` above, whichever queue it would have gone to.
        let claim = &self.completions[0].claim;
        self.endpoint
            .close(&mut |context| drop(claim.reclaim(context)));
    }
}
