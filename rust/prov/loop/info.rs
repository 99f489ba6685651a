// SPDX-License-Identifier: GPL-2.0

//! Attributes that `fi_getinfo()` returns.

use super::{
    super::common::{
        flags::COMPLETION_LEVELS,
        hints::{
            uses_shared_rx,
            Hints, //
        },
        iov::MAX_IOV,
        msg_info::MsgInfo,
        rma_cursor::{
            RMA_IOV_LIMIT,
            RMA_RANGE_LIMIT, //
        }, //
    },
    op,
    prelude::*, //
};
use crate::{
    abi::flags::*,
    fi::{
        info::{
            size_within,
            CORE_CAPS, //
        },
        tclass, //
    },
};

/// The `prov_name`, and the name of the only fabric and the only domain.
pub(super) const NAME: &CStr = c"loop";

/// Version of this provider.
const PROVIDER_VERSION: u32 = 1;

/// Capabilities of operations that the endpoint starts.
const TRANSMIT_CAPS: u64 = FI_MSG | FI_SEND | FI_RMA | FI_READ | FI_WRITE | FI_FENCE | FI_ATOMIC;

/// Capabilities of operations that the peer starts.
const RECEIVE_CAPS: u64 =
    FI_MSG | FI_RECV | FI_MULTI_RECV | FI_RMA | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_ATOMIC;

/// Capabilities of a shared receive context. A multi-receive buffer belongs to one endpoint.
pub(super) const SHARED_CAPS: u64 = RECEIVE_CAPS & !FI_MULTI_RECV;

/// Capabilities of the domain, independent of its endpoints.
const DOMAIN_CAPS: u64 = FI_LOCAL_COMM | CORE_CAPS;

const CAPS: u64 = TRANSMIT_CAPS | RECEIVE_CAPS | DOMAIN_CAPS;

/// Message order: operations are processed in the order in which they were posted.
const MSG_ORDER: u64 = abi::FI_ORDER_SAS
    | abi::FI_ORDER_SAW
    | abi::FI_ORDER_SAR
    | abi::FI_ORDER_WAS
    | abi::FI_ORDER_WAW
    | abi::FI_ORDER_WAR
    | abi::FI_ORDER_RAS
    | abi::FI_ORDER_RAW
    | abi::FI_ORDER_RAR;

/// Most bytes that can be injected: each transmit slot has space for them.
pub(super) const INJECT_SIZE: usize = op::InlineData::SIZE;

/// Most transmits, and most receives, of an endpoint.
pub(super) const MAX_QUEUE_SIZE: usize = 4096;

/// Depth of an endpoint whose info names none.
pub(super) const DEFAULT_QUEUE_SIZE: usize = 256;

/// Longest message in bytes. One call copies a whole message.
pub(super) const MAX_MSG_SIZE: usize = 64 << 20;

/// Longest message of an endpoint beside that of another provider: the longest one of a device, which loop
/// replaces on the same host.
const MAX_MSG_SIZE_BESIDE: usize = 1 << 31;

/// Most segments of a region with remote access.
pub(super) const MR_IOV_LIMIT: usize = 256;

/// Limit for objects that take no resource but memory.
const MAX_OBJECTS: usize = 1 << 16;

/// Returns the info of an endpoint for a consumer with these hints. May sleep.
///
/// # Errors
///
/// -FI_ENOMEM.
pub(super) fn build_info(hints: &Hints) -> Result<KBox<Info>> {
    MsgInfo {
        prov_name: NAME,
        prov_version: PROVIDER_VERSION,
        fabric_name: NAME,
        domain_name: NAME,
        protocol: abi::FI_PROTO_SHM,
        tx_caps: TRANSMIT_CAPS,
        rx_caps: RECEIVE_CAPS,
        domain_caps: DOMAIN_CAPS,
        signal_caps: FI_REMOTE_SIGNAL,
        // All complete when the operation is done.
        completion_levels: COMPLETION_LEVELS,
        has_cq_data: true,
        msg_order: MSG_ORDER,
        tx_comp_order: abi::FI_ORDER_STRICT,
        inject_size: INJECT_SIZE,
        tx_size: MAX_QUEUE_SIZE,
        rx_size: MAX_QUEUE_SIZE,
        tx_iov_limit: MAX_IOV,
        rx_iov_limit: MAX_IOV,
        max_msg_size: MAX_MSG_SIZE,
        shares_rx: hints.wants_shared_rx,
        has_srx: true,
        cq_cnt: MAX_OBJECTS,
        cntr_cnt: MAX_OBJECTS,
        ep_cnt: MAX_OBJECTS,
        mr_cnt: MAX_OBJECTS,
        mr_iov_limit: MR_IOV_LIMIT,
        more_mr_modes: 0,
    }
    .build(hints)
}

/// Limits and rights of an endpoint, from its info.
pub(super) struct Limits {
    pub(super) tx_size: usize,
    pub(super) rx_size: usize,
    pub(super) tx_iov_limit: usize,
    /// Most remote ranges of an RMA operation.
    pub(super) rma_iov_limit: usize,
    pub(super) rx_iov_limit: usize,
    pub(super) inject_size: usize,
    /// Set if the endpoint uses a shared receive context; it has no receives of its own.
    pub(super) shares_receives: bool,
    /// Readers sleep until a message with FI_REMOTE_SIGNAL arrives, or a failure.
    pub(super) waits_for_signals: bool,
    /// Longest message in bytes.
    pub(super) max_msg_size: usize,
    /// Largest valid key of a memory region.
    pub(super) max_key: u64,
    /// Transmit flags that are known but need a capability that the endpoint lacks.
    pub(super) unsupported_flags: u64,
    has_atomics: bool,
    /// Access to registered memory that the endpoint's capabilities grant its peers.
    pub(super) rights: EpRights,
}

impl Limits {
    /// Checks that the endpoint has atomic operations; -FI_ENOSYS if it has none.
    pub(super) fn check_atomics(&self) -> Result {
        self.has_atomics.then_some(()).ok_or(Errno::ENOSYS)
    }

    /// Reads the limits from an info, which the consumer may have changed, for an endpoint whose ports belong to
    /// `owner`.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for another endpoint type, and for more than is offered.
    pub(super) fn new(info: &Info, owner: PortOwner) -> Result<Self> {
        let ep = info.ep().ok_or(Errno::EINVAL)?;
        let shares_receives = uses_shared_rx(info);
        let has_contexts = ep.tx_ctx_cnt <= 1 && (ep.rx_ctx_cnt <= 1 || shares_receives);
        let has_caps = info.caps() & !(CAPS | FI_REMOTE_SIGNAL) == 0;
        let is_named = info.domain_name() == Some(NAME);
        if ep.type_ != abi::FI_EP_MSG || !has_contexts || !has_caps || !is_named {
            return Err(Errno::EINVAL);
        }
        // There are no packets to mark.
        tclass::type_of_service(tclass::of_endpoint(info))?;
        let (max_msg_size, max_key) = match owner {
            PortOwner::Loop => (MAX_MSG_SIZE, u64::from(u32::MAX)),
            PortOwner::OtherProvider => (MAX_MSG_SIZE_BESIDE, u64::MAX),
        };
        let (tx, rx) = (info.tx(), info.rx());
        let queue_size = |wanted| size_within(wanted, MAX_QUEUE_SIZE, DEFAULT_QUEUE_SIZE);
        let has_data = info.domain().is_some_and(|domain| domain.cq_data_size > 0);
        Ok(Self {
            tx_size: queue_size(tx.map_or(0, |tx| tx.size))?,
            rx_size: queue_size(rx.map_or(0, |rx| rx.size))?,
            tx_iov_limit: size_within(tx.map_or(0, |tx| tx.iov_limit), MAX_IOV, MAX_IOV)?,
            rma_iov_limit: size_within(
                tx.map_or(0, |tx| tx.rma_iov_limit),
                RMA_IOV_LIMIT,
                RMA_RANGE_LIMIT,
            )?,
            rx_iov_limit: size_within(rx.map_or(0, |rx| rx.iov_limit), MAX_IOV, MAX_IOV)?,
            inject_size: size_within(tx.map_or(0, |tx| tx.inject_size), INJECT_SIZE, 0)?,
            shares_receives,
            waits_for_signals: info.caps() & FI_REMOTE_SIGNAL != 0,
            max_msg_size,
            max_key,
            unsupported_flags: if has_data { 0 } else { FI_REMOTE_CQ_DATA },
            has_atomics: info.caps() & FI_ATOMIC != 0,
            rights: EpRights::from_caps(info.caps()),
        })
    }
}
