// SPDX-License-Identifier: GPL-2.0

//! What C has in READ_ONCE(), smp_load_acquire() and smp_store_release(): accesses of atomics without
//! the call of a C function that each costs on the data path.

use core::sync::atomic::{
    fence,
    Ordering, //
};
use kernel::sync::atomic::{
    Atomic,
    AtomicType, //
};

/// Reads an atomic that orders nothing else: `load(Relaxed)`.
#[inline(always)]
pub fn read_once<T: AtomicType + Copy>(atomic: &Atomic<T>) -> T {
    // SAFETY: The pointer is aligned and valid. A volatile access of an atomic type's size is what
    // READ_ONCE() is, which the kernel's memory model has for such reads.
    unsafe { atomic.as_ptr().read_volatile() }
}

/// Reads an atomic before whatever this CPU does next: `load(Acquire)`.
#[inline(always)]
pub fn load_acquire<T: AtomicType + Copy>(atomic: &Atomic<T>) -> T {
    let value = read_once(atomic);
    // No instruction where loads stay in order.
    fence(Ordering::Acquire);
    value
}

/// Writes an atomic behind everything that this CPU has done: `store(Release)`.
#[inline(always)]
pub fn store_release<T: AtomicType + Copy>(atomic: &Atomic<T>, value: T) {
    // No instruction where stores stay in order.
    fence(Ordering::Release);
    // SAFETY: As in `read_once`, for WRITE_ONCE().
    unsafe { atomic.as_ptr().write_volatile(value) };
}
