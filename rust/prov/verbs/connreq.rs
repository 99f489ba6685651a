// SPDX-License-Identifier: GPL-2.0

//! Connection requests that have not been answered yet.

use super::{
    super::common::connreq,
    cm_data::{
        new_frame,
        CmFormat, //
    },
    fabric::Fabric,
    prelude::*, //
};
use crate::rdma::cm::REJ_CONSUMER_DEFINED;

/// Handler of a pending request's events: the peer has given up, or the device is removed.
struct ConnReqHandler {
    fabric: Arc<Fabric>,
    handle: usize,
    is_gone: AtomicFlag,
}

impl CmHandler for ConnReqHandler {
    fn handle_event(self: Arc<Self>, _id: &LockedCmId, event: CmEvent<'_>) {
        // Only failures and disconnects are reported to an id that has not been accepted.
        self.is_gone.store(true, Release);
        if matches!(event, CmEvent::DeviceRemoval) {
            // Dropping the id here releases the device.
            drop(self.fabric.connreqs.take(self.handle));
        }
    }
}

/// A pending connection request.
pub(super) struct ConnReq {
    pub(super) id: CmId,
    handler: Arc<ConnReqHandler>,
    device: Arc<Device>,
    /// Format of the private data, that of the listener when the request arrived.
    pub(super) cm_format: CmFormat,
    /// Numbers of RDMA reads and atomics that the peer permits us to answer and to start.
    pub(super) responder_resources: u8,
    pub(super) initiator_depth: u8,
}

impl ConnReq {
    /// Creates the request that a listener has received, to be added to the list with `handle`. May sleep.
    pub(super) fn new(
        fabric: &Arc<Fabric>,
        handle: usize,
        id: CmId,
        device: Arc<Device>,
        cm_format: CmFormat,
        conn: &ConnParam<'_>,
    ) -> Result<Self> {
        let handler = ConnReqHandler {
            fabric: fabric.clone(),
            handle,
            is_gone: AtomicFlag::new(false),
        };
        let handler = Arc::new(handler, GFP_KERNEL)?;
        id.set_handler(Some(handler.clone()));
        Ok(Self {
            id,
            handler,
            device,
            cm_format,
            responder_resources: conn.responder_resources,
            initiator_depth: conn.initiator_depth,
        })
    }

    /// Returns whether the peer has given up.
    pub(super) fn is_gone(&self) -> bool {
        self.handler.is_gone.load(Acquire)
    }

    /// Returns whether the request came in on `device`.
    pub(super) fn is_on_device(&self, device: &Device) -> bool {
        core::ptr::eq(&*self.device, device)
    }
}

impl connreq::ConnReq for ConnReq {
    fn reject_data_limit(&self) -> usize {
        self.cm_format.limits(self.device.protocol).reject
    }

    fn reject(self, private_data: &[u8]) {
        if let Ok(bytes) = self.cm_format.encode(private_data, &mut new_frame()) {
            // Fails if the peer has given up already.
            let _ = self.id.reject(bytes, REJ_CONSUMER_DEFINED);
        }
    }
}
