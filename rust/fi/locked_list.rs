// SPDX-License-Identifier: GPL-2.0

//! A short list that is walked in any context and grows where it may sleep.
//!
//! A spinlock guards the list and is held while the list is walked. New memory is allocated before the lock
//! is taken.

use crate::fi::prelude::*;
use kernel::sync::LockClassKey;

/// A list under a spinlock.
#[pin_data]
pub(super) struct LockedList<T> {
    #[pin]
    list: FastLockIrq<KVec<T>>,
    /// Number of items, read without the lock to find the list empty.
    len: Atomic<usize>,
}

impl<T> LockedList<T> {
    /// Returns an empty list. `class` is the lockdep class of its lock.
    pub(super) fn new(
        name: &'static CStr,
        class: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            list <- FastLockIrq::new(KVec::new(), name, class),
            len: Atomic::new(0),
        })
    }

    /// Appends an item. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn add(&self, item: T) -> Result {
        // Freed after the lock is released: declared before the guard.
        let mut spare = KVec::new();
        loop {
            let mut list = self.list.lock();
            let wanted = list.len() + 1;
            if list.capacity() < wanted && spare.capacity() >= wanted {
                move_into_larger(&mut list, &mut spare);
            }
            if list.capacity() >= wanted {
                let _ = list.push_within_capacity(item);
                self.len.store(wanted, Release);
                return Ok(());
            }
            drop(list);
            spare = KVec::with_capacity(wanted, GFP_KERNEL)?;
        }
    }

    /// Removes the first item for which `which` holds. Any context.
    pub(super) fn remove_first(&self, which: impl FnMut(&T) -> bool) -> Option<T> {
        let mut list = self.list.lock();
        let at = list.iter().position(which)?;
        let taken = list.remove(at).ok();
        self.len.store(list.len(), Release);
        taken
    }

    /// Calls `change` for the items in order, until it returns `Some`, and returns that. Any context.
    pub(super) fn find_map<R>(&self, change: impl FnMut(&mut T) -> Option<R>) -> Option<R> {
        self.list.lock().iter_mut().find_map(change)
    }

    /// Returns true if the list is empty. Any context.
    pub(super) fn is_empty(&self) -> bool {
        self.len.load(Acquire) == 0
    }

    /// Calls `visit` for the items in order. Any context.
    pub(super) fn for_each(&self, visit: impl FnMut(&T)) {
        if !self.is_empty() {
            self.list.lock().iter().for_each(visit);
        }
    }
}

/// Moves a list into the larger memory of an empty one, which gets the smaller memory.
pub(super) fn move_into_larger<T>(list: &mut KVec<T>, spare: &mut KVec<T>) {
    for item in list.drain_all() {
        // The capacity suffices: the caller has checked.
        let _ = spare.push_within_capacity(item);
    }
    core::mem::swap(list, spare);
}

#[kunit_tests(kofi_fi_locked_list)]
mod tests {
    use super::*;
    use kernel::sync::static_lock_class;

    fn new_list() -> kernel::error::Result<Pin<KBox<LockedList<u32>>>> {
        KBox::pin_init(
            LockedList::new(c"kofi::LockedList", static_lock_class!()),
            GFP_KERNEL,
        )
    }

    fn digits(list: &LockedList<u32>) -> u32 {
        let mut digits = 0;
        list.for_each(|item| digits = digits * 10 + item);
        digits
    }

    #[test]
    fn add_and_remove_preserve_order() -> kernel::error::Result {
        let list = new_list()?;
        assert_eq!(digits(&list), 0);
        for item in 1..=5 {
            assert!(list.add(item).is_ok());
        }
        assert_eq!(digits(&list), 12345);
        assert_eq!(list.remove_first(|item| *item == 3), Some(3));
        assert_eq!(list.remove_first(|item| *item == 3), None);
        assert_eq!(digits(&list), 1245);
        assert!(list.add(6).is_ok());
        assert_eq!(digits(&list), 12456);
        Ok(())
    }

    #[test]
    fn find_map_can_modify_the_first_match() -> kernel::error::Result {
        let list = new_list()?;
        for item in [1, 2, 2] {
            assert!(list.add(item).is_ok());
        }
        let replace_two = |item: &mut u32| {
            if *item != 2 {
                return None;
            }
            *item = 7;
            Some(*item)
        };
        assert_eq!(list.find_map(replace_two), Some(7));
        assert_eq!(digits(&list), 172);
        assert_eq!(list.find_map(|item| (*item == 9).then_some(())), None);
        Ok(())
    }
}
