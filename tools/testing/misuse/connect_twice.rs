// SPDX-License-Identifier: GPL-2.0

//! E0382: an endpoint connects only once.

use kofi::{
    abi::Result,
    fi::msg::{
        Endpoint,
        Idle, //
    },
    util::context::ProcessContext, //
};

/// Consumes the idle endpoint and returns one of another type.
pub fn connect(here: ProcessContext, endpoint: Endpoint<Idle>) -> Result {
    let _asked = endpoint.connect(here, b"once")?;
    #[cfg(misuse)]
    endpoint.connect(here, b"twice")?;
    Ok(())
}
