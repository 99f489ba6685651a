// SPDX-License-Identifier: GPL-2.0

//! An endpoint's way into a connection and out of it.
//!
//! ```text
//! fi_connect   resolve address, resolve route, connect ── ConnectResponse ─┐
//!                                       (iWARP) Established ───────────────┤ FI_CONNECTED
//! fi_accept    accept ───────────────────────── Established ───────────────┘
//! ```
//!
//! rdma_cm's id has no queue pair: ours is older than the path. On InfiniBand and RoCE it is moved
//! through its states here, with the attributes that rdma_cm computes; on iWARP the driver does it.

use super::{
    super::{
        cm_data::{
            unframe,
            CmData, //
        },
        conn_state::{
            ConnState,
            ShutdownAction, //
        },
    },
    lingering_id,
    Endpoint,
    EpConn, //
};
use crate::{
    abi::{
        context,
        Errno,
        Result,
        FI_CONNECTED,
        FI_SHUTDOWN, //
    },
    compat::{
        EHOSTUNREACH,
        ENETUNREACH, //
    },
    fi::eq::{
        Kind,
        OwnedEvent, //
    },
    rdma::{
        cm::{
            CmEvent,
            CmFailure,
            CmHandler,
            CmId,
            CmIdRef,
            ConnParam,
            LockedCmId,
            REJECTED_BY_CONSUMER, //
        },
        net::SockAddr,
        qp::Qp, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// How long rdma_cm may look for the peer, and then for the path to it.
const RESOLVE_MS: u32 = 2000;

/// Rounds of a request that nobody answers. One less than most: rxe takes the largest number for
/// ever, and a connection over a dead link would never end.
const RETRIES: u8 = 6;

/// A peer without a receive is tried for ever.
const RNR_RETRIES: u8 = 7;

/// 0.64 ms until a peer without a receive is tried again; rdma_cm's default is 655 ms.
const MIN_RNR_TIMER: u8 = 12;

/// Connection data that waits to be sent.
pub(super) struct PendingCmData(Option<CmData>);

impl PendingCmData {
    pub(super) const fn none() -> Self {
        Self(None)
    }
}

/// Whether a failure to start means that there is no way to the peer.
fn is_unreachable(error: kernel::error::Error) -> bool {
    error == ENETUNREACH || error == EHOSTUNREACH || error == ENODEV || error == ETIMEDOUT
}

impl Endpoint {
    /// `fi_connect()`: what comes of it is told by the event queue.
    pub(super) fn start_connect(
        self: &Arc<Self>,
        to: Option<SockAddr>,
        private_data: &[u8],
    ) -> Result {
        let frame = CmData::new(private_data)?;
        let (peer, local, wanted) = {
            let link = self.link.lock();
            (
                to.or(link.peer).ok_or(Errno::EINVAL)?,
                link.local,
                link.request.is_some(),
            )
        };
        if wanted {
            // It was made to accept.
            return Err(Errno::EOPBADSTATE);
        }
        self.leave_ready()?;
        let id = match self.new_id() {
            Ok(id) => id,
            Err(error) => {
                self.step(ConnState::Connecting, ConnState::Ready, Some((error, 0)));
                return Err(error);
            }
        };
        {
            let mut link = self.link.lock();
            link.id = Some(id.clone());
            link.peer = Some(peer);
            link.greeting = PendingCmData(Some(frame));
        }
        self.ends.set_peer(peer.into());
        match id.resolve_addr(local.as_ref(), &peer, RESOLVE_MS) {
            Ok(()) => Ok(()),
            // Told like every other peer that cannot be reached.
            Err(error) if is_unreachable(error) => {
                self.fail(Errno::EHOSTUNREACH, error.to_errno(), &[]);
                Ok(())
            }
            Err(error) => {
                self.link.lock().id = None;
                let why = (error.into(), error.to_errno());
                self.step(ConnState::Connecting, ConnState::Ready, Some(why));
                Err(error.into())
            }
        }
    }

    fn new_id(self: &Arc<Self>) -> Result<Arc<CmId>> {
        let handler: Arc<dyn CmHandler> = self.clone();
        let id = Arc::new(CmId::new(self.domain.net(), Some(handler))?, GFP_KERNEL)?;
        id.restrict_to(self.domain.pd().device())?;
        id.set_min_rnr_timer(MIN_RNR_TIMER)?;
        Ok(id)
    }

    /// From [`ConnState::Ready`] to [`ConnState::Connecting`], or why not.
    fn leave_ready(&self) -> Result {
        if self.step(ConnState::Ready, ConnState::Connecting, None) {
            return Ok(());
        }
        Err(match self.state.get() {
            ConnState::Connecting => Errno::EISCONN,
            state if state.is_connected() => Errno::EISCONN,
            _ => Errno::EOPBADSTATE,
        })
    }

    /// Takes the connection request that an info names.
    pub(super) fn adopt(self: &Arc<Self>, handle: usize) -> Result {
        let request = self.domain.fabric().requests().take(handle)?;
        if !request.is_on(self.domain.pd().device()) {
            // Put nothing back: the request is refused by being dropped.
            return Err(Errno::EDOMAIN);
        }
        request.id().set_handler(Some(self.clone()));
        let mut link = self.link.lock();
        link.peer = request.id().peer_addr().ok();
        link.local = request.id().local_addr().ok();
        link.request = Some(request);
        let (local, peer) = (link.local, link.peer);
        drop(link);
        if let Some(addr) = local {
            self.ends.set_local(addr.into());
        }
        if let Some(addr) = peer {
            self.ends.set_peer(addr.into());
        }
        Ok(())
    }

    /// `fi_accept()`: FI_CONNECTED follows when the peer knows.
    pub(super) fn start_accept(self: &Arc<Self>, private_data: &[u8]) -> Result {
        let frame = CmData::new(private_data)?;
        if self.link.lock().request.is_none() {
            return Err(match self.state.get() {
                ConnState::Ready | ConnState::Idle => Errno::EINVAL,
                _ => Errno::EISCONN,
            });
        }
        self.leave_ready()?;
        let Some(request) = self.link.lock().request.take() else {
            return Err(Errno::EISCONN);
        };
        let gone = request.is_gone();
        let (responder_resources, initiator_depth) = request.depths();
        let accepted = Arc::new(request.into_id(), GFP_KERNEL)
            .map_err(Errno::from)
            .and_then(|id| {
                {
                    let mut link = self.link.lock();
                    link.id = Some(id.clone());
                    link.accepts = true;
                }
                if gone {
                    return Err(Errno::ECONNABORTED);
                }
                self.answer(&id, &frame, responder_resources, initiator_depth)
            });
        if let Err(error) = accepted {
            self.step(ConnState::Connecting, ConnState::Lost, Some((error, 0)));
            self.flush();
            self.drain();
        }
        accepted
    }

    fn answer(
        &self,
        id: &Arc<CmId>,
        frame: &CmData,
        responder_resources: u8,
        initiator_depth: u8,
    ) -> Result {
        let qp = self.qp()?;
        self.note_peer();
        id.set_min_rnr_timer(MIN_RNR_TIMER)?;
        let param = self.param(frame, responder_resources, initiator_depth, &qp);
        let locked = id.lock();
        if locked.uses_ib_cm() {
            locked.make_ready(&qp, &param, self.limits.access)?;
        }
        Ok(locked.accept(&param)?)
    }

    /// What we propose, within what the peer and our device allow.
    fn param<'a>(
        &self,
        frame: &'a CmData,
        responder_resources: u8,
        initiator_depth: u8,
        qp: &Qp,
    ) -> ConnParam<'a> {
        let attributes = self.domain.pd().device().attributes();
        let within = |asked: u8, most: u32| asked.min(u8::try_from(most).unwrap_or(u8::MAX));
        ConnParam {
            private_data: frame.as_bytes(),
            responder_resources: within(responder_resources, attributes.max_qp_rd_atom),
            initiator_depth: within(initiator_depth, attributes.max_qp_init_rd_atom),
            flow_control: true,
            retry_count: RETRIES,
            rnr_retry_count: RNR_RETRIES,
            srq: self.limits.shares_receives,
            qp_num: qp.number(),
        }
    }

    /// Stores the peer's address for log messages about violations.
    fn note_peer(&self) {
        let peer = self.link.lock().peer;
        if let Some(peer) = peer {
            self.violations.set_peer(peer.into());
        }
    }

    /// The path is known: asks the peer.
    fn ask(&self, id: &LockedCmId) -> Result {
        let qp = self.qp()?;
        let frame = self.link.lock().greeting.0.take().ok_or(Errno::EINVAL)?;
        Ok(id.connect(&self.param(&frame, u8::MAX, u8::MAX, &qp))?)
    }

    /// The peer has answered: from now on messages flow.
    fn complete(&self, id: &LockedCmId, conn: &ConnParam<'_>) -> Result {
        let qp = self.qp()?;
        self.note_peer();
        id.make_ready(&qp, conn, self.limits.access)?;
        Ok(id.complete_response()?)
    }

    /// Pushes an event that was made beforehand, unless the endpoint has been closed.
    fn report(
        &self,
        take: impl FnOnce(&mut EpConn) -> Option<OwnedEvent>,
        kind: Kind,
        data: &[u8],
    ) {
        let (event, queue) = {
            let mut link = self.link.lock();
            let queue = link.bound.as_ref().map(|bound| bound.events.arc().clone());
            (take(&mut link), queue)
        };
        if let (Some(event), Some(queue)) = (event, queue) {
            queue.push(event.fill(kind, data, None));
        }
    }

    /// Reports FI_CONNECTED, unless there is an outcome already.
    pub(super) fn established(&self, private_data: &[u8]) {
        // Held until it is told: who finds the endpoint connected, and then lost, reports that later.
        let mut link = self.link.lock();
        if let Some(Ok(addr)) = link.id.as_ref().map(|id| id.local_addr()) {
            self.ends.set_local(addr.into());
        }
        if !self.become_connected() {
            return;
        }
        let event = link.outcome.take();
        if let (Some(event), Some(bound)) = (event, &link.bound) {
            let kind = Kind::Connection(FI_CONNECTED);
            let queue = bound.events.arc();
            queue.push(event.fill(kind, unframe(private_data), None));
        }
    }

    /// There will be no connection.
    fn fail(&self, errno: Errno, prov_errno: i32, err_data: &[u8]) {
        if !self.step(
            ConnState::Connecting,
            ConnState::Lost,
            Some((errno, prov_errno)),
        ) {
            return;
        }
        self.flush();
        self.drain();
        let kind = Kind::Error(errno, prov_errno);
        self.report(|link| link.outcome.take(), kind, err_data);
    }

    /// Whether it was a connection that the peer has ended, told of or not. ib_cm takes what has come
    /// on each CPU in order, but not across them: the peer's last word may be there before its first,
    /// which then is nothing any more.
    fn has_been_left(&self, id: &CmIdRef) -> bool {
        let link = self.link.lock();
        link.settles || (link.accepts && id.uses_ib_cm())
    }

    /// The peer has left: flushes what is posted, then says so.
    fn lose(&self, id: Option<&CmIdRef>) {
        let lost = self.leave(|state| state.is_connected().then_some(ConnState::Lost));
        if lost.is_none() {
            // Not connected yet, or not any more; the first needs an outcome.
            self.fail(Errno::ECONNABORTED, 0, &[]);
            return;
        }
        self.flush();
        if let Some(id) = id {
            // The answer that rdma_cm waits for; there is nobody left to complain to.
            let _ = id.disconnect();
        }
        self.drain();
        self.report_end();
    }

    /// Reports FI_SHUTDOWN, once in the endpoint's lifetime. All posted operations have completed.
    fn report_end(&self) {
        let kind = Kind::Connection(FI_SHUTDOWN);
        self.report(|link| link.farewell.take(), kind, &[]);
    }

    /// The device goes away: whatever the endpoint was waiting for will not come. May sleep.
    pub(in crate::prov::verbs) fn evict(&self) {
        let Some(_pass) = self.gate.enter() else {
            return;
        };
        if self.state.get().is_connected() {
            self.lose(None);
            return;
        }
        self.step(ConnState::Ready, ConnState::Connecting, None);
        self.fail(Errno::ENODEV, 0, &[]);
    }

    /// Ends all transfers; rxe and iWARP drivers leave that to us or do it once more.
    fn flush(&self) {
        if let Ok(qp) = self.qp() {
            let _ = qp.to_error();
        }
    }

    /// `fi_shutdown()`.
    pub(super) fn end(&self, flags: u64) -> Result {
        context::in_process()?;
        let (_, rest) = self.change_state(|state| state.shutdown(flags))?;
        match rest {
            ShutdownAction::Transmits => self.wait_for_transmits(),
            // Posted receives stay with the device: it flushes them only in the Error state of the queue pair,
            // which also ends the transmits and the connection. See rxe_receiver() of rxe, which otherwise calls
            // flush_recv_queue() only for Reset, and siw_qp_nextstate_from_rts() of siw, which drops the
            // connection with each siw_rq_flush().
            ShutdownAction::Receives => Ok(()),
            ShutdownAction::Disconnected => {
                self.wait_until_drained();
                Ok(())
            }
            ShutdownAction::Disconnect => {
                self.flush();
                if let Some(id) = self.id() {
                    let _ = id.disconnect();
                }
                self.drain();
                self.report_end();
                Ok(())
            }
        }
    }

    /// Ends the connection without a word to the consumer, and gives up the id.
    pub(super) fn hang_up(&self) {
        let (before, lingers) = self.leave_for_good();
        let (id, request) = {
            let mut link = self.link.lock();
            (link.id.take(), link.request.take())
        };
        if let Some(id) = id {
            self.flush();
            // Dropping the id ends an attempt as well, unless that lingers; iw_cm takes no disconnect during one.
            if before.is_some_and(ConnState::is_connected) {
                let _ = id.disconnect();
            }
            // Waits for a running handler, which holds the last reference to nothing of ours.
            drop(id);
        }
        if let Some(request) = request {
            request.refuse(&[]);
        }
        if lingers {
            lingering_id::make_room();
        }
        self.flush();
    }

    /// Leaves the state that it is in: that, and whether there is a connection that lingers.
    fn leave_for_good(&self) -> (Option<ConnState>, bool) {
        let leave = || self.leave(|state| (state != ConnState::Shut).then_some(ConnState::Shut));
        let accepted = self.id().filter(|_| self.link.lock().accepts);
        let Some(id) = accepted.filter(|id| id.uses_ib_cm() && !id.is_in_handler()) else {
            return (leave(), false);
        };
        // Whatever its handler is told is told to the one or to the other.
        let locked = id.lock();
        let lingers = self.state.get() == ConnState::Connecting && lingering_id::stay(&id).is_ok();
        let before = leave();
        drop(locked);
        (before, lingers)
    }
}

impl CmHandler for Endpoint {
    fn event(self: Arc<Self>, id: &LockedCmId, event: CmEvent<'_>) {
        let step = match event {
            CmEvent::AddrResolved => id.resolve_route(RESOLVE_MS).map_err(Errno::from),
            CmEvent::RouteResolved => self.ask(id),
            CmEvent::ConnectResponse { conn } => {
                let done = self.complete(id, &conn);
                if done.is_ok() {
                    self.established(conn.private_data);
                } else {
                    let _ = id.reject(&[0], REJECTED_BY_CONSUMER);
                }
                done
            }
            CmEvent::Established { conn } => {
                match self.domain.pd().device().is_siw() {
                    true => self.start_settling(&conn),
                    false => self.established(conn.private_data),
                }
                Ok(())
            }
            // The peer has left before it heard that its answer had come: ib_cm says so with a refusal.
            CmEvent::Rejected { .. } if self.state.get().is_connected() => {
                self.lose(None);
                Ok(())
            }
            CmEvent::Rejected {
                reason,
                private_data,
            } => {
                self.fail(Errno::ECONNREFUSED, reason, unframe(private_data));
                Ok(())
            }
            CmEvent::Failed { kind, status } => {
                self.fail(failure(kind, status), status, &[]);
                Ok(())
            }
            CmEvent::Disconnected => {
                if self.has_been_left(id) {
                    self.established(&[]);
                }
                self.lose(Some(id));
                Ok(())
            }
            CmEvent::DeviceRemoval => {
                if self.is_settling() {
                    self.established(&[]);
                }
                self.lose(Some(id));
                Ok(())
            }
            CmEvent::ConnectRequest { .. }
            | CmEvent::AddrChange
            | CmEvent::TimewaitExit
            | CmEvent::Other(_) => Ok(()),
        };
        if let Err(errno) = step {
            self.fail(refine(errno), errno.to_int(), &[]);
        }
    }
}

/// What a consumer is told of a failure of rdma_cm.
fn failure(kind: CmFailure, status: i32) -> Errno {
    const TIMED_OUT: i32 = -(kernel::bindings::ETIMEDOUT as i32);
    const REFUSED: i32 = -(kernel::bindings::ECONNREFUSED as i32);
    match (kind, status) {
        (_, REFUSED) => Errno::ECONNREFUSED,
        (CmFailure::Unreachable | CmFailure::Connect, TIMED_OUT) => Errno::ETIMEDOUT,
        (CmFailure::Connect, _) => Errno::ECONNABORTED,
        _ => Errno::EHOSTUNREACH,
    }
}

/// A call of rdma_cm that found no way to the peer says so in many ways.
fn refine(errno: Errno) -> Errno {
    match errno {
        Errno::ENETUNREACH | Errno::ENODEV | Errno::ENETDOWN => Errno::EHOSTUNREACH,
        other => other,
    }
}
