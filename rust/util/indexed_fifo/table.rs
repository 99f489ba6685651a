// SPDX-License-Identifier: GPL-2.0

//! Buckets of a linear hash table, in pages.

use crate::prelude::*;

/// Number of buckets that need no page.
pub(super) const FIRST: usize = 4;

/// Number of buckets in a page.
const PAGE: usize = 512;

/// Buckets that are allocated before a table gets them.
pub(crate) struct Buckets<T> {
    pages: KVec<KVec<*mut T>>,
    count: u32,
}

impl<T> Buckets<T> {
    /// Allocates buckets for this number of groups. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn new(groups: usize) -> Result<Self> {
        let groups = u32::try_from(groups).map_err(|_| ENOMEM)?;
        let count = groups.checked_next_power_of_two().ok_or(ENOMEM)?;
        let count = count.max(FIRST as u32);
        let mut pages = KVec::new();
        while pages.len() < (count as usize).div_ceil(PAGE) {
            let page = KVec::from_elem(ptr::null_mut(), PAGE, GFP_KERNEL)?;
            pages.push(page, GFP_KERNEL)?;
        }
        Ok(Self { pages, count })
    }
}

/// Hash table over the entries of a queue: buckets, whose chains the queue changes.
pub(super) struct Table<T> {
    first: [*mut T; FIRST],
    /// Pages of buckets; the first [`FIRST`] ones of the first page are not used.
    pages: KVec<KVec<*mut T>>,
    /// Number of buckets.
    pub(super) buckets: u32,
    /// Mask of a hash: the lowest one that gives the index of each bucket.
    mask: u32,
    /// Number of buckets that are kept although there are few groups.
    pub(super) min_buckets: u32,
    /// Number of groups.
    pub(super) groups: u32,
    /// First entry of the queue that the table does not have, or null.
    pub(super) cursor: *mut T,
}

impl<T> Table<T> {
    /// Empty table.
    pub(super) const NONE: Self = Self {
        first: [ptr::null_mut(); FIRST],
        pages: KVec::new(),
        buckets: FIRST as u32,
        mask: FIRST as u32 - 1,
        min_buckets: FIRST as u32,
        groups: 0,
        cursor: ptr::null_mut(),
    };

    /// Sets the buckets, which are kept from now on. The table has no groups yet.
    pub(super) fn set_buckets(&mut self, buckets: Buckets<T>) {
        self.pages = buckets.pages;
        self.set_count(buckets.count);
        self.min_buckets = buckets.count;
    }

    fn set_count(&mut self, buckets: u32) {
        self.buckets = buckets;
        self.mask = buckets.next_power_of_two() - 1;
    }

    /// Returns the index of the bucket for a hash.
    #[inline(always)]
    fn index_of(&self, hash: u32) -> usize {
        let at = hash & self.mask;
        let at = match at < self.buckets {
            true => at,
            false => at & (self.mask >> 1),
        };
        at as usize
    }

    /// Returns a bucket.
    #[inline(always)]
    pub(super) fn bucket(&mut self, at: usize) -> &mut *mut T {
        match at < FIRST {
            true => &mut self.first[at],
            false => &mut self.pages[at / PAGE][at % PAGE],
        }
    }

    /// Returns the bucket for a hash.
    #[inline(always)]
    pub(super) fn bucket_of(&mut self, hash: u32) -> &mut *mut T {
        let at = self.index_of(hash);
        self.bucket(at)
    }

    /// Adds an empty bucket, if there is memory for it. Returns the index of the one that it was split from.
    pub(super) fn add_bucket(&mut self) -> Option<usize> {
        let at = self.buckets as usize;
        if at / PAGE >= self.pages.len() {
            let page = KVec::from_elem(ptr::null_mut(), PAGE, GFP_NOWAIT).ok()?;
            self.pages.push(page, GFP_NOWAIT).ok()?;
        }
        self.set_count(self.buckets + 1);
        *self.bucket(at) = ptr::null_mut();
        Some(at - (1 << at.ilog2()))
    }

    /// Removes the last bucket, which is not one of those that are kept, and returns its chain. The first page is
    /// kept.
    pub(super) fn remove_bucket(&mut self) -> *mut T {
        self.set_count(self.buckets - 1);
        let at = self.buckets as usize;
        let chain = mem::replace(self.bucket(at), ptr::null_mut());
        if at % PAGE == 0 {
            drop(self.pages.pop());
        }
        chain
    }
}
