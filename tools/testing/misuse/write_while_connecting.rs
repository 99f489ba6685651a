// SPDX-License-Identifier: GPL-2.0

//! E0599: an endpoint that has asked to connect reaches no memory yet.

use kernel::prelude::*;
use kofi::{
    abi::Result,
    fi::{
        eq::Event,
        memory::Buffer,
        msg::{
            Connecting,
            Endpoint,
            Remote, //
        },
    },
};

/// The event makes it one that does.
pub fn put(
    endpoint: Endpoint<Connecting>,
    event: &Event,
    buffer: KBox<Buffer>,
    to: Remote,
) -> Result {
    #[cfg(not(misuse))]
    let endpoint = endpoint.connected(event)?;
    let _ = event;
    endpoint.write(buffer, 8, to)?;
    Ok(())
}
