// SPDX-License-Identifier: GPL-2.0

//! The side that connects and sends.

use super::{
    by_hand,
    link::Link,
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
    fi::msg::Connection,
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
    /// What was done before does not count.
    pub(super) fn restart(&mut self) {
        self.start = Instant::now();
    }

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
    let depth = traffic.window + 3;
    let mut list = place.find(here, net, false, work.task.caps())?;
    let info = list.first_mut().ok_or(Errno::ENODATA)?;
    if work.by_hand {
        let opened = by_hand::Unconnected::new(here, net, info, depth)?;
        let mut connection = opened.connect(here, &traffic.to_bytes())?;
        let answer = connection.data();
        return work_on(here, &mut connection, &answer, work, tally);
    }
    let fabric = crate::fabric_by(here, info, &place.owner)?;
    let opened = Connection::open(here, &fabric, info, depth)?;
    let (mut connection, accepted) = opened.connect(here, &traffic.to_bytes())?;
    work_on(here, &mut connection, accepted.data(), work, tally)?;
    connection.endpoint.shutdown(here)
}

/// Does the work over a connection, with which the server has said something.
fn work_on<L: Link>(
    here: InProcess,
    link: &mut L,
    answer: &[u8],
    work: &Work,
    tally: &Tally,
) -> Result {
    let traffic = &work.traffic;
    tally.run();
    let clock = Clock {
        start: Instant::now(),
        bound: &work.bound,
    };
    match work.task {
        Task::PingPong => return ping(here, link, traffic, &clock, tally),
        Task::Stream => return stream(here, link, traffic, &clock, tally),
        Task::Write | Task::Read | Task::Change(_) => {}
    }
    let borrower = Borrower {
        here,
        link,
        region: read_grant(answer).ok_or(Errno::EOPNOTSUPP)?,
        traffic,
        clock,
        tally,
    };
    match &work.task {
        Task::Write => borrower.write(),
        Task::Change(change) => borrower.change(change),
        _ => borrower.read(),
    }
}

fn ping<L: Link>(
    here: InProcess,
    link: &mut L,
    traffic: &Traffic,
    clock: &Clock<'_>,
    tally: &Tally,
) -> Result {
    let mut there = link.buffer(here, traffic.length)?;
    let mut back = link.buffer(here, traffic.length)?;
    let mut seq = 0;
    while !clock.is_enough(seq) {
        traffic.fill(&mut there, seq);
        let start = Instant::<Monotonic>::now();
        // The receive first: the answer may be here before `send()` is back.
        link.receive(back)?;
        link.send(there, traffic.length)?;
        let (received, len) = link.received(here)?;
        tally.round_trip(start.elapsed());
        there = link.sent(here)?;
        tally.message(len, traffic.is_good(&received, len, seq));
        tally.took(clock.elapsed());
        back = received;
        seq += 1;
    }
    Ok(())
}

fn stream<L: Link>(
    here: InProcess,
    link: &mut L,
    traffic: &Traffic,
    clock: &Clock<'_>,
    tally: &Tally,
) -> Result {
    // Two credits may be under way, and the report behind them.
    for _ in 0..3 {
        link.receive(link.buffer(here, REPORT)?)?;
    }
    let mut idle = KVec::with_capacity(traffic.window, GFP_KERNEL)?;
    for _ in 0..traffic.window {
        idle.push(link.buffer(here, traffic.length)?, GFP_KERNEL)?;
    }
    let mut credit = 2 * traffic.window;
    let mut seq = 0;
    while !clock.is_enough(seq) {
        if credit == 0 {
            let (answer, _) = link.received(here)?;
            link.receive(answer)?;
            credit += traffic.window;
        }
        let mut buffer = match idle.pop() {
            Some(buffer) => buffer,
            None => finish(here, link, traffic, clock, tally)?,
        };
        traffic.fill(&mut buffer, seq);
        link.send(buffer, traffic.length)?;
        credit -= 1;
        seq += 1;
    }
    for _ in idle.len()..traffic.window {
        drop(finish(here, link, traffic, clock, tally)?);
    }
    link.send(link.buffer(here, 0)?, 0)?;
    // What comes before the report are credits.
    loop {
        let (answer, len) = link.received(here)?;
        if let Some(count) = read_report(&answer, len) {
            tally.damaged(count);
            return Ok(());
        }
    }
}

/// Waits for one of the stream to be over.
fn finish<L: Link>(
    here: InProcess,
    link: &mut L,
    traffic: &Traffic,
    clock: &Clock<'_>,
    tally: &Tally,
) -> Result<KBox<L::Buffer>> {
    let buffer = link.sent(here)?;
    tally.message(traffic.length, true);
    tally.took(clock.elapsed());
    Ok(buffer)
}
