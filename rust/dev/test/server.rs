// SPDX-License-Identifier: GPL-2.0

//! The side that listens, and does what a client asks for.

use super::{
    by_hand,
    crowd::{
        Crowd,
        Room, //
    },
    link::{
        Link,
        Opened, //
    },
    protocol::{
        write_grant,
        write_refusal,
        write_report,
        Refusal,
        REPORT, //
    },
    request::{
        Kind,
        Place,
        Traffic, //
    },
    tally::Score,
    Tally, //
};
use crate::{
    abi::{
        context::ProcessContext,
        info::{
            Info,
            InfoList, //
        },
        namespace::Namespace,
        Errno,
        Result,
        FI_ATOMIC,
        FI_CONNREQ,
        FI_MSG,
        FI_RMA, //
    },
    fi::{
        eq::{
            self,
            OwnedEvent,
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

/// Serves clients until the thread is told to stop, which is an error as any other.
pub(super) fn run(
    here: ProcessContext,
    place: &Place,
    net: &Namespace,
    by_hand: bool,
    tally: &Tally,
) -> Result {
    let list = find(here, place, net)?;
    let info = list.first().ok_or(Errno::ENODATA)?;
    match by_hand {
        true => run_by_hand(here, net, info, tally),
        false => run_over_fabric(here, place, net, info, tally),
    }
}

fn run_over_fabric(
    here: ProcessContext,
    place: &Place,
    net: &Namespace,
    info: &Info,
    tally: &Tally,
) -> Result {
    let fabric = crate::fabric_by(here, info, net, &place.owner)?;
    let events = fabric.event_queue(here, eq::Attr::default())?;
    // The listener goes first: nobody comes any more while those who are there are sent home.
    let mut crowd = Crowd::new(tally)?;
    let listener = Listener::new(here, &fabric, info, Source(0), &events)?;
    tally.run();
    loop {
        let request = next_event(here, &events, FI_CONNREQ)?;
        // What a client does wrong is no reason to stop.
        let _ = take(here, &fabric, &listener, request, &mut crowd);
    }
}

fn run_by_hand(here: ProcessContext, net: &Namespace, info: &Info, tally: &Tally) -> Result {
    // As above.
    let mut crowd = Crowd::new(tally)?;
    let listener = by_hand::Listener::new(here, net, info)?;
    tally.run();
    loop {
        let request = listener.next(here)?;
        match admit(&mut crowd, request.data()) {
            // Where there is no end for it, it is refused by being dropped.
            Ok((traffic, room)) => drop(
                request
                    .open(here, traffic.server_depth())
                    .and_then(|opened| room.take(here, serving(opened, traffic))),
            ),
            Err(refusal) => request.refuse(here, &write_refusal(refusal)),
        }
    }
}

/// What a server offers: as much as there is a device for.
fn find(here: ProcessContext, place: &Place, net: &Namespace) -> Result<InfoList> {
    let all = FI_MSG | FI_RMA | FI_ATOMIC;
    for caps in [all, FI_MSG | FI_RMA] {
        match place.find(here, net, true, caps) {
            Err(Errno::ENODATA) => {}
            found => return found,
        }
    }
    place.find(here, net, true, FI_MSG)
}

/// What a client asks for, and a place for it.
fn admit<'a>(
    crowd: &'a mut Crowd<'_>,
    said: &[u8],
) -> core::result::Result<(Traffic, Room<'a>), Refusal> {
    let traffic = Traffic::from_bytes(said).ok_or(Refusal::Unknown)?;
    let room = crowd.room(traffic.server_bytes()).ok_or(Refusal::Full)?;
    Ok((traffic, room))
}

/// Begins to serve a client, or refuses it.
fn take(
    here: ProcessContext,
    fabric: &Arc<Fabric>,
    listener: &Listener,
    mut request: OwnedEvent,
    crowd: &mut Crowd<'_>,
) -> Result {
    let mut info = request.take_info().ok_or(Errno::EOTHER)?;
    let (traffic, room) = match admit(crowd, request.data()) {
        Ok(admitted) => admitted,
        Err(refusal) => return listener.reject(here, &info, &write_refusal(refusal)),
    };
    match Connection::open(here, fabric, &mut info, traffic.server_depth()) {
        Ok(opened) => room.take(here, serving(opened, traffic)),
        Err(errno) => {
            // A request that no endpoint has taken is still to be answered.
            let _ = listener.reject(here, &info, &[]);
            Err(errno)
        }
    }
}

/// What the thread of a client does.
fn serving<O: Opened>(
    opened: O,
    traffic: Traffic,
) -> impl FnOnce(ProcessContext, &Score) -> Result {
    move |here, score| serve(here, opened, &traffic, score)
}

fn serve<O: Opened>(
    here: ProcessContext,
    mut opened: O,
    traffic: &Traffic,
    score: &Score,
) -> Result {
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
    match exchange(here, &mut link, traffic, score) {
        // What is posted when a connection ends comes back as cancelled.
        Err(Errno::ECANCELED | Errno::ENOTCONN) => link.end(here),
        served => served,
    }
}

/// Lends memory, until the client leaves.
fn lend<O: Opened>(here: ProcessContext, opened: O, traffic: &Traffic) -> Result {
    // What devices change atomically are whole words, also for smaller elements.
    let len = traffic.places() * traffic.length;
    let len = len.next_multiple_of(size_of::<u64>());
    let (_lent, remote) = opened.lend(here, len)?;
    let mut link = opened.accept(here, &write_grant(remote))?;
    link.end(here)
}

/// Sends every message back, until the client leaves.
fn answer<L: Link>(here: ProcessContext, link: &mut L, traffic: &Traffic, score: &Score) -> Result {
    let start = Instant::<Monotonic>::now();
    let mut spare = link.buffer(here, traffic.length)?;
    for seq in 0.. {
        let (message, len) = link.received(here)?;
        score.message(len, traffic.is_good(&message, len, seq));
        score.took(start.elapsed());
        // The receive first: what is sent back invites the client to send again.
        link.receive(spare)?;
        link.send(message, len)?;
        spare = link.sent(here)?;
    }
    Ok(())
}

/// Takes messages until one is empty.
fn sink<L: Link>(here: ProcessContext, link: &mut L, traffic: &Traffic, score: &Score) -> Result {
    let start = Instant::<Monotonic>::now();
    let (mut damaged, mut since_credit) = (0u64, 0);
    for seq in 0.. {
        let (message, len) = link.received(here)?;
        if len == 0 {
            break;
        }
        let is_good = traffic.is_good(&message, len, seq);
        damaged += u64::from(!is_good);
        score.message(len, is_good);
        score.took(start.elapsed());
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
