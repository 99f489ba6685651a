// SPDX-License-Identifier: GPL-2.0

//! FIFO queues of owned nodes that hash tables find by several keys, without an allocation for an entry.
//!
//! A queue links its nodes in order, and in `N` tables through [`Links`] that each node contains. The entries of a
//! table with equal keys form a *group*, a circular list in queue order. A bucket chains the first entry (the *head*)
//! of each of its groups, so the cost of an operation does not depend on the number of entries with equal keys.
//!
//! The tables are linear hash tables: an insertion splits at most one bucket and a removal merges at most one, and
//! memory comes in pages. So no operation moves or frees a whole table. If a page cannot be allocated, chains get
//! longer, and nothing else happens. A queue of known depth [gets](IndexedFifo::set_buckets) its buckets beforehand, and
//! splits none.
//!
//! A table can be filled step by step: its *cursor* is the first entry that it does not have yet. There is no lock.

mod entry;
mod groups;
mod links;
mod table;
#[cfg(CONFIG_KUNIT = "y")]
mod tests;

pub(crate) use self::{
    entry::Entry,
    links::{
        impl_has_links,
        HasLinks,
        Links, //
    },
    table::Buckets,
};

use self::{
    links::link,
    table::Table, //
};
use crate::prelude::*;

/// Key of a group of a table.
pub(crate) trait GroupKey<T> {
    /// Returns the hash of the key.
    fn hash(&self) -> u32;

    /// Returns whether the key is that of an entry.
    fn is_of(&self, entry: &T) -> bool;
}

/// Queue of owned nodes with `N` tables.
///
/// # Invariants
///
/// * Each entry came from a [`ListBox`] that this queue owns. `first` and `last` are the ends of their list, or null.
/// * An entry that is a member of a table is in a circular list of members. One of each such list is a head, and in
///   the chain of the bucket for its hash; no other entry is in a chain.
/// * A cursor is an entry or null.
pub(crate) struct IndexedFifo<T: HasLinks<N>, const N: usize> {
    first: *mut T,
    last: *mut T,
    tables: [Table<T>; N],
    /// Number of entries that searches have looked at.
    #[cfg(CONFIG_KUNIT = "y")]
    probes: usize,
    _owns: PhantomData<ListBox<T>>,
}

// SAFETY: It owns its entries alone.
unsafe impl<T: HasLinks<N> + Send, const N: usize> Send for IndexedFifo<T, N> {}

// SAFETY: A shared queue gives access to no entry.
unsafe impl<T: HasLinks<N>, const N: usize> Sync for IndexedFifo<T, N> {}

impl<T: HasLinks<N>, const N: usize> Drop for IndexedFifo<T, N> {
    fn drop(&mut self) {
        while let Some(entry) = self.pop_front() {
            drop(entry);
        }
    }
}

impl<T: HasLinks<N>, const N: usize> IndexedFifo<T, N> {
    /// Creates an empty queue.
    pub(crate) const fn new() -> Self {
        // INVARIANT: There are no entries.
        Self {
            first: ptr::null_mut(),
            last: ptr::null_mut(),
            tables: [Table::NONE; N],
            #[cfg(CONFIG_KUNIT = "y")]
            probes: 0,
            _owns: PhantomData,
        }
    }

    /// Sets the buckets of each table, which splits none as long as it has no more groups. The queue has no entries
    /// yet.
    pub(crate) fn set_buckets(&mut self, buckets: [Buckets<T>; N]) {
        for (table, buckets) in self.tables.iter_mut().zip(buckets) {
            table.set_buckets(buckets);
        }
    }

    /// Returns whether the queue is empty.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Returns the number of entries that searches have looked at.
    #[cfg(CONFIG_KUNIT = "y")]
    pub(crate) fn probes(&self) -> usize {
        self.probes
    }

    #[inline(always)]
    fn count_probe(&mut self) {
        #[cfg(CONFIG_KUNIT = "y")]
        {
            self.probes += 1;
        }
    }

    /// Returns a handle of an entry, unless it is null.
    ///
    /// # Safety
    ///
    /// `at` is an entry of this queue, or null.
    #[inline(always)]
    unsafe fn entry(&mut self, at: *mut T) -> Option<Entry<'_, T, N>> {
        // INVARIANT: By this function's safety requirement.
        Some(Entry {
            at: NonNull::new(at)?,
            queue: self,
        })
    }

    /// Appends an entry, which is in no table yet.
    #[inline]
    pub(crate) fn push_back(&mut self, value: ListBox<T>) -> Entry<'_, T, N> {
        let at = value.into_raw();
        let last = self.last;
        // SAFETY: It is a value that this queue owns from now on, and the last entry is one or null.
        unsafe {
            let links = T::links(at.as_ptr());
            (*links).next = ptr::null_mut();
            (*links).prev = last;
            match last.is_null() {
                true => self.first = at.as_ptr(),
                false => (*T::links(last)).next = at.as_ptr(),
            }
        }
        self.last = at.as_ptr();
        // INVARIANT: It is the last entry.
        Entry { at, queue: self }
    }

    /// Prepends an entry, which is in no table yet.
    pub(crate) fn push_front(&mut self, value: ListBox<T>) -> Entry<'_, T, N> {
        let at = value.into_raw();
        let first = self.first;
        // SAFETY: It is a value that this queue owns from now on, and the first entry is one or null.
        unsafe {
            let links = T::links(at.as_ptr());
            (*links).next = first;
            (*links).prev = ptr::null_mut();
            match first.is_null() {
                true => self.last = at.as_ptr(),
                false => (*T::links(first)).prev = at.as_ptr(),
            }
        }
        self.first = at.as_ptr();
        // INVARIANT: It is the first entry.
        Entry { at, queue: self }
    }

    /// Returns the first entry.
    #[inline(always)]
    pub(crate) fn front(&mut self) -> Option<Entry<'_, T, N>> {
        let first = self.first;
        // SAFETY: By the invariant.
        unsafe { self.entry(first) }
    }

    /// Removes the first entry.
    pub(crate) fn pop_front(&mut self) -> Option<ListBox<T>> {
        Some(self.front()?.take())
    }

    /// Returns the first entry of a group of table `k`.
    #[inline]
    pub(crate) fn find(&mut self, k: usize, key: &impl GroupKey<T>) -> Option<Entry<'_, T, N>> {
        let head = self.head(k, key);
        // SAFETY: It is an entry or null.
        unsafe { self.entry(head) }
    }

    /// Returns the first entry of a group of table `k` for which `predicate` holds. Examines the whole group.
    pub(crate) fn find_where(
        &mut self,
        k: usize,
        key: &impl GroupKey<T>,
        mut predicate: impl FnMut(&T) -> bool,
    ) -> Option<Entry<'_, T, N>> {
        let head = self.head(k, key);
        let mut at = head;
        while !at.is_null() {
            self.count_probe();
            // SAFETY: By the invariant the members of a group are entries.
            unsafe {
                if predicate(&*at) {
                    return self.entry(at);
                }
                at = (*link(at, k)).next;
            }
            if at == head {
                break;
            }
        }
        None
    }

    /// Returns, of the first entries of some groups of table `k`, that with the lowest `rank`.
    #[inline]
    pub(crate) fn lowest<K: GroupKey<T>>(
        &mut self,
        k: usize,
        groups: impl Iterator<Item = K>,
        rank: impl Fn(&T) -> u64,
    ) -> Option<Entry<'_, T, N>> {
        let (mut found, mut lowest) = (ptr::null_mut(), u64::MAX);
        for key in groups {
            let head = self.head(k, &key);
            // SAFETY: It is an entry or null.
            let rank_of = unsafe { head.as_ref() }.map(&rank);
            if let Some(rank) = rank_of.filter(|rank| *rank < lowest) {
                (found, lowest) = (head, rank);
            }
        }
        // SAFETY: It is an entry or null.
        unsafe { self.entry(found) }
    }

    /// Removes the entries of a group of table `k` that `selects` accepts, and returns them in order. Examines the
    /// whole group.
    pub(crate) fn remove_where(
        &mut self,
        k: usize,
        key: &impl GroupKey<T>,
        mut selects: impl FnMut(&T) -> bool,
    ) -> BoxList<T> {
        let mut removed = BoxList::new();
        let mut at = self.head(k, key);
        if at.is_null() {
            return removed;
        }
        // SAFETY: By the invariant the members of a group are entries. The next one is read before the entry is
        // removed, and the last one ends the loop.
        unsafe {
            let last = (*link(at, k)).prev;
            loop {
                let next = (*link(at, k)).next;
                let is_last = at == last;
                self.count_probe();
                if selects(&*at) {
                    removed.push(self.remove(at));
                }
                if is_last {
                    return removed;
                }
                at = next;
            }
        }
    }

    /// Returns whether table `k` has all entries.
    #[inline(always)]
    pub(crate) fn is_complete(&self, k: usize) -> bool {
        self.tables[k].cursor.is_null()
    }

    /// Lets table `k`, which has no entries, begin at the first entry of the queue.
    pub(crate) fn restart(&mut self, k: usize) {
        // INVARIANT: It is an entry or null.
        self.tables[k].cursor = self.first;
    }

    /// Moves the cursor of table `k` beyond the next entry, which the caller adds to the table. Returns `None` if the
    /// table has all entries.
    pub(crate) fn advance(&mut self, k: usize) -> Option<Entry<'_, T, N>> {
        let at = self.tables[k].cursor;
        if at.is_null() {
            return None;
        }
        self.count_probe();
        // SAFETY: By the invariant it is an entry.
        unsafe {
            // INVARIANT: Its successor is an entry or null.
            self.tables[k].cursor = (*T::links(at)).next;
            self.entry(at)
        }
    }

    /// Moves the cursor of table `k` back by one entry, which is removed from the table. Returns false if the table
    /// has no entries.
    pub(crate) fn retreat(&mut self, k: usize) -> bool {
        let cursor = self.tables[k].cursor;
        let at = match cursor.is_null() {
            true => self.last,
            // SAFETY: By the invariant it is an entry.
            false => unsafe { (*T::links(cursor)).prev },
        };
        if at.is_null() {
            return false;
        }
        self.count_probe();
        // INVARIANT: It is an entry.
        self.tables[k].cursor = at;
        // SAFETY: As above.
        unsafe { self.unindex(k, at) };
        true
    }

    /// Removes an entry from the queue and from all tables.
    ///
    /// # Safety
    ///
    /// `at` is an entry of this queue.
    unsafe fn remove(&mut self, at: *mut T) -> ListBox<T> {
        // SAFETY: By this function's safety requirement, and by the invariant for its neighbours.
        unsafe {
            let (next, prev) = ((*T::links(at)).next, (*T::links(at)).prev);
            for k in 0..N {
                if self.tables[k].cursor == at {
                    // INVARIANT: Its successor is an entry or null.
                    self.tables[k].cursor = next;
                }
                self.unindex(k, at);
            }
            match prev.is_null() {
                true => self.first = next,
                false => (*T::links(prev)).next = next,
            }
            match next.is_null() {
                true => self.last = prev,
                false => (*T::links(next)).prev = prev,
            }
            ListBox::from_raw(NonNull::new_unchecked(at))
        }
    }
}
