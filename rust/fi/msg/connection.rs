// SPDX-License-Identifier: GPL-2.0

//! One end of a connection with all that it takes, for a kthread that waits for what it does.
//!
//! Each wait ends when the thread is told to stop: -FI_EINTR.

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
            RefusedPost, //
        },
        wait::Budget, //
    },
    Completions,
    Connecting,
    Endpoint,
    Idle, //
};
use crate::abi::{
    context::{
        kthread_should_stop,
        ProcessContext, //
    },
    info::Info,
    Errno,
    Result,
    FI_CONNECTED,
    FI_SHUTDOWN, //
};
use kernel::{
    prelude::*,
    sync::{
        Arc,
        UniqueArc, //
    },
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
pub fn next_event(here: ProcessContext, events: &EventQueue, wanted: u32) -> Result<OwnedEvent> {
    Ok(event_or_why(here, events, wanted)?)
}

fn event_or_why(
    here: ProcessContext,
    events: &EventQueue,
    wanted: u32,
) -> core::result::Result<OwnedEvent, NotConnected> {
    let event = patiently(|budget| events.next(here, budget))?;
    match event.kind() {
        Kind::Connection(number) if number == wanted => Ok(event),
        Kind::Error(errno, _) => Err(NotConnected {
            errno,
            event: Some(event),
        }),
        _ => Err(Errno::ENOTCONN.into()),
    }
}

/// What there is in place of a connection.
pub struct NotConnected {
    /// Why.
    pub errno: Errno,
    event: Option<OwnedEvent>,
}

impl NotConnected {
    /// What the peer has said with its refusal; zeroes may follow, and nothing where it has not refused.
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

/// One end of what is to be a connection: receives can be posted, before messages can arrive.
pub struct Unconnected {
    endpoint: Endpoint<Idle>,
    domain: Arc<Domain>,
    caps: u64,
    room: UniqueArc<core::mem::MaybeUninit<Endpoint>>,
    events: Arc<EventQueue>,
    transmits: Arc<Completions>,
    receives: Arc<Completions>,
}

/// One end of a connection: an event queue for the connection, a completion queue for each direction,
/// and the endpoint.
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
    /// Opens one end, in a domain of its own, on which `depth` operations can be posted in each
    /// direction.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for an info that is not of `fabric`, -FI_ENODEV, -FI_ENOMEM.
    pub fn open(
        here: ProcessContext,
        fabric: &Arc<Fabric>,
        info: &mut Info,
        depth: usize,
    ) -> Result<Unconnected> {
        let domain = fabric.domain(here, info)?;
        Self::open_in(here, fabric, &domain, info, depth)
    }

    /// The same in a domain of `fabric` that is there, with whose memory it can be reached.
    ///
    /// # Errors
    ///
    /// Those of [`Self::open`].
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
        Ok(Unconnected {
            domain: domain.clone(),
            caps: info.caps(),
            room: UniqueArc::new_uninit(GFP_KERNEL)?,
            endpoint: Endpoint::new(
                here,
                domain,
                info,
                Source(0),
                &events,
                &transmits,
                &receives,
            )?,
            events,
            transmits,
            receives,
        })
    }

    /// Waits until the peer has left. In a kthread.
    ///
    /// # Errors
    ///
    /// -FI_EINTR.
    pub fn end(&self, here: ProcessContext) -> Result {
        next_event(here, &self.events, FI_SHUTDOWN).map(drop)
    }

    /// Waits for what was posted in the direction of the peer to be over: gives its buffer back. In a
    /// kthread.
    ///
    /// # Errors
    ///
    /// Why it failed: -FI_ECANCELED when it was still posted when the connection ended; -FI_EINTR.
    pub fn sent(&self, here: ProcessContext) -> Result<KBox<Buffer>> {
        let done = patiently(|budget| self.transmits.wait(here, budget))?;
        done.result.map(|_| done.buffer)
    }

    /// Waits for a message: gives the buffer that it is in, and its length. In a kthread.
    ///
    /// # Errors
    ///
    /// Those of [`Self::sent`].
    pub fn received(&self, here: ProcessContext) -> Result<(KBox<Buffer>, usize)> {
        let done = patiently(|budget| self.receives.wait(here, budget))?;
        done.result.map(|len| (done.buffer, len))
    }
}

impl Unconnected {
    /// The device, opened: whose memory the peer can be lent.
    pub fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// What it can do: FI_MSG, FI_ATOMIC and their kind.
    pub fn caps(&self) -> u64 {
        self.caps
    }

    /// Posts `buffer` for the next message. Any context.
    ///
    /// # Errors
    ///
    /// Those of [`Endpoint::receive`].
    pub fn receive(&self, buffer: KBox<Buffer>) -> core::result::Result<(), RefusedPost> {
        self.endpoint.receive(buffer)
    }

    /// Connects to the destination of its info; the event has the peer's private data. In a kthread.
    ///
    /// # Errors
    ///
    /// -FI_ECONNREFUSED, perhaps with words of the peer's; -FI_EHOSTUNREACH, -FI_ETIMEDOUT, -FI_EINTR.
    pub fn connect(
        self,
        here: ProcessContext,
        private_data: &[u8],
    ) -> core::result::Result<(Connection, OwnedEvent), NotConnected> {
        self.establish(here, |endpoint| endpoint.connect(here, private_data))
    }

    /// Accepts the request that it was opened for. In a kthread.
    ///
    /// # Errors
    ///
    /// Those of [`Self::connect`].
    pub fn accept(self, here: ProcessContext, private_data: &[u8]) -> Result<Connection> {
        let (connection, _) =
            self.establish(here, |endpoint| endpoint.accept(here, private_data))?;
        Ok(connection)
    }

    fn establish(
        self,
        here: ProcessContext,
        begin: impl FnOnce(Endpoint<Idle>) -> Result<Endpoint<Connecting>>,
    ) -> core::result::Result<(Connection, OwnedEvent), NotConnected> {
        let endpoint = begin(self.endpoint)?;
        let event = event_or_why(here, &self.events, FI_CONNECTED)?;
        let endpoint = endpoint.connected(&event).map_err(Errno::from)?;
        let connection = Connection {
            endpoint: self.room.write(endpoint).into(),
            events: self.events,
            transmits: self.transmits,
            receives: self.receives,
        };
        Ok((connection, event))
    }
}
