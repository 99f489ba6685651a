// SPDX-License-Identifier: GPL-2.0

//! Budget of transmit buffers: decides whether a peer may take one more. Pure: no locks, no I/O.
//!
//! A peer is *slow* if no operation to it has completed for [`EPOCH_MS`] to twice that, whether it is new, idle, not
//! connected or stuck. A device reports no difference between a peer that will never complete an operation and one
//! that has just been found, so both have the same bounds:
//!
//! * A peer holds at most `limit` buffers, and takes another only while more than it holds are free.
//! * A slow peer that holds *h* buffers takes another only if *h* + 2 *s* < 3 `limit`, where *s* is the number of buffers
//!   that all slow peers hold. The first slow peer can hold `limit`, each further one holds fewer, and all of them
//!   together never hold more than 1.5 `limit`. The rest is for peers whose operations complete.
//!
//! The sums are kept for two epochs of time, so no peer is searched: operations of peers that completed one in this
//! epoch or the last one are counted there, and all others are those of slow peers. The clock is read only when `limit`
//! buffers or more are in use; with fewer, no bound applies.

use kernel::time::Jiffies;

/// Length of an epoch in milliseconds.
pub(super) const EPOCH_MS: u32 = 100;

/// Buffers of a peer.
pub(in super::super) struct TxShare {
    /// Number of buffers that the peer holds.
    held: usize,
    /// Epoch in which an operation to the peer has completed last; 0 if there was none.
    epoch: u64,
}

impl TxShare {
    /// Creates the share of a peer without buffers.
    pub(in super::super) const fn new() -> Self {
        Self::slow(0)
    }

    /// Creates the share of a peer that holds `held` buffers and has completed no operation.
    pub(in super::super) const fn slow(held: usize) -> Self {
        Self { held, epoch: 0 }
    }

    /// Returns whether the peer holds no buffer.
    pub(in super::super) fn is_empty(&self) -> bool {
        self.held == 0
    }
}

/// Budget of a pool.
pub(super) struct TxBudget {
    /// Number of buffers, at least twice `limit` less one.
    total: usize,
    /// Number of buffers that one peer may hold.
    limit: usize,
    /// Number of buffers that peers hold.
    used: usize,
    /// Number of the current epoch.
    epoch: u64,
    /// Begin of the current epoch.
    began: Jiffies,
    /// Buffers held by the peers whose last completion was in the current epoch and in the one before, by its lowest
    /// bit.
    live: [usize; 2],
}

impl TxBudget {
    /// Creates the budget of a pool of `total` buffers.
    pub(super) const fn new(total: usize) -> Self {
        Self {
            total,
            limit: total.div_ceil(2),
            used: 0,
            epoch: 2,
            began: 0,
            live: [0; 2],
        }
    }

    /// Returns the number of buffers.
    pub(super) const fn total(&self) -> usize {
        self.total
    }

    /// Raises the number of buffers to `total`.
    pub(super) fn grow(&mut self, total: usize) {
        self.total = self.total.max(total);
        self.limit = self.total.div_ceil(2);
    }

    /// Returns the number of buffers that every peer can take, whatever the others do not complete.
    #[inline(always)]
    pub(super) fn left(&self) -> usize {
        self.limit.saturating_sub(self.used)
    }

    /// Takes a buffer for an operation, if the peer may have one more. `now` returns the time and the length of an
    /// epoch.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        share: &mut TxShare,
        now: impl FnOnce() -> (Jiffies, Jiffies),
    ) -> bool {
        let may_take = self.left() > 0 || self.may_take(share, now());
        if may_take {
            self.add(share);
        }
        may_take
    }

    /// Takes a buffer for a segment, of which there are a few for each connection, if more than a quarter is free.
    pub(super) fn take_segment(&mut self, share: &mut TxShare) -> bool {
        let may_take = self.total - self.used > self.total / 4;
        if may_take {
            self.add(share);
        }
        may_take
    }

    /// Puts a buffer back; `is_done` tells whether its operation was successful.
    #[inline(always)]
    pub(super) fn put(&mut self, share: &mut TxShare, is_done: bool) {
        self.remove(share, 1);
        if is_done {
            self.note_completion(share);
        }
    }

    /// Records that an operation to the peer has completed.
    #[inline(always)]
    pub(super) fn note_completion(&mut self, share: &mut TxShare) {
        if share.epoch != self.epoch {
            self.set_live(share);
        }
    }

    /// Moves a buffer from the share of one peer to that of another.
    pub(super) fn transfer(&mut self, from: &mut TxShare, to: &mut TxShare) {
        self.remove(from, 1);
        self.add(to);
    }

    /// Puts back all buffers of a peer that ends.
    pub(super) fn put_all(&mut self, share: &mut TxShare) {
        self.remove(share, share.held);
    }

    #[cold]
    fn may_take(&mut self, share: &TxShare, (now, epoch_len): (Jiffies, Jiffies)) -> bool {
        self.advance(now, epoch_len);
        let free = self.total - self.used;
        let slow = self.used - self.live[0] - self.live[1];
        share.held < self.limit.min(free)
            && (self.is_live(share) || share.held + 2 * slow < 3 * self.limit)
    }

    /// Starts the next epoch if the current one is over, or two if nothing can have completed in the last one.
    fn advance(&mut self, now: Jiffies, epoch_len: Jiffies) {
        let passed = now.wrapping_sub(self.began) / epoch_len.max(1);
        for _ in 0..passed.min(2) {
            self.epoch += 1;
            self.live[self.epoch as usize % 2] = 0;
            self.began = now;
        }
    }

    fn is_live(&self, share: &TxShare) -> bool {
        share.epoch + 1 >= self.epoch
    }

    fn set_live(&mut self, share: &mut TxShare) {
        let held = share.held;
        if self.is_live(share) {
            self.live[share.epoch as usize % 2] -= held;
        }
        share.epoch = self.epoch;
        self.live[self.epoch as usize % 2] += held;
    }

    #[inline(always)]
    fn add(&mut self, share: &mut TxShare) {
        share.held += 1;
        self.used += 1;
        if self.is_live(share) {
            self.live[share.epoch as usize % 2] += 1;
        }
    }

    #[inline(always)]
    fn remove(&mut self, share: &mut TxShare, count: usize) {
        share.held -= count;
        self.used -= count;
        if self.is_live(share) {
            self.live[share.epoch as usize % 2] -= count;
        }
    }
}

#[kernel::prelude::kunit_tests(kofi_rdm_tx_budget)]
mod tests {
    use super::*;
    use crate::{
        fi::prelude::*,
        util::random::SeededRandom, //
    };

    const EPOCH: Jiffies = 10;

    /// Takes buffers until one is refused; returns their number.
    fn take_all(budget: &mut TxBudget, share: &mut TxShare, now: Jiffies) -> usize {
        let before = share.held;
        while budget.take(share, || (now, EPOCH)) {}
        share.held - before
    }

    #[test]
    fn one_peer_takes_half_of_the_buffers() {
        for (total, half) in [(1, 1), (2, 1), (3, 2), (4, 2), (128, 64)] {
            let (mut budget, mut share) = (TxBudget::new(total), TxShare::new());
            assert_eq!(budget.left(), half);
            assert_eq!(take_all(&mut budget, &mut share, 1000), half);
            assert_eq!(budget.left(), 0);
        }
    }

    #[test]
    fn slow_peers_never_take_the_last_quarter() {
        let mut budget = TxBudget::new(128);
        let mut stuck = [const { TxShare::new() }; 40];
        let mut last = usize::MAX;
        for share in &mut stuck {
            let taken = take_all(&mut budget, share, 1000);
            assert!(taken <= last);
            last = taken;
        }
        assert!(stuck[1].held > 10 && stuck[2].held > 3);
        assert_eq!(budget.used, 96);
    }

    #[test]
    fn a_peer_that_completes_takes_what_slow_peers_leave() {
        let mut budget = TxBudget::new(128);
        let (mut stuck, mut live) = (TxShare::new(), TxShare::new());
        assert_eq!(take_all(&mut budget, &mut stuck, 1000), 64);
        assert!(budget.take(&mut live, || (1000, EPOCH)));
        budget.put(&mut live, true);
        // Half of the free buffers, so that others find some too.
        assert_eq!(take_all(&mut budget, &mut live, 1000), 32);
        // Two epochs without a completion make it slow.
        budget.put(&mut live, false);
        assert_eq!(take_all(&mut budget, &mut live, 1000 + EPOCH), 1);
        budget.put(&mut live, false);
        assert_eq!(take_all(&mut budget, &mut live, 1000 + 2 * EPOCH), 0);
        // A completion makes it live again.
        budget.put(&mut live, true);
        assert!(budget.take(&mut live, || (1000 + 2 * EPOCH, EPOCH)));
    }

    #[test]
    fn what_is_left_can_be_taken_by_every_peer() -> kernel::error::Result {
        let mut random = SeededRandom::new(7);
        let mut budget = TxBudget::new(64);
        let mut shares = [const { TxShare::new() }; 9];
        let mut now = 5000;
        for _ in 0..20_000 {
            let at = random.next_below(shares.len() as u64) as usize;
            let share = shares.get_mut(at).ok_or(EINVAL)?;
            match random.next_below(5) {
                0 | 1 => drop(budget.take(share, || (now, EPOCH))),
                2 => drop(budget.take_segment(share)),
                3 if share.held > 0 => budget.put(share, random.next_below(3) > 0),
                _ => now += random.next_below(4) as Jiffies,
            }
            let left = budget.left();
            let share = shares.get_mut(at).ok_or(EINVAL)?;
            for _ in 0..left {
                assert!(budget.take(share, || (now, EPOCH)));
            }
            for _ in 0..left {
                budget.put(share, false);
            }
            // The sums are those of the shares.
            let held = |is: &dyn Fn(&TxShare) -> bool| -> usize {
                shares
                    .iter()
                    .filter(|share| is(share))
                    .map(|share| share.held)
                    .sum()
            };
            assert_eq!(held(&|_| true), budget.used);
            assert_eq!(
                held(&|share| budget.is_live(share)),
                budget.live[0] + budget.live[1]
            );
            assert!(budget.used <= budget.total);
        }
        for share in &mut shares {
            budget.put_all(share);
        }
        assert_eq!((budget.used, budget.live), (0, [0, 0]));
        Ok(())
    }
}
