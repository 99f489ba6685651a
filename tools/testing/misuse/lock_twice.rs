// SPDX-License-Identifier: GPL-2.0

//! E0603: the lock that data calls of a serialized domain do without is the crate's own.

#[cfg(misuse)]
use kofi::abi::serial::SerialLock;

/// What two guards at a time would be of.
#[cfg(misuse)]
pub type Data = SerialLock<u32>;
