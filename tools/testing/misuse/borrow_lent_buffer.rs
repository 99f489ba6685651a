// SPDX-License-Identifier: GPL-2.0

//! E0382: a buffer with remote access cannot be borrowed.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use kofi::{
    abi::Result,
    fi::{
        domain::Domain,
        memory::Buffer,
        msg::{
            RemoteAccess,
            RemoteBuffer, //
        },
    },
    util::context::ProcessContext, //
};

/// Copies the first byte of the buffer.
pub fn lend(here: ProcessContext, domain: &Arc<Domain>, buffer: KBox<Buffer>) -> Result<u8> {
    let lent = RemoteBuffer::new(here, domain, buffer, RemoteAccess::Write)?;
    let mut first = [0];
    lent.read(0, &mut first)?;
    #[cfg(misuse)]
    return Ok(buffer[0]);
    #[cfg(not(misuse))]
    Ok(first[0])
}
