// SPDX-License-Identifier: GPL-2.0

//! Helpers that keep rare code out of the data path.

/// Keeps a branch that contains this call from being turned into branchless code.
#[cold]
#[inline(always)]
pub(crate) fn cold_hint() {}

/// Runs `f` out of line.
///
/// Values that `f` captures by `move` are built only for this call. Without that, each value that the rare
/// branch refers to would be in memory instead of registers on the common branch too.
#[cold]
#[inline(never)]
pub(crate) fn call_cold<R>(f: impl FnOnce() -> R) -> R {
    f()
}
