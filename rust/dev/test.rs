// SPDX-License-Identifier: GPL-2.0

//! Tests that a process has the kernel run: each in a thread of its own, which ends with the file, and
//! takes those that it has begun along.

mod by_hand;
mod client;
mod content;
mod crowd;
mod link;
mod memory;
mod protocol;
mod request;
mod server;
mod tally;

use super::Client;
use crate::{
    abi::{
        context::in_process,
        kofi_stop,
        kofi_test,
        kofi_watch,
        thread::Thread, //
    },
    compat::EOPNOTSUPP,
    fi::wait::{
        Budget,
        Woken, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use request::{
    Place,
    Side, //
};
use tally::Tally;

/// One that has been started.
pub(super) struct Test {
    tally: Arc<Tally>,
    /// Dropped when it is to end: that stops the thread, and waits for it.
    thread: Option<Thread>,
}

/// KOFI_IOC_START. May sleep.
///
/// # Errors
///
/// `EBUSY` while a test runs, `EINVAL` for what there is not, `EOPNOTSUPP` where what is reserved is not
/// 0, `ENOMEM`.
pub(super) fn start(client: &Client, test: &mut kofi_test) -> Result {
    if test.reserved != 0 {
        return Err(EOPNOTSUPP);
    }
    let place = Place::new(test)?;
    let side = Side::new(test)?;
    let mut running = client.test.lock();
    if running.as_ref().is_some_and(|test| !test.tally.is_over()) {
        return Err(EBUSY);
    }
    let tally = match side {
        Side::Client(_) => Tally::of_client()?,
        Side::Server { .. } => Tally::of_server()?,
    };
    let (own, net) = (tally.clone(), client.net.clone());
    let thread = Thread::run(in_process()?, c"kofi_test", move |here| {
        own.end(match side {
            Side::Client(work) => client::run(here, &place, &net, &work, &own),
            Side::Server { by_hand } => server::run(here, &place, &net, by_hand, &own),
        });
    })?;
    *running = Some(Test {
        tally,
        thread: Some(thread),
    });
    Ok(())
}

/// KOFI_IOC_WATCH. May sleep.
///
/// # Errors
///
/// `ENOENT` without a test, `EINTR`, `EFAULT`, `EOPNOTSUPP` where what is reserved is not 0.
pub(super) fn watch(client: &Client, watch: &mut kofi_watch) -> Result {
    if watch.reserved != 0 {
        return Err(EOPNOTSUPP);
    }
    let tally = {
        let running = client.test.lock();
        running.as_ref().ok_or(ENOENT)?.tally.clone()
    };
    let msec = c_int::try_from(watch.msec).unwrap_or(c_int::MAX);
    let mut budget = Budget::from_millis(msec);
    loop {
        let ticket = tally.over().ticket();
        if tally.is_over() || msec == 0 {
            break;
        }
        match tally.over().wait(&ticket, &mut budget) {
            Woken::Signal => {}
            Woken::Timeout => break,
            // Not to be restarted: the caller's handler may have had a say.
            Woken::Interrupted => return Err(EINTR),
        }
    }
    tally.tell(watch)
}

/// KOFI_IOC_STOP. May sleep, until the thread has ended.
///
/// # Errors
///
/// `ENOENT` without a test.
pub(super) fn stop(client: &Client, _stop: &mut kofi_stop) -> Result {
    let mut running = client.test.lock();
    let test = (*running).as_mut().ok_or(ENOENT)?;
    drop(test.thread.take());
    // A thread that is stopped before it has begun does nothing.
    if !test.tally.is_over() {
        test.tally.end(Ok(()));
    }
    Ok(())
}
