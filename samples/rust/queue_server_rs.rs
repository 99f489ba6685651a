// SPDX-License-Identifier: GPL-2.0

//! A task queue in memory. Any number of clients take tasks and write results by RMA and atomic operations,
//! without involving the server's thread.
//!
//! ```text
//! insmod queue_server_rs.ko addr=0x0a000001 port=7471 tasks=1000
//! ```
//!
//! The exposed region has two counters, of the tasks that have been taken and of those that are done, and a
//! result for each task. A client increments the first counter to take a task, writes the result, and increments
//! the second counter. When all tasks are done, the server verifies the results.

mod clients;
mod getinfo;
mod queue_layout;
mod region_info;

use clients::Clients;
use kernel::prelude::*;
use kofi::{
    abi::{
        Errno,
        Result,
        FI_ATOMIC,
        FI_MSG,
        FI_RMA, //
    },
    compat::param_value,
    fi::{
        eq::{
            self,
            Kind,
            Source, //
        },
        memory::Buffer,
        msg::{
            Listener,
            RemoteAccess,
            RemoteBuffer, //
        },
        wait::Budget, //
    },
    util::{
        context::{
            in_process,
            kthread_should_stop,
            ProcessContext, //
        },
        thread::Thread, //
    },
};
use region_info::RegionInfo;

module! {
    type: QueueServer,
    name: "queue_server_rs",
    authors: ["kOFI contributors"],
    description: "kOFI sample: task queue on atomic operations, in Rust",
    license: "GPL",
    params: {
        addr: u32 {
            default: 0,
            description: "Local IPv4 address as a number, 10.0.0.1 is 0x0a000001",
        },
        port: u16 {
            default: 7471,
            description: "Port to listen on",
        },
        tasks: u32 {
            default: 1000,
            description: "Number of tasks",
        },
    },
}

/// Timeout of one wait for an event, in milliseconds; between waits the server reads the counters.
const WAIT_MS: c_int = 100;

struct QueueServer {
    /// Stops the thread and waits for it when the module is unloaded.
    _thread: Thread,
}

impl kernel::Module for QueueServer {
    fn init(_module: &'static ThisModule) -> kernel::error::Result<Self> {
        let tasks = param_value(&module_parameters::tasks) as usize;
        if param_value(&module_parameters::addr) == 0 || tasks == 0 {
            return Err(EINVAL);
        }
        let main = move |here| match run(here, tasks) {
            Ok(()) | Err(Errno::EINTR) => {}
            Err(errno) => pr_err!("{}\n", errno),
        };
        let thread = Thread::spawn(in_process()?, c"queue_server_rs", main)?;
        Ok(Self { _thread: thread })
    }
}

/// Exposes the queue to clients until the thread is stopped (EINTR) or the device is removed (ENODEV).
fn run(here: ProcessContext, tasks: usize) -> Result {
    let port = param_value(&module_parameters::port);
    let address = (param_value(&module_parameters::addr), port);
    let list = getinfo::find_msg(here, address, true, FI_MSG | FI_RMA | FI_ATOMIC)?;
    let info = list.first().ok_or(Errno::ENODATA)?;
    let fabric = kofi::fabric::<QueueServer>(here, info)?;
    let domain = fabric.domain(here, info)?;
    let buffer = Buffer::new(here, queue_layout::result_offset(tasks), 0)?;
    let queue = RemoteBuffer::new(here, &domain, buffer, RemoteAccess::ReadWrite)?;
    let region = RegionInfo {
        remote: queue.remote(),
        len: queue.len(),
        has_atomics: true,
    };
    let events = fabric.event_queue(here, eq::Attr::default())?;
    domain.bind_event_queue(here, &events, Source(0))?;
    let mut clients = Clients::new(here, domain, region)?;
    let listener = Listener::new(here, &fabric, info, Source(0), &events)?;
    pr_info!("ready port={}\n", port);
    let mut is_done = false;
    while !kthread_should_stop() {
        match events.next(here, &mut Budget::from_millis(WAIT_MS)) {
            Ok(event) => match event.kind() {
                // The removal of the device waits until the region and the domain are closed.
                Kind::Error(Errno::ENODEV, _) => return Err(Errno::ENODEV),
                _ => clients.handle_event(here, &listener, &events, event)?,
            },
            Err(Errno::EAGAIN) => {}
            Err(errno) => return Err(errno),
        }
        if !is_done && read_word(&queue, queue_layout::DONE)? == tasks as u64 {
            is_done = true;
            report(&queue, tasks, clients.count)?;
        }
    }
    Err(Errno::EINTR)
}

/// Reads a counter or a result.
fn read_word(queue: &RemoteBuffer, offset: usize) -> Result<u64> {
    let mut word = [0; queue_layout::WORD];
    queue.read(offset, &mut word)?;
    Ok(u64::from_ne_bytes(word))
}

/// Verifies all results, and logs the number of errors.
fn report(queue: &RemoteBuffer, tasks: usize, clients: usize) -> Result {
    let mut errors = 0;
    for task in 0..tasks {
        let result = read_word(queue, queue_layout::result_offset(task))?;
        errors += u32::from(result != queue_layout::compute_result(task as u64));
    }
    pr_info!(
        "done tasks={} clients={} errors={}\n",
        tasks,
        clients,
        errors
    );
    Ok(())
}
