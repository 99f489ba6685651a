// SPDX-License-Identifier: GPL-2.0

//! A consumer without `unsafe` that drops none of its handles: it forgets the handle of a thread, and the
//! handles of the handlers of two completion queues and an event queue are in reference cycles.
//!
//! ```text
//! insmod forget_rs.ko addr=0x0a000001 port=7471
//! ```
//!
//! The thread and the calls are still running when the exit function has returned, and have to end before the
//! module's memory is freed. Dropping the handlers breaks the cycles, and all objects are closed.

#[path = "../../../samples/rust/getinfo.rs"]
mod getinfo;

use core::mem::forget;
use kernel::{
    prelude::*,
    sync::{
        new_mutex,
        Arc,
        Mutex, //
    },
    time::{
        delay::fsleep,
        Delta, //
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
        eq::{
            Attr,
            EventHandler,
            EventQueue,
            Source, //
        },
        msg::{
            Completions,
            HandlerGuard,
            Listener, //
        },
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

module! {
    type: Forgets,
    name: "forget_rs",
    authors: ["kOFI contributors"],
    description: "kOFI test: handles that are forgotten",
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
    },
}

struct Forgets {}

impl kernel::Module for Forgets {
    fn init(_module: &'static ThisModule) -> kernel::error::Result<Self> {
        run(in_process()?)?;
        pr_info!("ready\n");
        Ok(Self {})
    }
}

/// A handle in a reference cycle, which is never dropped.
type Cycle<T> = Arc<Mutex<Option<T>>>;

fn cycle<T>() -> Result<Cycle<T>> {
    Ok(Arc::pin_init(new_mutex!(None), GFP_KERNEL)?)
}

/// Opens all objects and drops none.
fn run(here: ProcessContext) -> Result {
    let place = (
        param_value(&module_parameters::addr),
        param_value(&module_parameters::port),
    );
    let list = getinfo::find_msg(here, place, true, FI_MSG)?;
    let info = list.first().ok_or(Errno::ENODATA)?;
    let fabric = kofi::fabric::<Forgets>(here, info)?;

    let own = cycle::<(Listener, EventHandler)>()?;
    let kept = own.clone();
    // Each connection request stays in the queue.
    let ready = move |_: ProcessContext, _: &Arc<EventQueue>| {
        let _ = &kept;
        pr_info!("an event\n");
    };
    let events = EventHandler::open(here, &fabric, Attr::default(), ready)?;
    let listener = Listener::new(here, &fabric, info, Source(0), &events)?;
    *own.lock() = Some((listener, events));

    let domain = fabric.domain(here, info)?;
    let queue = Completions::new(here, &domain, 0)?;
    let own = cycle::<HandlerGuard>()?;
    let kept = own.clone();
    let calls = queue.on_arrival(here, move |_, queue| {
        let _ = &kept;
        while queue.read().is_ok() {}
    })?;
    *own.lock() = Some(calls);

    let queue = Completions::new(here, &domain, 0)?;
    let own = cycle::<HandlerGuard>()?;
    let kept = own.clone();
    let calls = queue.on_interrupt(here, move |arrived| {
        let _ = &kept;
        while arrived.read().is_ok() {}
    })?;
    *own.lock() = Some(calls);

    let own = cycle::<Thread>()?;
    let kept = own.clone();
    let thread = Thread::spawn(here, c"cyclic", move |_| {
        while !kthread_should_stop() {
            fsleep(Delta::from_millis(1));
        }
        // Drops the last reference on the handle of this thread.
        drop(kept);
    })?;
    *own.lock() = Some(thread);

    forget(Thread::spawn(here, c"forgotten", |_| {
        while !kthread_should_stop() {
            fsleep(Delta::from_millis(1));
        }
    })?);
    Ok(())
}
