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
        conn::Conn,
        port::{
            listener_at,
            Port, //
        },
    },
    Endpoint,
    Link, //
};
use crate::{
    abi::{
        context,
        Errno,
        Result,
        FI_CONNECTED,
        FI_SHUTDOWN, //
    },
    fi::{
        eq::{
            Kind,
            OwnedEvent, //
        },
        memory::Context, //
    },
    rdma::net::SockAddr, //
};
use core::net::SocketAddr;
use kernel::{
    sync::Arc,
    time::{
        delay::fsleep,
        Delta,
        Instant,
        Monotonic, //
    },
};

/// Longest wait for posted transmits in a shutdown that drains them.
const PATIENCE: Delta = Delta::from_secs(10);

/// Interval between two checks for that.
const PAUSE: Delta = Delta::from_micros(500);

impl Endpoint {
    /// Implements `fi_connect()`: the event queue reports the outcome.
    pub(super) fn start_connect(
        self: &Arc<Self>,
        to: Option<SocketAddr>,
        private_data: &[u8],
    ) -> Result {
        let link = self.link.lock();
        let peer = to.or(link.peer).ok_or(Errno::EINVAL)?;
        let (local, wanted) = (link.local, link.request.is_some());
        drop(link);
        if wanted {
            // An endpoint made for a request can only accept.
            return Err(Errno::EOPBADSTATE);
        }
        self.leave_ready()?;
        let asked = self.ask(
            SockAddr::from(peer),
            local.map(SockAddr::from),
            private_data,
        );
        match asked {
            // Reported as an event, like an answer from a peer.
            Err(errno @ (Errno::ECONNREFUSED | Errno::EHOSTUNREACH)) => {
                self.fail(errno, &[]);
                Ok(())
            }
            Err(errno) => {
                self.state
                    .transition(ConnState::Connecting, ConnState::Enabled);
                Err(errno)
            }
            Ok(()) => Ok(()),
        }
    }

    /// Sends a connection request to the listener at `peer`.
    fn ask(
        self: &Arc<Self>,
        peer: SockAddr,
        local: Option<SockAddr>,
        private_data: &[u8],
    ) -> Result {
        let realm = self.domain.fabric().realm();
        let from = local.unwrap_or(peer.with_port(0));
        if from.is_ipv6() != peer.is_ipv6() {
            return Err(Errno::EINVAL);
        }
        if !peer.is_unspecified() && !realm.net.has_addr(&peer) {
            return Err(Errno::EHOSTUNREACH);
        }
        let port = Port::take(realm, &from)?;
        let from = match port.addr().is_unspecified() {
            true => peer.with_port(port.addr().port()),
            false => port.addr(),
        };
        let tie = Conn::new()?;
        tie.ends.lock().asker = Some(self.clone());
        let mut link = self.link.lock();
        link.port = Some(port);
        link.tie = Some(tie.clone());
        link.peer = Some(peer.into());
        link.local = Some(from.into());
        drop(link);
        self.ends.set_peer(peer.into());
        self.ends.set_local(from.into());
        let asked = match listener_at(realm, &peer) {
            Some(listener) => listener.ask((peer, from), private_data, &tie),
            None => Err(Errno::ECONNREFUSED),
        };
        asked.inspect_err(|_| {
            let gone = tie.ends.lock().leave(self);
            drop(gone);
            let mut link = self.link.lock();
            let (port, tie) = (link.port.take(), link.tie.take());
            drop(link);
            drop((port, tie));
        })
    }

    /// Moves from [`ConnState::Enabled`] to [`ConnState::Connecting`], or returns the errno.
    fn leave_ready(&self) -> Result {
        if self
            .state
            .transition(ConnState::Enabled, ConnState::Connecting)
        {
            return Ok(());
        }
        Err(match self.state.get() {
            ConnState::Connecting => Errno::EISCONN,
            state if state.is_connected() => Errno::EISCONN,
            _ => Errno::EOPBADSTATE,
        })
    }

    /// Implements `fi_accept()`: both sides are connected when it returns.
    pub(super) fn start_accept(self: &Arc<Self>, private_data: &[u8]) -> Result {
        if self.link.lock().request.is_none() {
            return Err(match self.state.get() {
                ConnState::Enabled | ConnState::Open => Errno::EINVAL,
                _ => Errno::EISCONN,
            });
        }
        self.leave_ready()?;
        let request = self.link.lock().request.take();
        let tie = request.and_then(|request| request.into_tie());
        let Some(tie) = tie else {
            return Err(Errno::EISCONN);
        };
        let accepted = self.meet(&tie, private_data);
        if accepted.is_err() {
            self.state
                .transition(ConnState::Connecting, ConnState::Lost);
            self.flush();
        }
        accepted
    }

    /// Connects both endpoints.
    fn meet(self: &Arc<Self>, tie: &Arc<Conn>, private_data: &[u8]) -> Result {
        let mut ends = tie.ends.lock();
        let asker = ends.asker.clone().ok_or(Errno::ECONNABORTED)?;
        let (mine, its) = (self.outfit()?, asker.outfit()?);
        asker.inbound.connect(mine, tie.clone());
        self.inbound.connect(its, tie.clone());
        let _ = self.outbound.populate(asker.inbound.clone());
        let _ = asker.outbound.populate(self.inbound.clone());
        self.link.lock().tie = Some(tie.clone());
        ends.accepter = Some(self.clone());
        // Once notified, the peer may connect again: its request has to come after this event.
        self.established(&[]);
        asker.established(private_data);
        Ok(())
    }

    fn outfit(&self) -> Result<TxResources> {
        let mut link = self.link.lock();
        let outfit = link.outfit.take().ok_or(Errno::ECONNABORTED)?;
        Ok(TxResources {
            addr: link.local,
            ..outfit
        })
    }

    /// Pushes an event that was made beforehand, unless the endpoint has been closed.
    fn report(&self, take: impl FnOnce(&mut Link) -> Option<OwnedEvent>, kind: Kind, data: &[u8]) {
        let mut link = self.link.lock();
        let event = take(&mut link);
        if let (Some(event), Some(bound)) = (event, &link.bound) {
            bound.events.arc().push(event.fill(kind, data, None));
        }
    }

    fn established(&self, private_data: &[u8]) {
        if self
            .state
            .transition(ConnState::Connecting, ConnState::Connected)
        {
            let kind = Kind::Connection(FI_CONNECTED);
            self.report(|link| link.outcome.take(), kind, private_data);
        }
    }

    /// Reports that the connection was not established.
    fn fail(&self, errno: Errno, err_data: &[u8]) {
        if !self
            .state
            .transition(ConnState::Connecting, ConnState::Lost)
        {
            return;
        }
        self.flush();
        let kind = Kind::Error(errno, errno.to_int());
        self.report(|link| link.outcome.take(), kind, err_data);
    }

    /// Reports that the peer rejected the request. The caller holds the mutex of the [`Conn`], which no
    /// longer refers to this endpoint.
    pub(in super::super) fn refused(&self, private_data: &[u8]) {
        self.fail(Errno::ECONNREFUSED, private_data);
    }

    /// Flushes posted operations, then reports FI_SHUTDOWN, after the peer has left or an operation failed.
    /// The caller holds the mutex of the [`Conn`].
    pub(in super::super) fn lose(&self) {
        let lost = self
            .state
            .transition_with(|state| state.is_connected().then_some(ConnState::Lost));
        if lost.is_err() {
            return;
        }
        self.flush_and_report_end();
    }

    /// Ends all transfers, then reports FI_SHUTDOWN once in the endpoint's lifetime.
    fn flush_and_report_end(&self) {
        self.flush();
        let kind = Kind::Connection(FI_SHUTDOWN);
        self.report(|link| link.farewell.take(), kind, &[]);
    }

    /// Ends all transfers and reports posted operations to both sides.
    fn flush(&self) {
        self.inbound.end(ClosingSide::Nobody, &mut |_| {});
        if let Some(outbound) = self.outbound.as_ref() {
            outbound.end(ClosingSide::Nobody, &mut |_| {});
        }
    }

    /// Implements `fi_shutdown()`.
    pub(super) fn end(&self, flags: u64) -> Result {
        context::in_process()?;
        let (_, rest) = self.state.shutdown(flags)?;
        match rest {
            ShutdownAction::DrainTransmits => self.wait_for_transmits(),
            ShutdownAction::CloseReceives => {
                self.inbound.end_receives();
                Ok(())
            }
            // Waits for threads that are processing the peer's transfers.
            ShutdownAction::AwaitFlush => {
                self.flush();
                Ok(())
            }
            ShutdownAction::Disconnect => {
                self.part(&mut |endpoint| endpoint.flush_and_report_end());
                Ok(())
            }
        }
    }

    /// Detaches the endpoint from its peer, calls `act`, then disconnects the peer.
    fn part(&self, act: &mut dyn FnMut(&Self)) {
        let tie = self.link.lock().tie.clone();
        let Some(tie) = tie else {
            return act(self);
        };
        let mut ends = tie.ends.lock();
        let other = ends.leave(self);
        act(self);
        if let Some(other) = &other {
            other.lose();
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
    fn wait_for_transmits(&self) -> Result {
        let Some(outbound) = self.outbound.as_ref() else {
            return Ok(());
        };
        outbound.refuse_transmits();
        let start = Instant::<Monotonic>::now();
        while !outbound.has_ended() {
            if start.elapsed() > PATIENCE {
                return Err(Errno::ETIMEDOUT);
            }
            fsleep(PAUSE);
        }
        Ok(())
    }

    /// Closes the connection without events; the consumer gets all its contexts back through `reclaim`.
    pub(super) fn hang_up(&self, reclaim: &mut dyn FnMut(Context)) {
        let _ = self
            .state
            .transition_with(|state| (state != ConnState::Shut).then_some(ConnState::Shut));
        let request = self.link.lock().request.take();
        drop(request);
        self.part(&mut |endpoint| {
            endpoint.inbound.end(ClosingSide::Receiver, reclaim);
            if let Some(outbound) = endpoint.outbound.as_ref() {
                outbound.end(ClosingSide::Sender, reclaim);
            }
        });
        if let Ok(receiver) = self.inbound.receiver() {
            receiver.exit.forget(self.limits.shares_receives, reclaim);
        }
        if let Some(Ok(sender)) = self.outbound.as_ref().map(|outbound| outbound.sender()) {
            sender.forget(self.limits.shares_receives, reclaim);
        }
        let mut link = self.link.lock();
        let mover = link.bound.as_mut().and_then(|bound| bound.mover.take());
        if let (Some(mover), Ok(receiver)) = (&mover, self.inbound.receiver()) {
            receiver.exit.dismiss(mover);
        }
        let left = (
            mover,
            link.bound.take(),
            link.outfit.take(),
            link.port.take(),
            link.tie.take(),
        );
        drop(link);
        drop(left);
    }
}
