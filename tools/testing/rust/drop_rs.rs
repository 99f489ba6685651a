// SPDX-License-Identifier: GPL-2.0

//! Connections to the module itself, of which both ends drop all their objects in a handler in
//! interrupt context.
//!
//! ```text
//! insmod drop_rs.ko addr=0x0a000001 port=7471 rounds=10
//! ```
//!
//! Each end sends one message. The handler that receives it drops the endpoint, and with it the
//! last handle of everything that belongs to it: completion queues, the handler itself, buffers
//! that are registered, remotely accessible or posted, a counter and a listener. The module has
//! nothing left to close and can be unloaded at once.

#[path = "../../../samples/rust/getinfo.rs"]
mod getinfo;

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            AtomicFlag,
            Release, //
        },
        Arc, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
};
use kofi::{
    abi::{
        Errno,
        Result,
        FI_MSG,
        FI_RMA, //
    },
    compat::{
        new_spinlock_irq,
        param_value,
        SpinLockIrq, //
    },
    fi::{
        cntr::{
            self,
            Counter, //
        },
        eq::{
            self,
            EventQueue,
            Source, //
        },
        memory::Buffer,
        msg::{
            Connection,
            HandlerGuard,
            Listener,
            RemoteAccess,
            RemoteBuffer,
            Unconnected, //
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
    type: Drops,
    name: "drop_rs",
    authors: ["kOFI contributors"],
    description: "kOFI test: last handles that are dropped in interrupts",
    license: "GPL",
    params: {
        addr: u32 {
            default: 0,
            description: "Local IPv4 address as a number, 10.0.0.1 is 0x0a000001",
        },
        port: u16 {
            default: 7471,
            description: "The first of the ports to listen on, one for each round",
        },
        rounds: u16 {
            default: 1,
            description: "How many connections, one after another",
        },
    },
}

/// Bytes of a message.
const SIZE: usize = 64;

struct Drops {}

impl kernel::Module for Drops {
    fn init(_module: &'static ThisModule) -> kernel::error::Result<Self> {
        let here = in_process()?;
        let (addr, first) = (
            param_value(&module_parameters::addr),
            param_value(&module_parameters::port),
        );
        for round in 0..param_value(&module_parameters::rounds) {
            // Each round has a port of its own: the listener of the previous round may still be
            // closing.
            run(here, (addr, first.wrapping_add(round)))?;
        }
        pr_info!("all is dropped\n");
        Ok(Self {})
    }
}

/// Objects of one end. The order in which they are dropped does not matter.
struct EndObjects {
    connection: Connection,
    _calls: HandlerGuard,
    _lent: RemoteBuffer,
    _registered: KBox<Buffer>,
    _counter: Arc<Counter>,
    _listening: Option<(Listener, Arc<EventQueue>)>,
}

/// Owner of the objects of one end until a handler drops them.
#[pin_data]
struct End {
    #[pin]
    objects: SpinLockIrq<Option<KBox<EndObjects>>>,
    is_dropped: AtomicFlag,
}

impl End {
    /// Drops all objects and the received buffer.
    fn drop_all(&self, received: KBox<Buffer>) {
        let all = self.objects.lock().take();
        if all.is_some() {
            drop((received, all));
            self.is_dropped.store(true, Release);
        }
    }

    /// Sends the message at which the handler of the peer drops its end.
    fn send(&self, message: KBox<Buffer>) -> Result {
        match &*self.objects.lock() {
            Some(all) => Ok(all.connection.endpoint.send(message, SIZE)?),
            // This end is already dropped: the disconnect calls the handler of the peer.
            None => Ok(()),
        }
    }

    fn wait(&self) -> Result {
        for _ in 0..30_000 {
            if self.is_dropped.load(Acquire) {
                return Ok(());
            }
            fsleep(Delta::from_millis(1));
        }
        Err(Errno::ETIMEDOUT)
    }
}

/// Connects an endpoint and stores the objects of its end, which its handler drops.
fn store_objects(
    here: ProcessContext,
    opened: Unconnected,
    listening: Option<(Listener, Arc<EventQueue>)>,
    connect: impl FnOnce(Unconnected) -> Result<Connection>,
) -> Result<Arc<End>> {
    let domain = opened.domain().clone();
    // The message takes one receive; the other is still posted when the endpoint is dropped.
    for _ in 0..2 {
        opened.receive(Buffer::registered(here, &domain, SIZE, 0)?)?;
    }
    let end = Arc::pin_init(
        pin_init!(End {
            objects <- new_spinlock_irq!(None, "drop_rs"),
            is_dropped: AtomicFlag::new(false),
        }),
        GFP_KERNEL,
    )?;
    let own = end.clone();
    let connection = connect(opened)?;
    let calls = connection.receives.on_interrupt(here, move |arrived| {
        while let Ok(done) = arrived.read() {
            own.drop_all(done.buffer);
        }
    })?;
    let buffer = Buffer::new(here, SIZE, 0)?;
    let objects = EndObjects {
        connection,
        _calls: calls,
        _lent: RemoteBuffer::new(here, &domain, buffer, RemoteAccess::ReadWrite)?,
        _registered: Buffer::registered(here, &domain, SIZE, 0)?,
        _counter: domain.counter(here, &cntr::Attr::default())?,
        _listening: listening,
    };
    let objects = KBox::new(objects, GFP_KERNEL)?;
    *end.objects.lock() = Some(objects);
    Ok(end)
}

/// Opens a connection and makes both ends drop their objects.
fn run(here: ProcessContext, address: (u32, u16)) -> Result {
    let list = getinfo::find_msg(here, address, true, FI_MSG | FI_RMA)?;
    let info = list.first().ok_or(Errno::ENODATA)?;
    let fabric = kofi::fabric::<Drops>(here, info)?;
    let events = fabric.event_queue(here, eq::Attr::default())?;
    let listener = Listener::new(here, &fabric, info, Source(0), &events)?;

    let client_slot = Arc::pin_init(new_mutex!(None::<Result<Arc<End>>>), GFP_KERNEL)?;
    let slot = client_slot.clone();
    let thread = Thread::spawn(here, c"drop_rs", move |here| {
        let end = client(here, address);
        *slot.lock() = Some(end);
    })?;
    let mut budget = Budget::from_millis(10_000);
    let mut request = events.next(here, &mut budget)?;
    let mut info = request.take_info().ok_or(Errno::EOTHER)?;
    let opened = Connection::open(here, &fabric, &mut info, 4)?;
    drop(fabric);
    let server = store_objects(here, opened, Some((listener, events)), |opened| {
        opened.accept(here, &[])
    })?;
    let mut client = None;
    for _ in 0..10_000 {
        client = client_slot.lock().take();
        if client.is_some() {
            break;
        }
        fsleep(Delta::from_millis(1));
    }
    drop(thread);
    let client = client.ok_or(Errno::ETIMEDOUT)??;

    let messages = [Buffer::new(here, SIZE, 0)?, Buffer::new(here, SIZE, 0)?];
    let ends = [&server, &client];
    for (end, message) in ends.into_iter().zip(messages) {
        end.send(message)?;
    }
    server.wait()?;
    client.wait()
}

fn client(here: ProcessContext, address: (u32, u16)) -> Result<Arc<End>> {
    let mut list = getinfo::find_msg(here, address, false, FI_MSG | FI_RMA)?;
    let info = list.first_mut().ok_or(Errno::ENODATA)?;
    let fabric = kofi::fabric::<Drops>(here, info)?;
    let opened = Connection::open(here, &fabric, info, 4)?;
    store_objects(here, opened, None, |opened| {
        Ok(opened.connect(here, &[])?.0)
    })
}
