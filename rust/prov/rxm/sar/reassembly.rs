// SPDX-License-Identifier: GPL-2.0

//! Reassembly of segmented messages into their receives, or into chunks of memory without one. Guarded by
//! `EpCore::inner`.

use super::{
    super::{
        completion::CompSinks,
        dispatch::{
            RxMsg,
            RxOutcome,
            RxResult, //
        },
        ep_state::EpState,
        iov::Payload,
        matcher::MsgKey,
        rx_entry::Receive,
        unexpected::{
            UnexpBody,
            UNEXP_OVERHEAD, //
        },
        wire::{
            ProtoError,
            SegPos,
            Segment, //
        },
    },
    SarRx, //
};
use crate::{
    abi::Errno,
    fi::prelude::*,
    util::owned_list::{
        BoxList,
        ListBox, //
    },
};

/// A segmented message that is being received.
pub(in super::super) struct SarMsg {
    /// Number of the message, unique in the endpoint.
    pub(in super::super) number: u64,
    /// Generation of the connection.
    pub(in super::super) conn_gen: usize,
    /// Matching key.
    pub(in super::super) key: MsgKey,
    /// Receive of the message.
    pub(in super::super) receive: Option<ListBox<Receive>>,
    /// Number of bytes that have arrived.
    pub(in super::super) len: usize,
    /// Bytes that arrived before the receive.
    chunks: BoxList<KVec<u8>>,
    /// True if all bytes have arrived.
    pub(in super::super) is_complete: bool,
}

/// Entry of a segmented message in the reassembly table.
pub(in super::super) type SarRxMsg = SarRx<SarMsg>;

impl SarMsg {
    /// Creates a message of which nothing has arrived.
    fn new(number: u64, conn_gen: usize, key: MsgKey) -> Self {
        Self {
            number,
            conn_gen,
            key,
            receive: None,
            len: 0,
            chunks: BoxList::new(),
            is_complete: false,
        }
    }

    /// Adds the bytes of the next segment. Any context.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM if the message has no receive and the bytes cannot be copied; nothing has changed.
    pub(in super::super) fn add(&mut self, bytes: &[u8]) -> Result {
        match &self.receive {
            Some(receive) => {
                receive.into.copy_from_slice(self.len, bytes);
            }
            None => self.chunks.push(ListBox::new_atomic(bytes.to_kvec()?)?),
        }
        self.len += bytes.len();
        Ok(())
    }

    /// Returns the memory of the chunks in bytes.
    pub(in super::super) fn charge(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.len()).sum()
    }

    /// Assigns a receive and copies the chunks into it.
    pub(in super::super) fn take(&mut self, receive: ListBox<Receive>) {
        let mut at = 0;
        for chunk in mem::take(&mut self.chunks).iter() {
            receive.into.copy_from_slice(at, chunk);
            at += chunk.len();
        }
        self.receive = Some(receive);
    }
}

impl EpState {
    /// Handles the first segment of a message.
    pub(in super::super) fn first_segment(
        &mut self,
        sinks: &CompSinks,
        msg: &RxMsg,
        segment: &Segment,
        payload: &[u8],
    ) -> RxResult {
        let number = self.sar_count + 1;
        let Some(peer) = self.peer(msg.peer_idx) else {
            return Ok(RxOutcome::Done);
        };
        let conn = peer.conn.as_mut();
        let Some(conn) = conn.filter(|conn| conn.conn_gen == msg.conn_gen) else {
            // The rest will not arrive.
            return Ok(RxOutcome::Done);
        };
        peer.sar_rx.begin(segment)?;
        if conn.sar_left == 0 {
            return match peer.sar_rx.any(|sar| sar.receive.is_none()) {
                true => Ok(RxOutcome::Deferred),
                false => Err(ProtoError("too many messages in reassembly")),
            };
        }
        let sar_msg = SarMsg::new(number, msg.conn_gen, msg.key);
        let Ok(mut sar) = ListBox::new_atomic(SarRx::new(segment, sar_msg)) else {
            return Ok(RxOutcome::Deferred);
        };
        conn.sar_left -= 1;
        self.sar_count = number;
        let queued = match self.match_rx(sinks, &msg.key, &msg.message) {
            Ok(receive) => {
                sar.data.take(receive);
                // Cannot fail: with a receive nothing is allocated.
                let _ = sar.data.add(payload);
                None
            }
            Err(missing) => {
                let unexp = ListBox::new_atomic(msg.unexp_msg(UnexpBody::Sar(number)));
                let added = match self.within_limits(msg, UNEXP_OVERHEAD + payload.len()) {
                    true => sar.data.add(payload),
                    false => Err(Errno::ENOMEM),
                };
                let Ok(unexp) = added.and(unexp) else {
                    self.free_sar_msg(msg.peer_idx, sar);
                    return Ok(RxOutcome::Deferred);
                };
                self.add_charge(msg.peer_idx, unexp.charge() + payload.len());
                Some((unexp, missing))
            }
        };
        sar.advance();
        if let Some(peer) = self.peer(msg.peer_idx) {
            peer.sar_rx.keep(sar);
        }
        // Queued last, because a match looks the message up in the table.
        if let Some((unexp, missing)) = queued {
            self.queue_missing(sinks, unexp, missing);
        }
        Ok(RxOutcome::Done)
    }

    /// Handles a later segment.
    pub(in super::super) fn next_segment(
        &mut self,
        sinks: &CompSinks,
        msg: &RxMsg,
        segment: &Segment,
        payload: &[u8],
        has_deferred_rx: bool,
    ) -> RxResult {
        let Some(peer) = self.peer(msg.peer_idx) else {
            return Ok(RxOutcome::Done);
        };
        if !peer.has(msg.conn_gen) {
            return Ok(RxOutcome::Done);
        }
        if has_deferred_rx && !peer.sar_rx.continues(segment) {
            return Ok(RxOutcome::Deferred);
        }
        let mut sar = peer.sar_rx.take(segment)?;
        let is_taken = sar.data.receive.is_some();
        let within_limits = is_taken || self.within_limits(msg, payload.len());
        let added = match within_limits {
            true => sar.data.add(payload),
            false => Err(Errno::ENOMEM),
        };
        match added {
            Ok(()) => {
                sar.advance();
                sar.data.is_complete = segment.pos == SegPos::Last;
                if !is_taken {
                    self.add_charge(msg.peer_idx, payload.len());
                }
            }
            Err(_) => sar.defer_next(),
        }
        self.keep_or_complete(sinks, msg.peer_idx, sar);
        Ok(match added {
            Ok(()) => RxOutcome::Done,
            Err(_) => RxOutcome::Deferred,
        })
    }

    /// Completes a message that has arrived completely and has a receive; keeps any other in the table.
    pub(in super::super) fn keep_or_complete(
        &mut self,
        sinks: &CompSinks,
        peer_idx: u32,
        mut sar: ListBox<SarRxMsg>,
    ) {
        let receive = match sar.data.is_complete {
            true => sar.data.receive.take(),
            false => None,
        };
        let Some(receive) = receive else {
            if let Some(peer) = self.peer(peer_idx) {
                peer.sar_rx.keep(sar);
            }
            return;
        };
        let len = sar.data.len.min(receive.into.len());
        self.end_receive(sinks, receive, &sar.data.key, sar.message(), len);
        self.delivered(peer_idx, sar.data.conn_gen, sar.message().ack);
        self.free_sar_msg(peer_idx, sar);
    }

    /// Frees a message that has ended, or that could not begin.
    pub(in super::super) fn free_sar_msg(&mut self, peer_idx: u32, sar: ListBox<SarRxMsg>) {
        let conn = self.conn(peer_idx);
        if let Some(conn) = conn.filter(|conn| conn.conn_gen == sar.data.conn_gen) {
            conn.sar_left += 1;
        }
    }

    /// Drops the incomplete messages and rendezvous requests of a connection that has ended. Complete messages are
    /// kept.
    pub(in super::super) fn drop_incomplete_rx(
        &mut self,
        sinks: &CompSinks,
        peer_idx: u32,
        conn_gen: usize,
    ) {
        loop {
            let peer = self.peer(peer_idx);
            let sar = peer.and_then(|peer| {
                peer.sar_rx
                    .find(|sar| sar.conn_gen == conn_gen && !sar.is_complete)
            });
            let Some(mut sar) = sar else {
                break;
            };
            if let Some(receive) = sar.data.receive.take() {
                self.give_up_receive(sinks, receive, Errno::ECONNABORTED);
            }
            self.drop_charge(peer_idx, sar.data.charge());
        }
        self.drop_incomplete_unexp(peer_idx, conn_gen);
    }
}
