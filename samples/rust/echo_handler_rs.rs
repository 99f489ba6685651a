// SPDX-License-Identifier: GPL-2.0

//! The server of `msg_server_rs` again, but no thread moves a message: everything between two
//! connections is done in the callbacks of two completion queues, in hard interrupts.
//!
//! ```text
//! insmod echo_handler_rs.ko addr=0x0a000001 port=7471 size=4096 window=16
//! ```
//!
//! A callback is given the reading end of its queue, and posts through a `Poster`: neither has a call
//! that sleeps. Buffers go from one to the other; none is allocated on the way.

mod offers;
mod service;

use kernel::prelude::*;
use kofi::{
    abi::{
        thread::Thread,
        Errno,
        Result, //
    },
    fi::{
        memory::Buffer,
        msg::{
            Connection,
            Poster, //
        },
    },
};

module! {
    type: EchoHandler,
    name: "echo_handler_rs",
    authors: ["kOFI contributors"],
    description: "kOFI sample: echo server in completion callbacks, in Rust",
    license: "GPL",
    params: {
        addr: u32 {
            default: 0,
            description: "Local IPv4 address as a number, 10.0.0.1 is 0x0a000001 (default: any)",
        },
        port: u16 {
            default: 7471,
            description: "Port to listen on",
        },
        size: usize {
            default: 4096,
            description: "Bytes of the longest message",
        },
        window: u16 {
            default: 16,
            description: "Messages that a client may have under way",
        },
    },
}

struct EchoHandler {
    /// Dropped when the module is unloaded: that stops the thread and waits for it.
    _thread: Thread,
}

impl kernel::Module for EchoHandler {
    fn init(_module: &'static ThisModule) -> kernel::error::Result<Self> {
        let options = Options {
            size: module_parameters::size.value(),
            slots: 2 * usize::from(module_parameters::window.value()),
        };
        if options.size == 0 || options.slots == 0 {
            return Err(EINVAL);
        }
        let thread = Thread::run(c"echo_handler_rs", move || match run(&options) {
            Ok(()) | Err(Errno::EINTR) => {}
            Err(errno) => pr_err!("{}\n", errno),
        })?;
        Ok(Self { _thread: thread })
    }
}

struct Options {
    size: usize,
    slots: usize,
}

/// Serves one client after another until it is told to stop, which is an error as any other.
fn run(options: &Options) -> Result {
    let (addr, port) = (
        module_parameters::addr.value(),
        module_parameters::port.value(),
    );
    service::run(addr, port, options.slots, |client| serve(options, client))
}

/// Sets the client off, and has nothing to do until it leaves.
fn serve(options: &Options, connection: &Connection) -> Result {
    let endpoint = &connection.endpoint;
    // Before the accept: the client may send as soon as it is connected.
    for _ in 0..options.slots {
        endpoint.receive(Buffer::new(options.size, 0)?)?;
    }
    // Not before this can an echo be sent; a message that was faster waits in the queue.
    connection.accept(&[])?;

    // What was received is sent back. A callback reads until there is nothing left: only then is it
    // called again. What has failed, or is refused, ends here: the connection is over.
    let poster = Poster::new(endpoint);
    let _echoes = connection.receives.on_interrupt(move |arrived| {
        while let Ok(received) = arrived.read() {
            if let Ok(len) = received.result {
                let _ = poster.send(received.buffer, len);
            }
        }
    })?;

    // What was sent back can receive again.
    let poster = Poster::new(endpoint);
    let _refills = connection.transmits.on_interrupt(move |arrived| {
        while let Ok(sent) = arrived.read() {
            if sent.result.is_ok() {
                let _ = poster.receive(sent.buffer);
            }
        }
    })?;

    connection.end()
    // The calls end here, before the connection closes.
}
