// SPDX-License-Identifier: GPL-2.0

//! Connected endpoints and listeners for Rust consumers. The type of an endpoint contains its connection state.

use super::{
    super::{
        atomic::{
            Form,
            Op, //
        },
        domain::Domain,
        ep,
        eq::{
            Event,
            EventQueue,
            Kind,
            Source, //
        },
        fabric::Fabric,
        memory::{
            Buffer,
            PostResult, //
        },
        pep::PassiveEndpoint,
        post::{
            OpenEndpoint,
            Posting,
            RemoteElements,
            RemoteMemory, //
        },
        provider::Rma,
        rdm::Shared, //
    },
    Completions,
    SharedReceives,
    Side, //
};
use crate::{
    abi::{
        FI_ADDR_UNSPEC,
        FI_CONNECTED, //
    },
    fi::prelude::*, //
};

/// The connection state of an endpoint.
pub trait State: sealed::Sealed {}

/// State of an open endpoint: it can post receives, connect or accept.
pub struct Idle(());

/// State after a connect or accept: an event reports the result.
pub struct Connecting(());

/// State of a connected endpoint: it can send and access the peer's memory. A post after the end of the
/// connection is refused with -FI_ENOTCONN or fails.
pub struct Connected(());

mod sealed {
    pub trait Sealed {}

    impl Sealed for super::Idle {}
    impl Sealed for super::Connecting {}
    impl Sealed for super::Connected {}
}

impl State for Idle {}
impl State for Connecting {}
impl State for Connected {}

/// A connected endpoint, in the given [`State`]. Dropping the endpoint closes it without an event and
/// frees the buffers that are still posted; in atomic context, a workqueue does so later.
pub struct Endpoint<S: State = Connected> {
    open: DeferredDrop<OpenEndpoint>,
    _state: PhantomData<S>,
}

/// An event that does not report the connection of an endpoint, with that endpoint.
pub struct NotYet {
    /// Error of the event, or -FI_EINVAL if the event belongs to another endpoint or is of another kind.
    pub errno: Errno,
    /// The endpoint, unchanged.
    pub endpoint: Endpoint<Connecting>,
}

impl From<NotYet> for Errno {
    fn from(not: NotYet) -> Self {
        not.errno
    }
}

impl Endpoint<Idle> {
    /// Opens and enables an endpoint, for the connection request in `info` if there is one. Receives can be
    /// posted from then on, before the endpoint is connected. May sleep.
    ///
    /// Connection events go to `events` and carry `source`. Sent buffers return from `transmit`, received
    /// ones from `receive`, which may be the same queue.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for an info that is not of `domain`, -FI_EDOMAIN for a completion queue of another domain,
    /// -FI_ENOMEM.
    pub fn new(
        here: ProcessContext,
        domain: &Arc<Domain>,
        info: &Info,
        source: Source,
        events: &Arc<EventQueue>,
        transmit: &Arc<Completions>,
        receive: &Arc<Completions>,
    ) -> Result<Self> {
        let sides = (transmit.side(None), receive.side(None));
        Self::counted(here, domain, info, source, events, sides)
    }

    /// Opens and enables an endpoint with optional counters of the messages that it sends and receives. One
    /// counter may serve both directions, and several endpoints. May sleep.
    ///
    /// # Errors
    ///
    /// As [`Self::new`]; -FI_EDOMAIN also for a counter of another domain.
    pub fn counted(
        _here: ProcessContext,
        domain: &Arc<Domain>,
        info: &Info,
        source: Source,
        events: &Arc<EventQueue>,
        sides: (Side<'_>, Side<'_>),
    ) -> Result<Self> {
        Self::build(domain, (info, source), events, sides, Shared::default())
    }

    /// Opens and enables an endpoint that uses a shared receive context, which `info` must name
    /// (FI_SHARED_CONTEXT). Its messages consume the shared receives, and [`Self::receive`] posts none. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// As [`Self::counted`]; -FI_EINVAL if `info` names no shared context, -FI_EDOMAIN for shared receives of
    /// another domain, -FI_ENOSPC if the completion queue is too small for all of them.
    pub fn sharing(
        _here: ProcessContext,
        domain: &Arc<Domain>,
        info: &Info,
        source: Source,
        events: &Arc<EventQueue>,
        sides: (Side<'_>, Side<'_>),
        receives: &Arc<SharedReceives>,
    ) -> Result<Self> {
        let shared = Shared {
            receives: Some(receives),
            transmits: None,
        };
        Self::build(domain, (info, source), events, sides, shared)
    }

    fn build(
        domain: &Arc<Domain>,
        object: (&Info, Source),
        events: &Arc<EventQueue>,
        sides: (Side<'_>, Side<'_>),
        shared: Shared<'_>,
    ) -> Result<Self> {
        let bind_eq = |endpoint: &ep::Endpoint| endpoint.bind_eq(events, 0);
        let open = OpenEndpoint::new(domain, object, sides, shared, bind_eq)?;
        Ok(Self::with_state(open))
    }

    /// Starts to connect to the destination address of the endpoint's info. An FI_CONNECTED or an error event
    /// follows. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for too much private data, -FI_EHOSTUNREACH, -FI_ENOMEM. On error the endpoint is closed.
    pub fn connect(
        self,
        _here: ProcessContext,
        private_data: &[u8],
    ) -> Result<Endpoint<Connecting>> {
        self.open.endpoint.connect(None, private_data)?;
        Ok(Endpoint::with_state(self.open))
    }

    /// Accepts the connection request that the endpoint was opened for. An FI_CONNECTED event follows. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// As [`Self::connect`]; -FI_ENOTCONN if the peer has given up.
    pub fn accept(
        self,
        _here: ProcessContext,
        private_data: &[u8],
    ) -> Result<Endpoint<Connecting>> {
        self.open.endpoint.accept(private_data)?;
        Ok(Endpoint::with_state(self.open))
    }
}

impl Endpoint<Connecting> {
    /// Converts the endpoint to the connected state if `event` reports its connection. Any context.
    ///
    /// # Errors
    ///
    /// Returned with the endpoint: see [`NotYet`].
    pub fn connected(self, event: &Event) -> core::result::Result<Endpoint, NotYet> {
        let errno = match event.kind() {
            _ if event.source() != self.source() => Errno::EINVAL,
            Kind::Connection(FI_CONNECTED) => return Ok(Endpoint::with_state(self.open)),
            Kind::Error(errno, _) => errno,
            _ => Errno::EINVAL,
        };
        Err(NotYet {
            errno,
            endpoint: self,
        })
    }
}

impl Endpoint<Connected> {
    /// Ends the connection. All posted operations have completed when this returns. May sleep.
    pub fn shutdown(&self, _here: ProcessContext) -> Result {
        self.open.endpoint.core().shutdown(0)
    }

    /// Sends the first `len` bytes of `buffer`. The completion returns the buffer. Any context.
    ///
    /// # Errors
    ///
    /// Returned with the buffer: -FI_EAGAIN when a queue is full, -FI_ENOTCONN after the end of the
    /// connection, -FI_EINVAL for a buffer shorter than `len`, -FI_EMSGSIZE for more than the device's
    /// maximum message size.
    pub fn send(&self, buffer: KBox<Buffer>, len: usize) -> PostResult {
        self.prepare(buffer).send(len)
    }

    /// Writes the first `len` bytes of `buffer` to the peer's memory. The completion returns the buffer. Any
    /// context.
    ///
    /// # Errors
    ///
    /// As [`Self::send`], with the buffer. An access that the peer does not permit fails the completion and
    /// ends the connection.
    pub fn write(&self, buffer: KBox<Buffer>, len: usize, to: RemoteMemory) -> PostResult {
        self.prepare(buffer).rma(len, Rma::Write, to)
    }

    /// Reads `len` bytes of the peer's memory to the start of `buffer`. The completion returns the buffer.
    /// Any context.
    ///
    /// # Errors
    ///
    /// As [`Self::write`].
    pub fn read(&self, buffer: KBox<Buffer>, len: usize, from: RemoteMemory) -> PostResult {
        self.prepare(buffer).rma(len, Rma::Read, from)
    }

    /// Applies the atomic operation `op` to elements in the peer's memory, with the operands at the start of
    /// `buffer`. The previous values replace the operands. Any context.
    ///
    /// # Errors
    ///
    /// As [`Self::write`]; -FI_EOPNOTSUPP for an operation that compares or that the device does not support;
    /// -FI_EMSGSIZE for more elements than one operation can have.
    pub fn fetch(&self, buffer: KBox<Buffer>, op: Op, elements: RemoteElements) -> PostResult {
        self.prepare(buffer).atomic(Form::Fetch, op, elements)
    }

    /// Applies the atomic operation `op`, which compares, as [`Self::fetch`] does. The compare values, one
    /// per element, follow the operands in `buffer`. Any context.
    ///
    /// # Errors
    ///
    /// As [`Self::fetch`], but -FI_EOPNOTSUPP for an operation that does not compare.
    pub fn compare(&self, buffer: KBox<Buffer>, op: Op, elements: RemoteElements) -> PostResult {
        self.prepare(buffer).atomic(Form::Compare, op, elements)
    }
}

impl<S: State> Endpoint<S> {
    fn with_state(open: DeferredDrop<OpenEndpoint>) -> Self {
        Self {
            open,
            _state: PhantomData,
        }
    }

    /// Returns the source value that the endpoint's events carry.
    pub fn source(&self) -> Source {
        self.open.endpoint.source
    }

    /// Returns the domain of the endpoint, in which its buffers may be registered. Any context.
    pub fn domain(&self) -> &Arc<Domain> {
        self.open.endpoint.domain()
    }

    /// Posts `buffer` for the next message. The completion returns the buffer. Any context.
    ///
    /// # Errors
    ///
    /// Returned with the buffer: -FI_EAGAIN when a queue is full, -FI_EMSGSIZE for more than the device's
    /// maximum message size.
    pub fn receive(&self, buffer: KBox<Buffer>) -> PostResult {
        self.prepare(buffer).receive(0)
    }

    /// Returns an operation on `buffer`, to be posted.
    #[inline]
    fn prepare(&self, buffer: KBox<Buffer>) -> Posting<'_> {
        Posting {
            core: &**self.open.endpoint.core(),
            domain: self.domain(),
            peer: FI_ADDR_UNSPEC,
            tag: None,
            buffer,
        }
    }
}

/// A listener. Dropping it closes it and rejects the pending connection requests; in atomic context, a
/// workqueue does so later.
pub struct Listener(DeferredDrop<Arc<PassiveEndpoint>>);

impl Listener {
    /// Listens on the source address of `info`. FI_CONNREQ events go to `events` and carry `source`. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// -FI_EADDRINUSE, -FI_EADDRNOTAVAIL, -FI_ENODEV if no device has the address, -FI_ENOMEM.
    pub fn new(
        _here: ProcessContext,
        fabric: &Arc<Fabric>,
        info: &Info,
        source: Source,
        events: &Arc<EventQueue>,
    ) -> Result<Self> {
        let listener = Self(DeferredDrop::new(fabric.passive_endpoint(info, source)?)?);
        listener.0.bind_eq(events, 0)?;
        listener.0.listen()?;
        Ok(listener)
    }

    /// Rejects the connection request that `info` describes. May sleep.
    pub fn reject(&self, _here: ProcessContext, info: &Info, private_data: &[u8]) -> Result {
        self.0.core().reject(info.handle(), private_data)
    }
}
