// SPDX-License-Identifier: GPL-2.0

//! Wait objects, as queues are asked for them.

use crate::abi::{
    self,
    fi_wait_obj,
    Errno,
    Result, //
};
use kernel::prelude::*;

/// Whether a queue that is opened with this wait object may be waited for.
///
/// # Errors
///
/// -FI_ENOSYS for those that need file descriptors or are not there yet, -FI_EINVAL for others.
pub(super) fn is_waitable(wait: fi_wait_obj) -> Result<bool> {
    match wait {
        abi::FI_WAIT_NONE => Ok(false),
        abi::FI_WAIT_UNSPEC | abi::FI_WAIT_YIELD => Ok(true),
        abi::FI_WAIT_SET
        | abi::FI_WAIT_QUEUE
        | abi::FI_WAIT_FD
        | abi::FI_WAIT_MUTEX_COND
        | abi::FI_WAIT_POLLFD => Err(Errno::ENOSYS),
        _ => Err(Errno::EINVAL),
    }
}

/// `fi_control()` of a queue.
///
/// # Safety
///
/// `arg` is NULL or what `command` demands.
pub(super) unsafe fn control(waitable: bool, command: c_int, arg: *mut c_void) -> Result {
    match u32::try_from(command) {
        Ok(abi::FI_GETWAIT) if !waitable => Err(Errno::ENODATA),
        Ok(abi::FI_GETWAITOBJ) => {
            let wait = if waitable {
                abi::FI_WAIT_UNSPEC
            } else {
                abi::FI_WAIT_NONE
            };
            // SAFETY: By this function's safety requirement.
            let out = unsafe { arg.cast::<fi_wait_obj>().as_mut() };
            *out.ok_or(Errno::EINVAL)? = wait;
            Ok(())
        }
        _ => Err(Errno::ENOSYS),
    }
}
