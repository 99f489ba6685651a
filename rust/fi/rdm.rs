// SPDX-License-Identifier: GPL-2.0

//! Datagram endpoints for Rust consumers, each of which reaches any number of peers. As with
//! [connected ones](super::msg), whoever posts a [`Buffer`] gives it away, and its completion gives it back; who may
//! sleep has an [`ProcessContext`] to show for it.

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
        Context,
        RefusedPost, //
    },
    msg::Side,
    post::Posting,
    provider::{
        Rma,
        Tag, //
    }, //
};
use crate::abi::{
    self,
    context::ProcessContext,
    deferred_drop::DeferredDrop,
    flags,
    info::Info,
    Errno,
    Result,
    FI_ADDR_UNSPEC, //
};
use core::net::SocketAddr;
use kernel::{
    prelude::*,
    sync::Arc, //
};

mod shared_transmits;

pub use self::shared_transmits::SharedTransmits;

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

/// What an endpoint has until it closes itself; buffers that are still posted are freed.
struct Open {
    endpoint: Arc<ep::Endpoint>,
    /// For transmits and for receives.
    completions: [Arc<Completions>; 2],
    /// Which vector its peers stand in.
    addresses: usize,
    has_tags: bool,
    /// Closed behind the endpoint.
    _shared: (Option<Arc<SharedReceives>>, Option<Arc<SharedTransmits>>),
}

impl Drop for Open {
    fn drop(&mut self) {
        // What is still posted was given below, whichever queue it would have gone to.
        let [completions, _] = &self.completions;
        self.endpoint
            .close(&mut |context| drop(completions.claim().reclaim(context)));
    }
}

/// What an endpoint has in common with others, and not of its own.
#[derive(Clone, Copy, Default)]
pub struct Shared<'a> {
    /// What its messages take: it posts none.
    pub receives: Option<&'a Arc<SharedReceives>>,
    /// What it sends with.
    pub transmits: Option<&'a Arc<SharedTransmits>>,
}

/// An endpoint. There are no connections to look after: whoever is sent to for the first time, or again after a
/// long time, is connected to meanwhile.
///
/// Dropping it closes it; buffers that are still posted are freed. Where that may not sleep, both happen soon
/// after.
pub struct Endpoint(DeferredDrop<Open>);

impl Endpoint {
    /// Opens an endpoint at the source address of `info`, or at any, whose peers stand in `addresses`: sent
    /// buffers come back from `transmit`, received ones from `receive`, which may be of the same queue.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for an info that is not of `domain`, or of connected endpoints; -FI_EDOMAIN for what is of
    /// another one; -FI_EADDRINUSE, -FI_EADDRNOTAVAIL, -FI_ENODEV, -FI_ENOMEM.
    pub fn new(
        here: ProcessContext,
        domain: &Arc<Domain>,
        info: &Info,
        addresses: &Arc<AddressVector>,
        sides: (Side<'_>, Side<'_>),
    ) -> Result<Self> {
        Self::sharing(here, domain, info, addresses, sides, Shared::default())
    }

    /// The same, and it has in common with others what is named, as `info` has to say of each
    /// (FI_SHARED_CONTEXT).
    ///
    /// # Errors
    ///
    /// As of [`Self::new`]; -FI_EINVAL for what `info` does not say; -FI_ENORX without receives that it says, and
    /// -FI_EOPBADSTATE without such transmits.
    pub fn sharing(
        _here: ProcessContext,
        domain: &Arc<Domain>,
        info: &Info,
        addresses: &Arc<AddressVector>,
        (transmit, receive): (Side<'_>, Side<'_>),
        shared: Shared<'_>,
    ) -> Result<Self> {
        let open = DeferredDrop::new(Open {
            endpoint: domain.endpoint(info, Source(0))?,
            completions: [
                transmit.completions().clone(),
                receive.completions().clone(),
            ],
            addresses: addresses.identity(),
            has_tags: info.caps() & abi::FI_TAGGED != 0,
            _shared: (shared.receives.cloned(), shared.transmits.cloned()),
        })?;
        let endpoint = &open.endpoint;
        endpoint.bind_av(addresses, 0)?;
        if let Some(receives) = shared.receives {
            endpoint.bind_srx(receives.shared(), 0)?;
        }
        if let Some(transmits) = shared.transmits {
            endpoint.bind_stx(transmits.shared(), 0)?;
        }
        transmit.bind(endpoint, flags::FI_TRANSMIT)?;
        receive.bind(endpoint, flags::FI_RECV)?;
        endpoint.enable()?;
        Ok(Self(open))
    }

    /// Where peers reach it.
    ///
    /// # Errors
    ///
    /// -FI_EADDRNOTAVAIL when it has none.
    pub fn address(&self, _here: ProcessContext) -> Result<SocketAddr> {
        self.0.endpoint.core().name()
    }

    /// Where it was opened, and where what it posts may be registered. Any context.
    pub fn domain(&self) -> &Arc<Domain> {
        self.0.endpoint.domain()
    }

    /// What is posted with a peer, or with anyone; with a tag, or without.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for a peer of another vector, -FI_ENOSYS for a tag where the info has no FI_TAGGED.
    #[inline]
    fn posting(&self, peer: Option<&Peer>, tag: Option<Tag>) -> Result<Posting<'_>> {
        if peer.is_some_and(|peer| peer.vector().identity() != self.0.addresses) {
            return Err(Errno::EINVAL);
        }
        if tag.is_some() && !self.0.has_tags {
            return Err(Errno::ENOSYS);
        }
        Ok(Posting {
            core: &**self.0.endpoint.core(),
            domain: self.domain(),
            peer: peer.map_or(FI_ADDR_UNSPEC, Peer::addr),
            tag,
        })
    }

    /// Has `post` post `buffer`, which comes back if it cannot.
    fn post(
        &self,
        peer: Option<&Peer>,
        tag: Option<Tag>,
        buffer: KBox<Buffer>,
        post: impl FnOnce(&Posting<'_>, KBox<Buffer>) -> core::result::Result<(), RefusedPost>,
    ) -> core::result::Result<(), RefusedPost> {
        match self.posting(peer, tag) {
            Ok(posting) => post(&posting, buffer),
            Err(errno) => Err(RefusedPost { errno, buffer }),
        }
    }

    /// Sends the first `len` bytes of `buffer`. Any context.
    ///
    /// # Errors
    ///
    /// With the buffer: -FI_EAGAIN when a queue is full, -FI_EINVAL for a peer of another vector, or that somebody
    /// who shares it has removed, and when the buffer is shorter; -FI_EMSGSIZE for more than a message can have.
    /// That a peer cannot be reached is told with the completion.
    pub fn send(
        &self,
        to: &Peer,
        buffer: KBox<Buffer>,
        len: usize,
    ) -> core::result::Result<(), RefusedPost> {
        self.post(Some(to), None, buffer, |posting, buffer| {
            posting.send(buffer, len)
        })
    }

    /// The same with a tag: it is for a receive that takes that one. Any context.
    ///
    /// # Errors
    ///
    /// As of [`Self::send`]; -FI_ENOSYS where the info has no FI_TAGGED.
    pub fn send_tagged(
        &self,
        to: &Peer,
        tag: u64,
        buffer: KBox<Buffer>,
        len: usize,
    ) -> core::result::Result<(), RefusedPost> {
        let tag = Some(Tag { tag, ignore: 0 });
        self.post(Some(to), tag, buffer, |posting, buffer| {
            posting.send(buffer, len)
        })
    }

    /// Posts `buffer` for the next message without a tag: of that peer, where there is one and the info has
    /// FI_DIRECTED_RECV, or of anyone. Any context.
    ///
    /// # Errors
    ///
    /// With the buffer: -FI_EAGAIN when as many are posted as there is room for, -FI_EINVAL for a peer that is not
    /// there.
    pub fn receive(
        &self,
        from: Option<&Peer>,
        buffer: KBox<Buffer>,
    ) -> core::result::Result<(), RefusedPost> {
        self.post(from, None, buffer, |posting, buffer| {
            posting.receive(buffer)
        })
    }

    /// The same for the next one with such a tag. Any context.
    ///
    /// # Errors
    ///
    /// As of [`Self::receive`]; -FI_ENOSYS where the info has no FI_TAGGED.
    pub fn receive_tagged(
        &self,
        from: Option<&Peer>,
        tag: Tag,
        buffer: KBox<Buffer>,
    ) -> core::result::Result<(), RefusedPost> {
        self.post(from, Some(tag), buffer, |posting, buffer| {
            posting.receive(buffer)
        })
    }

    /// Takes back the receive whose buffer has that [context](Buffer::context), if nothing has come for it: the
    /// buffer comes back with -FI_ECANCELED. Any context.
    ///
    /// # Errors
    ///
    /// -FI_ENOENT if there is none, -FI_EOPNOTSUPP where receives are [shared](Self::sharing).
    pub fn cancel(&self, context: Context) -> Result {
        self.0.endpoint.core().cancel(context)
    }

    /// Looks for the message that [`Self::receive_tagged`] would take, among those that wait: `buffer` comes back
    /// with its length, its tag and its sender, or with -FI_ENOMSG, and the message waits on. Any context.
    ///
    /// # Errors
    ///
    /// As of [`Self::receive_tagged`].
    pub fn peek(
        &self,
        from: Option<&Peer>,
        tag: Tag,
        buffer: KBox<Buffer>,
    ) -> core::result::Result<(), RefusedPost> {
        self.look(from, tag, buffer, flags::FI_PEEK)
    }

    /// The same, and what is found waits for that buffer alone: [`Self::receive_claimed`] takes it. Any context.
    ///
    /// # Errors
    ///
    /// As of [`Self::peek`].
    pub fn claim(
        &self,
        from: Option<&Peer>,
        tag: Tag,
        buffer: KBox<Buffer>,
    ) -> core::result::Result<(), RefusedPost> {
        self.look(from, tag, buffer, flags::FI_PEEK | flags::FI_CLAIM)
    }

    /// The same, and what is found is dropped. Any context.
    ///
    /// # Errors
    ///
    /// As of [`Self::peek`].
    pub fn discard(
        &self,
        from: Option<&Peer>,
        tag: Tag,
        buffer: KBox<Buffer>,
    ) -> core::result::Result<(), RefusedPost> {
        self.look(from, tag, buffer, flags::FI_PEEK | flags::FI_DISCARD)
    }

    /// Receives the message that `buffer` has claimed; of several the first. Any context.
    ///
    /// # Errors
    ///
    /// As of [`Self::receive_tagged`]; -FI_EINVAL if it has claimed none.
    pub fn receive_claimed(&self, buffer: KBox<Buffer>) -> core::result::Result<(), RefusedPost> {
        self.look(None, Tag::ANY, buffer, flags::FI_CLAIM)
    }

    /// Drops it: `buffer` comes back without a byte. Any context.
    ///
    /// # Errors
    ///
    /// As of [`Self::receive_claimed`].
    pub fn discard_claimed(&self, buffer: KBox<Buffer>) -> core::result::Result<(), RefusedPost> {
        self.look(None, Tag::ANY, buffer, flags::FI_CLAIM | flags::FI_DISCARD)
    }

    fn look(
        &self,
        from: Option<&Peer>,
        tag: Tag,
        buffer: KBox<Buffer>,
        flags: u64,
    ) -> core::result::Result<(), RefusedPost> {
        self.post(from, Some(tag), buffer, |posting, buffer| {
            posting.look(buffer, flags)
        })
    }

    /// Writes the first `len` bytes of `buffer` to a peer's memory. Any context.
    ///
    /// # Errors
    ///
    /// As of [`Self::send`]; -FI_EOPNOTSUPP where the info has no FI_RMA. What the peer does not allow fails with
    /// the completion.
    pub fn write(
        &self,
        peer: &Peer,
        buffer: KBox<Buffer>,
        len: usize,
        to: RemoteMemory,
    ) -> core::result::Result<(), RefusedPost> {
        self.post(Some(peer), None, buffer, |posting, buffer| {
            posting.access(buffer, len, (Rma::Write, to))
        })
    }

    /// Reads `len` bytes of a peer's memory to the beginning of `buffer`. Any context.
    ///
    /// # Errors
    ///
    /// As of [`Self::write`].
    pub fn read(
        &self,
        peer: &Peer,
        buffer: KBox<Buffer>,
        len: usize,
        from: RemoteMemory,
    ) -> core::result::Result<(), RefusedPost> {
        self.post(Some(peer), None, buffer, |posting, buffer| {
            posting.access(buffer, len, (Rma::Read, from))
        })
    }

    /// Changes elements of a peer's by `op`, whose operands `buffer` begins with; what was there before comes in
    /// their place. Any context.
    ///
    /// # Errors
    ///
    /// As of [`Self::write`]; -FI_EOPNOTSUPP where the info has no FI_ATOMIC, and for an operation that compares;
    /// -FI_EMSGSIZE for more elements than it takes at a time.
    pub fn fetch(
        &self,
        peer: &Peer,
        buffer: KBox<Buffer>,
        op: Op,
        elements: RemoteElements,
    ) -> core::result::Result<(), RefusedPost> {
        self.post(Some(peer), None, buffer, |posting, buffer| {
            posting.change(buffer, (Form::Fetch, op), elements)
        })
    }

    /// The same with an operation that compares: with what stands behind the operands in `buffer`, as many
    /// elements. Any context.
    ///
    /// # Errors
    ///
    /// As of [`Self::fetch`], but -FI_EOPNOTSUPP for an operation that does not compare.
    pub fn compare(
        &self,
        peer: &Peer,
        buffer: KBox<Buffer>,
        op: Op,
        elements: RemoteElements,
    ) -> core::result::Result<(), RefusedPost> {
        self.post(Some(peer), None, buffer, |posting, buffer| {
            posting.change(buffer, (Form::Compare, op), elements)
        })
    }
}
