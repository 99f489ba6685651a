// SPDX-License-Identifier: GPL-2.0

//! Test thread of the fake kernel. Each request to watch the test advances the test by one step.

use crate::{
    abi::{
        get_string,
        Test,
        TestKind,
        TestState,
        Watch,
        KOFI_TEST_MAX_BYTES,
        KOFI_TEST_MAX_LENGTH,
        KOFI_TEST_MAX_WINDOW,
        KOFI_TEST_VERBS,
        KOFI_TEST_VERIFY, //
    },
    latency::{
        bucket_of,
        BUCKETS, //
    },
};
use rustix::io::Errno;

/// Messages per millisecond.
const RATE: u64 = 50;

#[derive(Default)]
pub struct TestThread {
    /// Tests in the order in which they were started.
    pub started: Vec<Test>,
    /// Timeout of each request to watch a test.
    pub watch_msecs: Vec<u32>,
    pub stop_count: usize,
    /// Number of the next requests to watch a test that a signal interrupts.
    pub signals: usize,
    /// Error that ends each test in place of the second half of its messages.
    pub error: i32,
    /// Makes `error` end each test before its first message.
    pub fails_at_start: bool,
    /// Values that each test reports.
    pub damaged: u64,
    pub refusal: u32,
    pub turned_away: u32,
    current: Option<CurrentTest>,
}

struct CurrentTest {
    test: Test,
    state: TestState,
    messages: u64,
    error: i32,
}

impl TestThread {
    pub fn start(&mut self, test: &Test) -> Result<(), Errno> {
        if self
            .current
            .as_ref()
            .is_some_and(|current| !current.is_over())
        {
            return Err(Errno::BUSY);
        }
        if !is_valid(test) {
            return Err(Errno::INVAL);
        }
        self.started.push(*test);
        self.current = Some(CurrentTest {
            test: *test,
            state: TestState::KOFI_TEST_STARTING,
            messages: 0,
            error: 0,
        });
        Ok(())
    }

    pub fn watch(&mut self, watch: &mut Watch, buf: &mut [u64]) -> Result<(), Errno> {
        let current = self.current.as_mut().ok_or(Errno::NOENT)?;
        self.watch_msecs.push(watch.msec);
        if let Some(signals) = self.signals.checked_sub(1) {
            self.signals = signals;
            return Err(Errno::INTR);
        }
        *watch = Watch {
            size: watch.size,
            state: current.state.0,
            error: current.error,
            damaged: self.damaged.min(current.messages),
            refusal: self.refusal,
            turned_away: self.turned_away,
            ..current.measure(buf)
        };
        current.step(self.error, self.fails_at_start);
        Ok(())
    }

    pub fn stop(&mut self) -> Result<(), Errno> {
        self.current.as_mut().ok_or(Errno::NOENT)?.state = TestState::KOFI_TEST_OVER;
        self.stop_count += 1;
        Ok(())
    }
}

impl CurrentTest {
    fn is_over(&self) -> bool {
        self.state == TestState::KOFI_TEST_OVER
    }

    fn is_server(&self) -> bool {
        TestKind(self.test.kind) == TestKind::KOFI_TEST_SERVER
    }

    /// Advances the test: from its start to half of its messages, and from there to its end.
    fn step(&mut self, error: i32, fails_at_start: bool) {
        let total = match self.test.count {
            0 if self.is_server() => 1000,
            0 => u64::from(self.test.msec) * RATE,
            count => count,
        };
        match self.state {
            TestState::KOFI_TEST_STARTING if !fails_at_start => {
                self.state = TestState::KOFI_TEST_RUNNING;
                self.messages = total / 2;
            }
            TestState::KOFI_TEST_OVER => (),
            _ if error != 0 => {
                self.state = TestState::KOFI_TEST_OVER;
                self.error = error;
            }
            _ if self.is_server() => self.messages = total,
            _ => {
                self.state = TestState::KOFI_TEST_OVER;
                self.messages = total;
            }
        }
    }

    /// Returns the ns by which a message is faster over raw verbs.
    fn verbs_saving(&self) -> u64 {
        match self.test.flags & KOFI_TEST_VERBS {
            0 => 0,
            _ => 500,
        }
    }

    /// Returns the results up to now, and writes the histogram to `buf`.
    fn measure(&self, buf: &mut [u64]) -> Watch {
        let length = if self.is_server() {
            64
        } else {
            self.test.length
        };
        let mut watch = Watch {
            clients: if self.is_server() { 2 } else { 0 },
            messages: self.messages,
            bytes: self.messages * length,
            nsec: self.messages * (1_000_000 / RATE - self.verbs_saving()),
            ..Watch::default()
        };
        let is_timed = matches!(
            TestKind(self.test.kind),
            TestKind::KOFI_TEST_PINGPONG | TestKind::KOFI_TEST_ATOMIC
        );
        if !is_timed || self.messages == 0 {
            return watch;
        }
        let trips = || (0..self.messages).map(|at| round_trip(at) + length - self.verbs_saving());
        watch.nsec = trips().sum();
        watch.min = trips().min().unwrap_or_default();
        watch.max = trips().max().unwrap_or_default();
        let mut buckets = vec![0; BUCKETS];
        for trip in trips() {
            buckets[bucket_of(trip)] += 1;
        }
        for (to, from) in buf.iter_mut().zip(buckets) {
            *to = from;
        }
        watch
    }
}

/// Returns the duration of a round trip in ns: about 20 µs, with a few outliers.
fn round_trip(at: u64) -> u64 {
    let usual = 19_000 + at * at * 37 % 2500;
    match at {
        at if at % 500 == 499 => usual * 7,
        at if at % 40 == 39 => usual + 5000,
        _ => usual,
    }
}

/// Checks a test against the rules in the header.
fn is_valid(test: &Test) -> bool {
    let kind = TestKind(test.kind);
    let is_server = kind == TestKind::KOFI_TEST_SERVER;
    let is_stream = matches!(
        kind,
        TestKind::KOFI_TEST_STREAM | TestKind::KOFI_TEST_WRITE | TestKind::KOFI_TEST_READ
    );
    let is_timed = matches!(
        kind,
        TestKind::KOFI_TEST_PINGPONG | TestKind::KOFI_TEST_ATOMIC
    );
    let is_known = is_server || is_stream || is_timed;
    let is_plain = test.op == 0 && test.datatype == 0;
    let work = if is_server {
        test.length == 0 && test.count == 0 && test.msec == 0
    } else {
        let length = 1..=u64::from(KOFI_TEST_MAX_LENGTH);
        length.contains(&test.length) && !get_string(&test.node).is_empty()
    };
    let window = if is_stream {
        (1..=KOFI_TEST_MAX_WINDOW).contains(&test.window)
            && u64::from(test.window) * test.length <= KOFI_TEST_MAX_BYTES.into()
    } else {
        test.window == 0
    };
    let service = get_string(&test.service).parse::<u16>().is_ok();
    is_known
        && (is_plain || kind == TestKind::KOFI_TEST_ATOMIC)
        && work
        && window
        && service
        && test.flags & !(KOFI_TEST_VERIFY | KOFI_TEST_VERBS) == 0
}
