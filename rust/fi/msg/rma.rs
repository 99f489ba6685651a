// SPDX-License-Identifier: GPL-2.0

//! The peer's memory, for Rust consumers: what is written there, or comes from there, is in a buffer
//! that belongs to the operation, as that of a message does.

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
        to: RemoteMemory,
    ) -> core::result::Result<(), RefusedPost> {
        self.posting().access(buffer, len, (Rma::Write, to))
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
        from: RemoteMemory,
    ) -> core::result::Result<(), RefusedPost> {
        self.posting().access(buffer, len, (Rma::Read, from))
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
        elements: RemoteElements,
    ) -> core::result::Result<(), RefusedPost> {
        self.posting().change(buffer, (Form::Fetch, op), elements)
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
        elements: RemoteElements,
    ) -> core::result::Result<(), RefusedPost> {
        self.posting().change(buffer, (Form::Compare, op), elements)
    }
}
