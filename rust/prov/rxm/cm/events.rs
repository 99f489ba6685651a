// SPDX-License-Identifier: GPL-2.0

//! Events of the lower endpoints and listeners. Handled under the mutex `EpCore::cm`.

use super::{
    super::{
        conn::loopback_idx,
        ep_core::{
            Bound,
            EpCore, //
        },
        lower::Route,
        wire::{
            AcceptData,
            ConnectData,
            Flow,
            RejectReason, //
        },
    },
    state::{
        order,
        ConnReqAction,
        State, //
    },
    timers::TimerKind,
    ConnMgr,
    FLOW,
    LISTENER, //
};
use crate::{
    abi::{
        FI_CONNECTED,
        FI_CONNREQ, //
    },
    fi::{
        eq::{
            Event,
            Kind,
            OwnedEvent, //
        },
        prelude::*, //
    },
};

/// Interval of the check for accepted connections that have not been established.
const ACCEPT_CHECK: Delta = Delta::from_secs(30);

/// Addresses of a connection request.
struct ConnReqAddrs {
    peer: SocketAddr,
    local: SocketAddr,
}

impl ConnReqAddrs {
    fn of(info: &Info) -> Result<Self> {
        match info.addresses()? {
            (Some(local), Some(peer)) => Ok(Self { peer, local }),
            _ => Err(Errno::EINVAL),
        }
    }
}

impl EpCore {
    /// Handles an event of a connection or a listener.
    pub(super) fn handle_cm_event(
        &self,
        here: ProcessContext,
        bound: &Bound,
        cm: &mut ConnMgr,
        route: Route,
        mut event: OwnedEvent,
    ) {
        if event.source() == LISTENER {
            if event.kind() == Kind::Connection(FI_CONNREQ) {
                if let Some(mut info) = event.take_info() {
                    self.handle_connreq(here, bound, cm, route, &mut info, event.data());
                }
            }
            return;
        }
        let conn_gen = event.source().0;
        let is_iwarp = cm.is_iwarp && route == Route::Device;
        let Some((peer_idx, cm_peer)) = cm.peer_of_gen(conn_gen) else {
            return;
        };
        match (event.kind(), cm_peer.fsm.state()) {
            (Kind::Connection(FI_CONNECTED), State::Accepting(_)) => {
                if let Some(conn_id) = cm_peer.fsm.on_established() {
                    cm.backoff.decrease();
                    let to = u64::from(conn_id.index);
                    self.quiesced().establish(peer_idx, conn_gen, to, None);
                }
            }
            (Kind::Connection(FI_CONNECTED), _) => match AcceptData::from_bytes(event.data()) {
                Ok(accept_data) if cm_peer.fsm.on_accept(accept_data.conn_id) => {
                    let flow = FLOW.with(accept_data.flow);
                    if flow == Flow::Device && !cm_peer.no_flow_ctrl {
                        // The peer uses no credits: connect again, without the receives of the shared ring.
                        cm_peer.no_flow_ctrl = true;
                        return self.conn_down(here, bound, cm, peer_idx);
                    }
                    cm.backoff.decrease();
                    let to = u64::from(accept_data.conn_id.index);
                    let agreed = (flow, accept_data.extensions);
                    self.quiesced()
                        .establish(peer_idx, conn_gen, to, Some(agreed));
                }
                _ => self.fail_conn(here, bound, cm, peer_idx, Errno::ECONNABORTED),
            },
            (Kind::Error(errno, _), State::Connecting) => {
                let reject_reason = reject_reason(&event, errno, is_iwarp);
                if cm_peer.fsm.on_reject(reject_reason) {
                    self.fail_conn(here, bound, cm, peer_idx, errno);
                } else {
                    self.close_conn(cm, peer_idx);
                    let backoff = cm.backoff.delay();
                    cm.timers.arm(TimerKind::Reconnect, backoff);
                }
            }
            _ => self.conn_down(here, bound, cm, peer_idx),
        }
    }

    /// Handles a connection request of a peer.
    fn handle_connreq(
        &self,
        here: ProcessContext,
        bound: &Bound,
        cm: &mut ConnMgr,
        route: Route,
        info: &mut Info,
        data: &[u8],
    ) {
        let Some(listener) = cm.listener(route).cloned() else {
            return;
        };
        let handle = info.handle();
        let reject = |reason: RejectReason| {
            // An error means that the peer has ended its request, so it needs no reply.
            let _ = listener.core().reject(handle, &reason.to_bytes());
        };
        let (Ok(connect_data), Ok(addrs)) = (ConnectData::from_bytes(data), ConnReqAddrs::of(info))
        else {
            return reject(RejectReason::Refused);
        };
        let lower_domain = self.protection.lower_domain(route);
        if !lower_domain
            .is_ok_and(|lower_domain| lower_domain.info.domain_name() == info.domain_name())
        {
            return reject(RejectReason::Refused);
        }
        let (mut peer, mut local) = (addrs.peer, addrs.local);
        peer.set_port(connect_data.port);
        local.set_port(cm.port());
        let order = order(&peer, &local);
        if order.is_eq() && !cm.is_own(connect_data.conn_id) {
            // Another endpoint on this host claims the own address.
            return reject(RejectReason::Refused);
        }
        if bound.peer_av.find(&peer).is_none() && cm.has_max_waiters(peer.ip()) {
            return reject(RejectReason::Already);
        }
        let Ok(peer_idx) = self.add_peer(here, bound, cm, peer) else {
            return reject(RejectReason::Refused);
        };
        let peer_idx = match order.is_eq() {
            true => loopback_idx(peer_idx),
            false => peer_idx,
        };
        // This endpoint has operations for the peer, or has just requested the connection itself.
        let is_wanted = self.inner.lock().has_deferred_tx(peer_idx)
            || cm.cm_peer(peer_idx).is_ok_and(|cm_peer| {
                matches!(cm_peer.fsm.state(), State::Connecting | State::AwaitingPeer)
            });
        if !order.is_eq() && !cm.has_slot(peer_idx) && cm.has_to_wait(&self.limits, peer_idx) {
            if !is_wanted && !cm.may_connect(peer.ip(), self.limits.source_bytes()) {
                self.remove_peer(here, bound, cm, peer_idx);
                return reject(RejectReason::Refused);
            }
            // This endpoint sends a request to the peer when a connection is free.
            cm.enqueue(peer_idx);
            return reject(RejectReason::Already);
        }
        let Ok(cm_peer) = cm.cm_peer(peer_idx) else {
            return reject(RejectReason::Refused);
        };
        match cm_peer.fsm.on_connreq(connect_data.conn_id, order) {
            ConnReqAction::Reject => {
                // The probe finds out whether the peer was restarted without a disconnect.
                self.inner.lock().probe(peer_idx);
                return reject(RejectReason::Already);
            }
            ConnReqAction::Accept => {}
            ConnReqAction::Replace => self.close_conn(cm, peer_idx),
        }
        let agreed = (FLOW.with(connect_data.flow), connect_data.extensions);
        let accepted = self
            .charge_conn(cm, (peer_idx, route), agreed.0, is_wanted)
            .and_then(|()| self.open_lower(here, bound, cm, (peer_idx, route), info, Some(agreed)))
            .and_then(|lower| lower.accept(&cm.accept_data(peer_idx)));
        if accepted.is_err() {
            // The request is rejected here, unless the close of the lower endpoint has rejected it.
            reject(RejectReason::Refused);
            return self.conn_down(here, bound, cm, peer_idx);
        }
        if let Ok(cm_peer) = cm.cm_peer(peer_idx) {
            cm_peer.was_accepting = false;
        }
        cm.timers.arm(TimerKind::AcceptCheck, ACCEPT_CHECK);
    }
}

impl EpCore {
    /// Closes the connections that were accepted before the last check and have not been established since. The
    /// requests may have named an address at which the sender receives nothing.
    pub(super) fn check_accepting(&self, here: ProcessContext, bound: &Bound, cm: &mut ConnMgr) {
        for peer_idx in 0..cm.peers.len() as u32 {
            let Ok(cm_peer) = cm.cm_peer(peer_idx) else {
                continue;
            };
            if !matches!(cm_peer.fsm.state(), State::Accepting(_)) {
                continue;
            }
            if mem::replace(&mut cm_peer.was_accepting, true) {
                self.conn_down(here, bound, cm, peer_idx);
            } else {
                cm.timers.arm(TimerKind::AcceptCheck, ACCEPT_CHECK);
            }
        }
    }
}

/// Returns the reason for which a peer rejected a connection request. A rejection without data means that no endpoint
/// listens at the address. On iWARP it means that the reason is unknown: `siw_recv_mpa_rr()` may not have read the
/// data, if further bytes follow them.
fn reject_reason(event: &Event, errno: Errno, is_iwarp: bool) -> RejectReason {
    match (errno, RejectReason::from_bytes(event.data())) {
        (Errno::ECONNREFUSED, RejectReason::Unknown) if !is_iwarp => RejectReason::Refused,
        (Errno::ECONNREFUSED, reject_reason) => reject_reason,
        (Errno::ECONNABORTED, _) if is_iwarp => RejectReason::Unknown,
        _ => RejectReason::Refused,
    }
}
