// SPDX-License-Identifier: GPL-2.0

//! E0382: a posted buffer cannot be freed.

use kernel::prelude::*;
use kofi::{
    abi::Result,
    fi::{
        memory::Buffer,
        msg::Endpoint, //
    },
};

/// Posts the buffer, which the completion returns.
pub fn receive(endpoint: &Endpoint, buffer: KBox<Buffer>) -> Result {
    endpoint.receive(buffer)?;
    #[cfg(misuse)]
    drop(buffer);
    Ok(())
}
