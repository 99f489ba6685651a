// SPDX-License-Identifier: GPL-2.0

//! A downcast of `Arc<dyn Any>`, which the kernel crate's `Arc` lacks.

use crate::prelude::*;
use core::any::Any;

/// Returns the reference as `Arc<T>` if it refers to a `T`.
pub(crate) fn downcast<T: Any + Send + Sync>(any: Arc<dyn Any + Send + Sync>) -> Option<Arc<T>> {
    if !(*any).is::<T>() {
        return None;
    }
    let raw = Arc::into_raw(any).cast::<T>();
    // SAFETY: It comes from `into_raw`, and refers to a `T`.
    Some(unsafe { Arc::from_raw(raw) })
}

#[kunit_tests(kofi_downcast)]
mod tests {
    use super::*;
    use kernel::error::Result;

    #[test]
    fn downcast_succeeds_for_the_stored_type_only() -> Result {
        let number = Arc::new(7u32, GFP_KERNEL)?;
        assert!(downcast::<u64>(number.clone()).is_none());
        let same = downcast::<u32>(number.clone());
        assert!(same.is_some_and(|same| Arc::ptr_eq(&same, &number)));
        // No reference is left.
        assert!(Arc::into_unique_or_drop(number).is_some());
        Ok(())
    }
}
