// SPDX-License-Identifier: GPL-2.0

//! A client of `msg_server`: sends one message at a time, and verifies its echo.
//!
//! ```text
//! insmod msg_client_rs.ko addr=0x0a000001 port=7471 size=64 count=1000
//! ```
//!
//! The client's thread logs the results when it ends. The module can be unloaded at any time.

mod getinfo;

use kernel::{
    prelude::*,
    time::{
        Instant,
        Monotonic, //
    },
};
use kofi::{
    abi::{
        Errno,
        Result,
        FI_MSG, //
    },
    compat::param_value,
    fi::{
        memory::Buffer,
        msg::Connection, //
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
    type: MsgClient,
    name: "msg_client_rs",
    authors: ["kOFI contributors"],
    description: "kOFI sample: message client in Rust",
    license: "GPL",
    params: {
        addr: u32 {
            default: 0,
            description: "IPv4 address of the server as a number, 10.0.0.1 is 0x0a000001",
        },
        port: u16 {
            default: 7471,
            description: "Port of the server",
        },
        size: usize {
            default: 64,
            description: "Length of a message in bytes",
        },
        count: u32 {
            default: 1000,
            description: "Messages to send",
        },
    },
}

struct MsgClient {
    /// Stops the thread, if it still runs, and waits for it when the module is unloaded.
    _thread: Thread,
}

impl kernel::Module for MsgClient {
    fn init(_module: &'static ThisModule) -> kernel::error::Result<Self> {
        let size = param_value(&module_parameters::size);
        if param_value(&module_parameters::addr) == 0 || size == 0 {
            return Err(EINVAL);
        }
        let thread = Thread::spawn(in_process()?, c"msg_client_rs", move |here| {
            report(here, size)
        })?;
        Ok(Self { _thread: thread })
    }
}

#[derive(Default)]
struct Outcome {
    echoed: u32,
    errors: u32,
    usec: i64,
}

fn report(here: ProcessContext, size: usize) {
    let mut outcome = Outcome::default();
    if let Err(errno) = run(here, size, &mut outcome) {
        pr_err!("{}\n", errno);
        outcome.errors += 1;
    }
    pr_info!(
        "done count={} size={} usec={} errors={}\n",
        outcome.echoed,
        size,
        outcome.usec,
        outcome.errors
    );
}

/// Returns the bytes of message number `seq`; consecutive messages differ.
fn pattern(seq: u32) -> impl Iterator<Item = u8> {
    let first = seq.wrapping_mul(7) as u8;
    (0..=u8::MAX).cycle().map(move |i| first.wrapping_add(i))
}

fn fill(message: &mut [u8], seq: u32) {
    for (byte, value) in message.iter_mut().zip(pattern(seq)) {
        *byte = value;
    }
}

fn is_intact(message: &[u8], seq: u32) -> bool {
    message.iter().copied().eq(pattern(seq).take(message.len()))
}

fn run(here: ProcessContext, size: usize, outcome: &mut Outcome) -> Result {
    let address = (
        param_value(&module_parameters::addr),
        param_value(&module_parameters::port),
    );
    // The info names the device that has a route to the server.
    let mut list = getinfo::find_msg(here, address, false, FI_MSG)?;
    let info = list.first_mut().ok_or(Errno::ENODATA)?;
    let fabric = kofi::fabric::<MsgClient>(here, info)?;
    let opened = Connection::open(here, &fabric, info, 1)?;
    let (connection, _) = opened.connect(here, &[])?;

    let start = Instant::<Monotonic>::now();
    transfer(here, &connection, size, outcome)?;
    outcome.usec = start.elapsed().as_micros_ceil();
    connection.endpoint.shutdown(here)
}

fn transfer(
    here: ProcessContext,
    connection: &Connection,
    size: usize,
    outcome: &mut Outcome,
) -> Result {
    let endpoint = &connection.endpoint;
    // A posted buffer is owned by the operation, whose completion returns it. A registered buffer is not
    // mapped for each operation.
    let mut out = Buffer::registered(here, endpoint.domain(), size, 0)?;
    let mut back = Buffer::registered(here, endpoint.domain(), size, 0)?;
    while outcome.echoed < param_value(&module_parameters::count) {
        let seq = outcome.echoed;
        fill(&mut out, seq);
        // Post the receive first: the echo may arrive before `send()` returns.
        endpoint.receive(back)?;
        endpoint.send(out, size)?;
        let (received, len) = connection.wait_received(here)?;
        let sent = connection.wait_sent(here)?;

        outcome.echoed += 1;
        if len != size || !is_intact(&received, seq) {
            outcome.errors += 1;
        }
        (out, back) = (sent, received);
    }
    Ok(())
}
