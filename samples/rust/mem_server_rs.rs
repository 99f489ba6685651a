// SPDX-License-Identifier: GPL-2.0

//! A memory server: exposes a memory region to one client after another. A client reads and writes the region
//! by RMA, without involving the server's thread.
//!
//! ```text
//! insmod mem_server_rs.ko addr=0x0a000001 port=7471 size=65536
//! ```
//!
//! The private data of the accept has the region's address and remote key. Each message that then arrives
//! requests the CRC-32 of the region. A key is valid for one connection: each client gets its own region and
//! key.

mod crc32;
mod getinfo;
mod region_info;
mod server;

use crc32::crc32;
use kernel::prelude::*;
use kofi::{
    abi::{
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
    util::{
        context::{
            in_process,
            ProcessContext, //
        },
        thread::Thread, //
    },
};
use region_info::RegionInfo;

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
            description: "Length of the region in bytes",
        },
    },
}

/// Length of a CRC request's buffer, in which the reply is sent.
const REQUEST_LEN: usize = 8;
/// CRC requests that a client may have outstanding.
const WINDOW: usize = 4;

struct MemServer {
    /// Stops the thread and waits for it when the module is unloaded.
    _thread: Thread,
}

impl kernel::Module for MemServer {
    fn init(_module: &'static ThisModule) -> kernel::error::Result<Self> {
        let size = param_value(&module_parameters::size);
        if size == 0 {
            return Err(EINVAL);
        }
        let thread = Thread::spawn(in_process()?, c"mem_server_rs", move |here| {
            match run(here, size) {
                Ok(()) | Err(Errno::EINTR) => {}
                Err(errno) => pr_err!("{}\n", errno),
            }
        })?;
        Ok(Self { _thread: thread })
    }
}

/// Serves one client after another until the thread is stopped (EINTR).
fn run(here: ProcessContext, size: usize) -> Result {
    let address = (
        param_value(&module_parameters::addr),
        param_value(&module_parameters::port),
    );
    let list = getinfo::find_rma(here, address, true)?;
    server::run(here, &list, WINDOW, |opened| serve(here, size, opened))
}

/// Returns the initial value of the byte at `offset` of the region.
fn initial_byte(offset: usize) -> u8 {
    offset.wrapping_mul(7).wrapping_add(3) as u8
}

/// Exposes a region to the client of this connection until it disconnects.
fn serve(here: ProcessContext, size: usize, opened: Unconnected) -> Result {
    let mut buffer = Buffer::new(here, size, 0)?;
    for (offset, byte) in buffer.iter_mut().enumerate() {
        *byte = initial_byte(offset);
    }
    let region = RemoteBuffer::new(here, opened.domain(), buffer, RemoteAccess::ReadWrite)?;
    let info = RegionInfo {
        remote: region.remote(),
        len: region.len(),
        has_atomics: opened.caps() & FI_ATOMIC != 0,
    };
    for _ in 0..WINDOW {
        opened.receive(Buffer::new(here, REQUEST_LEN, 0)?)?;
    }
    let connection = opened.accept(here, &info.to_bytes())?;
    match serve_requests(here, &connection, &region) {
        // Receives that are still posted when the connection ends are cancelled.
        Err(Errno::ECANCELED | Errno::ENOTCONN) => connection.wait_shutdown(here),
        result => result,
    }
    // The region is deregistered here: its key gives no access any more.
}

/// Replies to CRC requests, in their buffers, until the client disconnects.
fn serve_requests(here: ProcessContext, connection: &Connection, region: &RemoteBuffer) -> Result {
    let mut contents = KVVec::from_elem(0, region.len(), GFP_KERNEL)?;
    loop {
        let (mut request, _) = connection.wait_received(here)?;
        region.read(0, &mut contents)?;
        request[..4].copy_from_slice(&crc32(&contents).to_be_bytes());
        connection.endpoint.send(request, 4)?;
        connection.endpoint.receive(connection.wait_sent(here)?)?;
    }
}
