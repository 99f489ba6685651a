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
pub(super) enum Task {
    /// Peers that have said they are asking themselves, and have not, are asked again.
    Ask,
    /// Some connection is to make room for who waits for one.
    Room,
    /// Connections that are to end are looked after.
    Part,
    /// Those that nobody uses are to end.
    Sweep,
    /// What another module's provider had no room for, or no receive, is to be tried again.
    Resume,
}

impl Task {
    const ALL: [Self; 5] = [Self::Ask, Self::Room, Self::Part, Self::Sweep, Self::Resume];
}

/// When each is to be done, if at all.
pub(super) struct Agenda {
    times: [Option<Instant<Monotonic>>; Task::ALL.len()],
    /// What has been told of that.
    told: Option<Instant<Monotonic>>,
}

impl Agenda {
    /// Nothing.
    pub(super) const fn new() -> Self {
        Self {
            times: [None; Task::ALL.len()],
            told: None,
        }
    }

    /// It is to be done after that time, unless that is planned already.
    pub(super) fn plan(&mut self, task: Task, after: Delta) {
        if let Some(time) = self.times.get_mut(task as usize) {
            time.get_or_insert_with(|| Instant::now() + after);
        }
    }

    /// Takes something that is to be done now.
    pub(super) fn due(&mut self) -> Option<Task> {
        self.next()?;
        let now = Instant::now();
        let mut tasks = self.times.iter_mut().zip(Task::ALL);
        tasks.find_map(|(time, task)| {
            time.take_if(|time| !(now - *time).is_negative())
                .map(|_| task)
        })
    }

    /// How long it is until the next is to be done, if that is not when it was last asked for.
    pub(super) fn news(&mut self) -> Option<Delta> {
        let next = self.next()?;
        let told = self.told.replace(next);
        let is_old = told.is_some_and(|told| (told - next).is_zero());
        (!is_old).then(|| next - Instant::now())
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
pub(super) struct Patience(u64);

impl Patience {
    /// In milliseconds.
    const LEAST: u64 = 20;
    const MOST: u64 = 640;

    /// That of somebody who has not waited.
    pub(super) const fn new() -> Self {
        Self(Self::LEAST)
    }

    /// For how long.
    pub(super) fn get(&self) -> Delta {
        let more = random().checked_rem(self.0).unwrap_or(0);
        Delta::from_millis((self.0 + more) as i64)
    }

    /// It was in vain.
    pub(super) fn exhausted(&mut self) {
        self.0 = (2 * self.0).min(Self::MOST);
    }

    /// It was not.
    pub(super) fn rewarded(&mut self) {
        self.0 = (self.0 / 2).max(Self::LEAST);
    }
}

#[kernel::prelude::kunit_tests(kofi_rdm_agenda)]
mod tests {
    use super::*;
    use kernel::time::delay::fsleep;

    #[test]
    fn patience_is_longer_each_time_and_never_for_ever() {
        let mut patience = Patience::new();
        for least in [20, 40, 80, 160, 320, 640, 640] {
            let millis = patience.get().as_millis();
            assert!((least..2 * least).contains(&millis));
            patience.exhausted();
        }
        for _ in 0..10 {
            patience.rewarded();
        }
        assert!((20..40).contains(&patience.get().as_millis()));
    }

    #[test]
    fn each_is_done_once_when_it_is_time() {
        let mut agenda = Agenda::new();
        assert!(agenda.news().is_none() && agenda.due().is_none());
        agenda.plan(Task::Sweep, Delta::from_secs(1000));
        let is_later = |news: Option<Delta>| news.is_some_and(|news| news.as_millis() > 500_000);
        assert!(is_later(agenda.news()));
        // Planned again, it is not put off.
        agenda.plan(Task::Sweep, Delta::from_secs(2000));
        assert!(agenda.news().is_none() && agenda.due().is_none());
        agenda.plan(Task::Part, Delta::from_millis(1));
        agenda.plan(Task::Ask, Delta::from_secs(1500));
        assert!(agenda.news().is_some_and(|news| news.as_millis() <= 1));
        fsleep(Delta::from_millis(2));
        assert!(agenda.due() == Some(Task::Part));
        assert!(agenda.due().is_none());
        assert!(is_later(agenda.news()) && agenda.news().is_none());
    }
}
