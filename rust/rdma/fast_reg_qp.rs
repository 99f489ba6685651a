// SPDX-License-Identifier: GPL-2.0

//! Queue pairs that execute only fast registration and local invalidation of memory.
//!
//! Devices execute these requests only on a queue pair that is ready to send, and thus connected.
//! On InfiniBand and RoCE the queue pair is connected to itself; on iWARP, which does not allow
//! that, to a second one on the same device. No message is sent over the connection.

use super::{
    completion::TimedCompletion,
    cq::{
        Cq,
        CqNotify,
        CqPoller, //
    },
    device_attr::Protocol,
    iwarp_loopback::LoopbackConn,
    mr::{
        Access,
        FastMr, //
    },
    pd::Pd,
    prelude::*,
    qp::{
        Qp,
        QpAttr,
        QpCaps,
        QpEvent,
        QpEventHandler, //
    },
    wr::{
        SendFlag,
        SendWr, //
    },
};
use kernel::time::msecs_to_jiffies;

/// Timeout of a request: siw stops without a completion after a request that failed.
const EXECUTE_TIMEOUT_MS: u32 = 10_000;

/// Capacities for one outstanding request; drivers reserve some entries for themselves.
const QP_CAPS: QpCaps = QpCaps {
    max_send_wr: 2,
    max_recv_wr: 1,
    max_send_sge: 1,
    max_recv_sge: 1,
    max_inline_data: 0,
    max_rdma_ctxs: 0,
};

/// Entries for the send and receive queues of both queue pairs.
const CQ_ENTRIES: u32 = 8;

/// Ignores queue pair events, because completions report all errors.
struct NoQpEvents;

impl QpEventHandler for NoQpEvents {
    fn handle_event(&self, _number: u32, _event: QpEvent) {}
}

/// A queue pair for registering and invalidating [`FastMr`]s.
///
/// Each request consumes the object and returns it after success. After a failure the device may
/// still execute the request later; dropping the object destroys the queue pair, which prevents
/// that.
pub(crate) struct FastRegQp {
    // Fields are dropped in this order.
    _loopback: Option<(LoopbackConn, Qp)>,
    qp: Qp,
    cq: CqPoller,
    completion: Arc<TimedCompletion>,
}

impl FastRegQp {
    /// Creates and connects the queue pair. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, on iWARP errors of [`LoopbackConn::connect`], and the driver's
    /// errors.
    #[inline(never)]
    pub(crate) fn new(pd: &Arc<Pd>) -> Result<Self> {
        let completion = Arc::pin_init(TimedCompletion::new(), GFP_KERNEL)?;
        let cq = Cq::new(pd.device().clone(), CQ_ENTRIES, 0, completion.clone())?;
        let new_qp = || {
            Qp::new(
                pd.clone(),
                cq.clone(),
                cq.clone(),
                None,
                &QP_CAPS,
                NoQpEvents,
            )
        };
        let qp = new_qp()?;
        let loopback = match pd.device().protocol {
            Protocol::Iwarp => {
                let peer = new_qp()?;
                Some((LoopbackConn::connect(pd.device(), &qp, &peer)?, peer))
            }
            _ => {
                connect_to_self(&qp)?;
                None
            }
        };
        Ok(Self {
            _loopback: loopback,
            qp,
            cq: cq.poller(),
            completion,
        })
    }

    /// Registers `mr`: its remote key then gives access to its memory. May sleep.
    ///
    /// # Errors
    ///
    /// `EIO` when the device rejects the request, `ETIMEDOUT`, and the driver's errors.
    #[inline(never)]
    pub(crate) fn register(self, mr: &FastMr) -> Result<Self> {
        self.execute(&SendWr::reg_mr(0, mr, SendFlag::Signaled.into()))
    }

    /// Invalidates the remote key of `mr`: no peer can access the memory by it any more. May sleep.
    ///
    /// # Errors
    ///
    /// As for [`Self::register`].
    pub(crate) fn invalidate(self, mr: &FastMr) -> Result<Self> {
        self.execute(&SendWr::local_inv(0, mr.rkey(), SendFlag::Signaled.into()))
    }

    fn execute(self, wr: &SendWr<'_>) -> Result<Self> {
        // SAFETY: The request has no memory of its own. The region that it names exists until this
        // returns. If the request has not completed by then, the queue pair is destroyed.
        unsafe { self.qp.post_send(wr) }?;
        let mut left = msecs_to_jiffies(EXECUTE_TIMEOUT_MS);
        loop {
            if let [wc] = self.cq.poll(&mut [MaybeUninit::uninit()])? {
                return if wc.is_success() { Ok(self) } else { Err(EIO) };
            }
            // A completion that came before the queue was armed is found by another poll.
            if self.cq.cq().req_notify(CqNotify::NextComp) {
                continue;
            }
            left = self.completion.wait_timeout(left);
            if left == 0 {
                return Err(ETIMEDOUT);
            }
        }
    }
}

/// Connects a queue pair to itself, so that it is ready to send. The connection permits no remote
/// access.
#[inline(never)]
fn connect_to_self(qp: &Qp) -> Result {
    let device = qp.pd().device();
    let port = device.first_port;
    qp.init(port, Access::default())?;

    let mut attr = QpAttr::new(bindings::ib_qp_state_IB_QPS_RTR);
    // SAFETY: A `DeviceRef` keeps the device registered, and `port` is one of its ports.
    to_result(unsafe { bindings::kofi_loopback_ah(device.raw(), port, &mut attr.raw.ah_attr) })?;
    attr.raw.path_mtu = bindings::ib_mtu_IB_MTU_256;
    attr.raw.dest_qp_num = qp.qp_num();
    attr.raw.max_dest_rd_atomic = 1;
    attr.mask |= (bindings::ib_qp_attr_mask_IB_QP_AV
        | bindings::ib_qp_attr_mask_IB_QP_PATH_MTU
        | bindings::ib_qp_attr_mask_IB_QP_DEST_QPN
        | bindings::ib_qp_attr_mask_IB_QP_RQ_PSN
        | bindings::ib_qp_attr_mask_IB_QP_MAX_DEST_RD_ATOMIC
        | bindings::ib_qp_attr_mask_IB_QP_MIN_RNR_TIMER) as c_int;
    qp.modify(&attr)?;

    let mut attr = QpAttr::new(bindings::ib_qp_state_IB_QPS_RTS);
    attr.raw.max_rd_atomic = 1;
    attr.mask |= (bindings::ib_qp_attr_mask_IB_QP_TIMEOUT
        | bindings::ib_qp_attr_mask_IB_QP_RETRY_CNT
        | bindings::ib_qp_attr_mask_IB_QP_RNR_RETRY
        | bindings::ib_qp_attr_mask_IB_QP_SQ_PSN
        | bindings::ib_qp_attr_mask_IB_QP_MAX_QP_RD_ATOMIC) as c_int;
    qp.modify(&attr)
}
