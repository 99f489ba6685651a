// SPDX-License-Identifier: GPL-2.0

//! What is offered of datagrams, where the provider below offers connected endpoints.

pub(super) use super::super::common::hints::uses_shared_rx;
use super::{
    ep_state::TX_SHARE,
    iov::MAX_IOV,
    wire::EAGER, //
};
use crate::{
    abi::{
        fi_domain_attr,
        fi_ep_attr,
        fi_fabric_attr,
        fi_rx_attr,
        fi_tx_attr,
        flags::*,
        VERSION, //
    },
    fi::{
        info::{
            selects_caps,
            CORE_CAPS, //
        },
        prelude::*, //
    },
};

/// Version of this provider.
const PROVIDER_VERSION: u32 = 1;

/// Most receives of an endpoint at once.
pub(super) const MAX_RECVS: usize = 4096;

/// Most contexts that a scalable endpoint has to send with, and to receive with.
pub(super) const CONTEXTS: usize = 16;

const TRANSMIT_CAPS: u64 = FI_MSG
    | FI_TAGGED
    | FI_SEND
    | FI_RMA
    | FI_ATOMIC
    | FI_READ
    | FI_WRITE
    | FI_NAMED_RX_CTX
    | FI_COLLECTIVE;

const RECEIVE_CAPS: u64 = FI_MSG
    | FI_TAGGED
    | FI_RECV
    | FI_MULTI_RECV
    | FI_SOURCE
    | FI_SOURCE_ERR
    | FI_DIRECTED_RECV
    | FI_COLLECTIVE
    | FI_RMA
    | FI_ATOMIC
    | FI_REMOTE_READ
    | FI_REMOTE_WRITE;

/// What only the receives of one endpoint do: those that others share have no address vector, and the pieces
/// of a buffer would be different endpoints'; and transfers for a peer have a context beside the only one.
const OWN_CAPS: u64 = FI_MULTI_RECV | FI_DIRECTED_RECV | FI_COLLECTIVE;

/// What receives can do that endpoints share.
pub(super) const SHARED_CAPS: u64 = RECEIVE_CAPS & !OWN_CAPS;

/// Whom they reach: those whom the endpoints below reach.
const COMM_CAPS: u64 = FI_LOCAL_COMM | FI_REMOTE_COMM;

const CAPS: u64 = TRANSMIT_CAPS | RECEIVE_CAPS | COMM_CAPS | CORE_CAPS;

/// Size in bytes of remote CQ data of a message, which the packet carries.
const REMOTE_DATA_SIZE: usize = 8;

/// Returns the size in bytes of remote CQ data that all requested operations support.
///
/// A write goes to the connected endpoint below, and has the size that this endpoint supports.
fn remote_data_size(hints: Option<&Info>, lower: usize) -> usize {
    match selects_caps(hints, FI_RMA) {
        true => lower.min(REMOTE_DATA_SIZE),
        false => REMOTE_DATA_SIZE,
    }
}

/// What the provider below is asked for, in place of what `info` asks for here: whatever connected
/// endpoint there is in the same place. May sleep.
///
/// # Errors
///
/// -FI_ENOMEM.
pub(super) fn lower_hints(info: Option<&Info>) -> Result<KBox<Info>> {
    let mut hints = Info::new()?;
    hints.set_ep(&fi_ep_attr {
        type_: abi::FI_EP_MSG,
        ..pin_init::zeroed()
    })?;
    // Packets of a peer's are received however many there are, and so are its data.
    hints.set_mode(FI_RX_CQ_DATA);
    let Some(info) = info else {
        hints.set_domain(&fi_domain_attr {
            mr_mode: abi::FI_MR_VIRT_ADDR | abi::FI_MR_PROV_KEY,
            ..pin_init::zeroed()
        })?;
        return Ok(hints);
    };
    if info.caps() & (FI_RMA | FI_ATOMIC) != 0 {
        // What peers need to reach memory matters.
        hints.set_caps(FI_MSG | FI_RMA);
    }
    let (local, peer) = info.addresses()?;
    hints.set_addresses(info.addr_format(), local.as_ref(), peer.as_ref())?;
    let mr_mode = info.domain().map_or(0, |domain| domain.mr_mode);
    hints.set_domain(&fi_domain_attr {
        mr_mode,
        ..pin_init::zeroed()
    })?;
    if let Some(name) = info.domain_name() {
        hints.set_domain_name(name)?;
    }
    if let Some(name) = info.fabric_name() {
        hints.set_fabric_name(name)?;
    }
    Ok(hints)
}

/// Most bytes of a message, over the connected endpoints that `lower` offers.
pub(super) fn max_msg_size(lower: &Info) -> usize {
    lower.ep().map_or(EAGER, |ep| ep.max_msg_size)
}

/// What there is of datagrams over the connected endpoints that `lower` offers, by the provider's `name`, with
/// as many contexts as `hints` ask for, if there can be as many. May sleep.
///
/// # Errors
///
/// -FI_ENOMEM.
pub(super) fn from_lower(
    lower: &Info,
    hints: Option<&Info>,
    name: &'static CStr,
) -> Result<KBox<Info>> {
    let mut info = lower.duplicate()?;
    let is_shared = hints.is_some_and(uses_shared_rx);
    let shares_transmits = hints.is_some_and(shares_transmits);
    let missing = hints.map_or(0, missing);
    let of_domain = lower.caps() & (COMM_CAPS | CORE_CAPS);
    info.set_caps((TRANSMIT_CAPS | RECEIVE_CAPS) & !missing | of_domain);
    info.set_mode(0);
    *info.tx_mut()? = transmits();
    info.tx_mut()?.caps &= !(missing & FI_COLLECTIVE);
    *info.rx_mut()? = fi_rx_attr {
        caps: RECEIVE_CAPS & !missing,
        op_flags: FI_COMPLETION,
        msg_order: abi::FI_ORDER_SAS,
        size: MAX_RECVS,
        iov_limit: MAX_IOV,
        ..pin_init::zeroed()
    };
    let asked = |count: fn(&fi_ep_attr) -> usize| {
        let asked = hints.and_then(Info::ep).map_or(0, count);
        asked.clamp(1, CONTEXTS)
    };
    info.set_ep(&fi_ep_attr {
        type_: abi::FI_EP_RDM,
        protocol: abi::FI_PROTO_RXM,
        protocol_version: 1,
        max_msg_size: max_msg_size(lower),
        // Contexts of a scalable endpoint have packets and receives of their own.
        tx_ctx_cnt: match (shares_transmits, is_shared) {
            (true, _) => abi::FI_SHARED_CONTEXT,
            (false, true) => 1,
            (false, false) => asked(|ep| ep.tx_ctx_cnt),
        },
        rx_ctx_cnt: match (is_shared, shares_transmits) {
            (true, _) => abi::FI_SHARED_CONTEXT,
            (false, true) => 1,
            (false, false) => asked(|ep| ep.rx_ctx_cnt),
        },
        ..pin_init::zeroed()
    })?;
    if let Some(domain) = lower.domain().copied() {
        info.set_domain(&fi_domain_attr {
            cq_data_size: remote_data_size(hints, domain.cq_data_size),
            max_ep_tx_ctx: CONTEXTS,
            max_ep_rx_ctx: CONTEXTS,
            max_ep_stx_ctx: 1,
            max_ep_srx_ctx: 1,
            ..domain
        })?;
    }
    info.set_fabric(&fi_fabric_attr {
        prov_version: PROVIDER_VERSION,
        api_version: VERSION,
        ..pin_init::zeroed()
    })?;
    if let Some(name) = lower.domain_name() {
        info.set_domain_name(name)?;
    }
    if let Some(name) = lower.fabric_name() {
        info.set_fabric_name(name)?;
    }
    info.set_provider_name(name)?;
    Ok(info)
}

/// The side of an endpoint that sends, and what endpoints share to send with.
pub(super) fn transmits() -> fi_tx_attr {
    fi_tx_attr {
        caps: TRANSMIT_CAPS,
        op_flags: FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE,
        msg_order: abi::FI_ORDER_SAS,
        inject_size: EAGER,
        size: TX_SHARE,
        iov_limit: MAX_IOV,
        rma_iov_limit: 1,
        ..pin_init::zeroed()
    }
}

/// Whether an endpoint of an info is to share with others what it sends with.
pub(super) fn shares_transmits(info: &Info) -> bool {
    info.ep()
        .is_some_and(|ep| ep.tx_ctx_cnt == abi::FI_SHARED_CONTEXT)
}

/// Whether peers on the same host are to be reached without what is between hosts.
pub(super) fn is_local(info: &Info) -> bool {
    info.caps() & COMM_CAPS != FI_REMOTE_COMM
}

/// How many contexts an info asks for to send with, and to receive with, one that is shared included; none
/// if there are not as many.
pub(super) fn contexts(info: &Info) -> Option<[usize; 2]> {
    let count = |asked: usize| (asked <= CONTEXTS).then_some(asked.max(1));
    let ep = info.ep()?;
    let one_if = |is_shared, asked| match is_shared {
        true => Some(1),
        false => count(asked),
    };
    Some([
        one_if(shares_transmits(info), ep.tx_ctx_cnt)?,
        one_if(uses_shared_rx(info), ep.rx_ctx_cnt)?,
    ])
}

/// Whether an endpoint of an info has a context for a peer's transfers, beside the only one of its own.
pub(super) fn is_collective(info: &Info) -> bool {
    info.caps() & FI_COLLECTIVE != 0
}

/// What an endpoint of an info does not have.
fn missing(info: &Info) -> u64 {
    match contexts(info) {
        _ if uses_shared_rx(info) => OWN_CAPS,
        Some([1, 1]) if !shares_transmits(info) => 0,
        _ => FI_COLLECTIVE,
    }
}

/// Whether an endpoint can be made of an info, which its consumer may have changed.
///
/// # Errors
///
/// -FI_EINVAL for another kind of endpoint, or capabilities that were not offered.
pub(super) fn check(info: &Info) -> Result {
    let kind = info.ep().map(|ep| ep.type_);
    let missing = missing(info);
    if kind != Some(abi::FI_EP_RDM) || info.caps() & (!CAPS | missing) != 0 {
        return Err(Errno::EINVAL);
    }
    Ok(())
}
