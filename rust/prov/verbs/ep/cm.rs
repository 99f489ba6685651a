// SPDX-License-Identifier: GPL-2.0

//! Connection setup and teardown of an endpoint.
//!
//! ```text
//! fi_connect   resolve address, resolve route, connect ── ConnectResponse ─┐
//!                                       (iWARP) Established ───────────────┤ FI_CONNECTED
//! fi_accept    accept ───────────────────────── Established ───────────────┘
//! ```
//!
//! The id of rdma_cm has no queue pair, because the endpoint's is older than the path. On
//! InfiniBand and RoCE the queue pair is moved through its states here, with the attributes that
//! rdma_cm computes; on iWARP the driver does it.

mod events;

use super::{
    super::{
        super::common::connreq::ConnReq as _,
        cm_data::new_frame,
        conn_state::{
            ConnState,
            ShutdownAction, //
        },
    },
    lingering_id, //
};
use crate::{
    compat::{
        EHOSTUNREACH,
        ENETUNREACH, //
    },
    prov::verbs::prelude::*,
    rdma::cm::{
        CmIdRef,
        QpParam, //
    },
    util::{
        context,
        noio::NoIo, //
    },
};

/// Timeout of rdma_cm's address resolution, and of its route resolution.
const RESOLVE_TIMEOUT_MS: u32 = 2000;

/// Encodes 0.64 ms as the delay of an RNR retry; rdma_cm's default is 655 ms.
const MIN_RNR_TIMER: u8 = 12;

/// Encodes 20.48 ms, for endpoints that share receives: all of their peers send again what was not received, which may
/// take the CPU time that posting receives needs.
const SHARED_MIN_RNR_TIMER: u8 = 22;

/// Returns whether the errno of a failed call means that there is no route to the peer.
fn is_unreachable(error: kernel::error::Error) -> bool {
    error == ENETUNREACH || error == EHOSTUNREACH || error == ENODEV || error == ETIMEDOUT
}

impl Endpoint {
    /// Starts a connection, for `fi_connect()`. The result is reported by the event queue.
    pub(super) fn start_connect(
        self: &Arc<Self>,
        to: Option<SockAddr>,
        private_data: &[u8],
    ) -> Result {
        let mut pending_data = KVec::new();
        let mut frame = new_frame();
        let bytes = self.options.cm_format().encode(private_data, &mut frame)?;
        pending_data.extend_from_slice(bytes, GFP_KERNEL)?;
        let link = self.conn.lock();
        let peer = to.or(link.peer_addr).ok_or(Errno::EINVAL)?;
        let local = link.local_addr;
        if link.connreq.is_some() {
            // The endpoint was opened to accept a connection request.
            return Err(Errno::EOPBADSTATE);
        }
        drop(link);
        self.begin_connecting()?;
        let fail = |errno: Errno, prov_errno| {
            let why = Some((errno, prov_errno));
            self.transition(ConnState::Connecting, ConnState::Enabled, why);
            Err(errno)
        };
        let id = match self.create_id() {
            Ok(id) => id,
            Err(errno) => return fail(errno, 0),
        };
        let mut link = self.conn.lock();
        link.id = Some(id.clone());
        link.peer_addr = Some(peer);
        link.pending_data = Some(pending_data);
        drop(link);
        self.addrs.set_peer(peer.into());
        match id.resolve_addr(local.as_ref(), &peer, RESOLVE_TIMEOUT_MS) {
            Ok(()) => Ok(()),
            // Reported by the event queue, like every other peer that cannot be reached.
            Err(error) if is_unreachable(error) => {
                self.report_connect_failure(Errno::EHOSTUNREACH, error.to_errno(), &[]);
                Ok(())
            }
            Err(error) => {
                self.conn.lock().id = None;
                fail(error.into(), error.to_errno())
            }
        }
    }

    fn create_id(self: &Arc<Self>) -> Result<Arc<CmId>> {
        let id = CmId::new(&self.domain.fabric().net, Some(self.clone()))?;
        let id = Arc::new(id, GFP_KERNEL)?;
        id.restrict_to(self.pd.device())?;
        self.set_id_options(&id)?;
        Ok(id)
    }

    /// Sets the timers and the traffic class of an id, before it connects or accepts.
    fn set_id_options(&self, id: &CmIdRef) -> Result {
        id.set_min_rnr_timer(match self.attrs.uses_srx {
            true => SHARED_MIN_RNR_TIMER,
            false => MIN_RNR_TIMER,
        })?;
        if let Some(timeout) = self.options.retries().ack_timeout {
            id.set_ack_timeout(timeout)?;
        }
        if let Some(class) = self.attrs.traffic_class {
            id.set_service_type(class);
        }
        Ok(())
    }

    /// Moves from [`ConnState::Enabled`] to [`ConnState::Connecting`].
    ///
    /// # Errors
    ///
    /// -FI_EISCONN for an endpoint that is connecting or connected, -FI_EOPBADSTATE in other
    /// states.
    fn begin_connecting(&self) -> Result {
        match self.transition(ConnState::Enabled, ConnState::Connecting, None) {
            true => Ok(()),
            false => Err(self.state.connect_error()),
        }
    }

    /// Takes the connection request that an info names.
    pub(super) fn take_connreq(self: &Arc<Self>, handle: usize) -> Result {
        let request = self.domain.fabric().connreqs.take(handle)?;
        if !request.is_on_device(self.pd.device()) {
            // Dropping the request rejects it.
            return Err(Errno::EDOMAIN);
        }
        request.id.set_handler(Some(self.clone()));
        let (local, peer) = (request.id.local_addr().ok(), request.id.peer_addr().ok());
        let mut link = self.conn.lock();
        (link.local_addr, link.peer_addr) = (local, peer);
        let cm_format = request.cm_format;
        link.connreq = Some(request);
        drop(link);
        self.options.set_cm_format(cm_format)?;
        if let Some(addr) = local {
            self.addrs.set_local(addr.into());
        }
        if let Some(addr) = peer {
            self.addrs.set_peer(addr.into());
        }
        Ok(())
    }

    /// Accepts the connection request, for `fi_accept()`. FI_CONNECTED follows when the peer has
    /// the answer.
    pub(super) fn start_accept(self: &Arc<Self>, private_data: &[u8]) -> Result {
        let mut frame = new_frame();
        let bytes = self.options.cm_format().encode(private_data, &mut frame)?;
        if self.conn.lock().connreq.is_none() {
            return Err(self.state.accept_error());
        }
        self.begin_connecting()?;
        let Some(request) = self.conn.lock().connreq.take() else {
            return Err(Errno::EISCONN);
        };
        let is_gone = request.is_gone();
        let depths = (request.responder_resources, request.initiator_depth);
        let id = Arc::new(request.id, GFP_KERNEL).map_err(Errno::from);
        let accepted = id.and_then(|id| {
            let mut link = self.conn.lock();
            link.id = Some(id.clone());
            link.is_accepting = true;
            drop(link);
            match is_gone {
                true => Err(Errno::ECONNABORTED),
                false => self.send_accept(&id, bytes, depths),
            }
        });
        if let Err(error) = accepted {
            self.transition(ConnState::Connecting, ConnState::Lost, Some((error, 0)));
            self.flush_qp();
            self.drain();
        }
        accepted
    }

    fn send_accept(&self, id: &Arc<CmId>, cm_data: &[u8], depths: (u8, u8)) -> Result {
        let qp = self.qp()?;
        self.store_peer_addr();
        self.set_id_options(id)?;
        let param = self.conn_param(cm_data, depths, &qp);
        id.with_lock(|locked| {
            if locked.uses_ib_cm() {
                self.move_qp_to_rts(locked, &qp, &param)?;
            }
            Ok(locked.accept(&param)?)
        })
    }

    /// Returns the proposed connection parameters, within the limits of the peer and our device.
    fn conn_param<'a>(
        &self,
        private_data: &'a [u8],
        (responder_resources, initiator_depth): (u8, u8),
        qp: &Qp,
    ) -> ConnParam<'a> {
        let attributes = &self.pd.device().attributes;
        let retries = self.options.retries();
        let within = |asked: u8, most: u32| asked.min(u8::try_from(most).unwrap_or(u8::MAX));
        ConnParam {
            private_data,
            responder_resources: within(responder_resources, attributes.max_qp_rd_atom),
            initiator_depth: within(initiator_depth, attributes.max_qp_init_rd_atom),
            flow_control: true,
            retry_count: retries.retry_count,
            rnr_retry_count: retries.rnr_retry_count,
            srq: self.attrs.uses_srx,
            qp_num: qp.qp_num(),
        }
    }

    /// Returns the parameters of the queue pair that are not negotiated.
    fn qp_param(&self) -> QpParam {
        QpParam {
            access: self.attrs.access,
            retries: self.options.retries(),
            traffic_class: self.attrs.traffic_class,
        }
    }

    /// Stores the peer's address for log messages about violations.
    fn store_peer_addr(&self) {
        let peer = self.conn.lock().peer_addr;
        if let Some(peer) = peer {
            self.violations.set_peer(peer.into());
        }
    }

    /// Sends the connection request, once the route is resolved.
    fn send_connect(&self, id: &LockedCmId) -> Result {
        let qp = self.qp()?;
        let data = self.conn.lock().pending_data.take().ok_or(Errno::EINVAL)?;
        Ok(id.connect(&self.conn_param(&data, (u8::MAX, u8::MAX), &qp))?)
    }

    /// Moves the queue pair to RTS after the peer's answer: from now on messages flow.
    fn complete_connect(&self, id: &LockedCmId, conn: &ConnParam<'_>) -> Result {
        let qp = self.qp()?;
        self.store_peer_addr();
        self.move_qp_to_rts(id, &qp, conn)?;
        Ok(id.complete_response()?)
    }

    fn move_qp_to_rts(&self, id: &LockedCmId, qp: &Qp, conn: &ConnParam<'_>) -> Result {
        if let Some(attachment) = self.rq.srx_attachment() {
            attachment.begin_receiving();
        }
        Ok(id.move_qp_to_rts(qp, conn, &self.qp_param())?)
    }

    /// Moves the queue pair to the error state, which flushes it. rxe and iWARP drivers leave that
    /// to the caller, or do it once more.
    fn flush_qp(&self) {
        if let Ok(qp) = self.qp() {
            let _ = qp.to_error();
        }
    }

    /// Shuts directions of the connection down, for `fi_shutdown()`.
    pub(super) fn shutdown_directions(&self, flags: u64) -> Result {
        context::in_process()?;
        let _scope = NoIo::enter();
        let (_, rest) = self.change_state(|state| state.shutdown(flags))?;
        match rest {
            ShutdownAction::DrainTransmits => self.drain_transmits(),
            // Posted receives stay with the device: it flushes them only in the Error state of the queue pair,
            // which also ends the transmits and the connection. See rxe_receiver() of rxe, which otherwise calls
            // flush_recv_queue() only for Reset, and siw_qp_nextstate_from_rts() of siw, which drops the
            // connection with each siw_rq_flush().
            ShutdownAction::CloseReceives => Ok(()),
            ShutdownAction::AwaitFlush => {
                self.wait_until_drained();
                self.end_closed_regions()
            }
            ShutdownAction::Disconnect => {
                self.flush_qp();
                if let Some(id) = self.id() {
                    let _ = id.disconnect();
                }
                self.drain();
                self.report_shutdown();
                self.end_closed_regions()
            }
        }
    }

    /// Ends the connection without an event, and drops the id.
    pub(super) fn disconnect_silently(&self) {
        let (before, lingers) = self.enter_shut_state();
        let mut link = self.conn.lock();
        let (id, request) = (link.id.take(), link.connreq.take());
        drop(link);
        if let Some(id) = id {
            self.flush_qp();
            // Dropping the id ends an attempt as well, unless that lingers; iw_cm takes no
            // disconnect during one.
            if before.is_some_and(ConnState::is_connected) {
                let _ = id.disconnect();
            }
            // Waits for a running handler, which does not hold the last reference to the endpoint.
            drop(id);
        }
        if let Some(request) = request {
            request.reject(&[]);
        }
        if lingers {
            lingering_id::evict_oldest();
        }
        self.flush_qp();
    }

    /// Moves to [`ConnState::Shut`]. Returns the state before, unless it was that one, and whether
    /// the connection lingers.
    fn enter_shut_state(&self) -> (Option<ConnState>, bool) {
        let leave =
            || self.transition_with(|state| (state != ConnState::Shut).then_some(ConnState::Shut));
        let accepted = self.id().filter(|_| self.conn.lock().is_accepting);
        let Some(id) = accepted.filter(|id| id.uses_ib_cm() && !id.is_in_handler()) else {
            return (leave(), false);
        };
        // With the id locked, each of its events goes either to the endpoint or to the lingering
        // id.
        id.with_lock(|locked| {
            let lingers = self.state.get() == ConnState::Connecting
                && lingering_id::linger(&id, locked).is_ok();
            (leave(), lingers)
        })
    }
}
