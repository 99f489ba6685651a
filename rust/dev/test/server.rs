// SPDX-License-Identifier: GPL-2.0

//! The side that listens, and does what a client asks for.

use super::{
    by_hand,
    link::{
        Link,
        Opened, //
    },
    protocol::{
        write_grant,
        write_report,
        REPORT, //
    },
    request::{
        Kind,
        Place,
        Traffic, //
    },
    Tally, //
};
use crate::{
    abi::{
        context::InProcess,
        info::{
            Info,
            InfoList, //
        },
        Errno,
        NetRef,
        Result,
        FI_ATOMIC,
        FI_CONNREQ,
        FI_MSG,
        FI_RMA, //
    },
    fi::{
        eq::{
            self,
            Owned,
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
use kernel::{
    sync::Arc,
    time::{
        Instant,
        Monotonic, //
    },
};

/// Serves one client after another until the thread is told to stop, which is an error as any other.
pub(super) fn run(
    here: InProcess,
    place: &Place,
    net: NetRef,
    by_hand: bool,
    tally: &Tally,
) -> Result {
    let list = find(here, place, net)?;
    let info = list.first().ok_or(Errno::ENODATA)?;
    match by_hand {
        true => run_by_hand(here, net, info, tally),
        false => run_over_fabric(here, place, info, tally),
    }
}

fn run_over_fabric(here: InProcess, place: &Place, info: &Info, tally: &Tally) -> Result {
    let fabric = crate::fabric_by(here, info, &place.owner)?;
    // A queue of its own: the next client waits there for its turn.
    let events = fabric.event_queue(here, eq::Attr::default())?;
    let listener = Listener::new(here, &fabric, info, Source(0), &events)?;
    tally.run();
    loop {
        let request = next_event(here, &events, FI_CONNREQ)?;
        // What a client does wrong is no reason to stop.
        if let Err(Errno::EINTR) = take(here, &fabric, &listener, request, tally) {
            return Err(Errno::EINTR);
        }
    }
}

fn run_by_hand(here: InProcess, net: NetRef, info: &Info, tally: &Tally) -> Result {
    let listener = by_hand::Listener::new(here, net, info)?;
    tally.run();
    loop {
        let request = listener.next(here)?;
        // One that is not understood is refused by being dropped.
        let Some(traffic) = Traffic::from_bytes(request.data()) else {
            continue;
        };
        tally.client();
        let opened = request.open(here, traffic.server_depth());
        if let Err(Errno::EINTR) = opened.and_then(|opened| serve(here, opened, &traffic, tally)) {
            return Err(Errno::EINTR);
        }
    }
}

/// What a server offers: as much as there is a device for.
fn find(here: InProcess, place: &Place, net: NetRef) -> Result<InfoList> {
    let all = FI_MSG | FI_RMA | FI_ATOMIC;
    for caps in [all, FI_MSG | FI_RMA] {
        match place.find(here, net, true, caps) {
            Err(Errno::ENODATA) => {}
            found => return found,
        }
    }
    place.find(here, net, true, FI_MSG)
}

/// Serves one client, or refuses what it asks for.
fn take(
    here: InProcess,
    fabric: &Arc<Fabric>,
    listener: &Listener,
    mut request: Owned,
    tally: &Tally,
) -> Result {
    let traffic = Traffic::from_bytes(request.data());
    let mut info = request.take_info().ok_or(Errno::EOTHER)?;
    let Some(traffic) = traffic else {
        return listener.reject(here, &info, &[]);
    };
    match Connection::open(here, fabric, &mut info, traffic.server_depth()) {
        Ok(opened) => {
            tally.client();
            serve(here, opened, &traffic, tally)
        }
        Err(errno) => {
            // A request that no endpoint has taken is still to be answered.
            let _ = listener.reject(here, &info, &[]);
            Err(errno)
        }
    }
}

fn serve<O: Opened>(here: InProcess, mut opened: O, traffic: &Traffic, tally: &Tally) -> Result {
    let exchange = match traffic.kind {
        Kind::PingPong => answer::<O::Link>,
        Kind::Stream => sink::<O::Link>,
        Kind::Memory => return lend(here, opened, traffic),
    };
    // Before the accept: the client may send as soon as it is connected.
    for _ in 0..2 * traffic.window + 1 {
        opened.receive(here, traffic.length)?;
    }
    let mut link = opened.accept(here, &[])?;
    match exchange(here, &mut link, traffic, tally) {
        // What is posted when a connection ends comes back as cancelled.
        Err(Errno::ECANCELED | Errno::ENOTCONN) => link.end(here),
        served => served,
    }
}

/// Lends memory, until the client leaves.
fn lend<O: Opened>(here: InProcess, opened: O, traffic: &Traffic) -> Result {
    // What devices change atomically are whole words, also for smaller elements.
    let len = traffic.places() * traffic.length;
    let len = len.next_multiple_of(size_of::<u64>());
    let (_lent, remote) = opened.lend(here, len)?;
    let mut link = opened.accept(here, &write_grant(remote))?;
    link.end(here)
}

/// Sends every message back, until the client leaves.
fn answer<L: Link>(here: InProcess, link: &mut L, traffic: &Traffic, tally: &Tally) -> Result {
    let start = Instant::<Monotonic>::now();
    let mut spare = link.buffer(here, traffic.length)?;
    for seq in 0.. {
        let (message, len) = link.received(here)?;
        tally.message(len, traffic.is_good(&message, len, seq));
        tally.took(start.elapsed());
        // The receive first: what is sent back invites the client to send again.
        link.receive(spare)?;
        link.send(message, len)?;
        spare = link.sent(here)?;
    }
    Ok(())
}

/// Takes messages until one is empty.
fn sink<L: Link>(here: InProcess, link: &mut L, traffic: &Traffic, tally: &Tally) -> Result {
    let start = Instant::<Monotonic>::now();
    let (mut damaged, mut since_credit) = (0u64, 0);
    for seq in 0.. {
        let (message, len) = link.received(here)?;
        if len == 0 {
            break;
        }
        let is_good = traffic.is_good(&message, len, seq);
        damaged += u64::from(!is_good);
        tally.message(len, is_good);
        tally.took(start.elapsed());
        link.receive(message)?;
        since_credit += 1;
        if since_credit == traffic.window {
            since_credit = 0;
            link.send(link.buffer(here, 0)?, 0)?;
            drop(link.sent(here)?);
        }
    }
    let mut report = link.buffer(here, REPORT)?;
    write_report(&mut report, damaged);
    link.send(report, REPORT)?;
    drop(link.sent(here)?);
    link.end(here)
}
