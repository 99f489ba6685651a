// SPDX-License-Identifier: GPL-2.0

//! READ_ONCE(), WRITE_ONCE(), smp_load_acquire() and smp_store_release() for atomics, without the call of a C
//! function; and a box that is set once and read in this way.
//!
//! [`Atomic`]'s own loads and stores call a helper of the kernel unless it is configured with
//! RUST_INLINE_HELPERS. Each call takes 5 instructions more (x86-64), which is 40 for a post and as many for a
//! completion. Code off the data path uses [`Atomic`]'s own.

use crate::prelude::*;
use core::sync::atomic::{
    fence,
    Ordering, //
};
use kernel::sync::atomic::AtomicType;

/// Reads an atomic without ordering: `load(Relaxed)`.
#[inline(always)]
pub(crate) fn read_once<T: AtomicType + Copy>(atomic: &Atomic<T>) -> T {
    // SAFETY: The pointer is aligned and valid. A volatile access of an atomic type's size is what
    // READ_ONCE() is, which the kernel's memory model has for such reads.
    unsafe { atomic.as_ptr().read_volatile() }
}

/// Writes an atomic without ordering: `store(Relaxed)`.
#[inline(always)]
pub(crate) fn write_once<T: AtomicType + Copy>(atomic: &Atomic<T>, value: T) {
    // SAFETY: As in `read_once`, for WRITE_ONCE().
    unsafe { atomic.as_ptr().write_volatile(value) };
}

/// Reads an atomic before all later accesses of this CPU: `load(Acquire)`.
#[inline(always)]
pub(crate) fn load_acquire<T: AtomicType + Copy>(atomic: &Atomic<T>) -> T {
    let value = read_once(atomic);
    // Emits no instruction on a CPU that keeps loads in order.
    fence(Ordering::Acquire);
    value
}

/// Writes an atomic after all earlier accesses of this CPU: `store(Release)`.
#[inline(always)]
pub(crate) fn store_release<T: AtomicType + Copy>(atomic: &Atomic<T>, value: T) {
    // Emits no instruction on a CPU that keeps stores in order.
    fence(Ordering::Release);
    write_once(atomic, value);
}

/// Orders earlier reads before later ones: smp_rmb().
#[inline(always)]
pub(crate) fn read_barrier() {
    fence(Ordering::Acquire);
}

/// Orders earlier writes before later ones: smp_wmb().
#[inline(always)]
pub(crate) fn write_barrier() {
    fence(Ordering::Release);
}

/// A box that is set at most once, for the data path and for large arrays of boxes.
///
/// Other code uses the kernel crate's `SetOnce`, of which each read calls a C function, and which has no
/// `get_or_try_init`.
///
/// # Invariants
///
/// The pointer is null, or that of a box that this object owns; once it is not null it does not change.
pub(crate) struct OnceBox<T>(Atomic<*mut T>, PhantomData<KBox<T>>);

// SAFETY: It owns what a `KBox<T>` owns.
unsafe impl<T: Send> Send for OnceBox<T> {}

// SAFETY: A shared one gives shared references, and accepts a box from any thread.
unsafe impl<T: Send + Sync> Sync for OnceBox<T> {}

impl<T> Default for OnceBox<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> OnceBox<T> {
    /// Makes an empty box.
    pub(crate) const fn new() -> Self {
        // INVARIANT: Null.
        Self(Atomic::new(ptr::null_mut()), PhantomData)
    }

    /// Returns the value, if it is set. Any context.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: By the invariant; it is freed with `self` alone.
        unsafe { load_acquire(&self.0).as_ref() }
    }

    /// Returns the value, which `make` makes if it is not set yet. If two callers make a value at the same time,
    /// both get the one that is set first.
    ///
    /// # Errors
    ///
    /// The error of `make`.
    pub(crate) fn get_or_try_init(&self, make: impl FnOnce() -> Result<KBox<T>>) -> Result<&T> {
        match self.get() {
            Some(value) => Ok(value),
            None => Ok(match self.try_insert(make()?) {
                Ok(ours) => ours,
                Err(theirs) => theirs,
            }),
        }
    }

    /// Sets the value; false if it is set already.
    pub(crate) fn set(&self, value: KBox<T>) -> bool {
        self.try_insert(value).is_ok()
    }

    /// Sets the value, or returns the existing one as an error.
    fn try_insert(&self, value: KBox<T>) -> core::result::Result<&T, &T> {
        let made = KBox::into_raw(value);
        match self.0.cmpxchg(ptr::null_mut(), made, Full) {
            // INVARIANT: `self` has taken the box over.
            // SAFETY: By the invariant.
            Ok(_) => Ok(unsafe { &*made }),
            Err(_) => {
                // SAFETY: It came from `into_raw` just now, and was not taken over.
                drop(unsafe { KBox::from_raw(made) });
                // A failed cmpxchg orders nothing: read the box after an acquire.
                // SAFETY: By the invariant; it was not null.
                Err(unsafe { &*load_acquire(&self.0) })
            }
        }
    }
}

impl<T> Drop for OnceBox<T> {
    fn drop(&mut self) {
        let raw = *self.0.get_mut();
        if !raw.is_null() {
            // SAFETY: By the invariant.
            drop(unsafe { KBox::from_raw(raw) });
        }
    }
}
