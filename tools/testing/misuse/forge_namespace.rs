// SPDX-License-Identifier: GPL-2.0

//! E0624: a consumer cannot put a `struct net *` of its own making into an info.

use kernel::prelude::*;
use kofi::abi::{
    fi_fabric_attr,
    info::Info,
    Result, //
};

/// A consumer can set the names in the fabric attributes, but no pointers.
pub fn hints(name: &CStr) -> Result<KBox<Info>> {
    let mut hints = Info::new()?;
    let attr = fi_fabric_attr {
        net: core::ptr::without_provenance_mut(0x4141_4141_4140),
        ..pin_init::zeroed()
    };
    let _ = attr.api_version;
    #[cfg(misuse)]
    hints.set_fabric(&attr)?;
    hints.set_fabric_name(name)?;
    Ok(hints)
}
