// SPDX-License-Identifier: GPL-2.0

//! E0603: the lock that data calls of a serialized domain skip is private to the crate.

#[cfg(misuse)]
use kofi::util::biased_lock::BiasedLock;

/// Data that two guards could lock at the same time.
#[cfg(misuse)]
pub type Data = BiasedLock<u32>;
