// SPDX-License-Identifier: GPL-2.0

//! Reliably connected queue pairs.
//!
//! The queue pair is not bound to an rdma_cm id, because receives are posted before there is a
//! path: its owner moves it through its states, with attributes that
//! [`cm`](super::cm) fills in.

use super::{
    cq::Cq,
    mr::Access,
    pd::Pd,
    srq::Srq,
    wr::{
        RecvWr,
        RemoteAddr,
        SendFlags,
        SendWr, //
    },
};
use crate::{
    bindings,
    compat::{
        synchronize_rcu,
        EOPNOTSUPP, //
    },
};
use core::ptr::{
    self,
    NonNull, //
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*,
    sync::Arc, //
};

/// What a queue pair is asked to hold, and what it was given.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct QpCaps {
    pub(crate) max_send_wr: u32,
    pub(crate) max_recv_wr: u32,
    pub(crate) max_send_sge: u32,
    pub(crate) max_recv_sge: u32,
    pub(crate) max_inline_data: u32,
}

/// Who is told what happens to a queue pair besides completions.
pub(crate) trait QpEventHandler: Send + Sync {
    /// Called in any context, with drivers' locks held: it must neither sleep nor post.
    fn handle_event(&self, number: u32, event: QpEvent);
}

impl<T: QpEventHandler + ?Sized> QpEventHandler for Arc<T> {
    fn handle_event(&self, number: u32, event: QpEvent) {
        (**self).handle_event(number, event)
    }
}

/// What happened to a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum QpEvent {
    /// A message came before the connection was known to be there: tell
    /// [`cm`](super::cm::IdRef::notify_established).
    CommEstablished,
    /// No completion can say what broke it, and the queue pair is in the error state.
    Fatal,
    /// It is in the error state, and takes nothing from its shared receive queue any more; what it had
    /// taken has come back. Told more than once, and not by siw.
    LastWqeReached,
    /// As the second, and it was the peer, with what it may not. In a few words.
    PeerViolation(&'static CStr),
    /// Another `enum ib_event_type`.
    Other(u32),
}

impl QpEvent {
    fn from_raw(event: bindings::ib_event_type) -> Self {
        match event {
            bindings::ib_event_type_IB_EVENT_COMM_EST => Self::CommEstablished,
            bindings::ib_event_type_IB_EVENT_QP_FATAL => Self::Fatal,
            bindings::ib_event_type_IB_EVENT_QP_LAST_WQE_REACHED => Self::LastWqeReached,
            bindings::ib_event_type_IB_EVENT_QP_REQ_ERR
            | bindings::ib_event_type_IB_EVENT_QP_ACCESS_ERR => {
                // SAFETY: Any number will do, and the text is the RDMA core's for ever.
                Self::PeerViolation(unsafe { CStr::from_char_ptr(bindings::ib_event_msg(event)) })
            }
            other => Self::Other(other),
        }
    }
}

pub(super) type PostSendFn = unsafe extern "C" fn(
    *mut bindings::ib_qp,
    *const bindings::ib_send_wr,
    *mut *const bindings::ib_send_wr,
) -> c_int;
pub(super) type PostRecvFn = unsafe extern "C" fn(
    *mut bindings::ib_qp,
    *const bindings::ib_recv_wr,
    *mut *const bindings::ib_recv_wr,
) -> c_int;

/// A reliably connected queue pair.
///
/// # Invariants
///
/// - `raw` is a queue pair in `pd`, which completes into `_send_cq` and `_recv_cq`, and takes its receives
///   from `_srq` if there is one.
/// - `post_send` and `post_recv` are its device's operations.
/// - The context of `raw` is what `_events` points to, which is dropped after `raw`.
// What a post needs comes first, in one cache line.
#[repr(C)]
pub(crate) struct Qp {
    raw: NonNull<bindings::ib_qp>,
    post_send: PostSendFn,
    post_recv: PostRecvFn,
    pd: Arc<Pd>,
    local_dma_lkey: u32,
    caps: QpCaps,
    _events: KBox<dyn QpEventHandler>,
    _send_cq: Arc<Cq>,
    _recv_cq: Arc<Cq>,
    _srq: Option<Arc<Srq>>,
}

// SAFETY: A queue pair may be used and destroyed by any thread.
unsafe impl Send for Qp {}

// SAFETY: Drivers lock what posting and modifying at the same time touch.
unsafe impl Sync for Qp {}

impl Qp {
    /// Makes a queue pair. Sends say for themselves whether their success is reported.
    ///
    /// # Errors
    ///
    /// `EINVAL` when the three belong to different devices or the device does not have as much as
    /// `caps` says, `ENOMEM`, and the driver's.
    pub(crate) fn new<E: QpEventHandler + 'static>(
        pd: Arc<Pd>,
        send_cq: Arc<Cq>,
        recv_cq: Arc<Cq>,
        caps: &QpCaps,
        events: E,
    ) -> Result<Self> {
        Self::with_srq(pd, send_cq, recv_cq, None, caps, events)
    }

    /// The same; what is received goes where `srq` says, if it is there: the queue pair has no receive queue
    /// of its own then.
    ///
    /// # Errors
    ///
    /// Those of [`Self::new`].
    pub(crate) fn with_srq<E: QpEventHandler + 'static>(
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
        // SAFETY: The device is registered as long as it is used.
        let ops = unsafe { &(*pd.device().raw()).ops };
        let (Some(post_send), Some(post_recv)) = (ops.post_send, ops.post_recv) else {
            return Err(EOPNOTSUPP);
        };
        let events = KBox::new(events, GFP_KERNEL)?;
        let mut attr = bindings::ib_qp_init_attr {
            event_handler: Some(event::<E>),
            qp_context: ptr::from_ref(&*events).cast_mut().cast(),
            send_cq: send_cq.raw(),
            recv_cq: recv_cq.raw(),
            srq: srq.as_ref().map_or(ptr::null_mut(), |srq| srq.raw()),
            cap: bindings::ib_qp_cap {
                max_send_wr: caps.max_send_wr,
                max_recv_wr: caps.max_recv_wr,
                max_send_sge: caps.max_send_sge,
                max_recv_sge: caps.max_recv_sge,
                max_inline_data: caps.max_inline_data,
                max_rdma_ctxs: 0,
            },
            sq_sig_type: bindings::ib_sig_type_IB_SIGNAL_REQ_WR,
            qp_type: bindings::ib_qp_type_IB_QPT_RC,
            ..pin_init::zeroed()
        };
        // SAFETY: The protection domain and all queues are valid, and outlive the queue pair. The
        // handler is made for the type that the context points to, which does too.
        let raw = unsafe {
            bindings::ib_create_qp_kernel(pd.raw(), &mut attr, super::OWNER.as_char_ptr())
        };
        let raw = NonNull::new(from_err_ptr(raw)?).ok_or(ENOMEM)?;
        // INVARIANT: By construction.
        Ok(Self {
            raw,
            post_send,
            post_recv,
            // Drivers put there what they have really given.
            caps: QpCaps {
                max_send_wr: attr.cap.max_send_wr,
                max_recv_wr: attr.cap.max_recv_wr,
                max_send_sge: attr.cap.max_send_sge,
                max_recv_sge: attr.cap.max_recv_sge,
                max_inline_data: attr.cap.max_inline_data,
            },
            _events: events,
            _send_cq: send_cq,
            _recv_cq: recv_cq,
            _srq: srq,
            local_dma_lkey: pd.local_dma_lkey(),
            pd,
        })
    }

    /// What posts to its send queue.
    pub(super) fn post_send_op(&self) -> (NonNull<bindings::ib_qp>, PostSendFn) {
        (self.raw, self.post_send)
    }

    /// What posts to its receive queue.
    pub(super) fn post_recv_op(&self) -> (NonNull<bindings::ib_qp>, PostRecvFn) {
        (self.raw, self.post_recv)
    }

    fn raw(&self) -> *mut bindings::ib_qp {
        self.raw.as_ptr()
    }

    /// The protection domain that this is in.
    pub(crate) fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// That of [`Self::pd`].
    #[inline]
    pub(crate) fn local_dma_lkey(&self) -> u32 {
        self.local_dma_lkey
    }

    /// What the queue pair holds: at least what was asked for.
    pub(crate) fn caps(&self) -> &QpCaps {
        &self.caps
    }

    /// What its completions name it by, as long as it is there; see [`Wc::qp`](super::cq::Wc::qp).
    pub(crate) fn raw_addr(&self) -> usize {
        self.raw() as usize
    }

    /// The number that the peer needs.
    pub(crate) fn qp_num(&self) -> u32 {
        // SAFETY: By the invariant `raw` is valid; the number does not change.
        unsafe { (*self.raw()).qp_num }
    }

    /// Changes the queue pair's state or attributes.
    ///
    /// # Errors
    ///
    /// `EINVAL` when there is no way from its state to the one asked for, and the driver's.
    pub(crate) fn modify(&self, attr: &QpAttr) -> Result {
        let mut raw = attr.raw;
        // SAFETY: By the invariant `raw` is valid. The attributes are a copy, of ours alone.
        to_result(unsafe { bindings::ib_modify_qp(self.raw(), &mut raw, attr.mask) })
    }

    /// Lets receives be posted, and peers do what `access` says once there is a connection.
    ///
    /// The port may be another one when [`cm`](super::cm) has chosen the path: the same again,
    /// with that one, is allowed.
    ///
    /// # Errors
    ///
    /// Those of [`Self::modify`].
    pub(crate) fn init(&self, port: u32, access: Access) -> Result {
        let mut attr = QpAttr::new(QpState::Init);
        attr.raw.port_num = port;
        attr.mask |= bindings::ib_qp_attr_mask_IB_QP_PORT as c_int
            | bindings::ib_qp_attr_mask_IB_QP_PKEY_INDEX as c_int;
        attr.set_access(access);
        self.modify(&attr)
    }

    /// Ends all transfers: whatever is posted completes with
    /// [`WR_FLUSH_ERR`](super::cq::WcStatus::WR_FLUSH_ERR).
    ///
    /// # Errors
    ///
    /// The driver's.
    pub(crate) fn to_error(&self) -> Result {
        self.modify(&QpAttr::new(QpState::Error))
    }

    /// Posts to the send queue. Any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when the queue is full, `EINVAL` when the request or the state is not right for it,
    /// and the driver's. Nothing has been posted then.
    ///
    /// # Safety
    ///
    /// The request's memory is that of the DMA mappings its pieces name, and belongs to the
    /// operation until it completes or the queue pair is dropped: nobody frees or unmaps it, and if
    /// it is written, nobody else accesses it. What is posted inline is readable during this call.
    /// A region that is registered stays as long as its key is in use.
    #[inline(always)]
    pub(crate) unsafe fn post_send(&self, wr: &SendWr<'_>) -> Result {
        let mut bad = ptr::null();
        // SAFETY: By the invariant `raw` is valid and `post_send` its device's; `wr` is a single
        // request, and the caller answers for its memory.
        let err = unsafe { (self.post_send)(self.raw(), wr.as_ptr(), &mut bad) };
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
    /// As for [`Self::post_send`]: the memory is written until it completes.
    #[inline(always)]
    pub(crate) unsafe fn post_recv(&self, wr: &RecvWr<'_>) -> Result {
        let mut bad = ptr::null();
        // SAFETY: As in `post_send`.
        let err = unsafe { (self.post_recv)(self.raw(), wr.as_ptr(), &mut bad) };
        post_result(err)
    }
}

impl Qp {
    /// Writes nothing to the peer's memory, unsignalled. Any context; errors as for
    /// [`Self::post_send`].
    pub(crate) fn post_empty_write(&self, wr_id: u64) -> Result {
        let nowhere = RemoteAddr { addr: 0, rkey: 0 };
        let wr = SendWr::write(wr_id, &[], nowhere, SendFlags::default());
        // SAFETY: The request has no memory.
        unsafe { self.post_send(&wr) }
    }
}

/// [`to_result`], but for a call that nearly always succeeds.
#[inline]
pub(super) fn post_result(err: c_int) -> Result {
    if err == 0 {
        return Ok(());
    }
    to_result(err)
}

impl Qp {
    /// Ends the arrival of packets. May sleep.
    ///
    /// rxe puts a packet and the reference it holds into the queue pair's list, and wakes the task
    /// that empties the list thereafter (`rxe_resp_queue_pkt()`, `rxe_comp_queue_pkt()`). A task
    /// that was running anyway may drop that reference in between; when it was the last one, what
    /// is woken has been freed. A queue pair that has been reset takes no packet, so that nobody
    /// comes to that place any more, and who is there has time to leave it.
    fn stop_packets(&self) {
        let reset = QpAttr::new(QpState::Reset);
        let _ = self.modify(&reset);
        // Packets from the network are handed over by RCU readers. Those of a peer on this device
        // come from its task: that may be preempted there, but hardly for a grace period.
        synchronize_rcu();
        // What came while the tasks were stopped for the first reset has woken none, and rxe would
        // wait for its reference in vain.
        let _ = self.modify(&reset);
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        if self.pd.device().is_rxe() {
            self.stop_packets();
        }
        // SAFETY: By the invariant `raw` is valid. When this returns no handler runs, nothing more
        // is completed, and no memory is accessed.
        let err = unsafe { bindings::ib_destroy_qp_user(self.raw(), ptr::null_mut()) };
        kernel::warn_on!(err != 0);
    }
}

/// # Safety
///
/// Called by the driver of a queue pair whose context is a valid `E`.
unsafe extern "C" fn event<E: QpEventHandler>(
    event: *mut bindings::ib_event,
    context: *mut c_void,
) {
    // SAFETY: By this function's contract, and drivers pass a valid event.
    let (events, kind) = unsafe { (&*context.cast::<E>(), (*event).event) };
    // SAFETY: As above; an event of a queue pair has that one.
    let number = unsafe { (*(*event).element.qp).qp_num };
    events.handle_event(number, QpEvent::from_raw(kind));
}

/// The states that a queue pair's owner moves it to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum QpState {
    /// Nothing is posted, and nothing comes from the peer: as it was made.
    Reset,
    /// Receives can be posted.
    Init,
    /// Messages are received: ready to receive.
    Rtr,
    /// Sends can be posted: ready to send.
    Rts,
    /// Everything is flushed.
    Error,
}

impl QpState {
    pub(super) fn as_raw(self) -> bindings::ib_qp_state {
        match self {
            Self::Reset => bindings::ib_qp_state_IB_QPS_RESET,
            Self::Init => bindings::ib_qp_state_IB_QPS_INIT,
            Self::Rtr => bindings::ib_qp_state_IB_QPS_RTR,
            Self::Rts => bindings::ib_qp_state_IB_QPS_RTS,
            Self::Error => bindings::ib_qp_state_IB_QPS_ERR,
        }
    }
}

/// A change of a queue pair: attributes, and which of them count.
pub(crate) struct QpAttr {
    pub(super) raw: bindings::ib_qp_attr,
    pub(super) mask: c_int,
}

impl QpAttr {
    /// A change of the state and nothing else.
    pub(crate) fn new(state: QpState) -> Self {
        Self {
            raw: bindings::ib_qp_attr {
                qp_state: state.as_raw(),
                ..pin_init::zeroed()
            },
            mask: bindings::ib_qp_attr_mask_IB_QP_STATE as c_int,
        }
    }

    fn has(&self, bit: bindings::ib_qp_attr_mask) -> bool {
        self.mask & bit as c_int != 0
    }

    /// What the peer may do.
    pub(crate) fn set_access(&mut self, access: Access) {
        self.raw.qp_access_flags = u32::from(access) as c_int;
        self.mask |= bindings::ib_qp_attr_mask_IB_QP_ACCESS_FLAGS as c_int;
    }

    /// How many reads and atomics of ours may be under way, where this change has the attribute.
    pub(crate) fn limit_rd_atomic(&mut self, most: u8) {
        if self.has(bindings::ib_qp_attr_mask_IB_QP_MAX_QP_RD_ATOMIC) {
            self.raw.max_rd_atomic = most;
        }
    }

    /// How many of the peer's are answered at a time, where this change has the attribute.
    pub(crate) fn limit_dest_rd_atomic(&mut self, most: u8) {
        if self.has(bindings::ib_qp_attr_mask_IB_QP_MAX_DEST_RD_ATOMIC) {
            self.raw.max_dest_rd_atomic = most;
        }
    }
}
