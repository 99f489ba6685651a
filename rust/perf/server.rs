// SPDX-License-Identifier: GPL-2.0

//! The server of a test: listens, and serves the traffic that each client asks for.

use super::{
    config::{
        Kind,
        Target, //
    },
    prelude::*,
    protocol::{
        write_refusal,
        write_report,
        Refusal,
        REPORT, //
    },
    raw_verbs,
    server_clients::{
        ClientSet,
        ClientSlot, //
    },
    stats::ThreadStats, //
};
use kofi::{
    abi::{
        info::InfoList,
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
            Listener, //
        },
    },
};

/// Serves clients until the thread should stop, which is -FI_EINTR. May sleep.
pub(crate) fn run(
    here: ProcessContext,
    target: &Target,
    net: &Namespace,
    raw_verbs: bool,
    stats: &Stats,
) -> Result {
    let list = find(here, target, net)?;
    let info = list.first().ok_or(Errno::ENODATA)?;
    match raw_verbs {
        true => run_raw_verbs(here, net, info, stats),
        false => run_kofi(here, target, net, info, stats),
    }
}

fn run_kofi(
    here: ProcessContext,
    target: &Target,
    net: &Namespace,
    info: &Info,
    stats: &Stats,
) -> Result {
    let fabric = kofi::open_fabric(here, info, net, &target.owner)?;
    let events = fabric.event_queue(here, eq::Attr::default())?;
    // Dropped after the listener: no client connects while the client threads are stopped.
    let mut clients = ClientSet::new(stats)?;
    let listener = Listener::new(here, &fabric, info, Source(0), &events)?;
    stats.set_running();
    loop {
        let request = next_event(here, &events, FI_CONNREQ)?;
        // The failure of one client does not end the server.
        let _ = accept(here, &fabric, &listener, request, &mut clients);
    }
}

fn run_raw_verbs(here: ProcessContext, net: &Namespace, info: &Info, stats: &Stats) -> Result {
    // Dropped after the listener: see `run_kofi`.
    let mut clients = ClientSet::new(stats)?;
    let listener = raw_verbs::Listener::new(here, net, info)?;
    stats.set_running();
    loop {
        let request = listener.next(here)?;
        match admit(&mut clients, &request.private_data()) {
            // If the end cannot be created, the drop of the request rejects it.
            Ok((traffic, slot)) => {
                let pending = request.open(here, traffic.server_depth());
                let _ = pending.and_then(|pending| slot.start(here, serving(pending, traffic)));
            }
            Err(refusal) => request.reject(here, &write_refusal(refusal)),
        }
    }
}

/// Finds a device for the server, with atomic operations if there is one that has them.
fn find(here: ProcessContext, target: &Target, net: &Namespace) -> Result<InfoList> {
    let all = FI_MSG | FI_RMA | FI_ATOMIC;
    for caps in [all, FI_MSG | FI_RMA] {
        match target.find(here, net, true, caps) {
            Err(Errno::ENODATA) => {}
            found => return found,
        }
    }
    target.find(here, net, true, FI_MSG)
}

/// Decodes the traffic of a client, and finds a slot for it.
fn admit<'a>(
    clients: &'a mut ClientSet<'_>,
    private_data: &[u8],
) -> core::result::Result<(Traffic, ClientSlot<'a>), Refusal> {
    let traffic = Traffic::from_bytes(private_data).ok_or(Refusal::Unknown)?;
    let slot = clients.slot(traffic.server_bytes()).ok_or(Refusal::Full)?;
    Ok((traffic, slot))
}

/// Starts to serve a client, or rejects it.
fn accept(
    here: ProcessContext,
    fabric: &Arc<Fabric>,
    listener: &Listener,
    mut request: OwnedEvent,
    clients: &mut ClientSet<'_>,
) -> Result {
    let mut info = request.take_info().ok_or(Errno::EOTHER)?;
    let (traffic, slot) = match admit(clients, request.data()) {
        Ok(admitted) => admitted,
        Err(refusal) => return listener.reject(here, &info, &write_refusal(refusal)),
    };
    match Connection::open(here, fabric, &mut info, traffic.server_depth()) {
        Ok(pending) => slot.start(here, serving(pending, traffic)),
        Err(errno) => {
            // No endpoint exists that would reject the request when it is dropped.
            let _ = listener.reject(here, &info, &[]);
            Err(errno)
        }
    }
}

/// Returns the function of a client's thread.
fn serving<P: PendingTransport>(
    pending: P,
    traffic: Traffic,
) -> impl FnOnce(ProcessContext, &ThreadStats) -> Result {
    move |here, stats| serve(here, pending, &traffic, stats)
}

fn serve<P: PendingTransport>(
    here: ProcessContext,
    mut pending: P,
    traffic: &Traffic,
    stats: &ThreadStats,
) -> Result {
    let exchange = match traffic.kind {
        Kind::PingPong => echo::<P::Transport>,
        Kind::Stream => sink::<P::Transport>,
        Kind::Memory => return expose(here, pending, traffic),
    };
    // The receives are posted before the accept: the client may send as soon as it is connected.
    for _ in 0..2 * traffic.window + 1 {
        pending.post_recv(here, traffic.length)?;
    }
    let mut transport = pending.accept(here)?;
    match exchange(here, &mut transport, traffic, stats) {
        // The end of the connection cancels what is posted.
        Err(Errno::ECANCELED | Errno::ENOTCONN) => transport.wait_shutdown(here),
        served => served,
    }
}

/// Exposes memory until the client closes the connection.
fn expose<P: PendingTransport>(here: ProcessContext, pending: P, traffic: &Traffic) -> Result {
    // An atomic operation on a smaller element changes the whole word that contains it.
    let len = traffic.slots() * traffic.length;
    let len = len.next_multiple_of(size_of::<u64>());
    let (_exposed, mut transport) = pending.accept_exposing(here, len)?;
    transport.wait_shutdown(here)
}

/// Sends every message back, until the client closes the connection.
fn echo<T: Transport>(
    here: ProcessContext,
    transport: &mut T,
    traffic: &Traffic,
    stats: &ThreadStats,
) -> Result {
    let start = Instant::<Monotonic>::now();
    let mut spare = transport.alloc(here, traffic.length)?;
    for seq in 0.. {
        let (message, len) = transport.wait_rx(here)?;
        stats.count_message(len, traffic.is_intact(&message, len, seq));
        stats.set_time(start.elapsed());
        // The receive is posted first: the client sends again when it has the echo.
        transport.post_recv(spare)?;
        transport.post_send(message, len)?;
        spare = transport.wait_tx(here)?;
    }
    Ok(())
}

/// Receives messages until an empty one, and reports how many were damaged.
fn sink<T: Transport>(
    here: ProcessContext,
    transport: &mut T,
    traffic: &Traffic,
    stats: &ThreadStats,
) -> Result {
    let start = Instant::<Monotonic>::now();
    let (mut damaged, mut since_credit) = (0u64, 0);
    for seq in 0.. {
        let (message, len) = transport.wait_rx(here)?;
        if len == 0 {
            break;
        }
        let intact = traffic.is_intact(&message, len, seq);
        damaged += u64::from(!intact);
        stats.count_message(len, intact);
        stats.set_time(start.elapsed());
        transport.post_recv(message)?;
        since_credit += 1;
        if since_credit == traffic.window {
            since_credit = 0;
            transport.post_send(transport.alloc(here, 0)?, 0)?;
            drop(transport.wait_tx(here)?);
        }
    }
    let mut report = transport.alloc(here, REPORT)?;
    write_report(&mut report, damaged);
    transport.post_send(report, REPORT)?;
    drop(transport.wait_tx(here)?);
    transport.wait_shutdown(here)
}
