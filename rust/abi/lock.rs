// SPDX-License-Identifier: GPL-2.0

//! [`SpinLockIrq`](kernel::sync::SpinLockIrq) for the data path.
//!
//! The same lock, but for lockdep's assertion that it is held, which the kernel crate's makes
//! whenever it has been taken: a call of a C function for each post and each poll, with or without
//! lockdep.

use kernel::{
    bindings::lock_class_key,
    ffi::c_char,
    sync::lock::{
        spinlock::SpinLockIrqBackend,
        Backend,
        Guard,
        Lock, //
    }, //
};

/// A spinlock that is held with interrupts off.
pub type FastLockIrq<T> = Lock<T, Fast>;

/// A [`FastLockIrq`] that is held.
pub type FastLockIrqGuard<'a, T> = Guard<'a, T, Fast>;

/// The kernel crate's `SpinLockIrq`, without an assertion that says nothing new.
pub struct Fast;

// SAFETY: All of it is `SpinLockIrqBackend`'s, which excludes others and locks again as it locked.
unsafe impl Backend for Fast {
    type State = <SpinLockIrqBackend as Backend>::State;
    type GuardState = <SpinLockIrqBackend as Backend>::GuardState;

    #[inline(always)]
    unsafe fn init(ptr: *mut Self::State, name: *const c_char, key: *mut lock_class_key) {
        // SAFETY: As the caller promises.
        unsafe { SpinLockIrqBackend::init(ptr, name, key) }
    }

    #[inline(always)]
    unsafe fn lock(ptr: *mut Self::State) -> Self::GuardState {
        // SAFETY: As the caller promises.
        unsafe { SpinLockIrqBackend::lock(ptr) }
    }

    #[inline(always)]
    unsafe fn try_lock(ptr: *mut Self::State) -> Option<Self::GuardState> {
        // SAFETY: As the caller promises.
        unsafe { SpinLockIrqBackend::try_lock(ptr) }
    }

    #[inline(always)]
    unsafe fn unlock(ptr: *mut Self::State, state: &Self::GuardState) {
        // SAFETY: As the caller promises.
        unsafe { SpinLockIrqBackend::unlock(ptr, state) }
    }

    #[inline(always)]
    unsafe fn assert_is_held(_ptr: *mut Self::State) {}
}
