// SPDX-License-Identifier: GPL-2.0

//! Turns: one thread at a time makes progress for an endpoint, and copies messages without the lock.
//!
//! A thread that holds `EpCore::inner` has the turn while it has the endpoint's [`Batch`]. It keeps the turn while it
//! [releases](Held::copy) the lock for a copy, so packets are dispatched in order. A thread that needs the turn while
//! another one has it sets `Turn::again` under the lock, and the end of the turn schedules the completion handler.
//! So no work is lost, and no thread spins.
//!
//! Other threads copy without the turn from or to an entry that they have taken out of its list: a message that a
//! posted receive matches, or the bytes of a send. `Turn::copies` counts all copies without the lock. The close of a
//! connection, a context, a ring or the endpoint waits until there is no turn and no copy ([`EpCore::quiesced`]). A
//! peer that keeps the endpoint busy delays the close for a bounded time: a thread that has waited [`CLAIM_AFTER`]
//! intervals *claims* the endpoint. Until the claim ends, only a thread that has quiesced the endpoint takes the turn,
//! and [`Held::copy`] keeps the lock for a thread without the turn.

use super::{
    ep_core::EpCore,
    ep_state::EpInner,
    progress::BATCH, //
};
use crate::{
    fi::{
        cq::SourcedEntry,
        memory::EntrySlots,
        prelude::*, //
    },
    util::lock::{
        self,
        FastLockIrqGuard, //
    },
};
use kernel::time::delay::fsleep;

/// Largest copy in bytes that is always made under the lock, with interrupts disabled, because it takes less time than
/// releasing the lock.
pub(super) const SHORT_COPY: usize = 256;

/// Interval between two checks whether there is a turn or a copy.
const QUIESCE_INTERVAL: Delta = Delta::from_micros(20);

/// Number of intervals after which a thread that waits claims the endpoint. A claim delays messages, and a peer that
/// makes many connections end must not cause a claim for each of them.
const CLAIM_AFTER: u32 = 50;

/// Buffer for the completions of a batch.
pub(super) type Batch = KBox<EntrySlots<SourcedEntry, BATCH>>;

/// State of an endpoint's turn.
pub(super) struct Turn {
    /// Buffer for the completions of a batch; `None` while a thread has the turn.
    batch: Option<Batch>,
    /// True if the completion handler has to be scheduled when the turn or a claim ends.
    pub(super) again: bool,
    /// Number of threads that copy without the lock.
    copies: usize,
    /// Number of threads that claim the endpoint.
    claims: usize,
}

impl Turn {
    /// Creates the state, with no turn taken and no copy begun. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            batch: Some(EntrySlots::boxed()?),
            again: false,
            copies: 0,
            claims: 0,
        })
    }

    /// Returns whether no thread has the turn or copies.
    fn is_quiet(&self) -> bool {
        self.batch.is_some() && self.copies == 0
    }

    /// Takes the turn. Returns `None` if another thread has it, or if a thread claims the endpoint and this one has not
    /// quiesced it (`holds_quiet` is false).
    #[inline(always)]
    fn take(&mut self, holds_quiet: bool) -> Option<Batch> {
        match self.claims > 0 && !holds_quiet {
            true => None,
            false => self.batch.take(),
        }
    }

    /// Returns whether a copy of `len` bytes is made under the lock, by a thread that has the turn or not.
    #[inline(always)]
    fn copies_locked(&self, len: usize, has_turn: bool) -> bool {
        len <= SHORT_COPY || (self.claims > 0 && !has_turn)
    }
}

/// The lock `EpCore::inner`, held.
pub(super) struct Held<'a> {
    core: &'a EpCore,
    guard: FastLockIrqGuard<'a, EpInner>,
    /// True if this thread has the turn.
    has_turn: bool,
    /// True if the lock was taken by [`EpCore::quiesced`], while no thread had the turn or copied: this thread takes
    /// the turn despite claims.
    is_quiet: bool,
}

impl EpCore {
    /// Takes the lock of the data path. Any context.
    #[inline(always)]
    pub(super) fn hold(&self) -> Held<'_> {
        Held {
            core: self,
            guard: self.inner.lock(),
            has_turn: false,
            is_quiet: false,
        }
    }

    /// Waits until no thread has the turn or copies, and takes the lock. May sleep.
    pub(super) fn quiesced(&self) -> Held<'_> {
        let mut tries = 0;
        loop {
            let mut held = self.hold();
            if held.turn.is_quiet() {
                held.is_quiet = true;
                if tries > CLAIM_AFTER {
                    held.end_claim();
                }
                return held;
            }
            if tries == CLAIM_AFTER {
                held.turn.claims += 1;
            }
            tries = tries.saturating_add(1);
            drop(held);
            fsleep(QUIESCE_INTERVAL);
        }
    }
}

impl Held<'_> {
    /// Runs `act` with the turn. Returns `None` if another thread has it, or claims the endpoint while this one has not
    /// quiesced it.
    #[inline(always)]
    pub(super) fn with_turn<R>(
        &mut self,
        act: impl FnOnce(&mut Self, &mut Batch) -> R,
    ) -> Option<R> {
        let is_quiet = self.is_quiet;
        let mut batch = self.turn.take(is_quiet)?;
        self.has_turn = true;
        let done = act(self, &mut batch);
        self.has_turn = false;
        self.turn.batch = Some(batch);
        self.schedule_pending();
        Some(done)
    }

    /// Ends a claim of this thread.
    #[cold]
    fn end_claim(&mut self) {
        self.turn.claims -= 1;
        self.schedule_pending();
    }

    /// Schedules the completion handler if a thread needed the turn meanwhile.
    #[inline(always)]
    fn schedule_pending(&mut self) {
        if mem::take(&mut self.turn.again) {
            self.schedule_handler();
        }
    }

    /// Schedules the completion handler, which polls, delivers messages and retries deferred packets.
    #[cold]
    fn schedule_handler(&self) {
        if let Ok(bound) = self.core.bound() {
            bound.queue.schedule_handler();
        }
    }

    /// Runs `copy`, which copies `len` bytes, without the lock. A short copy is made under the lock, and while a thread
    /// claims the endpoint, so is each copy of a thread without the turn.
    #[inline(always)]
    pub(super) fn copy<R>(&mut self, len: usize, copy: impl FnOnce() -> R) -> R {
        match self.turn.copies_locked(len, self.has_turn) {
            true => copy(),
            false => self.unlocked(copy),
        }
    }

    /// Runs `act` without the lock, and counts it as a copy.
    #[inline(never)]
    pub(super) fn unlocked<R>(&mut self, act: impl FnOnce() -> R) -> R {
        self.turn.copies += 1;
        let done = lock::unlocked(&mut self.guard, act);
        self.turn.copies -= 1;
        done
    }
}

impl Deref for Held<'_> {
    type Target = EpInner;

    #[inline(always)]
    fn deref(&self) -> &EpInner {
        &self.guard
    }
}

impl DerefMut for Held<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut EpInner {
        &mut self.guard
    }
}

#[kunit_tests(kofi_rdm_turn)]
mod tests {
    use super::*;

    /// Only a thread that has quiesced the endpoint takes the turn while there is a claim.
    #[test]
    fn claim_refuses_turns_of_other_threads() -> kernel::error::Result {
        let mut turn = Turn::new().map_err(|_| ENOMEM)?;
        turn.batch = None;
        turn.claims += 1;
        assert!(!turn.is_quiet());
        turn.batch = Some(EntrySlots::boxed().map_err(|_| ENOMEM)?);
        assert!(turn.is_quiet());
        assert!(turn.take(false).is_none());
        assert!(turn.take(true).is_some());
        assert!(turn.take(true).is_none());
        Ok(())
    }

    /// Copies of threads without the turn are made under the lock while there is a claim, so that no copy is left when
    /// the turn ends.
    #[test]
    fn claim_keeps_the_lock_for_copies() -> kernel::error::Result {
        let mut turn = Turn::new().map_err(|_| ENOMEM)?;
        assert!(!turn.copies_locked(SHORT_COPY + 1, false));
        turn.claims += 1;
        assert!(turn.copies_locked(SHORT_COPY + 1, false));
        assert!(!turn.copies_locked(SHORT_COPY + 1, true));
        Ok(())
    }
}
