// SPDX-License-Identifier: GPL-2.0

//! E0382: memory that has been taken back is lent no more.

use kernel::prelude::*;
use kofi::{
    abi::context::InProcess,
    fi::{
        memory::Buffer,
        msg::Lent, //
    },
};

/// Nobody is told of it any more.
pub fn take(here: InProcess, lent: Lent) -> (KBox<Buffer>, u64) {
    let key = lent.remote().key;
    let buffer = lent.take_back(here);
    #[cfg(misuse)]
    let key = lent.remote().key;
    (buffer, key)
}
