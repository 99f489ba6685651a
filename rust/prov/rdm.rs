// SPDX-License-Identifier: GPL-2.0

//! Reliable datagrams: one endpoint, any number of peers, over the connected endpoints of another
//! provider, as user-space libfabric's `ofi_rxm` does it.

mod bounce;
mod cq;
mod credits;
mod flights;
mod link;
mod matching;
mod segments;
mod wire;
