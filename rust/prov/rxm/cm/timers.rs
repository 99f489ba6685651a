// SPDX-License-Identifier: GPL-2.0

//! Deadlines of the connection manager. Guarded by the mutex `EpCore::cm`.

use crate::util::random::random;
use kernel::time::{
    Delta,
    Instant,
    Monotonic, //
};

/// Kind of a deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum TimerKind {
    /// Connect again to peers that announced their own requests and did not send them in time.
    Reconnect,
    /// Evict connections to admit waiting peers.
    Evict,
    /// Check the shutdown handshakes.
    Shutdown,
    /// Shut idle connections down, and remove unused peers.
    IdleSweep,
    /// Retry the messages of an imported SRX and the deferred packets.
    RxRetry,
    /// Check the deferred operations for stalled ones.
    StallCheck,
    /// Close connections that have been accepted and are not established in time.
    AcceptCheck,
}

impl TimerKind {
    const ALL: [Self; 7] = [
        Self::Reconnect,
        Self::Evict,
        Self::Shutdown,
        Self::IdleSweep,
        Self::RxRetry,
        Self::StallCheck,
        Self::AcceptCheck,
    ];
}

/// Deadlines of the connection manager, at most one of each kind.
pub(in super::super) struct CmTimers {
    times: [Option<Instant<Monotonic>>; TimerKind::ALL.len()],
    /// Deadline that the kernel timer has been armed for.
    armed_for: Option<Instant<Monotonic>>,
}

impl CmTimers {
    /// Creates the deadlines, none of them set.
    pub(in super::super) const fn new() -> Self {
        Self {
            times: [None; TimerKind::ALL.len()],
            armed_for: None,
        }
    }

    /// Sets a deadline, unless an earlier one of this kind is set.
    pub(in super::super) fn arm(&mut self, kind: TimerKind, after: Delta) {
        let deadline = Instant::now() + after;
        if let Some(time) = self.times.get_mut(kind as usize) {
            let is_earlier = |set: Instant<Monotonic>| (set - deadline).is_negative();
            *time = time.filter(|&set| is_earlier(set)).or(Some(deadline));
        }
    }

    /// Clears an expired deadline, and returns its kind.
    pub(in super::super) fn take_expired(&mut self) -> Option<TimerKind> {
        self.next()?;
        let now = Instant::now();
        let mut kinds = self.times.iter_mut().zip(TimerKind::ALL);
        kinds.find_map(|(time, kind)| {
            time.take_if(|time| !(now - *time).is_negative())
                .map(|_| kind)
        })
    }

    /// Returns the time until the next deadline, unless the kernel timer is armed for it. The caller arms the timer.
    pub(in super::super) fn next_delay(&mut self) -> Option<Delta> {
        let next = self.next()?;
        let armed_for = self.armed_for.replace(next);
        let is_armed = armed_for.is_some_and(|armed_for| (armed_for - next).is_zero());
        (!is_armed).then(|| next - Instant::now())
    }

    fn next(&self) -> Option<Instant<Monotonic>> {
        let times = self.times.iter().flatten().copied();
        times.reduce(|one, other| match (one - other).is_negative() {
            true => one,
            false => other,
        })
    }
}

/// Delay before a retry, with exponential backoff and a random part, so that two endpoints do not keep retrying at
/// the same time.
pub(in super::super) struct Backoff(u64);

impl Backoff {
    /// Lower and upper bound of the delay without its random part, in milliseconds.
    const LEAST: u64 = 20;
    const MOST: u64 = 640;

    /// Creates the backoff with the shortest delay.
    pub(in super::super) const fn new() -> Self {
        Self(Self::LEAST)
    }

    /// Returns the delay before the next retry.
    pub(in super::super) fn delay(&self) -> Delta {
        let more = random().checked_rem(self.0).unwrap_or(0);
        Delta::from_millis((self.0 + more) as i64)
    }

    /// Doubles the delay after a failure.
    pub(in super::super) fn increase(&mut self) {
        self.0 = (2 * self.0).min(Self::MOST);
    }

    /// Halves the delay after a success.
    pub(in super::super) fn decrease(&mut self) {
        self.0 = (self.0 / 2).max(Self::LEAST);
    }
}

#[kernel::prelude::kunit_tests(kofi_rdm_timers)]
mod tests {
    use super::*;
    use kernel::time::delay::fsleep;

    #[test]
    fn backoff_doubles_up_to_a_limit() {
        let mut backoff = Backoff::new();
        for least in [20, 40, 80, 160, 320, 640, 640] {
            let millis = backoff.delay().as_millis();
            assert!((least..2 * least).contains(&millis));
            backoff.increase();
        }
        for _ in 0..10 {
            backoff.decrease();
        }
        assert!((20..40).contains(&backoff.delay().as_millis()));
    }

    #[test]
    fn timers_expire_once_at_their_deadline() {
        let mut timers = CmTimers::new();
        assert!(timers.next_delay().is_none() && timers.take_expired().is_none());
        timers.arm(TimerKind::IdleSweep, Delta::from_secs(1000));
        let is_later = |next_delay: Option<Delta>| {
            next_delay.is_some_and(|next_delay| next_delay.as_millis() > 500_000)
        };
        assert!(is_later(timers.next_delay()));
        // A later deadline of the same kind does not replace the first.
        timers.arm(TimerKind::IdleSweep, Delta::from_secs(2000));
        assert!(timers.next_delay().is_none() && timers.take_expired().is_none());
        timers.arm(TimerKind::Shutdown, Delta::from_millis(1));
        timers.arm(TimerKind::Reconnect, Delta::from_secs(1500));
        assert!(timers
            .next_delay()
            .is_some_and(|next_delay| next_delay.as_millis() <= 1));
        fsleep(Delta::from_millis(2));
        assert!(timers.take_expired() == Some(TimerKind::Shutdown));
        assert!(timers.take_expired().is_none());
        assert!(is_later(timers.next_delay()) && timers.next_delay().is_none());
    }
}
