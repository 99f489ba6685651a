// SPDX-License-Identifier: GPL-2.0

//! Limits, access rights and options of an endpoint, which do not change after it has been opened.

use super::{
    super::{
        super::common::{
            flags::{
                COMPLETION_LEVELS,
                TRANSMIT_FLAGS, //
            },
            rma_cursor::{
                RMA_IOV_LIMIT,
                RMA_RANGE_LIMIT, //
            }, //
        },
        domain::Domain,
        info,
        mr::peer_access, //
    },
    atomic,
    post, //
};
use crate::{
    fi::{
        info::size_within,
        tclass, //
    },
    prov::verbs::prelude::*,
    rdma::{
        device_attr::Protocol,
        mr::Access, //
    },
};

/// Depth of the queues of an endpoint if its info has `size` 0.
const DEFAULT_DEPTH: usize = 256;

/// Limits and access rights of an endpoint, from its info and the device.
#[repr(C)]
pub(super) struct EpAttrs {
    /// Flags that exclude a transmit from the fast path: they change its work request, or are
    /// invalid.
    pub(super) slow_path_flags: u64,
    /// Flags that no transmit may have.
    pub(super) unsupported_flags: u64,
    pub(super) tx_iov_limit: usize,
    /// Maximum number of segments of a receive; 0 with a shared receive context.
    pub(super) rx_iov_limit: usize,
    pub(super) max_msg_size: u32,
    pub(super) is_iwarp: bool,
    /// Maximum number of scatter/gather elements of a work request that reads.
    pub(super) read_iov_limit: usize,
    /// Maximum number of remote ranges of an RMA operation.
    pub(super) rma_iov_limit: usize,
    pub(super) inject_size: usize,
    pub(super) tx_size: u32,
    /// Depth of the receive queue; 0 with a shared receive context.
    pub(super) rx_size: u32,
    pub(super) uses_srx: bool,
    /// Set if the endpoint was opened to accept a connection request.
    pub(super) is_for_request: bool,
    /// Set if readers sleep until a failure or a message with FI_REMOTE_SIGNAL arrives.
    pub(super) solicited_only: bool,
    /// Errno of the calls for atomic operations, if the endpoint does not support these.
    pub(super) atomics_errno: Option<Errno>,
    /// Traffic class of the packets, as in an IP header; `None` for the default.
    pub(super) traffic_class: Option<u8>,
    /// Access rights of the peer to registered memory.
    pub(super) access: Access,
}

impl EpAttrs {
    pub(super) fn new(domain: &Domain, info: &Info) -> Result<Self> {
        let device = domain.pd.device();
        let (max_depth, max_sges) = info::queue_limits(device);
        let depth = |asked: usize| -> Result<u32> {
            Ok(size_within(asked, max_depth, max_depth.min(DEFAULT_DEPTH))? as u32)
        };
        let protocol = device.protocol;
        let mut missing = COMPLETION_LEVELS & !info::completion_levels(protocol);
        if !info::has_cq_data(protocol) || info.domain().is_none_or(|attr| attr.cq_data_size == 0) {
            missing |= FI_REMOTE_CQ_DATA;
        }
        // A limit of 0 in the info selects the maximum.
        let within = |asked: usize, max: usize| size_within(asked, max, max);
        let segments = within(info.tx().map_or(0, |tx| tx.iov_limit), max_sges)?;
        let inject = info.tx().map_or(0, |tx| tx.inject_size);
        let shares_receives = info::uses_shared_rx(info);
        Ok(Self {
            tx_size: depth(info.tx().map_or(0, |tx| tx.size))?,
            // The receive attributes of the info are those of the shared receive context.
            rx_size: match shares_receives {
                true => 0,
                false => depth(info.rx().map_or(0, |rx| rx.size))?,
            },
            uses_srx: shares_receives,
            is_for_request: info.handle() != 0,
            solicited_only: info.caps() & FI_REMOTE_SIGNAL != 0,
            tx_iov_limit: segments,
            rma_iov_limit: size_within(
                info.tx().map_or(0, |tx| tx.rma_iov_limit),
                RMA_IOV_LIMIT,
                RMA_RANGE_LIMIT,
            )?,
            rx_iov_limit: match shares_receives {
                true => 0,
                false => within(info.rx().map_or(0, |rx| rx.iov_limit), max_sges)?,
            },
            read_iov_limit: segments.min(device.attributes.max_sge_rd.max(1) as usize),
            max_msg_size: u32::try_from(domain.max_msg_size).unwrap_or(u32::MAX),
            inject_size: within(inject, info::INJECT_SIZE)?,
            is_iwarp: protocol == Protocol::Iwarp,
            slow_path_flags: !post::FAST_TX_FLAGS | missing,
            unsupported_flags: !(TRANSMIT_FLAGS | FI_REMOTE_INVALIDATE) | missing,
            atomics_errno: atomic::atomics_errno(&device.attributes, info),
            traffic_class: tclass::type_of_service(tclass::of_endpoint(info))?,
            access: access_from_caps(info.caps()),
        })
    }
}

/// Returns the access rights that an endpoint's capabilities grant its peer. FI_ATOMIC alone grants
/// the same reads and writes as FI_RMA: FI_ATOMIC_READ is an RDMA read.
fn access_from_caps(caps: u64) -> Access {
    match caps & (FI_RMA | FI_ATOMIC) {
        0 => Access::default(),
        // The capability for atomics exists only on devices that have them.
        kinds => peer_access(
            caps & FI_REMOTE_READ != 0,
            caps & FI_REMOTE_WRITE != 0,
            kinds & FI_ATOMIC != 0,
        ),
    }
}
