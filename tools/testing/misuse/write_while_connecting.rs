// SPDX-License-Identifier: GPL-2.0

//! E0599: an endpoint cannot access remote memory while it is connecting.

use kernel::prelude::*;
use kofi::{
    abi::Result,
    fi::{
        eq::Event,
        memory::Buffer,
        msg::{
            Connecting,
            Endpoint,
            RemoteMemory, //
        },
    },
};

/// Converts the endpoint with the event of the established connection, and writes.
pub fn put(
    endpoint: Endpoint<Connecting>,
    event: &Event,
    buffer: KBox<Buffer>,
    to: RemoteMemory,
) -> Result {
    #[cfg(not(misuse))]
    let endpoint = endpoint.connected(event)?;
    let _ = event;
    endpoint.write(buffer, 8, to)?;
    Ok(())
}
