// SPDX-License-Identifier: GPL-2.0

//! What each context of an endpoint has. An ordinary endpoint has one context each way, whose part is
//! found without another look into memory.

use crate::fi::prelude::*;
use core::iter;

/// See the module.
pub(super) struct Row<T> {
    first: T,
    others: KVec<T>,
}

impl<T> Row<T> {
    /// For so many contexts, one at least, what `make` makes. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    #[inline(never)]
    pub(super) fn new(count: usize, mut make: impl FnMut(u8) -> T) -> Result<Self> {
        let first = make(0);
        let mut others = KVec::with_capacity(count.saturating_sub(1), GFP_KERNEL)?;
        for index in 1..count {
            others.push(make(index as u8), GFP_KERNEL)?;
        }
        Ok(Self { first, others })
    }

    /// How many contexts there are.
    pub(super) fn len(&self) -> usize {
        1 + self.others.len()
    }

    /// That of a context; who asks for one that there is not gets the first's.
    #[inline]
    pub(super) fn of(&self, index: u8) -> &T {
        match usize::from(index).checked_sub(1) {
            None => &self.first,
            Some(at) => self.others.get(at).unwrap_or(&self.first),
        }
    }

    /// The same, to be changed.
    #[inline]
    pub(super) fn of_mut(&mut self, index: u8) -> &mut T {
        match usize::from(index).checked_sub(1) {
            None => &mut self.first,
            Some(at) => self.others.get_mut(at).unwrap_or(&mut self.first),
        }
    }

    /// All, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        Iterator::chain(iter::once(&self.first), &self.others)
    }

    /// The same, to be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        Iterator::chain(iter::once(&mut self.first), &mut self.others)
    }
}
