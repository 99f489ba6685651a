// SPDX-License-Identifier: GPL-2.0

//! E0382: memory whose remote access has ended has no remote key.

use kernel::prelude::*;
use kofi::{
    fi::{
        memory::Buffer,
        msg::RemoteBuffer, //
    },
    util::context::ProcessContext, //
};

/// Reads the key before the remote access ends.
pub fn take(here: ProcessContext, lent: RemoteBuffer) -> (KBox<Buffer>, u64) {
    let key = lent.remote().key;
    let buffer = lent.take_back(here);
    #[cfg(misuse)]
    let key = lent.remote().key;
    (buffer, key)
}
