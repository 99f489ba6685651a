// SPDX-License-Identifier: GPL-2.0

//! What a server does whatever it serves: it listens, and takes one client after another.

use super::offers;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use kofi::{
    abi::{
        Errno,
        Result,
        FI_CONNREQ,
        FI_MSG, //
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
            Listener, //
        },
    },
};

/// Listens until the thread is told to stop, which is an error as any other. Each client has an end
/// on which `depth` operations can be posted in each direction; `serve` is to accept it.
pub(crate) fn run(
    addr: u32,
    port: u16,
    depth: usize,
    serve: impl Fn(&Connection) -> Result,
) -> Result {
    let list = offers::find(addr, port, true, FI_MSG)?;
    let info = list.first().ok_or(Errno::ENODATA)?;
    let fabric = kofi::fabric(info)?;
    // A queue of its own: the next client waits there for its turn.
    let events = fabric.event_queue(eq::Attr::default())?;
    let listener = Listener::new(&fabric, info, Source(0), &events)?;
    pr_info!("ready port={}\n", port);
    loop {
        let served = take_one(&fabric, &events, &listener, depth, &serve)?;
        // A client's failures are no reason to stop listening.
        match served {
            Ok(()) | Err(Errno::EINTR) => {}
            Err(errno) => pr_err!("client: {}\n", errno),
        }
    }
}

/// Waits for the next client; how serving it ended.
fn take_one(
    fabric: &Arc<Fabric>,
    events: &EventQueue,
    listener: &Listener,
    depth: usize,
    serve: impl Fn(&Connection) -> Result,
) -> Result<Result> {
    let mut request = next_event(events, FI_CONNREQ)?;
    let mut info = request.take_info().ok_or(Errno::EOTHER)?;
    Ok(match Connection::open(fabric, &mut info, depth) {
        Ok(connection) => serve(&connection),
        Err(errno) => {
            // A request that no endpoint has taken is still to be answered.
            let _ = listener.reject(&info, &[]);
            Err(errno)
        }
    })
}
