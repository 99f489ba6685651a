// SPDX-License-Identifier: GPL-2.0

//! A memory server: it lends a region to one client after another, who reads and writes there without any
//! help of this CPU.
//!
//! ```text
//! insmod mem_server_rs.ko addr=0x0a000001 port=7471 size=65536
//! ```
//!
//! Where the region is, and the key to it, goes with the accept. Whatever message then arrives asks for the
//! sum of the region: the answer is its CRC-32. A key ends with its connection: the next client has a
//! region and a key of its own.

mod crc32;
mod grant;
mod offers;
mod service;

use crc32::crc32;
use grant::Grant;
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
        FI_ATOMIC, //
    },
    compat::param_value,
    fi::{
        memory::Buffer,
        msg::{
            Connection,
            RemoteAccess,
            RemoteBuffer,
            Unconnected, //
        },
    },
};

module! {
    type: MemServer,
    name: "mem_server_rs",
    authors: ["kOFI contributors"],
    description: "kOFI sample: memory server in Rust",
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
            default: 65536,
            description: "Bytes of the region",
        },
    },
}

/// Bytes of a question, and room for an answer.
const QUESTION: usize = 8;
/// Questions that a client may have under way.
const WINDOW: usize = 4;

struct MemServer {
    /// Dropped when the module is unloaded: that stops the thread and waits for it.
    _thread: Thread,
}

impl kernel::Module for MemServer {
    fn init(_module: &'static ThisModule) -> kernel::error::Result<Self> {
        let size = param_value(&module_parameters::size);
        if size == 0 {
            return Err(EINVAL);
        }
        let thread = Thread::run(in_process()?, c"mem_server_rs", move |here| {
            match run(here, size) {
                Ok(()) | Err(Errno::EINTR) => {}
                Err(errno) => pr_err!("{}\n", errno),
            }
        })?;
        Ok(Self { _thread: thread })
    }
}

/// Serves one client after another until it is told to stop, which is an error as any other.
fn run(here: ProcessContext, size: usize) -> Result {
    let place = (
        param_value(&module_parameters::addr),
        param_value(&module_parameters::port),
    );
    let list = offers::find_memory(here, place, true)?;
    service::run(here, &list, WINDOW, |opened| serve(here, size, opened))
}

/// What each client finds in the region.
fn first_byte(at: usize) -> u8 {
    at.wrapping_mul(7).wrapping_add(3) as u8
}

/// Lends a region to the client that the endpoint was made for, until it leaves.
fn serve(here: ProcessContext, size: usize, opened: Unconnected) -> Result {
    let mut buffer = Buffer::new(here, size, 0)?;
    for (at, byte) in buffer.iter_mut().enumerate() {
        *byte = first_byte(at);
    }
    let lent = RemoteBuffer::new(here, opened.domain(), buffer, RemoteAccess::ReadWrite)?;
    let grant = Grant {
        region: lent.remote(),
        len: lent.len(),
        has_atomics: opened.caps() & FI_ATOMIC != 0,
    };
    for _ in 0..WINDOW {
        opened.receive(Buffer::new(here, QUESTION, 0)?)?;
    }
    let connection = opened.accept(here, &grant.to_bytes())?;
    match answer_all(here, &connection, &lent) {
        // What is posted when a connection ends comes back as cancelled.
        Err(Errno::ECANCELED | Errno::ENOTCONN) => connection.end(here),
        result => result,
    }
    // The region is taken back here: nobody reaches it by that key any more.
}

/// Answers questions, in the places where they came, until the client leaves.
fn answer_all(here: ProcessContext, connection: &Connection, lent: &RemoteBuffer) -> Result {
    let mut region = KVVec::from_elem(0, lent.len(), GFP_KERNEL)?;
    loop {
        let (mut question, _) = connection.received(here)?;
        lent.read(0, &mut region)?;
        question[..4].copy_from_slice(&crc32(&region).to_be_bytes());
        connection.endpoint.send(question, 4)?;
        connection.endpoint.receive(connection.sent(here)?)?;
    }
}
