// SPDX-License-Identifier: GPL-2.0

//! Connections by rdma_cm: addresses, listening, connecting, and what comes of them.
//!
//! rdma_cm tells a [`CmHandler`] what happens to an id, one event at a time, with the id's own lock
//! held. Some calls belong under that lock: they are methods of [`LockedCmId`], which a handler is
//! given and everybody else gets by [`CmId::lock`].

mod event;
mod handler;

#[allow(unused_imports)]
pub(crate) use event::{
    CmEvent,
    CmFailure,
    ConnParam, //
};
pub(crate) use handler::CmHandler;

use handler::{
    handle,
    leak_context,
    reclaim_context,
    CmIdContext, //
};

use super::{
    device::Device,
    ib_client,
    mr::Access,
    net::{
        Net,
        SockAddr, //
    },
    qp::{
        Qp,
        QpAttr,
        QpState, //
    }, //
};
use crate::bindings;
use core::{
    ffi::CStr,
    ops::Deref,
    ptr::{
        self,
        NonNull, //
    },
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*,
    sync::Arc,
    types::{
        NotThreadSafe,
        Opaque, //
    },
};

/// The reason of a rejection that the application decided on, as the InfiniBand specification
/// numbers it.
pub(crate) const REJ_CONSUMER_DEFINED: u8 =
    bindings::ib_cm_rej_reason_IB_CM_REJ_CONSUMER_DEFINED as u8;

/// An rdma_cm id: one end of a connection, or a listener.
///
/// Dropping it ends whatever is under way; when that is done in another task than the handler's, it
/// waits until the handler is not running, and it never runs again. May sleep.
///
/// # Invariants
///
/// `raw` is an id that has not been destroyed. Its context points to a [`CmIdContext`] that was made
/// by `KBox`, and both belong to this object.
pub(crate) struct CmId {
    raw: NonNull<bindings::rdma_cm_id>,
}

// SAFETY: Ids have their own locks, and may be used and destroyed by any thread.
unsafe impl Send for CmId {}

// SAFETY: As above.
unsafe impl Sync for CmId {}

impl CmId {
    /// Makes an id for reliable connections over IP.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(net: &Net, handler: Option<Arc<dyn CmHandler>>) -> Result<Self> {
        let context = CmIdContext::new(handler)?;
        // SAFETY: The namespace is held during this call; the handler is made for the context that
        // the id gets here.
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
        leak_context(context);
        // INVARIANT: The id was made just now, with a context of ours which it now owns.
        Ok(Self { raw })
    }

    /// Waits until no handler runs, and keeps it from running. Not from within a handler.
    pub(crate) fn lock(&self) -> CmIdGuard<'_> {
        // SAFETY: By the invariant `raw` is valid.
        unsafe { bindings::rdma_lock_handler(self.raw.as_ptr()) };
        // INVARIANT: The lock was taken just now.
        CmIdGuard {
            id: self,
            _task: NotThreadSafe,
        }
    }

    /// Whether this task is in the id's handler.
    pub(crate) fn is_in_handler(&self) -> bool {
        // SAFETY: By the invariant the context is valid.
        unsafe { &*self.context() }.is_in_handler()
    }

    fn context(&self) -> *mut CmIdContext {
        // SAFETY: By the invariant `raw` is valid. Nobody changes its context.
        unsafe { (*self.raw.as_ptr()).context.cast() }
    }

    /// Replaces the handler; the old one may still be running when this returns, unless the id is
    /// locked.
    pub(crate) fn set_handler(
        &self,
        handler: Option<Arc<dyn CmHandler>>,
    ) -> Option<Arc<dyn CmHandler>> {
        // SAFETY: By the invariant the context is valid.
        unsafe { &*self.context() }.set_handler(handler)
    }
}

impl Deref for CmId {
    type Target = CmIdRef;

    fn deref(&self) -> &CmIdRef {
        // SAFETY: By the invariant `raw` is valid as long as `self`.
        unsafe { CmIdRef::from_raw(self.raw.as_ptr()) }
    }
}

impl Drop for CmId {
    fn drop(&mut self) {
        let context = self.context();
        if self.is_in_handler() {
            // rdma_cm destroys the id, and `handle` frees the context, when the handler returns.
            // SAFETY: As above.
            unsafe { (*context).set_dropped() };
            return;
        }
        // SAFETY: By the invariant the id is valid, and we are not in its handler. When this
        // returns no handler runs, and none will.
        unsafe { bindings::rdma_destroy_id(self.raw.as_ptr()) };
        // SAFETY: The context came from a `KBox`, and nobody else knows it any more.
        drop(unsafe { reclaim_context(context) });
    }
}

/// What can be done with an id in any task, locked or not.
#[repr(transparent)]
pub(crate) struct CmIdRef(Opaque<bindings::rdma_cm_id>);

// SAFETY: Ids have their own locks.
unsafe impl Sync for CmIdRef {}

impl CmIdRef {
    /// # Safety
    ///
    /// `raw` is an id that is not destroyed as long as the result is used.
    unsafe fn from_raw<'a>(raw: *mut bindings::rdma_cm_id) -> &'a Self {
        // SAFETY: By this function's contract; `CmIdRef` has the layout of an id.
        unsafe { &*raw.cast() }
    }

    fn raw(&self) -> *mut bindings::rdma_cm_id {
        self.0.get()
    }

    /// Has only devices like this one considered. Before anything else is done with the id.
    ///
    /// rxe and siw may sit on the same network interface, and then an address alone does not say
    /// which is meant.
    ///
    /// # Errors
    ///
    /// `EALREADY` when it comes too late.
    pub(crate) fn restrict_to(&self, device: &Device) -> Result {
        // SAFETY: `self` is a valid id.
        to_result(unsafe { bindings::rdma_restrict_node_type(self.raw(), device.node_type()) })
    }

    /// Allows others to bind to the same address while nobody listens there. Before binding.
    ///
    /// # Errors
    ///
    /// `EINVAL` when it comes too late.
    pub(crate) fn set_reuse_addr(&self, reuse: bool) -> Result {
        // SAFETY: `self` is a valid id.
        to_result(unsafe { bindings::rdma_set_reuseaddr(self.raw(), reuse.into()) })
    }

    /// Takes a local address; a port of 0 stands for any that is free.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE`, `EADDRNOTAVAIL`, `ENODEV` when no RDMA device has the address, `EINVAL` for
    /// an id that has an address.
    pub(crate) fn bind(&self, addr: &SockAddr) -> Result {
        let mut addr = addr.to_raw();
        // SAFETY: `self` is a valid id, and `addr` has room for any address.
        to_result(unsafe { bindings::rdma_bind_addr(self.raw(), addr.as_mut_ptr()) })
    }

    /// Waits for connections; each is an [`CmEvent::ConnectRequest`].
    ///
    /// # Errors
    ///
    /// `EADDRINUSE`, `EINVAL` for an id without an address, and the device's.
    pub(crate) fn listen(&self, backlog: i32) -> Result {
        // SAFETY: `self` is a valid id.
        to_result(unsafe { bindings::rdma_listen(self.raw(), backlog) })
    }

    /// Starts to look for the way to `dst`; ends in [`CmEvent::AddrResolved`] or [`CmEvent::Failed`].
    ///
    /// # Errors
    ///
    /// Those of [`Self::bind`] to `src`, `ENETUNREACH`, `EHOSTUNREACH`.
    pub(crate) fn resolve_addr(
        &self,
        src: Option<&SockAddr>,
        dst: &SockAddr,
        timeout_ms: u32,
    ) -> Result {
        let mut src = src.map(|src| src.to_raw());
        let src = src.as_mut().map_or(ptr::null_mut(), |src| src.as_mut_ptr());
        let dst = dst.to_raw();
        // SAFETY: `self` is a valid id; the addresses have room for any, and are copied.
        to_result(unsafe {
            bindings::rdma_resolve_addr(self.raw(), src, dst.as_ptr(), timeout_ms as usize)
        })
    }

    /// Starts to look for a path; ends in [`CmEvent::RouteResolved`] or [`CmEvent::Failed`].
    ///
    /// # Errors
    ///
    /// `EINVAL` before the address is resolved, `ENOMEM`, and the device's.
    pub(crate) fn resolve_route(&self, timeout_ms: u32) -> Result {
        // SAFETY: `self` is a valid id.
        to_result(unsafe { bindings::rdma_resolve_route(self.raw(), timeout_ms as usize) })
    }

    /// How long the peer has no receive before it makes us wait again, in the specification's
    /// encoding. Before connecting or accepting.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a number over 31.
    pub(crate) fn set_min_rnr_timer(&self, timer: u8) -> Result {
        // SAFETY: `self` is a valid id.
        to_result(unsafe { bindings::rdma_set_min_rnr_timer(self.raw(), timer) })
    }

    /// How long to wait for an acknowledgement: 4.096 us times two to the power of this. Before
    /// connecting or accepting.
    ///
    /// # Errors
    ///
    /// None for an id of ours.
    pub(crate) fn set_ack_timeout(&self, timeout: u8) -> Result {
        // SAFETY: `self` is a valid id.
        to_result(unsafe { bindings::rdma_set_ack_timeout(self.raw(), timeout) })
    }

    /// What the queue pair needs to go into `state`.
    ///
    /// # Errors
    ///
    /// `EINVAL` before the id has a device or where the connection is not that far, and the
    /// device's.
    pub(crate) fn init_qp_attr(&self, state: QpState) -> Result<QpAttr> {
        if self.raw_device().is_null() {
            return Err(EINVAL);
        }
        let mut attr = QpAttr::new(state);
        // SAFETY: `self` is a valid id with a device; the attributes and the mask are ours.
        to_result(unsafe {
            bindings::rdma_init_qp_attr(self.raw(), &mut attr.raw, &mut attr.mask)
        })?;
        Ok(attr)
    }

    /// Moves a queue pair through its states, to where it can send, with what both sides have agreed on.
    ///
    /// # Errors
    ///
    /// Those of [`Self::init_qp_attr`] and of [`Qp::modify`].
    pub(crate) fn move_qp_to_rts(&self, qp: &Qp, param: &ConnParam<'_>, access: Access) -> Result {
        // Once more, for the port may not have been known before. What rdma_cm lets the peer do is more
        // than the consumer may have asked for.
        let mut init = self.init_qp_attr(QpState::Init)?;
        init.set_access(access);
        qp.modify(&init)?;
        let mut receive = self.init_qp_attr(QpState::Rtr)?;
        receive.limit_dest_rd_atomic(param.responder_resources);
        qp.modify(&receive)?;
        let mut send = self.init_qp_attr(QpState::Rts)?;
        send.limit_rd_atomic(param.initiator_depth);
        qp.modify(&send)
    }

    /// Refuses a connection, with data for the peer.
    ///
    /// # Errors
    ///
    /// `EINVAL` for too much data or when there is nothing to refuse.
    pub(crate) fn reject(&self, private_data: &[u8], reason: u8) -> Result {
        let len = u8::try_from(private_data.len()).map_err(|_| EINVAL)?;
        // SAFETY: `self` is a valid id, and the data is copied.
        to_result(unsafe {
            bindings::rdma_reject(self.raw(), private_data.as_ptr().cast(), len, reason)
        })
    }

    /// Ends the connection, or answers that the peer has ended it. It is [`CmEvent::Disconnected`]
    /// when both are done.
    ///
    /// The queue pair is not touched: move it to the error state.
    ///
    /// # Errors
    ///
    /// `EINVAL` when there is no connection, and the device's.
    pub(crate) fn disconnect(&self) -> Result {
        // SAFETY: `self` is a valid id.
        to_result(unsafe { bindings::rdma_disconnect(self.raw()) })
    }

    /// Tells that the queue pair received a message, which proves a connection that is still
    /// waiting to be told so.
    ///
    /// # Errors
    ///
    /// `EINVAL` when there is no connection.
    pub(crate) fn notify_established(&self) -> Result {
        let event = bindings::ib_event_type_IB_EVENT_COMM_EST;
        // SAFETY: `self` is a valid id.
        to_result(unsafe { bindings::rdma_notify(self.raw(), event) })
    }

    fn raw_device(&self) -> *mut bindings::ib_device {
        // SAFETY: `self` is a valid id. rdma_cm sets the pointer once, before it tells of it.
        unsafe { ptr::read_volatile(&raw const (*self.raw()).device) }
    }

    /// The device that the id is bound to; `None` when there is none, or it is going away.
    pub(crate) fn device(&self) -> Option<Arc<Device>> {
        ib_client::find_device(self.raw_device())
    }

    /// The port of that device.
    pub(crate) fn port(&self) -> u32 {
        // SAFETY: `self` is a valid id.
        unsafe { ptr::read_volatile(&raw const (*self.raw()).port_num) }
    }

    /// Whether the connection is InfiniBand's, whose owner moves the queue pair through its
    /// states; on iWARP the driver does when it connects or accepts.
    pub(crate) fn uses_ib_cm(&self) -> bool {
        let device = self.raw_device();
        // SAFETY: An id that has a device keeps it.
        !device.is_null() && unsafe { bindings::rdma_cap_ib_cm(device, self.port()) }
    }

    /// Returns the local address; after binding or resolving. A link-local address gets its scope, which
    /// `cma_save_ip6_info()` does not set for a request.
    ///
    /// # Errors
    ///
    /// `EAFNOSUPPORT` before.
    pub(crate) fn local_addr(&self) -> Result<SockAddr> {
        // SAFETY: `self` is a valid id, whose addresses have all the room of a `sockaddr_storage`.
        let addr = unsafe { SockAddr::from_storage(&raw const (*self.raw()).route.addr.src_addr) };
        addr.map(|addr| addr.with_scope(self.bound_ifindex()))
    }

    /// Returns the index of the network interface that the id is bound to; 0 for none.
    fn bound_ifindex(&self) -> u32 {
        // SAFETY: `self` is a valid id.
        let index = unsafe {
            ptr::read_volatile(&raw const (*self.raw()).route.addr.dev_addr.bound_dev_if)
        };
        u32::try_from(index).unwrap_or(0)
    }

    /// Returns the peer's address; after resolving or with a request. As [`Self::local_addr`].
    ///
    /// # Errors
    ///
    /// `EAFNOSUPPORT` before.
    pub(crate) fn peer_addr(&self) -> Result<SockAddr> {
        // SAFETY: As in `local_addr`.
        let addr = unsafe { SockAddr::from_storage(&raw const (*self.raw()).route.addr.dst_addr) };
        addr.map(|addr| addr.with_scope(self.bound_ifindex()))
    }
}

/// A few words on a positive reason of [`CmEvent::Rejected`]. Any context.
pub(crate) fn reject_reason_text(reason: i32) -> &'static CStr {
    // SAFETY: Any number will do, and the text is ib_cm's for ever.
    unsafe { CStr::from_char_ptr(bindings::ibcm_reject_msg(reason)) }
}

/// An id whose handler is running, or kept from it.
///
/// # Invariants
///
/// The handler lock of the id is held by this task as long as a reference lasts.
#[repr(transparent)]
pub(crate) struct LockedCmId(CmIdRef, NotThreadSafe);

impl LockedCmId {
    /// # Safety
    ///
    /// `raw` is a valid id whose handler lock this task holds, both as long as the result is used.
    unsafe fn from_raw<'a>(raw: *mut bindings::rdma_cm_id) -> &'a Self {
        // INVARIANT: By this function's contract.
        // SAFETY: By this function's contract; `LockedCmId` has the layout of an id.
        unsafe { &*raw.cast() }
    }

    /// Asks the peer for a connection; ends in [`CmEvent::ConnectResponse`],
    /// [`CmEvent::Established`], [`CmEvent::Rejected`] or [`CmEvent::Failed`].
    ///
    /// # Errors
    ///
    /// `EINVAL` before the route is resolved or for too much private data, `ENOMEM`, the device's.
    pub(crate) fn connect(&self, param: &ConnParam<'_>) -> Result {
        let mut param = param.to_raw()?;
        // SAFETY: `self` is a valid id and locked; the private data is copied.
        to_result(unsafe { bindings::rdma_connect_locked(self.raw(), &mut param) })
    }

    /// Takes a connection request; ends in [`CmEvent::Established`].
    ///
    /// The queue pair of `param` must be ready to receive and, on InfiniBand, to send.
    ///
    /// # Errors
    ///
    /// `EINVAL` when there is none to take, `ENOMEM`, the device's. The peer is told that it was
    /// rejected then.
    pub(crate) fn accept(&self, param: &ConnParam<'_>) -> Result {
        let mut param = param.to_raw()?;
        // SAFETY: `self` is a valid id and locked; the private data is copied.
        to_result(unsafe { bindings::rdma_accept(self.raw(), &mut param) })
    }

    /// Takes a connection response: from then on there is a connection, and no further event says
    /// so. The queue pair must be ready to send.
    ///
    /// # Errors
    ///
    /// As for [`Self::accept`].
    pub(crate) fn complete_response(&self) -> Result {
        // SAFETY: `self` is a valid id and locked. No parameters stand for a response.
        to_result(unsafe { bindings::rdma_accept(self.raw(), ptr::null_mut()) })
    }
}

impl Deref for LockedCmId {
    type Target = CmIdRef;

    fn deref(&self) -> &CmIdRef {
        &self.0
    }
}

/// Keeps an id locked.
///
/// # Invariants
///
/// This task holds the handler lock of `id`.
pub(crate) struct CmIdGuard<'a> {
    id: &'a CmId,
    _task: NotThreadSafe,
}

impl Deref for CmIdGuard<'_> {
    type Target = LockedCmId;

    fn deref(&self) -> &LockedCmId {
        // SAFETY: By the invariant the id is locked as long as `self`.
        unsafe { LockedCmId::from_raw(self.id.raw.as_ptr()) }
    }
}

impl Drop for CmIdGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: By the invariant this task holds the lock.
        unsafe { bindings::rdma_unlock_handler(self.id.raw.as_ptr()) };
    }
}
