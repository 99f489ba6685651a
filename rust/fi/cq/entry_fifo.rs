// SPDX-License-Identifier: GPL-2.0

//! What there is to be told of operations, in the order in which it came.

use super::{
    Completion,
    Failure, //
};
use crate::abi::Result;
use kernel::prelude::*;

/// What there is to be told of an operation.
pub enum CqEntry {
    /// It has been done.
    Done(Completion),
    /// It has not.
    Failed(Failure),
}

impl CqEntry {
    /// What is known of the operation.
    pub(crate) fn completion(&self) -> &Completion {
        match self {
            Self::Done(completion) => completion,
            Self::Failed(failure) => &failure.completion,
        }
    }
}

/// A ring of them. There is no lock.
///
/// # Invariants
///
/// Of the places, `len` from `first` on hold something, around the end.
pub(crate) struct EntryFifo {
    places: KVVec<Option<CqEntry>>,
    first: usize,
    len: usize,
}

impl EntryFifo {
    /// An empty one for so many. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn new(size: usize) -> Result<Self> {
        let mut places = KVVec::with_capacity(size, GFP_KERNEL)?;
        for _ in 0..size {
            places.push(None, GFP_KERNEL)?;
        }
        // INVARIANT: None holds anything.
        Ok(Self {
            places,
            first: 0,
            len: 0,
        })
    }

    /// How many it has room for.
    pub(crate) fn size(&self) -> usize {
        self.places.len()
    }

    /// Takes all that another has, which there is room for.
    pub(crate) fn take_from(&mut self, other: &mut Self) {
        while let Some(outcome) = other.take() {
            self.push(outcome);
        }
    }

    /// How many there are.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether there is no room for one more.
    pub(crate) fn is_full(&self) -> bool {
        self.len == self.places.len()
    }

    /// The place that is so many behind the first one.
    #[inline(always)]
    fn place(&self, behind: usize) -> usize {
        let place = self.first + behind;
        match place.checked_sub(self.places.len()) {
            Some(wrapped) => wrapped,
            None => place,
        }
    }

    /// Puts one behind the others, for which there is room.
    #[inline(always)]
    pub(crate) fn push(&mut self, outcome: CqEntry) {
        let place = self.place(self.len);
        if let Some(free) = self.places.get_mut(place) {
            *free = Some(outcome);
            self.len += 1;
        }
    }

    /// The first, if there is one.
    #[inline]
    pub(crate) fn first(&self) -> Option<&CqEntry> {
        match self.len {
            0 => None,
            _ => self.places.get(self.first)?.as_ref(),
        }
    }

    /// Removes the first outcome, which is a success.
    #[inline]
    pub(crate) fn pop(&mut self) {
        self.first = self.place(1);
        self.len -= 1;
    }

    /// Removes and returns the first outcome.
    pub(crate) fn take(&mut self) -> Option<CqEntry> {
        if self.is_empty() {
            return None;
        }
        let first = self.places.get_mut(self.first)?.take();
        self.pop();
        first
    }

    /// Removes and returns the first outcome if it is a failure.
    pub(crate) fn take_failure(&mut self) -> Option<Failure> {
        if !matches!(self.first(), Some(CqEntry::Failed(_))) {
            return None;
        }
        match self.take() {
            Some(CqEntry::Failed(failure)) => Some(failure),
            _ => None,
        }
    }
}

#[kunit_tests(kofi_fi_outcomes)]
mod tests {
    use super::*;
    use crate::fi::memory::Context;

    fn of(number: u64) -> CqEntry {
        CqEntry::Done(Completion {
            data: number,
            ..Completion::of(Context::NULL, 0)
        })
    }

    fn next(outcomes: &mut EntryFifo) -> Option<u64> {
        let data = outcomes.first()?.completion().data;
        outcomes.pop();
        Some(data)
    }

    #[test]
    fn what_moves_to_more_room_keeps_its_order() -> Result {
        // Wherever the first one stands.
        for begin in 0..3 {
            let mut few = EntryFifo::new(3)?;
            for number in 0..begin {
                few.push(of(number));
                assert_eq!(next(&mut few), Some(number));
            }
            for number in 1..=3 {
                few.push(of(number));
            }
            assert!(few.is_full());
            let mut many = EntryFifo::new(5)?;
            many.take_from(&mut few);
            assert!(few.is_empty() && !many.is_full() && many.size() == 5);
            many.push(of(4));
            for number in 1..=4 {
                assert_eq!(next(&mut many), Some(number));
            }
            assert!(many.is_empty());
        }
        Ok(())
    }
}
