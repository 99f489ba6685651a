// SPDX-License-Identifier: GPL-2.0

//! What C has in READ_ONCE().

use kernel::sync::atomic::{
    Atomic,
    AtomicType, //
};

/// Reads an atomic that orders nothing else: `load(Relaxed)` without the call of a C function that
/// it costs on the data path.
#[inline(always)]
pub fn read_once<T: AtomicType + Copy>(atomic: &Atomic<T>) -> T {
    // SAFETY: The pointer is aligned and valid. A volatile access of an atomic type's size is what
    // READ_ONCE() is, which the kernel's memory model has for such reads.
    unsafe { atomic.as_ptr().read_volatile() }
}
