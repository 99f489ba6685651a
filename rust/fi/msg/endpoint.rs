// SPDX-License-Identifier: GPL-2.0

//! Connected endpoints for Rust consumers. The type of an endpoint contains its connection state.

use super::{
    super::{
        domain::Domain,
        ep,
        eq::{
            Event,
            EventQueue,
            Kind,
            Source, //
        },
        memory::{
            Buffer,
            RefusedPost, //
        },
        post::Posting, //
    },
    Completions,
    SharedReceives,
    Side, //
};
use crate::{
    abi::{
        flags,
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

/// The parts of an open endpoint. Dropping closes the endpoint without an event and frees the buffers that
/// are still posted. May sleep.
struct Open {
    endpoint: Arc<ep::Endpoint>,
    /// Queues of transmits and of receives.
    completions: [Arc<Completions>; 2],
    source: Source,
    /// Dropped after the endpoint is closed.
    _receives: Option<Arc<SharedReceives>>,
}

impl Drop for Open {
    fn drop(&mut self) {
        // The context of each posted operation came from [`Buffer::post`], whichever queue it would have
        // completed in.
        let claim = &self.completions[0].reclaim_right;
        self.endpoint
            .close(&mut |context| drop(claim.reclaim(context)));
    }
}

/// A connected endpoint, in the given [`State`]. Dropping the endpoint closes it without an event and
/// frees the buffers that are still posted; in atomic context, a workqueue does so later.
pub struct Endpoint<S: State = Connected> {
    open: DeferredDrop<Open>,
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
        here: ProcessContext,
        domain: &Arc<Domain>,
        info: &Info,
        source: Source,
        events: &Arc<EventQueue>,
        sides: (Side<'_>, Side<'_>),
    ) -> Result<Self> {
        Self::build(here, domain, info, source, events, sides, None)
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
        here: ProcessContext,
        domain: &Arc<Domain>,
        info: &Info,
        source: Source,
        events: &Arc<EventQueue>,
        sides: (Side<'_>, Side<'_>),
        receives: &Arc<SharedReceives>,
    ) -> Result<Self> {
        let receives = Some(receives.clone());
        Self::build(here, domain, info, source, events, sides, receives)
    }

    fn build(
        _here: ProcessContext,
        domain: &Arc<Domain>,
        info: &Info,
        source: Source,
        events: &Arc<EventQueue>,
        (transmit, receive): (Side<'_>, Side<'_>),
        receives: Option<Arc<SharedReceives>>,
    ) -> Result<Self> {
        let open = DeferredDrop::new(Open {
            endpoint: domain.endpoint(info, source)?,
            completions: [transmit.completions.clone(), receive.completions.clone()],
            source,
            _receives: receives.clone(),
        })?;
        let endpoint = &open.endpoint;
        endpoint.bind_eq(events, 0)?;
        if let Some(receives) = &receives {
            endpoint.bind_srx(receives.shared(), 0)?;
        }
        transmit.bind(endpoint, flags::FI_TRANSMIT)?;
        receive.bind(endpoint, flags::FI_RECV)?;
        endpoint.enable()?;
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
            _ if event.source() != self.open.source => Errno::EINVAL,
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
    pub fn send(&self, buffer: KBox<Buffer>, len: usize) -> core::result::Result<(), RefusedPost> {
        self.posting().send(buffer, len)
    }
}

impl<S: State> Endpoint<S> {
    fn with_state(open: DeferredDrop<Open>) -> Self {
        Self {
            open,
            _state: PhantomData,
        }
    }

    /// Returns the source value that the endpoint's events carry.
    pub fn source(&self) -> Source {
        self.open.source
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
    pub fn receive(&self, buffer: KBox<Buffer>) -> core::result::Result<(), RefusedPost> {
        self.posting().receive(buffer)
    }

    /// Returns the target of the endpoint's posts.
    #[inline]
    pub(super) fn posting(&self) -> Posting<'_> {
        Posting::to_connected_peer(&**self.open.endpoint.core(), self.domain())
    }
}
