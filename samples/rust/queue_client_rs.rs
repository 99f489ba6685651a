// SPDX-License-Identifier: GPL-2.0

//! A client of `queue_server_rs`: takes tasks from the server's queue and writes their results, until the queue
//! is empty. Several clients, on any machine, can use one queue at the same time.
//!
//! ```text
//! insmod queue_client_rs.ko addr=0x0a000001 port=7471
//! ```
//!
//! The client's thread logs the results when it ends. The module can be unloaded at any time.

mod getinfo;
mod queue_layout;
mod region_info;

use kernel::prelude::*;
use kofi::{
    abi::{
        Errno,
        Result,
        FI_ATOMIC,
        FI_MSG,
        FI_RMA,
        FI_UINT64, //
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
    type: QueueClient,
    name: "queue_client_rs",
    authors: ["kOFI contributors"],
    description: "kOFI sample: client of a task queue in Rust",
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
    },
}

struct QueueClient {
    /// Stops the thread, if it still runs, and waits for it when the module is unloaded.
    _thread: Thread,
}

impl kernel::Module for QueueClient {
    fn init(_module: &'static ThisModule) -> kernel::error::Result<Self> {
        if param_value(&module_parameters::addr) == 0 {
            return Err(EINVAL);
        }
        let thread = Thread::spawn(in_process()?, c"queue_client_rs", report)?;
        Ok(Self { _thread: thread })
    }
}

fn report(here: ProcessContext) {
    let (mut tasks, mut errors) = (0, 0);
    if let Err(errno) = run(here, &mut tasks) {
        pr_err!("{}\n", errno);
        errors += 1;
    }
    pr_info!("done tasks={} errors={}\n", tasks, errors);
}

fn run(here: ProcessContext, tasks: &mut u32) -> Result {
    let address = (
        param_value(&module_parameters::addr),
        param_value(&module_parameters::port),
    );
    let mut list = getinfo::find_msg(here, address, false, FI_MSG | FI_RMA | FI_ATOMIC)?;
    let info = list.first_mut().ok_or(Errno::ENODATA)?;
    let fabric = kofi::fabric::<QueueClient>(here, info)?;
    let opened = Connection::open(here, &fabric, info, 1)?;
    let (connection, connected) = opened.connect(here, &[])?;
    let region = RegionInfo::from_bytes(connected.data()).ok_or(Errno::ETOOSMALL)?;

    let endpoint = &connection.endpoint;
    let mut buffer = Buffer::new(here, queue_layout::WORD, 0)?;
    loop {
        buffer = add_one(here, &connection, &region, queue_layout::TAKEN, buffer)?;
        let number = buffer.first_chunk().copied().ok_or(Errno::ETOOSMALL)?;
        let number = u64::from_ne_bytes(number);
        let offset = queue_layout::result_offset(number as usize);
        if offset >= region.len {
            return endpoint.shutdown(here);
        }
        write_word(&mut buffer, queue_layout::compute_result(number));
        let remote = region.remote.offset_by(offset as u64);
        endpoint.write(buffer, queue_layout::WORD, remote)?;
        buffer = connection.wait_sent(here)?;
        // Count the task after its result: a reader of this counter then finds the result.
        buffer = add_one(here, &connection, &region, queue_layout::DONE, buffer)?;
        *tasks += 1;
    }
}

/// Writes a word to the buffer, which has its length.
fn write_word(buffer: &mut Buffer, number: u64) {
    if let Some(word) = buffer.first_chunk_mut() {
        *word = number.to_ne_bytes();
    }
}

/// Increments the counter at `offset`, and returns the buffer with its previous value.
fn add_one(
    here: ProcessContext,
    connection: &Connection,
    region: &RegionInfo,
    offset: usize,
    mut buffer: KBox<Buffer>,
) -> Result<KBox<Buffer>> {
    let counter = RemoteElements {
        remote: region.remote.offset_by(offset as u64),
        count: 1,
        datatype: Datatype::from_raw(FI_UINT64)?,
    };
    write_word(&mut buffer, 1);
    connection.endpoint.fetch(buffer, Op::Sum, counter)?;
    connection.wait_sent(here)
}
