// SPDX-License-Identifier: GPL-2.0

//! Numbers that nobody can guess.

/// A random number. Any context.
pub fn random() -> u64 {
    // SAFETY: It may be called at any time.
    unsafe { kernel::bindings::get_random_u64() }
}
