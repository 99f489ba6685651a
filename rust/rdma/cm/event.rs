// SPDX-License-Identifier: GPL-2.0

//! Events of rdma_cm, and the parameters of a connection.

use super::CmId;
use crate::rdma::{
    mr::Access,
    prelude::*, //
};
use core::slice;

/// Connection parameters that one side proposes to the other. Those of an event have the first
/// three fields only.
#[derive(Clone, Copy, Default)]
pub(crate) struct ConnParam<'a> {
    /// Private data of the consumer. Received data may be padded with zeroes.
    pub(crate) private_data: &'a [u8],
    /// Limit of the peer's RDMA reads and atomics that are answered concurrently.
    pub(crate) responder_resources: u8,
    /// Limit of outstanding RDMA reads and atomics of this side.
    pub(crate) initiator_depth: u8,
    /// Set for end-to-end flow control: receives are announced to the peer.
    pub(crate) flow_control: bool,
    /// Retries of a lost packet; at most 7.
    pub(crate) retry_count: u8,
    /// Retries of a message that found no receive; 7 means no limit.
    pub(crate) rnr_retry_count: u8,
    /// Set when receives come from a shared receive queue.
    pub(crate) srq: bool,
    /// Queue pair number.
    pub(crate) qp_num: u32,
}

impl<'a> ConnParam<'a> {
    /// Returns the parameters of an event that has connection parameters.
    ///
    /// # Safety
    ///
    /// `event` is of such a kind and came from rdma_cm; its private data is valid for `'a`.
    pub(super) unsafe fn from_event(event: &'a bindings::rdma_cm_event) -> Self {
        // SAFETY: By this function's contract `conn` is the valid member of the union.
        let conn = unsafe { &event.param.conn };
        Self {
            // SAFETY: By this function's contract.
            private_data: unsafe { raw_bytes(conn.private_data, conn.private_data_len.into()) },
            responder_resources: conn.responder_resources,
            initiator_depth: conn.initiator_depth,
            ..Self::default()
        }
    }

    /// Returns the C structure, which points to the same private data.
    pub(super) fn to_raw(self) -> Result<bindings::rdma_conn_param> {
        let len = u8::try_from(self.private_data.len()).map_err(|_| EINVAL)?;
        Ok(bindings::rdma_conn_param {
            private_data: match len {
                0 => ptr::null(),
                _ => self.private_data.as_ptr().cast(),
            },
            private_data_len: len,
            responder_resources: self.responder_resources,
            initiator_depth: self.initiator_depth,
            flow_control: self.flow_control.into(),
            retry_count: self.retry_count,
            rnr_retry_count: self.rnr_retry_count,
            srq: self.srq.into(),
            qp_num: self.qp_num,
            qkey: 0,
        })
    }
}

/// Retries and timeouts of a queue pair.
#[derive(Clone, Copy)]
pub(crate) struct Retries {
    /// Retransmissions without acknowledgement; at most 7.
    pub(crate) retry_count: u8,
    /// Retries of a message that found no receive; 7 means no limit.
    pub(crate) rnr_retry_count: u8,
    /// Exponent of the time to an acknowledgement, at most 31; `None` for that of the path.
    pub(crate) ack_timeout: Option<u8>,
}

/// Parameters of a queue pair that each side chooses for itself.
pub(crate) struct QpParam {
    /// Accesses that the peer may perform.
    pub(crate) access: Access,
    pub(crate) retries: Retries,
    /// Traffic class of the packets; `None` for that of the path.
    pub(crate) traffic_class: Option<u8>,
}

/// # Safety
///
/// `data` is NULL, or `len` bytes there are valid for `'a`.
pub(in crate::rdma) unsafe fn raw_bytes<'a>(data: *const c_void, len: usize) -> &'a [u8] {
    match data.is_null() {
        true => &[],
        // SAFETY: By this function's contract.
        false => unsafe { slice::from_raw_parts(data.cast(), len) },
    }
}

/// The step of connecting that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CmFailure {
    /// The address could not be resolved.
    Addr,
    /// No path was found.
    Route,
    /// The connection could not be established.
    Connect,
    /// The peer did not respond.
    Unreachable,
}

/// An event of an rdma_cm id.
pub(crate) enum CmEvent<'a> {
    /// The address is resolved, and the id has a device: resolve the route.
    AddrResolved,
    /// The route is resolved: connect.
    RouteResolved,
    /// Connecting failed. `status` is a negative errno, or 0 where rdma_cm has none.
    Failed { kind: CmFailure, status: i32 },
    /// A peer requests a connection. Accept or reject it with `id`; dropping `id` rejects it.
    ConnectRequest { id: CmId, conn: ConnParam<'a> },
    /// The peer has accepted: move the queue pair to RTS, and complete the response. Not raised on
    /// iWARP.
    ConnectResponse { conn: ConnParam<'a> },
    /// The connection is established. The parameters are valid on the active side of iWARP,
    /// otherwise zero.
    Established { conn: ConnParam<'a> },
    /// The peer rejected the request. `reason` is a number of the InfiniBand specification, or a
    /// negative errno on iWARP; see [`reject_reason_text`](super::reject_reason_text).
    Rejected { reason: i32, private_data: &'a [u8] },
    /// The peer has disconnected, or has confirmed a disconnect.
    Disconnected,
    /// The device is being removed: the id must be dropped.
    DeviceRemoval,
    /// Another `enum rdma_cm_event_type`.
    Other,
}

impl<'a> CmEvent<'a> {
    /// # Safety
    ///
    /// `event` came from rdma_cm, is not a connection request, and is valid for `'a` with its data.
    pub(super) unsafe fn from_raw(event: &'a bindings::rdma_cm_event) -> Self {
        let failed = |kind| Self::Failed {
            kind,
            status: event.status,
        };
        match event.event {
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_RESOLVED => Self::AddrResolved,
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_ERROR => failed(CmFailure::Addr),
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_RESOLVED => Self::RouteResolved,
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_ERROR => failed(CmFailure::Route),
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_ERROR => failed(CmFailure::Connect),
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_UNREACHABLE => {
                failed(CmFailure::Unreachable)
            }
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_RESPONSE => Self::ConnectResponse {
                // SAFETY: A response has connection parameters.
                conn: unsafe { ConnParam::from_event(event) },
            },
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_ESTABLISHED => Self::Established {
                // SAFETY: As above; they are zero where there are none.
                conn: unsafe { ConnParam::from_event(event) },
            },
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_REJECTED => Self::Rejected {
                reason: event.status,
                // SAFETY: A rejection has connection parameters.
                private_data: unsafe { ConnParam::from_event(event) }.private_data,
            },
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_DISCONNECTED => Self::Disconnected,
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_DEVICE_REMOVAL => Self::DeviceRemoval,
            _ => Self::Other,
        }
    }
}
