// SPDX-License-Identifier: GPL-2.0

//! E0382: a buffer that is being sent to a peer cannot be changed.

use kernel::prelude::*;
use kofi::{
    abi::Result,
    fi::{
        av::Peer,
        memory::Buffer,
        rdm::Endpoint, //
    },
};

/// Changes the buffer before it is sent.
pub fn send(endpoint: &Endpoint, to: &Peer, mut buffer: KBox<Buffer>) -> Result {
    buffer[0] = 1;
    endpoint.send_tagged(to, 1, buffer, 8)?;
    #[cfg(misuse)]
    {
        buffer[0] = 2;
    }
    Ok(())
}
