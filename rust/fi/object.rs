// SPDX-License-Identifier: GPL-2.0

//! The count of an object's children, which makes `fi_close()` return -FI_EBUSY.
//!
//! A child holds a reference to its parent, so that no order of closing can crash. In addition, `fi_close()`
//! fails while children exist, and no child can be added after it has succeeded. [`ChildCount`] ensures both
//! with one atomic word.

use super::introspect::ObjectEntry;
use crate::fi::prelude::*;

/// The number of children of an object, or the mark that the object is closed.
pub struct ChildCount(Atomic<u64>);

const CLOSED: u64 = 1 << 63;

impl Default for ChildCount {
    fn default() -> Self {
        Self::new()
    }
}

impl ChildCount {
    /// Returns a count of 0.
    pub const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Adds a child; -FI_EINVAL once the object is closed.
    fn add_child(&self) -> Result {
        let mut seen = self.0.load(Relaxed);
        while seen & CLOSED == 0 {
            match self.0.cmpxchg(seen, seen + 1, Full) {
                Ok(_) => return Ok(()),
                Err(now) => seen = now,
            }
        }
        Err(Errno::EINVAL)
    }

    /// Keeps the object from being closed during a call; -FI_EINVAL once the object is closed.
    pub fn begin_call(&self) -> Result<CallGuard<'_>> {
        self.add_child()?;
        Ok(CallGuard(self))
    }

    fn remove_child(&self) {
        let _ = self.0.fetch_sub(1u64, Release);
    }

    /// Marks the object as closed; -FI_EBUSY, without any effect, while it has children.
    pub fn try_close(&self) -> Result {
        Errno::EBUSY.when(self.0.cmpxchg(0, CLOSED, Full).is_err())
    }

    /// Marks the object as closed and removes its `entry` from the object table; -FI_EBUSY, without any
    /// effect, while it has children.
    pub(super) fn close(&self, entry: &ObjectEntry) -> Result {
        self.try_close()?;
        entry.remove();
        Ok(())
    }
}

/// A running call, during which the object cannot be closed.
pub struct CallGuard<'a>(&'a ChildCount);

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.0.remove_child();
    }
}

/// An object that can have children.
pub trait Parent {
    /// Returns the count of children.
    fn users(&self) -> &ChildCount;
}

/// A parent with an entry in the object table, which the entries of its children name.
pub(super) trait Listed: Parent {
    /// Returns the entry.
    fn entry(&self) -> &ObjectEntry;
}

/// Implements [`Parent`] by the field `users` and, given the path of a field, [`Listed`] by that entry.
macro_rules! impl_parent {
    ($object:ty $(, $($entry:ident).+)?) => {
        impl $crate::fi::object::Parent for $object {
            fn users(&self) -> &ChildCount {
                &self.users
            }
        }

        $(impl $crate::fi::object::Listed for $object {
            fn entry(&self) -> &$crate::fi::introspect::ObjectEntry {
                &self.$($entry).+
            }
        })?
    };
}

pub(super) use impl_parent;

/// Declares methods of a parent that open a child: each passes a counted reference on the parent, and then the
/// given arguments, to the function of the child's type.
macro_rules! impl_open {
    ($($(#[$doc:meta])* $vis:vis fn $method:ident($($name:ident: $type:ty),*)
        -> $child:ident::$open:ident($($argument:expr),*);)*) => {
        $($(#[$doc])*
        $vis fn $method(self: &Arc<Self>, $($name: $type),*) -> Result<Arc<$child>> {
            let _scope = $crate::util::noio::NoIo::enter();
            $child::$open(ChildRef::new(self)?, $($argument),*)
        })*
    };
}

pub(super) use impl_open;

/// Allocates a shared `value`. May sleep.
///
/// # Errors
///
/// -FI_ENOMEM.
#[inline]
pub(crate) fn new_arc<T>(value: T) -> Result<Arc<T>> {
    Ok(Arc::new(value, GFP_KERNEL)?)
}

/// Allocates a shared value, which `init` initialises in place. May sleep.
///
/// # Errors
///
/// -FI_ENOMEM, and the error of `init`.
#[inline]
pub(crate) fn pin_arc<T, E>(init: impl PinInit<T, E>) -> Result<Arc<T>>
where
    kernel::error::Error: From<E>,
{
    Ok(Arc::pin_init(init, GFP_KERNEL)?)
}

/// A counted reference from a child to its parent.
pub struct ChildRef<T: Parent + ?Sized>(Arc<T>);

impl<T: Parent + ?Sized> ChildRef<T> {
    /// Adds a child to `parent`.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if the parent has been closed.
    pub fn new(parent: &Arc<T>) -> Result<Self> {
        parent.users().add_child()?;
        Ok(Self(parent.clone()))
    }

    /// Returns a second counted reference; -FI_EINVAL if the parent has been closed.
    pub(crate) fn try_clone(&self) -> Result<Self> {
        Self::new(&self.0)
    }

    /// Returns the parent as a plain reference, which does not count as a child.
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
        self.0.users().remove_child();
    }
}

#[kunit_tests(kofi_fi_object)]
mod tests {
    use super::*;

    struct TestParent(ChildCount);

    impl Parent for TestParent {
        fn users(&self) -> &ChildCount {
            &self.0
        }
    }

    #[test]
    fn close_01_close_fails_while_a_child_or_call_exists() -> kernel::error::Result {
        let parent = Arc::new(TestParent(ChildCount::new()), GFP_KERNEL)?;
        let child = ChildRef::new(&parent).map_err(|_| EINVAL)?;
        assert!(parent.0.try_close().is_err());
        let call = parent.0.begin_call().map_err(|_| EINVAL)?;
        drop(child);
        assert!(parent.0.try_close().is_err());
        drop(call);
        assert!(parent.0.try_close().is_ok());
        assert!(ChildRef::new(&parent).is_err());
        assert!(parent.0.begin_call().is_err());
        assert!(parent.0.try_close().is_err());
        Ok(())
    }
}
