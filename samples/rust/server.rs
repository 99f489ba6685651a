// SPDX-License-Identifier: GPL-2.0

//! The accept loop of a server that serves one client after another.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use kofi::{
    abi::{
        info::InfoList,
        Errno,
        Result,
        FI_CONNREQ, //
    },
    fi::{
        eq::{
            self,
            EventQueue,
            Source, //
        },
        fabric::Fabric,
        msg::{
            connection::next_event,
            Connection,
            Listener,
            Unconnected, //
        },
    },
    util::context::ProcessContext, //
};

/// Listens on the first info of `list`. Opens a connection for each request, with work queues of `depth`
/// entries, and calls `serve`, which accepts it.
///
/// # Errors
///
/// EINTR when the thread is stopped; the error of a listener that does not open, or of its event queue.
/// Errors of a client are logged.
pub(crate) fn run(
    here: ProcessContext,
    list: &InfoList,
    depth: usize,
    serve: impl Fn(Unconnected) -> Result,
) -> Result {
    let info = list.first().ok_or(Errno::ENODATA)?;
    let fabric = kofi::fabric::<crate::LocalModule>(here, info)?;
    // The next connection request stays in this queue while a client is served.
    let events = fabric.event_queue(here, eq::Attr::default())?;
    let listener = Listener::new(here, &fabric, info, Source(0), &events)?;
    pr_info!("ready\n");
    loop {
        let served = accept_one(here, &fabric, &events, &listener, depth, &serve)?;
        // Errors of a client do not stop the listener.
        match served {
            Ok(()) | Err(Errno::EINTR) => {}
            Err(errno) => pr_err!("client: {}\n", errno),
        }
    }
}

/// Waits for the next client and serves it. The inner result is the client's.
fn accept_one(
    here: ProcessContext,
    fabric: &Arc<Fabric>,
    events: &EventQueue,
    listener: &Listener,
    depth: usize,
    serve: impl Fn(Unconnected) -> Result,
) -> Result<Result> {
    let mut request = next_event(here, events, FI_CONNREQ)?;
    let mut info = request.take_info().ok_or(Errno::EOTHER)?;
    Ok(match Connection::open(here, fabric, &mut info, depth) {
        Ok(opened) => serve(opened),
        Err(errno) => {
            // A request that no endpoint was opened for has to be rejected.
            let _ = listener.reject(here, &info, &[]);
            Err(errno)
        }
    })
}
