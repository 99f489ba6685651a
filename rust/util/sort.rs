// SPDX-License-Identifier: GPL-2.0

//! Sorts a slice in place with the kernel's heap sort, which takes no memory beside the slice.
//!
//! `core`'s sorts keep a scratch buffer of up to 4 KiB on the stack.

use core::cmp::Ordering;
use kernel::prelude::*;

mod ffi {
    use kernel::prelude::*;

    extern "C" {
        pub(super) fn sort_r(
            base: *mut c_void,
            num: usize,
            size: usize,
            cmp: unsafe extern "C" fn(*const c_void, *const c_void, *const c_void) -> c_int,
            swap: *const c_void,
            data: *const c_void,
        );
    }
}

/// Sorts `items` by the key that `key` returns for each. Items with equal keys may change their order.
///
/// Context: any; takes O(n log n) steps, and O(n) when the items are in order.
pub(crate) fn sort_by_key<T, K: Ord, F: Fn(&T) -> K>(items: &mut [T], key: F) {
    if items.is_sorted_by_key(&key) {
        return;
    }
    let data = core::ptr::from_ref(&key).cast();
    // SAFETY: `items` has `items.len()` elements of `size_of::<T>()` bytes, which `compare` takes. Without a swap
    // function, `sort_r()` swaps the bytes of two elements, which moves both.
    unsafe {
        ffi::sort_r(
            items.as_mut_ptr().cast(),
            items.len(),
            size_of::<T>(),
            compare::<T, K, F>,
            core::ptr::null(),
            data,
        )
    };
}

/// # Safety
///
/// `a` and `b` point to valid values of type `T`, and `key` to a valid `F`.
unsafe extern "C" fn compare<T, K: Ord, F: Fn(&T) -> K>(
    a: *const c_void,
    b: *const c_void,
    key: *const c_void,
) -> c_int {
    // SAFETY: By this function's contract.
    let (a, b, key) = unsafe { (&*a.cast::<T>(), &*b.cast::<T>(), &*key.cast::<F>()) };
    match key(a).cmp(&key(b)) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }
}

#[kunit_tests(kofi_sort)]
mod tests {
    use super::*;

    #[test]
    fn sort_by_key_sorts_items_of_any_size() {
        let mut pairs = [
            (5u64, 0u64, 1u8),
            (2, 1, 2),
            (9, 2, 3),
            (2, 3, 4),
            (0, 4, 5),
        ];
        sort_by_key(&mut pairs, |pair| pair.0);
        assert_eq!(pairs.map(|pair| pair.0), [0, 2, 2, 5, 9]);
        assert_eq!(pairs.map(|pair| pair.2).iter().sum::<u8>(), 15);
        let mut bytes = [3u8, 1, 2];
        sort_by_key(&mut bytes, |byte| core::cmp::Reverse(*byte));
        assert_eq!(bytes, [3, 2, 1]);
    }

    #[test]
    fn sort_by_key_keeps_empty_and_sorted_slices() {
        let mut empty: [u32; 0] = [];
        sort_by_key(&mut empty, |item| *item);
        let mut sorted = [1u32, 2, 2, 3];
        sort_by_key(&mut sorted, |item| *item);
        assert_eq!(sorted, [1, 2, 2, 3]);
    }
}
