// SPDX-License-Identifier: GPL-2.0

//! Datagram endpoints for Rust consumers. An endpoint exchanges messages with any number of peers. As with
//! [connected endpoints](super::msg), a post takes ownership of its [`Buffer`] and the completion returns it.
//! Calls that may sleep take a [`ProcessContext`].

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
    /// Opens a context for `size` simultaneous operations, up to 2048; 0 selects 128. Its endpoints have the default
    /// limits of vectors. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS for a domain of connected endpoints, -FI_EINVAL for a larger size, -FI_ENODEV when the device is
    /// being removed, -FI_ENOMEM.
    pub fn new(_here: ProcessContext, domain: &Arc<Domain>, size: usize) -> Result<Arc<Self>> {
        let shared = domain.shared_transmit(&stx::Attr {
            size,
            ..stx::Attr::default()
        })?;
        new_arc(Self(DeferredDrop::new(shared)?))
    }
}

/// The shared contexts that an endpoint is bound to.
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
    /// [`AddressVector::identity`] of the address vector that the peers have to be in.
    av_identity: usize,
    has_tags: bool,
}

impl Endpoint {
    /// Opens and enables an endpoint at the source address of `info`; without one, at an address that the
    /// provider chooses. Its peers are in `addresses`. `sides` are the completion queues that return sent and
    /// received buffers, in this order; they may be one queue. May sleep.
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

    /// Opens and enables an endpoint with shared contexts. `info` must have FI_SHARED_CONTEXT as the number of
    /// contexts of each kind that is shared. May sleep.
    ///
    /// # Errors
    ///
    /// As [`Self::new`]; -FI_EINVAL for a shared context of a kind for which `info` does not have
    /// FI_SHARED_CONTEXT. If `info` has it and `shared` lacks the context: -FI_ENORX for receives,
    /// -FI_EOPBADSTATE for transmits.
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
    /// -FI_EADDRNOTAVAIL if the address is not known.
    pub fn address(&self, _here: ProcessContext) -> Result<SocketAddr> {
        self.open.endpoint.core().name()
    }

    /// Returns the domain of the endpoint, in which its buffers may be registered. Any context.
    pub fn domain(&self) -> &Arc<Domain> {
        self.open.endpoint.domain()
    }

    /// Returns an operation on `buffer`, to be posted, with `peer` or with any peer.
    ///
    /// # Errors
    ///
    /// Returned with the buffer: -FI_EINVAL for a peer of another vector, -FI_ENOSYS for a tag if the info has
    /// no FI_TAGGED.
    #[inline]
    fn prepare(
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

    /// Returns a receive into `buffer`, to be posted, from `from` or from any peer.
    ///
    /// # Errors
    ///
    /// As [`Self::prepare`]; -FI_EOPNOTSUPP for a peer if the info has no FI_DIRECTED_RECV.
    #[inline]
    fn prepare_recv(
        &self,
        from: Option<&Peer>,
        tag: Option<Tag>,
        buffer: KBox<Buffer>,
    ) -> PostResult<Posting<'_>> {
        if from.is_some() && !self.open.endpoint.core().directs_receives() {
            let errno = Errno::EOPNOTSUPP;
            return Err(RefusedPost { errno, buffer });
        }
        self.prepare(from, tag, buffer)
    }

    /// Sends the first `len` bytes of `buffer`. The completion returns the buffer. Any context.
    ///
    /// # Errors
    ///
    /// Returned with the buffer: -FI_EAGAIN when a queue is full; -FI_EINVAL for a peer of another vector,
    /// for one that another user of the vector has removed, and for a buffer shorter than `len`; -FI_EMSGSIZE
    /// for more than the maximum message size. An unreachable peer fails the completion.
    pub fn send(&self, to: &Peer, buffer: KBox<Buffer>, len: usize) -> PostResult {
        self.prepare(Some(to), None, buffer)?.send(len)
    }

    /// Sends the first `len` bytes of `buffer` with a tag, to a tagged receive that matches it. Any context.
    ///
    /// # Errors
    ///
    /// As [`Self::send`]; -FI_ENOSYS if the info has no FI_TAGGED.
    pub fn send_tagged(&self, to: &Peer, tag: u64, buffer: KBox<Buffer>, len: usize) -> PostResult {
        let tag = Some(Tag { tag, ignore: 0 });
        self.prepare(Some(to), tag, buffer)?.send(len)
    }

    /// Posts `buffer` for the next untagged message from `from`, if given, else from any peer. The completion
    /// returns the buffer. Any context.
    ///
    /// # Errors
    ///
    /// Returned with the buffer: -FI_EAGAIN when the receive queue is full, -FI_EINVAL for a peer that is not
    /// in the vector, -FI_EOPNOTSUPP for a peer if the info has no FI_DIRECTED_RECV.
    pub fn receive(&self, from: Option<&Peer>, buffer: KBox<Buffer>) -> PostResult {
        self.prepare_recv(from, None, buffer)?.receive(0)
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
        self.prepare_recv(from, Some(tag), buffer)?.receive(0)
    }

    /// Cancels the posted receive whose buffer has this [context](Buffer::context), if no message has matched
    /// it, or the transmit, if nothing of it has been posted to the device: the buffer completes with
    /// -FI_ECANCELED. Any context.
    ///
    /// # Errors
    ///
    /// Without such an operation -FI_ENOENT, or -FI_EOPNOTSUPP if receives are [shared](Self::sharing).
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

    /// Peeks as [`Self::peek`], and claims the message for `buffer`: from then on only
    /// [`Self::receive_claimed`] and [`Self::discard_claimed`] with this buffer take the message. Any context.
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

    /// Receives the message that `buffer` has claimed; if it has claimed several, the first one. Any context.
    ///
    /// # Errors
    ///
    /// As [`Self::receive_tagged`]; -FI_EINVAL if `buffer` has claimed no message.
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
        self.prepare_recv(from, Some(tag), buffer)?.receive(flags)
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
        self.prepare(Some(peer), None, buffer)?
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
        self.prepare(Some(peer), None, buffer)?
            .rma(len, Rma::Read, from)
    }

    /// Applies the atomic operation `op` to elements in a peer's memory, with the operands at the start of
    /// `buffer`. The previous values replace the operands. Any context.
    ///
    /// # Errors
    ///
    /// As [`Self::write`]; -FI_EOPNOTSUPP if the info has no FI_ATOMIC, and for an `op` of
    /// [`Self::compare`]; -FI_EMSGSIZE for more elements than one operation can have.
    pub fn fetch(
        &self,
        peer: &Peer,
        buffer: KBox<Buffer>,
        op: Op,
        elements: RemoteElements,
    ) -> PostResult {
        self.prepare(Some(peer), None, buffer)?
            .atomic(Form::Fetch, op, elements)
    }

    /// Applies the compare operation `op`, such as a compare-and-swap, as [`Self::fetch`] applies others. The
    /// compare values, one per element, follow the operands in `buffer`. Any context.
    ///
    /// # Errors
    ///
    /// As [`Self::fetch`], but -FI_EOPNOTSUPP for an `op` of [`Self::fetch`].
    pub fn compare(
        &self,
        peer: &Peer,
        buffer: KBox<Buffer>,
        op: Op,
        elements: RemoteElements,
    ) -> PostResult {
        self.prepare(Some(peer), None, buffer)?
            .atomic(Form::Compare, op, elements)
    }
}
