// SPDX-License-Identifier: GPL-2.0

//! The client of a test: connects, and drives the traffic. RMA and atomic operations are in `rma_client.rs`.

use super::{
    config::{
        ClientConfig,
        Limit,
        Target,
        Task, //
    },
    prelude::*,
    protocol::{
        read_grant,
        read_refusal,
        read_report,
        REPORT, //
    },
    raw_verbs, //
};

#[cfg(CONFIG_KUNIT = "y")]
mod tests;

/// Receives of a client: for a stream two credits may be outstanding, and the report follows them.
const RECEIVES: usize = 3;

/// The time since the start of the traffic, and its limit. A test that is limited by time transfers at least one
/// message.
pub(super) struct Clock<'a> {
    start: Instant<Monotonic>,
    /// The time that was read last, which is the reported time of the test, too.
    last: Delta,
    limit: &'a Limit,
}

impl<'a> Clock<'a> {
    fn new(limit: &'a Limit) -> Self {
        Self {
            start: Instant::now(),
            last: Delta::ZERO,
            limit,
        }
    }

    /// Restarts the clock, when the preparations are done.
    pub(super) fn start(&mut self) {
        self.start = Instant::now();
    }

    /// Reads the clock.
    pub(super) fn read(&mut self) -> Delta {
        self.last = self.start.elapsed();
        self.last
    }

    /// Returns whether so many messages reach the limit, or the time did when the clock was read last.
    pub(super) fn at_limit(&self, messages: u64) -> bool {
        let Limit { count, msec } = *self.limit;
        let time_is_over = || self.last.as_millis() >= i64::from(msec);
        count > 0 && messages >= count || msec > 0 && messages > 0 && time_is_over()
    }
}

/// Connects, and transfers until the limit is reached or the thread should stop. May sleep.
pub(crate) fn run(
    here: ProcessContext,
    target: &Target,
    net: &Namespace,
    config: &ClientConfig,
    stats: &Stats,
) -> Result {
    let traffic = &config.traffic;
    let depth = traffic.window + RECEIVES;
    let mut list = target.find(here, net, false, config.task.caps())?;
    let info = list.first_mut().ok_or(Errno::ENODATA)?;
    if config.raw_verbs {
        let mut connection = raw_verbs::Unconnected::new(here, net, info, depth)?
            .connect(here, &traffic.to_bytes())
            .map_err(|(errno, data)| rejected(stats, errno, &data))?;
        let exposed = |connection: &mut raw_verbs::Connection| connection.exposed(here);
        return transfer(here, &mut connection, exposed, config, stats);
    }
    let fabric = kofi::open_fabric(here, info, net, &target.owner)?;
    let (mut connection, accepted) = Connection::open(here, &fabric, info, depth)?
        .connect(here, &traffic.to_bytes())
        .map_err(|not| rejected(stats, not.errno, not.data()))?;
    let exposed = |_: &mut Connection| read_grant(accepted.data()).ok_or(Errno::EOPNOTSUPP);
    transfer(here, &mut connection, exposed, config, stats)?;
    connection.endpoint.shutdown(here)
}

/// Keeps the reason that the server has given for a rejection.
fn rejected(stats: &Stats, errno: Errno, private_data: &[u8]) -> Errno {
    if let Some(refusal) = read_refusal(private_data) {
        stats.set_refusal(refusal);
    }
    errno
}

/// Performs the task over a connection; `exposed` returns the memory that the server exposes.
fn transfer<T: Transport>(
    here: ProcessContext,
    transport: &mut T,
    exposed: impl FnOnce(&mut T) -> Result<RemoteMemory>,
    config: &ClientConfig,
    stats: &Stats,
) -> Result {
    stats.set_running();
    let session = |transport| Session {
        here,
        transport,
        traffic: &config.traffic,
        clock: Clock::new(&config.limit),
        stats,
    };
    match &config.task {
        Task::PingPong => return session(transport).ping_pong(),
        Task::Stream => return session(transport).stream(),
        Task::Write | Task::Read | Task::Atomic(_) => {}
    }
    let remote = exposed(transport)?;
    match &config.task {
        Task::Read => session(transport).read(remote),
        Task::Atomic(atomic) => session(transport).atomic(remote, atomic),
        _ => session(transport).write(remote),
    }
}

/// A connected client.
pub(super) struct Session<'a, T: Transport> {
    pub(super) here: ProcessContext,
    pub(super) transport: &'a mut T,
    pub(super) traffic: &'a Traffic,
    pub(super) clock: Clock<'a>,
    pub(super) stats: &'a Stats,
}

impl<T: Transport> Session<'_, T> {
    /// Allocates a window of buffers.
    pub(super) fn alloc_window(&self) -> Result<KVec<KBox<T::Buffer>>> {
        let mut buffers = KVec::with_capacity(self.traffic.window, GFP_KERNEL_ACCOUNT)?;
        for _ in 0..self.traffic.window {
            let buffer = self.transport.alloc(self.here, self.traffic.length)?;
            buffers.push(buffer, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(buffers)
    }

    /// Waits for the completion of a message or an access, counts it, and returns its buffer.
    pub(super) fn complete(
        &mut self,
        is_intact: impl FnOnce(&[u8]) -> bool,
    ) -> Result<KBox<T::Buffer>> {
        let buffer = self.transport.wait_tx(self.here)?;
        let own = &self.stats.own;
        own.count_message(self.traffic.length, is_intact(&buffer));
        own.set_time(self.clock.read());
        Ok(buffer)
    }

    fn ping_pong(self) -> Result {
        let (here, traffic, stats) = (self.here, self.traffic, self.stats);
        let (transport, mut clock) = (self.transport, self.clock);
        let mut message = transport.alloc(here, traffic.length)?;
        let mut spare = transport.alloc(here, traffic.length)?;
        clock.start();
        let mut seq = 0;
        while !clock.at_limit(seq) {
            traffic.fill(&mut message, seq);
            let start = Instant::<Monotonic>::now();
            // The receive first: the echo may arrive before the post returns.
            transport.post_recv(spare)?;
            transport.post_send(message, traffic.length)?;
            let (echo, len) = transport.wait_rx(here)?;
            stats.add_latency(start.elapsed());
            message = transport.wait_tx(here)?;
            stats
                .own
                .count_message(len, traffic.is_intact(&echo, len, seq));
            stats.own.set_time(clock.read());
            spare = echo;
            seq += 1;
        }
        Ok(())
    }

    fn stream(mut self) -> Result {
        let (here, traffic) = (self.here, self.traffic);
        for _ in 0..RECEIVES {
            let buffer = self.transport.alloc(here, REPORT)?;
            self.transport.post_recv(buffer)?;
        }
        let mut idle = self.alloc_window()?;
        self.clock.start();
        let mut credit = 2 * traffic.window;
        let mut seq = 0;
        while !self.clock.at_limit(seq) {
            if credit == 0 {
                let (message, _) = self.transport.wait_rx(here)?;
                self.transport.post_recv(message)?;
                credit += traffic.window;
            }
            let mut buffer = match idle.pop() {
                Some(buffer) => buffer,
                None => self.complete(|_| true)?,
            };
            traffic.fill(&mut buffer, seq);
            self.transport.post_send(buffer, traffic.length)?;
            credit -= 1;
            seq += 1;
        }
        for _ in idle.len()..traffic.window {
            drop(self.complete(|_| true)?);
        }
        let end = self.transport.alloc(here, 0)?;
        self.transport.post_send(end, 0)?;
        // Credits come before the report.
        loop {
            let (message, len) = self.transport.wait_rx(here)?;
            if let Some(count) = read_report(&message, len) {
                self.stats.own.count_damaged(count);
                return Ok(());
            }
        }
    }
}
