// SPDX-License-Identifier: GPL-2.0

//! What a test has done so far: each of its threads counts for itself, others look.

use super::{
    super::ioctl_arg::put_array,
    protocol::Refusal, //
};
use crate::{
    abi::{
        self,
        kofi_watch,
        stat_counter::StatCounter,
        Errno, //
    },
    fi::wait::Signal, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        static_lock_class,
        Arc, //
    },
    time::Delta, //
};

/// See KOFI_TEST_BUCKETS.
const BUCKETS: usize = abi::KOFI_TEST_BUCKETS as usize;

/// Clients that a server has at most.
const GUESTS: usize = abi::KOFI_TEST_MAX_CLIENTS as usize;

/// A time that has passed, in ns.
fn nanos(time: Delta) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(0)
}

/// What one thread counts, in memory that no other one writes.
#[repr(align(64))]
pub(super) struct Score {
    messages: StatCounter,
    bytes: StatCounter,
    damaged: StatCounter,
    nsec: StatCounter,
}

impl Score {
    const fn new() -> Self {
        Self {
            messages: StatCounter::new(),
            bytes: StatCounter::new(),
            damaged: StatCounter::new(),
            nsec: StatCounter::new(),
        }
    }

    /// A message is through.
    pub(super) fn message(&self, bytes: usize, is_intact: bool) {
        self.messages.add(1);
        self.bytes.add(bytes as u64);
        self.damaged.add(u64::from(!is_intact));
    }

    /// So many were damaged at the other end.
    pub(super) fn damaged(&self, count: u64) {
        self.damaged.add(count);
    }

    /// Messages have been under way for so long altogether.
    pub(super) fn took(&self, time: Delta) {
        self.nsec.set(nanos(time));
    }
}

/// The counts of all threads, and what has become of the test.
#[pin_data]
pub(super) struct Tally {
    state: Atomic<u32>,
    error: Atomic<i32>,
    /// What a client does.
    pub(super) own: Score,
    /// What a server does for each client that it has. Who comes next goes on with a score that is free.
    guests: KVec<Arc<Score>>,
    clients: Atomic<u32>,
    /// Which of them has the client that came last.
    latest: Atomic<usize>,
    turned_away: Atomic<u32>,
    refusal: Atomic<u32>,
    min: StatCounter,
    max: StatCounter,
    buckets: KVec<StatCounter>,
    /// Given when it is over.
    #[pin]
    over: Signal,
}

/// The bucket of a value.
fn bucket_of(value: u64) -> usize {
    let Some(power) = value.checked_ilog2().and_then(|log| log.checked_sub(4)) else {
        // Less than 16.
        return value as usize;
    };
    power as usize * 16 + (value >> power) as usize
}

impl Tally {
    /// That of a client.
    pub(super) fn of_client() -> Result<Arc<Self>> {
        Self::new(0)
    }

    /// That of a server, with as many scores as it may have clients.
    pub(super) fn of_server() -> Result<Arc<Self>> {
        Self::new(GUESTS)
    }

    fn new(guest_count: usize) -> Result<Arc<Self>> {
        let mut guests = KVec::with_capacity(guest_count, GFP_KERNEL_ACCOUNT)?;
        for _ in 0..guest_count {
            guests.push(
                Arc::new(Score::new(), GFP_KERNEL_ACCOUNT)?,
                GFP_KERNEL_ACCOUNT,
            )?;
        }
        let mut buckets = KVec::with_capacity(BUCKETS, GFP_KERNEL_ACCOUNT)?;
        for _ in 0..BUCKETS {
            buckets.push(StatCounter::new(), GFP_KERNEL_ACCOUNT)?;
        }
        Arc::pin_init(
            pin_init!(Self {
                state: Atomic::new(abi::KOFI_TEST_STARTING),
                error: Atomic::new(0),
                own: Score::new(),
                guests,
                clients: Atomic::new(0),
                latest: Atomic::new(0),
                turned_away: Atomic::new(0),
                refusal: Atomic::new(abi::KOFI_TEST_REFUSAL_NONE),
                min: StatCounter::new(),
                max: StatCounter::new(),
                buckets,
                over <- Signal::new(c"kofi::Tally::over", static_lock_class!()),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    pub(super) fn over(&self) -> &Signal {
        &self.over
    }

    pub(super) fn is_over(&self) -> bool {
        self.state.load(Acquire) == abi::KOFI_TEST_OVER
    }

    /// A score for each client that a server may have at once.
    pub(super) fn guests(&self) -> &[Arc<Score>] {
        &self.guests
    }

    /// Messages go, or clients may come.
    pub(super) fn run(&self) {
        self.state.store(abi::KOFI_TEST_RUNNING, Release);
    }

    /// It is over; that it was stopped is no error.
    pub(super) fn end(&self, result: abi::Result) {
        let error = match result {
            Ok(()) | Err(Errno::EINTR) => 0,
            Err(errno) => errno.code(),
        };
        self.error.store(error, Relaxed);
        self.state.store(abi::KOFI_TEST_OVER, Release);
        self.over.raise();
    }

    /// A client has come, and has the score of that number. The server's thread counts.
    pub(super) fn client(&self, score: usize) {
        let _ = self.clients.fetch_add(1, Relaxed);
        self.latest.store(score, Relaxed);
    }

    /// There was no room for one. The server's thread counts.
    pub(super) fn turn_away(&self) {
        let _ = self.turned_away.fetch_add(1, Relaxed);
    }

    /// The server has said why it refuses.
    pub(super) fn refused(&self, refusal: Refusal) {
        self.refusal.store(refusal.into(), Relaxed);
    }

    /// A message has been there and back.
    pub(super) fn round_trip(&self, time: Delta) {
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

    /// What all threads have counted.
    fn sum(&self, count: impl Fn(&Score) -> &StatCounter) -> u64 {
        let guests = self.guests.iter().map(|score| count(score).get());
        guests.fold(count(&self.own).get(), u64::wrapping_add)
    }

    /// What there is so far.
    ///
    /// # Errors
    ///
    /// `EFAULT` for the caller's array.
    pub(super) fn tell(&self, watch: &mut kofi_watch) -> Result {
        // First: what has been counted by then is told.
        watch.state = self.state.load(Acquire);
        watch.error = self.error.load(Relaxed);
        watch.clients = self.clients.load(Relaxed);
        watch.messages = self.sum(|score| &score.messages);
        watch.bytes = self.sum(|score| &score.bytes);
        watch.damaged = self.sum(|score| &score.damaged);
        let latest = self.guests.get(self.latest.load(Relaxed));
        let timed = latest.map_or(&self.own, |score| score);
        watch.nsec = timed.nsec.get();
        watch.min = self.min.get();
        watch.max = self.max.get();
        watch.refusal = self.refusal.load(Relaxed);
        watch.turned_away = self.turned_away.load(Relaxed);
        let counts = self.buckets.iter().map(|bucket| bucket.get());
        put_array(watch.buckets, counts.take(watch.bucket_count as usize))
    }
}

#[kunit_tests(kofi_dev_test_tally)]
mod tests {
    use super::*;

    /// As the header has it.
    fn smallest_of(bucket: u64) -> u64 {
        match bucket {
            0..32 => bucket,
            _ => (16 + bucket % 16) << (bucket / 16 - 1),
        }
    }

    #[test]
    fn what_is_told_is_the_sum_of_all_threads() -> Result {
        let tally = Tally::of_server()?;
        let mut watch: KBox<kofi_watch> = KBox::init(pin_init::init_zeroed(), GFP_KERNEL_ACCOUNT)?;
        for (at, score) in tally.guests().iter().enumerate() {
            tally.client(at);
            score.message(10, at > 0);
            score.message(5, true);
            score.took(Delta::from_nanos(at as i64));
        }
        tally.turn_away();
        tally.tell(&mut watch)?;
        let count = GUESTS as u64;
        assert_eq!((watch.messages, watch.bytes), (2 * count, 15 * count));
        assert_eq!((watch.damaged, watch.turned_away), (1, 1));
        assert_eq!((watch.clients.into(), watch.nsec), (count, count - 1));
        Ok(())
    }

    #[test]
    fn each_value_has_the_bucket_that_it_is_in() {
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
