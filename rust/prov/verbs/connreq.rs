// SPDX-License-Identifier: GPL-2.0

//! Connection requests that have been reported, until the consumer accepts or rejects them.
//!
//! A consumer refers to a request by a number in its info's `handle`, never by an address, so that
//! a forged or stale handle is detected. The mutex guards the list and is not held across calls of
//! rdma_cm.

use super::{
    cm_data::CmData,
    fabric::Fabric, //
};
use crate::{
    abi::{
        Errno,
        Result, //
    },
    rdma::{
        cm::{
            CmEvent,
            CmHandler,
            CmId,
            ConnParam,
            LockedCmId,
            REJ_CONSUMER_DEFINED, //
        },
        device::Device, //
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            AtomicFlag,
            Relaxed,
            Release, //
        },
        Arc,
        Mutex, //
    },
};

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
            drop(self.fabric.connreqs().take(self.handle));
        }
    }
}

/// A pending connection request.
pub(super) struct ConnReq {
    handle: usize,
    /// Number of its listener.
    listener_id: usize,
    id: CmId,
    handler: Arc<ConnReqHandler>,
    device: Arc<Device>,
    responder_resources: u8,
    initiator_depth: u8,
}

impl ConnReq {
    /// Creates the request that a listener has received. May sleep.
    pub(super) fn new(
        fabric: &Arc<Fabric>,
        listener: usize,
        id: CmId,
        device: Arc<Device>,
        conn: &ConnParam<'_>,
    ) -> Result<Self> {
        let handle = fabric.connreqs().next_number();
        let pending = Arc::new(
            ConnReqHandler {
                fabric: fabric.clone(),
                handle,
                is_gone: AtomicFlag::new(false),
            },
            GFP_KERNEL,
        )?;
        id.set_handler(Some(pending.clone()));
        Ok(Self {
            handle,
            listener_id: listener,
            id,
            handler: pending,
            device,
            responder_resources: conn.responder_resources,
            initiator_depth: conn.initiator_depth,
        })
    }

    /// Returns the number by which a consumer refers to it.
    pub(super) fn handle(&self) -> usize {
        self.handle
    }

    /// Returns the connection's id.
    pub(super) fn id(&self) -> &CmId {
        &self.id
    }

    /// Returns the connection's id, and ends the request.
    pub(super) fn into_id(self) -> CmId {
        self.id
    }

    /// Returns whether the peer has given up.
    pub(super) fn is_gone(&self) -> bool {
        self.handler.is_gone.load(Acquire)
    }

    /// Returns whether the request came in on `device`.
    pub(super) fn is_on_device(&self, device: &Device) -> bool {
        core::ptr::eq(&*self.device, device)
    }

    /// Returns the numbers of RDMA reads and atomics that the peer permits us to answer and to
    /// start.
    pub(super) fn rd_atomic_depths(&self) -> (u8, u8) {
        (self.responder_resources, self.initiator_depth)
    }

    /// Rejects the request, with private data for the peer. May sleep.
    pub(super) fn reject(self, private_data: &[u8]) {
        if let Ok(frame) = CmData::new(private_data) {
            // Fails if the peer has given up already.
            let _ = self.id.reject(frame.as_bytes(), REJ_CONSUMER_DEFINED);
        }
    }
}

/// Pending requests of a fabric.
#[pin_data]
pub(super) struct ConnReqList {
    #[pin]
    requests: Mutex<KVec<ConnReq>>,
    last_number: Atomic<usize>,
}

impl ConnReqList {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            requests <- new_mutex!(KVec::new(), "kofi::verbs::ConnReqList"),
            last_number: Atomic::new(0),
        })
    }

    /// Returns a number for a request's handle or a listener, unique within the fabric.
    pub(super) fn next_number(&self) -> usize {
        // 0 stands for no request.
        self.last_number
            .fetch_add(1, Relaxed)
            .wrapping_add(1)
            .max(1)
    }

    /// Adds a request. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM; the request is rejected.
    pub(super) fn add(&self, connreq: ConnReq) -> Result {
        let mut list = self.requests.lock();
        list.reserve(1, GFP_KERNEL)?;
        // Cannot fail: capacity has been reserved above.
        let _ = list.push_within_capacity(connreq);
        Ok(())
    }

    /// Takes a request out; -FI_EINVAL if there is none with that handle.
    pub(super) fn take(&self, handle: usize) -> Result<ConnReq> {
        let mut list = self.requests.lock();
        let at = list
            .iter()
            .position(|request| request.handle == handle)
            .ok_or(Errno::EINVAL)?;
        list.remove(at).map_err(|_| Errno::EINVAL)
    }

    /// Rejects every request for which `which` returns true. May sleep.
    fn reject_where(&self, which: impl Fn(&ConnReq) -> bool) {
        loop {
            let request = {
                let mut list = self.requests.lock();
                let Some(at) = list.iter().position(&which) else {
                    return;
                };
                list.remove(at)
            };
            if let Ok(request) = request {
                request.reject(&[]);
            }
        }
    }

    /// Rejects the requests of a listener that closes. May sleep.
    pub(super) fn reject_for_listener(&self, listener: usize) {
        self.reject_where(|request| request.listener_id == listener);
    }

    /// Rejects the requests that came in on a device that is being removed. May sleep.
    pub(super) fn reject_on_device(&self, device: &Device) {
        self.reject_where(|request| request.is_on_device(device));
    }
}
