// SPDX-License-Identifier: GPL-2.0

//! What a test has done so far: one thread counts, others look.

use super::super::argument::put_array;
use crate::{
    abi::{
        self,
        kofi_watch,
        Errno, //
    },
    fi::wait::Signal,
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
    time::Delta,
};

/// See KOFI_TEST_BUCKETS.
const BUCKETS: usize = abi::KOFI_TEST_BUCKETS as usize;

/// The counts.
#[pin_data]
pub(super) struct Tally {
    state: Atomic<u32>,
    error: Atomic<i32>,
    clients: Atomic<u32>,
    messages: Atomic<u64>,
    bytes: Atomic<u64>,
    damaged: Atomic<u64>,
    nsec: Atomic<u64>,
    min: Atomic<u64>,
    max: Atomic<u64>,
    buckets: KVec<Atomic<u64>>,
    /// Given when it is over.
    #[pin]
    over: Signal,
}

/// Adds, for the one thread that counts.
fn add(count: &Atomic<u64>, more: u64) {
    count.store(count.load(Relaxed).wrapping_add(more), Relaxed);
}

/// A time that has passed, in ns.
fn nanos(time: Delta) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(0)
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
    pub(super) fn new() -> Result<Arc<Self>> {
        let mut buckets = KVec::with_capacity(BUCKETS, GFP_KERNEL)?;
        for _ in 0..BUCKETS {
            buckets.push(Atomic::new(0), GFP_KERNEL)?;
        }
        Arc::pin_init(
            pin_init!(Self {
                state: Atomic::new(abi::KOFI_TEST_STARTING),
                error: Atomic::new(0),
                clients: Atomic::new(0),
                messages: Atomic::new(0),
                bytes: Atomic::new(0),
                damaged: Atomic::new(0),
                nsec: Atomic::new(0),
                min: Atomic::new(0),
                max: Atomic::new(0),
                buckets,
                over <- Signal::new(c"kofi::Tally::over", static_lock_class!()),
            }),
            GFP_KERNEL,
        )
    }

    pub(super) fn over(&self) -> &Signal {
        &self.over
    }

    pub(super) fn is_over(&self) -> bool {
        self.state.load(Acquire) == abi::KOFI_TEST_OVER
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
        self.over.give();
    }

    /// A client has come.
    pub(super) fn client(&self) {
        self.clients.store(self.clients.load(Relaxed) + 1, Relaxed);
    }

    /// A message is through.
    pub(super) fn message(&self, bytes: usize, is_intact: bool) {
        add(&self.messages, 1);
        add(&self.bytes, bytes as u64);
        add(&self.damaged, u64::from(!is_intact));
    }

    /// So many were damaged at the other end.
    pub(super) fn damaged(&self, count: u64) {
        add(&self.damaged, count);
    }

    /// Messages have been under way for so long altogether.
    pub(super) fn took(&self, time: Delta) {
        self.nsec.store(nanos(time), Relaxed);
    }

    /// A message has been there and back.
    pub(super) fn round_trip(&self, time: Delta) {
        let nsec = nanos(time);
        let min = self.min.load(Relaxed);
        if min == 0 || nsec < min {
            self.min.store(nsec, Relaxed);
        }
        if nsec > self.max.load(Relaxed) {
            self.max.store(nsec, Relaxed);
        }
        if let Some(bucket) = self.buckets.get(bucket_of(nsec)) {
            add(bucket, 1);
        }
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
        watch.messages = self.messages.load(Relaxed);
        watch.bytes = self.bytes.load(Relaxed);
        watch.damaged = self.damaged.load(Relaxed);
        watch.nsec = self.nsec.load(Relaxed);
        watch.min = self.min.load(Relaxed);
        watch.max = self.max.load(Relaxed);
        let counts = self.buckets.iter().map(|bucket| bucket.load(Relaxed));
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
