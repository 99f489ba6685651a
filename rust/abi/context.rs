// SPDX-License-Identifier: GPL-2.0

//! Where the caller is: may it sleep, has it been told to stop.

use super::{
    Errno,
    Result, //
};

mod ffi {

    extern "C" {
        pub(super) fn kofi_may_sleep() -> bool;
        pub(super) fn kofi_should_stop() -> bool;
        pub(super) fn kofi_warn_atomic();
        pub(super) fn kofi_flush_handlers();
    }
}

/// Refuses a blocking call in atomic context: -FI_EOPBADSTATE, and one warning in the log.
pub fn check_may_sleep() -> Result {
    // SAFETY: Reads the state of the running context.
    if unsafe { ffi::kofi_may_sleep() } {
        return Ok(());
    }
    // SAFETY: Writes to the log.
    unsafe { ffi::kofi_warn_atomic() };
    Err(Errno::EOPBADSTATE)
}

/// Whether the running thread is a kthread that was told to stop.
pub fn kthread_should_stop() -> bool {
    // SAFETY: Reads the state of the running thread, of whatever kind.
    unsafe { ffi::kofi_should_stop() }
}

/// Waits until no handler of an event queue is queued or running. May sleep.
pub fn flush_handlers() {
    // SAFETY: Waits, and touches nothing.
    unsafe { ffi::kofi_flush_handlers() };
}
