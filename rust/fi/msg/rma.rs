// SPDX-License-Identifier: GPL-2.0

//! Remote memory access of connected endpoints for Rust consumers. The local memory of each operation is a
//! buffer that the operation owns, as for a message.

use super::{
    super::{
        atomic::{
            Form,
            Op, //
        },
        memory::{
            Buffer,
            RefusedPost, //
        },
        post::{
            RemoteElements,
            RemoteMemory, //
        },
        provider::Rma, //
    },
    Endpoint, //
};
use kernel::prelude::*;

impl Endpoint {
    /// Writes the first `len` bytes of `buffer` to the peer's memory. The completion returns the buffer. Any
    /// context.
    ///
    /// # Errors
    ///
    /// As [`Self::send`], with the buffer. An access that the peer does not permit fails the completion and
    /// ends the connection.
    pub fn write(
        &self,
        buffer: KBox<Buffer>,
        len: usize,
        to: RemoteMemory,
    ) -> core::result::Result<(), RefusedPost> {
        self.posting().rma(buffer, len, (Rma::Write, to))
    }

    /// Reads `len` bytes of the peer's memory to the start of `buffer`. The completion returns the buffer.
    /// Any context.
    ///
    /// # Errors
    ///
    /// As [`Self::write`].
    pub fn read(
        &self,
        buffer: KBox<Buffer>,
        len: usize,
        from: RemoteMemory,
    ) -> core::result::Result<(), RefusedPost> {
        self.posting().rma(buffer, len, (Rma::Read, from))
    }

    /// Applies the atomic operation `op` to elements in the peer's memory, with the operands at the start of
    /// `buffer`. The previous values replace the operands. Any context.
    ///
    /// # Errors
    ///
    /// As [`Self::write`]; -FI_EOPNOTSUPP for an operation that compares or that the device does not support;
    /// -FI_EMSGSIZE for more elements than one operation can have.
    pub fn fetch(
        &self,
        buffer: KBox<Buffer>,
        op: Op,
        elements: RemoteElements,
    ) -> core::result::Result<(), RefusedPost> {
        self.posting().atomic(buffer, (Form::Fetch, op), elements)
    }

    /// Applies the atomic operation `op`, which compares, as [`Self::fetch`] does. The compare values, one
    /// per element, follow the operands in `buffer`. Any context.
    ///
    /// # Errors
    ///
    /// As [`Self::fetch`], but -FI_EOPNOTSUPP for an operation that does not compare.
    pub fn compare(
        &self,
        buffer: KBox<Buffer>,
        op: Op,
        elements: RemoteElements,
    ) -> core::result::Result<(), RefusedPost> {
        self.posting().atomic(buffer, (Form::Compare, op), elements)
    }
}
