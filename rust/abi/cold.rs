// SPDX-License-Identifier: GPL-2.0

//! Code that the data path seldom needs.

/// Keeps the branch that calls this one, where a few computations would do as well.
#[cold]
#[inline(always)]
pub(crate) fn apart() {}

/// Runs `f` out of line.
///
/// What `f` takes with it by `move` is put together only for this call. Without that, whatever the
/// rare way has a reference to would be in memory, not in registers, on the usual way too.
#[cold]
#[inline(never)]
pub(crate) fn aside<R>(f: impl FnOnce() -> R) -> R {
    f()
}
