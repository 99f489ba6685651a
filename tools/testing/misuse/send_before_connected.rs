// SPDX-License-Identifier: GPL-2.0

//! E0599: an endpoint cannot send before it is connected.

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

/// Posts a receive, which an idle endpoint accepts.
pub fn post(endpoint: &Endpoint<Idle>, buffer: KBox<Buffer>) -> Result {
    #[cfg(misuse)]
    endpoint.send(buffer, 8)?;
    #[cfg(not(misuse))]
    endpoint.receive(buffer)?;
    Ok(())
}
