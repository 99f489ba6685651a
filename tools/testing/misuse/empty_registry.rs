// SPDX-License-Identifier: GPL-2.0

//! E0603: a consumer cannot change the crate's list of named objects.

/// Empties the list of objects that all consumers have named.
pub fn forget_all() {
    #[cfg(misuse)]
    kofi::util::registry::with_list(|entries| entries.clear());
}
