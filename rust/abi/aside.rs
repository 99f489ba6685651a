// SPDX-License-Identifier: GPL-2.0

//! Code that the data path seldom needs.

/// Runs `f` out of line.
///
/// What `f` takes with it by `move` is put together only for this call. Without that, whatever the
/// rare way has a reference to would be in memory, not in registers, on the usual way too.
#[cold]
#[inline(never)]
pub fn aside<R>(f: impl FnOnce() -> R) -> R {
    f()
}
