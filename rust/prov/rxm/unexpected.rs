// SPDX-License-Identifier: GPL-2.0

use super::{
    completion::CompSinks,
    dispatch::{
        RxMsg,
        RxOutcome, //
    },
    ep_state::EpState,
    iov::Payload,
    matcher::{
        HasMsgKey,
        MsgKey, //
    },
    multi_recv::deliver::Missing,
    rx_entry::RxTarget,
    wire::{
        Message,
        Ranges, //
    },
};
use crate::{
    abi::FI_ADDR_NOTAVAIL,
    fi::prelude::*,
    util::owned_list::{
        BoxList,
        ListBox, //
    },
};

/// A message that waits for its receive.
pub(super) struct UnexpMsg {
    /// Who takes it.
    pub(super) key: MsgKey,
    /// The message.
    pub(super) message: Message,
    /// The number of its sender.
    pub(super) peer_idx: u32,
    /// What there is of it.
    pub(super) body: UnexpBody,
    /// The context that has claimed it.
    pub(super) claim: Option<Context>,
    /// What it has got, if it waits to be told of.
    pub(super) target: Option<RxTarget>,
    /// Whose it is of several endpoints whose messages wait together.
    pub(super) ep_slot: usize,
    /// What it waits with if that is at another module's provider.
    pub(super) peer_entry: usize,
    /// What its sender is called there.
    pub(super) source: fi_addr_t,
}

/// What there is of a message.
pub(super) enum UnexpBody {
    /// All.
    Bytes(KVec<u8>),
    /// Nothing: it is to be fetched.
    Rndv {
        /// By which connection.
        conn_gen: usize,
        /// What its sender calls it.
        id: u64,
        /// Where it is.
        ranges: Ranges,
    },
    /// Some segments, or all: its sender's [`SarMsg`] of this number.
    Sar(u64),
    /// What another module's provider has under this number: no endpoint's here.
    PeerMsg(usize),
}

impl HasMsgKey for UnexpMsg {
    fn key(&self) -> &MsgKey {
        &self.key
    }
}

/// What a letter costs beside its bytes.
pub(super) const UNEXP_OVERHEAD: usize = 512;

impl UnexpMsg {
    /// A message, which is to wait.
    pub(super) fn new(key: MsgKey, message: Message, peer_idx: u32, body: UnexpBody) -> Self {
        Self {
            key,
            message,
            peer_idx,
            body,
            claim: None,
            target: None,
            ep_slot: 0,
            peer_entry: 0,
            source: FI_ADDR_NOTAVAIL,
        }
    }

    /// A message whose bytes are there. Any context.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM, which is to be expected.
    pub(super) fn with_bytes(
        key: MsgKey,
        message: Message,
        peer_idx: u32,
        payload: &(impl Payload + ?Sized),
    ) -> Result<ListBox<Self>> {
        let body = UnexpBody::Bytes(payload.to_kvec()?);
        ListBox::new_atomic(Self::new(key, message, peer_idx, body))
    }

    /// How much memory it takes, in bytes.
    pub(super) fn charge(&self) -> usize {
        UNEXP_OVERHEAD
            + match &self.body {
                UnexpBody::Bytes(bytes) => bytes.len(),
                UnexpBody::Rndv { .. } | UnexpBody::Sar(_) | UnexpBody::PeerMsg(_) => 0,
            }
    }
}

/// Memory for messages of one peer that wait for receives, in bytes.
const PEER_LIMIT: usize = 1 << 20;

/// The same while a message of the peer's is there in part: where others wait in the packets that the rest
/// of it needs, nobody goes on.
const PEER_SAR_LIMIT: usize = 4 * PEER_LIMIT;

/// The same of all peers.
const EP_LIMIT: usize = 32 << 20;

/// How far what a connection leaves in its packets, when it ends, may go beyond either. It is more than
/// they have; a peer that comes again and again does not leave more each time.
const CLOSING_EXTRA: usize = PEER_LIMIT;

impl EpState {
    /// Whether there is room for so many bytes more of a peer's.
    pub(super) fn within_limits(&mut self, msg: &RxMsg, charge: usize) -> bool {
        let Some(peer) = self.peer(msg.peer_idx) else {
            return false;
        };
        let limit = match peer.sar_rx.any(|sar| !sar.is_complete) {
            true => PEER_SAR_LIMIT,
            false => PEER_LIMIT,
        };
        let (limit, ep_limit) = match msg.is_limited {
            true => (limit, EP_LIMIT),
            false => (limit + CLOSING_EXTRA, 2 * EP_LIMIT),
        };
        peer.unexp_bytes + charge <= limit && self.unexp_bytes + charge <= ep_limit
    }

    pub(super) fn add_charge(&mut self, peer_idx: u32, charge: usize) {
        self.unexp_bytes += charge;
        if let Some(peer) = self.peer(peer_idx) {
            peer.unexp_bytes += charge;
        }
    }

    pub(super) fn drop_charge(&mut self, peer_idx: u32, charge: usize) {
        self.unexp_bytes -= charge;
        if let Some(peer) = self.peer(peer_idx) {
            peer.unexp_bytes -= charge;
        }
    }

    /// Has a message wait for what it lacks.
    pub(super) fn queue_bounded(
        &mut self,
        sinks: &CompSinks,
        msg: &RxMsg,
        unexp: Result<ListBox<UnexpMsg>>,
        missing: Missing,
    ) -> RxOutcome {
        match unexp {
            Ok(unexp) if self.within_limits(msg, unexp.charge()) => {
                self.add_charge(msg.peer_idx, unexp.charge());
                self.queue_missing(sinks, unexp, missing);
                RxOutcome::Done
            }
            // It goes with its connection.
            Ok(_) if !msg.is_limited => RxOutcome::Done,
            _ => RxOutcome::Deferred,
        }
    }

    pub(super) fn drop_unexp_msgs(
        &mut self,
        peer_idx: u32,
        mut is: impl FnMut(&UnexpBody) -> bool,
    ) {
        for at in 0..self.rx_ctxs.len() as u8 {
            let rx_ctx = self.rx_ctxs.ctx_mut(at);
            let forgotten =
                rx_ctx.remove_unexp(|unexp| unexp.peer_idx == peer_idx && is(&unexp.body));
            for unexp in forgotten.iter().flat_map(BoxList::iter) {
                self.drop_charge(peer_idx, unexp.charge());
            }
        }
    }
}
