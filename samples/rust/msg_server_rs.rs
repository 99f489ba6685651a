// SPDX-License-Identifier: GPL-2.0

//! A server that sends every message back: the smallest whole kOFI service, without `unsafe`.
//!
//! ```text
//! insmod msg_server_rs.ko addr=0x0a000001 port=7471 size=4096 window=16
//! ```
//!
//! It serves one client after another until the module is unloaded. A message may be at most `size`
//! bytes long, and a client may have `window` of them under way: each needs a receive that was
//! posted before it arrives.

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
            Connection,
            Unconnected, //
        },
    },
};

module! {
    type: MsgServer,
    name: "msg_server_rs",
    authors: ["kOFI contributors"],
    description: "kOFI sample: message echo server in Rust",
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

struct MsgServer {
    /// Dropped when the module is unloaded: that stops the thread and waits for it.
    _thread: Thread,
}

impl kernel::Module for MsgServer {
    fn init(_module: &'static ThisModule) -> kernel::error::Result<Self> {
        let options = Options {
            size: param_value(&module_parameters::size),
            window: param_value(&module_parameters::window).into(),
        };
        if options.size == 0 || options.window == 0 {
            return Err(EINVAL);
        }
        let thread = Thread::run(in_process()?, c"msg_server_rs", move |here| {
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
    window: usize,
}

/// Serves one client after another until it is told to stop, which is an error as any other.
fn run(here: ProcessContext, options: &Options) -> Result {
    let place = (
        param_value(&module_parameters::addr),
        param_value(&module_parameters::port),
    );
    let list = offers::find(here, place, true, FI_MSG)?;
    service::run(here, &list, 2 * options.window, |opened| {
        serve(here, options, opened)
    })
}

/// Accepts the client that the endpoint was made for, until it leaves.
fn serve(here: ProcessContext, options: &Options, opened: Unconnected) -> Result {
    // Before the accept: the client may send as soon as it is connected.
    for _ in 0..options.window {
        opened.receive(Buffer::new(here, options.size, 0)?)?;
    }
    let connection = opened.accept(here, &[])?;

    match echo_all(here, options, &connection) {
        // What is posted when a connection ends comes back as cancelled, and then the event queue
        // tells why.
        Err(Errno::ECANCELED | Errno::ENOTCONN) => connection.end(here),
        result => result,
    }
}

/// Sends every message back, until that fails.
fn echo_all(here: ProcessContext, options: &Options, connection: &Connection) -> Result {
    let mut echoes = 0;
    loop {
        let (message, len) = connection.received(here)?;
        let spare = if echoes < options.window {
            echoes += 1;
            Buffer::new(here, options.size, 0)?
        } else {
            // The buffer of the oldest echo.
            connection.sent(here)?
        };
        // The receive first: the echo invites the client to send again.
        connection.endpoint.receive(spare)?;
        connection.endpoint.send(message, len)?;
    }
}
