// SPDX-License-Identifier: GPL-2.0

//! Owned list nodes: each value is allocated once, is in at most one list, and moving it transfers ownership.
//!
//! The owner of a [`ListBox`] has exclusive access to its value; values in a [`BoxList`] are read only.
//! Moving a value between lists neither copies, allocates nor counts references, and is allowed in any
//! context. There is no lock.

use super::Result;
use core::{
    marker::PhantomData,
    ops::{
        Deref,
        DerefMut, //
    },
    ptr, //
};
use kernel::prelude::*;

struct Node<T> {
    /// The next node of the list; meaningless outside of a list.
    next: *mut Node<T>,
    what: T,
}

/// A value that is in no list.
pub struct ListBox<T>(KBox<Node<T>>);

// SAFETY: It owns its node alone, whose `next` is not dereferenced.
unsafe impl<T: Send> Send for ListBox<T> {}

// SAFETY: A shared node gives only shared references to its value.
unsafe impl<T: Sync> Sync for ListBox<T> {}

impl<T> ListBox<T> {
    /// Allocates a node for `what`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub fn new(what: T) -> Result<Self> {
        Self::allocate(what, GFP_KERNEL)
    }

    /// Allocates a node for `what` without sleeping. Any context.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM, which is likely here.
    pub fn at_once(what: T) -> Result<Self> {
        Self::allocate(what, GFP_NOWAIT)
    }

    fn allocate(what: T, flags: kernel::alloc::Flags) -> Result<Self> {
        let next = ptr::null_mut();
        Ok(Self(KBox::new(Node { next, what }, flags)?))
    }
}

impl<T> Deref for ListBox<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0.what
    }
}

impl<T> DerefMut for ListBox<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0.what
    }
}

/// Result of examining a value in [`BoxList::find`].
pub(crate) enum ScanAction<P> {
    /// Continues with the next value.
    On,
    /// Ends the search and takes the value.
    Take,
    /// Ends the search and leaves the value in the list.
    Leave(P),
}

/// A singly linked list of values.
///
/// # Invariants
///
/// `first` is the first of `len` nodes, each of which came from a box that this list owns, and points to the
/// next one, or is null for the last; `last` is the last node, if there is one.
pub(crate) struct BoxList<T> {
    first: *mut Node<T>,
    last: *mut Node<T>,
    len: usize,
    _owns: PhantomData<KBox<Node<T>>>,
}

// SAFETY: It owns its nodes alone.
unsafe impl<T: Send> Send for BoxList<T> {}

// SAFETY: A shared list gives only shared references to its values.
unsafe impl<T: Sync> Sync for BoxList<T> {}

impl<T> Default for BoxList<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for BoxList<T> {
    #[inline]
    fn drop(&mut self) {
        while let Some(own) = self.pop() {
            drop(own);
        }
    }
}

impl<T> BoxList<T> {
    /// Makes an empty list.
    pub(crate) const fn new() -> Self {
        // INVARIANT: There are none.
        Self {
            first: ptr::null_mut(),
            last: ptr::null_mut(),
            len: 0,
            _owns: PhantomData,
        }
    }

    /// Returns the number of values.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the list is empty.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Returns the first value.
    #[inline(always)]
    pub(crate) fn first(&self) -> Option<&T> {
        // SAFETY: By the invariant it is a node of this list, or null.
        Some(unsafe { &self.first.as_ref()?.what })
    }

    /// Iterates over the values in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let mut next = self.first;
        core::iter::from_fn(move || {
            // SAFETY: By the invariant it is a node of this list, or null; none is removed while `self` is borrowed.
            let node = unsafe { next.as_ref() }?;
            next = node.next;
            Some(&node.what)
        })
    }

    /// Appends a value.
    #[inline(always)]
    pub(crate) fn push(&mut self, own: ListBox<T>) {
        let mut node = own.0;
        node.next = ptr::null_mut();
        let node = KBox::into_raw(node);
        match self.first.is_null() {
            true => self.first = node,
            // SAFETY: By the invariant there is a last node.
            false => unsafe { (*self.last).next = node },
        }
        // INVARIANT: The node follows the former last one, and has no successor.
        self.last = node;
        self.len += 1;
    }

    /// Prepends a value.
    #[inline(always)]
    pub(crate) fn push_first(&mut self, own: ListBox<T>) {
        let mut node = own.0;
        node.next = self.first;
        let node = KBox::into_raw(node);
        if self.first.is_null() {
            self.last = node;
        }
        // INVARIANT: The former first node is its successor.
        self.first = node;
        self.len += 1;
    }

    /// Appends all values of `others`, and empties it.
    pub(crate) fn append(&mut self, others: &mut Self) {
        while let Some(own) = others.pop() {
            self.push(own);
        }
    }

    /// Removes the first value.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<ListBox<T>> {
        match self.first.is_null() {
            true => None,
            // SAFETY: The first node exists, and has no predecessor.
            false => Some(unsafe { self.remove(ptr::null_mut(), self.first) }),
        }
    }

    /// Removes `node`, whose predecessor is `before`, or null if it is the first.
    ///
    /// # Safety
    ///
    /// `before` and `node` are nodes of this list.
    #[inline(always)]
    unsafe fn remove(&mut self, before: *mut Node<T>, node: *mut Node<T>) -> ListBox<T> {
        // SAFETY: By this function's safety requirement it came from a box that this list owns.
        let own = unsafe { KBox::from_raw(node) };
        match before.is_null() {
            true => self.first = own.next,
            // SAFETY: By this function's safety requirement.
            false => unsafe { (*before).next = own.next },
        }
        if own.next.is_null() {
            self.last = before;
        }
        // INVARIANT: Its predecessor and its successor are linked now.
        self.len -= 1;
        ListBox(own)
    }

    /// Removes the first value for which `fits` holds.
    #[inline]
    pub(crate) fn take(&mut self, mut fits: impl FnMut(&T) -> bool) -> Option<ListBox<T>> {
        let look = |what: &T| match fits(what) {
            true => ScanAction::<()>::Take,
            false => ScanAction::On,
        };
        self.find(look)?.ok()
    }

    /// Examines the values in order until one ends the search; returns it, or the value in
    /// [`ScanAction::Leave`].
    #[inline]
    pub(crate) fn find<P>(
        &mut self,
        mut look: impl FnMut(&T) -> ScanAction<P>,
    ) -> Option<core::result::Result<ListBox<T>, P>> {
        let (mut before, mut node) = (ptr::null_mut(), self.first);
        loop {
            // SAFETY: By the invariant it is a node of this list, or null.
            let seen = unsafe { node.as_ref() }?;
            match look(&seen.what) {
                ScanAction::On => (before, node) = (node, seen.next),
                // SAFETY: `before` is the node examined before this one, or null.
                ScanAction::Take => return Some(Ok(unsafe { self.remove(before, node) })),
                ScanAction::Leave(known) => return Some(Err(known)),
            }
        }
    }

    /// Removes the values for which `goes` holds, and returns them in order.
    pub(crate) fn take_all(&mut self, mut goes: impl FnMut(&T) -> bool) -> Self {
        self.take_changed(|what| goes(what))
    }

    /// Removes the values for which `goes` holds, and returns them in order; `goes` may change each value.
    pub(crate) fn take_changed(&mut self, mut goes: impl FnMut(&mut T) -> bool) -> Self {
        let (mut taken, mut kept) = (Self::new(), Self::new());
        while let Some(mut own) = self.pop() {
            match goes(&mut own) {
                true => taken.push(own),
                false => kept.push(own),
            }
        }
        *self = kept;
        taken
    }

    /// Calls `change` for each value, in order.
    pub(crate) fn change(&mut self, mut change: impl FnMut(&mut T)) {
        let mut all = core::mem::take(self);
        while let Some(mut own) = all.pop() {
            change(&mut own);
            self.push(own);
        }
    }
}

#[kunit_tests(kofi_abi_nodes)]
mod tests {
    use super::*;

    fn of(numbers: &[u32]) -> Result<BoxList<u32>> {
        let mut queue = BoxList::new();
        for &number in numbers {
            queue.push(ListBox::new(number)?);
        }
        Ok(queue)
    }

    fn is(queue: &BoxList<u32>, numbers: &[u32]) -> bool {
        queue.len() == numbers.len() && queue.iter().copied().eq(numbers.iter().copied())
    }

    #[test]
    fn first_in_first_out() -> Result {
        let mut queue = of(&[1, 2, 3])?;
        assert!(is(&queue, &[1, 2, 3]));
        assert!(queue.first().is_some_and(|first| *first == 1));
        let mut first = queue.pop().ok_or(crate::abi::Errno::EOTHER)?;
        *first = 7;
        queue.push(first);
        assert!(is(&queue, &[2, 3, 7]));
        while let Some(own) = queue.pop() {
            assert!(*own > 1);
        }
        assert!(queue.is_empty() && is(&queue, &[]));
        assert!(queue.first().is_none());
        Ok(())
    }

    #[test]
    fn the_first_that_fits_is_taken_wherever_it_is() -> Result {
        for (wanted, rest) in [(1, [2, 3]), (2, [1, 3]), (3, [1, 2])] {
            let mut queue = of(&[1, 2, 3])?;
            let taken = queue.take(|&number| number == wanted);
            assert!(taken.is_some_and(|taken| *taken == wanted));
            assert!(is(&queue, &rest));
            assert!(queue.take(|&number| number == wanted).is_none());
            assert!(is(&queue, &rest));
            queue.push_first(ListBox::new(wanted)?);
            assert!(queue.first().is_some_and(|first| *first == wanted));
            queue.push(ListBox::new(9)?);
            assert!(is(&queue, &[wanted, rest[0], rest[1], 9]));
        }
        assert!(BoxList::<u32>::new().take(|_| true).is_none());
        Ok(())
    }

    #[test]
    fn who_finds_one_may_leave_it() -> Result {
        let mut queue = of(&[1, 2, 3])?;
        let mut seen = 0;
        let found = queue.find(|&number| {
            seen += 1;
            match number {
                1 => ScanAction::On,
                number => ScanAction::Leave(number * 10),
            }
        });
        assert!(matches!(found, Some(Err(20))) && seen == 2);
        assert!(is(&queue, &[1, 2, 3]));
        let found = queue.find(|&number| match number {
            3 => ScanAction::<()>::Take,
            _ => ScanAction::On,
        });
        assert!(matches!(found, Some(Ok(own)) if *own == 3));
        assert!(is(&queue, &[1, 2]));
        assert!(queue.find(|_| ScanAction::<()>::On).is_none());
        Ok(())
    }

    #[test]
    fn what_is_taken_may_have_been_changed() -> Result {
        let mut queue = of(&[1, 2, 3, 4])?;
        let mut left = 2;
        let changed = queue.take_changed(|number| {
            let goes = *number != 2 && left > 0;
            if goes {
                left -= 1;
                *number += 10;
            }
            goes
        });
        assert!(is(&changed, &[11, 13]));
        assert!(is(&queue, &[2, 4]));
        Ok(())
    }

    #[test]
    fn all_that_go_are_taken_in_order() -> Result {
        let mut queue = of(&[1, 2, 3, 4, 5])?;
        let odd = queue.take_all(|number| number % 2 == 1);
        assert!(is(&odd, &[1, 3, 5]));
        assert!(is(&queue, &[2, 4]));
        let mut all = queue.take_all(|_| true);
        assert!(is(&all, &[2, 4]) && queue.is_empty());
        all.append(&mut of(&[1, 7])?);
        assert!(is(&all, &[2, 4, 1, 7]));
        Ok(())
    }

    #[test]
    fn what_is_left_is_dropped_with_the_queue() -> Result {
        use kernel::sync::Arc;
        let counted = Arc::new((), GFP_KERNEL)?;
        let mut queue = BoxList::new();
        for _ in 0..3 {
            queue.push(ListBox::new(counted.clone())?);
        }
        drop(queue.pop());
        drop(queue);
        assert!(Arc::into_unique_or_drop(counted).is_some());
        Ok(())
    }
}
