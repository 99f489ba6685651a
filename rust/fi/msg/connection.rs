// SPDX-License-Identifier: GPL-2.0

//! A connection with its queues, for a kthread that waits for each operation.
//!
//! Each wait ends with -FI_EINTR when the kthread is asked to stop.

use super::{
    super::{
        domain::Domain,
        eq::{
            self,
            Event,
            EventQueue,
            Kind,
            OwnedEvent,
            Source, //
        },
        fabric::Fabric,
        memory::{
            Buffer,
            PostResult, //
        },
        wait::Budget, //
    },
    Completions,
    Connecting,
    Endpoint,
    Idle, //
};
use crate::{
    abi::{
        FI_CONNECTED,
        FI_SHUTDOWN, //
    },
    fi::prelude::*,
    util::context::kthread_should_stop, //
};
use kernel::sync::UniqueArc;

/// Duration of one wait before the kthread's stop flag is checked, in milliseconds.
const POLL_INTERVAL_MS: c_int = 1000;

/// Repeats `wait` while it returns -FI_EAGAIN, until the kthread is asked to stop.
fn retry_until_stopped<T>(wait: impl Fn(&mut Budget) -> Result<T>) -> Result<T> {
    while !kthread_should_stop() {
        match wait(&mut Budget::from_millis(POLL_INTERVAL_MS)) {
            Err(Errno::EAGAIN) => {}
            answer => return answer,
        }
    }
    Err(Errno::EINTR)
}

/// Waits for the connection event `wanted`, for example FI_CONNREQ. Callable in a kthread.
///
/// # Errors
///
/// The errno of an error event, -FI_ENOTCONN for any other event; -FI_EINTR.
pub fn next_event(here: ProcessContext, events: &EventQueue, wanted: u32) -> Result<OwnedEvent> {
    Ok(wait_event(here, events, wanted)?)
}

fn wait_event(here: ProcessContext, events: &EventQueue, wanted: u32) -> ConnectResult<OwnedEvent> {
    let event = retry_until_stopped(|budget| events.next(here, budget))?;
    match event.kind() {
        Kind::Connection(number) if number == wanted => Ok(event),
        Kind::Error(errno, _) => Err(NotConnected {
            errno,
            event: Some(event),
        }),
        _ => Err(Errno::ENOTCONN.into()),
    }
}

/// Result of connecting.
pub type ConnectResult<T> = core::result::Result<T, NotConnected>;

/// The reason why there is no connection.
pub struct NotConnected {
    /// The error.
    pub errno: Errno,
    event: Option<OwnedEvent>,
}

impl NotConnected {
    /// Returns the private data of the peer's rejection, which may be followed by zeroes; empty if the peer
    /// has not rejected the connection.
    pub fn data(&self) -> &[u8] {
        self.event.as_deref().map_or(&[], Event::data)
    }
}

impl From<Errno> for NotConnected {
    fn from(errno: Errno) -> Self {
        Self { errno, event: None }
    }
}

impl From<NotConnected> for Errno {
    fn from(not: NotConnected) -> Self {
        not.errno
    }
}

/// An endpoint that is not connected yet, with its queues. Receives can be posted before messages can arrive.
pub struct Unconnected {
    endpoint: Endpoint<Idle>,
    domain: Arc<Domain>,
    caps: u64,
    allocation: UniqueArc<MaybeUninit<Endpoint>>,
    events: Arc<EventQueue>,
    transmits: Arc<Completions>,
    receives: Arc<Completions>,
}

/// A connected endpoint with its event queue and a completion queue for each direction.
///
/// Each part closes when it is dropped, in any order.
pub struct Connection {
    /// The endpoint.
    pub endpoint: Arc<Endpoint>,
    /// Queue of connection events.
    pub events: Arc<EventQueue>,
    /// Queue of completed sends, writes and reads.
    pub transmits: Arc<Completions>,
    /// Queue of completed receives.
    pub receives: Arc<Completions>,
}

impl Connection {
    /// Opens a domain, and an endpoint in it with space for `depth` operations in each direction. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for an info of another fabric, -FI_ENODEV, -FI_ENOMEM.
    pub fn open(
        here: ProcessContext,
        fabric: &Arc<Fabric>,
        info: &mut Info,
        depth: usize,
    ) -> Result<Unconnected> {
        let domain = fabric.domain(here, info)?;
        Self::open_in(here, fabric, &domain, info, depth)
    }

    /// Opens an endpoint in an open domain of `fabric`, whose registered memory its peer can access. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn open_in(
        here: ProcessContext,
        fabric: &Arc<Fabric>,
        domain: &Arc<Domain>,
        info: &mut Info,
        depth: usize,
    ) -> Result<Unconnected> {
        info.tx_mut()?.size = depth;
        info.rx_mut()?.size = depth;
        let events = fabric.event_queue(here, eq::Attr::default())?;
        let transmits = Completions::new(here, domain, depth)?;
        let receives = Completions::new(here, domain, depth)?;
        let sides = (transmits.side(None), receives.side(None));
        let endpoint = Endpoint::counted(here, domain, info, Source(0), &events, sides)?;
        Ok(Unconnected {
            domain: domain.clone(),
            caps: info.caps(),
            allocation: UniqueArc::new_uninit(GFP_KERNEL)?,
            endpoint,
            events,
            transmits,
            receives,
        })
    }

    /// Waits until the peer has shut down the connection. Callable in a kthread.
    ///
    /// # Errors
    ///
    /// -FI_EINTR.
    pub fn wait_shutdown(&self, here: ProcessContext) -> Result {
        next_event(here, &self.events, FI_SHUTDOWN).map(drop)
    }

    /// Waits for the next completed send, write or read, and returns its buffer. Callable in a kthread.
    ///
    /// # Errors
    ///
    /// The error of the operation: -FI_ECANCELED if the connection ended first; -FI_EINTR.
    pub fn wait_sent(&self, here: ProcessContext) -> Result<KBox<Buffer>> {
        let done = retry_until_stopped(|budget| self.transmits.wait(here, budget))?;
        done.result.map(|_| done.buffer)
    }

    /// Waits for a message, and returns its buffer and its length in bytes. Callable in a kthread.
    ///
    /// # Errors
    ///
    /// As [`Self::wait_sent`].
    pub fn wait_received(&self, here: ProcessContext) -> Result<(KBox<Buffer>, usize)> {
        let done = retry_until_stopped(|budget| self.receives.wait(here, budget))?;
        done.result.map(|len| (done.buffer, len))
    }
}

impl Unconnected {
    /// Returns the domain, in which memory for the peer can be registered.
    pub fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// Returns the capabilities of the endpoint: FI_MSG, FI_ATOMIC, ...
    pub fn caps(&self) -> u64 {
        self.caps
    }

    /// Posts `buffer` for the next message. Any context.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::receive`].
    pub fn receive(&self, buffer: KBox<Buffer>) -> PostResult {
        self.endpoint.receive(buffer)
    }

    /// Connects to the destination address of the endpoint's info, and waits for the connection. The event
    /// has the peer's private data. Callable in a kthread.
    ///
    /// # Errors
    ///
    /// -FI_ECONNREFUSED, possibly with private data of the peer; -FI_EHOSTUNREACH, -FI_ETIMEDOUT, -FI_EINTR.
    pub fn connect(
        self,
        here: ProcessContext,
        private_data: &[u8],
    ) -> ConnectResult<(Connection, OwnedEvent)> {
        self.establish(here, |endpoint| endpoint.connect(here, private_data))
    }

    /// Accepts the connection request that the endpoint was opened for, and waits for the connection.
    /// Callable in a kthread.
    ///
    /// # Errors
    ///
    /// As [`Self::connect`].
    pub fn accept(self, here: ProcessContext, private_data: &[u8]) -> Result<Connection> {
        let (connection, _) =
            self.establish(here, |endpoint| endpoint.accept(here, private_data))?;
        Ok(connection)
    }

    fn establish(
        self,
        here: ProcessContext,
        begin: impl FnOnce(Endpoint<Idle>) -> Result<Endpoint<Connecting>>,
    ) -> ConnectResult<(Connection, OwnedEvent)> {
        let endpoint = begin(self.endpoint)?;
        let event = wait_event(here, &self.events, FI_CONNECTED)?;
        let endpoint = endpoint.connected(&event).map_err(Errno::from)?;
        let connection = Connection {
            endpoint: self.allocation.write(endpoint).into(),
            events: self.events,
            transmits: self.transmits,
            receives: self.receives,
        };
        Ok((connection, event))
    }
}
