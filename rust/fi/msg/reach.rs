// SPDX-License-Identifier: GPL-2.0

//! The peer's memory, for Rust consumers: what is written there, or comes from there, is in a buffer
//! that belongs to the operation, as that of a message does.

use super::{
    super::{
        atomic::{
            Atomic,
            Datatype,
            Form,
            Op, //
        },
        memory::{
            Buffer,
            Memory,
            Refused,
            Segment, //
        },
        provider::{
            Message,
            Operation,
            Rma, //
        },
    },
    Endpoint, //
};
use crate::abi::{
    fi_rma_ioc,
    fi_rma_iov,
    flags,
    Errno,
    FI_ADDR_UNSPEC, //
};
use core::slice;
use kernel::prelude::*;

/// Memory of the peer's, as the peer has told of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    /// Its address there.
    pub addr: u64,
    /// The key of its region.
    pub key: u64,
}

impl Remote {
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
pub struct Elements {
    /// The first of them.
    pub remote: Remote,
    /// How many there are.
    pub count: usize,
    /// What they are.
    pub datatype: Datatype,
}

impl Elements {
    /// Bytes of all of them; none if there is no such number.
    fn len(&self) -> Option<usize> {
        self.count.checked_mul(self.datatype.size())
    }
}

impl Endpoint {
    /// Writes the first `len` bytes of `buffer` to the peer's memory. Any context.
    ///
    /// # Errors
    ///
    /// With the buffer, as of [`Self::send`]. What the peer does not allow fails with the completion,
    /// and ends the connection.
    pub fn write(
        &self,
        buffer: KBox<Buffer>,
        len: usize,
        to: Remote,
    ) -> core::result::Result<(), Refused> {
        self.access(buffer, len, (Rma::Write, to))
    }

    /// Reads `len` bytes of the peer's memory to the beginning of `buffer`. Any context.
    ///
    /// # Errors
    ///
    /// As of [`Self::write`].
    pub fn read(
        &self,
        buffer: KBox<Buffer>,
        len: usize,
        from: Remote,
    ) -> core::result::Result<(), Refused> {
        self.access(buffer, len, (Rma::Read, from))
    }

    fn access(
        &self,
        buffer: KBox<Buffer>,
        len: usize,
        (way, Remote { addr, key }): (Rma, Remote),
    ) -> core::result::Result<(), Refused> {
        let remote = fi_rma_iov { addr, len, key };
        let operation = Operation::Rma(way, slice::from_ref(&remote));
        self.post(buffer, len, |message| {
            self.core().transmit(operation, message)
        })
    }

    /// Changes elements of the peer's by `op`, whose operands `buffer` begins with; what was there
    /// before comes in their place. Any context.
    ///
    /// # Errors
    ///
    /// As of [`Self::write`]; -FI_EOPNOTSUPP for an operation that compares, or that the device does
    /// not have; -FI_EMSGSIZE for more elements than it takes at a time.
    pub fn fetch(
        &self,
        buffer: KBox<Buffer>,
        op: Op,
        elements: Elements,
    ) -> core::result::Result<(), Refused> {
        self.change(buffer, (Form::Fetch, op), elements)
    }

    /// The same with an operation that compares: with what stands behind the operands in `buffer`,
    /// as many elements.
    ///
    /// # Errors
    ///
    /// As of [`Self::fetch`], but -FI_EOPNOTSUPP for an operation that does not compare.
    pub fn compare(
        &self,
        buffer: KBox<Buffer>,
        op: Op,
        elements: Elements,
    ) -> core::result::Result<(), Refused> {
        self.change(buffer, (Form::Compare, op), elements)
    }

    fn change(
        &self,
        buffer: KBox<Buffer>,
        (form, op): (Form, Op),
        elements: Elements,
    ) -> core::result::Result<(), Refused> {
        let parts = match form {
            Form::Compare => 2,
            Form::Base | Form::Fetch => 1,
        };
        let len = elements.len();
        let Some((len, all)) = len.and_then(|len| Some((len, len.checked_mul(parts)?))) else {
            return Err(Refused {
                errno: Errno::EMSGSIZE,
                buffer,
            });
        };
        Buffer::give(
            buffer,
            all,
            self.domain(),
            |segment, descriptor, context| {
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
                    data: 0,
                    peer: FI_ADDR_UNSPEC,
                    tag: None,
                };
                self.core().atomic(&atomic, &message)
            },
        )
    }
}
