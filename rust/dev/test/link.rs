// SPDX-License-Identifier: GPL-2.0

//! What a test needs of a connection, whoever makes it: the fabric interfaces, or verbs by hand.

use super::request::Change;
use crate::{
    abi::{
        context::ProcessContext,
        Result, //
    },
    fi::{
        atomic::Form,
        memory::Buffer,
        msg::{
            Connection,
            RemoteAccess,
            RemoteBuffer,
            RemoteElements,
            RemoteMemory,
            Unconnected, //
        },
    },
};
use core::ops::DerefMut;
use kernel::prelude::*;

/// One end of a connection. Each wait ends when the thread is told to stop: -FI_EINTR.
pub(super) trait Link {
    /// What is posted and comes back; what is refused is freed.
    type Buffer: DerefMut<Target = [u8]>;

    /// Makes some, zeroed.
    fn buffer(&self, here: ProcessContext, len: usize) -> Result<KBox<Self::Buffer>>;

    /// Posts a buffer for a message.
    fn receive(&mut self, buffer: KBox<Self::Buffer>) -> Result;

    /// Sends its first `len` bytes.
    fn send(&mut self, buffer: KBox<Self::Buffer>, len: usize) -> Result;

    /// Writes them to the peer's memory.
    fn write(&mut self, buffer: KBox<Self::Buffer>, len: usize, to: RemoteMemory) -> Result;

    /// Reads as many from there.
    fn read(&mut self, buffer: KBox<Self::Buffer>, len: usize, from: RemoteMemory) -> Result;

    /// Changes the peer's elements: the first half of the memory has the operands, and gets what was
    /// there before; the second half has what is compared.
    fn change(
        &mut self,
        buffer: KBox<Self::Buffer>,
        change: &Change,
        elements: RemoteElements,
    ) -> Result;

    /// Waits for something posted in the direction of the peer to be over. They end in their order.
    fn sent(&mut self, here: ProcessContext) -> Result<KBox<Self::Buffer>>;

    /// Waits for a message, and tells its length.
    fn received(&mut self, here: ProcessContext) -> Result<(KBox<Self::Buffer>, usize)>;

    /// Waits until the peer has left.
    fn end(&mut self, here: ProcessContext) -> Result;
}

/// One end, before it is connected.
pub(super) trait Opened {
    /// What becomes of it.
    type Link: Link;

    /// What keeps memory within the reach of the peer.
    type Lent;

    /// Posts memory of that many bytes for a message.
    fn receive(&mut self, here: ProcessContext, len: usize) -> Result;

    /// Lends the peer that many zeroed bytes.
    fn lend(&self, here: ProcessContext, len: usize) -> Result<(Self::Lent, RemoteMemory)>;

    /// Accepts the peer's request, and tells it something.
    fn accept(self, here: ProcessContext, data: &[u8]) -> Result<Self::Link>;
}

impl Opened for Unconnected {
    type Link = Connection;
    type Lent = RemoteBuffer;

    fn receive(&mut self, here: ProcessContext, len: usize) -> Result {
        let buffer = Buffer::registered(here, self.domain(), len, 0)?;
        Ok(Unconnected::receive(self, buffer)?)
    }

    fn lend(&self, here: ProcessContext, len: usize) -> Result<(RemoteBuffer, RemoteMemory)> {
        let region = Buffer::new(here, len, 0)?;
        let lent = RemoteBuffer::new(here, self.domain(), region, RemoteAccess::ReadWrite)?;
        let remote = lent.remote();
        Ok((lent, remote))
    }

    fn accept(self, here: ProcessContext, data: &[u8]) -> Result<Connection> {
        Unconnected::accept(self, here, data)
    }
}

impl Link for Connection {
    type Buffer = Buffer;

    fn buffer(&self, here: ProcessContext, len: usize) -> Result<KBox<Self::Buffer>> {
        Buffer::registered(here, self.endpoint.domain(), len, 0)
    }

    fn receive(&mut self, buffer: KBox<Self::Buffer>) -> Result {
        Ok(self.endpoint.receive(buffer)?)
    }

    fn send(&mut self, buffer: KBox<Self::Buffer>, len: usize) -> Result {
        Ok(self.endpoint.send(buffer, len)?)
    }

    fn write(&mut self, buffer: KBox<Self::Buffer>, len: usize, to: RemoteMemory) -> Result {
        Ok(self.endpoint.write(buffer, len, to)?)
    }

    fn read(&mut self, buffer: KBox<Self::Buffer>, len: usize, from: RemoteMemory) -> Result {
        Ok(self.endpoint.read(buffer, len, from)?)
    }

    fn change(
        &mut self,
        buffer: KBox<Self::Buffer>,
        change: &Change,
        elements: RemoteElements,
    ) -> Result {
        match change.form {
            Form::Compare => self.endpoint.compare(buffer, change.op, elements)?,
            Form::Base | Form::Fetch => self.endpoint.fetch(buffer, change.op, elements)?,
        }
        Ok(())
    }

    fn sent(&mut self, here: ProcessContext) -> Result<KBox<Self::Buffer>> {
        Connection::wait_sent(self, here)
    }

    fn received(&mut self, here: ProcessContext) -> Result<(KBox<Self::Buffer>, usize)> {
        Connection::wait_received(self, here)
    }

    fn end(&mut self, here: ProcessContext) -> Result {
        Connection::wait_shutdown(self, here)
    }
}
