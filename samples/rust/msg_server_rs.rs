// SPDX-License-Identifier: GPL-2.0

//! A server that echoes every message: the smallest complete kOFI service, without `unsafe`.
//!
//! ```text
//! insmod msg_server_rs.ko addr=0x0a000001 port=7471 size=4096 window=16
//! ```
//!
//! The server accepts one client after another until the module is unloaded. A message has at most `size`
//! bytes. A client may have `window` messages outstanding, because each message consumes a receive that was
//! posted before it arrives.

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
            Connection,
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
            description: "Maximum length of a message in bytes",
        },
        window: u16 {
            default: 16,
            description: "Messages that a client may have outstanding",
        },
    },
}

struct MsgServer {
    /// Stops the thread and waits for it when the module is unloaded.
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
        let thread = Thread::spawn(in_process()?, c"msg_server_rs", move |here| {
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

/// Serves one client after another until the thread is stopped (EINTR).
fn run(here: ProcessContext, options: &Options) -> Result {
    let address = (
        param_value(&module_parameters::addr),
        param_value(&module_parameters::port),
    );
    let list = getinfo::find_msg(here, address, true, FI_MSG)?;
    server::run(here, &list, 2 * options.window, |opened| {
        serve(here, options, opened)
    })
}

/// Accepts the client of this connection, and serves it until it disconnects.
fn serve(here: ProcessContext, options: &Options, opened: Unconnected) -> Result {
    // Post receives before the accept: a connected client may send at once.
    for _ in 0..options.window {
        opened.receive(Buffer::new(here, options.size, 0)?)?;
    }
    let connection = opened.accept(here, &[])?;

    match echo_all(here, options, &connection) {
        // Receives that are still posted when the connection ends are cancelled, and the event queue
        // then reports the disconnect.
        Err(Errno::ECANCELED | Errno::ENOTCONN) => connection.wait_shutdown(here),
        result => result,
    }
}

/// Echoes every message until an operation fails.
fn echo_all(here: ProcessContext, options: &Options, connection: &Connection) -> Result {
    let mut echoes = 0;
    loop {
        let (message, len) = connection.wait_received(here)?;
        let spare = if echoes < options.window {
            echoes += 1;
            Buffer::new(here, options.size, 0)?
        } else {
            // Reuse the buffer of the oldest echo.
            connection.wait_sent(here)?
        };
        // Post the receive first: the client may send again when it has the echo.
        connection.endpoint.receive(spare)?;
        connection.endpoint.send(message, len)?;
    }
}
