// SPDX-License-Identifier: GPL-2.0

//! A client of `queue_server_rs`: takes one task after another, and brings the results, until there are no
//! more. Several may do so at the same time, from anywhere.
//!
//! ```text
//! insmod queue_client_rs.ko addr=0x0a000001 port=7471
//! ```
//!
//! Its thread ends with a line of results; the module can be unloaded at any time, before that too.

mod grant;
mod offers;
mod task;

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
};

module! {
    type: QueueClient,
    name: "queue_client_rs",
    authors: ["kOFI contributors"],
    description: "kOFI sample: client of a queue of work in Rust",
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
    /// Dropped when the module is unloaded: that stops the thread, if need be, and waits for it.
    _thread: Thread,
}

impl kernel::Module for QueueClient {
    fn init(_module: &'static ThisModule) -> kernel::error::Result<Self> {
        if param_value(&module_parameters::addr) == 0 {
            return Err(EINVAL);
        }
        let thread = Thread::run(in_process()?, c"queue_client_rs", report)?;
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
    let place = (
        param_value(&module_parameters::addr),
        param_value(&module_parameters::port),
    );
    let mut list = offers::find(here, place, false, FI_MSG | FI_RMA | FI_ATOMIC)?;
    let info = list.first_mut().ok_or(Errno::ENODATA)?;
    let fabric = kofi::fabric::<QueueClient>(here, info)?;
    let opened = Connection::open(here, &fabric, info, 1)?;
    let (connection, connected) = opened.connect(here, &[])?;
    let grant = Grant::from_bytes(connected.data()).ok_or(Errno::ETOOSMALL)?;

    let mut buffer = Buffer::new(here, task::WORD, 0)?;
    loop {
        buffer = add_one(here, &connection, &grant, task::TAKEN, buffer)?;
        let number = buffer.first_chunk().copied().ok_or(Errno::ETOOSMALL)?;
        let number = u64::from_ne_bytes(number);
        let at = task::result_at(number as usize);
        if at >= grant.len {
            return connection.endpoint.shutdown(here);
        }
        set(&mut buffer, task::result_of(number));
        let to = grant.region.behind(at as u64);
        connection.endpoint.write(buffer, task::WORD, to)?;
        buffer = connection.sent(here)?;
        // Behind the result: who sees this one sees that, too.
        buffer = add_one(here, &connection, &grant, task::DONE, buffer)?;
        *tasks += 1;
    }
}

/// Makes a number of the buffer, which is as long as one.
fn set(buffer: &mut Buffer, number: u64) {
    if let Some(word) = buffer.first_chunk_mut() {
        *word = number.to_ne_bytes();
    }
}

/// Adds one to the counter there; the buffer comes back with what it was before.
fn add_one(
    here: ProcessContext,
    connection: &Connection,
    grant: &Grant,
    at: usize,
    mut buffer: KBox<Buffer>,
) -> Result<KBox<Buffer>> {
    let counter = RemoteElements {
        remote: grant.region.behind(at as u64),
        count: 1,
        datatype: Datatype::from_raw(FI_UINT64)?,
    };
    set(&mut buffer, 1);
    connection.endpoint.fetch(buffer, Op::Sum, counter)?;
    connection.sent(here)
}
