// SPDX-License-Identifier: GPL-2.0

//! E0382: what is posted is not freed.

use kernel::prelude::*;
use kofi::{
    abi::Result,
    fi::{
        memory::Buffer,
        msg::Endpoint, //
    },
};

/// Its completion gives it back.
pub fn receive(endpoint: &Endpoint, buffer: KBox<Buffer>) -> Result {
    endpoint.receive(buffer)?;
    #[cfg(misuse)]
    drop(buffer);
    Ok(())
}
