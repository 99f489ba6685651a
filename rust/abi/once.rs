// SPDX-License-Identifier: GPL-2.0

//! What C has in READ_ONCE(), WRITE_ONCE(), smp_load_acquire() and smp_store_release(): accesses of
//! atomics without the call of a C function that each costs on the data path; and a box that is made once
//! and read so.

use super::Result;
use core::{
    marker::PhantomData,
    ptr,
    sync::atomic::{
        fence,
        Ordering, //
    }, //
};
use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        AtomicType,
        Full, //
    },
};

/// Reads an atomic that orders nothing else: `load(Relaxed)`.
#[inline(always)]
pub(crate) fn read_once<T: AtomicType + Copy>(atomic: &Atomic<T>) -> T {
    // SAFETY: The pointer is aligned and valid. A volatile access of an atomic type's size is what
    // READ_ONCE() is, which the kernel's memory model has for such reads.
    unsafe { atomic.as_ptr().read_volatile() }
}

/// Writes an atomic that orders nothing else: `store(Relaxed)`.
#[inline(always)]
pub(crate) fn write_once<T: AtomicType + Copy>(atomic: &Atomic<T>, value: T) {
    // SAFETY: As in `read_once`, for WRITE_ONCE().
    unsafe { atomic.as_ptr().write_volatile(value) };
}

/// Reads an atomic before whatever this CPU does next: `load(Acquire)`.
#[inline(always)]
pub(crate) fn load_acquire<T: AtomicType + Copy>(atomic: &Atomic<T>) -> T {
    let value = read_once(atomic);
    // No instruction where loads stay in order.
    fence(Ordering::Acquire);
    value
}

/// Writes an atomic behind everything that this CPU has done: `store(Release)`.
#[inline(always)]
pub(crate) fn store_release<T: AtomicType + Copy>(atomic: &Atomic<T>, value: T) {
    // No instruction where stores stay in order.
    fence(Ordering::Release);
    write_once(atomic, value);
}

/// What is read after this has not been read before: smp_rmb().
#[inline(always)]
pub(crate) fn read_barrier() {
    fence(Ordering::Acquire);
}

/// What is written after this is not seen before what was written before it: smp_wmb().
#[inline(always)]
pub(crate) fn write_barrier() {
    fence(Ordering::Release);
}

/// Room for a box that is filled at most once. The kernel crate's `SetOnce` is twice as large, and each
/// look into it calls a C function.
///
/// # Invariants
///
/// The pointer is null, or a box's that nobody else owns; once it is not null it stays.
pub(crate) struct OnceBox<T>(Atomic<*mut T>, PhantomData<KBox<T>>);

// SAFETY: It owns what a `KBox<T>` owns.
unsafe impl<T: Send> Send for OnceBox<T> {}

// SAFETY: A shared one gives shared references, and takes a box of any thread's.
unsafe impl<T: Send + Sync> Sync for OnceBox<T> {}

impl<T> Default for OnceBox<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> OnceBox<T> {
    /// Empty.
    pub(crate) const fn new() -> Self {
        // INVARIANT: Null.
        Self(Atomic::new(ptr::null_mut()), PhantomData)
    }

    /// What is in it. Any context.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: By the invariant; it is freed with `self` alone.
        unsafe { load_acquire(&self.0).as_ref() }
    }

    /// What is in it, made if there is nothing yet. Who makes at the same time as another takes the
    /// other's.
    ///
    /// # Errors
    ///
    /// What `make` says.
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> Result<KBox<T>>) -> Result<&T> {
        match self.get() {
            Some(value) => Ok(value),
            None => Ok(match self.place(make()?) {
                Ok(ours) => ours,
                Err(theirs) => theirs,
            }),
        }
    }

    /// Puts that into it; false if there is something.
    pub(crate) fn fill(&self, value: KBox<T>) -> bool {
        self.place(value).is_ok()
    }

    /// The same: what is in it from now on, or has been before.
    fn place(&self, value: KBox<T>) -> core::result::Result<&T, &T> {
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
        let raw = read_once(&self.0);
        if !raw.is_null() {
            // SAFETY: By the invariant.
            drop(unsafe { KBox::from_raw(raw) });
        }
    }
}
