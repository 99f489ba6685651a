// SPDX-License-Identifier: GPL-2.0

//! E0382: an address cannot be used after its removal.

use kofi::{
    abi::Result,
    fi::{
        av::Peer,
        av_set::AddressSet, //
    },
    util::context::ProcessContext, //
};

/// Uses the address before its removal.
pub fn add(here: ProcessContext, set: &AddressSet, peer: Peer) -> Result {
    set.add(here, &peer)?;
    peer.remove(here)?;
    #[cfg(misuse)]
    set.add(here, &peer)?;
    Ok(())
}
