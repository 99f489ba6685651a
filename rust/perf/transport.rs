// SPDX-License-Identifier: GPL-2.0

//! Transports of the traffic generator, kOFI's connections and raw verbs, behind common traits.
//!
//! A transport is used by one thread. Every wait ends with -FI_EINTR when the thread should stop.

use super::{
    prelude::*,
    protocol::write_grant, //
};
use core::ops::DerefMut;
use kofi::fi::{
    memory::Buffer,
    msg::{
        RemoteAccess,
        RemoteBuffer,
        Unconnected, //
    },
};

/// A connected end.
pub(crate) trait Transport {
    /// A buffer; a failed post frees it.
    type Buffer: DerefMut<Target = [u8]>;

    /// Allocates a zeroed buffer. May sleep.
    fn alloc(&self, here: ProcessContext, len: usize) -> Result<KBox<Self::Buffer>>;

    /// Posts a receive.
    fn post_recv(&mut self, buffer: KBox<Self::Buffer>) -> Result;

    /// Sends the first `len` bytes of a buffer.
    fn post_send(&mut self, buffer: KBox<Self::Buffer>, len: usize) -> Result;

    /// Writes the first `len` bytes of a buffer to the peer's memory.
    fn post_write(&mut self, buffer: KBox<Self::Buffer>, len: usize, to: RemoteMemory) -> Result;

    /// Reads `len` bytes of the peer's memory into a buffer.
    fn post_read(&mut self, buffer: KBox<Self::Buffer>, len: usize, from: RemoteMemory) -> Result;

    /// Changes elements of the peer's memory atomically. The first half of the buffer has the operands, and gets the
    /// old values; the second half has the values to compare with.
    fn post_atomic(
        &mut self,
        buffer: KBox<Self::Buffer>,
        config: &AtomicConfig,
        elements: RemoteElements,
    ) -> Result;

    /// Waits for the completion of the oldest send, RMA or atomic operation, and returns its buffer. May sleep.
    fn wait_tx(&mut self, here: ProcessContext) -> Result<KBox<Self::Buffer>>;

    /// Waits for a message, and returns its buffer and its length. May sleep.
    fn wait_rx(&mut self, here: ProcessContext) -> Result<(KBox<Self::Buffer>, usize)>;

    /// Waits until the peer has closed the connection. May sleep.
    fn wait_shutdown(&mut self, here: ProcessContext) -> Result;
}

/// A server's end before it accepts the connection. The client sends the first message.
pub(crate) trait PendingTransport {
    /// The connected end.
    type Transport: Transport;

    /// Keeps memory exposed to the peer.
    type Exposed;

    /// Posts a receive of `len` bytes. May sleep.
    fn post_recv(&mut self, here: ProcessContext, len: usize) -> Result;

    /// Accepts the connection. May sleep.
    fn accept(self, here: ProcessContext) -> Result<Self::Transport>;

    /// Accepts the connection, exposes `len` zeroed bytes to the peer, and sends it their address and key. May sleep.
    fn accept_exposing(
        self,
        here: ProcessContext,
        len: usize,
    ) -> Result<(Self::Exposed, Self::Transport)>;
}

impl PendingTransport for Unconnected {
    type Transport = Connection;
    type Exposed = RemoteBuffer;

    fn post_recv(&mut self, here: ProcessContext, len: usize) -> Result {
        let buffer = Buffer::registered(here, self.domain(), len, 0)?;
        Ok(self.receive(buffer)?)
    }

    fn accept(self, here: ProcessContext) -> Result<Connection> {
        Unconnected::accept(self, here, &[])
    }

    fn accept_exposing(
        self,
        here: ProcessContext,
        len: usize,
    ) -> Result<(RemoteBuffer, Connection)> {
        let memory = Buffer::new(here, len, 0)?;
        let exposed = RemoteBuffer::new(here, self.domain(), memory, RemoteAccess::ReadWrite)?;
        let connection = Unconnected::accept(self, here, &write_grant(exposed.remote()))?;
        Ok((exposed, connection))
    }
}

impl Transport for Connection {
    type Buffer = Buffer;

    fn alloc(&self, here: ProcessContext, len: usize) -> Result<KBox<Buffer>> {
        Buffer::registered(here, self.endpoint.domain(), len, 0)
    }

    fn post_recv(&mut self, buffer: KBox<Buffer>) -> Result {
        Ok(self.endpoint.receive(buffer)?)
    }

    fn post_send(&mut self, buffer: KBox<Buffer>, len: usize) -> Result {
        Ok(self.endpoint.send(buffer, len)?)
    }

    fn post_write(&mut self, buffer: KBox<Buffer>, len: usize, to: RemoteMemory) -> Result {
        Ok(self.endpoint.write(buffer, len, to)?)
    }

    fn post_read(&mut self, buffer: KBox<Buffer>, len: usize, from: RemoteMemory) -> Result {
        Ok(self.endpoint.read(buffer, len, from)?)
    }

    fn post_atomic(
        &mut self,
        buffer: KBox<Buffer>,
        config: &AtomicConfig,
        elements: RemoteElements,
    ) -> Result {
        match config.form {
            Form::Compare => self.endpoint.compare(buffer, config.op, elements)?,
            Form::Base | Form::Fetch => self.endpoint.fetch(buffer, config.op, elements)?,
        }
        Ok(())
    }

    fn wait_tx(&mut self, here: ProcessContext) -> Result<KBox<Buffer>> {
        self.wait_sent(here)
    }

    fn wait_rx(&mut self, here: ProcessContext) -> Result<(KBox<Buffer>, usize)> {
        self.wait_received(here)
    }

    fn wait_shutdown(&mut self, here: ProcessContext) -> Result {
        Connection::wait_shutdown(self, here)
    }
}
