// SPDX-License-Identifier: GPL-2.0

//! What Rust consumers post: each operation is given a buffer, which is its memory as well as its context, and
//! which its completion gives back.

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
        Memory,
        RefusedPost,
        Segment, //
    },
    provider::{
        Endpoint,
        Message,
        Operation,
        Rma,
        Tag, //
    },
};
use crate::abi::{
    fi_addr_t,
    fi_rma_ioc,
    fi_rma_iov,
    flags,
    Errno,
    Result,
    FI_ADDR_UNSPEC, //
};
use core::slice;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Memory of a peer's, as the peer has told of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteMemory {
    /// Its address there.
    pub addr: u64,
    /// The key of its region.
    pub key: u64,
}

impl RemoteMemory {
    /// What lies so many bytes behind it.
    pub fn behind(self, bytes: u64) -> Self {
        Self {
            addr: self.addr.wrapping_add(bytes),
            ..self
        }
    }
}

/// What an atomic operation changes.
#[derive(Clone, Copy)]
pub struct RemoteElements {
    /// The first of them.
    pub remote: RemoteMemory,
    /// How many there are.
    pub count: usize,
    /// What they are.
    pub datatype: Datatype,
}

impl RemoteElements {
    /// Bytes of all of them; none if there is no such number.
    fn len(&self) -> Option<usize> {
        self.count.checked_mul(self.datatype.size())
    }
}

/// Where an operation is posted, and with whom.
pub(super) struct Posting<'a> {
    /// The provider's endpoint.
    pub(super) core: &'a dyn Endpoint,
    /// Where that was opened, and where buffers may be registered.
    pub(super) domain: &'a Arc<Domain>,
    /// The peer, of an endpoint that has several.
    pub(super) peer: fi_addr_t,
    /// The tag of a message, or those that a receive takes.
    pub(super) tag: Option<Tag>,
}

impl<'a> Posting<'a> {
    /// To the only peer that an endpoint has.
    #[inline]
    pub(super) fn to_peer(core: &'a dyn Endpoint, domain: &'a Arc<Domain>) -> Self {
        Self {
            core,
            domain,
            peer: FI_ADDR_UNSPEC,
            tag: None,
        }
    }

    fn give(
        &self,
        buffer: KBox<Buffer>,
        len: usize,
        post: impl FnOnce(&Message<'_>) -> Result,
    ) -> core::result::Result<(), RefusedPost> {
        Buffer::give(buffer, len, self.domain, |segment, descriptor, context| {
            post(&Message {
                memory: Memory::Segments(slice::from_ref(segment)),
                descriptors: &[descriptor],
                context,
                flags: flags::FI_COMPLETION,
                errors_only: false,
                data: 0,
                peer: self.peer,
                tag: self.tag,
            })
        })
    }

    /// Sends the first `len` bytes.
    pub(super) fn send(
        &self,
        buffer: KBox<Buffer>,
        len: usize,
    ) -> core::result::Result<(), RefusedPost> {
        self.give(buffer, len, |message| {
            self.core.transmit(Operation::Send, message)
        })
    }

    /// Posts all of it for a message.
    pub(super) fn receive(&self, buffer: KBox<Buffer>) -> core::result::Result<(), RefusedPost> {
        self.look(buffer, 0)
    }

    /// The same with flags that look for one, or take one that has been found.
    pub(super) fn look(
        &self,
        buffer: KBox<Buffer>,
        flags: u64,
    ) -> core::result::Result<(), RefusedPost> {
        let len = buffer.len();
        self.give(buffer, len, |message| {
            self.core.receive(&Message {
                flags: message.flags | flags,
                ..*message
            })
        })
    }

    /// Writes its first `len` bytes to the peer's memory, or reads them from there.
    pub(super) fn access(
        &self,
        buffer: KBox<Buffer>,
        len: usize,
        (way, RemoteMemory { addr, key }): (Rma, RemoteMemory),
    ) -> core::result::Result<(), RefusedPost> {
        let remote = fi_rma_iov { addr, len, key };
        let operation = Operation::Rma(way, slice::from_ref(&remote));
        self.give(buffer, len, |message| {
            self.core.transmit(operation, message)
        })
    }

    /// Changes elements of the peer's by the operands that it begins with, in whose place comes what was there
    /// before; what is compared with stands behind them.
    pub(super) fn change(
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
        Buffer::give(buffer, all, self.domain, |segment, descriptor, context| {
            if !op.is_for(form) {
                return Err(Errno::EOPNOTSUPP);
            }
            let here = segment.part(0, len);
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
                result_descriptors: &[descriptor],
            };
            let message = Message {
                memory: Memory::Segments(slice::from_ref(&here)),
                descriptors: &[descriptor],
                context,
                flags: flags::FI_COMPLETION,
                errors_only: false,
                data: 0,
                peer: self.peer,
                tag: None,
            };
            self.core.atomic(&atomic, &message)
        })
    }
}
