// SPDX-License-Identifier: GPL-2.0

//! The side that connects and sends.

use super::{
    memory::Borrower,
    protocol::{
        read_grant,
        read_report,
        REPORT, //
    },
    request::{
        Bound,
        Place,
        Task,
        Traffic,
        Work, //
    },
    Tally, //
};
use crate::{
    abi::{
        context::InProcess,
        Errno,
        NetRef,
        Result, //
    },
    fi::{
        memory::Buffer,
        msg::Connection, //
    },
};
use kernel::{
    prelude::*,
    time::{
        Delta,
        Instant,
        Monotonic, //
    },
};

/// The time since a test began, and whether it has done enough.
pub(super) struct Clock<'a> {
    start: Instant<Monotonic>,
    bound: &'a Bound,
}

impl Clock<'_> {
    /// How long it has been.
    pub(super) fn elapsed(&self) -> Delta {
        self.start.elapsed()
    }

    /// Whether so many are enough, or the time is over.
    pub(super) fn is_enough(&self, messages: u64) -> bool {
        let Bound { count, msec } = *self.bound;
        count > 0 && messages >= count
            || msec > 0 && self.start.elapsed().as_millis() >= i64::from(msec)
    }
}

/// Connects, and sends until it is enough or the thread is told to stop.
pub(super) fn run(
    here: InProcess,
    place: &Place,
    net: NetRef,
    work: &Work,
    tally: &Tally,
) -> Result {
    let traffic = &work.traffic;
    let mut list = place.find(here, net, false, work.task.caps())?;
    let info = list.first_mut().ok_or(Errno::ENODATA)?;
    let fabric = crate::fabric_by(here, info, &place.owner)?;
    let opened = Connection::open(here, &fabric, info, traffic.window + 3)?;
    let (connection, accepted) = opened.connect(here, &traffic.to_bytes())?;
    tally.run();
    let clock = Clock {
        start: Instant::now(),
        bound: &work.bound,
    };
    let borrower = || -> Result<_> {
        Ok(Borrower {
            here,
            connection: &connection,
            region: read_grant(accepted.data()).ok_or(Errno::EOPNOTSUPP)?,
            traffic,
            clock: &clock,
            tally,
        })
    };
    match work.task {
        Task::PingPong => ping(here, &connection, traffic, &clock, tally)?,
        Task::Stream => stream(here, &connection, traffic, &clock, tally)?,
        Task::Write => borrower()?.write()?,
        Task::Read => borrower()?.read()?,
        Task::Change(change) => borrower()?.change(&change)?,
    }
    connection.endpoint.shutdown(here)
}

fn ping(
    here: InProcess,
    connection: &Connection,
    traffic: &Traffic,
    clock: &Clock<'_>,
    tally: &Tally,
) -> Result {
    let mut there = Buffer::new(here, traffic.length, 0)?;
    let mut back = Buffer::new(here, traffic.length, 0)?;
    let mut seq = 0;
    while !clock.is_enough(seq) {
        traffic.fill(&mut there, seq);
        let start = Instant::<Monotonic>::now();
        // The receive first: the answer may be here before `send()` is back.
        connection.endpoint.receive(back)?;
        connection.endpoint.send(there, traffic.length)?;
        let (received, len) = connection.received(here)?;
        tally.round_trip(start.elapsed());
        there = connection.sent(here)?;
        tally.message(len, traffic.is_good(&received, len, seq));
        tally.took(clock.elapsed());
        back = received;
        seq += 1;
    }
    Ok(())
}

fn stream(
    here: InProcess,
    connection: &Connection,
    traffic: &Traffic,
    clock: &Clock<'_>,
    tally: &Tally,
) -> Result {
    let endpoint = &connection.endpoint;
    // Two credits may be under way, and the report behind them.
    for _ in 0..3 {
        endpoint.receive(Buffer::new(here, REPORT, 0)?)?;
    }
    let mut idle = KVec::with_capacity(traffic.window, GFP_KERNEL)?;
    for _ in 0..traffic.window {
        idle.push(Buffer::new(here, traffic.length, 0)?, GFP_KERNEL)?;
    }
    let mut credit = 2 * traffic.window;
    let mut seq = 0;
    while !clock.is_enough(seq) {
        if credit == 0 {
            let (answer, _) = connection.received(here)?;
            endpoint.receive(answer)?;
            credit += traffic.window;
        }
        let mut buffer = match idle.pop() {
            Some(buffer) => buffer,
            None => finish(here, connection, traffic, clock, tally)?,
        };
        traffic.fill(&mut buffer, seq);
        endpoint.send(buffer, traffic.length)?;
        credit -= 1;
        seq += 1;
    }
    for _ in idle.len()..traffic.window {
        drop(finish(here, connection, traffic, clock, tally)?);
    }
    endpoint.send(Buffer::new(here, 0, 0)?, 0)?;
    // What comes before the report are credits.
    loop {
        let (answer, len) = connection.received(here)?;
        if let Some(count) = read_report(&answer, len) {
            tally.damaged(count);
            return Ok(());
        }
    }
}

/// Waits for one of the stream to be over.
fn finish(
    here: InProcess,
    connection: &Connection,
    traffic: &Traffic,
    clock: &Clock<'_>,
    tally: &Tally,
) -> Result<KBox<Buffer>> {
    let buffer = connection.sent(here)?;
    tally.message(traffic.length, true);
    tally.took(clock.elapsed());
    Ok(buffer)
}
