// SPDX-License-Identifier: GPL-2.0

//! Things that go from hand to hand and from queue to queue, and are allocated once.
//!
//! Whoever has an [`Own`] has the thing alone and may change it; in a [`Queue`] it is only looked at.
//! Nothing is copied or allocated on the way, which is legal in any context. There is no lock.

use super::Result;
use core::ops::{
    Deref,
    DerefMut, //
};
use kernel::{
    list::{
        impl_list_arc_safe,
        impl_list_item,
        List,
        ListArc,
        ListLinks, //
    },
    prelude::*,
    sync::{
        Arc,
        ArcBorrow,
        UniqueArc, //
    },
};

#[pin_data]
struct Node<T> {
    what: T,
    #[pin]
    links: ListLinks,
}

impl_list_arc_safe! {
    impl{T} ListArcSafe<0> for Node<T> { untracked; }
}

impl_list_item! {
    impl{T} ListItem<0> for Node<T> { using ListLinks { self.links }; }
}

/// A thing that is in no queue.
pub struct Own<T>(Pin<UniqueArc<Node<T>>>);

impl<T> Own<T> {
    /// Makes room for it. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub fn new(what: T) -> Result<Self> {
        Ok(Self(UniqueArc::pin_init(
            pin_init!(Node {
                what,
                links <- ListLinks::new(),
            }),
            GFP_KERNEL,
        )?))
    }

    /// The same in any context.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM, which is to be expected.
    pub fn at_once(what: T) -> Result<Self> {
        Ok(Self(UniqueArc::pin_init(
            pin_init!(Node {
                what,
                links <- ListLinks::new(),
            }),
            GFP_NOWAIT,
        )?))
    }
}

impl<T> Deref for Own<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0.what
    }
}

impl<T> DerefMut for Own<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().project().what
    }
}

/// A thing that is in a queue.
pub struct Seen<'a, T>(ArcBorrow<'a, Node<T>>);

impl<T> Deref for Seen<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0.what
    }
}

/// What somebody who looks for a thing in a queue says of one.
pub enum Look<P> {
    /// It is not the one.
    On,
    /// It is, and is taken.
    Take,
    /// It is, and stays; this is known of it.
    Leave(P),
}

/// Things in a row.
pub struct Queue<T> {
    nodes: List<Node<T>>,
    len: usize,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Queue<T> {
    /// None.
    pub const fn new() -> Self {
        Self {
            nodes: List::new(),
            len: 0,
        }
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The first.
    #[inline]
    pub fn first(&self) -> Option<Seen<'_, T>> {
        self.iter().next()
    }

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = Seen<'_, T>> {
        self.nodes.iter().map(Seen)
    }

    /// Puts it behind all others.
    #[inline]
    pub fn push(&mut self, own: Own<T>) {
        self.nodes.push_back(own.0.into());
        self.len += 1;
    }

    /// Puts it before all others.
    #[inline]
    pub fn push_first(&mut self, own: Own<T>) {
        self.nodes.push_front(own.0.into());
        self.len += 1;
    }

    /// Takes all of `others`, behind its own.
    pub fn append(&mut self, others: &mut Self) {
        while let Some(own) = others.pop() {
            self.push(own);
        }
    }

    /// Takes the first.
    #[inline]
    pub fn pop(&mut self) -> Option<Own<T>> {
        let node = self.nodes.pop_front()?;
        self.taken(node)
    }

    /// Takes the first that `fits`.
    #[inline]
    pub fn take(&mut self, mut fits: impl FnMut(&T) -> bool) -> Option<Own<T>> {
        let look = |what: &T| match fits(what) {
            true => Look::<()>::Take,
            false => Look::On,
        };
        self.find(look)?.ok()
    }

    /// Looks for one, in order: takes it, or has what is known of it.
    #[inline]
    pub fn find<P>(
        &mut self,
        mut look: impl FnMut(&T) -> Look<P>,
    ) -> Option<core::result::Result<Own<T>, P>> {
        let mut cursor = self.nodes.cursor_front();
        loop {
            let next = cursor.peek_next()?;
            match look(&next.what) {
                Look::On => {}
                Look::Take => {
                    let node = next.remove();
                    return self.taken(node).map(Ok);
                }
                Look::Leave(known) => return Some(Err(known)),
            }
            cursor.move_next();
        }
    }

    /// Takes all that `goes`, in order.
    pub fn take_all(&mut self, mut goes: impl FnMut(&T) -> bool) -> Self {
        self.take_changed(|what| goes(what))
    }

    /// The same, where `goes` may change what it looks at.
    pub fn take_changed(&mut self, mut goes: impl FnMut(&mut T) -> bool) -> Self {
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
    pub fn change(&mut self, mut change: impl FnMut(&mut T)) {
        let mut all = core::mem::take(self);
        while let Some(mut own) = all.pop() {
            change(&mut own);
            self.push(own);
        }
    }

    fn taken(&mut self, node: ListArc<Node<T>>) -> Option<Own<T>> {
        self.len -= 1;
        // Nobody else ever has a reference: what was pushed was owned.
        Arc::into_unique_or_drop(node.into_arc()).map(Own)
    }
}

#[kunit_tests(kofi_abi_nodes)]
mod tests {
    use super::*;

    fn of(numbers: &[u32]) -> Result<Queue<u32>> {
        let mut queue = Queue::new();
        for &number in numbers {
            queue.push(Own::new(number)?);
        }
        Ok(queue)
    }

    fn is(queue: &Queue<u32>, numbers: &[u32]) -> bool {
        queue.len() == numbers.len() && queue.iter().map(|seen| *seen).eq(numbers.iter().copied())
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
            queue.push_first(Own::new(wanted)?);
            assert!(queue.first().is_some_and(|first| *first == wanted));
        }
        assert!(Queue::<u32>::new().take(|_| true).is_none());
        Ok(())
    }

    #[test]
    fn who_finds_one_may_leave_it() -> Result {
        let mut queue = of(&[1, 2, 3])?;
        let mut seen = 0;
        let found = queue.find(|&number| {
            seen += 1;
            match number {
                1 => Look::On,
                number => Look::Leave(number * 10),
            }
        });
        assert!(matches!(found, Some(Err(20))) && seen == 2);
        assert!(is(&queue, &[1, 2, 3]));
        let found = queue.find(|&number| match number {
            3 => Look::<()>::Take,
            _ => Look::On,
        });
        assert!(matches!(found, Some(Ok(own)) if *own == 3));
        assert!(is(&queue, &[1, 2]));
        assert!(queue.find(|_| Look::<()>::On).is_none());
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
        let counted = Arc::new((), GFP_KERNEL)?;
        let mut queue = Queue::new();
        for _ in 0..3 {
            queue.push(Own::new(counted.clone())?);
        }
        drop(queue.pop());
        drop(queue);
        assert!(Arc::into_unique_or_drop(counted).is_some());
        Ok(())
    }
}
