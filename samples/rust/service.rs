// SPDX-License-Identifier: GPL-2.0

//! What a server does whatever it serves: it listens, and takes one client after another.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use kofi::{
    abi::{
        context::ProcessContext,
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
};

/// Listens on the first of `list` until the thread is told to stop, which is an error as any other. Each
/// client has an end on which `depth` operations can be posted in each direction; `serve` is to accept it.
pub(crate) fn run(
    here: ProcessContext,
    list: &InfoList,
    depth: usize,
    serve: impl Fn(Unconnected) -> Result,
) -> Result {
    let info = list.first().ok_or(Errno::ENODATA)?;
    let fabric = kofi::fabric::<crate::LocalModule>(here, info)?;
    // A queue of its own: the next client waits there for its turn.
    let events = fabric.event_queue(here, eq::Attr::default())?;
    let listener = Listener::new(here, &fabric, info, Source(0), &events)?;
    pr_info!("ready\n");
    loop {
        let served = take_one(here, &fabric, &events, &listener, depth, &serve)?;
        // A client's failures are no reason to stop listening.
        match served {
            Ok(()) | Err(Errno::EINTR) => {}
            Err(errno) => pr_err!("client: {}\n", errno),
        }
    }
}

/// Waits for the next client; how serving it ended.
fn take_one(
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
            // A request that no endpoint has taken is still to be answered.
            let _ = listener.reject(here, &info, &[]);
            Err(errno)
        }
    })
}
