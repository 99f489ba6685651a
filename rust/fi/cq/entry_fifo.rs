// SPDX-License-Identifier: GPL-2.0

//! A bounded FIFO of completion queue entries: successes and errors, in the order of their arrival. The owner
//! provides the lock.

use super::{
    Completion,
    Failure, //
};
use crate::fi::prelude::*;

/// A completion queue entry.
pub enum CqEntry {
    /// Success.
    Done(Completion),
    /// Error.
    Failed(Failure),
}

impl CqEntry {
    /// Returns the fields that both kinds have.
    pub(crate) fn completion(&self) -> &Completion {
        match self {
            Self::Done(completion) => completion,
            Self::Failed(failure) => &failure.completion,
        }
    }
}

/// A ring buffer of entries.
///
/// # Invariants
///
/// Exactly the `len` slots from `first` on, modulo the size, hold an entry.
pub(crate) struct EntryFifo {
    slots: KVVec<Option<CqEntry>>,
    first: usize,
    len: usize,
}

impl EntryFifo {
    /// Returns an empty FIFO for `size` entries. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn new(size: usize) -> Result<Self> {
        let mut slots = KVVec::with_capacity(size, GFP_KERNEL)?;
        for _ in 0..size {
            slots.push(None, GFP_KERNEL)?;
        }
        let (first, len) = (0, 0);
        // INVARIANT: `len` is 0 and every slot is `None`.
        Ok(Self { slots, first, len })
    }

    /// Returns the capacity.
    pub(crate) fn size(&self) -> usize {
        self.slots.len()
    }

    /// Moves all entries of `other` to the end. The caller checks that there is space.
    pub(crate) fn append(&mut self, other: &mut Self) {
        while let Some(outcome) = other.pop() {
            self.push(outcome);
        }
    }

    /// Returns the number of entries.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there is no entry.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns true if there is no space for another entry.
    pub(crate) fn is_full(&self) -> bool {
        self.len == self.slots.len()
    }

    /// Returns the index of the slot that is `behind` slots after the first one.
    #[inline(always)]
    fn slot_index(&self, behind: usize) -> usize {
        let place = self.first + behind;
        match place.checked_sub(self.slots.len()) {
            Some(wrapped) => wrapped,
            None => place,
        }
    }

    /// Appends an entry. The caller checks that there is space.
    #[inline(always)]
    pub(crate) fn push(&mut self, entry: CqEntry) {
        let place = self.slot_index(self.len);
        if let Some(free) = self.slots.get_mut(place) {
            *free = Some(entry);
            self.len += 1;
        }
    }

    /// Returns the first entry.
    #[inline]
    pub(crate) fn first(&self) -> Option<&CqEntry> {
        match self.len {
            0 => None,
            _ => self.slots.get(self.first)?.as_ref(),
        }
    }

    /// Removes the first entry, which is a success.
    #[inline]
    pub(crate) fn remove_first(&mut self) {
        self.first = self.slot_index(1);
        self.len -= 1;
    }

    /// Removes and returns the first entry.
    pub(crate) fn pop(&mut self) -> Option<CqEntry> {
        if self.is_empty() {
            return None;
        }
        let first = self.slots.get_mut(self.first)?.take();
        self.remove_first();
        first
    }

    /// Returns the result of a read that has taken `count` successes from the FIFO, and stopped at the first
    /// entry that is left: -FI_EAGAIN if there is none, -FI_EAVAIL for an error, unless it has taken some.
    pub(crate) fn read_result(&self, count: usize) -> Result<usize> {
        match self.first() {
            None if count == 0 => Err(Errno::EAGAIN),
            Some(CqEntry::Failed(_)) if count == 0 => Err(Errno::EAVAIL),
            _ => Ok(count),
        }
    }

    /// Removes and returns the first entry if it is an error.
    pub(crate) fn pop_failure(&mut self) -> Option<Failure> {
        if !matches!(self.first(), Some(CqEntry::Failed(_))) {
            return None;
        }
        match self.pop() {
            Some(CqEntry::Failed(failure)) => Some(failure),
            _ => None,
        }
    }
}

#[kunit_tests(kofi_fi_entry_fifo)]
mod tests {
    use super::*;
    use crate::fi::memory::Context;

    fn entry(number: u64) -> CqEntry {
        CqEntry::Done(Completion {
            data: number,
            ..Completion::new(Context::NULL, 0)
        })
    }

    fn next(fifo: &mut EntryFifo) -> Option<u64> {
        let data = fifo.first()?.completion().data;
        fifo.remove_first();
        Some(data)
    }

    #[test]
    fn append_to_a_larger_fifo_preserves_order() -> Result {
        // The first entry is in each possible slot.
        for begin in 0..3 {
            let mut small = EntryFifo::new(3)?;
            for number in 0..begin {
                small.push(entry(number));
                assert_eq!(next(&mut small), Some(number));
            }
            for number in 1..=3 {
                small.push(entry(number));
            }
            assert!(small.is_full());
            let mut large = EntryFifo::new(5)?;
            large.append(&mut small);
            assert!(small.is_empty() && !large.is_full() && large.size() == 5);
            large.push(entry(4));
            for number in 1..=4 {
                assert_eq!(next(&mut large), Some(number));
            }
            assert!(large.is_empty());
        }
        Ok(())
    }
}
