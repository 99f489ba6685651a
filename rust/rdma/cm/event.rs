// SPDX-License-Identifier: GPL-2.0

//! What rdma_cm tells, and what a connection is asked for with.

use super::CmId;
use crate::bindings;
use core::{
    ptr,
    slice, //
};
use kernel::prelude::*;

/// What one side of a connection proposes to the other.
#[derive(Clone, Copy, Default)]
pub(crate) struct ConnParam<'a> {
    /// Data for the application. What is received may be padded with zeroes.
    pub(crate) private_data: &'a [u8],
    /// Reads and atomics of the peer's that are answered at a time.
    pub(crate) responder_resources: u8,
    /// Own reads and atomics that are under way at a time.
    pub(crate) initiator_depth: u8,
    /// Whether receives are announced to the peer.
    pub(crate) flow_control: bool,
    /// How often a lost packet is repeated; the device stops at 7.
    pub(crate) retry_count: u8,
    /// How often a message that meets no receive is repeated; 7 is for ever.
    pub(crate) rnr_retry_count: u8,
    /// Whether receives come from a shared queue.
    pub(crate) srq: bool,
    /// The number of the queue pair.
    pub(crate) qp_num: u32,
}

impl<'a> ConnParam<'a> {
    /// What came with an event that has connection parameters.
    ///
    /// # Safety
    ///
    /// `event` is of such a kind, and came from rdma_cm; its private data lasts for `'a`.
    pub(super) unsafe fn from_event(event: &'a bindings::rdma_cm_event) -> Self {
        // SAFETY: By this function's contract this is the part of the union that counts.
        let conn = unsafe { &event.param.conn };
        Self {
            // SAFETY: By this function's contract.
            private_data: unsafe { raw_private_data(conn) },
            responder_resources: conn.responder_resources,
            initiator_depth: conn.initiator_depth,
            flow_control: conn.flow_control != 0,
            retry_count: conn.retry_count,
            rnr_retry_count: conn.rnr_retry_count,
            srq: conn.srq != 0,
            qp_num: conn.qp_num,
        }
    }

    /// In the layout of C, which points to the same private data.
    pub(super) fn to_raw(self) -> Result<bindings::rdma_conn_param> {
        let len = u8::try_from(self.private_data.len()).map_err(|_| EINVAL)?;
        let data = if len == 0 {
            ptr::null()
        } else {
            self.private_data.as_ptr().cast()
        };
        Ok(bindings::rdma_conn_param {
            private_data: data,
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

/// # Safety
///
/// The private data of `conn` is NULL or lasts for `'a`.
unsafe fn raw_private_data<'a>(conn: &bindings::rdma_conn_param) -> &'a [u8] {
    if conn.private_data.is_null() {
        return &[];
    }
    // SAFETY: By this function's contract.
    unsafe { slice::from_raw_parts(conn.private_data.cast(), conn.private_data_len.into()) }
}

/// What failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CmFailure {
    /// The address could not be resolved.
    Addr,
    /// No path was found.
    Route,
    /// The connection could not be made.
    Connect,
    /// The peer did not answer.
    Unreachable,
}

/// What happened to an id.
pub(crate) enum CmEvent<'a> {
    /// The way to the peer is known, and the id has a device: resolve the route.
    AddrResolved,
    /// There is a path: connect.
    RouteResolved,
    /// It ends here. `status` is a negative errno, or 0 where rdma_cm has none.
    Failed { kind: CmFailure, status: i32 },
    /// Somebody wants to connect. Accept or reject with `id`; dropping it rejects too.
    ConnectRequest { id: CmId, conn: ConnParam<'a> },
    /// The peer has accepted: move the queue pair until it can send, and complete the response.
    /// Not on iWARP.
    ConnectResponse { conn: ConnParam<'a> },
    /// There is a connection. The parameters count where the device is iWARP and this side has
    /// asked; else they are zero.
    Established { conn: ConnParam<'a> },
    /// The peer said no. `reason` is a number of the InfiniBand specification, or a negative errno
    /// on iWARP; see [`reject_text`](super::reject_text).
    Rejected { reason: i32, private_data: &'a [u8] },
    /// The peer has ended the connection, or answered that we did.
    Disconnected,
    /// The device is going away: the id must be dropped.
    DeviceRemoval,
    /// The local address has moved to another device.
    AddrChange,
    /// The connection is over, and its queue pair's number may be used again.
    TimewaitExit,
    /// Another `enum rdma_cm_event_type`.
    Other(u32),
}

impl<'a> CmEvent<'a> {
    /// # Safety
    ///
    /// `event` came from rdma_cm, is no connection request, and lasts for `'a` with its data.
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
                private_data: unsafe { raw_private_data(&event.param.conn) },
            },
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_DISCONNECTED => Self::Disconnected,
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_DEVICE_REMOVAL => Self::DeviceRemoval,
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_CHANGE => Self::AddrChange,
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_TIMEWAIT_EXIT => Self::TimewaitExit,
            other => Self::Other(other),
        }
    }
}
