// SPDX-License-Identifier: GPL-2.0

//! A client of `mem_server`: writes all of the region that it is lent, reads it back, changes words of
//! it atomically where the device can, and asks for the server's sum, which has to be its own.
//!
//! ```text
//! insmod mem_client_rs.ko addr=0x0a000001 port=7471 count=10
//! ```
//!
//! Its thread ends with a line of results; the module can be unloaded at any time, before that too.

mod crc32;
mod grant;
mod offers;

use crc32::crc32;
use grant::Grant;
use kernel::prelude::*;
use kofi::{
    abi::{
        self,
        context::{
            in_process,
            ProcessContext, //
        },
        thread::Thread,
        Errno,
        Result, //
    },
    compat::param_value,
    fi::{
        atomic::{
            Datatype,
            Op, //
        },
        memory::Buffer,
        msg::{
            Connection,
            RemoteElements, //
        },
    },
};

module! {
    type: MemClient,
    name: "mem_client_rs",
    authors: ["kOFI contributors"],
    description: "kOFI sample: client of a memory server in Rust",
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
        count: u32 {
            default: 10,
            description: "Rounds",
        },
    },
}

/// Bytes of a question.
const QUESTION: usize = 8;

struct MemClient {
    /// Dropped when the module is unloaded: that stops the thread, if need be, and waits for it.
    _thread: Thread,
}

impl kernel::Module for MemClient {
    fn init(_module: &'static ThisModule) -> kernel::error::Result<Self> {
        if param_value(&module_parameters::addr) == 0 {
            return Err(EINVAL);
        }
        let thread = Thread::run(in_process()?, c"mem_client_rs", report)?;
        Ok(Self { _thread: thread })
    }
}

#[derive(Default)]
struct Outcome {
    rounds: u32,
    errors: u32,
}

fn report(here: ProcessContext) {
    let mut outcome = Outcome::default();
    if let Err(errno) = run(here, &mut outcome) {
        pr_err!("{}\n", errno);
        outcome.errors += 1;
    }
    pr_info!("done count={} errors={}\n", outcome.rounds, outcome.errors);
}

fn run(here: ProcessContext, outcome: &mut Outcome) -> Result {
    let place = (
        param_value(&module_parameters::addr),
        param_value(&module_parameters::port),
    );
    let mut list = offers::find_memory(here, place, false)?;
    let info = list.first_mut().ok_or(Errno::ENODATA)?;
    let has_atomics = info.caps() & abi::FI_ATOMIC != 0;
    let fabric = kofi::fabric::<MemClient>(here, info)?;
    let opened = Connection::open(here, &fabric, info, 1)?;
    let (connection, connected) = opened.connect(here, &[])?;
    let grant = Grant::from_bytes(connected.data()).ok_or(Errno::ETOOSMALL)?;

    let mut buffer = Buffer::new(here, grant.len, 0)?;
    while outcome.rounds < param_value(&module_parameters::count) {
        buffer = go_round(here, &connection, &grant, buffer, outcome)?;
        if has_atomics && grant.has_atomics {
            change(here, &connection, &grant, outcome)?;
        }
        outcome.errors += u32::from(ask(here, &connection)? != crc32(&buffer));
        outcome.rounds += 1;
    }
    connection.endpoint.shutdown(here)
}

/// What byte `at` is in a round.
fn pattern(round: u32, at: usize) -> u8 {
    (round as usize).wrapping_mul(31).wrapping_add(at) as u8
}

/// Writes the region, and reads what it is then.
fn go_round(
    here: ProcessContext,
    connection: &Connection,
    grant: &Grant,
    mut buffer: KBox<Buffer>,
    outcome: &mut Outcome,
) -> Result<KBox<Buffer>> {
    let round = outcome.rounds;
    for (at, byte) in buffer.iter_mut().enumerate() {
        *byte = pattern(round, at);
    }
    connection.endpoint.write(buffer, grant.len, grant.region)?;
    let mut buffer = connection.sent(here)?;
    buffer.fill(0);
    connection.endpoint.read(buffer, grant.len, grant.region)?;
    let buffer = connection.sent(here)?;
    let is_intact = buffer
        .iter()
        .enumerate()
        .all(|(at, byte)| *byte == pattern(round, at));
    outcome.errors += u32::from(!is_intact);
    Ok(buffer)
}

/// Asks for the sum of the region.
fn ask(here: ProcessContext, connection: &Connection) -> Result<u32> {
    let endpoint = &connection.endpoint;
    endpoint.receive(Buffer::new(here, QUESTION, 0)?)?;
    endpoint.send(Buffer::new(here, QUESTION, 0)?, QUESTION)?;
    connection.sent(here)?;
    let (answer, _) = connection.received(here)?;
    let sum = answer.first_chunk().ok_or(Errno::ETOOSMALL)?;
    Ok(u32::from_be_bytes(*sum))
}

/// Changes the first word, and back.
fn change(
    here: ProcessContext,
    connection: &Connection,
    grant: &Grant,
    outcome: &mut Outcome,
) -> Result {
    let endpoint = &connection.endpoint;
    let word = RemoteElements {
        remote: grant.region,
        count: 1,
        datatype: Datatype::from_raw(abi::FI_UINT64)?,
    };
    let round = outcome.rounds;
    let before = u64::from_ne_bytes(core::array::from_fn(|at| pattern(round, at)));
    let after = before.wrapping_add(1000);

    // What the operands are when it is posted, ...
    let mut buffer = Buffer::new(here, 16, 0)?;
    buffer[..8].copy_from_slice(&1000u64.to_ne_bytes());
    endpoint.fetch(buffer, Op::Sum, word)?;
    let mut buffer = connection.sent(here)?;
    // ... the old value is in their place when it is over.
    outcome.errors += u32::from(buffer[..8] != before.to_ne_bytes());

    buffer[..8].copy_from_slice(&before.to_ne_bytes());
    buffer[8..].copy_from_slice(&after.to_ne_bytes());
    endpoint.compare(buffer, Op::Swap, word)?;
    let buffer = connection.sent(here)?;
    outcome.errors += u32::from(buffer[..8] != after.to_ne_bytes());
    Ok(())
}
