// SPDX-License-Identifier: GPL-2.0

//! The `fi_info` of datagram endpoints, derived from the infos of the lower provider.

pub(super) use super::super::common::hints::uses_shared_rx;
use super::{
    super::common::rma_cursor::RMA_IOV_LIMIT,
    flags::COMPLETION_LEVELS,
    iov::{
        IovLimits,
        MAX_IOV, //
    },
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
            size_within,
            CORE_CAPS, //
        },
        prelude::*, //
    },
};

/// Version of the provider.
const PROVIDER_VERSION: u32 = 1;

/// Largest number of posted receives of a context.
pub(super) const MAX_RECVS: usize = 16_384;

/// Number of posted receives of a context whose info names none.
pub(super) const DEFAULT_RECVS: usize = 256;

/// Number of transmits to one peer that can be in progress, if an info names none.
pub(super) const TX_SIZE: usize = 64;

/// Largest number of transmits to one peer that can be in progress.
pub(super) const MAX_TX_SIZE: usize = 1024;

/// Largest number of segments of an operation, and of remote ranges of a read or write.
pub(super) const IOV_LIMIT: usize = RMA_IOV_LIMIT;

/// Largest number of transmit contexts, and of receive contexts, of a scalable endpoint.
pub(super) const CONTEXTS: usize = 64;

const TRANSMIT_CAPS: u64 = FI_MSG
    | FI_TAGGED
    | FI_SEND
    | FI_RMA
    | FI_ATOMIC
    | FI_READ
    | FI_WRITE
    | FI_NAMED_RX_CTX
    | FI_TAGGED_RMA
    | FI_COLLECTIVE;

const RECEIVE_CAPS: u64 = FI_MSG
    | FI_TAGGED
    | FI_RECV
    | FI_MULTI_RECV
    | FI_SOURCE
    | FI_SOURCE_ERR
    | FI_DIRECTED_RECV
    | FI_TAGGED_RMA
    | FI_COLLECTIVE
    | FI_RMA
    | FI_ATOMIC
    | FI_REMOTE_READ
    | FI_REMOTE_WRITE;

/// Capabilities that need receives of the endpoint's own. An SRX has no address vector, the pieces of a multi-receive
/// buffer would belong to different endpoints, the memory of a shared receive would be readable through endpoints that
/// permit no access, and peer transfers need a second context.
const OWN_CAPS: u64 = FI_MULTI_RECV | FI_DIRECTED_RECV | FI_TAGGED_RMA | FI_COLLECTIVE;

/// Capabilities of a shared receive context.
pub(super) const SHARED_CAPS: u64 = RECEIVE_CAPS & !OWN_CAPS;

/// Capabilities that name the reachable peers: those of the lower provider.
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

/// Returns the hints for the lower provider that correspond to `info`: any connected endpoint on the same addresses,
/// domain and fabric. May sleep.
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
    // The lower endpoint may take a receive for remote CQ data.
    hints.set_mode(FI_RX_CQ_DATA);
    let Some(info) = info else {
        hints.set_domain(&fi_domain_attr {
            mr_mode: abi::FI_MR_VIRT_ADDR | abi::FI_MR_PROV_KEY,
            ..pin_init::zeroed()
        })?;
        return Ok(hints);
    };
    if info.caps() & (FI_RMA | FI_ATOMIC) != 0 {
        // The memory registration mode matters for remote access.
        hints.set_caps(FI_MSG | FI_RMA);
    }
    let (local, peer) = info.addresses()?;
    hints.set_addresses(info.addr_format(), local.as_ref(), peer.as_ref())?;
    let mr_mode = info.domain().map_or(0, |domain| domain.mr_mode);
    hints.set_domain(&fi_domain_attr {
        // Regions of datagram endpoints are those of the domain.
        mr_mode: mr_mode & !abi::FI_MR_ENDPOINT,
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

/// Returns the largest message size in bytes over the lower provider's `lower`.
pub(super) fn max_msg_size(lower: &Info) -> usize {
    lower.ep().map_or(EAGER, |ep| ep.max_msg_size)
}

/// Returns the datagram info `name` over the connected endpoints of `lower`, with as many contexts, segments and remote
/// ranges as `hints` ask for, up to the limits. May sleep.
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
    let wanted_tx = hints.and_then(Info::tx);
    let iov_limit = |wanted: usize| wanted.clamp(MAX_IOV, IOV_LIMIT);
    *info.tx_mut()? = fi_tx_attr {
        iov_limit: iov_limit(wanted_tx.map_or(0, |tx| tx.iov_limit)),
        rma_iov_limit: wanted_tx
            .map_or(0, |tx| tx.rma_iov_limit)
            .clamp(1, IOV_LIMIT),
        size: wanted_tx
            .map_or(0, |tx| tx.size)
            .clamp(TX_SIZE, MAX_TX_SIZE),
        ..transmits()
    };
    info.tx_mut()?.caps &= !(missing & FI_COLLECTIVE);
    if selects_caps(hints, FI_RMA) {
        // Reads and writes have the completion levels of the lower endpoint.
        let levels = lower.tx().map_or(0, |tx| tx.op_flags & COMPLETION_LEVELS);
        info.tx_mut()?.op_flags &= !COMPLETION_LEVELS | levels;
    }
    *info.rx_mut()? = fi_rx_attr {
        caps: RECEIVE_CAPS & !missing,
        op_flags: FI_COMPLETION,
        msg_order: abi::FI_ORDER_SAS,
        size: MAX_RECVS,
        iov_limit: iov_limit(hints.and_then(Info::rx).map_or(0, |rx| rx.iov_limit)),
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
        // Contexts of a scalable endpoint have transmit buffers and receives of their own.
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

/// Returns the transmit attributes of endpoints and shared transmit contexts.
pub(super) fn transmits() -> fi_tx_attr {
    fi_tx_attr {
        caps: TRANSMIT_CAPS,
        op_flags: FI_COMPLETION | FI_INJECT | COMPLETION_LEVELS,
        msg_order: abi::FI_ORDER_SAS,
        inject_size: EAGER,
        size: TX_SIZE,
        iov_limit: MAX_IOV,
        rma_iov_limit: 1,
        ..pin_init::zeroed()
    }
}

/// Numbers of transmit buffers in the pool of an endpoint.
#[derive(Clone, Copy)]
pub(super) struct PoolSize {
    /// Number of its own buffers, half of which one peer may hold.
    pub(super) own: usize,
    /// Largest number that the pool may have later: a context of a scalable endpoint may ask for more, and a shared
    /// transmit context for its own.
    pub(super) most: usize,
}

impl PoolSize {
    /// Returns the numbers that an info asks for; `can_grow` permits more later. A size of 0 stands for the default.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for more than [`MAX_TX_SIZE`] operations to one peer.
    pub(super) fn of(info: &Info, can_grow: bool) -> Result<Self> {
        let size = size_within(info.tx().map_or(0, |tx| tx.size), MAX_TX_SIZE, TX_SIZE)?;
        let most = match can_grow {
            true => MAX_TX_SIZE,
            false => size,
        };
        Ok(Self {
            own: 2 * size,
            most: 2 * most,
        })
    }
}

/// Returns the limits of the vectors of a transmit. A limit of 0 stands for the default.
///
/// # Errors
///
/// -FI_EINVAL for more than the largest limits.
pub(super) fn tx_iov_limits((segments, ranges): (usize, usize)) -> Result<IovLimits> {
    Ok(IovLimits {
        segments: size_within(segments, IOV_LIMIT, MAX_IOV)?.max(MAX_IOV),
        ranges: size_within(ranges, IOV_LIMIT, 1)?,
    })
}

/// Returns the limits of the vectors of an endpoint's transmits.
///
/// # Errors
///
/// Errors of [`tx_iov_limits`].
pub(super) fn tx_iov_limits_of(info: &Info) -> Result<IovLimits> {
    tx_iov_limits(
        info.tx()
            .map_or((0, 0), |tx| (tx.iov_limit, tx.rma_iov_limit)),
    )
}

/// Returns the maximum number of segments of a receive. A limit of 0 stands for the default.
///
/// # Errors
///
/// -FI_EINVAL for more than the largest limit.
pub(super) fn rx_iov_limit(segments: usize) -> Result<usize> {
    size_within(segments, IOV_LIMIT, MAX_IOV)
}

/// Returns whether an endpoint uses a shared transmit context.
pub(super) fn shares_transmits(info: &Info) -> bool {
    info.ep()
        .is_some_and(|ep| ep.tx_ctx_cnt == abi::FI_SHARED_CONTEXT)
}

/// Returns whether peers on the same host are reached through the loop provider.
pub(super) fn is_local(info: &Info) -> bool {
    info.caps() & COMM_CAPS != FI_REMOTE_COMM
}

/// Returns the number of transmit and receive contexts that an info asks for, counting a shared context as one;
/// `None` if there are too many.
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

/// Returns whether an endpoint has a second context for peer transfers.
pub(super) fn is_collective(info: &Info) -> bool {
    info.caps() & FI_COLLECTIVE != 0
}

/// Returns the capabilities that an endpoint of this info does not have.
fn missing(info: &Info) -> u64 {
    match contexts(info) {
        _ if uses_shared_rx(info) => OWN_CAPS,
        Some([1, 1]) if !shares_transmits(info) => 0,
        _ => FI_COLLECTIVE,
    }
}

/// Checks an info that the consumer may have changed.
///
/// # Errors
///
/// -FI_EINVAL for another endpoint type, or for capabilities that are not available.
pub(super) fn check(info: &Info) -> Result {
    let kind = info.ep().map(|ep| ep.type_);
    let missing = missing(info);
    if kind != Some(abi::FI_EP_RDM) || info.caps() & (!CAPS | missing) != 0 {
        return Err(Errno::EINVAL);
    }
    Ok(())
}
