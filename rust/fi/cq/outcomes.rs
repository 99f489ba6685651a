// SPDX-License-Identifier: GPL-2.0

//! What there is to be told of operations, in the order in which it came.

use super::{
    Completion,
    Failure, //
};
use crate::abi::Result;
use kernel::prelude::*;

/// What there is to be told of an operation.
#[derive(Clone, Copy)]
pub(crate) enum Outcome {
    /// It has been done.
    Done(Completion),
    /// It has not.
    Failed(Failure),
}

impl Outcome {
    /// What is known of the operation.
    pub(crate) fn completion(&self) -> &Completion {
        match self {
            Self::Done(completion) => completion,
            Self::Failed(failure) => &failure.completion,
        }
    }

    /// How it failed, if it has.
    pub(crate) fn failed(&self) -> Option<Failure> {
        match self {
            Self::Done(_) => None,
            Self::Failed(failure) => Some(*failure),
        }
    }
}

/// A ring of them. There is no lock.
///
/// # Invariants
///
/// Of the places, `len` from `first` on hold something, around the end.
pub(crate) struct Outcomes {
    places: KVVec<Option<Outcome>>,
    first: usize,
    len: usize,
}

impl Outcomes {
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
    pub(crate) fn push(&mut self, outcome: Outcome) {
        let place = self.place(self.len);
        if let Some(free) = self.places.get_mut(place) {
            *free = Some(outcome);
            self.len += 1;
        }
    }

    /// The first, if there is one.
    #[inline]
    pub(crate) fn first(&self) -> Option<&Outcome> {
        match self.len {
            0 => None,
            _ => self.places.get(self.first)?.as_ref(),
        }
    }

    /// Takes the first away, which there is.
    #[inline]
    pub(crate) fn pop(&mut self) {
        self.first = self.place(1);
        self.len -= 1;
    }
}
