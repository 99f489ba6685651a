// SPDX-License-Identifier: GPL-2.0

//! What is to be done for connections at a time of its own.

use crate::util::random::random;
use kernel::time::{
    Delta,
    Instant,
    Monotonic, //
};

/// What there is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum TimerKind {
    /// Peers that have said they are asking themselves, and have not, are asked again.
    Reconnect,
    /// Some connection is to make room for who waits for one.
    Evict,
    /// Connections that are to end are looked after.
    Shutdown,
    /// Those that nobody uses are to end.
    IdleSweep,
    /// What another module's provider had no room for, or no receive, is to be tried again.
    SrxRetry,
}

impl TimerKind {
    const ALL: [Self; 5] = [
        Self::Reconnect,
        Self::Evict,
        Self::Shutdown,
        Self::IdleSweep,
        Self::SrxRetry,
    ];
}

/// When each is to be done, if at all.
pub(in super::super) struct CmTimers {
    times: [Option<Instant<Monotonic>>; TimerKind::ALL.len()],
    /// What has been told of that.
    armed_for: Option<Instant<Monotonic>>,
}

impl CmTimers {
    /// Nothing.
    pub(in super::super) const fn new() -> Self {
        Self {
            times: [None; TimerKind::ALL.len()],
            armed_for: None,
        }
    }

    /// It is to be done after that time, unless that is planned already.
    pub(in super::super) fn arm(&mut self, kind: TimerKind, after: Delta) {
        if let Some(time) = self.times.get_mut(kind as usize) {
            time.get_or_insert_with(|| Instant::now() + after);
        }
    }

    /// Takes something that is to be done now.
    pub(in super::super) fn take_expired(&mut self) -> Option<TimerKind> {
        self.next()?;
        let now = Instant::now();
        let mut kinds = self.times.iter_mut().zip(TimerKind::ALL);
        kinds.find_map(|(time, kind)| {
            time.take_if(|time| !(now - *time).is_negative())
                .map(|_| kind)
        })
    }

    /// How long it is until the next is to be done, if that is not when it was last asked for.
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

/// How long somebody waits for another who has to do something first, of whom nobody knows how long that takes:
/// longer each time that it was in vain, and not as long as others do, or two would wait for each other again
/// and again.
pub(in super::super) struct Backoff(u64);

impl Backoff {
    /// In milliseconds.
    const LEAST: u64 = 20;
    const MOST: u64 = 640;

    /// That of somebody who has not waited.
    pub(in super::super) const fn new() -> Self {
        Self(Self::LEAST)
    }

    /// For how long.
    pub(in super::super) fn delay(&self) -> Delta {
        let more = random().checked_rem(self.0).unwrap_or(0);
        Delta::from_millis((self.0 + more) as i64)
    }

    /// It was in vain.
    pub(in super::super) fn increase(&mut self) {
        self.0 = (2 * self.0).min(Self::MOST);
    }

    /// It was not.
    pub(in super::super) fn decrease(&mut self) {
        self.0 = (self.0 / 2).max(Self::LEAST);
    }
}

#[kernel::prelude::kunit_tests(kofi_rdm_agenda)]
mod tests {
    use super::*;
    use kernel::time::delay::fsleep;

    #[test]
    fn patience_is_longer_each_time_and_never_for_ever() {
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
    fn each_is_done_once_when_it_is_time() {
        let mut timers = CmTimers::new();
        assert!(timers.next_delay().is_none() && timers.take_expired().is_none());
        timers.arm(TimerKind::IdleSweep, Delta::from_secs(1000));
        let is_later = |next_delay: Option<Delta>| {
            next_delay.is_some_and(|next_delay| next_delay.as_millis() > 500_000)
        };
        assert!(is_later(timers.next_delay()));
        // Planned again, it is not put off.
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
