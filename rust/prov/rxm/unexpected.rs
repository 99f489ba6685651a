// SPDX-License-Identifier: GPL-2.0

//! Unexpected messages: messages that wait for a receive, and the limits of their memory. Guarded by `EpCore::inner`,
//! or by the lock of a shared receive context.

use super::{
    conn::MAX_RX_BUFS,
    dispatch::{
        RxMsg,
        RxOutcome, //
    },
    ep_state::EpState,
    matcher::{
        HasMsgKey,
        MsgKey,
        MSG_TABLES, //
    },
    multi_recv::deliver::Missing,
    rx_entry::RxTarget,
    turn::Held,
    wire::{
        Message,
        Ranges,
        MAX_PACKET, //
    },
};
use crate::{
    abi::FI_ADDR_NOTAVAIL,
    fi::prelude::*,
    util::indexed_fifo::{
        impl_has_links,
        Links, //
    },
};

/// An unexpected message.
pub(super) struct UnexpMsg {
    /// Matching key.
    pub(super) key: MsgKey,
    /// The message.
    pub(super) message: Message,
    /// Index of the peer that sent the message.
    pub(super) peer_idx: u32,
    /// Generation of the connection that the message arrived on.
    pub(super) conn_gen: usize,
    /// Content of the message.
    pub(super) body: UnexpBody,
    /// Context that has claimed the message.
    pub(super) claim: Option<Context>,
    /// Assigned receive memory, while the message waits for a completion queue entry.
    pub(super) target: Option<RxTarget>,
    /// Slot of the endpoint in a shared receive context.
    pub(super) ep_slot: u32,
    /// Entry of the message at an SRX owner in another module.
    pub(super) peer_entry: usize,
    /// Source address that was passed to the SRX owner.
    pub(super) source: fi_addr_t,
    links: Links<Self, MSG_TABLES>,
}

// An entry without the bytes of its message, but with the pointer of its list, is no larger than the charge for it.
const _: () = assert!(mem::size_of::<UnexpMsg>() <= UNEXP_OVERHEAD - mem::size_of::<usize>());

impl_has_links! {
    impl HasLinks<MSG_TABLES> for UnexpMsg { self.links }
}

/// A rendezvous request.
pub(super) struct RndvReq {
    /// Generation of the connection.
    pub(super) conn_gen: usize,
    /// Message id of the sender.
    pub(super) id: u64,
    /// Memory of the message.
    pub(super) ranges: Ranges,
}

/// Content of an unexpected message.
pub(super) enum UnexpBody {
    /// The bytes of the message.
    Bytes(KVec<u8>),
    /// Rendezvous request.
    Rndv(KBox<RndvReq>),
    /// Segmented message: number of the sender's [`SarMsg`].
    Sar(u64),
    /// Message of a provider in another module: its number at that provider.
    PeerMsg(usize),
}

impl HasMsgKey for UnexpMsg {
    #[inline(always)]
    fn key(&self) -> &MsgKey {
        &self.key
    }

    fn owner(&self) -> u32 {
        self.ep_slot
    }

    fn claimed_by(&self) -> Option<usize> {
        Some(self.claim?.as_ptr() as usize)
    }
}

/// Charge for an unexpected message in addition to its bytes, in bytes.
pub(super) const UNEXP_OVERHEAD: usize = 512;

impl UnexpMsg {
    /// Creates an unexpected message.
    pub(super) fn new(key: MsgKey, message: Message, peer_idx: u32, body: UnexpBody) -> Self {
        Self {
            key,
            message,
            peer_idx,
            conn_gen: 0,
            body,
            claim: None,
            target: None,
            ep_slot: 0,
            peer_entry: 0,
            source: FI_ADDR_NOTAVAIL,
            links: Links::new(),
        }
    }

    /// Returns whether the message was incomplete when it was queued: a rendezvous request or a segmented message.
    fn may_be_incomplete(&self) -> bool {
        matches!(self.body, UnexpBody::Rndv(_) | UnexpBody::Sar(_))
    }

    /// Returns the memory that is charged, in bytes.
    pub(super) fn charge(&self) -> usize {
        UNEXP_OVERHEAD
            + match &self.body {
                UnexpBody::Bytes(bytes) => bytes.len(),
                UnexpBody::Rndv(_) | UnexpBody::Sar(_) | UnexpBody::PeerMsg(_) => 0,
            }
    }
}

/// Limit of the unexpected bytes of one peer.
const PEER_LIMIT: usize = 1 << 20;

/// Limit of the unexpected bytes of a peer with an incomplete segmented message. It is higher than [`PEER_LIMIT`],
/// because the missing segments may arrive after messages that would otherwise be deferred.
const PEER_SAR_LIMIT: usize = 4 * PEER_LIMIT;

/// Limit of the unexpected bytes of an endpoint.
const EP_LIMIT: usize = 32 << 20;

/// Limit of the unexpected bytes of all peers at a source address.
const SOURCE_LIMIT: usize = EP_LIMIT / 2;

/// Limit of the unexpected bytes of all peers at a source address while the endpoint is beyond [`EP_LIMIT`].
const SOURCE_RESERVE: usize = 64 << 10;

/// Limit of the unexpected bytes of an endpoint including the reserves of the sources. The messages of closing
/// connections are limited to `2 * EP_LIMIT`, which leaves half of the reserves to other messages.
const EP_RESERVE_LIMIT: usize = 3 * EP_LIMIT;

/// Returns the limit of the unexpected bytes of a source while the endpoint has `ep_bytes` unexpected bytes; `None` if
/// no source may add any.
const fn source_limit(ep_bytes: usize) -> Option<usize> {
    if ep_bytes <= EP_LIMIT {
        Some(SOURCE_LIMIT)
    } else if ep_bytes <= EP_RESERVE_LIMIT {
        Some(SOURCE_RESERVE)
    } else {
        None
    }
}

/// Bytes by which messages in the packets of a closing connection may exceed the limit of the peer. For these messages,
/// the limits of the source and of the endpoint are doubled. The packets of a connection are charged no more bytes. A
/// peer that connects again and again gets no more.
const CLOSING_EXTRA: usize = MAX_RX_BUFS * (MAX_PACKET + UNEXP_OVERHEAD);

/// Counts the unexpected messages of the peers at a source address. Changed under `EpCore::inner`.
pub(super) struct UnexpBytes {
    /// Unexpected bytes of the peers.
    bytes: Atomic<usize>,
    /// Number of peers with deferred packets.
    waiters: Atomic<u32>,
}

impl UnexpBytes {
    /// Creates the counters, each 0.
    pub(super) const fn new() -> Self {
        Self {
            bytes: Atomic::new(0),
            waiters: Atomic::new(0),
        }
    }

    fn get(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    fn add(&self, bytes: usize) {
        self.bytes.store(self.get() + bytes, Relaxed);
    }

    fn sub(&self, bytes: usize) {
        self.bytes.store(self.get() - bytes, Relaxed);
    }

    fn has_waiters(&self) -> bool {
        self.waiters.load(Relaxed) > 0
    }

    /// Counts a peer that has deferred packets.
    pub(super) fn add_waiter(&self) {
        self.waiters.store(self.waiters.load(Relaxed) + 1, Relaxed);
    }

    /// Counts a peer that has no deferred packets any more.
    pub(super) fn remove_waiter(&self) {
        self.waiters.store(self.waiters.load(Relaxed) - 1, Relaxed);
    }
}

impl EpState {
    /// Returns whether `charge` more unexpected bytes of the peer that sent `msg` are within the limits.
    pub(super) fn within_limits(&mut self, msg: &RxMsg, charge: usize) -> bool {
        let Some(peer) = self.peer(msg.peer_idx) else {
            return false;
        };
        let limit = match peer.sar_rx.any(|sar| !sar.is_complete) {
            true => PEER_SAR_LIMIT,
            false => PEER_LIMIT,
        };
        let peer_bytes = peer.unexp_bytes + charge;
        let source_bytes = peer.source_unexp.get() + charge;
        let ep_bytes = self.unexp_bytes + charge;
        match msg.is_limited {
            true => {
                let source_limit = source_limit(ep_bytes);
                peer_bytes <= limit && source_limit.is_some_and(|limit| source_bytes <= limit)
            }
            false => {
                peer_bytes <= limit + CLOSING_EXTRA
                    && source_bytes <= 2 * SOURCE_LIMIT
                    && ep_bytes <= 2 * EP_LIMIT
            }
        }
    }

    pub(super) fn add_charge(&mut self, peer_idx: u32, charge: usize) {
        self.unexp_bytes += charge;
        if let Some(peer) = self.peer(peer_idx) {
            peer.unexp_bytes += charge;
            peer.source_unexp.add(charge);
        }
    }

    pub(super) fn drop_charge(&mut self, peer_idx: u32, charge: usize) {
        // Any peer may wait for memory of the endpoint, and the peers of the same source for memory of the source.
        let mut is_awaited = self.unexp_bytes + MAX_PACKET + UNEXP_OVERHEAD > EP_LIMIT;
        self.unexp_bytes -= charge;
        if let Some(peer) = self.peer(peer_idx) {
            peer.unexp_bytes -= charge;
            peer.source_unexp.sub(charge);
            is_awaited |= peer.source_unexp.has_waiters();
        }
        self.retry_wanted |= is_awaited;
    }
}

impl Held<'_> {
    /// Queues a message that waits for `missing`, or defers it if the limits do not permit that or if there was no
    /// memory for `unexp`. A message of a closing connection that is beyond the limits is dropped. The caller has the
    /// turn.
    pub(super) fn queue_bounded(
        &mut self,
        msg: &RxMsg,
        unexp: Result<ListBox<UnexpMsg>>,
        missing: Missing,
    ) -> RxOutcome {
        match unexp {
            Ok(unexp) if self.within_limits(msg, unexp.charge()) => {
                self.charge_unexp(&unexp);
                self.queue_missing(unexp, missing);
                RxOutcome::Done
            }
            // The message is lost with its connection.
            Ok(_) if !msg.is_limited => RxOutcome::Done,
            _ => self.unmatched(msg, missing),
        }
    }
}

impl EpState {
    /// Returns the outcome of a message that is deferred, because it waits for `missing` and cannot be queued.
    pub(super) fn unmatched(&mut self, msg: &RxMsg, missing: Missing) -> RxOutcome {
        // The message may wait for a completion queue entry, or for a receive of a shared context.
        self.awaits_entry |= matches!(missing, Missing::CqSlot(_))
            || self.rx_ctxs.ctx(msg.key.context).attachment.is_some();
        RxOutcome::Unmatched(self.deferred_keys.slot(&msg.key))
    }

    /// Charges a message that is going to be queued.
    pub(super) fn charge_unexp(&mut self, unexp: &UnexpMsg) {
        self.add_charge(unexp.peer_idx, unexp.charge());
        if let Some(peer) = self.peer(unexp.peer_idx) {
            peer.unexp_parts += usize::from(unexp.may_be_incomplete());
        }
    }

    /// Ends the charge of a message that was queued.
    pub(super) fn release_unexp(&mut self, unexp: &UnexpMsg) {
        self.drop_charge(unexp.peer_idx, unexp.charge());
        if let Some(peer) = self.peer(unexp.peer_idx) {
            peer.unexp_parts -= usize::from(unexp.may_be_incomplete());
        }
    }

    /// Removes the queued rendezvous requests of a connection, and the segmented messages of its peer that are not in
    /// the reassembly table any more. Examines only messages of the peer, and none if none was queued incomplete.
    /// The caller frees the messages without the lock.
    pub(super) fn remove_incomplete_unexp(
        &mut self,
        peer_idx: u32,
        conn_gen: usize,
    ) -> BoxList<UnexpMsg> {
        let mut all_removed = BoxList::new();
        for at in 0..self.rx_ctxs.len() as u8 {
            let Self { rx_ctxs, peers, .. } = self;
            let peer = peers.get(peer_idx as usize).and_then(Option::as_ref);
            let Some(peer) = peer.filter(|peer| peer.unexp_parts > 0) else {
                break;
            };
            let is_incomplete = |body: &UnexpBody| match body {
                UnexpBody::Rndv(req) => req.conn_gen == conn_gen,
                UnexpBody::Sar(number) => !peer.sar_rx.any(|sar| sar.number == *number),
                UnexpBody::Bytes(_) | UnexpBody::PeerMsg(_) => false,
            };
            let mut removed = rx_ctxs.ctx_mut(at).remove_unexp(&peer.addr, |unexp| {
                unexp.peer_idx == peer_idx && is_incomplete(&unexp.body)
            });
            for unexp in removed.iter() {
                self.release_unexp(unexp);
            }
            all_removed.append(&mut removed);
        }
        all_removed
    }
}

#[kernel::prelude::kunit_tests(kofi_rdm_unexpected)]
mod tests {
    use super::*;

    #[test]
    fn rdm_11_a_source_leaves_memory_to_others() {
        // One source cannot reach the limit of the endpoint.
        assert!(source_limit(0) == Some(SOURCE_LIMIT) && SOURCE_LIMIT < EP_LIMIT);
        assert_eq!(source_limit(EP_LIMIT), Some(SOURCE_LIMIT));
        // Several sources can reach it; then each source has a reserve.
        assert_eq!(source_limit(EP_LIMIT + 1), Some(SOURCE_RESERVE));
        assert_eq!(source_limit(EP_RESERVE_LIMIT), Some(SOURCE_RESERVE));
        assert_eq!(source_limit(EP_RESERVE_LIMIT + 1), None);
    }
}
