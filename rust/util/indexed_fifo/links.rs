// SPDX-License-Identifier: GPL-2.0

//! Links that an entry of an indexed queue contains.

use crate::prelude::*;

/// Membership of an entry in one table.
pub(super) struct Link<T> {
    /// Neighbours in the group.
    pub(super) next: *mut T,
    pub(super) prev: *mut T,
    /// Head of the next group in the bucket; only for a head.
    pub(super) chain: *mut T,
    pub(super) hash: u32,
    pub(super) is_member: bool,
    pub(super) is_head: bool,
}

impl<T> Link<T> {
    const NONE: Self = Self {
        next: ptr::null_mut(),
        prev: ptr::null_mut(),
        chain: ptr::null_mut(),
        hash: 0,
        is_member: false,
        is_head: false,
    };
}

/// Links of an entry, which the queue sets while it has the entry.
pub(crate) struct Links<T, const N: usize> {
    /// Neighbours in the queue.
    pub(super) next: *mut T,
    pub(super) prev: *mut T,
    pub(super) tables: [Link<T>; N],
}

impl<T, const N: usize> Links<T, N> {
    /// Creates the links of an entry that is in no queue.
    pub(crate) const fn new() -> Self {
        Self {
            next: ptr::null_mut(),
            prev: ptr::null_mut(),
            tables: [Link::NONE; N],
        }
    }
}

// SAFETY: The pointers are not dereferenced except by the queue that owns the entries.
unsafe impl<T, const N: usize> Send for Links<T, N> {}

// SAFETY: As above.
unsafe impl<T, const N: usize> Sync for Links<T, N> {}

/// Values that contain [`Links`]; implemented by [`impl_has_links!`](impl_has_links).
///
/// # Safety
///
/// `links` returns a pointer to a field of `*this`, the same one whenever it is called.
pub(crate) unsafe trait HasLinks<const N: usize>: Sized {
    /// Returns a pointer to the links.
    ///
    /// # Safety
    ///
    /// `this` points to a value.
    unsafe fn links(this: *mut Self) -> *mut Links<Self, N>;
}

/// Implements [`HasLinks`](crate::util::indexed_fifo::HasLinks) for a type with a field of type `Links`.
macro_rules! impl_has_links {
    (impl HasLinks<$tables:ident> for $entry:ty { self.$field:ident }) => {
        // SAFETY: It is the pointer to this field.
        unsafe impl $crate::util::indexed_fifo::HasLinks<$tables> for $entry {
            #[inline(always)]
            unsafe fn links(
                this: *mut Self,
            ) -> *mut $crate::util::indexed_fifo::Links<Self, $tables> {
                // SAFETY: By the function's safety requirement there is such a field.
                unsafe { &raw mut (*this).$field }
            }
        }
    };
}
pub(crate) use impl_has_links;

/// Returns the link of an entry in table `k`.
///
/// # Safety
///
/// `at` is an entry of a queue.
#[inline(always)]
pub(super) unsafe fn link<T: HasLinks<N>, const N: usize>(at: *mut T, k: usize) -> *mut Link<T> {
    // SAFETY: By this function's safety requirement it points to a value with links.
    unsafe { &raw mut (*T::links(at)).tables[k] }
}
