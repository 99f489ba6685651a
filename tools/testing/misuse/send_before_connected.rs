// SPDX-License-Identifier: GPL-2.0

//! E0599: an endpoint that is not connected has nothing to send with.

use kernel::prelude::*;
use kofi::{
    abi::Result,
    fi::{
        memory::Buffer,
        msg::{
            Endpoint,
            Idle, //
        },
    },
};

/// Only receives can be posted there.
pub fn post(endpoint: &Endpoint<Idle>, buffer: KBox<Buffer>) -> Result {
    #[cfg(misuse)]
    endpoint.send(buffer, 8)?;
    #[cfg(not(misuse))]
    endpoint.receive(buffer)?;
    Ok(())
}
