// SPDX-License-Identifier: GPL-2.0

//! Admission of connections up to the limit, in order of arrival. At the limit, the least recently used connections are
//! evicted. Without a limit, which is the default, each connection is admitted.
//!
//! A request that arrives at the limit is rejected with `Already`, and the peer is queued: this endpoint connects to it
//! when it is admitted. An endpoint that gets such a rejection keeps a connection free for the peer for a while;
//! otherwise two endpoints at their limits would never connect.
//!
//! The queue is a FIFO under the mutex `EpCore::cm`. The limits are atomics that the consumer sets.

use super::{
    super::{
        conn::{
            loopback_idx,
            stalled::STALL_CHECK, //
        },
        deferred_rx::RETRY_INTERVAL,
        ep_core::{
            Bound,
            EpCore, //
        },
    },
    source::{
        default_limit,
        source_of, //
    },
    state::State,
    timers::TimerKind,
    CmPeer,
    ConnMgr, //
};
use crate::fi::prelude::*;
use core::net::IpAddr;

/// Time for which evicted connections may take to end before others are evicted.
const EVICT_DELAY: Delta = Delta::from_millis(20);

/// Interval of the checks of shutdown handshakes.
const SHUTDOWN_CHECK: Delta = Delta::from_secs(1);

/// Interval of the removal of unused peers, if connections have no idle timeout.
const SWEEP_INTERVAL: Delta = Delta::from_secs(60);

/// Delay before the messages of an imported SRX are retried.
const SRX_RETRY_DELAY: Delta = Delta::from_millis(10);

/// Number of waiting peers beyond which new peers are not queued when their request is rejected.
const MAX_WAITERS: usize = 4096;

/// Number of waiting peers of one source beyond which new peers of this source are not queued.
const MAX_SOURCE_WAITERS: usize = MAX_WAITERS / 8;

/// Entry of the queue: sequence number and index of a peer. It is out of date if the peer does not wait with this
/// number.
pub(in super::super) type Waiter = (u64, u32);

impl ConnMgr {
    /// Returns whether no further connection is permitted.
    fn is_at_limit(&self, limits: &ConnLimits) -> bool {
        if limits.max_conns() == 0 {
            return false;
        }
        let expected = self.peers.iter().flatten();
        let expected = expected.filter(|cm_peer| cm_peer.fsm.state() == State::AwaitingPeer);
        limits.at_limit(expected.count())
    }

    /// Returns whether the peer has to wait for a connection: at the limit, or if another peer is first in the queue.
    pub(in super::super) fn has_to_wait(&mut self, limits: &ConnLimits, peer_idx: u32) -> bool {
        self.is_at_limit(limits) || self.first_waiter().is_some_and(|first| first != peer_idx)
    }

    /// Returns whether the peer has a connection or is getting one.
    pub(in super::super) fn has_slot(&mut self, peer_idx: u32) -> bool {
        self.cm_peer(peer_idx)
            .is_ok_and(|cm_peer| cm_peer.fsm.state() != State::Idle)
    }

    fn is_waiting(&self, &(wait_seq, peer_idx): &Waiter) -> bool {
        let cm_peer = self.peers.get(peer_idx as usize).and_then(Option::as_ref);
        cm_peer.is_some_and(|cm_peer| cm_peer.fsm.wait_seq() == Some(wait_seq))
    }

    /// Returns the number of waiting peers.
    fn queued(&self) -> usize {
        let waiters = self.waiters.iter();
        waiters.filter(|waiter| self.is_waiting(waiter)).count()
    }

    /// Returns whether peers wait.
    pub(in super::super) fn has_waiters(&mut self) -> bool {
        self.first_waiter().is_some()
    }

    /// Returns whether the queue takes no new peer at an address: it is full, or full for the source of the address.
    pub(in super::super) fn has_max_waiters(&self, ip: IpAddr) -> bool {
        let source = source_of(ip);
        let is_of_source = |waiter: &&Waiter| {
            let cm_peer = self.peers.get(waiter.1 as usize).and_then(Option::as_ref);
            self.is_waiting(waiter)
                && cm_peer.is_some_and(|cm_peer| source_of(cm_peer.addr.ip()) == source)
        };
        self.waiters.len() >= MAX_WAITERS
            || self.waiters.iter().filter(is_of_source).count() >= MAX_SOURCE_WAITERS
    }

    /// Enqueues a peer, unless it has a connection.
    pub(in super::super) fn enqueue(&mut self, peer_idx: u32) {
        let wait_seq = self.next_wait_seq;
        let Ok(cm_peer) = self.cm_peer(peer_idx) else {
            return;
        };
        if !cm_peer.fsm.enqueue(wait_seq) {
            return;
        }
        let own = cm_peer.wait_node.take();
        // An entry that is out of date may still be in the queue.
        if let Some(mut waiter) = own.or_else(|| self.take_waiter(peer_idx)) {
            *waiter = (wait_seq, peer_idx);
            self.waiters.push(waiter);
        }
        self.next_wait_seq += 1;
    }

    /// Removes the entry of a peer from the queue.
    fn take_waiter(&mut self, peer_idx: u32) -> Option<ListBox<Waiter>> {
        self.waiters
            .remove_first_where(|waiter| waiter.1 == peer_idx)
    }

    /// Moves a peer whose request has not arrived to the end of the queue.
    pub(in super::super) fn leave_awaiting(&mut self, peer_idx: u32) {
        if self
            .cm_peer(peer_idx)
            .is_ok_and(|cm_peer| cm_peer.fsm.leave_awaiting())
        {
            self.enqueue(peer_idx);
        }
    }

    /// Returns the peer that has waited longest.
    fn first_waiter(&mut self) -> Option<u32> {
        loop {
            let first = self.waiters.front()?;
            if self.is_waiting(first) {
                return Some(first.1);
            }
            let waiter = self.waiters.pop()?;
            if let Ok(cm_peer) = self.cm_peer(waiter.1) {
                cm_peer.wait_node = Some(waiter);
            }
        }
    }
}

impl EpCore {
    /// Runs the expired timers.
    pub(in super::super) fn run_timers(
        &self,
        here: ProcessContext,
        bound: &Bound,
        cm: &mut ConnMgr,
    ) {
        while let Some(kind) = cm.timers.take_expired() {
            match kind {
                TimerKind::Reconnect => self.retry_awaiting(here, bound, cm),
                // The caller runs [`EpCore::admit_next`] next, which evicts.
                TimerKind::Evict => {
                    cm.evict_round += 1;
                    self.update_quiet_rounds();
                }
                TimerKind::Shutdown => self.check_shutdowns(),
                TimerKind::IdleSweep => self.sweep_idle(here, bound, cm),
                TimerKind::RxRetry => {
                    self.retry_imported();
                    let mut state = self.inner.lock();
                    state.has_retry_timer = false;
                    state.needs_retry_timer = true;
                }
                TimerKind::StallCheck => self.check_stalled(bound),
                TimerKind::AcceptCheck => self.check_accepting(here, bound, cm),
            }
        }
    }

    /// Arms the timer for the next deadline.
    pub(in super::super) fn arm_timer(&self, bound: &Bound, cm: &mut ConnMgr) {
        let mut state = self.inner.lock();
        let needs_srx_retry = mem::take(&mut state.needs_srx_retry);
        let needs_rx_retry = mem::take(&mut state.needs_retry_timer) && state.has_deferred_rx();
        state.has_retry_timer |= needs_rx_retry;
        let needs_stall_check = state.take_stall_check();
        let shutdown_pending = state.shutdown_pending;
        drop(state);
        if needs_rx_retry {
            cm.timers.arm(TimerKind::RxRetry, RETRY_INTERVAL);
        }
        if needs_stall_check {
            cm.timers.arm(TimerKind::StallCheck, STALL_CHECK);
        }
        if shutdown_pending {
            cm.timers.arm(TimerKind::Shutdown, SHUTDOWN_CHECK);
        }
        if needs_srx_retry {
            cm.timers.arm(TimerKind::RxRetry, SRX_RETRY_DELAY);
        }
        if cm.peers.iter().flatten().next().is_some() {
            let idle = self.limits.idle();
            cm.timers
                .arm(TimerKind::IdleSweep, idle.unwrap_or(SWEEP_INTERVAL));
        }
        if let Some(after) = cm.timers.next_delay() {
            bound.cm_timer.arm(&mut cm.armed_timer, after);
        }
    }

    /// Admits the peer that has waited longest, or evicts connections at the limit. Returns true if the connection
    /// manager has more work now.
    pub(in super::super) fn admit_next(
        &self,
        here: ProcessContext,
        bound: &Bound,
        cm: &mut ConnMgr,
    ) -> bool {
        let Some(peer_idx) = cm.first_waiter() else {
            return false;
        };
        if cm.is_at_limit(&self.limits) {
            cm.timers.arm(TimerKind::Evict, EVICT_DELAY);
            self.evict(cm.queued(), cm.evict_round);
            return self.inner.lock().has_cm_work();
        }
        self.start_connect(here, bound, cm, peer_idx);
        true
    }

    /// Requests the shutdown of idle connections, and removes unused peers.
    fn sweep_idle(&self, here: ProcessContext, bound: &Bound, cm: &mut ConnMgr) {
        if self.limits.idle().is_some() {
            self.shutdown_idle();
        }
        for peer_idx in (0..cm.peers.len() as u32).step_by(2) {
            self.remove_peer(here, bound, cm, peer_idx);
        }
    }

    /// Removes a peer that has no state except its address. It gets another index when it is added again.
    pub(in super::super) fn remove_peer(
        &self,
        here: ProcessContext,
        bound: &Bound,
        cm: &mut ConnMgr,
        peer_idx: u32,
    ) {
        let peer_idxs = [peer_idx & !1, loopback_idx(peer_idx)];
        let is_in_use = |cm_peer: &CmPeer| {
            cm_peer.fsm.state() != State::Idle || cm_peer.fsm.wait_seq().is_some()
        };
        if peer_idxs
            .iter()
            .any(|&peer_idx| cm.cm_peer(peer_idx).is_ok_and(|cm_peer| is_in_use(cm_peer)))
        {
            return;
        }
        let Some(left) = self.quiesced().remove_peer(peer_idxs) else {
            return;
        };
        drop(left);
        for peer_idx in peer_idxs {
            let removed = cm.peers.get_mut(peer_idx as usize).and_then(Option::take);
            let Some(cm_peer) = removed else {
                continue;
            };
            cm.sources.remove_peer(cm_peer.addr.ip());
            if cm_peer.wait_node.is_none() {
                drop(cm.take_waiter(peer_idx));
            }
        }
        // The removal cannot fail: this connection manager inserted the index.
        let _ = bound.peer_av.remove(here, u64::from(peer_idx / 2));
    }
}

/// Default of the idle timeout, in milliseconds.
const DEFAULT_IDLE_MILLIS: usize = 60_000;

/// Largest limit of connections.
const MAX_CONNS: usize = i32::MAX as usize;

/// Largest idle timeout, in milliseconds.
const MAX_IDLE_MILLIS: usize = i32::MAX as usize;

/// Connection limits of an endpoint.
pub(in super::super) struct ConnLimits {
    /// Number of connections. Changed under the mutex `EpCore::cm`.
    count: Atomic<usize>,
    max_conns: Atomic<usize>,
    idle: Atomic<usize>,
    source_bytes: Atomic<usize>,
}

impl ConnLimits {
    /// Creates the default limits.
    #[inline(never)]
    pub(in super::super) fn new() -> Self {
        Self {
            count: Atomic::new(0),
            max_conns: Atomic::new(0),
            idle: Atomic::new(DEFAULT_IDLE_MILLIS),
            source_bytes: Atomic::new(default_limit()),
        }
    }

    /// Returns the number of connections, including those that are being established. Any context.
    pub(in super::super) fn conn_count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Counts a connection.
    pub(in super::super) fn add_conn(&self) {
        self.count.store(self.conn_count() + 1, Relaxed);
    }

    /// Counts the end of a connection.
    pub(in super::super) fn remove_conn(&self) {
        self.count
            .store(self.conn_count().saturating_sub(1), Relaxed);
    }

    /// Returns whether the limit is reached while `others` connections are kept free.
    fn at_limit(&self, others: usize) -> bool {
        let max_conns = self.max_conns();
        max_conns != 0 && self.conn_count() + others >= max_conns
    }

    /// Returns the largest number of connections; 0 for no limit. Any context.
    pub(in super::super) fn max_conns(&self) -> usize {
        self.max_conns.load(Relaxed)
    }

    /// Sets the largest number of connections, 0 for no limit; existing ones stay. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for more than 2^31 - 1.
    pub(in super::super) fn set_max_conns(&self, most: usize) -> Result {
        if most > MAX_CONNS {
            return Err(Errno::EINVAL);
        }
        self.max_conns.store(most, Relaxed);
        Ok(())
    }

    /// Returns the limit of the memory of the connections with one source, in bytes; 0 for no limit. Any context.
    pub(in super::super) fn source_bytes(&self) -> usize {
        self.source_bytes.load(Relaxed)
    }

    /// Sets the limit of the memory of the connections with one source, in bytes, 0 for no limit; existing ones stay.
    /// Any context.
    pub(in super::super) fn set_source_bytes(&self, bytes: usize) {
        self.source_bytes.store(bytes, Relaxed);
    }

    /// Returns the idle timeout in milliseconds; 0 means none. Any context.
    pub(in super::super) fn idle_millis(&self) -> usize {
        self.idle.load(Relaxed)
    }

    /// Returns the idle timeout, if there is one.
    pub(in super::super) fn idle(&self) -> Option<Delta> {
        match self.idle_millis() {
            0 => None,
            millis => Some(Delta::from_millis(millis as i64)),
        }
    }

    /// Sets the idle timeout in milliseconds, which applies from the next check on. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for more than 2^31 - 1.
    pub(in super::super) fn set_idle_millis(&self, millis: usize) -> Result {
        if millis > MAX_IDLE_MILLIS {
            return Err(Errno::EINVAL);
        }
        self.idle.store(millis, Relaxed);
        Ok(())
    }
}
