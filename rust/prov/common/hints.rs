// SPDX-License-Identifier: GPL-2.0

//! Hints and addresses of a query, for the verbs and loop providers.

use crate::{
    abi::{
        addr::{
            format_of,
            from_names, //
        },
        flags::*,
        info::InfoList,
        FI_SOCKADDR, //
    },
    fi::{
        info::Query,
        prelude::*, //
    },
    rdma::net::{
        Net,
        SockAddr, //
    },
};

/// Takes a reference on the network namespace that the consumer specified.
pub(crate) fn net_from_namespace(net: &Namespace) -> Net {
    Net::new(net.as_raw())
}

/// Returns the local and the peer's address of a query, from its strings or its hints.
///
/// # Errors
///
/// -FI_ENODATA for names, which would need a resolver; -FI_EINVAL for hints whose addresses cannot be read.
pub(crate) fn query_addrs(query: &Query<'_>) -> Result<(Option<SockAddr>, Option<SockAddr>)> {
    let addrs = query.hints.map(Info::addresses).transpose()?;
    let (local, peer) = addrs.unwrap_or_default();
    let (local, peer) = (local.map(SockAddr::from), peer.map(SockAddr::from));
    if query.node.is_none() && query.service.is_none() {
        return Ok((local, peer));
    }
    let named = from_names(query.node, query.service).map_err(|_| Errno::ENODATA)?;
    let named = Some(SockAddr::from(named));
    Ok(match query.source {
        true => (named, peer),
        false => (local, named),
    })
}

/// Appends an info with these addresses to the answer of a query. May sleep.
///
/// # Errors
///
/// -FI_ENOMEM.
pub(crate) fn push_with_addrs(
    found: &mut InfoList,
    mut info: KBox<Info>,
    local: Option<SockAddr>,
    peer: Option<SockAddr>,
) -> Result {
    let (local, peer) = (local.map(SocketAddr::from), peer.map(SocketAddr::from));
    let known = peer.as_ref().or(local.as_ref());
    let format = known.map_or(FI_SOCKADDR, format_of);
    info.set_addresses(format, local.as_ref(), peer.as_ref())?;
    Ok(found.push(info, GFP_KERNEL)?)
}

/// Returns whether an info asks for a shared receive context.
pub(crate) fn uses_shared_rx(info: &Info) -> bool {
    info.ep()
        .is_some_and(|ep| ep.rx_ctx_cnt == abi::FI_SHARED_CONTEXT)
}

/// Hints of a query, or info of a listener, as far as they select an offer.
#[derive(Clone, Copy)]
pub(crate) struct Hints {
    /// Requested capabilities; 0 requests all.
    pub(crate) caps: u64,
    /// Requested primary capabilities; 0 requests all.
    pub(crate) primary: u64,
    /// Mode bits that the consumer supports.
    mode: u64,
    /// Modes of memory registration that the consumer supports; 0 for those that are always offered.
    pub(crate) mr_mode: c_int,
    /// Transmits must complete in the order in which they were posted.
    pub(crate) wants_comp_order: bool,
    /// Endpoints use a shared receive context.
    pub(crate) wants_shared_rx: bool,
}

impl Hints {
    /// Reads `hints`. Without hints all capabilities are requested and all modes supported.
    pub(crate) fn from_info(hints: Option<&Info>) -> Self {
        let caps = hints.map_or(0, Info::caps);
        let rx_mode = |hints: &Info| hints.rx().map_or(0, |rx| rx.mode);
        let has_order = |hints: &Info| hints.tx().is_some_and(|tx| tx.comp_order != 0);
        Self {
            caps,
            primary: caps & PRIMARY_CAPS.mask(),
            mode: hints.map_or(u64::MAX, |hints| hints.mode() | rx_mode(hints)),
            mr_mode: hints
                .and_then(Info::domain)
                .map_or(0, |domain| domain.mr_mode),
            wants_comp_order: hints.is_some_and(has_order),
            wants_shared_rx: hints.is_some_and(uses_shared_rx),
        }
    }

    /// Returns the size of remote CQ data to offer, of the `there` bytes that the device has, and the mode bit
    /// that goes with it.
    ///
    /// Remote CQ data of a write consumes a posted receive of the target, as immediate data does on the wire:
    /// RMA and data are offered together only to a consumer whose mode has FI_RX_CQ_DATA.
    pub(crate) fn remote_cq_data(&self, there: usize) -> (usize, u64) {
        if there == 0 {
            (0, 0)
        } else if self.primary != 0 && self.primary & FI_RMA == 0 {
            (there, 0)
        } else if self.mode & FI_RX_CQ_DATA == 0 {
            (0, 0)
        } else {
            (there, FI_RX_CQ_DATA)
        }
    }
}
