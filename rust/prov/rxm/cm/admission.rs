// SPDX-License-Identifier: GPL-2.0

//! Who has a connection, where there are only so many: those wait in order who want one, and those make
//! room that use theirs least.
//!
//! A peer that asks while there is no room is told that it is being asked itself, which it is when its turn
//! comes: so those who come from outside wait in the same row. Whoever has been told so keeps the room
//! for it a while, or two that are both full would never meet.
//!
//! How many connections an endpoint has, and what its consumer may set of them.

use super::{
    super::{
        conn::loopback_idx,
        ep_core::{
            Bound,
            EpCore, //
        },
        ep_state::{
            CONN_SLOTS,
            MAX_CONNS, //
        },
    },
    state::State,
    timers::TimerKind,
    CmPeer,
    ConnMgr, //
};
use crate::fi::prelude::*;

/// How long connections have to make room before others are asked to.
const EVICT_DELAY: Delta = Delta::from_millis(20);

/// How often somebody looks after connections that are to end.
const SHUTDOWN_CHECK: Delta = Delta::from_secs(1);

/// And for peers that can be forgotten, where no connection ends by itself.
const SWEEP_INTERVAL: Delta = Delta::from_secs(60);

/// How long something is left alone that another module's provider has no room for.
const SRX_RETRY_DELAY: Delta = Delta::from_millis(10);

/// Peers that wait for room, beyond which those are not remembered that come from outside.
const MAX_WAITERS: usize = MAX_CONNS;

impl ConnMgr {
    /// Whether there is no room for another connection.
    pub(in super::super) fn is_at_limit(&self, limits: &ConnLimits) -> bool {
        let expected = self.peers.iter().flatten();
        let expected = expected.filter(|cm_peer| cm_peer.fsm.state() == State::AwaitingPeer);
        limits.at_limit(expected.count())
    }

    /// Whether that connection has its room.
    pub(in super::super) fn has_slot(&mut self, peer_idx: u32) -> bool {
        self.cm_peer(peer_idx)
            .is_ok_and(|cm_peer| cm_peer.fsm.state() != State::Idle)
    }

    /// How many wait for room.
    fn queued(&self) -> usize {
        let queued = self.peers.iter().flatten();
        queued
            .filter(|cm_peer| cm_peer.fsm.wait_seq().is_some())
            .count()
    }

    /// Whether some do.
    pub(in super::super) fn has_waiters(&self) -> bool {
        self.queued() > 0
    }

    /// Whether there are enough.
    pub(in super::super) fn has_max_waiters(&self) -> bool {
        self.queued() >= MAX_WAITERS
    }

    /// Has a peer wait for room, unless its connection has that.
    pub(in super::super) fn enqueue(&mut self, peer_idx: u32) {
        let wait_seq = self.next_wait_seq;
        if self
            .cm_peer(peer_idx)
            .is_ok_and(|cm_peer| cm_peer.fsm.enqueue(wait_seq))
        {
            self.next_wait_seq += 1;
        }
    }

    /// Has one that is expected to ask itself wait behind the others.
    pub(in super::super) fn yield_turn(&mut self, peer_idx: u32) {
        if self
            .cm_peer(peer_idx)
            .is_ok_and(|cm_peer| cm_peer.fsm.yield_turn())
        {
            self.enqueue(peer_idx);
        }
    }

    /// Who has waited longest.
    fn first_waiter(&self) -> Option<u32> {
        let all = self.peers.iter().zip(0..);
        let queued = all
            .filter_map(|(cm_peer, peer_idx)| Some((cm_peer.as_ref()?.fsm.wait_seq()?, peer_idx)));
        queued.min().map(|(_, peer_idx)| peer_idx)
    }
}

impl EpCore {
    /// Does what it is time for.
    pub(in super::super) fn run_timers(
        &self,
        here: ProcessContext,
        bound: &Bound,
        cm: &mut ConnMgr,
    ) {
        while let Some(kind) = cm.timers.take_expired() {
            match kind {
                TimerKind::Reconnect => self.retry_awaiting(here, bound, cm),
                // Whoever gives it away sees to the rest.
                TimerKind::Evict => self.inner.lock().update_quiet_rounds(),
                TimerKind::Shutdown => self.with_state(|state, sinks| state.check_shutdowns(sinks)),
                TimerKind::IdleSweep => self.sweep_idle(here, bound, cm),
                TimerKind::SrxRetry => self.retry_imported(),
            }
        }
    }

    /// Has somebody come back when it is time for something.
    pub(in super::super) fn arm_timer(&self, bound: &Bound, cm: &mut ConnMgr) {
        let (shutdown_pending, needs_srx_retry) = self.with_state(|state, _| {
            let needs_srx_retry = mem::take(&mut state.needs_srx_retry);
            (state.shutdown_pending, needs_srx_retry)
        });
        if shutdown_pending {
            cm.timers.arm(TimerKind::Shutdown, SHUTDOWN_CHECK);
        }
        if needs_srx_retry {
            cm.timers.arm(TimerKind::SrxRetry, SRX_RETRY_DELAY);
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

    /// Gives room to who has waited longest, or has others make it: whether there is more to do at once.
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
            return self.with_state(|state, sinks| {
                state.evict(sinks, cm.queued());
                state.needs_cm_work()
            });
        }
        self.start_connect(here, bound, cm, peer_idx);
        true
    }

    /// Has connections end that nobody uses, and forgets peers of which there is nothing to know.
    fn sweep_idle(&self, here: ProcessContext, bound: &Bound, cm: &mut ConnMgr) {
        if self.limits.idle().is_some() {
            self.with_state(|state, sinks| state.shutdown_idle(sinks));
        }
        for peer_idx in (0..cm.peers.len() as u32).step_by(2) {
            self.remove_peer(here, bound, cm, peer_idx);
        }
    }

    /// Forgets a peer, if there is nothing to know of it but where it is: it has another number when it
    /// comes again.
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
        let Some(left) = self.inner.lock().remove_peer(peer_idxs) else {
            return;
        };
        drop(left);
        for peer_idx in peer_idxs {
            if let Some(cm_peer) = cm.peers.get_mut(peer_idx as usize) {
                *cm_peer = None;
            }
        }
        // Nobody else takes it away.
        let _ = bound.peer_av.remove(here, u64::from(peer_idx / 2));
    }
}

/// After how many milliseconds a connection is closed that nobody uses, unless the consumer says otherwise.
const DEFAULT_IDLE_MILLIS: usize = 60_000;

/// More milliseconds than anybody waits.
const MAX_IDLE_MILLIS: usize = i32::MAX as usize;

/// See the module.
pub(in super::super) struct ConnLimits {
    /// Those that there are, whose mutex whoever changes that has.
    count: Atomic<usize>,
    max_conns: Atomic<usize>,
    idle: Atomic<usize>,
}

impl ConnLimits {
    /// Those of an endpoint of which nobody has set anything.
    pub(in super::super) const fn new() -> Self {
        Self {
            count: Atomic::new(0),
            max_conns: Atomic::new(MAX_CONNS),
            idle: Atomic::new(DEFAULT_IDLE_MILLIS),
        }
    }

    /// How many connections there are, those included that are being made. Any context.
    pub(in super::super) fn conn_count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// There is one more; false if there is no room whatever the consumer says.
    pub(in super::super) fn add_conn(&self) -> bool {
        let open = self.conn_count();
        let has_room = open < CONN_SLOTS;
        self.count.store(open + usize::from(has_room), Relaxed);
        has_room
    }

    /// There is one less.
    pub(in super::super) fn remove_conn(&self) {
        self.count
            .store(self.conn_count().saturating_sub(1), Relaxed);
    }

    /// Whether there are no more to be, where there is to be room for so many others.
    pub(in super::super) fn at_limit(&self, others: usize) -> bool {
        self.conn_count() + others >= self.max_conns()
    }

    /// How many connections it has at once, at most. Any context.
    pub(in super::super) fn max_conns(&self) -> usize {
        self.max_conns.load(Relaxed)
    }

    /// So many, from now on: no more are made while there are as many. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for none, or more than there can be.
    pub(in super::super) fn set_max_conns(&self, most: usize) -> Result {
        if !(1..=MAX_CONNS).contains(&most) {
            return Err(Errno::EINVAL);
        }
        self.max_conns.store(most, Relaxed);
        Ok(())
    }

    /// After how many milliseconds a connection is closed that nobody uses; 0 for never. Any context.
    pub(in super::super) fn idle_millis(&self) -> usize {
        self.idle.load(Relaxed)
    }

    /// The same, if there is such a time.
    pub(in super::super) fn idle(&self) -> Option<Delta> {
        match self.idle_millis() {
            0 => None,
            millis => Some(Delta::from_millis(millis as i64)),
        }
    }

    /// After so many, from the next time on that somebody looks. Any context.
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
