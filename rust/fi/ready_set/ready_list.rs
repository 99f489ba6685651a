// SPDX-License-Identifier: GPL-2.0

//! The members of a group that may have something to tell, in the order in which they came.
//!
//! A member stands here once, however often it is told to. It comes without a lock, on top of a stack of
//! those that nobody has seen yet. Who looks takes that stack down into a [`ScanQueue`] of his own, calls one
//! after another out of it, and has them come back if there is more. The bottom of the stack says whether
//! there are others before: nobody finds the line empty while one of them is looked at.

use super::super::wait::{
    Listener,
    Signal, //
};
use crate::{
    abi::Result,
    compat::smp_mb, //
};
use core::borrow::Borrow;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed,
            Release, //
        },
        static_lock_class,
        Arc, //
    },
};

/// The bottom of the stack when nobody stands anywhere.
const NOBODY: u32 = u32::MAX;

/// The bottom of the stack when some are in the queue, or are looked at.
const OTHERS: u32 = u32::MAX - 1;

/// Who is next to one that does not stand.
const AWAY: u32 = u32::MAX - 2;

/// Who stands in it.
#[pin_data]
pub(super) struct ReadyList {
    /// Given whenever somebody comes.
    #[pin]
    arrival: Signal,
    /// The member on top of the stack.
    top: Atomic<u32>,
}

/// Puts one member into its line when that is told to.
pub(super) struct ReadyLink {
    line: Arc<ReadyList>,
    number: u32,
    /// Who stands beneath it in the stack, or behind it in the queue; AWAY if it does not stand.
    next: Atomic<u32>,
}

/// Those of a line who have been seen, for whoever looks; the others are added by [`Self::gather`].
pub(super) struct ScanQueue {
    first: u32,
    last: u32,
}

impl ReadyList {
    /// Nobody.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            arrival <- Signal::new(c"kofi::Line::arrival", static_lock_class!()),
            top: Atomic::new(NOBODY),
        })
    }

    /// Given whenever somebody comes.
    pub(super) fn arrival(&self) -> &Signal {
        &self.arrival
    }

    /// Whether nobody stands there, or is looked at. Any context.
    pub(super) fn is_empty(&self) -> bool {
        self.top.load(Acquire) == NOBODY
    }
}

impl ScanQueue {
    /// Nobody.
    pub(super) const fn new() -> Self {
        Self {
            first: NOBODY,
            last: NOBODY,
        }
    }

    /// Adds those who have come meanwhile. `watches` are those of the line, by number. Any context.
    pub(super) fn gather(&mut self, line: &ReadyList, watches: &[impl Borrow<ReadyLink>]) {
        let newest = line.top.xchg(OTHERS, Full);
        // They come off the stack newest first.
        let (mut at, mut oldest) = (newest, NOBODY);
        while let Some(watch) = watches.get(at as usize).map(Borrow::borrow) {
            at = watch.next.load(Relaxed);
            watch.next.store(oldest, Relaxed);
            oldest = watch.number;
        }
        if oldest == NOBODY {
            return;
        }
        match watches.get(self.last as usize).map(Borrow::borrow) {
            Some(last) => last.next.store(oldest, Relaxed),
            None => self.first = oldest,
        }
        self.last = newest;
    }

    /// Takes out the first one, which stands until it is made to leave, and says its number. Any context.
    pub(super) fn call(&mut self, watches: &[impl Borrow<ReadyLink>]) -> Option<usize> {
        let called = self.first as usize;
        let watch = watches.get(called).map(Borrow::borrow)?;
        self.first = watch.next.load(Relaxed);
        if self.first == NOBODY {
            self.last = NOBODY;
        }
        Some(called)
    }

    /// Whoever was called has left, or come back. Any context.
    pub(super) fn settle(&self, line: &ReadyList) {
        if self.first == NOBODY {
            // Not if somebody has come.
            let _ = line.top.cmpxchg(OTHERS, NOBODY, Release);
        }
    }
}

impl ReadyLink {
    /// For the member with that number. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(line: &Arc<ReadyList>, number: u32) -> Result<Arc<Self>> {
        let watch = Self {
            line: line.clone(),
            number,
            next: Atomic::new(AWAY),
        };
        Ok(Arc::new(watch, GFP_KERNEL)?)
    }

    /// Which member's it is.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Moves the member to the end of the line, unless it is queued already. A caller that looks at the
    /// member after it has been called sees everything stored before this call. Any context.
    pub(super) fn stand(&self) {
        while self.next.cmpxchg(AWAY, NOBODY, Full).is_err() {
            // A failed cmpxchg orders nothing. This barrier pairs with the Full of `leave`: either the member
            // is still queued after it, or it left before the caller's stores were visible, and is queued
            // again.
            smp_mb(Full);
            if self.next.load(Relaxed) != AWAY {
                return;
            }
        }
        let mut top = self.line.top.load(Relaxed);
        loop {
            self.next.store(top, Relaxed);
            match self.line.top.cmpxchg(top, self.number, Full) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    /// It has been called: what it is told from now on makes it stand again. Any context.
    pub(super) fn leave(&self) {
        // Full: the stores of a caller that found the member still queued are visible here. Pairs with
        // `stand`.
        let _ = self.next.xchg(AWAY, Full);
    }
}

impl Listener for ReadyLink {
    fn hear(&self) {
        self.stand();
        // Also where it stood before: somebody may know that, and sleep until there is more.
        self.line.arrival.give();
    }
}

#[kunit_tests(kofi_fi_group_line)]
mod tests {
    use super::*;
    use crate::fi::wait::{
        Budget,
        Woken, //
    };

    struct Standing {
        line: Arc<ReadyList>,
        queue: ScanQueue,
        watches: KVec<Arc<ReadyLink>>,
    }

    impl Standing {
        fn new(watches: u32) -> Result<Self> {
            let line = Arc::pin_init(ReadyList::new(), GFP_KERNEL)?;
            let mut all = KVec::new();
            for number in 0..watches {
                all.push(ReadyLink::new(&line, number)?, GFP_KERNEL)?;
            }
            Ok(Self {
                line,
                queue: ScanQueue::new(),
                watches: all,
            })
        }

        fn next(&mut self) -> Option<usize> {
            self.queue.gather(&self.line, &self.watches);
            let called = self.queue.call(&self.watches);
            if let Some(number) = called {
                self.watches[number].leave();
            }
            self.queue.settle(&self.line);
            called
        }
    }

    #[test]
    fn poll_02_who_comes_first_is_called_first() -> kernel::error::Result {
        let mut all = Standing::new(5)?;
        assert!(all.line.is_empty());
        for round in 0..7 {
            for at in 0..4 {
                all.watches[(round + at) % 5].stand();
            }
            all.watches[(round + 2) % 5].stand();
            for at in 0..4 {
                assert!(!all.line.is_empty());
                assert_eq!(all.next(), Some((round + at) % 5));
            }
            assert!(all.line.is_empty());
            assert_eq!(all.next(), None);
            assert!(all.line.is_empty());
        }
        Ok(())
    }

    #[test]
    fn poll_02_who_comes_later_stands_behind_who_was_seen() -> kernel::error::Result {
        let mut all = Standing::new(6)?;
        for number in [4, 0, 2] {
            all.watches[number].stand();
        }
        assert_eq!(all.next(), Some(4));
        for number in [5, 4, 0, 1] {
            all.watches[number].stand();
        }
        for expected in [0, 2, 5, 4, 1] {
            assert!(!all.line.is_empty());
            assert_eq!(all.next(), Some(expected));
        }
        assert!(all.line.is_empty());
        Ok(())
    }

    #[test]
    fn poll_02_who_is_looked_at_still_stands() -> kernel::error::Result {
        let mut all = Standing::new(2)?;
        all.watches[1].hear();
        all.queue.gather(&all.line, &all.watches);
        assert_eq!(all.queue.call(&all.watches), Some(1));
        assert!(!all.line.is_empty());
        all.watches[1].leave();
        assert!(!all.line.is_empty());
        all.watches[1].hear();
        all.queue.settle(&all.line);
        assert!(!all.line.is_empty());
        assert_eq!(all.next(), Some(1));
        assert!(all.line.is_empty());
        Ok(())
    }

    #[test]
    fn poll_02_as_a_naive_model_does() -> kernel::error::Result {
        const MEMBERS: usize = 50;
        let mut all = Standing::new(MEMBERS as u32)?;
        let mut model = KVec::new();
        let mut seed = 1u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = (seed >> 33) as usize % MEMBERS;
            // More come than go for a while, and then the other way round.
            if (seed >> 56) as usize % 100 < 30 + (seed >> 20) as usize % 40 {
                all.watches[number].stand();
                if !model.contains(&number) {
                    model.push(number, GFP_KERNEL)?;
                }
            } else {
                let expected = (!model.is_empty()).then(|| model.remove(0).ok()).flatten();
                assert_eq!(all.next(), expected);
            }
            assert_eq!(all.line.is_empty(), model.is_empty());
        }
        Ok(())
    }

    #[test]
    fn poll_06_the_signal_is_given_for_who_stands_too() -> kernel::error::Result {
        let all = Standing::new(1)?;
        let mut budget = Budget::from_millis(0);
        for _ in 0..2 {
            let ticket = all.line.arrival().ticket();
            assert!(all.line.arrival().wait(&ticket, &mut budget) == Woken::Timeout);
            all.watches[0].hear();
            assert!(all.line.arrival().wait(&ticket, &mut budget) == Woken::Signal);
        }
        Ok(())
    }
}
