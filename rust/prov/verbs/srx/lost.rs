// SPDX-License-Identifier: GPL-2.0

//! Bound on the number of shared receives that a device has lost. Pure: no locks, no I/O. Guarded by `Srx::endpoints`.
//!
//! rxe forgets the receive that a queue pair was filling when it broke. The device takes receives in the order of their
//! sequence numbers, and a queue pair fills one at a time. So a closed endpoint has lost one receive at most, and its
//! number exceeds that of the newest completed receive by no more than the number of endpoints. Once a receive beyond
//! it has completed, a lost receive is one of those that are *overtaken*: posted before the newest completed one.

/// Bound on the number of lost receives.
pub(super) struct LostBound {
    /// Number of endpoints closed since no receive could be lost, less the receives that have been found.
    closed: u32,
    /// Number of endpoints closed before `recent`, whose receives may be beyond the newest completed one.
    earlier: Closed,
    /// Number of endpoints closed last.
    recent: Closed,
}

/// Endpoints that have been closed.
#[derive(Clone, Copy)]
struct Closed {
    count: u32,
    /// Greatest sequence number of the receives that they may have lost.
    end: u64,
}

impl Closed {
    const NONE: Self = Self { count: 0, end: 0 };
}

impl LostBound {
    /// Creates the bound of a context that has lost nothing.
    pub(super) const fn new() -> Self {
        Self {
            closed: 0,
            earlier: Closed::NONE,
            recent: Closed::NONE,
        }
    }

    /// Counts an endpoint that could receive and has been closed. `newest` is the number of the newest completed
    /// receive, `endpoints` that of the other endpoints.
    pub(super) fn endpoint_closed(&mut self, newest: u64, endpoints: usize) {
        self.closed = self.closed.saturating_add(1);
        self.recent.count = self.recent.count.saturating_add(1);
        let uncertain = self.earlier.count.saturating_add(self.recent.count);
        self.recent.end = newest + endpoints as u64 + u64::from(uncertain);
    }

    /// Counts lost receives that have been found, all of them if `all_found` is set. Returns the largest number of
    /// those that are left, of which `overtaken` are posted before the newest completed receive.
    pub(super) fn found(
        &mut self,
        found: u32,
        all_found: bool,
        (newest, overtaken): (u64, u32),
    ) -> u32 {
        if all_found {
            *self = Self::new();
        }
        self.closed = self.closed.saturating_sub(found);
        if newest >= self.earlier.end {
            self.earlier = core::mem::replace(&mut self.recent, Closed::NONE);
        }
        let uncertain = self.earlier.count.saturating_add(self.recent.count);
        self.closed.min(overtaken.saturating_add(uncertain))
    }
}

#[kernel::prelude::kunit_tests(kofi_verbs_lost)]
mod tests {
    use super::*;

    #[test]
    fn each_closed_endpoint_may_have_lost_a_receive() {
        let mut bound = LostBound::new();
        for closed in 1..=300 {
            bound.endpoint_closed(5, 1);
            assert_eq!(bound.found(0, false, (5, 0)), closed);
        }
        assert_eq!(bound.found(100, false, (5, 0)), 200);
        assert_eq!(bound.found(0, true, (5, 0)), 0);
    }

    #[test]
    fn overtaken_receives_bound_those_lost_before() {
        let mut bound = LostBound::new();
        for _ in 0..10 {
            bound.endpoint_closed(100, 4);
        }
        assert_eq!(bound.found(0, false, (100, 0)), 10);
        // The ten endpoints and four others have taken receives up to 114.
        assert_eq!(bound.found(0, false, (113, 3)), 10);
        assert_eq!(bound.found(0, false, (114, 3)), 3);
        assert_eq!(bound.found(3, false, (120, 0)), 0);
    }

    #[test]
    fn endpoints_that_receive_and_close_do_not_add_up() {
        let mut bound = LostBound::new();
        let mut newest = 0;
        for _ in 0..10_000 {
            newest += 4;
            bound.endpoint_closed(newest, 8);
            assert!(bound.found(0, false, (newest, 0)) <= 16);
        }
    }
}
