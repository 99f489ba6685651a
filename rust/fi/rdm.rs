// SPDX-License-Identifier: GPL-2.0

//! Datagram endpoints for Rust consumers. Each endpoint reaches any number of peers. As with [connected
//! endpoints](super::msg), a post takes ownership of its [`Buffer`] and the completion returns it; calls that
//! may sleep take a [`ProcessContext`].

use super::{
    atomic::{
        Form,
        Op, //
    },
    av::{
        AddressVector,
        Peer, //
    },
    domain::Domain,
    ep,
    eq::Source,
    memory::{
        Buffer,
        PostResult,
        RefusedPost, //
    },
    msg::Side,
    post::{
        OpenEndpoint,
        Posting, //
    },
    provider::{
        Rma,
        Tag, //
    },
    stx, //
};
use crate::{
    abi::{
        flags,
        FI_ADDR_UNSPEC, //
    },
    fi::prelude::*, //
};

pub use super::{
    msg::{
        CompletedOp,
        Completions,
        Direction,
        RemoteAccess,
        RemoteBuffer,
        SharedReceives, //
    },
    post::{
        RemoteElements,
        RemoteMemory, //
    },
};

/// A shared transmit context: a pool of transmit packets that bound endpoints use instead of packets of their
/// own.
///
/// The context closes when its owner and all bound endpoints have dropped it; in atomic context, a workqueue
/// does so later.
pub struct SharedTransmits(pub(super) DeferredDrop<Arc<stx::SharedTransmit>>);

impl SharedTransmits {
    /// Opens a context for `size` simultaneous operations; 0 selects the limit of an endpoint of its own. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS for a domain of connected endpoints, -FI_EINVAL for a size over an endpoint's own limit,
    /// -FI_ENODEV when the device is being removed, -FI_ENOMEM.
    pub fn new(_here: ProcessContext, domain: &Arc<Domain>, size: usize) -> Result<Arc<Self>> {
        let shared = domain.shared_transmit(&stx::Attr {
            size,
            ..stx::Attr::default()
        })?;
        new_arc(Self(DeferredDrop::new(shared)?))
    }
}

/// The shared contexts of an endpoint.
#[derive(Clone, Copy, Default)]
pub struct Shared<'a> {
    /// Shared receive context; the endpoint posts no receives itself.
    pub receives: Option<&'a Arc<SharedReceives>>,
    /// Shared transmit context, instead of transmit packets of the endpoint's own.
    pub transmits: Option<&'a Arc<SharedTransmits>>,
}

/// A datagram endpoint. It needs no connection management: the provider connects to a peer with the first
/// operation for it, and reconnects after an idle disconnect.
///
/// Dropping the endpoint closes it and frees the buffers that are still posted; in atomic context, a
/// workqueue does so later.
pub struct Endpoint {
    open: DeferredDrop<OpenEndpoint>,
    /// [`AddressVector::identity`] of the peers' vector.
    av_identity: usize,
    has_tags: bool,
}

impl Endpoint {
    /// Opens and enables an endpoint at the source address of `info`, or at any address. Its peers are in
    /// `addresses`. Sent buffers return from the first queue, received ones from the second, which may be the
    /// same. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for an info that is not of `domain` or is of connected endpoints; -FI_EDOMAIN for objects
    /// of another domain; -FI_EADDRINUSE, -FI_EADDRNOTAVAIL, -FI_ENODEV, -FI_ENOMEM.
    pub fn new(
        here: ProcessContext,
        domain: &Arc<Domain>,
        info: &Info,
        addresses: &Arc<AddressVector>,
        sides: (Side<'_>, Side<'_>),
    ) -> Result<Self> {
        Self::sharing(here, domain, info, addresses, sides, Shared::default())
    }

    /// Opens and enables an endpoint with shared contexts. `info` must name each of them (FI_SHARED_CONTEXT).
    /// May sleep.
    ///
    /// # Errors
    ///
    /// As [`Self::new`]; -FI_EINVAL for a shared context that `info` does not name; -FI_ENORX without the
    /// shared receives that it names, and -FI_EOPBADSTATE without the shared transmits.
    pub fn sharing(
        _here: ProcessContext,
        domain: &Arc<Domain>,
        info: &Info,
        addresses: &Arc<AddressVector>,
        sides: (Side<'_>, Side<'_>),
        shared: Shared<'_>,
    ) -> Result<Self> {
        let bind_av = |endpoint: &ep::Endpoint| endpoint.bind_av(addresses, 0);
        Ok(Self {
            open: OpenEndpoint::new(domain, (info, Source(0)), sides, shared, bind_av)?,
            av_identity: addresses.identity(),
            has_tags: info.caps() & abi::FI_TAGGED != 0,
        })
    }

    /// Returns the local address. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EADDRNOTAVAIL when the endpoint has none.
    pub fn address(&self, _here: ProcessContext) -> Result<SocketAddr> {
        self.open.endpoint.core().name()
    }

    /// Returns the domain of the endpoint, in which its buffers may be registered. Any context.
    pub fn domain(&self) -> &Arc<Domain> {
        self.open.endpoint.domain()
    }

    /// Returns a post of `buffer` to `peer` or from any peer, with or without a tag.
    ///
    /// # Errors
    ///
    /// Returned with the buffer: -FI_EINVAL for a peer of another vector, -FI_ENOSYS for a tag if the info has
    /// no FI_TAGGED.
    #[inline]
    fn posting(
        &self,
        peer: Option<&Peer>,
        tag: Option<Tag>,
        buffer: KBox<Buffer>,
    ) -> PostResult<Posting<'_>> {
        if peer.is_some_and(|peer| peer.vector().identity() != self.av_identity) {
            let errno = Errno::EINVAL;
            return Err(RefusedPost { errno, buffer });
        }
        if tag.is_some() && !self.has_tags {
            let errno = Errno::ENOSYS;
            return Err(RefusedPost { errno, buffer });
        }
        Ok(Posting {
            core: &**self.open.endpoint.core(),
            domain: self.domain(),
            peer: peer.map_or(FI_ADDR_UNSPEC, Peer::addr),
            tag,
            buffer,
        })
    }

    /// Returns a post of `buffer` as a receive from `from`, or from any peer.
    ///
    /// # Errors
    ///
    /// As [`Self::posting`]; -FI_EOPNOTSUPP for a peer if the info has no FI_DIRECTED_RECV.
    #[inline]
    fn receiving(
        &self,
        from: Option<&Peer>,
        tag: Option<Tag>,
        buffer: KBox<Buffer>,
    ) -> PostResult<Posting<'_>> {
        if from.is_some() && !self.open.endpoint.core().directs_receives() {
            let errno = Errno::EOPNOTSUPP;
            return Err(RefusedPost { errno, buffer });
        }
        self.posting(from, tag, buffer)
    }

    /// Sends the first `len` bytes of `buffer`. The completion returns the buffer. Any context.
    ///
    /// # Errors
    ///
    /// Returned with the buffer: -FI_EAGAIN when a queue is full; -FI_EINVAL for a peer of another vector,
    /// for one that another user of the vector has removed, and for a buffer shorter than `len`; -FI_EMSGSIZE
    /// for more than the maximum message size. An unreachable peer fails the completion.
    pub fn send(&self, to: &Peer, buffer: KBox<Buffer>, len: usize) -> PostResult {
        self.posting(Some(to), None, buffer)?.send(len)
    }

    /// Sends the first `len` bytes of `buffer` with a tag, to a tagged receive that matches it. Any context.
    ///
    /// # Errors
    ///
    /// As [`Self::send`]; -FI_ENOSYS if the info has no FI_TAGGED.
    pub fn send_tagged(&self, to: &Peer, tag: u64, buffer: KBox<Buffer>, len: usize) -> PostResult {
        let tag = Some(Tag { tag, ignore: 0 });
        self.posting(Some(to), tag, buffer)?.send(len)
    }

    /// Posts `buffer` for the next untagged message from `from`, if given, else from any peer. The completion
    /// returns the buffer. Any context.
    ///
    /// # Errors
    ///
    /// Returned with the buffer: -FI_EAGAIN when the receive queue is full, -FI_EINVAL for a peer that is not
    /// in the vector, -FI_EOPNOTSUPP for a peer if the info has no FI_DIRECTED_RECV.
    pub fn receive(&self, from: Option<&Peer>, buffer: KBox<Buffer>) -> PostResult {
        self.receiving(from, None, buffer)?.receive(0)
    }

    /// Posts `buffer` for the next message whose tag matches `tag`. Any context.
    ///
    /// # Errors
    ///
    /// As [`Self::receive`]; -FI_ENOSYS if the info has no FI_TAGGED.
    pub fn receive_tagged(
        &self,
        from: Option<&Peer>,
        tag: Tag,
        buffer: KBox<Buffer>,
    ) -> PostResult {
        self.receiving(from, Some(tag), buffer)?.receive(0)
    }

    /// Cancels the posted receive whose buffer has this [context](Buffer::context), if no message has matched
    /// it, or the transmit, if nothing of it has been posted to the device: the buffer completes with
    /// -FI_ECANCELED. Any context.
    ///
    /// # Errors
    ///
    /// -FI_ENOENT if there is no such operation, or -FI_EOPNOTSUPP if receives are [shared](Self::sharing);
    /// -FI_EAGAIN while the memory of the transmit is being registered.
    pub fn cancel(&self, context: Context) -> Result {
        self.open.endpoint.core().cancel(context)
    }

    /// Peeks at the unexpected messages for the one that [`Self::receive_tagged`] would match: `buffer`
    /// completes with its length, tag and source, or with -FI_ENOMSG. The message stays queued. Any context.
    ///
    /// # Errors
    ///
    /// As [`Self::receive_tagged`].
    pub fn peek(&self, from: Option<&Peer>, tag: Tag, buffer: KBox<Buffer>) -> PostResult {
        self.receive_with_flags(from, tag, buffer, flags::FI_PEEK)
    }

    /// Peeks as [`Self::peek`], and claims the message for `buffer`: only [`Self::receive_claimed`] with it
    /// receives the message. Any context.
    ///
    /// # Errors
    ///
    /// As [`Self::peek`].
    pub fn claim(&self, from: Option<&Peer>, tag: Tag, buffer: KBox<Buffer>) -> PostResult {
        self.receive_with_flags(from, tag, buffer, flags::FI_PEEK | flags::FI_CLAIM)
    }

    /// Peeks as [`Self::peek`], and discards the message. Any context.
    ///
    /// # Errors
    ///
    /// As [`Self::peek`].
    pub fn discard(&self, from: Option<&Peer>, tag: Tag, buffer: KBox<Buffer>) -> PostResult {
        self.receive_with_flags(from, tag, buffer, flags::FI_PEEK | flags::FI_DISCARD)
    }

    /// Receives the message that `buffer` has claimed; the first one if there are several. Any context.
    ///
    /// # Errors
    ///
    /// As [`Self::receive_tagged`]; -FI_EINVAL if `buffer` has claimed none.
    pub fn receive_claimed(&self, buffer: KBox<Buffer>) -> PostResult {
        self.receive_with_flags(None, Tag::ANY, buffer, flags::FI_CLAIM)
    }

    /// Discards the message that `buffer` has claimed; `buffer` completes without data. Any context.
    ///
    /// # Errors
    ///
    /// As [`Self::receive_claimed`].
    pub fn discard_claimed(&self, buffer: KBox<Buffer>) -> PostResult {
        self.receive_with_flags(None, Tag::ANY, buffer, flags::FI_CLAIM | flags::FI_DISCARD)
    }

    fn receive_with_flags(
        &self,
        from: Option<&Peer>,
        tag: Tag,
        buffer: KBox<Buffer>,
        flags: u64,
    ) -> PostResult {
        self.receiving(from, Some(tag), buffer)?.receive(flags)
    }

    /// Writes the first `len` bytes of `buffer` to a peer's memory. The completion returns the buffer. Any
    /// context.
    ///
    /// # Errors
    ///
    /// As [`Self::send`]; -FI_EOPNOTSUPP if the info has no FI_RMA. An access that the peer does not permit
    /// fails the completion.
    pub fn write(
        &self,
        peer: &Peer,
        buffer: KBox<Buffer>,
        len: usize,
        to: RemoteMemory,
    ) -> PostResult {
        self.posting(Some(peer), None, buffer)?
            .rma(len, Rma::Write, to)
    }

    /// Reads `len` bytes of a peer's memory to the start of `buffer`. The completion returns the buffer. Any
    /// context.
    ///
    /// # Errors
    ///
    /// As [`Self::write`].
    pub fn read(
        &self,
        peer: &Peer,
        buffer: KBox<Buffer>,
        len: usize,
        from: RemoteMemory,
    ) -> PostResult {
        self.posting(Some(peer), None, buffer)?
            .rma(len, Rma::Read, from)
    }

    /// Applies the atomic operation `op` to elements in a peer's memory, with the operands at the start of
    /// `buffer`. The previous values replace the operands. Any context.
    ///
    /// # Errors
    ///
    /// As [`Self::write`]; -FI_EOPNOTSUPP if the info has no FI_ATOMIC, and for an operation that compares;
    /// -FI_EMSGSIZE for more elements than one operation can have.
    pub fn fetch(
        &self,
        peer: &Peer,
        buffer: KBox<Buffer>,
        op: Op,
        elements: RemoteElements,
    ) -> PostResult {
        self.posting(Some(peer), None, buffer)?
            .atomic(Form::Fetch, op, elements)
    }

    /// Applies the atomic operation `op`, which compares, as [`Self::fetch`] does. The compare values, one
    /// per element, follow the operands in `buffer`. Any context.
    ///
    /// # Errors
    ///
    /// As [`Self::fetch`], but -FI_EOPNOTSUPP for an operation that does not compare.
    pub fn compare(
        &self,
        peer: &Peer,
        buffer: KBox<Buffer>,
        op: Op,
        elements: RemoteElements,
    ) -> PostResult {
        self.posting(Some(peer), None, buffer)?
            .atomic(Form::Compare, op, elements)
    }
}
