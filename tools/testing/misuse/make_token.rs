// SPDX-License-Identifier: GPL-2.0

//! E0423: nobody makes the token that allows to sleep but those who know.

use kernel::types::NotThreadSafe;
use kofi::abi::{
    context::{
        in_process,
        InProcess, //
    },
    Result, //
};

/// Who does not know asks.
pub fn assume() -> Result<InProcess> {
    let _ = NotThreadSafe;
    #[cfg(misuse)]
    return Ok(InProcess(NotThreadSafe));
    #[cfg(not(misuse))]
    in_process()
}
