// SPDX-License-Identifier: GPL-2.0

//! E0423: a consumer cannot construct the token that permits sleeping.

use kernel::types::NotThreadSafe;
use kofi::{
    abi::Result,
    util::context::{
        in_process,
        ProcessContext, //
    },
};

/// Requests the token, which the crate grants in process context only.
pub fn assume() -> Result<ProcessContext> {
    let _ = NotThreadSafe;
    #[cfg(misuse)]
    return Ok(ProcessContext(NotThreadSafe));
    #[cfg(not(misuse))]
    in_process()
}
