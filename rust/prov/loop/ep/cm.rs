// SPDX-License-Identifier: GPL-2.0

//! Connection setup and teardown of an endpoint.

use super::{
    super::{
        super::common::conn_state::{
            ConnState,
            ShutdownAction, //
        },
        channel::{
            ClosingSide,
            TxResources, //
        },
        port::listener_at,
        prelude::*, //
    },
    Link, //
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
    util::context, //
};
use kernel::time::{
    delay::fsleep,
    Instant,
    Monotonic, //
};

/// Longest wait for posted transmits in a shutdown that drains them.
const DRAIN_TIMEOUT: Delta = Delta::from_secs(10);

/// Interval between two checks for that.
const DRAIN_POLL_INTERVAL: Delta = Delta::from_micros(500);

impl Endpoint {
    /// Implements `fi_connect()`: the event queue reports the outcome.
    pub(super) fn start_connect(
        self: &Arc<Self>,
        to: Option<SocketAddr>,
        private_data: &[u8],
    ) -> Result {
        let link = self.link.lock();
        let peer = to.or(link.peer).ok_or(Errno::EINVAL)?;
        let (local, is_requested) = (link.local, link.connreq.is_some());
        drop(link);
        if is_requested {
            // An endpoint made for a request can only accept.
            return Err(Errno::EOPBADSTATE);
        }
        self.begin_connect()?;
        match self.send_request(peer.into(), local.map(SockAddr::from), private_data) {
            // Reported as an event, like an answer from a peer.
            Err(errno @ (Errno::ECONNREFUSED | Errno::EHOSTUNREACH)) => {
                self.report_connect_failure(errno, &[]);
                Ok(())
            }
            result => result.inspect_err(|_| {
                self.leave_connecting(ConnState::Enabled);
            }),
        }
    }

    /// Sends a connection request to the listener at `peer`.
    fn send_request(
        self: &Arc<Self>,
        peer: SockAddr,
        local: Option<SockAddr>,
        private_data: &[u8],
    ) -> Result {
        let port_ns = self.domain.fabric.port_namespace();
        let from = local.unwrap_or(peer.with_port(0));
        if from.is_ipv6() != peer.is_ipv6() {
            return Err(Errno::EINVAL);
        }
        if !peer.is_unspecified() && !port_ns.net.has_addr(&peer) {
            return Err(Errno::EHOSTUNREACH);
        }
        let port = Port::bind(port_ns, &from)?;
        let from = match port.addr.is_unspecified() {
            true => peer.with_port(port.addr.port()),
            false => port.addr,
        };
        let conn = Conn::new()?;
        conn.ends.lock().requester = Some(self.clone());
        let mut link = self.link.lock();
        link.port = Some(port);
        link.conn = Some(conn.clone());
        link.peer = Some(peer.into());
        link.local = Some(from.into());
        drop(link);
        self.addrs.set_peer(peer.into());
        self.addrs.set_local(from.into());
        let asked = match listener_at(port_ns, &peer) {
            Some(listener) => listener.report_request((peer, from), private_data, &conn),
            None => Err(Errno::ECONNREFUSED),
        };
        asked.inspect_err(|_| {
            let removed = conn.ends.lock().remove(self);
            drop(removed);
            let mut link = self.link.lock();
            let (port, conn) = (link.port.take(), link.conn.take());
            drop(link);
            drop((port, conn));
        })
    }

    /// Moves from [`ConnState::Enabled`] to [`ConnState::Connecting`], or returns the errno.
    fn begin_connect(&self) -> Result {
        let (from, to) = (ConnState::Enabled, ConnState::Connecting);
        match self.state.transition(from, to) {
            true => Ok(()),
            false => Err(self.state.connect_error()),
        }
    }

    /// Moves from [`ConnState::Connecting`] to `to`; returns false if that is not the state.
    fn leave_connecting(&self, to: ConnState) -> bool {
        self.state.transition(ConnState::Connecting, to)
    }

    /// Implements `fi_accept()`: both sides are connected when it returns.
    pub(super) fn start_accept(self: &Arc<Self>, private_data: &[u8]) -> Result {
        if self.link.lock().connreq.is_none() {
            return Err(self.state.accept_error());
        }
        self.begin_connect()?;
        let connreq = self.link.lock().connreq.take();
        let conn = connreq.and_then(|connreq| connreq.into_conn());
        let conn = conn.ok_or(Errno::EISCONN)?;
        self.connect_both(&conn, private_data).inspect_err(|_| {
            self.leave_connecting(ConnState::Lost);
            self.flush();
        })
    }

    /// Connects both endpoints.
    fn connect_both(self: &Arc<Self>, conn: &Arc<Conn>, private_data: &[u8]) -> Result {
        let mut ends = conn.ends.lock();
        let requester = ends.requester.clone().ok_or(Errno::ECONNABORTED)?;
        let (mine, its) = (self.take_tx_resources()?, requester.take_tx_resources()?);
        requester.rx_channel.connect(mine, conn.clone());
        self.rx_channel.connect(its, conn.clone());
        let _ = self.tx_channel.populate(requester.rx_channel.clone());
        let _ = requester.tx_channel.populate(self.rx_channel.clone());
        self.link.lock().conn = Some(conn.clone());
        ends.accepter = Some(self.clone());
        // Once notified, the peer may connect again: its request has to come after this event.
        self.report_connected(&[]);
        requester.report_connected(private_data);
        Ok(())
    }

    fn take_tx_resources(&self) -> Result<TxResources> {
        let mut link = self.link.lock();
        let tx_resources = link.tx_resources.take().ok_or(Errno::ECONNABORTED)?;
        Ok(TxResources {
            addr: link.local,
            ..tx_resources
        })
    }

    /// Pushes an event that was made beforehand, unless the endpoint has been closed.
    fn push_event(
        &self,
        take: impl FnOnce(&mut Link) -> Option<OwnedEvent>,
        kind: Kind,
        data: &[u8],
    ) {
        let mut link = self.link.lock();
        let event = take(&mut link);
        if let (Some(event), Some(resources)) = (event, &link.resources) {
            resources.eq.arc().push(event.fill(kind, data, None));
        }
    }

    fn report_connected(&self, private_data: &[u8]) {
        if self.leave_connecting(ConnState::Connected) {
            let kind = Kind::Connection(FI_CONNECTED);
            self.push_event(|link| link.connect_event.take(), kind, private_data);
        }
    }

    /// Reports that the connection was not established.
    fn report_connect_failure(&self, errno: Errno, err_data: &[u8]) {
        if !self.leave_connecting(ConnState::Lost) {
            return;
        }
        self.flush();
        let kind = Kind::Error(errno, errno.to_int());
        self.push_event(|link| link.connect_event.take(), kind, err_data);
    }

    /// Reports that the peer rejected the request. The caller holds the mutex of `conn`, which no longer
    /// refers to this endpoint.
    pub(in super::super) fn handle_reject(&self, conn: &Conn, private_data: &[u8]) {
        conn.assert_locked();
        self.report_connect_failure(Errno::ECONNREFUSED, private_data);
    }

    /// Flushes posted operations, then reports FI_SHUTDOWN, after the peer has left or an operation failed.
    /// The caller holds the mutex of `conn`.
    pub(in super::super) fn handle_disconnect(&self, conn: &Conn) {
        conn.assert_locked();
        let next = |state: ConnState| state.is_connected().then_some(ConnState::Lost);
        if self.state.transition_with(next).is_ok() {
            self.flush_and_report_shutdown();
        }
    }

    /// Ends all transfers, then reports FI_SHUTDOWN once in the endpoint's lifetime.
    fn flush_and_report_shutdown(&self) {
        self.flush();
        let kind = Kind::Connection(FI_SHUTDOWN);
        self.push_event(|link| link.shutdown_event.take(), kind, &[]);
    }

    /// Ends all transfers and reports posted operations to both sides.
    fn flush(&self) {
        self.rx_channel.close(ClosingSide::Neither, &mut |_| {});
        if let Some(tx_channel) = self.tx_channel.as_ref() {
            tx_channel.close(ClosingSide::Neither, &mut |_| {});
        }
    }

    /// Implements `fi_shutdown()`.
    pub(super) fn start_shutdown(&self, flags: u64) -> Result {
        context::in_process()?;
        let (_, rest) = self.state.shutdown(flags)?;
        match rest {
            ShutdownAction::DrainTransmits => return self.drain_transmits(),
            ShutdownAction::CloseReceives => self.rx_channel.close_receives(),
            // Waits for threads that are processing the peer's transfers.
            ShutdownAction::AwaitFlush => self.flush(),
            ShutdownAction::Disconnect => self.detach_peer(&mut Self::flush_and_report_shutdown),
        }
        Ok(())
    }

    /// Detaches the endpoint from its peer, calls `act`, then disconnects the peer.
    fn detach_peer(&self, act: &mut dyn FnMut(&Self)) {
        let conn = self.link.lock().conn.clone();
        let Some(conn) = conn else {
            return act(self);
        };
        let mut ends = conn.ends.lock();
        let other = ends.remove(self);
        act(self);
        if let Some(other) = &other {
            other.handle_disconnect(&conn);
        }
        drop(ends);
        // This may be the last reference to the peer.
        drop(other);
    }

    /// Waits until every transmit has completed, read or not. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ETIMEDOUT.
    fn drain_transmits(&self) -> Result {
        let Some(tx_channel) = self.tx_channel.as_ref() else {
            return Ok(());
        };
        tx_channel.refuse_transmits();
        let start = Instant::<Monotonic>::now();
        while !tx_channel.is_drained() {
            if start.elapsed() > DRAIN_TIMEOUT {
                return Err(Errno::ETIMEDOUT);
            }
            fsleep(DRAIN_POLL_INTERVAL);
        }
        Ok(())
    }

    /// Closes the connection without events; the consumer gets all its contexts back through `reclaim`.
    pub(super) fn close_and_reclaim(&self, reclaim: &mut dyn FnMut(Context)) {
        let shut = |state| (state != ConnState::Shut).then_some(ConnState::Shut);
        let _ = self.state.transition_with(shut);
        let connreq = self.link.lock().connreq.take();
        drop(connreq);
        self.detach_peer(&mut |endpoint| {
            endpoint.rx_channel.close(ClosingSide::Receiver, reclaim);
            if let Some(tx_channel) = endpoint.tx_channel.as_ref() {
                tx_channel.close(ClosingSide::Sender, reclaim);
            }
        });
        let receiver = self.rx_channel.rx_side().ok().map(|side| &side.comp_sink);
        let tx_channel = self.tx_channel.as_ref();
        let sender = tx_channel.and_then(|channel| channel.tx_comp_sink().ok());
        for sink in [receiver, sender].into_iter().flatten() {
            sink.discard_unread(self.limits.shares_receives, reclaim);
        }
        let mut link = self.link.lock();
        let resources = link.resources.take();
        let left = (link.tx_resources.take(), link.port.take(), link.conn.take());
        drop(link);
        let progress = resources.as_ref().and_then(|bound| bound.progress.as_ref());
        if let (Some(progress), Some(receiver)) = (progress, receiver) {
            receiver.cq.detach_source(progress);
        }
        drop(resources);
        drop(left);
    }
}
