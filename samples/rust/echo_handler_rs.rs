// SPDX-License-Identifier: GPL-2.0

//! The echo server of `msg_server_rs` without a thread for data transfers: messages are received and sent in
//! the handlers of two completion queues, in hardirq context.
//!
//! ```text
//! insmod echo_handler_rs.ko addr=0x0a000001 port=7471 size=4096 window=16
//! ```
//!
//! A handler gets a reader of its queue, and posts through a `Poster`. Calls that may sleep take an
//! `ProcessContext`, which a handler cannot get. The handlers move buffers from one queue to the other, and
//! allocate none.

mod getinfo;
mod server;

use kernel::prelude::*;
use kofi::{
    abi::{
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
    util::{
        context::{
            in_process,
            ProcessContext, //
        },
        thread::Thread, //
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
            description: "Maximum length of a message in bytes",
        },
        window: u16 {
            default: 16,
            description: "Messages that a client may have outstanding",
        },
    },
}

struct EchoHandler {
    /// Stops the thread and waits for it when the module is unloaded.
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
        let thread = Thread::spawn(in_process()?, c"echo_handler_rs", move |here| {
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

/// Serves one client after another until the thread is stopped (EINTR).
fn run(here: ProcessContext, options: &Options) -> Result {
    let address = (
        param_value(&module_parameters::addr),
        param_value(&module_parameters::port),
    );
    let list = getinfo::find_msg(here, address, true, FI_MSG)?;
    server::run(here, &list, options.slots, |opened| {
        serve(here, options, opened)
    })
}

/// Accepts the client, and waits until it disconnects.
fn serve(here: ProcessContext, options: &Options, opened: Unconnected) -> Result {
    // Post receives before the accept: a connected client may send at once.
    for _ in 0..options.slots {
        opened.receive(Buffer::new(here, options.size, 0)?)?;
    }
    // Install the handlers on the connected endpoint, which can send; earlier messages stay in the queue.
    let connection = opened.accept(here, &[])?;
    let endpoint = &connection.endpoint;

    // Echo received messages. A handler reads until the queue is empty: only then is it called again.
    // Buffers of failed and refused operations are dropped: the connection has ended.
    let poster = Poster::new(endpoint);
    let _echoes = connection.receives.on_interrupt(here, move |arrived| {
        while let Ok(received) = arrived.read() {
            if let Ok(len) = received.result {
                let _ = poster.send(received.buffer, len);
            }
        }
    })?;

    // Post the buffers of completed echoes as receives again.
    let poster = Poster::new(endpoint);
    let _refills = connection.transmits.on_interrupt(here, move |arrived| {
        while let Ok(sent) = arrived.read() {
            if sent.result.is_ok() {
                let _ = poster.receive(sent.buffer);
            }
        }
    })?;

    connection.wait_shutdown(here)
    // The handlers are removed here, before the connection is closed.
}
