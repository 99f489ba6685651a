// SPDX-License-Identifier: GPL-2.0

//! Connections by rdma_cm: address resolution, listening, connecting and their events.
//!
//! rdma_cm delivers the events of an id to a [`CmHandler`], one at a time, with the id's handler
//! lock held. Calls that need that lock are methods of [`LockedCmId`], which a handler gets as an
//! argument and other code gets by [`CmId::with_lock`].

mod event;
mod handler;

pub(super) use event::raw_bytes;
pub(crate) use event::{
    CmEvent,
    CmFailure,
    ConnParam,
    QpParam,
    Retries, //
};
pub(crate) use handler::CmHandler;

use handler::{
    handle,
    CmIdContext,
    OwnedContext, //
};

use super::{
    device::Device,
    ib_client,
    net::{
        Net,
        SockAddr, //
    },
    prelude::*,
    qp::{
        Qp,
        QpAttr, //
    },
};
use core::ops::Deref;
use kernel::types::{
    ForeignOwnable,
    NotThreadSafe, //
};

/// Reason of a rejection by the consumer, as numbered in the InfiniBand specification.
pub(crate) const REJ_CONSUMER_DEFINED: u8 =
    bindings::ib_cm_rej_reason_IB_CM_REJ_CONSUMER_DEFINED as u8;

/// An rdma_cm id: one end of a connection, or a listener.
///
/// Dropping it ends its operations. A drop outside of the handler waits until the handler has
/// returned; a drop in the handler takes effect when the handler returns. The handler does not run
/// again. May sleep.
///
/// # Invariants
///
/// `raw` is an id that has not been destroyed. Its context points to a [`CmIdContext`] that was
/// allocated by `KBox`, and both belong to this object.
pub(crate) struct CmId {
    raw: NonNull<bindings::rdma_cm_id>,
}

// SAFETY: Ids have their own locks, and any thread may use and destroy them.
unsafe impl Send for CmId {}

// SAFETY: As above.
unsafe impl Sync for CmId {}

impl CmId {
    /// Creates an id for reliable connections over IP.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(net: &Net, handler: Option<Arc<dyn CmHandler>>) -> Result<Self> {
        let context = CmIdContext::new(handler)?;
        // SAFETY: `net` holds the namespace during this call; the handler is written for the
        // context that the id gets here.
        let raw = unsafe {
            bindings::__rdma_create_kernel_id(
                net.as_ptr(),
                Some(handle),
                ptr::from_ref(&*context).cast_mut().cast(),
                bindings::rdma_ucm_port_space_RDMA_PS_TCP,
                bindings::ib_qp_type_IB_QPT_RC,
                super::OWNER.as_char_ptr(),
            )
        };
        let raw = NonNull::new(from_err_ptr(raw)?).ok_or(ENOMEM)?;
        let _ = context.into_foreign();
        // INVARIANT: The id was created above, and owns the context from now on.
        Ok(Self { raw })
    }

    /// Calls `f` when no handler runs, and prevents it from running meanwhile. Deadlocks if called
    /// in the handler.
    pub(crate) fn with_lock<R>(&self, f: impl FnOnce(&LockedCmId) -> R) -> R {
        // SAFETY: By the invariant `raw` is valid.
        unsafe { bindings::rdma_lock_handler(self.raw.as_ptr()) };
        // SAFETY: The lock was taken above, and is held until `f` has returned.
        let result = f(unsafe { LockedCmId::from_raw(self.raw.as_ptr()) });
        // SAFETY: This task holds the lock.
        unsafe { bindings::rdma_unlock_handler(self.raw.as_ptr()) };
        result
    }

    /// Returns whether the current task runs the id's handler.
    pub(crate) fn is_in_handler(&self) -> bool {
        self.context().is_in_handler()
    }

    fn context(&self) -> &CmIdContext {
        // SAFETY: By the invariant the id and its context are valid; the pointer does not change.
        unsafe { &*(*self.raw.as_ptr()).context.cast() }
    }

    /// Replaces the handler and returns the old one, which may still be running unless the id is
    /// locked.
    pub(crate) fn set_handler(
        &self,
        handler: Option<Arc<dyn CmHandler>>,
    ) -> Option<Arc<dyn CmHandler>> {
        core::mem::replace(&mut *self.context().handler.lock(), handler)
    }
}

impl Deref for CmId {
    type Target = CmIdRef;

    fn deref(&self) -> &CmIdRef {
        // SAFETY: By the invariant `raw` is valid as long as `self` exists.
        unsafe { CmIdRef::from_raw(self.raw.as_ptr()) }
    }
}

impl Drop for CmId {
    fn drop(&mut self) {
        if self.is_in_handler() {
            // rdma_cm destroys the id, and `handle` frees the context, after the handler returns.
            self.context().dropped.store(true, Relaxed);
            return;
        }
        // SAFETY: By the invariant the id is valid.
        let context = unsafe { (*self.raw.as_ptr()).context };
        // SAFETY: By the invariant the id is valid, and this task is not in its handler.
        let dev_addr = unsafe { &raw mut (*self.raw.as_ptr()).route.addr.dev_addr };
        // rdma_destroy_id() waits until addr_handler() has unlocked the mutex of the id, but not until it
        // has returned from mutex_unlock(), which may still access the mutex. This call waits for that.
        // SAFETY: As above.
        unsafe { bindings::rdma_addr_cancel(dev_addr) };
        // SAFETY: As above. When this returns, no handler runs, and none will.
        unsafe { bindings::rdma_destroy_id(self.raw.as_ptr()) };
        // SAFETY: The context came from `into_foreign`, and no pointer to it is left.
        drop(unsafe { OwnedContext::from_foreign(context) });
    }
}

/// An id with the operations that need no handler lock.
#[repr(transparent)]
pub(crate) struct CmIdRef(Opaque<bindings::rdma_cm_id>);

// SAFETY: Ids have their own locks.
unsafe impl Sync for CmIdRef {}

impl CmIdRef {
    /// # Safety
    ///
    /// `raw` is an id that is not destroyed while the result is used.
    unsafe fn from_raw<'a>(raw: *mut bindings::rdma_cm_id) -> &'a Self {
        // SAFETY: By this function's contract; `CmIdRef` has the layout of an id.
        unsafe { &*raw.cast() }
    }

    fn raw(&self) -> *mut bindings::rdma_cm_id {
        self.0.get()
    }

    /// Restricts the id to devices of the node type of `device`. Must precede any other operation
    /// of the id.
    ///
    /// rxe and siw devices may use the same network interface, and then an address alone does not
    /// select the device.
    ///
    /// # Errors
    ///
    /// `EALREADY` after another operation.
    pub(crate) fn restrict_to(&self, device: &Device) -> Result {
        // SAFETY: `self` is a valid id.
        to_result(unsafe { bindings::rdma_restrict_node_type(self.raw(), device.node_type) })
    }

    /// Binds the id to a local address; port 0 selects any free port.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE`, `EADDRNOTAVAIL`, `ENODEV` when no RDMA device has the address, `EINVAL` for an
    /// id that is already bound.
    pub(crate) fn bind(&self, addr: &SockAddr) -> Result {
        let mut addr = addr.to_raw();
        // SAFETY: `self` is a valid id, and `addr` has the size of any address.
        to_result(unsafe { bindings::rdma_bind_addr(self.raw(), addr.as_mut_ptr()) })
    }

    /// Listens for connections; each raises [`CmEvent::ConnectRequest`].
    ///
    /// # Errors
    ///
    /// `EADDRINUSE`, `EINVAL` for an id without an address, and the device's errors.
    pub(crate) fn listen(&self, backlog: i32) -> Result {
        // SAFETY: `self` is a valid id.
        to_result(unsafe { bindings::rdma_listen(self.raw(), backlog) })
    }

    /// Starts to resolve `dst`; completes with [`CmEvent::AddrResolved`] or [`CmEvent::Failed`].
    ///
    /// # Errors
    ///
    /// Errors of [`Self::bind`] to `src`, `ENETUNREACH`, `EHOSTUNREACH`.
    pub(crate) fn resolve_addr(
        &self,
        src: Option<&SockAddr>,
        dst: &SockAddr,
        timeout_ms: u32,
    ) -> Result {
        let mut src = src.map(|src| src.to_raw());
        let src = src.as_mut().map_or(ptr::null_mut(), |src| src.as_mut_ptr());
        let dst = dst.to_raw();
        // SAFETY: `self` is a valid id; the addresses have the size of any address, and are copied.
        to_result(unsafe {
            bindings::rdma_resolve_addr(self.raw(), src, dst.as_ptr(), timeout_ms as usize)
        })
    }

    /// Starts to resolve a route; completes with [`CmEvent::RouteResolved`] or [`CmEvent::Failed`].
    ///
    /// # Errors
    ///
    /// `EINVAL` before the address is resolved, `ENOMEM`, and the device's errors.
    pub(crate) fn resolve_route(&self, timeout_ms: u32) -> Result {
        // SAFETY: `self` is a valid id.
        to_result(unsafe { bindings::rdma_resolve_route(self.raw(), timeout_ms as usize) })
    }

    /// Sets the minimum RNR NAK timer, in the specification's encoding: how long the peer waits
    /// before it repeats a message that found no receive. Must precede connecting or accepting.
    ///
    /// # Errors
    ///
    /// `EINVAL` above 31.
    pub(crate) fn set_min_rnr_timer(&self, timer: u8) -> Result {
        // SAFETY: `self` is a valid id.
        to_result(unsafe { bindings::rdma_set_min_rnr_timer(self.raw(), timer) })
    }

    /// Sets the time after which an unacknowledged packet is sent again: 4.096 microseconds times 2
    /// to the power of `timeout`, 0 for never. Must precede connecting or accepting.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an id of another kind than a reliable connection.
    pub(crate) fn set_ack_timeout(&self, timeout: u8) -> Result {
        // SAFETY: `self` is a valid id.
        to_result(unsafe { bindings::rdma_set_ack_timeout(self.raw(), timeout) })
    }

    /// Sets the type of service of the id's packets, as in an IP header. Must precede the resolution
    /// of the route.
    pub(crate) fn set_service_type(&self, tos: u8) {
        // SAFETY: `self` is a valid id.
        unsafe { bindings::rdma_set_service_type(self.raw(), tos.into()) };
    }

    /// Returns the attributes for the queue pair's transition to `state`.
    ///
    /// # Errors
    ///
    /// `EINVAL` before the id has a device or before the connection allows the transition, and the
    /// device's errors.
    fn init_qp_attr(&self, state: bindings::ib_qp_state) -> Result<QpAttr> {
        if self.raw_device().is_null() {
            return Err(EINVAL);
        }
        let mut attr = QpAttr::new(state);
        // SAFETY: `self` is a valid id with a device; the attributes and the mask are local.
        to_result(unsafe {
            bindings::rdma_init_qp_attr(self.raw(), &mut attr.raw, &mut attr.mask)
        })?;
        Ok(attr)
    }

    /// Moves a queue pair through INIT and RTR to RTS, with the negotiated parameters and those of
    /// this side.
    ///
    /// # Errors
    ///
    /// Errors of [`Self::init_qp_attr`] and of [`Qp::modify`].
    pub(crate) fn move_qp_to_rts(&self, qp: &Qp, param: &ConnParam<'_>, own: &QpParam) -> Result {
        // INIT is repeated, because the port may have been unknown before. rdma_cm would grant the
        // peer more access than the consumer may have asked for.
        self.move_qp(qp, bindings::ib_qp_state_IB_QPS_INIT, |init| {
            init.set_access(own.access)
        })?;
        self.move_qp(qp, bindings::ib_qp_state_IB_QPS_RTR, |receive| {
            // Ignored unless the mask has the attribute, like that of RTS.
            receive.raw.max_dest_rd_atomic = param.responder_resources;
            if let Some(class) = own.traffic_class {
                // An accepting side has the class of its peer's path otherwise.
                receive.set_traffic_class(class);
            }
        })?;
        self.move_qp(qp, bindings::ib_qp_state_IB_QPS_RTS, |send| {
            send.raw.max_rd_atomic = param.initiator_depth;
            // The connection manager would take those that the peer proposed.
            send.raw.retry_cnt = own.retries.retry_count;
            send.raw.rnr_retry = own.retries.rnr_retry_count;
        })
    }

    /// Moves a queue pair to `state` with the attributes that the connection manager has for it, after `change`.
    ///
    /// # Errors
    ///
    /// Errors of [`Self::init_qp_attr`] and of [`Qp::modify`].
    #[inline(never)] // The attributes take 300 bytes of the stack.
    fn move_qp(
        &self,
        qp: &Qp,
        state: bindings::ib_qp_state,
        change: impl FnOnce(&mut QpAttr),
    ) -> Result {
        let mut attr = self.init_qp_attr(state)?;
        change(&mut attr);
        qp.modify(&attr)
    }

    /// Rejects a connection request or response, with private data for the peer.
    ///
    /// # Errors
    ///
    /// `EINVAL` for too much data or when there is nothing to reject.
    pub(crate) fn reject(&self, private_data: &[u8], reason: u8) -> Result {
        let len = u8::try_from(private_data.len()).map_err(|_| EINVAL)?;
        // SAFETY: `self` is a valid id, and the data is copied.
        to_result(unsafe {
            bindings::rdma_reject(self.raw(), private_data.as_ptr().cast(), len, reason)
        })
    }

    /// Disconnects, or confirms that the peer has disconnected. [`CmEvent::Disconnected`] follows
    /// when both sides have done so.
    ///
    /// The caller moves the queue pair to the error state; this function does not change it.
    ///
    /// # Errors
    ///
    /// `EINVAL` when there is no connection, and the device's errors.
    pub(crate) fn disconnect(&self) -> Result {
        // SAFETY: `self` is a valid id.
        to_result(unsafe { bindings::rdma_disconnect(self.raw()) })
    }

    fn raw_device(&self) -> *mut bindings::ib_device {
        // SAFETY: `self` is a valid id. rdma_cm sets the pointer once, before it reports the event.
        unsafe { ptr::read_volatile(&raw const (*self.raw()).device) }
    }

    /// Returns the device that the id is bound to; `None` if there is none or it is being removed.
    pub(crate) fn device(&self) -> Option<Arc<Device>> {
        ib_client::find_device(self.raw_device())
    }

    /// Returns whether the connection uses the InfiniBand CM, so that the owner moves the queue
    /// pair through its states; on iWARP the driver does so when it connects or accepts.
    pub(crate) fn uses_ib_cm(&self) -> bool {
        let device = self.raw_device();
        // SAFETY: `self` is a valid id.
        let port = unsafe { ptr::read_volatile(&raw const (*self.raw()).port_num) };
        // SAFETY: The device of an id does not change.
        !device.is_null() && unsafe { bindings::rdma_cap_ib_cm(device, port) }
    }

    /// Returns the local address, after binding or resolving. A link-local address gets its scope,
    /// which `cma_save_ip6_info()` does not set for a request.
    ///
    /// # Errors
    ///
    /// `EAFNOSUPPORT` before.
    pub(crate) fn local_addr(&self) -> Result<SockAddr> {
        // SAFETY: `self` is a valid id, whose addresses have the size of a `sockaddr_storage`.
        let addr = unsafe { SockAddr::from_storage(&raw const (*self.raw()).route.addr.src_addr) };
        Ok(addr?.with_scope(self.bound_ifindex()))
    }

    /// Returns the peer's address, after resolving or of a request. Scope as in
    /// [`Self::local_addr`].
    ///
    /// # Errors
    ///
    /// `EAFNOSUPPORT` before.
    pub(crate) fn peer_addr(&self) -> Result<SockAddr> {
        // SAFETY: As in `local_addr`.
        let addr = unsafe { SockAddr::from_storage(&raw const (*self.raw()).route.addr.dst_addr) };
        Ok(addr?.with_scope(self.bound_ifindex()))
    }

    /// Returns whether the path of a connection request leads to the address that the peer claims in the request. It
    /// is verified on RoCE, where paths lead to IP addresses; TCP does so on iWARP. On InfiniBand it is not known.
    pub(crate) fn peer_addr_matches_path(&self) -> bool {
        // SAFETY: `self` is a valid id, and that of a request has a device.
        unsafe { bindings::kofi_peer_addr_matches_path(self.raw()) }
    }

    /// Returns the index of the network interface that the id is bound to; 0 for none.
    fn bound_ifindex(&self) -> u32 {
        // SAFETY: `self` is a valid id.
        let index = unsafe {
            ptr::read_volatile(&raw const (*self.raw()).route.addr.dev_addr.bound_dev_if)
        };
        u32::try_from(index).unwrap_or(0)
    }
}

/// Returns a description of a positive reason of [`CmEvent::Rejected`]. Any context.
pub(crate) fn reject_reason_text(reason: i32) -> &'static CStr {
    // SAFETY: The function takes any number, and its text is static in ib_cm.
    unsafe { CStr::from_char_ptr(bindings::ibcm_reject_msg(reason)) }
}

/// An id whose handler lock is held: in its handler, or under [`CmId::with_lock`].
///
/// # Invariants
///
/// This task holds the handler lock of the id as long as a reference exists.
#[repr(transparent)]
pub(crate) struct LockedCmId(CmIdRef, NotThreadSafe);

impl LockedCmId {
    /// # Safety
    ///
    /// `raw` is a valid id whose handler lock this task holds, both while the result is used.
    unsafe fn from_raw<'a>(raw: *mut bindings::rdma_cm_id) -> &'a Self {
        // INVARIANT: By this function's contract.
        // SAFETY: By this function's contract; `LockedCmId` has the layout of an id.
        unsafe { &*raw.cast() }
    }

    /// Sends a connection request; completes with [`CmEvent::ConnectResponse`],
    /// [`CmEvent::Established`], [`CmEvent::Rejected`] or [`CmEvent::Failed`].
    ///
    /// # Errors
    ///
    /// `EINVAL` before the route is resolved or for too much private data, `ENOMEM`, the device's
    /// errors.
    pub(crate) fn connect(&self, param: &ConnParam<'_>) -> Result {
        let mut param = param.to_raw()?;
        // SAFETY: `self` is a valid id and locked; the private data is copied.
        to_result(unsafe { bindings::rdma_connect_locked(self.raw(), &mut param) })
    }

    /// Accepts a connection request; completes with [`CmEvent::Established`].
    ///
    /// The queue pair of `param` must be ready to receive and, on InfiniBand, to send.
    ///
    /// # Errors
    ///
    /// `EINVAL` when there is no request, `ENOMEM`, the device's errors. The peer gets a rejection
    /// in these cases.
    pub(crate) fn accept(&self, param: &ConnParam<'_>) -> Result {
        let mut param = param.to_raw()?;
        // SAFETY: `self` is a valid id and locked; the private data is copied.
        to_result(unsafe { bindings::rdma_accept(self.raw(), &mut param) })
    }

    /// Completes a connection response: the connection is established when this returns, and no
    /// further event reports it. The queue pair must be ready to send.
    ///
    /// # Errors
    ///
    /// As for [`Self::accept`].
    pub(crate) fn complete_response(&self) -> Result {
        // SAFETY: `self` is a valid id and locked. NULL parameters complete a response.
        to_result(unsafe { bindings::rdma_accept(self.raw(), ptr::null_mut()) })
    }
}

impl Deref for LockedCmId {
    type Target = CmIdRef;

    fn deref(&self) -> &CmIdRef {
        &self.0
    }
}
