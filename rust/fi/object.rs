// SPDX-License-Identifier: GPL-2.0

//! Who still needs an object: the count behind -FI_EBUSY.
//!
//! A child keeps its parent alive by reference, so no order of closing can crash. `fi_close()` has
//! to tell its caller more than that: it refuses while children exist, and from the moment it
//! agrees no new child may appear. [`ChildCount`] decides both with one atomic word.

use crate::abi::{
    Errno,
    Result, //
};
use core::ops::Deref;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed,
            Release, //
        },
        Arc, //
    },
};

/// The number of children of an object, or the mark that it has been closed.
pub struct ChildCount(Atomic<u64>);

const CLOSED: u64 = 1 << 63;

impl Default for ChildCount {
    fn default() -> Self {
        Self::new()
    }
}

impl ChildCount {
    /// No children yet.
    pub const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Counts a child in; -FI_EINVAL once the object is closed.
    fn enter(&self) -> Result {
        let mut seen = self.0.load(Relaxed);
        while seen & CLOSED == 0 {
            match self.0.cmpxchg(seen, seen + 1, Full) {
                Ok(_) => return Ok(()),
                Err(now) => seen = now,
            }
        }
        Err(Errno::EINVAL)
    }

    /// Counts a call in, which needs no reference of its own; -FI_EINVAL once the object is closed.
    pub fn busy(&self) -> Result<CallGuard<'_>> {
        self.enter()?;
        Ok(CallGuard(self))
    }

    fn leave(&self) {
        let _ = self.0.fetch_sub(1u64, Release);
    }

    /// Closes the object for good if it has no children, else -FI_EBUSY and nothing changes.
    pub fn retire(&self) -> Result {
        match self.0.cmpxchg(0, CLOSED, Full) {
            Ok(_) => Ok(()),
            Err(_) => Err(Errno::EBUSY),
        }
    }
}

/// A call during which the object cannot be closed.
pub struct CallGuard<'a>(&'a ChildCount);

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// An object that others may be children of.
pub trait Parent {
    /// Its count.
    fn users(&self) -> &ChildCount;
}

/// A counted reference from a child to its parent.
pub struct ChildRef<T: Parent + ?Sized>(Arc<T>);

impl<T: Parent + ?Sized> ChildRef<T> {
    /// Makes the caller a child of `parent`.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if the parent has been closed.
    pub fn new(parent: &Arc<T>) -> Result<Self> {
        parent.users().enter()?;
        Ok(Self(parent.clone()))
    }

    /// The parent by plain reference, which does not count as a child.
    pub fn arc(&self) -> &Arc<T> {
        &self.0
    }
}

impl<T: Parent + ?Sized> Deref for ChildRef<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Parent + ?Sized> Drop for ChildRef<T> {
    fn drop(&mut self) {
        self.0.users().leave();
    }
}

#[kunit_tests(kofi_fi_object)]
mod tests {
    use super::*;

    struct Thing(ChildCount);

    impl Parent for Thing {
        fn users(&self) -> &ChildCount {
            &self.0
        }
    }

    #[test]
    fn close_01_busy_while_a_child_lives() -> kernel::error::Result {
        let thing = Arc::new(Thing(ChildCount::new()), GFP_KERNEL)?;
        let child = ChildRef::new(&thing).map_err(|_| EINVAL)?;
        assert!(thing.0.retire().is_err());
        let call = thing.0.busy().map_err(|_| EINVAL)?;
        drop(child);
        assert!(thing.0.retire().is_err());
        drop(call);
        assert!(thing.0.retire().is_ok());
        assert!(ChildRef::new(&thing).is_err());
        assert!(thing.0.busy().is_err());
        assert!(thing.0.retire().is_err());
        Ok(())
    }
}
