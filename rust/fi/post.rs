// SPDX-License-Identifier: GPL-2.0

//! Posting of buffers for Rust consumers: each operation owns a buffer, which is its memory and its context,
//! and the completion returns it.

use super::{
    atomic::{
        Atomic,
        Datatype,
        Form,
        Op, //
    },
    domain::Domain,
    memory::{
        Buffer,
        RefusedPost, //
    },
    provider::{
        Endpoint,
        Message,
        Operation,
        Rma,
        Tag, //
    },
};
use crate::{
    abi::{
        fi_rma_ioc,
        fi_rma_iov,
        FI_ADDR_UNSPEC, //
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

impl RemoteElements {
    /// Returns the size of the elements in bytes; `None` on overflow.
    fn len(&self) -> Option<usize> {
        self.count.checked_mul(self.datatype.size())
    }
}

/// The target of a post: an endpoint, and the peer and tag of the operation.
pub(super) struct Posting<'a> {
    /// The provider's endpoint.
    pub(super) core: &'a dyn Endpoint,
    /// Domain of the endpoint, in which buffers may be registered.
    pub(super) domain: &'a Arc<Domain>,
    /// Address of the peer, for an endpoint that has several.
    pub(super) peer: fi_addr_t,
    /// Tag of a message, or the match criteria of a receive.
    pub(super) tag: Option<Tag>,
}

impl<'a> Posting<'a> {
    /// Returns the target for an endpoint with a single peer.
    #[inline]
    pub(super) fn to_connected_peer(core: &'a dyn Endpoint, domain: &'a Arc<Domain>) -> Self {
        Self {
            core,
            domain,
            peer: FI_ADDR_UNSPEC,
            tag: None,
        }
    }

    fn post(
        &self,
        buffer: KBox<Buffer>,
        len: usize,
        post: impl FnOnce(&Message<'_>) -> Result,
    ) -> core::result::Result<(), RefusedPost> {
        Buffer::post(buffer, len, self.domain, |segment, descriptor, context| {
            post(&Message {
                peer: self.peer,
                tag: self.tag,
                ..Message::with_segment(segment, &[descriptor], context)
            })
        })
    }

    /// Sends the first `len` bytes of `buffer`.
    pub(super) fn send(
        &self,
        buffer: KBox<Buffer>,
        len: usize,
    ) -> core::result::Result<(), RefusedPost> {
        self.post(buffer, len, |message| {
            self.core.transmit(Operation::Send, message)
        })
    }

    /// Posts `buffer` for a message, in its full length.
    pub(super) fn receive(&self, buffer: KBox<Buffer>) -> core::result::Result<(), RefusedPost> {
        self.receive_with_flags(buffer, 0)
    }

    /// Posts `buffer` as a receive with additional flags: FI_PEEK, FI_CLAIM, FI_DISCARD.
    pub(super) fn receive_with_flags(
        &self,
        buffer: KBox<Buffer>,
        flags: u64,
    ) -> core::result::Result<(), RefusedPost> {
        let len = buffer.len();
        self.post(buffer, len, |message| {
            self.core.receive(&Message {
                flags: message.flags | flags,
                ..*message
            })
        })
    }

    /// Writes the first `len` bytes of `buffer` to the peer's memory, or reads `len` bytes from there to its
    /// start.
    pub(super) fn rma(
        &self,
        buffer: KBox<Buffer>,
        len: usize,
        (way, RemoteMemory { addr, key }): (Rma, RemoteMemory),
    ) -> core::result::Result<(), RefusedPost> {
        let remote = fi_rma_iov { addr, len, key };
        let operation = Operation::Rma(way, slice::from_ref(&remote));
        self.post(buffer, len, |message| {
            self.core.transmit(operation, message)
        })
    }

    /// Posts an atomic operation with the operands at the start of `buffer`; the previous values replace
    /// them. The compare values follow the operands.
    pub(super) fn atomic(
        &self,
        buffer: KBox<Buffer>,
        (form, op): (Form, Op),
        elements: RemoteElements,
    ) -> core::result::Result<(), RefusedPost> {
        let parts = match form {
            Form::Compare => 2,
            Form::Base | Form::Fetch => 1,
        };
        let len = elements.len();
        let Some((len, all)) = len.and_then(|len| Some((len, len.checked_mul(parts)?))) else {
            return Err(RefusedPost {
                errno: Errno::EMSGSIZE,
                buffer,
            });
        };
        Buffer::post(buffer, all, self.domain, |segment, descriptor, context| {
            if !op.supports_form(form) {
                return Err(Errno::EOPNOTSUPP);
            }
            let (here, descriptors) = (segment.part(0, len), [descriptor]);
            let compare = segment.part(len, all - len);
            let compare: &[Segment] = match form {
                Form::Compare => slice::from_ref(&compare),
                Form::Base | Form::Fetch => &[],
            };
            let remote = fi_rma_ioc {
                addr: elements.remote.addr,
                count: elements.count,
                key: elements.remote.key,
            };
            let atomic = Atomic {
                form,
                op,
                datatype: elements.datatype,
                remote: slice::from_ref(&remote),
                compare,
                result: slice::from_ref(&here),
                result_descriptors: &descriptors,
            };
            let message = Message {
                peer: self.peer,
                ..Message::with_segment(&here, &descriptors, context)
            };
            self.core.atomic(&atomic, &message)
        })
    }
}
