// SPDX-License-Identifier: GPL-2.0

//! What a test needs of a connection, whoever makes it: the fabric interfaces, or verbs by hand.

use super::request::Change;
use crate::{
    abi::{
        context::InProcess,
        Result, //
    },
    fi::{
        atomic::Form,
        memory::Buffer,
        msg::{
            Connection,
            Elements,
            Lent,
            Remote,
            Right,
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
    fn buffer(&self, here: InProcess, len: usize) -> Result<KBox<Self::Buffer>>;

    /// Posts a buffer for a message.
    fn receive(&mut self, buffer: KBox<Self::Buffer>) -> Result;

    /// Sends its first `len` bytes.
    fn send(&mut self, buffer: KBox<Self::Buffer>, len: usize) -> Result;

    /// Writes them to the peer's memory.
    fn write(&mut self, buffer: KBox<Self::Buffer>, len: usize, to: Remote) -> Result;

    /// Reads as many from there.
    fn read(&mut self, buffer: KBox<Self::Buffer>, len: usize, from: Remote) -> Result;

    /// Changes the peer's elements: the first half of the memory has the operands, and gets what was
    /// there before; the second half has what is compared.
    fn change(&mut self, buffer: KBox<Self::Buffer>, change: &Change, elements: Elements)
        -> Result;

    /// Waits for something posted in the direction of the peer to be over. They end in their order.
    fn sent(&mut self, here: InProcess) -> Result<KBox<Self::Buffer>>;

    /// Waits for a message, and tells its length.
    fn received(&mut self, here: InProcess) -> Result<(KBox<Self::Buffer>, usize)>;

    /// Waits until the peer has left.
    fn end(&mut self, here: InProcess) -> Result;
}

/// One end, before it is connected.
pub(super) trait Opened {
    /// What becomes of it.
    type Link: Link;

    /// What keeps memory within the reach of the peer.
    type Lent;

    /// Posts memory of that many bytes for a message.
    fn receive(&mut self, here: InProcess, len: usize) -> Result;

    /// Lends the peer that many zeroed bytes.
    fn lend(&self, here: InProcess, len: usize) -> Result<(Self::Lent, Remote)>;

    /// Accepts the peer's request, and tells it something.
    fn accept(self, here: InProcess, data: &[u8]) -> Result<Self::Link>;
}

impl Opened for Unconnected {
    type Link = Connection;
    type Lent = Lent;

    fn receive(&mut self, here: InProcess, len: usize) -> Result {
        let buffer = Buffer::registered(here, self.domain(), len, 0)?;
        Ok(Unconnected::receive(self, buffer)?)
    }

    fn lend(&self, here: InProcess, len: usize) -> Result<(Lent, Remote)> {
        let region = Buffer::new(here, len, 0)?;
        let lent = Lent::new(here, self.domain(), region, Right::ReadWrite)?;
        let remote = lent.remote();
        Ok((lent, remote))
    }

    fn accept(self, here: InProcess, data: &[u8]) -> Result<Connection> {
        Unconnected::accept(self, here, data)
    }
}

impl Link for Connection {
    type Buffer = Buffer;

    fn buffer(&self, here: InProcess, len: usize) -> Result<KBox<Self::Buffer>> {
        Buffer::registered(here, self.endpoint.domain(), len, 0)
    }

    fn receive(&mut self, buffer: KBox<Self::Buffer>) -> Result {
        Ok(self.endpoint.receive(buffer)?)
    }

    fn send(&mut self, buffer: KBox<Self::Buffer>, len: usize) -> Result {
        Ok(self.endpoint.send(buffer, len)?)
    }

    fn write(&mut self, buffer: KBox<Self::Buffer>, len: usize, to: Remote) -> Result {
        Ok(self.endpoint.write(buffer, len, to)?)
    }

    fn read(&mut self, buffer: KBox<Self::Buffer>, len: usize, from: Remote) -> Result {
        Ok(self.endpoint.read(buffer, len, from)?)
    }

    fn change(
        &mut self,
        buffer: KBox<Self::Buffer>,
        change: &Change,
        elements: Elements,
    ) -> Result {
        match change.form {
            Form::Compare => self.endpoint.compare(buffer, change.op, elements)?,
            Form::Base | Form::Fetch => self.endpoint.fetch(buffer, change.op, elements)?,
        }
        Ok(())
    }

    fn sent(&mut self, here: InProcess) -> Result<KBox<Self::Buffer>> {
        Connection::sent(self, here)
    }

    fn received(&mut self, here: InProcess) -> Result<(KBox<Self::Buffer>, usize)> {
        Connection::received(self, here)
    }

    fn end(&mut self, here: InProcess) -> Result {
        Connection::end(self, here)
    }
}
