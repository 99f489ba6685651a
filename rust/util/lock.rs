// SPDX-License-Identifier: GPL-2.0

//! A [`SpinLockIrq`](kernel::sync::SpinLockIrq) for the data path.
//!
//! This lock has less overhead: the kernel crate's lock counts how often a CPU's interrupts are disabled, and
//! asserts after each acquisition that it is held. A pair of lock and unlock takes 34 instructions here and 49
//! there (x86-64, without lockdep), and each post and each poll has one. Linux 7.2 lacks that lock. A guard here stores
//! the previous interrupt state, so guards on one CPU have to be dropped in the reverse order of their
//! acquisition.

use core::ptr;
use kernel::{
    bindings::{
        lock_class_key,
        spinlock_t, //
    },
    ffi::{
        c_char,
        c_ulong, //
    },
    sync::lock::{
        spinlock::SpinLockBackend,
        Backend,
        Guard,
        Lock, //
    },
};

/// A spinlock that is held with interrupts off.
pub(crate) type FastLockIrq<T> = Lock<T, Fast>;

/// A [`FastLockIrq`] that is held.
pub(crate) type FastLockIrqGuard<'a, T> = Guard<'a, T, Fast>;

/// Lock backend: `spin_lock_irqsave()` and its variants.
pub(crate) struct Fast;

mod ffi {
    use super::*;

    extern "C" {
        pub(super) fn kofi_lock(lock: *mut spinlock_t) -> c_ulong;
        pub(super) fn kofi_try_lock(lock: *mut spinlock_t, flags: *mut c_ulong) -> bool;
        pub(super) fn kofi_unlock(lock: *mut spinlock_t, flags: c_ulong);
        pub(super) fn kofi_pin_cpu();
        pub(super) fn kofi_unpin_cpu();
    }
}

// SAFETY: A spinlock excludes others, and the default way to lock again is the way to lock.
unsafe impl Backend for Fast {
    type State = spinlock_t;
    /// Previous interrupt state of the CPU.
    type GuardState = c_ulong;

    #[inline(always)]
    unsafe fn init(ptr: *mut Self::State, name: *const c_char, key: *mut lock_class_key) {
        // SAFETY: By this function's safety requirement.
        unsafe { SpinLockBackend::init(ptr, name, key) }
    }

    #[inline(always)]
    unsafe fn lock(ptr: *mut Self::State) -> Self::GuardState {
        // SAFETY: By this function's safety requirement this is an initialised lock.
        unsafe { ffi::kofi_lock(ptr) }
    }

    #[inline(always)]
    unsafe fn try_lock(ptr: *mut Self::State) -> Option<Self::GuardState> {
        let mut flags = 0;
        // SAFETY: By this function's safety requirement this is an initialised lock.
        unsafe { ffi::kofi_try_lock(ptr, &mut flags) }.then_some(flags)
    }

    #[inline(always)]
    unsafe fn unlock(ptr: *mut Self::State, state: &Self::GuardState) {
        // SAFETY: By this function's safety requirement the caller holds the lock.
        unsafe { ffi::kofi_unlock(ptr, *state) }
    }

    /// Does nothing without lockdep, also no call: each acquisition ends with this.
    #[inline(always)]
    unsafe fn assert_is_held(ptr: *mut Self::State) {
        if cfg!(CONFIG_LOCKDEP) {
            // SAFETY: By this function's safety requirement this is an initialised lock.
            unsafe { SpinLockBackend::assert_is_held(ptr) }
        }
    }
}

/// Warns if this CPU or task does not hold `lock`, as lockdep_assert_held() does; without CONFIG_LOCKDEP, does nothing.
///
/// For functions whose caller holds a lock, and that get neither its guard nor the data.
#[inline(always)]
pub(crate) fn assert_held<T: ?Sized, B: Backend>(lock: &Lock<T, B>) {
    if cfg!(CONFIG_LOCKDEP) {
        let state: *const B::State = core::ptr::from_ref(lock).cast();
        // SAFETY: A `Lock` is `repr(C)` and begins with its state, which its constructor has initialised.
        unsafe { B::assert_is_held(state.cast_mut()) }
    }
}

/// Releases the lock, runs `act` without preemption, and takes the lock again. Interrupts are enabled meanwhile, unless
/// the caller had disabled them.
#[inline(always)]
pub(crate) fn unlocked<T, R>(guard: &mut FastLockIrqGuard<'_, T>, act: impl FnOnce() -> R) -> R {
    let lock = guard.lock_ref();
    // SAFETY: Disables preemption until the call below.
    unsafe { ffi::kofi_pin_cpu() };
    // SAFETY: The guard is valid, and the write below replaces it before anything else uses it: `act` gets no
    // reference, and a panic does not return.
    drop(unsafe { ptr::read(guard) });
    let done = act();
    // SAFETY: The reference is valid, and the guard that it refers to has been dropped.
    unsafe { ptr::write(guard, lock.lock()) };
    // SAFETY: Preemption was disabled above.
    unsafe { ffi::kofi_unpin_cpu() };
    done
}
