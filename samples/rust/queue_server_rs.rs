// SPDX-License-Identifier: GPL-2.0

//! A queue of work for any number of clients, who take and finish tasks without any help of this CPU.
//!
//! ```text
//! insmod queue_server_rs.ko addr=0x0a000001 port=7471 tasks=1000
//! ```
//!
//! The region that it lends begins with two counters, of the tasks that have been taken and of those that
//! are done, and has room for a result of each. A client takes a task by adding one to the first counter,
//! writes its result, and adds one to the second. When all are done, the server looks at the results.

mod crowd;
mod grant;
mod offers;
mod task;

use crowd::Crowd;
use grant::Grant;
use kernel::prelude::*;
use kofi::{
    abi::{
        context::{
            in_process,
            kthread_should_stop,
            ProcessContext, //
        },
        thread::Thread,
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
};

module! {
    type: QueueServer,
    name: "queue_server_rs",
    authors: ["kOFI contributors"],
    description: "kOFI sample: queue of work on atomics, in Rust",
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
            description: "How many there are",
        },
    },
}

/// How long it waits for a client before it looks at the counters, in milliseconds.
const TICK: c_int = 100;

struct QueueServer {
    /// Dropped when the module is unloaded: that stops the thread and waits for it.
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
        let thread = Thread::run(in_process()?, c"queue_server_rs", main)?;
        Ok(Self { _thread: thread })
    }
}

/// Lends the queue to whoever comes, until it is told to stop, which is an error as any other.
fn run(here: ProcessContext, tasks: usize) -> Result {
    let port = param_value(&module_parameters::port);
    let place = (param_value(&module_parameters::addr), port);
    let list = offers::find(here, place, true, FI_MSG | FI_RMA | FI_ATOMIC)?;
    let info = list.first().ok_or(Errno::ENODATA)?;
    let fabric = kofi::fabric::<QueueServer>(here, info)?;
    let domain = fabric.domain(here, info)?;
    let buffer = Buffer::new(here, task::result_at(tasks), 0)?;
    let queue = RemoteBuffer::new(here, &domain, buffer, RemoteAccess::ReadWrite)?;
    let grant = Grant {
        region: queue.remote(),
        len: queue.len(),
        has_atomics: true,
    };
    let events = fabric.event_queue(here, eq::Attr::default())?;
    domain.bind_event_queue(here, &events, Source(0))?;
    let mut crowd = Crowd::new(here, domain, grant)?;
    let listener = Listener::new(here, &fabric, info, Source(0), &events)?;
    pr_info!("ready port={}\n", port);
    let mut is_done = false;
    while !kthread_should_stop() {
        match events.next(here, &mut Budget::from_millis(TICK)) {
            Ok(event) => match event.kind() {
                // The device is being removed, which waits until the region and the domain are closed.
                Kind::Error(Errno::ENODEV, _) => return Err(Errno::ENODEV),
                _ => crowd.take(here, &listener, &events, event)?,
            },
            Err(Errno::EAGAIN) => {}
            Err(errno) => return Err(errno),
        }
        if !is_done && word(&queue, task::DONE)? == tasks as u64 {
            is_done = true;
            report(&queue, tasks, crowd.count)?;
        }
    }
    Err(Errno::EINTR)
}

/// What a counter or a result is at the moment.
fn word(queue: &RemoteBuffer, at: usize) -> Result<u64> {
    let mut word = [0; task::WORD];
    queue.read(at, &mut word)?;
    Ok(u64::from_ne_bytes(word))
}

/// Looks at each result.
fn report(queue: &RemoteBuffer, tasks: usize, clients: usize) -> Result {
    let mut errors = 0;
    for task in 0..tasks {
        let result = word(queue, task::result_at(task))?;
        errors += u32::from(result != task::result_of(task as u64));
    }
    pr_info!(
        "done tasks={} clients={} errors={}\n",
        tasks,
        clients,
        errors
    );
    Ok(())
}
