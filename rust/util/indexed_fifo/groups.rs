// SPDX-License-Identifier: GPL-2.0

//! The groups of the tables of an indexed queue, and the buckets that chain their heads.

use super::{
    links::link,
    GroupKey,
    HasLinks,
    IndexedFifo, //
};
use crate::prelude::*;

impl<T: HasLinks<N>, const N: usize> IndexedFifo<T, N> {
    /// Returns the head of a group of table `k`, or null.
    #[inline(always)]
    pub(super) fn head(&mut self, k: usize, key: &impl GroupKey<T>) -> *mut T {
        let hash = key.hash();
        let mut at = *self.tables[k].bucket_of(hash);
        while !at.is_null() {
            self.count_probe();
            // SAFETY: By the invariant a chain consists of entries.
            unsafe {
                let link = link(at, k);
                if (*link).hash == hash && key.is_of(&*at) {
                    break;
                }
                at = (*link).chain;
            }
        }
        at
    }

    /// Adds an entry to table `k`, as the last one of its group, or as the first.
    ///
    /// # Safety
    ///
    /// `at` is an entry of this queue, and not a member of the table.
    #[inline]
    pub(super) unsafe fn index(
        &mut self,
        k: usize,
        at: *mut T,
        key: &impl GroupKey<T>,
        is_first: bool,
    ) {
        let head = self.head(k, key);
        // SAFETY: By this function's safety requirement, and by the invariant for the members of the group.
        unsafe {
            let own = link(at, k);
            (*own).hash = key.hash();
            (*own).is_member = true;
            (*own).is_head = false;
            if head.is_null() {
                (*own).next = at;
                (*own).prev = at;
                self.chain(k, at);
                self.tables[k].groups += 1;
                self.grow(k);
                return;
            }
            let tail = (*link(head, k)).prev;
            (*own).next = head;
            (*own).prev = tail;
            (*link(tail, k)).next = at;
            (*link(head, k)).prev = at;
            if is_first {
                (*own).chain = (*link(head, k)).chain;
                (*own).is_head = true;
                (*link(head, k)).is_head = false;
                self.replace_in_chain(k, head, at);
            }
        }
    }

    /// Removes an entry from table `k`, if it is a member.
    ///
    /// # Safety
    ///
    /// `at` is an entry of this queue.
    #[inline]
    pub(super) unsafe fn unindex(&mut self, k: usize, at: *mut T) {
        // SAFETY: By this function's safety requirement, and by the invariant for the members of the group.
        unsafe {
            let own = link(at, k);
            if !mem::replace(&mut (*own).is_member, false) {
                return;
            }
            let (next, prev) = ((*own).next, (*own).prev);
            if next == at {
                self.replace_in_chain(k, at, (*own).chain);
                self.tables[k].groups -= 1;
                self.shrink(k);
                return;
            }
            (*link(prev, k)).next = next;
            (*link(next, k)).prev = prev;
            if (*own).is_head {
                (*link(next, k)).chain = (*own).chain;
                (*link(next, k)).is_head = true;
                self.replace_in_chain(k, at, next);
            }
        }
    }

    /// Makes an entry a head of its bucket.
    ///
    /// # Safety
    ///
    /// `at` is an entry of this queue and in no chain.
    #[inline(always)]
    unsafe fn chain(&mut self, k: usize, at: *mut T) {
        // SAFETY: By this function's safety requirement.
        unsafe {
            let own = link(at, k);
            let bucket = self.tables[k].bucket_of((*own).hash);
            (*own).chain = mem::replace(bucket, at);
            (*own).is_head = true;
        }
    }

    /// Replaces the head `old` in the chain of its bucket by `new`, which is its successor there or has its
    /// successor.
    ///
    /// # Safety
    ///
    /// `old` is in the chain of the bucket for its hash.
    unsafe fn replace_in_chain(&mut self, k: usize, old: *mut T, new: *mut T) {
        // SAFETY: By this function's safety requirement the search ends at `old`; a chain consists of entries.
        unsafe {
            let mut slot: *mut *mut T = self.tables[k].bucket_of((*link(old, k)).hash);
            while *slot != old {
                slot = &raw mut (*link(*slot, k)).chain;
            }
            *slot = new;
        }
    }

    /// Moves the heads of a chain to their buckets.
    ///
    /// # Safety
    ///
    /// The chain consists of entries that are in no bucket.
    unsafe fn distribute(&mut self, k: usize, mut chain: *mut T) {
        while !chain.is_null() {
            // SAFETY: By this function's safety requirement.
            unsafe {
                let next = (*link(chain, k)).chain;
                self.chain(k, chain);
                chain = next;
            }
        }
    }

    /// Splits a bucket if there are more groups than buckets.
    #[inline(always)]
    fn grow(&mut self, k: usize) {
        if self.tables[k].groups > self.tables[k].buckets {
            self.split_bucket(k);
        }
    }

    #[cold]
    fn split_bucket(&mut self, k: usize) {
        let table = &mut self.tables[k];
        if let Some(at) = table.add_bucket() {
            let chain = mem::replace(table.bucket(at), ptr::null_mut());
            // SAFETY: The bucket that they were in is empty now.
            unsafe { self.distribute(k, chain) };
        }
    }

    /// Merges a bucket if there are less than a quarter as many groups as buckets.
    #[inline(always)]
    fn shrink(&mut self, k: usize) {
        let table = &self.tables[k];
        if table.groups < table.buckets / 4 && table.buckets > table.min_buckets {
            self.merge_bucket(k);
        }
    }

    #[cold]
    fn merge_bucket(&mut self, k: usize) {
        let chain = self.tables[k].remove_bucket();
        // SAFETY: The bucket that they were in is gone.
        unsafe { self.distribute(k, chain) };
    }
}
