// SPDX-License-Identifier: GPL-2.0

//! A client of `mem_server`: writes the server's region, reads it back, applies atomic operations to it if the
//! device has them, and compares the server's CRC of the region with its own.
//!
//! ```text
//! insmod mem_client_rs.ko addr=0x0a000001 port=7471 count=10
//! ```
//!
//! The client's thread logs the results when it ends. The module can be unloaded at any time.

mod crc32;
mod getinfo;
mod region_info;

use crc32::crc32;
use kernel::prelude::*;
use kofi::{
    abi::{
        self,
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

/// Length of a CRC request.
const REQUEST_LEN: usize = 8;

struct MemClient {
    /// Stops the thread, if it still runs, and waits for it when the module is unloaded.
    _thread: Thread,
}

impl kernel::Module for MemClient {
    fn init(_module: &'static ThisModule) -> kernel::error::Result<Self> {
        if param_value(&module_parameters::addr) == 0 {
            return Err(EINVAL);
        }
        let thread = Thread::spawn(in_process()?, c"mem_client_rs", report)?;
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
    let address = (
        param_value(&module_parameters::addr),
        param_value(&module_parameters::port),
    );
    let mut list = getinfo::find_rma(here, address, false)?;
    let info = list.first_mut().ok_or(Errno::ENODATA)?;
    let has_atomics = info.caps() & abi::FI_ATOMIC != 0;
    let fabric = kofi::fabric::<MemClient>(here, info)?;
    let opened = Connection::open(here, &fabric, info, 1)?;
    let (connection, connected) = opened.connect(here, &[])?;
    let region = RegionInfo::from_bytes(connected.data()).ok_or(Errno::ETOOSMALL)?;

    let mut buffer = Buffer::new(here, region.len, 0)?;
    while outcome.rounds < param_value(&module_parameters::count) {
        buffer = write_and_verify(here, &connection, &region, buffer, outcome)?;
        if has_atomics && region.has_atomics {
            test_atomics(here, &connection, &region, outcome)?;
        }
        outcome.errors += u32::from(request_crc(here, &connection)? != crc32(&buffer));
        outcome.rounds += 1;
    }
    connection.endpoint.shutdown(here)
}

/// Returns the byte at `offset` of the region in a round.
fn pattern(round: u32, offset: usize) -> u8 {
    (round as usize).wrapping_mul(31).wrapping_add(offset) as u8
}

/// Writes the region, reads it back, and compares.
fn write_and_verify(
    here: ProcessContext,
    connection: &Connection,
    region: &RegionInfo,
    mut buffer: KBox<Buffer>,
    outcome: &mut Outcome,
) -> Result<KBox<Buffer>> {
    let endpoint = &connection.endpoint;
    let round = outcome.rounds;
    for (offset, byte) in buffer.iter_mut().enumerate() {
        *byte = pattern(round, offset);
    }
    endpoint.write(buffer, region.len, region.remote)?;
    let mut buffer = connection.wait_sent(here)?;
    buffer.fill(0);
    endpoint.read(buffer, region.len, region.remote)?;
    let buffer = connection.wait_sent(here)?;
    let is_intact = buffer
        .iter()
        .enumerate()
        .all(|(offset, byte)| *byte == pattern(round, offset));
    outcome.errors += u32::from(!is_intact);
    Ok(buffer)
}

/// Requests the CRC of the region.
fn request_crc(here: ProcessContext, connection: &Connection) -> Result<u32> {
    let endpoint = &connection.endpoint;
    endpoint.receive(Buffer::new(here, REQUEST_LEN, 0)?)?;
    endpoint.send(Buffer::new(here, REQUEST_LEN, 0)?, REQUEST_LEN)?;
    connection.wait_sent(here)?;
    let (reply, _) = connection.wait_received(here)?;
    let crc = reply.first_chunk().ok_or(Errno::ETOOSMALL)?;
    Ok(u32::from_be_bytes(*crc))
}

/// Adds to the first word, and swaps it back.
fn test_atomics(
    here: ProcessContext,
    connection: &Connection,
    region: &RegionInfo,
    outcome: &mut Outcome,
) -> Result {
    let endpoint = &connection.endpoint;
    let word = RemoteElements {
        remote: region.remote,
        count: 1,
        datatype: Datatype::from_raw(abi::FI_UINT64)?,
    };
    let round = outcome.rounds;
    let before = u64::from_ne_bytes(core::array::from_fn(|offset| pattern(round, offset)));
    let after = before.wrapping_add(1000);

    // The buffer has the operands when the operation is posted, ...
    let mut buffer = Buffer::new(here, 16, 0)?;
    buffer[..8].copy_from_slice(&1000u64.to_ne_bytes());
    endpoint.fetch(buffer, Op::Sum, word)?;
    let mut buffer = connection.wait_sent(here)?;
    // ... and the previous value when it completes.
    outcome.errors += u32::from(buffer[..8] != before.to_ne_bytes());

    buffer[..8].copy_from_slice(&before.to_ne_bytes());
    buffer[8..].copy_from_slice(&after.to_ne_bytes());
    endpoint.compare(buffer, Op::Swap, word)?;
    let buffer = connection.wait_sent(here)?;
    outcome.errors += u32::from(buffer[..8] != after.to_ne_bytes());
    Ok(())
}
