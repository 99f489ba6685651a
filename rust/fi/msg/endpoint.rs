// SPDX-License-Identifier: GPL-2.0

//! Endpoints for Rust consumers, whose state is in their type.

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
use crate::abi::{
    context::ProcessContext,
    deferred_drop::DeferredDrop,
    flags,
    info::Info,
    Errno,
    Result,
    FI_CONNECTED, //
};
use core::marker::PhantomData;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// How far an endpoint has come.
pub trait State: sealed::Sealed {}

/// It is open: receives can be posted, and it can connect or accept.
pub struct Idle(());

/// It has asked to connect, or has accepted: an event is to tell what comes of it.
pub struct Connecting(());

/// It has been connected: it sends, and reaches the peer's memory. What is posted after the connection
/// has ended is refused with -FI_ENOTCONN, or fails.
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

/// An endpoint that closes itself, silently; buffers that are still posted are freed.
struct Open {
    endpoint: Arc<ep::Endpoint>,
    /// For transmits and for receives.
    completions: [Arc<Completions>; 2],
    source: Source,
    /// Closed behind the endpoint.
    _receives: Option<Arc<SharedReceives>>,
}

impl Drop for Open {
    fn drop(&mut self) {
        // What is still posted was given by `post` below, whichever queue it would have gone to.
        let claim = &self.completions[0].claim;
        self.endpoint
            .close(&mut |context| drop(claim.reclaim(context)));
    }
}

/// One end of a connection, as far as its [`State`] says. Dropping it closes it, silently; buffers that
/// are still posted are freed. Where that may not sleep, both happen soon after.
pub struct Endpoint<S: State = Connected> {
    open: DeferredDrop<Open>,
    _state: PhantomData<S>,
}

/// An event that does not say that an endpoint is connected, with that endpoint.
pub struct NotYet {
    /// What the event says: why it is not, or -FI_EINVAL if it is not about this endpoint.
    pub errno: Errno,
    /// As it was.
    pub endpoint: Endpoint<Connecting>,
}

impl From<NotYet> for Errno {
    fn from(not: NotYet) -> Self {
        not.errno
    }
}

impl Endpoint<Idle> {
    /// Opens an endpoint, for the connection request in `info` if there is one, and enables it. Receives
    /// can be posted from now on, before it is connected.
    ///
    /// Its events go to `events` and carry `source`; sent buffers come back from `transmit`,
    /// received ones from `receive`, which may be the same queue.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for an info that is not of `domain`, -FI_EDOMAIN for completions of another one,
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

    /// The same with counters: of the messages that it has sent, and of those that it has received.
    /// One counter may count for both, and for several endpoints.
    ///
    /// # Errors
    ///
    /// As of [`Self::new`]; -FI_EDOMAIN for a counter of another domain too.
    pub fn counted(
        here: ProcessContext,
        domain: &Arc<Domain>,
        info: &Info,
        source: Source,
        events: &Arc<EventQueue>,
        sides: (Side<'_>, Side<'_>),
    ) -> Result<Self> {
        Self::bound(here, domain, info, source, events, sides, None)
    }

    /// The same with receives that it shares with others, as `info` has to say (FI_SHARED_CONTEXT): its
    /// messages take those, and [`Self::receive`] posts none.
    ///
    /// # Errors
    ///
    /// As of [`Self::counted`]; -FI_EINVAL for an info that does not say so, -FI_EDOMAIN for receives of
    /// another domain, -FI_ENOSPC when the completions have no room for all of them.
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
        Self::bound(here, domain, info, source, events, sides, receives)
    }

    fn bound(
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
        Ok(Self::of(open))
    }

    /// Starts to connect to the destination of the endpoint's info: an FI_CONNECTED or an error
    /// event follows.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for more private data than fits, -FI_EHOSTUNREACH, -FI_ENOMEM: the endpoint is closed.
    pub fn connect(
        self,
        _here: ProcessContext,
        private_data: &[u8],
    ) -> Result<Endpoint<Connecting>> {
        self.open.endpoint.connect(None, private_data)?;
        Ok(Endpoint::of(self.open))
    }

    /// Accepts the request that the endpoint was made for: FI_CONNECTED follows.
    ///
    /// # Errors
    ///
    /// Those of [`Self::connect`]; -FI_ENOTCONN when the peer has gone.
    pub fn accept(
        self,
        _here: ProcessContext,
        private_data: &[u8],
    ) -> Result<Endpoint<Connecting>> {
        self.open.endpoint.accept(private_data)?;
        Ok(Endpoint::of(self.open))
    }
}

impl Endpoint<Connecting> {
    /// That the endpoint is connected, which the event says. Any context.
    ///
    /// # Errors
    ///
    /// With the endpoint: see [`NotYet`].
    pub fn connected(self, event: &Event) -> core::result::Result<Endpoint, NotYet> {
        let errno = match event.kind() {
            _ if event.source() != self.open.source => Errno::EINVAL,
            Kind::Connection(FI_CONNECTED) => return Ok(Endpoint::of(self.open)),
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
    /// Ends the connection: what is posted has completed when this returns.
    pub fn shutdown(&self, _here: ProcessContext) -> Result {
        self.open.endpoint.core().shutdown(0)
    }

    /// Sends the first `len` bytes of `buffer`. Any context.
    ///
    /// # Errors
    ///
    /// With the buffer: -FI_EAGAIN when a queue is full, -FI_ENOTCONN when the connection has ended,
    /// -FI_EINVAL when the buffer is shorter, -FI_EMSGSIZE when the device takes no such message.
    pub fn send(&self, buffer: KBox<Buffer>, len: usize) -> core::result::Result<(), RefusedPost> {
        self.posting().send(buffer, len)
    }
}

impl<S: State> Endpoint<S> {
    fn of(open: DeferredDrop<Open>) -> Self {
        Self {
            open,
            _state: PhantomData,
        }
    }

    /// What its events carry.
    pub fn source(&self) -> Source {
        self.open.source
    }

    /// Where it was opened, and where what it posts may be registered. Any context.
    pub fn domain(&self) -> &Arc<Domain> {
        self.open.endpoint.domain()
    }

    /// Posts `buffer` for the next message. Any context.
    ///
    /// # Errors
    ///
    /// With the buffer: -FI_EAGAIN when a queue is full, -FI_EMSGSIZE when the device takes no such
    /// message.
    pub fn receive(&self, buffer: KBox<Buffer>) -> core::result::Result<(), RefusedPost> {
        self.posting().receive(buffer)
    }

    /// Where what it posts goes.
    #[inline]
    pub(super) fn posting(&self) -> Posting<'_> {
        Posting::to_peer(&**self.open.endpoint.core(), self.domain())
    }
}
