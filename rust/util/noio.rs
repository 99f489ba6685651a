// SPDX-License-Identifier: GPL-2.0

//! Scopes in which memory is allocated without starting I/O, for calls that memory reclaim may wait for.

use kernel::{
    ffi::c_uint,
    types::NotThreadSafe, //
};

mod ffi {
    use super::c_uint;

    extern "C" {
        pub(super) fn kofi_noio_save() -> c_uint;
        pub(super) fn kofi_noio_restore(flags: c_uint);
    }
}

/// A scope of the running task: until the value is dropped, its allocations behave as with GFP_NOIO, those of
/// the RDMA core and of drivers included. Scopes nest.
#[must_use = "the scope ends when the value is dropped"]
pub(crate) struct NoIo {
    flags: c_uint,
    _task: NotThreadSafe,
}

impl NoIo {
    /// Begins the scope. Any context, but has no effect in an interrupt, where allocations do not sleep.
    // Not inline, like the end: only this module may call the C functions.
    #[inline(never)]
    pub(crate) fn enter() -> Self {
        Self {
            // SAFETY: Changes a flag of the running task.
            flags: unsafe { ffi::kofi_noio_save() },
            _task: NotThreadSafe,
        }
    }
}

impl Drop for NoIo {
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: By `_task` this is the task that began the scope, and the flags come from its beginning.
        unsafe { ffi::kofi_noio_restore(self.flags) };
    }
}
