// SPDX-License-Identifier: GPL-2.0

//! The members of a group that may have something to tell, in the order in which they came.
//!
//! A member stands here once, however often it is told to. Who looks takes the first one out, and puts it
//! back at the end if there is more. Until that is decided it still counts as standing, so that nobody
//! finds the line empty meanwhile. The lock is a leaf.

use super::super::wait::{
    Listener,
    Signal, //
};
use crate::abi::{
    lock::FastLockIrq,
    Result, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            AtomicFlag,
            Full,
            Release, //
        },
        static_lock_class,
        Arc, //
    }, //
};

/// Numbers of members: a ring as large as there are members, so that it does not overflow.
struct Ring {
    numbers: KVec<u32>,
    first: usize,
    len: usize,
}

impl Ring {
    const fn new() -> Self {
        Self {
            numbers: KVec::new(),
            first: 0,
            len: 0,
        }
    }

    fn place(&self, offset: usize) -> usize {
        let at = self.first + offset;
        at.checked_sub(self.numbers.len()).unwrap_or(at)
    }

    fn push(&mut self, number: u32) {
        let at = self.place(self.len);
        if let (true, Some(place)) = (self.len < self.numbers.len(), self.numbers.get_mut(at)) {
            *place = number;
            self.len += 1;
        }
    }

    fn pop(&mut self) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let number = *self.numbers.get(self.first)?;
        self.first = self.place(1);
        self.len -= 1;
        Some(number)
    }

    /// Takes a number out, wherever it is; says whether it was there.
    fn purge(&mut self, gone: u32) -> bool {
        let len = self.len;
        for _ in 0..len {
            match self.pop() {
                Some(number) if number != gone => self.push(number),
                _ => {}
            }
        }
        self.len < len
    }

    /// Moves into larger memory, and leaves its own there.
    fn refit(&mut self, memory: &mut KVec<u32>) {
        let len = self.len;
        memory.clear();
        while memory.len() < memory.capacity() {
            let _ = memory.push_within_capacity(self.pop().unwrap_or(0));
        }
        core::mem::swap(&mut self.numbers, memory);
        (self.first, self.len) = (0, len);
    }
}

/// Who stands in it.
#[pin_data]
pub(super) struct Line {
    /// Given whenever somebody comes.
    #[pin]
    arrival: Signal,
    #[pin]
    ring: FastLockIrq<Ring>,
    /// How many stand there or are looked at.
    present: Atomic<usize>,
}

/// One that was taken out of a line, and counts as standing there as long as this lives.
pub(super) struct Called<'a> {
    line: &'a Line,
    pub(super) number: u32,
}

impl Drop for Called<'_> {
    fn drop(&mut self) {
        self.line.gone();
    }
}

impl Line {
    /// Nobody, and room for nobody.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            arrival <- Signal::new(c"kofi::Line::arrival", static_lock_class!()),
            ring <- FastLockIrq::new(Ring::new(), c"kofi::Line", static_lock_class!()),
            present: Atomic::new(0),
        })
    }

    /// Makes room for so many altogether. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn reserve(&self, wanted: usize) -> Result {
        if self.ring.lock().numbers.len() >= wanted {
            return Ok(());
        }
        // Freed behind the lock: it was declared before the guard.
        let mut memory = KVec::with_capacity(wanted.next_power_of_two(), GFP_KERNEL)?;
        let mut ring = self.ring.lock();
        if memory.capacity() > ring.numbers.len() {
            ring.refit(&mut memory);
        }
        Ok(())
    }

    /// Given whenever somebody comes.
    pub(super) fn arrival(&self) -> &Signal {
        &self.arrival
    }

    /// How many stand there, or are looked at. Any context.
    pub(super) fn present(&self) -> usize {
        self.present.load(Acquire)
    }

    /// Whether nobody does. Any context.
    pub(super) fn is_empty(&self) -> bool {
        self.present() == 0
    }

    /// Takes out the first. Any context.
    pub(super) fn call(&self) -> Option<Called<'_>> {
        let number = self.ring.lock().pop()?;
        Some(Called { line: self, number })
    }

    /// Takes out one that never comes again. Any context.
    pub(super) fn purge(&self, number: u32) {
        if self.ring.lock().purge(number) {
            self.gone();
        }
    }

    fn gone(&self) {
        let _ = self.present.fetch_sub(1usize, Release);
    }
}

/// Puts one member into its line when that is told to.
pub(super) struct Watch {
    line: Arc<Line>,
    number: u32,
    stands: AtomicFlag,
}

impl Watch {
    /// For the member with that number, for whom the line has room. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(line: &Arc<Line>, number: u32) -> Result<Arc<Self>> {
        let watch = Self {
            line: line.clone(),
            number,
            stands: AtomicFlag::new(false),
        };
        Ok(Arc::new(watch, GFP_KERNEL)?)
    }

    /// Goes to the end of the line, if it does not stand there. Any context.
    pub(super) fn stand(&self) {
        if self.stands.xchg(true, Full) {
            return;
        }
        let mut ring = self.line.ring.lock();
        let _ = self.line.present.fetch_add(1usize, Full);
        ring.push(self.number);
    }

    /// It has been called: what it is told from now on makes it stand again. Any context.
    pub(super) fn leave(&self) {
        // Full: who told it before, and found it standing, is seen to have had something.
        let _ = self.stands.xchg(false, Full);
    }
}

impl Listener for Watch {
    fn hear(&self) {
        self.stand();
        // Also where it stood before: somebody may know that, and sleep until there is more.
        self.line.arrival.give();
    }
}

#[kunit_tests(kofi_fi_group_line)]
mod tests {
    use super::*;

    fn line(watches: usize) -> Result<(Arc<Line>, KVec<Arc<Watch>>)> {
        let line = Arc::pin_init(Line::new(), GFP_KERNEL)?;
        let mut all = KVec::new();
        for number in 0..watches {
            line.reserve(number + 1)?;
            all.push(Watch::new(&line, number as u32)?, GFP_KERNEL)?;
        }
        Ok((line, all))
    }

    fn next(line: &Line, watches: &[Arc<Watch>]) -> Option<u32> {
        let called = line.call()?;
        watches[called.number as usize].leave();
        Some(called.number)
    }

    #[test]
    fn poll_02_who_comes_first_is_called_first() -> kernel::error::Result {
        let (line, watches) = line(5)?;
        assert!(line.is_empty());
        // Round and round, so that the ring wraps.
        for round in 0..7 {
            for at in 0..4 {
                watches[(round + at) % 5].stand();
            }
            watches[(round + 2) % 5].stand();
            assert_eq!(line.present(), 4);
            for at in 0..4 {
                assert_eq!(next(&line, &watches), Some(((round + at) % 5) as u32));
            }
            assert_eq!(next(&line, &watches), None);
            assert!(line.is_empty());
        }
        Ok(())
    }

    #[test]
    fn poll_02_who_is_looked_at_still_stands() -> kernel::error::Result {
        let (line, watches) = line(2)?;
        watches[1].hear();
        let called = line.call().ok_or(ENOENT)?;
        assert!(!line.is_empty());
        watches[1].leave();
        watches[1].hear();
        drop(called);
        assert!(!line.is_empty());
        assert_eq!(next(&line, &watches), Some(1));
        assert!(line.is_empty());
        Ok(())
    }

    #[test]
    fn poll_06_the_signal_is_given_for_who_stands_too() -> kernel::error::Result {
        let (line, watches) = line(2)?;
        let mut budget = crate::fi::wait::Budget::from_millis(0);
        let ticket = line.arrival().ticket();
        watches[0].hear();
        assert!(line.arrival().wait(&ticket, &mut budget) == crate::fi::wait::Woken::Signal);
        let ticket = line.arrival().ticket();
        assert!(line.arrival().wait(&ticket, &mut budget) == crate::fi::wait::Woken::Timeout);
        watches[0].hear();
        assert!(line.arrival().wait(&ticket, &mut budget) == crate::fi::wait::Woken::Signal);
        assert_eq!(line.present(), 1);
        Ok(())
    }

    #[test]
    fn poll_04_who_goes_is_not_called() -> kernel::error::Result {
        let (line, watches) = line(4)?;
        for watch in &watches {
            watch.hear();
        }
        line.purge(2);
        line.purge(2);
        line.purge(0);
        assert_eq!(next(&line, &watches), Some(1));
        assert_eq!(next(&line, &watches), Some(3));
        assert_eq!(next(&line, &watches), None);
        assert!(line.is_empty());
        Ok(())
    }

    #[test]
    fn poll_04_the_line_grows_while_some_stand() -> kernel::error::Result {
        let (line, mut watches) = line(2)?;
        watches[1].hear();
        watches[0].hear();
        assert_eq!(next(&line, &watches), Some(1));
        watches[1].hear();
        for number in 2..40 {
            line.reserve(number + 1)?;
            watches.push(Watch::new(&line, number as u32)?, GFP_KERNEL)?;
            watches[number].hear();
        }
        for expected in 0..40 {
            assert_eq!(next(&line, &watches), Some(expected));
        }
        assert!(line.is_empty());
        Ok(())
    }
}
