// SPDX-License-Identifier: GPL-2.0

//! Queued operations to removed addresses: they fail once nothing to their peer has completed for a second. Until then
//! they go on, because a consumer may remove an address right after its last send.
//!
//! The connection manager checks the peers that have deferred operations, each under its own hold of `EpCore::inner`.

use super::super::{
    completion::CompSinks,
    ep_core::{
        Bound,
        EpCore, //
    },
    ep_state::EpState, //
};
use crate::fi::{
    av::AddressVector,
    prelude::*, //
};

/// Interval of the checks.
pub(in super::super) const STALL_CHECK: Delta = Delta::from_millis(250);

/// Number of checks in a row without a completion after which operations to removed addresses fail: a second at least.
const STALLED_CHECKS: u32 = 5;

/// Says whether deferred operations are going to be checked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum StallCheck {
    /// No operation is deferred.
    Off,
    /// The connection manager has to arm the timer.
    Wanted,
    /// The timer is armed.
    Armed,
}

impl EpCore {
    /// Checks the deferred operations of all peers.
    pub(in super::super) fn check_stalled(&self, bound: &Bound) {
        let count = {
            let mut state = self.inner.lock();
            state.stall_check = StallCheck::Off;
            state.peers.len() as u32
        };
        for peer_idx in 0..count {
            self.with_state(|state, sinks| state.check_peer(sinks, &bound.addresses, peer_idx));
        }
    }
}

impl EpState {
    /// Requests a check of the deferred operations, unless one will come.
    #[inline(always)]
    pub(in super::super) fn want_stall_check(&mut self) {
        if self.stall_check == StallCheck::Off {
            self.stall_check = StallCheck::Wanted;
        }
    }

    /// Returns whether the timer for the check has to be armed, which the caller does.
    pub(in super::super) fn take_stall_check(&mut self) -> bool {
        let is_wanted = self.stall_check == StallCheck::Wanted;
        if is_wanted {
            self.stall_check = StallCheck::Armed;
        }
        is_wanted
    }

    /// Posts the deferred operations of a peer as far as possible: they may have waited for entries of a completion queue
    /// that other peers used. Fails the queued operations of a peer whose address is not in `addresses` any more and that
    /// has not completed anything for long enough.
    fn check_peer(&mut self, sinks: &CompSinks, addresses: &AddressVector, peer_idx: u32) {
        let Some(peer) = self.peer(peer_idx) else {
            return;
        };
        if peer.deferred.is_empty() {
            peer.stalled_checks = 0;
            return;
        }
        peer.stalled_checks = peer.stalled_checks.saturating_add(1);
        self.progress_peer(sinks, peer_idx);
        let Some(peer) = self.peer(peer_idx) else {
            return;
        };
        if peer.stalled_checks >= STALLED_CHECKS && addresses.find(&peer.addr).is_none() {
            let mut queued = peer.deferred.drain_where(|packet| !packet.has_started());
            while let Some(packet) = queued.pop() {
                self.finish_queued(sinks, packet, Errno::ECANCELED);
            }
            // The peer may be unused now.
            self.queue_cm_work(peer_idx);
        }
        self.want_stall_check();
    }
}
