// SPDX-License-Identifier: GPL-2.0

//! Owned list nodes: each value is allocated once, is in at most one list, and moving it transfers ownership.
//!
//! The owner of a [`ListBox`] has exclusive access to its value; values in a [`BoxList`] are read only.
//! Moving a value between lists neither copies, allocates nor counts references, and is allowed in any
//! context. There is no lock.

use crate::prelude::*;

struct Node<T> {
    /// The next node of the list; meaningless outside of a list.
    next: *mut Node<T>,
    value: T,
}

/// A value that is in no list.
pub struct ListBox<T>(KBox<Node<T>>);

// SAFETY: It owns its node alone, whose `next` is not dereferenced.
unsafe impl<T: Send> Send for ListBox<T> {}

// SAFETY: A shared node gives only shared references to its value.
unsafe impl<T: Sync> Sync for ListBox<T> {}

impl<T> ListBox<T> {
    /// Allocates a node for `value`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub fn new(value: T) -> Result<Self> {
        Self::allocate(value, GFP_KERNEL)
    }

    /// Allocates a node for `value` without sleeping. Any context.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM, which is likely here.
    pub fn new_atomic(value: T) -> Result<Self> {
        Self::allocate(value, GFP_NOWAIT)
    }

    fn allocate(value: T, flags: kernel::alloc::Flags) -> Result<Self> {
        let next = ptr::null_mut();
        Ok(Self(KBox::new(Node { next, value }, flags)?))
    }

    /// Returns the address of the value, for [`Self::from_raw`].
    #[inline(always)]
    pub(crate) fn into_raw(self) -> NonNull<T> {
        let node = KBox::into_raw(self.0);
        // SAFETY: It points to a node.
        unsafe { NonNull::new_unchecked(&raw mut (*node).value) }
    }

    /// Returns the node of a value.
    ///
    /// # Safety
    ///
    /// `value` came from [`Self::into_raw`], and this is called once for it.
    #[inline(always)]
    pub(crate) unsafe fn from_raw(value: NonNull<T>) -> Self {
        // SAFETY: By this function's safety requirement it is the value of a node that came from a box.
        unsafe {
            let node = value.as_ptr().byte_sub(mem::offset_of!(Node<T>, value));
            Self(KBox::from_raw(node.cast()))
        }
    }
}

impl<T> Deref for ListBox<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T> DerefMut for ListBox<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0.value
    }
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
    pub(crate) fn front(&self) -> Option<&T> {
        // SAFETY: By the invariant it is a node of this list, or null.
        Some(unsafe { &self.first.as_ref()?.value })
    }

    /// Iterates over the values in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let mut next = self.first;
        core::iter::from_fn(move || {
            // SAFETY: By the invariant it is a node of this list, or null; none is removed while `self` is borrowed.
            let node = unsafe { next.as_ref() }?;
            next = node.next;
            Some(&node.value)
        })
    }

    /// Appends a value.
    #[inline(always)]
    pub(crate) fn push(&mut self, value: ListBox<T>) {
        let mut node = value.0;
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
    pub(crate) fn push_front(&mut self, value: ListBox<T>) {
        let mut node = value.0;
        node.next = self.first;
        let node = KBox::into_raw(node);
        if self.first.is_null() {
            self.last = node;
        }
        // INVARIANT: The former first node is its successor.
        self.first = node;
        self.len += 1;
    }

    /// Appends all values of `other`, and empties it. Costs the same for any number of values.
    pub(crate) fn append(&mut self, other: &mut Self) {
        let other = mem::ManuallyDrop::new(mem::take(other));
        if other.is_empty() {
            return;
        }
        match self.first.is_null() {
            true => self.first = other.first,
            // SAFETY: By the invariant there is a last node.
            false => unsafe { (*self.last).next = other.first },
        }
        // INVARIANT: The nodes of `other` follow the former last one, and belong to this list now.
        self.last = other.last;
        self.len += other.len;
    }

    /// Removes the first value.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<ListBox<T>> {
        match self.first.is_null() {
            true => None,
            // SAFETY: The first node exists, and has no predecessor.
            false => Some(unsafe { self.unlink(ptr::null_mut(), self.first) }),
        }
    }

    /// Removes `node`, whose predecessor is `before`, or null if it is the first.
    ///
    /// # Safety
    ///
    /// `before` and `node` are nodes of this list.
    #[inline(always)]
    unsafe fn unlink(&mut self, before: *mut Node<T>, node: *mut Node<T>) -> ListBox<T> {
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

    /// Removes the first value for which `predicate` holds.
    #[inline]
    pub(crate) fn remove_first_where(
        &mut self,
        mut predicate: impl FnMut(&T) -> bool,
    ) -> Option<ListBox<T>> {
        let (mut before, mut node) = (ptr::null_mut(), self.first);
        loop {
            // SAFETY: By the invariant it is a node of this list, or null.
            let seen = unsafe { node.as_ref() }?;
            if predicate(&seen.value) {
                // SAFETY: `before` is the node examined before this one, or null.
                return Some(unsafe { self.unlink(before, node) });
            }
            (before, node) = (node, seen.next);
        }
    }

    /// Removes the values for which `predicate` holds, and returns them in order.
    pub(crate) fn drain_where(&mut self, mut predicate: impl FnMut(&T) -> bool) -> Self {
        let (mut taken, mut kept) = (Self::new(), Self::new());
        while let Some(own) = self.pop() {
            match predicate(&own) {
                true => taken.push(own),
                false => kept.push(own),
            }
        }
        *self = kept;
        taken
    }

    /// Calls `change` for each value, in order.
    pub(crate) fn for_each_mut(&mut self, mut change: impl FnMut(&mut T)) {
        let mut all = core::mem::take(self);
        while let Some(mut own) = all.pop() {
            change(&mut own);
            self.push(own);
        }
    }
}

#[kunit_tests(kofi_owned_list)]
mod tests {
    use super::*;

    fn list_of(numbers: &[u32]) -> Result<BoxList<u32>> {
        let mut list = BoxList::new();
        for &number in numbers {
            list.push(ListBox::new(number)?);
        }
        Ok(list)
    }

    fn has_items(list: &BoxList<u32>, numbers: &[u32]) -> bool {
        list.len() == numbers.len() && list.iter().copied().eq(numbers.iter().copied())
    }

    #[test]
    fn push_and_pop_are_fifo() -> Result {
        let mut list = list_of(&[1, 2, 3])?;
        assert!(has_items(&list, &[1, 2, 3]));
        assert!(list.front().is_some_and(|first| *first == 1));
        let mut first = list.pop().ok_or(crate::abi::Errno::EOTHER)?;
        *first = 7;
        list.push(first);
        assert!(has_items(&list, &[2, 3, 7]));
        while let Some(entry) = list.pop() {
            assert!(*entry > 1);
        }
        assert!(list.is_empty() && has_items(&list, &[]));
        assert!(list.front().is_none());
        Ok(())
    }

    #[test]
    fn remove_first_where_works_at_any_position() -> Result {
        for (wanted, rest) in [(1, [2, 3]), (2, [1, 3]), (3, [1, 2])] {
            let mut list = list_of(&[1, 2, 3])?;
            let removed = list.remove_first_where(|&number| number == wanted);
            assert!(removed.is_some_and(|removed| *removed == wanted));
            assert!(has_items(&list, &rest));
            assert!(list
                .remove_first_where(|&number| number == wanted)
                .is_none());
            assert!(has_items(&list, &rest));
            list.push_front(ListBox::new(wanted)?);
            assert!(list.front().is_some_and(|first| *first == wanted));
            list.push(ListBox::new(9)?);
            assert!(has_items(&list, &[wanted, rest[0], rest[1], 9]));
        }
        assert!(BoxList::<u32>::new().remove_first_where(|_| true).is_none());
        Ok(())
    }

    #[test]
    fn append_moves_all_values() -> Result {
        let (mut list, mut other) = (BoxList::new(), list_of(&[1, 2])?);
        list.append(&mut other);
        assert!(has_items(&list, &[1, 2]) && has_items(&other, &[]));
        list.append(&mut other);
        other.push(ListBox::new(3)?);
        list.append(&mut other);
        list.push(ListBox::new(4)?);
        assert!(has_items(&list, &[1, 2, 3, 4]) && has_items(&other, &[]));
        Ok(())
    }

    #[test]
    fn drain_where_preserves_order() -> Result {
        let mut list = list_of(&[1, 2, 3, 4, 5])?;
        let odd = list.drain_where(|number| number % 2 == 1);
        assert!(has_items(&odd, &[1, 3, 5]));
        assert!(has_items(&list, &[2, 4]));
        let mut all = list.drain_where(|_| true);
        assert!(has_items(&all, &[2, 4]) && list.is_empty());
        all.append(&mut list_of(&[1, 7])?);
        assert!(has_items(&all, &[2, 4, 1, 7]));
        Ok(())
    }

    #[test]
    fn drop_frees_the_remaining_entries() -> Result {
        use kernel::sync::Arc;
        let counted = Arc::new((), GFP_KERNEL)?;
        let mut list = BoxList::new();
        for _ in 0..3 {
            list.push(ListBox::new(counted.clone())?);
        }
        drop(list.pop());
        drop(list);
        assert!(Arc::into_unique_or_drop(counted).is_some());
        Ok(())
    }
}
