// SPDX-License-Identifier: GPL-2.0

//! Statistics of a test. Each thread counts in memory of its own without a lock, and any thread reads.

use super::{
    bindings::{
        self,
        kofi_watch, //
    },
    protocol::Refusal, //
};
use kernel::{
    new_condvar, new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        Arc,
        CondVar,
        CondVarTimeoutResult,
        Mutex, //
    },
    time::{
        msecs_to_jiffies,
        Delta, //
    },
};
use kofi::{
    abi::{
        self,
        Errno, //
    },
    dev::ioctl_arg::write_array, //
};

/// Buckets of the histogram.
const BUCKETS: usize = bindings::KOFI_TEST_BUCKETS as usize;

/// Maximum number of clients that a server has at a time.
const CLIENTS: usize = bindings::KOFI_TEST_MAX_CLIENTS as usize;

/// A counter that one thread writes and others read. It orders no other memory access.
struct Counter(Atomic<u64>);

impl Default for Counter {
    fn default() -> Self {
        Self(Atomic::new(0))
    }
}

impl Counter {
    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    fn add(&self, value: u64) {
        self.set(self.get().wrapping_add(value));
    }
}

/// Returns a time in ns.
fn nanos(time: Delta) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(0)
}

/// The counters of one thread, in a cache line that no other thread writes.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct ThreadStats {
    messages: Counter,
    bytes: Counter,
    damaged: Counter,
    nsec: Counter,
}

impl ThreadStats {
    /// Counts a message.
    pub(super) fn count_message(&self, bytes: usize, is_intact: bool) {
        self.messages.add(1);
        self.bytes.add(bytes as u64);
        self.damaged.add(u64::from(!is_intact));
    }

    /// Counts messages that the peer has found damaged.
    pub(super) fn count_damaged(&self, count: u64) {
        self.damaged.add(count);
    }

    /// Sets the time that all transfers so far have taken.
    pub(super) fn set_time(&self, time: Delta) {
        self.nsec.set(nanos(time));
    }
}

/// The statistics of all threads of a test, its state and its error.
#[pin_data]
pub(crate) struct Stats {
    state: Atomic<u32>,
    error: Atomic<i32>,
    /// Counters of a client.
    pub(super) own: ThreadStats,
    /// Counters of a server, for each client that it may have at once. A later client continues with the counters
    /// of one that has disconnected.
    pub(super) threads: KVec<Arc<ThreadStats>>,
    /// Number of clients that a server has accepted.
    clients: Atomic<u32>,
    /// Index of the counters of the client that was accepted last.
    latest: Atomic<usize>,
    rejected: Atomic<u32>,
    refusal: Atomic<u32>,
    min: Counter,
    max: Counter,
    buckets: KVec<Counter>,
    /// Set at the end of the test.
    #[pin]
    ended: Mutex<bool>,
    /// Notified at the end of the test.
    #[pin]
    end: CondVar,
}

/// Returns the index of the bucket of a value.
fn bucket_of(value: u64) -> usize {
    let Some(power) = value.checked_ilog2().and_then(|log| log.checked_sub(4)) else {
        // A value below 16.
        return value as usize;
    };
    power as usize * 16 + (value >> power) as usize
}

impl Stats {
    /// Creates the statistics of a client.
    pub(super) fn of_client() -> Result<Arc<Self>> {
        Self::new(0)
    }

    /// Creates the statistics of a server.
    pub(super) fn of_server() -> Result<Arc<Self>> {
        Self::new(CLIENTS)
    }

    fn new(thread_count: usize) -> Result<Arc<Self>> {
        let mut threads = KVec::with_capacity(thread_count, GFP_KERNEL_ACCOUNT)?;
        for _ in 0..thread_count {
            let thread = Arc::new(ThreadStats::default(), GFP_KERNEL_ACCOUNT)?;
            threads.push(thread, GFP_KERNEL_ACCOUNT)?;
        }
        let mut buckets = KVec::with_capacity(BUCKETS, GFP_KERNEL_ACCOUNT)?;
        for _ in 0..BUCKETS {
            buckets.push(Counter::default(), GFP_KERNEL_ACCOUNT)?;
        }
        Arc::pin_init(
            pin_init!(Self {
                state: Atomic::new(bindings::KOFI_TEST_STARTING),
                error: Atomic::new(0),
                own: ThreadStats::default(),
                threads,
                clients: Atomic::new(0),
                latest: Atomic::new(0),
                rejected: Atomic::new(0),
                refusal: Atomic::new(bindings::KOFI_TEST_REFUSAL_NONE),
                min: Counter::default(),
                max: Counter::default(),
                buckets,
                ended <- new_mutex!(false, "kofi_perf::Stats::ended"),
                end <- new_condvar!("kofi_perf::Stats::end"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Waits until the end of the test, or for `msec` milliseconds. May sleep.
    ///
    /// # Errors
    ///
    /// `EINTR` if a signal is pending for the caller.
    pub(super) fn wait_end(&self, msec: u32) -> Result {
        let mut left = msecs_to_jiffies(msec);
        let mut ended = self.ended.lock();
        while !*ended && left > 0 {
            left = match self.end.wait_interruptible_timeout(&mut ended, left) {
                CondVarTimeoutResult::Woken { jiffies } => jiffies,
                CondVarTimeoutResult::Timeout => 0,
                CondVarTimeoutResult::Signal { .. } if *ended => 0,
                // The call does not restart: the caller's signal handler may have changed the request.
                CondVarTimeoutResult::Signal { .. } => return Err(EINTR),
            };
        }
        Ok(())
    }

    pub(super) fn is_over(&self) -> bool {
        self.state.load(Acquire) == bindings::KOFI_TEST_OVER
    }

    /// Sets the state to running: a client is connected, or a server listens.
    pub(super) fn set_running(&self) {
        self.state.store(bindings::KOFI_TEST_RUNNING, Release);
    }

    /// Ends the test with its result; -FI_EINTR, of a test that was stopped, counts as success.
    pub(super) fn end(&self, result: abi::Result) {
        let error = match result {
            Ok(()) | Err(Errno::EINTR) => 0,
            Err(errno) => errno.code(),
        };
        self.error.store(error, Relaxed);
        self.state.store(bindings::KOFI_TEST_OVER, Release);
        *self.ended.lock() = true;
        self.end.notify_all();
    }

    /// Counts an accepted client, whose counters are those at `index`. Called by the server's thread alone.
    pub(super) fn add_client(&self, index: usize) {
        let _ = self.clients.fetch_add(1, Relaxed);
        self.latest.store(index, Relaxed);
    }

    /// Counts a client that was rejected because the server is full. Called by the server's thread alone.
    pub(super) fn add_rejected(&self) {
        let _ = self.rejected.fetch_add(1, Relaxed);
    }

    /// Stores the reason that the server gave for a rejection.
    pub(super) fn set_refusal(&self, refusal: Refusal) {
        self.refusal.store(refusal as u32, Relaxed);
    }

    /// Counts the duration of a round trip or of an atomic operation.
    pub(super) fn add_latency(&self, time: Delta) {
        let nsec = nanos(time);
        let min = self.min.get();
        if min == 0 || nsec < min {
            self.min.set(nsec);
        }
        if nsec > self.max.get() {
            self.max.set(nsec);
        }
        if let Some(bucket) = self.buckets.get(bucket_of(nsec)) {
            bucket.add(1);
        }
    }

    /// Returns the sum of a counter over all threads.
    fn sum(&self, counter: impl Fn(&ThreadStats) -> &Counter) -> u64 {
        let threads = self.threads.iter().map(|thread| counter(thread).get());
        threads.fold(counter(&self.own).get(), u64::wrapping_add)
    }

    /// Writes the statistics so far.
    ///
    /// # Errors
    ///
    /// `EFAULT` for the array of the histogram.
    pub(super) fn report(&self, watch: &mut kofi_watch) -> Result {
        // The state is read first: if the test is over, all its counts are visible.
        watch.state = self.state.load(Acquire);
        watch.error = self.error.load(Relaxed);
        watch.clients = self.clients.load(Relaxed);
        watch.messages = self.sum(|thread| &thread.messages);
        watch.bytes = self.sum(|thread| &thread.bytes);
        watch.damaged = self.sum(|thread| &thread.damaged);
        let latest = self.threads.get(self.latest.load(Relaxed));
        watch.nsec = latest.map_or(&self.own, |thread| thread).nsec.get();
        watch.min = self.min.get();
        watch.max = self.max.get();
        watch.refusal = self.refusal.load(Relaxed);
        watch.turned_away = self.rejected.load(Relaxed);
        let counts = self.buckets.iter().map(|bucket| bucket.get());
        write_array(watch.buckets, counts.take(watch.bucket_count as usize))
    }
}

#[kunit_tests(kofi_perf_stats)]
mod tests {
    use super::*;

    /// Returns the smallest value of a bucket, as kofi_perf.h defines it.
    fn smallest_of(bucket: u64) -> u64 {
        match bucket {
            0..32 => bucket,
            _ => (16 + bucket % 16) << (bucket / 16 - 1),
        }
    }

    #[test]
    fn report_sums_the_counts_of_all_threads() -> Result {
        let stats = Stats::of_server()?;
        let mut watch: KBox<kofi_watch> = KBox::init(pin_init::init_zeroed(), GFP_KERNEL_ACCOUNT)?;
        for (at, thread) in stats.threads.iter().enumerate() {
            stats.add_client(at);
            thread.count_message(10, at > 0);
            thread.count_message(5, true);
            thread.set_time(Delta::from_nanos(at as i64));
        }
        stats.add_rejected();
        stats.report(&mut watch)?;
        let count = CLIENTS as u64;
        assert_eq!((watch.messages, watch.bytes), (2 * count, 15 * count));
        assert_eq!((watch.damaged, watch.turned_away), (1, 1));
        assert_eq!((watch.clients.into(), watch.nsec), (count, count - 1));
        Ok(())
    }

    #[test]
    fn bucket_of_matches_the_documented_minima() {
        for bucket in 0..BUCKETS as u64 {
            let from = smallest_of(bucket);
            assert_eq!(bucket_of(from), bucket as usize);
            if bucket > 0 {
                assert_eq!(bucket_of(from - 1), bucket as usize - 1);
            }
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }
}
