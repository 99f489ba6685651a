// SPDX-License-Identifier: GPL-2.0

//! Things that go from hand to hand and from queue to queue, and are allocated once.
//!
//! Whoever has an [`ListBox`] has the thing alone and may change it; in a [`BoxList`] it is only looked at.
//! Nothing is copied, allocated or counted on the way, which is legal in any context. There is no lock.

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
    /// The one behind it in its queue; of no meaning in none.
    next: *mut Node<T>,
    what: T,
}

/// A thing that is in no queue.
pub struct ListBox<T>(KBox<Node<T>>);

// SAFETY: It owns its node alone, whose pointer nobody follows.
unsafe impl<T: Send> Send for ListBox<T> {}

// SAFETY: A shared one gives shared references to the thing alone.
unsafe impl<T: Sync> Sync for ListBox<T> {}

impl<T> ListBox<T> {
    /// Makes room for it. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub fn new(what: T) -> Result<Self> {
        Self::allocate(what, GFP_KERNEL)
    }

    /// The same in any context.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM, which is to be expected.
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

/// What somebody who looks for a thing in a queue says of one.
pub(crate) enum ScanAction<P> {
    /// It is not the one.
    On,
    /// It is, and is taken.
    Take,
    /// It is, and stays; this is known of it.
    Leave(P),
}

/// Things in a row.
///
/// # Invariants
///
/// `first` is the first of `len` nodes, each of which came from a box that nobody else has, and has the
/// next one's address, or null if it is the last; `last` is the last one, if there are any.
pub(crate) struct BoxList<T> {
    first: *mut Node<T>,
    last: *mut Node<T>,
    len: usize,
    _owns: PhantomData<KBox<Node<T>>>,
}

// SAFETY: It owns its nodes alone.
unsafe impl<T: Send> Send for BoxList<T> {}

// SAFETY: A shared one gives shared references to its things alone.
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
    /// None.
    pub(crate) const fn new() -> Self {
        // INVARIANT: There are none.
        Self {
            first: ptr::null_mut(),
            last: ptr::null_mut(),
            len: 0,
            _owns: PhantomData,
        }
    }

    /// How many there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// The first.
    #[inline(always)]
    pub(crate) fn first(&self) -> Option<&T> {
        // SAFETY: By the invariant it is a node of ours, or null.
        Some(unsafe { &self.first.as_ref()?.what })
    }

    /// All, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let mut next = self.first;
        core::iter::from_fn(move || {
            // SAFETY: By the invariant it is a node of ours, or null; none leaves while `self` is borrowed.
            let node = unsafe { next.as_ref() }?;
            next = node.next;
            Some(&node.what)
        })
    }

    /// Puts it behind all others.
    #[inline(always)]
    pub(crate) fn push(&mut self, own: ListBox<T>) {
        let mut node = own.0;
        node.next = ptr::null_mut();
        let node = KBox::into_raw(node);
        match self.first.is_null() {
            true => self.first = node,
            // SAFETY: By the invariant there is a last one.
            false => unsafe { (*self.last).next = node },
        }
        // INVARIANT: It is behind the one that was the last, and nothing is behind it.
        self.last = node;
        self.len += 1;
    }

    /// Puts it before all others.
    #[inline(always)]
    pub(crate) fn push_first(&mut self, own: ListBox<T>) {
        let mut node = own.0;
        node.next = self.first;
        let node = KBox::into_raw(node);
        if self.first.is_null() {
            self.last = node;
        }
        // INVARIANT: All others are behind it.
        self.first = node;
        self.len += 1;
    }

    /// Takes all of `others`, behind its own.
    pub(crate) fn append(&mut self, others: &mut Self) {
        while let Some(own) = others.pop() {
            self.push(own);
        }
    }

    /// Takes the first.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<ListBox<T>> {
        match self.first.is_null() {
            true => None,
            // SAFETY: The first one is there, and there is none before it.
            false => Some(unsafe { self.remove(ptr::null_mut(), self.first) }),
        }
    }

    /// Takes `node`, which is behind `before`, or the first if that is null.
    ///
    /// # Safety
    ///
    /// Both are nodes of this queue.
    #[inline(always)]
    unsafe fn remove(&mut self, before: *mut Node<T>, node: *mut Node<T>) -> ListBox<T> {
        // SAFETY: By this function's safety requirement it came from a box, which nobody else has.
        let own = unsafe { KBox::from_raw(node) };
        match before.is_null() {
            true => self.first = own.next,
            // SAFETY: By this function's safety requirement.
            false => unsafe { (*before).next = own.next },
        }
        if own.next.is_null() {
            self.last = before;
        }
        // INVARIANT: Those around it are neighbours now.
        self.len -= 1;
        ListBox(own)
    }

    /// Takes the first that `fits`.
    #[inline]
    pub(crate) fn take(&mut self, mut fits: impl FnMut(&T) -> bool) -> Option<ListBox<T>> {
        let look = |what: &T| match fits(what) {
            true => ScanAction::<()>::Take,
            false => ScanAction::On,
        };
        self.find(look)?.ok()
    }

    /// Looks for one, in order: takes it, or has what is known of it.
    #[inline]
    pub(crate) fn find<P>(
        &mut self,
        mut look: impl FnMut(&T) -> ScanAction<P>,
    ) -> Option<core::result::Result<ListBox<T>, P>> {
        let (mut before, mut node) = (ptr::null_mut(), self.first);
        loop {
            // SAFETY: By the invariant it is a node of ours, or null.
            let seen = unsafe { node.as_ref() }?;
            match look(&seen.what) {
                ScanAction::On => (before, node) = (node, seen.next),
                // SAFETY: `before` was the last one that was looked at, or there was none.
                ScanAction::Take => return Some(Ok(unsafe { self.remove(before, node) })),
                ScanAction::Leave(known) => return Some(Err(known)),
            }
        }
    }

    /// Takes all that `goes`, in order.
    pub(crate) fn take_all(&mut self, mut goes: impl FnMut(&T) -> bool) -> Self {
        self.take_changed(|what| goes(what))
    }

    /// The same, where `goes` may change what it looks at.
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

    /// Changes all, in order.
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
