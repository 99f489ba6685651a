// SPDX-License-Identifier: GPL-2.0

//! Events of rdma_cm for an endpoint, and the events that it reports to its event queue.

use super::{
    super::{
        super::{
            cm_data::new_frame,
            conn_state::ConnState, //
        },
        EpConn, //
    },
    RESOLVE_TIMEOUT_MS, //
};
use crate::{
    abi::{
        FI_CONNECTED,
        FI_SHUTDOWN, //
    },
    fi::eq::{
        Kind,
        OwnedEvent, //
    },
    prov::verbs::prelude::*,
    rdma::cm::{
        CmFailure,
        CmIdRef,
        REJ_CONSUMER_DEFINED, //
    },
    util::noio::NoIo, //
};

impl Endpoint {
    /// Pushes an event that was allocated beforehand, unless the endpoint has been closed.
    fn push_event(
        &self,
        take: impl FnOnce(&mut EpConn) -> Option<OwnedEvent>,
        kind: Kind,
        data: &[u8],
    ) {
        let mut link = self.conn.lock();
        let queue = link.objects.as_ref().map(|bound| bound.eq.arc().clone());
        let event = take(&mut link);
        drop(link);
        if let (Some(event), Some(queue)) = (event, queue) {
            queue.push(event.fill(kind, data, None));
        }
    }

    /// Reports FI_CONNECTED, unless a result has been reported before.
    pub(in crate::prov::verbs::ep) fn report_connected(&self, private_data: &[u8]) {
        // Held until the event is pushed: a thread that finds the endpoint connected, and then
        // lost, reports the loss after that.
        let mut link = self.conn.lock();
        if let Some(Ok(addr)) = link.id.as_ref().map(|id| id.local_addr()) {
            self.addrs.set_local(addr.into());
        }
        if !self.set_connected() {
            return;
        }
        let event = link.connect_event.take();
        if let (Some(event), Some(bound)) = (event, &link.objects) {
            let kind = Kind::Connection(FI_CONNECTED);
            let data = self.options.cm_format().decode(private_data);
            bound.eq.arc().push(event.fill(kind, data, None));
        }
    }

    /// Reports that there will be no connection, unless a result has been reported before.
    pub(super) fn report_connect_failure(&self, errno: Errno, prov_errno: i32, err_data: &[u8]) {
        let why = Some((errno, prov_errno));
        if !self.transition(ConnState::Connecting, ConnState::Lost, why) {
            return;
        }
        self.flush_qp();
        self.drain();
        let kind = Kind::Error(errno, prov_errno);
        self.push_event(|link| link.connect_event.take(), kind, err_data);
    }

    /// Returns whether a disconnect ends a connection that has not been reported yet. ib_cm handles
    /// received messages in order on each CPU, but not across CPUs: the peer's disconnect may be
    /// handled before the message that establishes the connection, which then is ignored.
    fn is_early_disconnect(&self, id: &CmIdRef) -> bool {
        let link = self.conn.lock();
        link.is_connected_deferred || (link.is_accepting && id.uses_ib_cm())
    }

    /// Handles a disconnect by the peer: flushes posted operations, then reports FI_SHUTDOWN.
    fn handle_disconnect(&self, id: Option<&CmIdRef>) {
        let lost = self.transition_with(|state| state.is_connected().then_some(ConnState::Lost));
        if lost.is_none() {
            // Not connected yet, or not any more; the former needs a result.
            self.report_connect_failure(Errno::ECONNABORTED, 0, &[]);
            return;
        }
        self.flush_qp();
        if let Some(id) = id {
            // The answer that rdma_cm waits for; its failure changes nothing here.
            let _ = id.disconnect();
        }
        self.drain();
        self.report_shutdown();
    }

    /// Reports FI_SHUTDOWN, once in the endpoint's lifetime. All posted operations have completed.
    pub(super) fn report_shutdown(&self) {
        let kind = Kind::Connection(FI_SHUTDOWN);
        self.push_event(|link| link.shutdown_event.take(), kind, &[]);
    }

    /// Ends the connection or the attempt when the device is removed. May sleep.
    pub(in crate::prov::verbs) fn handle_device_removal(&self) {
        let Some(_pass) = self.rundown.begin_call() else {
            return;
        };
        if self.state.get().is_connected() {
            self.handle_disconnect(None);
            return;
        }
        self.transition(ConnState::Enabled, ConnState::Connecting, None);
        self.report_connect_failure(Errno::ENODEV, 0, &[]);
    }
}

impl CmHandler for Endpoint {
    fn handle_event(self: Arc<Self>, id: &LockedCmId, event: CmEvent<'_>) {
        let _scope = NoIo::enter();
        let step = match event {
            CmEvent::AddrResolved => id.resolve_route(RESOLVE_TIMEOUT_MS).map_err(Errno::from),
            CmEvent::RouteResolved => self.send_connect(id),
            CmEvent::ConnectResponse { conn } => {
                let result = self.complete_connect(id, &conn);
                if result.is_ok() {
                    self.report_connected(conn.private_data);
                } else {
                    let mut frame = new_frame();
                    let no_data = self
                        .options
                        .cm_format()
                        .encode(&[], &mut frame)
                        .unwrap_or(&[]);
                    let _ = id.reject(no_data, REJ_CONSUMER_DEFINED);
                }
                result
            }
            CmEvent::Established { conn } => {
                return match self.pd.device().is_siw {
                    true => self.start_siw_quirk(&conn),
                    false => self.report_connected(conn.private_data),
                };
            }
            // The peer has left before it learned that its answer had arrived: ib_cm reports that
            // with a rejection.
            CmEvent::Rejected { .. } if self.state.get().is_connected() => {
                return self.handle_disconnect(None);
            }
            CmEvent::Rejected {
                reason,
                private_data,
            } => {
                let data = self.options.cm_format().decode(private_data);
                return self.report_connect_failure(Errno::ECONNREFUSED, reason, data);
            }
            CmEvent::Failed { kind, status } => {
                return self.report_connect_failure(connect_errno(kind, status), status, &[]);
            }
            CmEvent::Disconnected | CmEvent::DeviceRemoval => {
                let is_early = match event {
                    CmEvent::Disconnected => self.is_early_disconnect(id),
                    _ => self.conn.lock().is_connected_deferred,
                };
                if is_early {
                    self.report_connected(&[]);
                }
                return self.handle_disconnect(Some(id));
            }
            CmEvent::ConnectRequest { .. } | CmEvent::Other => return,
        };
        if let Err(errno) = step {
            self.report_connect_failure(map_unreachable(errno), errno.to_int(), &[]);
        }
    }
}

/// Returns the errno that is reported for a failure of rdma_cm.
fn connect_errno(kind: CmFailure, status: i32) -> Errno {
    const TIMED_OUT: i32 = -(kernel::bindings::ETIMEDOUT as i32);
    const REFUSED: i32 = -(kernel::bindings::ECONNREFUSED as i32);
    match (kind, status) {
        (_, REFUSED) => Errno::ECONNREFUSED,
        (CmFailure::Unreachable | CmFailure::Connect, TIMED_OUT) => Errno::ETIMEDOUT,
        (CmFailure::Connect, _) => Errno::ECONNABORTED,
        _ => Errno::EHOSTUNREACH,
    }
}

/// Maps the errnos with which rdma_cm reports that there is no route to the peer.
fn map_unreachable(errno: Errno) -> Errno {
    match errno {
        Errno::ENETUNREACH | Errno::ENODEV | Errno::ENETDOWN => Errno::EHOSTUNREACH,
        other => other,
    }
}
