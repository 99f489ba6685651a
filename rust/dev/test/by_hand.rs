// SPDX-License-Identifier: GPL-2.0

//! The same tests over verbs, written by hand: what the fabric interfaces are compared with.
//!
//! This is the one place here that knows verbs.

use super::{
    link::{
        Link,
        Opened, //
    },
    request::Change, //
};
use crate::{
    abi::{
        context::{
            kthread_should_stop,
            ProcessContext, //
        },
        info::Info,
        namespace::Namespace,
        Errno,
        Result, //
    },
    fi::{
        atomic::{
            Form,
            Op, //
        },
        msg::{
            RemoteElements,
            RemoteMemory, //
        },
    },
    rdma::{
        self,
        by_hand,
        device::{
            self,
            Device, //
        },
        net::{
            Net,
            SockAddr, //
        }, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

fn go_on() -> bool {
    !kthread_should_stop()
}

/// The device that an info is of.
fn device_of(info: &Info) -> Result<Arc<Device>> {
    let name = info.domain_name().ok_or(Errno::ENODEV)?;
    let devices = device::list()?;
    let found = devices
        .iter()
        .find(|device| device.name().as_bytes() == name.to_bytes());
    Ok(found.ok_or(Errno::ENODEV)?.clone())
}

/// A reference of our own.
fn net_of(net: &Namespace) -> Net {
    Net::new(net.as_raw())
}

/// The place as verbs name it, whose keys have 32 bits.
impl TryFrom<RemoteMemory> for rdma::wr::RemoteAddr {
    type Error = Errno;

    fn try_from(remote: RemoteMemory) -> Result<Self> {
        Ok(Self {
            addr: remote.addr,
            rkey: u32::try_from(remote.key)?,
        })
    }
}

/// One end, before it is connected.
pub(super) struct Unconnected(by_hand::Unconnected);

impl Unconnected {
    /// One on the device, and for the peer, of `info`.
    pub(super) fn new(
        _here: ProcessContext,
        net: &Namespace,
        info: &Info,
        depth: usize,
    ) -> Result<Self> {
        let (local, peer) = info.ends()?;
        let (local, peer) = (local.map(SockAddr::from), peer.ok_or(Errno::EINVAL)?.into());
        let net = net_of(net);
        let ends = (local.as_ref(), &peer);
        let device = device_of(info)?;
        let end = by_hand::Unconnected::new(&net, &device, ends, depth, go_on)?;
        Ok(Self(end))
    }

    /// Asks the peer, which answers with some bytes, also where it refuses; zeroes may follow.
    pub(super) fn connect(
        self,
        _here: ProcessContext,
        data: &[u8],
    ) -> core::result::Result<Connection, (Errno, [u8; by_hand::DATA])> {
        match self.0.connect(data, go_on) {
            Ok(connection) => Ok(Connection(connection)),
            Err((error, said)) => Err((error.into(), said)),
        }
    }
}

impl Opened for Unconnected {
    type Link = Connection;
    type Lent = by_hand::Lent;

    fn receive(&mut self, _here: ProcessContext, len: usize) -> Result {
        let buffer = by_hand::Buffer::new(self.0.pd(), len)?;
        Ok(self.0.receive(buffer)?)
    }

    fn lend(&self, _here: ProcessContext, len: usize) -> Result<(Self::Lent, RemoteMemory)> {
        let lent = by_hand::Lent::new(self.0.pd(), len)?;
        let rdma::wr::RemoteAddr { addr, rkey } = lent.remote();
        let key = rkey.into();
        Ok((lent, RemoteMemory { addr, key }))
    }

    fn accept(self, _here: ProcessContext, data: &[u8]) -> Result<Connection> {
        Ok(Connection(self.0.accept(data, go_on)?))
    }
}

/// One end of a connection.
pub(super) struct Connection(by_hand::Connection);

impl Connection {
    /// What the peer has answered with; zeroes may follow.
    pub(super) fn data(&self) -> [u8; by_hand::DATA] {
        self.0.data()
    }
}

impl Link for Connection {
    type Buffer = by_hand::Buffer;

    fn buffer(&self, _here: ProcessContext, len: usize) -> Result<KBox<Self::Buffer>> {
        Ok(by_hand::Buffer::new(self.0.pd(), len)?)
    }

    fn receive(&mut self, buffer: KBox<Self::Buffer>) -> Result {
        Ok(self.0.receive(buffer)?)
    }

    fn send(&mut self, buffer: KBox<Self::Buffer>, len: usize) -> Result {
        Ok(self.0.send(buffer, len)?)
    }

    fn write(&mut self, buffer: KBox<Self::Buffer>, len: usize, to: RemoteMemory) -> Result {
        Ok(self.0.write(buffer, len, to.try_into()?)?)
    }

    fn read(&mut self, buffer: KBox<Self::Buffer>, len: usize, from: RemoteMemory) -> Result {
        Ok(self.0.read(buffer, len, from.try_into()?)?)
    }

    fn change(
        &mut self,
        buffer: KBox<Self::Buffer>,
        change: &Change,
        elements: RemoteElements,
    ) -> Result {
        let at = elements.remote.try_into()?;
        let (words, _) = buffer.as_chunks::<8>();
        // What there is to compare with stands behind the operands, of which there is one.
        let [operand, compare] = *words else {
            return Err(Errno::EOPNOTSUPP);
        };
        let (operand, compare) = (u64::from_ne_bytes(operand), u64::from_ne_bytes(compare));
        match (change.form, change.op) {
            (Form::Fetch, Op::Sum) => Ok(self.0.fetch_add(buffer, at, operand)?),
            (Form::Compare, Op::Swap) => Ok(self.0.compare_swap(buffer, at, compare, operand)?),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    fn sent(&mut self, _here: ProcessContext) -> Result<KBox<Self::Buffer>> {
        Ok(self.0.sent(go_on)?)
    }

    fn received(&mut self, _here: ProcessContext) -> Result<(KBox<Self::Buffer>, usize)> {
        Ok(self.0.received(go_on)?)
    }

    fn end(&mut self, _here: ProcessContext) -> Result {
        Ok(self.0.end(go_on)?)
    }
}

/// Waits for clients.
pub(super) struct Listener(by_hand::Listener);

impl Listener {
    /// One at the address of `info`, whichever device is reached there.
    pub(super) fn new(_here: ProcessContext, net: &Namespace, info: &Info) -> Result<Self> {
        let (local, _) = info.ends()?;
        let local = local.ok_or(Errno::EINVAL)?.into();
        Ok(Self(by_hand::Listener::new(&net_of(net), &local)?))
    }

    /// Waits for a client.
    pub(super) fn next(&self, _here: ProcessContext) -> Result<Request> {
        Ok(Request(self.0.next(go_on)?))
    }
}

/// A client; dropped, it is refused.
pub(super) struct Request(by_hand::Request);

impl Request {
    /// What it has said; zeroes may follow.
    pub(super) fn data(&self) -> &[u8] {
        self.0.data()
    }

    /// Refuses it, with some bytes.
    pub(super) fn refuse(self, _here: ProcessContext, data: &[u8]) {
        self.0.refuse(data);
    }

    /// An end for it.
    pub(super) fn open(self, _here: ProcessContext, depth: usize) -> Result<Unconnected> {
        Ok(Unconnected(self.0.open(depth)?))
    }
}
