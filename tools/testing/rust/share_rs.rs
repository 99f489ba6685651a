// SPDX-License-Identifier: GPL-2.0

//! Two connections to the module itself, whose messages take buffers from one shared receive
//! context.
//!
//! ```text
//! insmod share_rs.ko addr=0x0a000001 port=7471
//! ```
//!
//! Each message arrives in one of the shared buffers, which is posted again. The endpoints hold
//! references on the shared receive context: its buffers still take messages after the module has
//! dropped its handle, and are freed with the last endpoint, full or not.

use kernel::{
    new_mutex,
    prelude::*,
    str::CString,
    sync::Arc,
    time::{
        delay::fsleep,
        Delta, //
    },
};
use kofi::{
    abi::{
        self,
        info::{
            Info,
            InfoList, //
        },
        Errno,
        Result, //
    },
    compat::param_value,
    fi::{
        domain::Domain,
        eq::{
            self,
            EventQueue,
            Source, //
        },
        info::Query,
        memory::Buffer,
        msg::{
            Completions,
            Connection,
            Endpoint,
            Listener,
            SharedReceives, //
        },
        wait::Budget, //
    },
    util::{
        context::{
            in_process,
            ProcessContext, //
        },
        thread::Thread, //
    },
};

module! {
    type: Share,
    name: "share_rs",
    authors: ["kOFI contributors"],
    description: "kOFI test: buffers that endpoints share",
    license: "GPL",
    params: {
        addr: u32 {
            default: 0,
            description: "Local IPv4 address as a number, 10.0.0.1 is 0x0a000001",
        },
        port: u16 {
            default: 7471,
            description: "The first of the ports to listen on, of which there are three",
        },
    },
}

/// Bytes of a message.
const SIZE: usize = 64;

/// Number of shared buffers.
const BUFFERS: usize = 4;

/// Messages from each client.
const MESSAGES: usize = 3 * BUFFERS;

/// Number of connections.
const CLIENTS: usize = 2;

/// Source of the events of all listeners.
const LISTENER: Source = Source(0);

struct Share {}

impl kernel::Module for Share {
    fn init(_module: &'static ThisModule) -> kernel::error::Result<Self> {
        let address = (
            param_value(&module_parameters::addr),
            param_value(&module_parameters::port),
        );
        run(in_process()?, address)?;
        pr_info!("all is shared\n");
        Ok(Self {})
    }
}

/// Queries offers for a listener or for a client, with the number of receive contexts, or a shared
/// one.
fn find(
    here: ProcessContext,
    (addr, port): (u32, u16),
    source: bool,
    receive_contexts: usize,
) -> Result<InfoList> {
    let [a, b, c, d] = addr.to_be_bytes();
    let node = CString::try_from_fmt(fmt!("{a}.{b}.{c}.{d}"))?;
    let service = CString::try_from_fmt(fmt!("{port}"))?;
    let mut hints = Info::new()?;
    hints.set_caps(abi::FI_MSG);
    hints.set_ep(&abi::fi_ep_attr {
        type_: abi::FI_EP_MSG,
        rx_ctx_cnt: receive_contexts,
        ..pin_init::zeroed()
    })?;
    let query = Query {
        node: Some(&node),
        service: Some(&service),
        source,
        hints: Some(&hints),
        net: None,
    };
    kofi::getinfo(here, &query)
}

fn budget() -> Budget {
    Budget::from_millis(30_000)
}

/// Objects that all endpoints of the server share.
struct Server {
    domain: Arc<Domain>,
    events: Arc<EventQueue>,
    transmits: Arc<Completions>,
    messages: Arc<Completions>,
}

impl Server {
    /// Accepts the next connection request. Its endpoint takes messages into the buffers of
    /// `receives`. Closes the listener `other` before it answers: the request of another listener
    /// must not be affected.
    fn accept(
        &self,
        here: ProcessContext,
        source: Source,
        receives: &Arc<SharedReceives>,
        other: Option<Listener>,
    ) -> Result<Endpoint> {
        let mut request = self.events.next(here, &mut budget())?;
        drop(other);
        let info = request.take_info().ok_or(Errno::EOTHER)?;
        let endpoint = Endpoint::sharing(
            here,
            &self.domain,
            &info,
            source,
            &self.events,
            (self.transmits.side(None), self.messages.side(None)),
            receives,
        )?;
        let refused = endpoint.receive(Buffer::new(here, SIZE, 0)?);
        if refused.map_err(|refused| refused.errno) != Err(Errno::ENOSYS) {
            pr_err!("an endpoint posts what it shares\n");
            return Err(Errno::EOTHER);
        }
        let endpoint = endpoint.accept(here, &[])?;
        let event = self.events.next(here, &mut budget())?;
        Ok(endpoint.connected(&event)?)
    }

    /// Waits for the next message and returns its first byte and its buffer.
    fn message(&self, here: ProcessContext) -> Result<(u8, KBox<Buffer>)> {
        let done = self.messages.wait(here, &mut budget())?;
        match done.result? {
            SIZE => Ok((done.buffer[0], done.buffer)),
            _ => Err(Errno::EMSGSIZE),
        }
    }
}

/// Connects a client in a new thread while the calling thread accepts the connection.
fn connect(
    here: ProcessContext,
    address: (u32, u16),
    accept: impl FnOnce() -> Result<Endpoint>,
) -> Result<(Connection, Endpoint)> {
    let slot = Arc::pin_init(new_mutex!(None::<Result<Connection>>), GFP_KERNEL)?;
    let found = slot.clone();
    let thread = Thread::spawn(here, c"share_rs", move |here| {
        let end = client(here, address);
        *found.lock() = Some(end);
    })?;
    let endpoint = accept()?;
    let mut end = None;
    for _ in 0..30_000 {
        end = slot.lock().take();
        if end.is_some() {
            break;
        }
        fsleep(Delta::from_millis(1));
    }
    drop(thread);
    Ok((end.ok_or(Errno::ETIMEDOUT)??, endpoint))
}

fn client(here: ProcessContext, address: (u32, u16)) -> Result<Connection> {
    let mut list = find(here, address, false, 0)?;
    let info = list.first_mut().ok_or(Errno::ENODATA)?;
    let fabric = kofi::fabric::<Share>(here, info)?;
    let opened = Connection::open(here, &fabric, info, 1)?;
    Ok(opened.connect(here, &[])?.0)
}

/// Sends a message that begins with `byte`, and waits for its completion.
fn send(here: ProcessContext, from: &Connection, byte: u8) -> Result {
    let mut word = Buffer::new(here, SIZE, 0)?;
    word[0] = byte;
    from.endpoint.send(word, SIZE)?;
    from.transmits.wait(here, &mut budget())?.result.map(drop)
}

fn run(here: ProcessContext, address: (u32, u16)) -> Result {
    let list = find(here, address, true, abi::FI_SHARED_CONTEXT)?;
    let info = list.first().ok_or(Errno::ENODATA)?;
    let fabric = kofi::fabric::<Share>(here, info)?;
    let domain = fabric.domain(here, info)?;
    let events = fabric.event_queue(here, eq::Attr::default())?;
    let server = Server {
        transmits: Completions::new(here, &domain, BUFFERS)?,
        messages: Completions::new(here, &domain, BUFFERS)?,
        domain,
        events,
    };
    let receives = SharedReceives::new(here, &server.domain, BUFFERS)?;
    for _ in 0..BUFFERS {
        receives.receive(Buffer::new(here, SIZE, 0)?)?;
    }
    let refused = receives.receive(Buffer::new(here, SIZE, 0)?);
    if refused.map_err(|refused| refused.errno) != Err(Errno::EAGAIN)
        || receives.receives_left() != 0
    {
        pr_err!("there is more space than there should be\n");
        return Err(Errno::EOTHER);
    }

    let _listener = Listener::new(here, &fabric, info, LISTENER, &server.events)?;
    let mut others = KVec::with_capacity(CLIENTS, GFP_KERNEL)?;
    for number in 1..=CLIENTS as u16 {
        let address = (address.0, address.1.wrapping_add(number));
        let list = find(here, address, true, abi::FI_SHARED_CONTEXT)?;
        let info = list.first().ok_or(Errno::ENODATA)?;
        let events = fabric.event_queue(here, eq::Attr::default())?;
        let other = Listener::new(here, &fabric, info, LISTENER, &events)?;
        others.push(other, GFP_KERNEL)?;
    }
    let mut clients = KVec::with_capacity(CLIENTS, GFP_KERNEL)?;
    let mut endpoints = KVec::with_capacity(CLIENTS, GFP_KERNEL)?;
    for number in 1..=CLIENTS {
        let source = Source(number);
        let other = others.pop();
        let accept = || server.accept(here, source, &receives, other);
        let (client, endpoint) = connect(here, address, accept)?;
        clients.push(client, GFP_KERNEL)?;
        endpoints.push(endpoint, GFP_KERNEL)?;
    }
    for number in 0..MESSAGES {
        for (client, sent) in clients.iter().zip(number as u8..) {
            send(here, client, sent)?;
            let (got, buffer) = server.message(here)?;
            if got != sent {
                pr_err!("a message is not what was sent\n");
                return Err(Errno::EIO);
            }
            receives.receive(buffer)?;
        }
    }

    // The endpoints hold references on the shared context.
    drop(receives);
    for client in clients.iter() {
        send(here, client, 1)?;
        drop(server.message(here)?);
    }
    // One buffer holds a message that is not read, another is still posted.
    send(here, &clients[0], 2)?;
    drop(endpoints);
    // A device's completions are discarded with the endpoint; those of the loop provider stay in
    // the queue.
    let remains = info.provider_name() == Some(c"loop");
    match server.messages.read() {
        Err(Errno::EAGAIN) if !remains => Ok(()),
        Ok(done) if remains && done.buffer[0] == 2 => Ok(()),
        _ => Err(Errno::EOTHER),
    }
}
