// SPDX-License-Identifier: GPL-2.0

//! Messages in the kernel's log: of what is wrong and no return value or event tells.
//!
//! Each begins with the device that it is about, and goes on with the endpoint, which has the number of
//! its queue pair. A peer, or a broken device, may be the reason of any number of them: the log has few.

use kernel::{
    fmt::{
        self,
        Display, //
    },
    prelude::*, //
};

extern "C" {
    fn kofi_may_say() -> bool;
}

/// Says what is wrong with, or about, a device. Any context.
#[cold]
#[inline(never)]
pub(crate) fn complain(device: &dyn Display, what: fmt::Arguments<'_>) {
    // SAFETY: Counts under a lock of its own, in any context.
    if unsafe { kofi_may_say() } {
        pr_warn!("{device}: {what}\n");
    }
}
