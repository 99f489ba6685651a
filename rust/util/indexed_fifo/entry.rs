// SPDX-License-Identifier: GPL-2.0

//! Handle of an entry of an indexed queue.

use super::{
    links::link,
    GroupKey,
    HasLinks,
    IndexedFifo, //
};
use crate::prelude::*;

/// Handle of an entry.
///
/// # Invariants
///
/// `at` is an entry of `queue`.
pub(crate) struct Entry<'a, T: HasLinks<N>, const N: usize> {
    pub(super) queue: &'a mut IndexedFifo<T, N>,
    pub(super) at: NonNull<T>,
}

impl<T: HasLinks<N>, const N: usize> Entry<'_, T, N> {
    /// Returns the value.
    #[inline(always)]
    pub(crate) fn get(&self) -> &T {
        // SAFETY: By the invariant; the queue is borrowed.
        unsafe { self.at.as_ref() }
    }

    /// Removes the entry from the queue and from all tables.
    #[inline]
    pub(crate) fn take(self) -> ListBox<T> {
        // SAFETY: By the invariant.
        unsafe { self.queue.remove(self.at.as_ptr()) }
    }

    /// Adds the entry to table `k` as the last one of its group, unless it is in the table.
    #[inline]
    pub(crate) fn index_back(&mut self, k: usize, key: &impl GroupKey<T>) {
        self.index(k, key, false);
    }

    /// Leaves the entry, which is the last one of the queue, to [`IndexedFifo::advance`] of table `k`.
    #[inline(always)]
    pub(crate) fn index_later(&mut self, k: usize) {
        let cursor = &mut self.queue.tables[k].cursor;
        if cursor.is_null() {
            // INVARIANT: By the type invariant it is an entry.
            *cursor = self.at.as_ptr();
        }
    }

    /// Adds the entry to table `k` as the first one of its group, unless it is in the table.
    pub(crate) fn index_front(&mut self, k: usize, key: &impl GroupKey<T>) {
        self.index(k, key, true);
    }

    #[inline]
    fn index(&mut self, k: usize, key: &impl GroupKey<T>, is_first: bool) {
        let at = self.at.as_ptr();
        // SAFETY: By the invariant.
        unsafe {
            if !(*link(at, k)).is_member {
                self.queue.index(k, at, key, is_first);
            }
        }
    }
}
