// SPDX-License-Identifier: GPL-2.0

//! One end of a connection with all that it takes, for a kthread that waits for what it does.
//!
//! Each wait ends when the thread is told to stop: -FI_EINTR.

use super::{
    super::{
        eq::{
            self,
            EventQueue,
            Kind,
            Owned,
            Source, //
        },
        fabric::Fabric,
        memory::Buffer,
        wait::Budget, //
    },
    Completions,
    Endpoint, //
};
use crate::abi::{
    context::kthread_should_stop,
    info::Info,
    Errno,
    Result,
    FI_CONNECTED,
    FI_SHUTDOWN, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// How long a wait lasts before it looks around, in milliseconds.
const TICK: c_int = 1000;

/// Repeats a wait until it answers or the kthread is told to stop.
fn patiently<T>(wait: impl Fn(&mut Budget) -> Result<T>) -> Result<T> {
    while !kthread_should_stop() {
        match wait(&mut Budget::from_millis(TICK)) {
            Err(Errno::EAGAIN) => {}
            answer => return answer,
        }
    }
    Err(Errno::EINTR)
}

/// Waits for the connection event `wanted`, FI_CONNREQ for one. In a kthread.
///
/// # Errors
///
/// What an error event says, -FI_ENOTCONN for another event; -FI_EINTR.
pub fn next_event(events: &EventQueue, wanted: u32) -> Result<Owned> {
    let event = patiently(|budget| events.next(budget))?;
    match event.kind() {
        Kind::Connection(number) if number == wanted => Ok(event),
        Kind::Error(errno, _) => Err(errno),
        _ => Err(Errno::ENOTCONN),
    }
}

/// One end of a connection: an event queue for the connection, a completion queue for each direction,
/// and the endpoint, in a domain of their own.
///
/// There is nothing to close: what is dropped closes itself, in whatever order.
pub struct Connection {
    /// The endpoint.
    pub endpoint: Arc<Endpoint>,
    /// What comes of the connection.
    pub events: Arc<EventQueue>,
    /// What was sent, written and read.
    pub transmits: Arc<Completions>,
    /// What was received.
    pub receives: Arc<Completions>,
}

impl Connection {
    /// Opens one end, on which `depth` operations can be posted in each direction. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for an info that is not of `fabric`, -FI_ENODEV, -FI_ENOMEM.
    pub fn open(fabric: &Arc<Fabric>, info: &mut Info, depth: usize) -> Result<Self> {
        info.tx_mut()?.size = depth;
        info.rx_mut()?.size = depth;
        let domain = fabric.domain(info)?;
        let events = fabric.event_queue(eq::Attr::default())?;
        let transmits = Completions::new(&domain, depth)?;
        let receives = Completions::new(&domain, depth)?;
        let endpoint = Endpoint::new(&domain, info, Source(0), &events, &transmits, &receives)?;
        Ok(Self {
            endpoint: Arc::new(endpoint, GFP_KERNEL)?,
            events,
            transmits,
            receives,
        })
    }

    /// Connects to the destination of its info; what comes back has the peer's private data. In a
    /// kthread.
    ///
    /// # Errors
    ///
    /// -FI_ECONNREFUSED, -FI_EHOSTUNREACH, -FI_ETIMEDOUT, -FI_EINTR.
    pub fn connect(&self, private_data: &[u8]) -> Result<Owned> {
        self.endpoint.connect(private_data)?;
        next_event(&self.events, FI_CONNECTED)
    }

    /// Accepts the request that it was opened for. In a kthread.
    ///
    /// # Errors
    ///
    /// Those of [`Self::connect`].
    pub fn accept(&self, private_data: &[u8]) -> Result {
        self.endpoint.accept(private_data)?;
        next_event(&self.events, FI_CONNECTED).map(drop)
    }

    /// Waits until the peer has left. In a kthread.
    ///
    /// # Errors
    ///
    /// -FI_EINTR.
    pub fn end(&self) -> Result {
        next_event(&self.events, FI_SHUTDOWN).map(drop)
    }

    /// Waits for what was posted in the direction of the peer to be over: gives its buffer back. In a
    /// kthread.
    ///
    /// # Errors
    ///
    /// Why it failed: -FI_ECANCELED when it was still posted when the connection ended; -FI_EINTR.
    pub fn sent(&self) -> Result<KBox<Buffer>> {
        let done = patiently(|budget| self.transmits.wait(budget))?;
        done.result.map(|_| done.buffer)
    }

    /// Waits for a message: gives the buffer that it is in, and its length. In a kthread.
    ///
    /// # Errors
    ///
    /// Those of [`Self::sent`].
    pub fn received(&self) -> Result<(KBox<Buffer>, usize)> {
        let done = patiently(|budget| self.receives.wait(budget))?;
        done.result.map(|len| (done.buffer, len))
    }
}
