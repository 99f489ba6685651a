// SPDX-License-Identifier: GPL-2.0

//! E0382: a posted buffer cannot be changed.

use kernel::prelude::*;
use kofi::{
    abi::Result,
    fi::{
        memory::Buffer,
        msg::Endpoint, //
    },
};

/// Changes the buffer before it is posted.
pub fn send(endpoint: &Endpoint, mut buffer: KBox<Buffer>) -> Result {
    buffer[0] = 1;
    endpoint.send(buffer, 8)?;
    #[cfg(misuse)]
    {
        buffer[0] = 2;
    }
    Ok(())
}
