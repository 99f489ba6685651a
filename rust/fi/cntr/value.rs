// SPDX-License-Identifier: GPL-2.0

//! The value and error value of a counter, and the lowest threshold of its waiters. No lock: the counting
//! thread may hold a device's locks.
//!
//! A waiter sets its threshold and then reads the values; the counting thread changes a value and then reads
//! the threshold. Both steps are fully ordered, so one of the two sees the other. The thread that finds the
//! threshold reached clears it and wakes all waiters; a waiter whose threshold is not reached sets it again.

use crate::{
    abi::{
        KOFI_VALUE_COUNT,
        KOFI_VALUE_ERRORS, //
    },
    fi::{
        introspect::Introspect,
        prelude::*, //
    },
};

/// The threshold without waiters.
const NO_WAITER: u64 = u64::MAX;

/// The values and the threshold. The calls that change a value return true if the waiters have to be woken.
pub(super) struct CounterValue {
    value: Atomic<u64>,
    errors: Atomic<u64>,
    threshold: Atomic<u64>,
}

impl Introspect for CounterValue {
    fn fill_info(&self, info: &mut ObjectInfo<'_>) {
        info.add_value(KOFI_VALUE_COUNT, self.value());
        info.add_value(KOFI_VALUE_ERRORS, self.errors());
    }
}

impl CounterValue {
    /// Returns values of 0, without waiters.
    pub(super) const fn new() -> Self {
        Self {
            value: Atomic::new(0),
            errors: Atomic::new(0),
            threshold: Atomic::new(NO_WAITER),
        }
    }

    /// Returns the number of successes.
    pub(super) fn value(&self) -> u64 {
        self.value.load(Relaxed)
    }

    /// Returns the number of errors.
    pub(super) fn errors(&self) -> u64 {
        self.errors.load(Relaxed)
    }

    /// Counts successes, modulo 2^64.
    pub(super) fn add(&self, count: u64) -> bool {
        let before = self.value.fetch_add(count, Full);
        self.take_threshold(before.wrapping_add(count))
    }

    /// Counts errors, modulo 2^64.
    pub(super) fn add_errors(&self, count: u64) -> bool {
        let _ = self.errors.fetch_add(count, Full);
        count > 0 && self.take_threshold(NO_WAITER)
    }

    /// Sets the number of successes.
    pub(super) fn set(&self, value: u64) -> bool {
        let _ = self.value.xchg(value, Full);
        self.take_threshold(value)
    }

    /// Sets the number of errors.
    pub(super) fn set_errors(&self, errors: u64) -> bool {
        let before = self.errors.xchg(errors, Full);
        before != errors && self.take_threshold(NO_WAITER)
    }

    /// Requests a wakeup when `threshold` is reached or an error is counted. The caller reads the values
    /// afterwards.
    pub(super) fn set_threshold(&self, threshold: u64) {
        // The largest threshold means no waiter; a waiter for it is woken one count early.
        let threshold = threshold.min(NO_WAITER - 1);
        let mut seen = self.threshold.load(Relaxed);
        // Written even if the value does not change, for the memory order.
        while let Err(now) = self.threshold.cmpxchg(seen, seen.min(threshold), Full) {
            seen = now;
        }
    }

    /// Clears the threshold and returns true if `value` has reached it.
    fn take_threshold(&self, value: u64) -> bool {
        let mut wanted = self.threshold.load(Relaxed);
        while wanted != NO_WAITER && value >= wanted {
            match self.threshold.cmpxchg(wanted, NO_WAITER, Full) {
                Ok(_) => return true,
                Err(now) => wanted = now,
            }
        }
        false
    }
}

#[kernel::prelude::kunit_tests(kofi_fi_cntr_value)]
mod tests {
    use super::*;

    #[test]
    fn cntr_01_success_and_error_values_are_independent() {
        let counter = CounterValue::new();
        counter.add(3);
        counter.add_errors(2);
        assert_eq!((counter.value(), counter.errors()), (3, 2));
        counter.set(7);
        assert_eq!((counter.value(), counter.errors()), (7, 2));
        counter.set_errors(0);
        counter.add(u64::MAX);
        assert_eq!((counter.value(), counter.errors()), (6, 0));
    }

    #[test]
    fn cntr_02_lowest_threshold_wakes_the_waiters() {
        let counter = CounterValue::new();
        assert!(!counter.add(100));
        counter.set_threshold(105);
        counter.set_threshold(103);
        counter.set_threshold(104);
        assert!(!counter.add(2));
        assert!(counter.add(1));
        // A waiter whose threshold is not reached sets it again.
        assert!(!counter.add(10));
        counter.set_threshold(114);
        assert!(counter.set(200));
        counter.set_threshold(300);
        assert!(!counter.set(0));
    }

    #[test]
    fn cntr_02_error_value_change_wakes_the_waiters() {
        let counter = CounterValue::new();
        assert!(!counter.add_errors(1));
        counter.set_threshold(u64::MAX);
        assert!(!counter.add(1));
        assert!(!counter.add_errors(0));
        assert!(counter.add_errors(1));
        counter.set_threshold(10);
        assert!(!counter.set_errors(2));
        assert!(counter.set_errors(0));
    }
}
