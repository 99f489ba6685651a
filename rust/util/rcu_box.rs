// SPDX-License-Identifier: GPL-2.0

//! A box that readers use in RCU read sections, without a lock, and that is replaced with a wait for a grace period.
//! The kernel crate has no such type yet.

use super::once::load_acquire;
use crate::prelude::*;
use kernel::sync::rcu;

mod ffi {
    extern "C" {
        pub(super) fn kofi_synchronize_rcu_expedited();
    }
}

/// An optional box, which RCU read sections can access.
///
/// # Invariants
///
/// The pointer is null, or that of a box that this object owns. Only [`Self::replace`] changes it, and returns the old
/// box after the end of all read sections that may use that box.
pub(crate) struct RcuBox<T>(Atomic<*mut T>, PhantomData<KBox<T>>);

// SAFETY: It owns what a `KBox<T>` owns.
unsafe impl<T: Send> Send for RcuBox<T> {}

// SAFETY: A shared reference gives access to `&T`, and lets any thread move boxes in and out.
unsafe impl<T: Send + Sync> Sync for RcuBox<T> {}

impl<T> RcuBox<T> {
    /// Returns an empty box.
    pub(crate) const fn new() -> Self {
        // INVARIANT: Null.
        Self(Atomic::new(ptr::null_mut()), PhantomData)
    }

    /// Returns whether there is no value. Any context.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        load_acquire(&self.0).is_null()
    }

    /// Returns the value, for the read section of `_reader`. Any context.
    #[inline(always)]
    pub(crate) fn get<'a>(&'a self, _reader: &'a rcu::Guard) -> Option<&'a T> {
        // SAFETY: By the invariant the value lives until the read section has ended.
        unsafe { load_acquire(&self.0).as_ref() }
    }

    /// Replaces the value. Returns the old one when no read section uses it any more. May sleep.
    pub(crate) fn replace(&self, value: Option<KBox<T>>) -> Option<KBox<T>> {
        let new = value.map_or(ptr::null_mut(), KBox::into_raw);
        let old = self.0.xchg(new, Full);
        if old.is_null() {
            return None;
        }
        // Expedited, because the close of an endpoint waits for the grace period.
        // SAFETY: The function may be called in any context that may sleep, as this one requires.
        unsafe { ffi::kofi_synchronize_rcu_expedited() };
        // SAFETY: By the invariant it came from `into_raw`; each read section that began before the exchange has ended.
        Some(unsafe { KBox::from_raw(old) })
    }
}

impl<T> Drop for RcuBox<T> {
    fn drop(&mut self) {
        let raw = *self.0.get_mut();
        if !raw.is_null() {
            // SAFETY: By the invariant. No read section has the value, because each borrows `self`.
            drop(unsafe { KBox::from_raw(raw) });
        }
    }
}

#[kunit_tests(kofi_rcu_box)]
mod tests {
    use super::*;

    #[test]
    fn replaced_value_is_returned() -> Result {
        let rcu_box = RcuBox::new();
        assert!(rcu_box.is_empty());
        assert!(rcu_box.get(&rcu::read_lock()).is_none());
        assert!(rcu_box.replace(Some(KBox::new(1, GFP_KERNEL)?)).is_none());
        assert_eq!(rcu_box.get(&rcu::read_lock()), Some(&1));
        let old = rcu_box.replace(Some(KBox::new(2, GFP_KERNEL)?));
        assert_eq!(old.as_deref(), Some(&1));
        assert_eq!(rcu_box.replace(None).as_deref(), Some(&2));
        assert!(rcu_box.is_empty());
        Ok(())
    }
}
