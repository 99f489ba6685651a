// SPDX-License-Identifier: GPL-2.0

//! The server of `msg_server_rs` again, but no thread moves a message: everything between two
//! connections is done in the callbacks of two completion queues, in hard interrupts.
//!
//! ```text
//! insmod echo_handler_rs.ko addr=0x0a000001 port=7471 size=4096 window=16
//! ```
//!
//! A callback is given the reading end of its queue, and posts through a `Poster`. What might sleep wants
//! to be told `here`, which a callback has no way to have. Buffers go from one queue to the other; none is
//! allocated on the way.

mod offers;
mod service;

use kernel::prelude::*;
use kofi::{
    abi::{
        context::{
            in_process,
            ProcessContext, //
        },
        thread::Thread,
        Errno,
        Result,
        FI_MSG, //
    },
    compat::param_value,
    fi::{
        memory::Buffer,
        msg::{
            Poster,
            Unconnected, //
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
            size: param_value(&module_parameters::size),
            slots: 2 * usize::from(param_value(&module_parameters::window)),
        };
        if options.size == 0 || options.slots == 0 {
            return Err(EINVAL);
        }
        let thread = Thread::run(in_process()?, c"echo_handler_rs", move |here| {
            match run(here, &options) {
                Ok(()) | Err(Errno::EINTR) => {}
                Err(errno) => pr_err!("{}\n", errno),
            }
        })?;
        Ok(Self { _thread: thread })
    }
}

struct Options {
    size: usize,
    slots: usize,
}

/// Serves one client after another until it is told to stop, which is an error as any other.
fn run(here: ProcessContext, options: &Options) -> Result {
    let place = (
        param_value(&module_parameters::addr),
        param_value(&module_parameters::port),
    );
    let list = offers::find(here, place, true, FI_MSG)?;
    service::run(here, &list, options.slots, |opened| {
        serve(here, options, opened)
    })
}

/// Sets the client off, and has nothing to do until it leaves.
fn serve(here: ProcessContext, options: &Options, opened: Unconnected) -> Result {
    // Before the accept: the client may send as soon as it is connected.
    for _ in 0..options.slots {
        opened.receive(Buffer::new(here, options.size, 0)?)?;
    }
    // Not before this can an echo be sent; a message that was faster waits in the queue.
    let connection = opened.accept(here, &[])?;
    let endpoint = &connection.endpoint;

    // What was received is sent back. A callback reads until there is nothing left: only then is it
    // called again. What has failed, or is refused, ends here: the connection is over.
    let poster = Poster::new(endpoint);
    let _echoes = connection.receives.on_interrupt(here, move |arrived| {
        while let Ok(received) = arrived.read() {
            if let Ok(len) = received.result {
                let _ = poster.send(received.buffer, len);
            }
        }
    })?;

    // What was sent back can receive again.
    let poster = Poster::new(endpoint);
    let _refills = connection.transmits.on_interrupt(here, move |arrived| {
        while let Ok(sent) = arrived.read() {
            if sent.result.is_ok() {
                let _ = poster.receive(sent.buffer);
            }
        }
    })?;

    connection.end(here)
    // The calls end here, before the connection closes.
}
