// SPDX-License-Identifier: GPL-2.0

//! Endpoints of Rust consumers, connected and datagram ones: opening, and posting of buffers. Each operation
//! owns a buffer, which is its memory and its context, and the completion returns it.

use super::{
    atomic::{
        Atomic,
        Datatype,
        Form,
        Op, //
    },
    domain::Domain,
    ep,
    eq::Source,
    memory::{
        Buffer,
        PostResult,
        RefusedPost, //
    },
    msg::{
        Completions,
        SharedReceives,
        Side, //
    },
    provider::{
        Endpoint,
        Message,
        Operation,
        Rma,
        Tag, //
    },
    rdm::{
        Shared,
        SharedTransmits, //
    },
};
use crate::{
    abi::{
        fi_rma_ioc,
        fi_rma_iov,
        flags, //
    },
    fi::prelude::*, //
};

/// A location in a peer's memory, as the peer has announced it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteMemory {
    /// Address at the peer.
    pub addr: u64,
    /// Remote key of the memory region.
    pub key: u64,
}

impl RemoteMemory {
    /// Returns the location `bytes` bytes further on.
    pub fn offset_by(self, bytes: u64) -> Self {
        Self {
            addr: self.addr.wrapping_add(bytes),
            ..self
        }
    }
}

/// The elements that an atomic operation changes.
#[derive(Clone, Copy)]
pub struct RemoteElements {
    /// Location of the first element.
    pub remote: RemoteMemory,
    /// Number of elements.
    pub count: usize,
    /// Type of each element.
    pub datatype: Datatype,
}

/// The parts of an open endpoint. Dropping closes the endpoint without an event and frees the buffers that
/// are still posted. May sleep.
pub(super) struct OpenEndpoint {
    pub(super) endpoint: Arc<ep::Endpoint>,
    /// Queues of transmits and of receives.
    completions: [Arc<Completions>; 2],
    /// Dropped after the endpoint is closed.
    _shared: (Option<Arc<SharedReceives>>, Option<Arc<SharedTransmits>>),
}

impl OpenEndpoint {
    /// Opens an endpoint and enables it, after `bind` has bound its event queue or its address vector. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// Errors of [`Domain::endpoint`], of the calls that bind, and of [`ep::Endpoint::enable`].
    pub(super) fn new(
        domain: &Arc<Domain>,
        (info, source): (&Info, Source),
        (transmit, receive): (Side<'_>, Side<'_>),
        shared: Shared<'_>,
        bind: impl FnOnce(&ep::Endpoint) -> Result,
    ) -> Result<DeferredDrop<Self>> {
        let open = DeferredDrop::new(Self {
            endpoint: domain.endpoint(info, source)?,
            completions: [transmit.completions.clone(), receive.completions.clone()],
            _shared: (shared.receives.cloned(), shared.transmits.cloned()),
        })?;
        let endpoint = &open.endpoint;
        bind(endpoint)?;
        if let Some(receives) = shared.receives {
            endpoint.bind_srx(&receives.0.shared, 0)?;
        }
        if let Some(transmits) = shared.transmits {
            endpoint.bind_stx(&transmits.0, 0)?;
        }
        transmit.bind(endpoint, flags::FI_TRANSMIT)?;
        receive.bind(endpoint, flags::FI_RECV)?;
        endpoint.enable()?;
        Ok(open)
    }
}

impl Drop for OpenEndpoint {
    fn drop(&mut self) {
        // The context of each posted operation came from [`Buffer::post`], whichever queue it would have
        // completed in.
        let right = &self.completions[0].reclaim_right;
        self.endpoint
            .close(&mut |context| drop(right.reclaim(context)));
    }
}

/// A post: the endpoint, the buffer, and the peer and tag of the operation.
pub(super) struct Posting<'a> {
    /// The provider's endpoint.
    pub(super) core: &'a dyn Endpoint,
    /// Domain of the endpoint, in which the buffer may be registered.
    pub(super) domain: &'a Arc<Domain>,
    /// Address of the peer, for an endpoint that has several.
    pub(super) peer: fi_addr_t,
    /// Tag of a message, or the match criteria of a receive.
    pub(super) tag: Option<Tag>,
    /// Memory of the operation.
    pub(super) buffer: KBox<Buffer>,
}

impl Posting<'_> {
    #[inline]
    fn post(
        self,
        len: usize,
        post: impl FnOnce(&dyn Endpoint, &Message<'_>) -> Result,
    ) -> PostResult {
        let (core, domain, buffer) = (self.core, self.domain, self.buffer);
        let (peer, tag) = (self.peer, self.tag);
        Buffer::post(buffer, len, domain, |segment, descriptor, context| {
            let descriptors = [descriptor];
            let message = Message {
                peer,
                tag,
                ..Message::with_segment(segment, &descriptors, context)
            };
            post(core, &message)
        })
    }

    /// Sends the first `len` bytes of the buffer.
    #[inline]
    pub(super) fn send(self, len: usize) -> PostResult {
        self.post(len, |core, message| core.transmit(Operation::Send, message))
    }

    /// Posts the buffer for a message, in its full length, with the additional flags `flags`: FI_PEEK,
    /// FI_CLAIM, FI_DISCARD.
    #[inline]
    pub(super) fn receive(self, flags: u64) -> PostResult {
        let len = self.buffer.len();
        self.post(len, |core, message| {
            core.receive(&Message {
                flags: message.flags | flags,
                ..*message
            })
        })
    }

    /// Writes the first `len` bytes of the buffer to the peer's memory, or reads `len` bytes from there to its
    /// start.
    #[inline]
    pub(super) fn rma(self, len: usize, way: Rma, remote: RemoteMemory) -> PostResult {
        let RemoteMemory { addr, key } = remote;
        let remote = fi_rma_iov { addr, len, key };
        let operation = Operation::Rma(way, slice::from_ref(&remote));
        self.post(len, |core, message| core.transmit(operation, message))
    }

    /// Posts an atomic operation with the operands at the start of the buffer; the previous values replace
    /// them. The compare values follow the operands.
    pub(super) fn atomic(self, form: Form, op: Op, elements: RemoteElements) -> PostResult {
        let (core, peer, buffer) = (self.core, self.peer, self.buffer);
        let (remote, count, datatype) = (elements.remote, elements.count, elements.datatype);
        let parts = 1 + usize::from(form == Form::Compare);
        let len = count.checked_mul(datatype.size());
        let Some((len, all)) = len.and_then(|len| Some((len, len.checked_mul(parts)?))) else {
            let errno = Errno::EMSGSIZE;
            return Err(RefusedPost { errno, buffer });
        };
        Buffer::post(buffer, all, self.domain, |segment, descriptor, context| {
            Errno::EOPNOTSUPP.when(!op.supports_form(form))?;
            let (here, descriptors) = (segment.part(0, len), [descriptor]);
            let compare = segment.part(len, all - len);
            let RemoteMemory { addr, key } = remote;
            let atomic = Atomic {
                form,
                op,
                datatype,
                remote: &[fi_rma_ioc { addr, count, key }],
                compare: match form {
                    Form::Compare => slice::from_ref(&compare),
                    Form::Base | Form::Fetch => &[],
                },
                result: slice::from_ref(&here),
                result_descriptors: &descriptors,
            };
            let message = Message {
                peer,
                ..Message::with_segment(&here, &descriptors, context)
            };
            core.atomic(&atomic, &message)
        })
    }
}
