// SPDX-License-Identifier: GPL-2.0

//! E0382: an address that has been removed is not used.

use kofi::{
    abi::{
        context::InProcess,
        Result, //
    },
    fi::{
        av::Peer,
        av_set::AddressSet, //
    },
};

/// Before that it may be.
pub fn add(here: InProcess, set: &AddressSet, peer: Peer) -> Result {
    set.add(here, &peer)?;
    peer.remove(here)?;
    #[cfg(misuse)]
    set.add(here, &peer)?;
    Ok(())
}
