// SPDX-License-Identifier: GPL-2.0

//! Reliably connected queue pairs.
//!
//! A queue pair is not bound to an rdma_cm id, because receives are posted before there is a path:
//! its owner moves it through its states, with attributes that [`cm`](super::cm) fills in.

use super::{
    cq::Cq,
    mr::Access,
    pd::Pd,
    prelude::*,
    srq::Srq,
    wr::{
        PostFn,
        RecvWr,
        RemoteAddr,
        SendFlags,
        SendWr,
        WrOp, //
    },
};
use crate::compat::{
    synchronize_rcu,
    EOPNOTSUPP, //
};

/// Capacities of a queue pair: requested, or granted by the driver.
pub(crate) use bindings::ib_qp_cap as QpCaps;

/// Receives the asynchronous events of a queue pair.
pub(crate) trait QpEventHandler: Send + Sync {
    /// Handles an event of the queue pair with number `number`. Called in any context, with driver locks held: it
    /// must neither sleep nor post.
    fn handle_event(&self, number: u32, event: QpEvent);
}

/// An asynchronous event of a queue pair.
pub(crate) enum QpEvent {
    /// The queue pair is in the error state and takes no more receives from its shared receive
    /// queue; the ones it had taken have completed. May be raised more than once; siw does not
    /// raise it.
    LastWqeReached,
    /// The peer violated the protocol or an access right, and the queue pair is in the error state;
    /// the text describes the event.
    PeerViolation(&'static CStr),
    /// Another event of `enum ib_event_type`.
    Other,
}

impl QpEvent {
    fn from_raw(event: bindings::ib_event_type) -> Self {
        match event {
            bindings::ib_event_type_IB_EVENT_QP_LAST_WQE_REACHED => Self::LastWqeReached,
            bindings::ib_event_type_IB_EVENT_QP_REQ_ERR
            | bindings::ib_event_type_IB_EVENT_QP_ACCESS_ERR => {
                // SAFETY: The function takes any number, and its text is static in the RDMA core.
                Self::PeerViolation(unsafe { CStr::from_char_ptr(bindings::ib_event_msg(event)) })
            }
            _ => Self::Other,
        }
    }
}

/// A reliably connected queue pair.
///
/// # Invariants
///
/// - `raw` is a queue pair in `pd` that completes into `_send_cq` and `_recv_cq`, and takes
///   receives from `_srq` if there is one.
/// - `ib_post_send` and `ib_post_recv` are the operations of its device that the kernel's functions
///   of these names call.
/// - The context of `raw` points to `_events`, which is dropped after `raw`.
// Fields used by posts come first, in one cache line.
#[repr(C)]
pub(crate) struct Qp {
    pub(super) raw: NonNull<bindings::ib_qp>,
    pub(super) ib_post_send: PostFn<bindings::ib_qp, bindings::ib_send_wr>,
    pub(super) ib_post_recv: PostFn<bindings::ib_qp, bindings::ib_recv_wr>,
    pd: Arc<Pd>,
    caps: QpCaps,
    _events: KBox<dyn QpEventHandler>,
    _send_cq: Arc<Cq>,
    _recv_cq: Arc<Cq>,
    _srq: Option<Arc<Srq>>,
}

// SAFETY: Any thread may use and destroy a queue pair.
unsafe impl Send for Qp {}

// SAFETY: Drivers serialise concurrent posts and modifications.
unsafe impl Sync for Qp {}

impl Qp {
    /// Creates a queue pair. A send request without `SendFlag::Signaled` generates a completion only
    /// if it fails. With `srq`, the queue pair takes its receives from that queue and has no receive
    /// queue of its own.
    ///
    /// # Errors
    ///
    /// `EINVAL` when `pd` and a completion queue belong to different devices, `srq` belongs to
    /// another protection domain, or the device cannot grant `caps`; `EOPNOTSUPP` when the driver
    /// has no post operations; `ENOMEM`, and the driver's errors.
    // Not inlined: `ib_qp_init_attr` is large.
    #[inline(never)]
    pub(crate) fn new<E: QpEventHandler + 'static>(
        pd: Arc<Pd>,
        send_cq: Arc<Cq>,
        recv_cq: Arc<Cq>,
        srq: Option<Arc<Srq>>,
        caps: &QpCaps,
        events: E,
    ) -> Result<Self> {
        if srq.as_ref().is_some_and(|srq| !Arc::ptr_eq(srq.pd(), &pd)) {
            return Err(EINVAL);
        }
        if !pd.is_on(send_cq.device()) || !pd.is_on(recv_cq.device()) {
            return Err(EINVAL);
        }
        // SAFETY: A `DeviceRef` keeps the device registered.
        let ops = unsafe { &(*pd.device().raw()).ops };
        let (Some(ib_post_send), Some(ib_post_recv)) = (ops.post_send, ops.post_recv) else {
            return Err(EOPNOTSUPP);
        };
        let events = KBox::new(events, GFP_KERNEL)?;
        let mut attr = bindings::ib_qp_init_attr {
            event_handler: Some(event::<E>),
            qp_context: ptr::from_ref(&*events).cast_mut().cast(),
            send_cq: send_cq.raw(),
            recv_cq: recv_cq.raw(),
            srq: srq.as_ref().map_or(ptr::null_mut(), |srq| srq.raw()),
            cap: *caps,
            sq_sig_type: bindings::ib_sig_type_IB_SIGNAL_REQ_WR,
            qp_type: bindings::ib_qp_type_IB_QPT_RC,
            ..pin_init::zeroed()
        };
        // SAFETY: The protection domain, all queues and the context outlive the queue pair. The
        // handler is instantiated for the type of the context.
        let raw = unsafe {
            bindings::ib_create_qp_kernel(pd.raw(), &mut attr, super::OWNER.as_char_ptr())
        };
        let raw = NonNull::new(from_err_ptr(raw)?).ok_or(ENOMEM)?;
        // INVARIANT: By construction.
        Ok(Self {
            raw,
            ib_post_send,
            ib_post_recv,
            // The driver has replaced the requested capacities by the granted ones.
            caps: attr.cap,
            _events: events,
            _send_cq: send_cq,
            _recv_cq: recv_cq,
            _srq: srq,
            pd,
        })
    }

    fn raw(&self) -> *mut bindings::ib_qp {
        self.raw.as_ptr()
    }

    /// Returns the protection domain of the queue pair.
    pub(crate) fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// Returns the granted capacities, which are at least the requested ones.
    pub(crate) fn caps(&self) -> &QpCaps {
        &self.caps
    }

    /// Returns the address that identifies the queue pair in its completions while it exists; see
    /// [`Wc::qp`](super::cq::Wc::qp).
    pub(crate) fn raw_addr(&self) -> usize {
        self.raw() as usize
    }

    /// Returns the queue pair number, which the peer needs to connect.
    pub(crate) fn qp_num(&self) -> u32 {
        // SAFETY: By the invariant `raw` is valid; the number does not change.
        unsafe { (*self.raw()).qp_num }
    }

    /// Changes the queue pair's state or attributes.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a transition that the current state does not allow, and the driver's errors.
    // Not inlined: an `ib_qp_attr` is large, and callers have one of their own.
    #[inline(never)]
    pub(super) fn modify(&self, attr: &QpAttr) -> Result {
        let mut raw = attr.raw;
        // SAFETY: By the invariant `raw` is valid. The attributes are a local copy.
        to_result(unsafe { bindings::ib_modify_qp(self.raw(), &mut raw, attr.mask) })
    }

    /// Moves the queue pair to INIT, where receives can be posted, and grants the peer `access`.
    ///
    /// [`cm`](super::cm) repeats this transition with the port of the connection's path, which may
    /// be another one.
    ///
    /// # Errors
    ///
    /// Errors of [`Self::modify`].
    #[inline(never)]
    pub(crate) fn init(&self, port: u32, access: Access) -> Result {
        let mut attr = QpAttr::new(bindings::ib_qp_state_IB_QPS_INIT);
        attr.raw.port_num = port;
        attr.mask |= bindings::ib_qp_attr_mask_IB_QP_PORT as c_int
            | bindings::ib_qp_attr_mask_IB_QP_PKEY_INDEX as c_int;
        attr.set_access(access);
        self.modify(&attr)
    }

    /// Moves the queue pair to the error state: all posted requests complete with
    /// [`WR_FLUSH_ERR`](super::cq::WcStatus::WR_FLUSH_ERR).
    ///
    /// # Errors
    ///
    /// Errors of the driver.
    pub(crate) fn to_error(&self) -> Result {
        self.modify(&QpAttr::new(bindings::ib_qp_state_IB_QPS_ERR))
    }

    /// Posts to the send queue. Any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when the queue is full, `EINVAL` for an invalid request and in a state that does not
    /// permit the post, and the driver's errors. After an error the request is not posted.
    ///
    /// # Safety
    ///
    /// The scatter/gather entries of the request lie in live DMA mappings, and their memory belongs
    /// to the operation until it completes or the queue pair is dropped: it is neither freed nor
    /// unmapped, and if the operation writes it, no other code accesses it. Inline data is readable
    /// during this call. A region that the request registers exists as long as its key is in use.
    #[inline(always)]
    pub(crate) unsafe fn post_send(&self, wr: &SendWr<'_>) -> Result {
        let mut bad = ptr::null();
        // SAFETY: By the invariant `raw` is valid and `ib_post_send` is its device's operation; `wr`
        // is a single request, and the caller guarantees its memory.
        let err = unsafe { (self.ib_post_send)(self.raw(), wr.as_ptr(), &mut bad) };
        post_result(err)
    }

    /// Posts to the receive queue. Any context.
    ///
    /// # Errors
    ///
    /// As for [`Self::post_send`].
    ///
    /// # Safety
    ///
    /// As for [`Self::post_send`]: the operation writes the memory until it completes.
    #[inline(always)]
    pub(crate) unsafe fn post_recv(&self, wr: &RecvWr<'_>) -> Result {
        let mut bad = ptr::null();
        // SAFETY: As in `post_send`.
        let err = unsafe { (self.ib_post_recv)(self.raw(), wr.as_ptr(), &mut bad) };
        post_result(err)
    }

    /// Posts an RDMA write of zero length. Any context; errors as for [`Self::post_send`].
    pub(crate) fn post_empty_write(&self, wr_id: u64, flags: SendFlags) -> Result {
        let remote = RemoteAddr { addr: 0, rkey: 0 };
        let wr = SendWr::new(wr_id, &[], WrOp::Write(remote), flags);
        // SAFETY: The request has no memory.
        unsafe { self.post_send(&wr) }
    }

    /// Stops the arrival of packets before the destruction of an rxe queue pair. May sleep.
    ///
    /// rxe adds a packet, which holds a reference, to a list of the queue pair, and then wakes the
    /// task that empties the list (`rxe_resp_queue_pkt()`, `rxe_comp_queue_pkt()`). A task that is
    /// already running may drop the last reference in between, and the wakeup uses freed memory. A
    /// queue pair in the reset state accepts no packet; the grace period lets callers that are
    /// already between the two steps finish.
    fn stop_packets(&self) {
        let reset = QpAttr::new(bindings::ib_qp_state_IB_QPS_RESET);
        let _ = self.modify(&reset);
        // RCU readers deliver packets from the network. The task of a peer on this device delivers
        // its packets outside of RCU: a preemption there for a whole grace period is unlikely.
        synchronize_rcu();
        // A packet that arrived while the tasks were stopped for the first reset has woken none of
        // them; without another reset, rxe would wait for its reference forever.
        let _ = self.modify(&reset);
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        if self.pd.device().is_rxe {
            self.stop_packets();
        }
        // SAFETY: By the invariant `raw` is valid. When this returns, no handler runs, no request
        // completes any more, and no memory is accessed.
        let err = unsafe { bindings::ib_destroy_qp_user(self.raw(), ptr::null_mut()) };
        kernel::warn_on!(err != 0);
    }
}

/// Converts an errno like [`to_result`], with a fast path for success.
#[inline]
pub(super) fn post_result(err: c_int) -> Result {
    if err == 0 {
        return Ok(());
    }
    to_result(err)
}

/// Passes an event from the driver to the handler that is the context of the queue pair.
///
/// # Safety
///
/// Called by the driver of a queue pair whose context is a valid `E`.
unsafe extern "C" fn event<E: QpEventHandler>(
    event: *mut bindings::ib_event,
    context: *mut c_void,
) {
    // SAFETY: By this function's contract, and drivers pass a valid event.
    let (events, kind) = unsafe { (&*context.cast::<E>(), (*event).event) };
    // SAFETY: As above; an event of a queue pair carries the queue pair.
    let number = unsafe { (*(*event).element.qp).qp_num };
    events.handle_event(number, QpEvent::from_raw(kind));
}

/// Attributes of a state transition of a queue pair, and the mask of the attributes that are set.
pub(super) struct QpAttr {
    pub(super) raw: bindings::ib_qp_attr,
    pub(super) mask: c_int,
}

impl QpAttr {
    /// Returns a transition to `qp_state` without other attributes.
    pub(super) fn new(qp_state: bindings::ib_qp_state) -> Self {
        Self {
            raw: bindings::ib_qp_attr {
                qp_state,
                ..pin_init::zeroed()
            },
            mask: bindings::ib_qp_attr_mask_IB_QP_STATE as c_int,
        }
    }

    /// Sets the traffic class of a RoCE path; InfiniBand has service levels instead.
    pub(super) fn set_traffic_class(&mut self, class: u8) {
        if self.raw.ah_attr.type_ == bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE {
            self.raw.ah_attr.grh.traffic_class = class;
        }
    }

    /// Sets the remote accesses that the peer may perform.
    pub(super) fn set_access(&mut self, access: Access) {
        self.raw.qp_access_flags = u32::from(access) as c_int;
        self.mask |= bindings::ib_qp_attr_mask_IB_QP_ACCESS_FLAGS as c_int;
    }
}
