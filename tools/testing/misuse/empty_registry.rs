// SPDX-License-Identifier: GPL-2.0

//! E0603: the crate's list of named objects is not a consumer's to change.

/// Forgets what all consumers have named.
pub fn forget_all() {
    #[cfg(misuse)]
    kofi::abi::registry::with(|entries| entries.clear());
}
