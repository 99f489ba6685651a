// SPDX-License-Identifier: GPL-2.0

//! Turns: one thread at a time makes progress for an endpoint, and copies messages without the lock.
//!
//! A thread that holds `EpCore::inner` has the turn while it has the endpoint's [`Batch`]. It keeps the turn while it
//! [releases](Held::copy) the lock for a copy, so packets are dispatched in order. A thread that needs the turn while
//! another one has it sets `EpState::again` under the lock, and the end of the turn schedules the completion handler.
//! So no work is lost, and no thread spins.
//!
//! Other threads copy without the turn from or to an entry that they have taken out of its list: a message that a
//! posted receive matches, or the bytes of a send. `EpState::copies` counts all copies. The close of a connection, a
//! context, a ring or the endpoint waits until there is no turn and no copy ([`EpCore::quiesced`]).

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

/// Largest copy in bytes that is made with interrupts disabled, because it takes less time than releasing the lock.
const SHORT_COPY: usize = 256;

/// Interval between two checks whether there is a turn or a copy.
const QUIESCE_INTERVAL: Delta = Delta::from_micros(20);

/// Completions of a batch.
pub(super) type Batch = KBox<EntrySlots<SourcedEntry, BATCH>>;

/// The lock `EpCore::inner`, held.
pub(super) struct Held<'a> {
    core: &'a EpCore,
    guard: FastLockIrqGuard<'a, EpInner>,
}

impl EpCore {
    /// Takes the lock of the data path. Any context.
    #[inline(always)]
    pub(super) fn hold(&self) -> Held<'_> {
        Held {
            core: self,
            guard: self.inner.lock(),
        }
    }

    /// Takes the lock while no thread has the turn or copies. May sleep.
    pub(super) fn quiesced(&self) -> Held<'_> {
        loop {
            let held = self.hold();
            if held.batch.is_some() && held.copies == 0 {
                return held;
            }
            drop(held);
            fsleep(QUIESCE_INTERVAL);
        }
    }
}

impl Held<'_> {
    /// Runs `act` with the turn. Returns `None` if another thread has it.
    #[inline(always)]
    pub(super) fn with_turn<R>(
        &mut self,
        act: impl FnOnce(&mut Self, &mut Batch) -> R,
    ) -> Option<R> {
        let mut batch = self.batch.take()?;
        let done = act(self, &mut batch);
        self.batch = Some(batch);
        if mem::take(&mut self.again) {
            self.schedule_handler();
        }
        Some(done)
    }

    /// Schedules the completion handler, which polls, delivers messages and retries deferred packets.
    #[cold]
    fn schedule_handler(&self) {
        if let Ok(bound) = self.core.bound() {
            bound.queue.schedule_handler();
        }
    }

    /// Runs `copy`, which copies `len` bytes; without the lock, unless the copy is short.
    #[inline(always)]
    pub(super) fn copy<R>(&mut self, len: usize, copy: impl FnOnce() -> R) -> R {
        match len <= SHORT_COPY {
            true => copy(),
            false => self.unlocked(copy),
        }
    }

    /// Runs `act` without the lock.
    #[inline(never)]
    pub(super) fn unlocked<R>(&mut self, act: impl FnOnce() -> R) -> R {
        self.copies += 1;
        let done = lock::unlocked(&mut self.guard, act);
        self.copies -= 1;
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
