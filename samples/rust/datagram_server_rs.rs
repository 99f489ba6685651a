// SPDX-License-Identifier: GPL-2.0

//! A datagram server: serves up to `MAX_CLIENTS` clients on one endpoint. kOFI connects and disconnects peers
//! by itself. Clients are in the kernel, or are programs in user space on libfabric's "verbs;ofi_rxm" provider.
//!
//! ```text
//! insmod datagram_server_rs.ko addr=0x0a000001 port=7471
//! ```
//!
//! The protocol is that of `samples/c/datagram_server.c`. A client first sends a `Hello` with its address and the
//! memory region that it exposes. The server replies with the client's number and the region that the server
//! exposes. The tag of each later message selects a request: `ECHO` returns the message; `FLIP` reads the client's
//! region and writes it back inverted; `COUNT` increments the first word of the client's region, and the first
//! word of the server's, several times each. Clients may increment the server's word at the same time.

mod datagram;
mod getinfo;

use datagram::Hello;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use kofi::{
    abi::{
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
    util::{
        context::{
            in_process,
            kthread_should_stop,
            ProcessContext, //
        },
        thread::Thread, //
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
            description: "Maximum length of a message, and length of the exposed region, in bytes",
        },
    },
}

/// Attributes of an address vector that is not shared.
const AV_ATTR: av::Attr<'static> = av::Attr {
    kind: None,
    rx_ctx_bits: 0,
    count: 0,
    is_async: false,
    name: None,
    is_read_only: false,
};

/// Number of posted receives for tagged messages.
const WINDOW: usize = 4;

/// Maximum number of clients.
const MAX_CLIENTS: usize = 64;

/// Length of a counter.
const WORD: usize = 8;

/// Timeout of one wait in milliseconds; between waits a loop checks whether it has to stop.
const WAIT_MS: c_int = 100;

struct DatagramServer {
    /// Stops the thread and waits for it when the module is unloaded.
    _thread: Thread,
}

impl kernel::Module for DatagramServer {
    fn init(_module: &'static ThisModule) -> kernel::error::Result<Self> {
        let address = (
            param_value(&module_parameters::addr),
            param_value(&module_parameters::port),
        );
        let size = param_value(&module_parameters::size);
        if size < WORD {
            return Err(EINVAL);
        }
        let main = move |here| match run(here, address, size) {
            Ok(()) | Err(Errno::EINTR) => {}
            Err(errno) => pr_err!("{}\n", errno),
        };
        let thread = Thread::spawn(in_process()?, c"datagram_server_rs", main)?;
        Ok(Self { _thread: thread })
    }
}

/// Serves clients until the thread is stopped (EINTR) or the device is removed (ENODEV).
fn run(here: ProcessContext, address: (u32, u16), size: usize) -> Result {
    let mut server = Server::open(here, address, size)?;
    server
        .endpoint
        .receive(None, Buffer::new(here, Hello::SIZE, 0)?)?;
    for _ in 0..WINDOW {
        server.post_tagged_receive(Buffer::new(here, size, 0)?)?;
    }
    pr_info!("ready\n");
    loop {
        server.serve(here)?;
    }
}

/// A client that has sent its `Hello`.
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
    exposed: RemoteBuffer,
    /// The server's own address. The server increments its word by the same atomic operations as its clients,
    /// because the CPU's are not atomic with those.
    own: Peer,
    clients: KVec<Client>,
    size: usize,
}

impl Server {
    fn open(here: ProcessContext, address: (u32, u16), size: usize) -> Result<Self> {
        let list = getinfo::find_rdm(here, address)?;
        let info = list.first().ok_or(Errno::ENODATA)?;
        let fabric = kofi::fabric::<DatagramServer>(here, info)?;
        let domain = fabric.domain(here, info)?;
        let events = fabric.event_queue(here, eq::Attr::default())?;
        domain.bind_event_queue(here, &events, Source(0))?;
        let addresses = domain.address_vector(here, &AV_ATTR)?;
        let transmits = Completions::of_datagrams(here, &domain, 0)?;
        let receives = Completions::of_datagrams(here, &domain, 0)?;
        let exposed = RemoteBuffer::new(
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
            exposed,
            own,
            clients: KVec::new(),
            size,
        })
    }

    fn post_tagged_receive(&self, buffer: KBox<Buffer>) -> Result {
        Ok(self.endpoint.receive_tagged(None, Tag::ANY, buffer)?)
    }

    /// Waits for a message, and handles it. Errors of a client are logged, and do not stop the server.
    fn serve(&mut self, here: ProcessContext) -> Result {
        let done = self.wait_completion(here, &self.receives)?;
        let Some(tag) = done.tag else {
            let bytes = done.result.map(|len| done.buffer.get(..len));
            let hello = bytes.map(|bytes| bytes.and_then(Hello::from_bytes));
            match hello.and_then(|hello| self.add_client(here, &hello.ok_or(Errno::EINVAL)?)) {
                Err(errno @ (Errno::EINTR | Errno::ENODEV)) => return Err(errno),
                Err(errno) => pr_err!("hello: {}\n", errno),
                Ok(()) => {}
            }
            return Ok(self.endpoint.receive(None, done.buffer)?);
        };
        let buffer = match self.handle_request(here, tag, done) {
            Ok(buffer) => buffer,
            Err(errno @ (Errno::EINTR | Errno::ENODEV)) => return Err(errno),
            Err(errno) => {
                pr_err!("client {}: {}\n", tag / datagram::TAGS, errno);
                Buffer::new(here, self.size, 0)?
            }
        };
        self.post_tagged_receive(buffer)
    }

    /// Adds a client, and replies with its number. Each `Hello` adds a client, even from a known address.
    fn add_client(&mut self, here: ProcessContext, hello: &Hello) -> Result {
        let number = self.clients.len();
        if number == MAX_CLIENTS {
            return Err(Errno::ENOSPC);
        }
        let peer = Peer::insert(here, &self.addresses, hello.address)?;
        let client = Client {
            peer,
            region: hello.region,
            len: hello.len.min(self.size),
        };
        self.clients.push(client, GFP_KERNEL)?;
        let reply = datagram::welcome(number, self.exposed.remote(), self.exposed.len());
        let mut buffer = Buffer::new(here, reply.len(), 0)?;
        write_prefix(&mut buffer, reply);
        let client = self.clients.last().ok_or(Errno::EINVAL)?;
        self.endpoint.send(&client.peer, buffer, reply.len())?;
        self.wait_transmit(here).map(drop)
    }

    /// Handles a request, and returns its buffer.
    fn handle_request(
        &self,
        here: ProcessContext,
        tag: u64,
        message: CompletedOp,
    ) -> Result<KBox<Buffer>> {
        let len = message.result?;
        let client = self.clients.get((tag / datagram::TAGS) as usize);
        let client = client.ok_or(Errno::EINVAL)?;
        let (buffer, len) = match tag % datagram::TAGS {
            datagram::ECHO => (message.buffer, len),
            datagram::FLIP => (self.flip(here, client, message.buffer)?, 0),
            datagram::COUNT => {
                self.count(here, client)?;
                (message.buffer, 0)
            }
            _ => return Ok(message.buffer),
        };
        self.endpoint.send_tagged(&client.peer, tag, buffer, len)?;
        self.wait_transmit(here)
    }

    /// Inverts the client's region.
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
        let mut buffer = self.wait_transmit(here)?;
        for byte in buffer.iter_mut().take(len) {
            *byte = !*byte;
        }
        self.endpoint.write(peer, buffer, len, region)?;
        self.wait_transmit(here)
    }

    /// Increments the first word of the client's region, which no other peer changes, and the server's.
    fn count(&self, here: ProcessContext, client: &Client) -> Result {
        let mut last = None;
        for _ in 0..datagram::COUNTS {
            let found = self.add_one(here, &client.peer, client.region)?;
            if last.is_some_and(|last| found != last + 1) {
                return Err(Errno::EIO);
            }
            last = Some(found);
            let _ = self.add_one(here, &self.own, self.exposed.remote())?;
        }
        Ok(())
    }

    /// Increments the word at `remote`, and returns its previous value.
    fn add_one(&self, here: ProcessContext, peer: &Peer, remote: RemoteMemory) -> Result<u64> {
        let mut buffer = Buffer::new(here, WORD, 0)?;
        write_prefix(&mut buffer, 1u64.to_ne_bytes());
        let word = RemoteElements {
            remote,
            count: 1,
            datatype: Datatype::from_raw(FI_UINT64)?,
        };
        self.endpoint.fetch(peer, buffer, Op::Sum, word)?;
        let buffer = self.wait_transmit(here)?;
        let found = buffer.first_chunk().copied().ok_or(Errno::ETOOSMALL)?;
        Ok(u64::from_ne_bytes(found))
    }

    /// Waits for the transmit operation that was just posted, and returns its buffer.
    fn wait_transmit(&self, here: ProcessContext) -> Result<KBox<Buffer>> {
        let done = self.wait_completion(here, &self.transmits)?;
        done.result.map(|_| done.buffer)
    }

    /// Returns the next completed operation; -FI_EINTR if the thread is asked to stop, -FI_ENODEV if the device
    /// is removed. The removal waits until the server has closed its objects.
    fn wait_completion(
        &self,
        here: ProcessContext,
        completions: &Completions,
    ) -> Result<CompletedOp> {
        while !kthread_should_stop() {
            if let Ok(event) = self.events.next(here, &mut Budget::from_millis(0)) {
                if let Kind::Error(errno, _) = event.kind() {
                    return Err(errno);
                }
            }
            match completions.wait(here, &mut Budget::from_millis(WAIT_MS)) {
                Err(Errno::EAGAIN) => {}
                result => return result,
            }
        }
        Err(Errno::EINTR)
    }
}

/// Copies `bytes` to the beginning of a buffer, which is at least as long.
fn write_prefix<const N: usize>(buffer: &mut Buffer, bytes: [u8; N]) {
    if let Some(prefix) = buffer.first_chunk_mut() {
        *prefix = bytes;
    }
}
