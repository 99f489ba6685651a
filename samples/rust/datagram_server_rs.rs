// SPDX-License-Identifier: GPL-2.0

//! A datagram server: one endpoint, and any number of clients, none of whom it has a connection with that it
//! knows of. Clients may be in the kernel, or programs on user space's libfabric ("verbs;ofi_rxm").
//!
//! ```text
//! insmod datagram_server_rs.ko addr=0x0a000001 port=7471
//! ```
//!
//! It says the same as `samples/c/datagram_server.c`. A client says hello first: where it is, and what memory it
//! lends. It is told its number, and what memory the server lends. What it then sends with a tag of its number
//! and an echo comes back; of a flip, the server reads the client's memory, and writes it back with each bit the
//! other way; of a count, it counts the first word of the client's memory up, and the first word of its own,
//! which clients may count up as well.

mod hello;
mod offers;

use hello::Hello;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use kofi::{
    abi::{
        context::{
            in_process,
            kthread_should_stop,
            ProcessContext, //
        },
        thread::Thread,
        Errno,
        Result,
        FI_UINT64, //
    },
    compat::param_value,
    fi::{
        atomic::{
            Datatype,
            Op, //
        },
        av::{
            self,
            AddressVector,
            Peer, //
        },
        eq::{
            self,
            EventQueue,
            Kind,
            Source, //
        },
        memory::Buffer,
        provider::Tag,
        rdm::{
            CompletedOp,
            Completions,
            Endpoint,
            RemoteAccess,
            RemoteBuffer,
            RemoteElements,
            RemoteMemory, //
        },
        wait::Budget, //
    },
};

module! {
    type: DatagramServer,
    name: "datagram_server_rs",
    authors: ["kOFI contributors"],
    description: "kOFI sample: datagram server in Rust",
    license: "GPL",
    params: {
        addr: u32 {
            default: 0,
            description: "Local IPv4 address as a number, 10.0.0.1 is 0x0a000001",
        },
        port: u16 {
            default: 7471,
            description: "Port to listen on",
        },
        size: usize {
            default: 2 << 20,
            description: "Longest message, and bytes that are lent",
        },
    },
}

/// A vector for this server alone.
const PLAIN: av::Attr<'static> = av::Attr {
    kind: None,
    rx_ctx_bits: 0,
    count: 0,
    is_async: false,
    name: None,
    is_read_only: false,
};

/// Messages that are received at a time.
const WINDOW: usize = 4;

/// Clients that there may be.
const CLIENTS: usize = 64;

/// Bytes of what is counted.
const WORD: usize = 8;

/// How long a wait lasts before it looks around, in milliseconds.
const TICK: c_int = 100;

struct DatagramServer {
    /// Dropped when the module is unloaded: that stops the thread and waits for it.
    _thread: Thread,
}

impl kernel::Module for DatagramServer {
    fn init(_module: &'static ThisModule) -> kernel::error::Result<Self> {
        let place = (
            param_value(&module_parameters::addr),
            param_value(&module_parameters::port),
        );
        let size = param_value(&module_parameters::size);
        if size < WORD {
            return Err(EINVAL);
        }
        let main = move |here| match run(here, place, size) {
            Ok(()) | Err(Errno::EINTR) => {}
            Err(errno) => pr_err!("{}\n", errno),
        };
        let thread = Thread::run(in_process()?, c"datagram_server_rs", main)?;
        Ok(Self { _thread: thread })
    }
}

/// Serves whoever comes, until it is told to stop, which is an error as any other.
fn run(here: ProcessContext, place: (u32, u16), size: usize) -> Result {
    let mut server = Server::open(here, place, size)?;
    server
        .endpoint
        .receive(None, Buffer::new(here, Hello::SIZE, 0)?)?;
    for _ in 0..WINDOW {
        server.await_message(Buffer::new(here, size, 0)?)?;
    }
    pr_info!("ready\n");
    loop {
        server.serve(here)?;
    }
}

/// One who has said hello.
struct Client {
    peer: Peer,
    region: RemoteMemory,
    len: usize,
}

struct Server {
    /// Event queue that reports the removal of the device.
    events: Arc<EventQueue>,
    endpoint: Endpoint,
    addresses: Arc<AddressVector>,
    transmits: Arc<Completions>,
    receives: Arc<Completions>,
    lent: RemoteBuffer,
    /// It is a peer of its own: what all count up is counted in one way.
    own: Peer,
    clients: KVec<Client>,
    size: usize,
}

impl Server {
    fn open(here: ProcessContext, place: (u32, u16), size: usize) -> Result<Self> {
        let list = offers::find_datagrams(here, place)?;
        let info = list.first().ok_or(Errno::ENODATA)?;
        let fabric = kofi::fabric::<DatagramServer>(here, info)?;
        let domain = fabric.domain(here, info)?;
        let events = fabric.event_queue(here, eq::Attr::default())?;
        domain.bind_event_queue(here, &events, Source(0))?;
        let addresses = domain.address_vector(here, &PLAIN)?;
        let transmits = Completions::of_datagrams(here, &domain, 0)?;
        let receives = Completions::of_datagrams(here, &domain, 0)?;
        let lent = RemoteBuffer::new(
            here,
            &domain,
            Buffer::new(here, size, 0)?,
            RemoteAccess::ReadWrite,
        )?;
        let sides = (transmits.side(None), receives.side(None));
        let endpoint = Endpoint::new(here, &domain, info, &addresses, sides)?;
        let own = Peer::insert(here, &addresses, endpoint.address(here)?)?;
        Ok(Self {
            events,
            endpoint,
            addresses,
            transmits,
            receives,
            lent,
            own,
            clients: KVec::new(),
            size,
        })
    }

    fn await_message(&self, buffer: KBox<Buffer>) -> Result {
        Ok(self.endpoint.receive_tagged(None, Tag::ANY, buffer)?)
    }

    /// Waits for a message, and does what it asks for. A client's failures are no reason to stop.
    fn serve(&mut self, here: ProcessContext) -> Result {
        let done = self.next(here, &self.receives)?;
        let Some(tag) = done.tag else {
            let said = done.result.map(|len| done.buffer.get(..len));
            let hello = said.map(|said| said.and_then(Hello::from_bytes));
            match hello.and_then(|hello| self.welcome(here, &hello.ok_or(Errno::EINVAL)?)) {
                Err(errno @ (Errno::EINTR | Errno::ENODEV)) => return Err(errno),
                Err(errno) => pr_err!("hello: {}\n", errno),
                Ok(()) => {}
            }
            return Ok(self.endpoint.receive(None, done.buffer)?);
        };
        let buffer = match self.answer(here, tag, done) {
            Ok(buffer) => buffer,
            Err(errno @ (Errno::EINTR | Errno::ENODEV)) => return Err(errno),
            Err(errno) => {
                pr_err!("client {}: {}\n", tag / hello::TAGS, errno);
                Buffer::new(here, self.size, 0)?
            }
        };
        self.await_message(buffer)
    }

    /// A client that comes again is another one.
    fn welcome(&mut self, here: ProcessContext, hello: &Hello) -> Result {
        let number = self.clients.len();
        if number == CLIENTS {
            return Err(Errno::ENOSPC);
        }
        let peer = Peer::insert(here, &self.addresses, hello.address)?;
        let client = Client {
            peer,
            region: hello.region,
            len: hello.len.min(self.size),
        };
        self.clients.push(client, GFP_KERNEL)?;
        let answer = hello::welcome(number, self.lent.remote(), self.lent.len());
        let mut buffer = Buffer::new(here, answer.len(), 0)?;
        put(&mut buffer, answer);
        let client = self.clients.last().ok_or(Errno::EINVAL)?;
        self.endpoint.send(&client.peer, buffer, answer.len())?;
        self.settled(here).map(drop)
    }

    /// Does what a message asks for; its buffer comes back.
    fn answer(&self, here: ProcessContext, tag: u64, message: CompletedOp) -> Result<KBox<Buffer>> {
        let len = message.result?;
        let client = self.clients.get((tag / hello::TAGS) as usize);
        let client = client.ok_or(Errno::EINVAL)?;
        let (buffer, len) = match tag % hello::TAGS {
            hello::ECHO => (message.buffer, len),
            hello::FLIP => (self.flip(here, client, message.buffer)?, 0),
            hello::COUNT => {
                self.count(here, client)?;
                (message.buffer, 0)
            }
            _ => return Ok(message.buffer),
        };
        self.endpoint.send_tagged(&client.peer, tag, buffer, len)?;
        self.settled(here)
    }

    /// Turns each bit of what a client lends.
    fn flip(
        &self,
        here: ProcessContext,
        client: &Client,
        buffer: KBox<Buffer>,
    ) -> Result<KBox<Buffer>> {
        let &Client {
            ref peer,
            region,
            len,
        } = client;
        self.endpoint.read(peer, buffer, len, region)?;
        let mut buffer = self.settled(here)?;
        for byte in buffer.iter_mut().take(len) {
            *byte = !*byte;
        }
        self.endpoint.write(peer, buffer, len, region)?;
        self.settled(here)
    }

    /// Counts up what a client lends, as nobody else does, and what all count up.
    fn count(&self, here: ProcessContext, client: &Client) -> Result {
        let mut last = None;
        for _ in 0..hello::COUNTS {
            let found = self.add_one(here, &client.peer, client.region)?;
            if last.is_some_and(|last| found != last + 1) {
                return Err(Errno::EIO);
            }
            last = Some(found);
            let _ = self.add_one(here, &self.own, self.lent.remote())?;
        }
        Ok(())
    }

    /// Adds one to the word there, and says what it was before.
    fn add_one(&self, here: ProcessContext, peer: &Peer, remote: RemoteMemory) -> Result<u64> {
        let mut buffer = Buffer::new(here, WORD, 0)?;
        put(&mut buffer, 1u64.to_ne_bytes());
        let word = RemoteElements {
            remote,
            count: 1,
            datatype: Datatype::from_raw(FI_UINT64)?,
        };
        self.endpoint.fetch(peer, buffer, Op::Sum, word)?;
        let buffer = self.settled(here)?;
        let found = buffer.first_chunk().copied().ok_or(Errno::ETOOSMALL)?;
        Ok(u64::from_ne_bytes(found))
    }

    /// Waits for what has just been started: its buffer.
    fn settled(&self, here: ProcessContext) -> Result<KBox<Buffer>> {
        let done = self.next(here, &self.transmits)?;
        done.result.map(|_| done.buffer)
    }

    /// Returns the next completed operation; -FI_EINTR if the thread is asked to stop, -FI_ENODEV if the device
    /// is removed. The removal waits until the server has closed its objects.
    fn next(&self, here: ProcessContext, completions: &Completions) -> Result<CompletedOp> {
        while !kthread_should_stop() {
            if let Ok(event) = self.events.next(here, &mut Budget::from_millis(0)) {
                if let Kind::Error(errno, _) = event.kind() {
                    return Err(errno);
                }
            }
            match completions.wait(here, &mut Budget::from_millis(TICK)) {
                Err(Errno::EAGAIN) => {}
                answer => return answer,
            }
        }
        Err(Errno::EINTR)
    }
}

/// Writes that to the beginning of a buffer which has room for it.
fn put<const N: usize>(buffer: &mut Buffer, bytes: [u8; N]) {
    if let Some(room) = buffer.first_chunk_mut() {
        *room = bytes;
    }
}
