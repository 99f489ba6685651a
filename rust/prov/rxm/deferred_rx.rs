// SPDX-License-Identifier: GPL-2.0

//! Received packets that are deferred in their buffers, and their retries. Guarded by `EpCore::inner`.
//!
//! A packet is deferred if its message has neither a receive nor memory to be queued, or if an earlier packet of its
//! peer is deferred. A retry processes the deferred packets of all peers again. It starts when memory or an entry of
//! the consumer's completion queue that one of the packets may wait for becomes free, and every [`RETRY_INTERVAL`].
//!
//! A posted receive starts a retry only if it may match the first deferred message of a peer. Otherwise peers whose
//! deferred messages match no receive would delay each receive of the other peers. [`DeferredKeys`] counts the first
//! messages by a hash of their tags.

use super::{
    ep_state::EpState,
    matcher::{
        MatchSpec,
        MsgKey, //
    },
    pkt_buf::Packet,
    turn::Held,
};
use crate::{
    fi::prelude::*,
    util::hash::HashSeed, //
};

/// Number of peers and packets, added up, after which one step of a retry ends.
const RETRY_STEP: usize = 64;

/// Interval of the retries that the connection manager's timer starts.
pub(super) const RETRY_INTERVAL: Delta = Delta::from_millis(100);

/// Number of counters of [`DeferredKeys`], without that of [`KeySlot::NONE`].
const KEY_SLOTS: usize = 256;

/// Index of a counter of [`DeferredKeys`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct KeySlot(u16);

impl KeySlot {
    /// Counter of peers whose first deferred packet waits for something other than a receive.
    pub(super) const NONE: Self = Self(KEY_SLOTS as u16);
}

/// Packets of a peer that a retry processes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryScope {
    /// Each packet.
    All,
    /// Packets up to the first one that is deferred again. The packets after it would be deferred too, unless a
    /// segmented message of the peer is incomplete: then all packets are processed.
    First,
}

/// Counters of the peers with deferred packets, by a hash of the context and tag of their first deferred message.
pub(super) struct DeferredKeys {
    seed: HashSeed,
    counts: [u32; KEY_SLOTS + 1],
}

impl DeferredKeys {
    /// Creates the counters, each 0.
    pub(super) fn new() -> Self {
        Self {
            seed: HashSeed::new(),
            counts: [0; KEY_SLOTS + 1],
        }
    }

    fn slot_of(&self, context: u8, tag: Option<u64>) -> KeySlot {
        let hash = match tag {
            Some(tag) => self.seed.hash_1(tag),
            None => 0,
        };
        let slot = hash.wrapping_add(u32::from(context) << 1 | u32::from(tag.is_some()));
        KeySlot((slot as usize % KEY_SLOTS) as u16)
    }

    /// Returns the index of the counter for a message.
    pub(super) fn slot(&self, key: &MsgKey) -> KeySlot {
        self.slot_of(key.context, key.tag)
    }

    fn count(&mut self, KeySlot(at): KeySlot) -> &mut u32 {
        &mut self.counts[usize::from(at)]
    }

    fn has(&self, KeySlot(at): KeySlot) -> bool {
        self.counts[usize::from(at)] > 0
    }

    /// Returns whether a receive in the context `context` may match a counted message. A receive that ignores bits of
    /// the tag always may.
    fn may_match(&self, context: u8, spec: &MatchSpec) -> bool {
        let tag = match spec.tag {
            Some((_, ignore)) if ignore != 0 => return true,
            Some((tag, _)) => Some(tag),
            None => None,
        };
        self.has(self.slot_of(context, tag))
    }
}

impl EpState {
    /// Returns whether received packets are deferred.
    pub(super) fn has_deferred_rx(&self) -> bool {
        !self.deferred_peers.is_empty()
    }

    /// Returns whether a receive in the context `at` may match a deferred message.
    #[inline]
    pub(super) fn may_match_deferred(&self, at: u8, spec: &MatchSpec) -> bool {
        self.has_deferred_rx() && self.deferred_keys.may_match(at, spec)
    }

    /// Adds a packet to the deferred packets of its peer. `key_slot` is the counter of its message.
    pub(super) fn defer_rx(&mut self, packet: ListBox<Packet>, key_slot: KeySlot) {
        let Self {
            peers,
            deferred_peers,
            deferred_keys,
            needs_retry_timer,
            has_retry_timer,
            ..
        } = self;
        let peer = peers
            .get_mut(packet.peer_idx as usize)
            .and_then(Option::as_mut);
        let Some(peer) = peer else {
            // Cannot happen: packets are dispatched to a peer.
            return self.keep(packet);
        };
        if peer.deferred_rx.is_empty() {
            *deferred_keys.count(key_slot) += 1;
            peer.source_unexp.add_waiter();
            peer.deferred_key = key_slot;
        }
        peer.deferred_rx.push(packet);
        if let Some(node) = peer.deferred_node.take() {
            *needs_retry_timer |= !*has_retry_timer;
            deferred_peers.push(node);
        }
        // An imported SRX does not announce posted receives.
        self.needs_srx_retry |= self.rx_ctxs.ctx(0).is_imported();
    }

    /// Takes the deferred packets of a peer.
    fn take_deferred_rx(&mut self, peer_idx: u32) -> BoxList<Packet> {
        let Self {
            peers,
            deferred_keys,
            ..
        } = self;
        let peer = peers.get_mut(peer_idx as usize).and_then(Option::as_mut);
        let Some(peer) = peer.filter(|peer| !peer.deferred_rx.is_empty()) else {
            return BoxList::new();
        };
        *deferred_keys.count(peer.deferred_key) -= 1;
        peer.source_unexp.remove_waiter();
        mem::take(&mut peer.deferred_rx)
    }
}

impl Held<'_> {
    /// Starts a retry if something that deferred packets may wait for may have become free.
    pub(super) fn retry_if_wanted(&mut self) {
        if self.retry_wanted || self.awaits_entry {
            self.retry_deferred();
        }
    }

    /// Starts a retry: processes the deferred packets of all peers again. Runs the first step at once; the connection
    /// manager runs the others, see [`Self::retry_step`].
    pub(super) fn retry_deferred(&mut self) {
        self.retry_wanted = false;
        self.awaits_entry = false;
        if self.has_deferred_rx() {
            self.retries_left = self.deferred_peers.len();
            let _ = self.retry_step();
        }
    }

    /// Runs the next step of a retry, with the peers that have waited longest. Ends after [`RETRY_STEP`] peers and
    /// packets, but not between the packets of a peer. Returns false if no peers are left, or if another thread has the
    /// turn: the end of that turn schedules the completion handler.
    pub(super) fn retry_step(&mut self) -> bool {
        if self.retries_left == 0 {
            return false;
        }
        let is_done = self.with_turn(|held, _| held.retry_peers()).is_some();
        self.turn.again |= !is_done;
        is_done
    }

    fn retry_peers(&mut self) {
        let mut processed = 0;
        while self.retries_left > 0 && processed < RETRY_STEP {
            self.retries_left -= 1;
            let Some(node) = self.deferred_peers.pop() else {
                break;
            };
            let peer_idx = *node;
            if let Some(peer) = self.peer(peer_idx) {
                peer.deferred_node = Some(node);
            }
            let count = self.retry_peer(peer_idx, true, RetryScope::First);
            if count == 0 {
                // The connection has ended since the packets were deferred: the connection manager checks for an
                // unused peer.
                self.queue_cm_work(peer_idx);
            }
            processed += 1 + count;
        }
    }

    /// Processes the deferred packets of a peer again, and returns their number. The memory limits apply if
    /// `is_limited` is set. The caller has the turn.
    pub(super) fn retry_peer(
        &mut self,
        peer_idx: u32,
        is_limited: bool,
        scope: RetryScope,
    ) -> usize {
        let mut packets = self.take_deferred_rx(peer_idx);
        let mut count = 0;
        if let (false, Some(peer)) = (packets.is_empty(), self.peer(peer_idx)) {
            peer.sar_rx.clear_deferred();
        }
        while let Some(packet) = packets.pop() {
            self.process_rx(packet, is_limited);
            count += 1;
            let peer = self.peer(peer_idx).filter(|_| scope == RetryScope::First);
            let Some(peer) = peer else {
                continue;
            };
            if !peer.deferred_rx.is_empty() && !peer.sar_rx.any(|sar| !sar.is_complete) {
                peer.deferred_rx.append(&mut packets);
            }
        }
        count
    }
}

#[kernel::prelude::kunit_tests(kofi_rdm_deferred_rx)]
mod tests {
    use super::*;

    fn key(context: u8, tag: Option<u64>) -> MsgKey {
        MsgKey {
            context,
            tag,
            ..MsgKey::NONE
        }
    }

    fn spec(tag: Option<(u64, u64)>) -> MatchSpec {
        MatchSpec { tag, from: None }
    }

    #[test]
    fn rdm_11_receives_find_deferred_messages_by_their_tags() {
        let mut keys = DeferredKeys::new();
        assert!(!keys.may_match(0, &spec(None)) && !keys.may_match(0, &spec(Some((1, 0)))));
        for at in [key(0, None), key(1, Some(7))] {
            let slot = keys.slot(&at);
            *keys.count(slot) += 1;
        }
        assert!(keys.may_match(0, &spec(None)) && keys.may_match(1, &spec(Some((7, 0)))));
        // Most other tags have other counters.
        let others = (100..1100).filter(|&tag| keys.may_match(1, &spec(Some((tag, 0)))));
        assert!(others.count() < 100);
        // A receive that ignores bits may match any counted tag.
        assert!(keys.may_match(0, &spec(Some((100, 1)))));
        let slot = keys.slot(&key(0, None));
        *keys.count(slot) -= 1;
        assert!(!keys.may_match(0, &spec(None)));
    }

    #[test]
    fn packets_without_a_key_concern_no_receive() {
        let mut keys = DeferredKeys::new();
        *keys.count(KeySlot::NONE) += 1;
        assert!(!keys.may_match(3, &spec(None)) && !keys.may_match(0, &spec(Some((5, 0)))));
    }
}
