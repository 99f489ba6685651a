// SPDX-License-Identifier: GPL-2.0

//! The side that connects and sends.

use super::{
    by_hand,
    link::Link,
    protocol::{
        read_grant,
        read_refusal,
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
        context::ProcessContext,
        namespace::Namespace,
        Errno,
        Result, //
    },
    fi::msg::Connection, //
};
use kernel::{
    prelude::*,
    time::{
        Delta,
        Instant,
        Monotonic, //
    },
};

#[cfg(CONFIG_KUNIT = "y")]
mod tests;

/// Receives of a client: of a stream, two credits may be under way, and the report behind them.
const RECEIVES: usize = 3;

/// The time since a test began, and whether it has done enough: of what is asked for by time, one at
/// least, so that there is something to tell.
pub(super) struct Clock<'a> {
    start: Instant<Monotonic>,
    /// What has been read last, which is told, too: a test that is over by time has taken as much.
    last: Delta,
    bound: &'a Bound,
}

impl<'a> Clock<'a> {
    fn new(bound: &'a Bound) -> Self {
        Self {
            start: Instant::now(),
            last: Delta::ZERO,
            bound,
        }
    }

    /// Everything is ready: what was done before does not count.
    pub(super) fn start(&mut self) {
        self.start = Instant::now();
    }

    /// A message is through: how long it has been.
    pub(super) fn read(&mut self) -> Delta {
        self.last = self.start.elapsed();
        self.last
    }

    /// Whether so many are enough, or the time was over when the clock was read last.
    pub(super) fn is_enough(&self, messages: u64) -> bool {
        let Bound { count, msec } = *self.bound;
        let is_over = || self.last.as_millis() >= i64::from(msec);
        count > 0 && messages >= count || msec > 0 && messages > 0 && is_over()
    }
}

/// Connects, and sends until it is enough or the thread is told to stop.
pub(super) fn run(
    here: ProcessContext,
    place: &Place,
    net: &Namespace,
    work: &Work,
    tally: &Tally,
) -> Result {
    let traffic = &work.traffic;
    let depth = traffic.window + RECEIVES;
    let mut list = place.find(here, net, false, work.task.caps())?;
    let info = list.first_mut().ok_or(Errno::ENODATA)?;
    if work.by_hand {
        let opened = by_hand::Unconnected::new(here, net, info, depth)?;
        let mut connection = opened
            .connect(here, &traffic.to_bytes())
            .map_err(|(errno, said)| refused(tally, errno, &said))?;
        let answer = connection.data();
        return work_on(here, &mut connection, &answer, work, tally);
    }
    let fabric = crate::fabric_by(here, info, net, &place.owner)?;
    let opened = Connection::open(here, &fabric, info, depth)?;
    let (mut connection, accepted) = opened
        .connect(here, &traffic.to_bytes())
        .map_err(|not| refused(tally, not.errno, not.data()))?;
    work_on(here, &mut connection, accepted.data(), work, tally)?;
    connection.endpoint.shutdown(here)
}

/// Keeps what the server has said with a refusal.
fn refused(tally: &Tally, errno: Errno, said: &[u8]) -> Errno {
    if let Some(refusal) = read_refusal(said) {
        tally.refused(refusal);
    }
    errno
}

/// Does the work over a connection, with which the server has said something.
fn work_on<L: Link>(
    here: ProcessContext,
    link: &mut L,
    answer: &[u8],
    work: &Work,
    tally: &Tally,
) -> Result {
    tally.run();
    let session = Session {
        here,
        link,
        traffic: &work.traffic,
        clock: Clock::new(&work.bound),
        tally,
    };
    let region = || read_grant(answer).ok_or(Errno::EOPNOTSUPP);
    match &work.task {
        Task::PingPong => session.ping(),
        Task::Stream => session.stream(),
        Task::Write => session.write(region()?),
        Task::Read => session.read(region()?),
        Task::Change(change) => session.change(region()?, change),
    }
}

/// A client that is connected. What it does to the server's memory is in [`memory`](super::memory).
pub(super) struct Session<'a, L: Link> {
    pub(super) here: ProcessContext,
    pub(super) link: &'a mut L,
    pub(super) traffic: &'a Traffic,
    pub(super) clock: Clock<'a>,
    pub(super) tally: &'a Tally,
}

impl<L: Link> Session<'_, L> {
    /// One for each that may be under way.
    pub(super) fn buffers(&self) -> Result<KVec<KBox<L::Buffer>>> {
        let mut buffers = KVec::with_capacity(self.traffic.window, GFP_KERNEL_ACCOUNT)?;
        for _ in 0..self.traffic.window {
            let buffer = self.link.buffer(self.here, self.traffic.length)?;
            buffers.push(buffer, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(buffers)
    }

    /// Waits for a message, or an access, to be over, which has been in the buffer that this gives back.
    pub(super) fn finish(
        &mut self,
        is_good: impl FnOnce(&[u8]) -> bool,
    ) -> Result<KBox<L::Buffer>> {
        let buffer = self.link.sent(self.here)?;
        self.tally
            .own
            .message(self.traffic.length, is_good(&buffer));
        self.tally.own.took(self.clock.read());
        Ok(buffer)
    }

    fn ping(self) -> Result {
        let Self {
            here,
            link,
            traffic,
            mut clock,
            tally,
        } = self;
        let mut there = link.buffer(here, traffic.length)?;
        let mut back = link.buffer(here, traffic.length)?;
        clock.start();
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
            tally.own.message(len, traffic.is_good(&received, len, seq));
            tally.own.took(clock.read());
            back = received;
            seq += 1;
        }
        Ok(())
    }

    fn stream(mut self) -> Result {
        let (here, traffic) = (self.here, self.traffic);
        for _ in 0..RECEIVES {
            self.link.receive(self.link.buffer(here, REPORT)?)?;
        }
        let mut idle = self.buffers()?;
        self.clock.start();
        let mut credit = 2 * traffic.window;
        let mut seq = 0;
        while !self.clock.is_enough(seq) {
            if credit == 0 {
                let (answer, _) = self.link.received(here)?;
                self.link.receive(answer)?;
                credit += traffic.window;
            }
            let mut buffer = match idle.pop() {
                Some(buffer) => buffer,
                None => self.finish(|_| true)?,
            };
            traffic.fill(&mut buffer, seq);
            self.link.send(buffer, traffic.length)?;
            credit -= 1;
            seq += 1;
        }
        for _ in idle.len()..traffic.window {
            drop(self.finish(|_| true)?);
        }
        self.link.send(self.link.buffer(here, 0)?, 0)?;
        // What comes before the report are credits.
        loop {
            let (answer, len) = self.link.received(here)?;
            if let Some(count) = read_report(&answer, len) {
                self.tally.own.damaged(count);
                return Ok(());
            }
        }
    }
}
