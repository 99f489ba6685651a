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
        local::SEGMENTED,
        matcher::MsgKey,
        rx_entry::Receive,
        turn::Held,
        unexpected::{
            UnexpBody,
            UnexpMsg,
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
    fi::prelude::*, //
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
    /// True while the chunks are copied into a receive that has been posted.
    is_busy: bool,
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
            is_busy: false,
        }
    }

    /// Adds the next segment to a message without a receive.
    fn add_chunk(&mut self, chunk: ListBox<KVec<u8>>) {
        self.len += chunk.len();
        self.chunks.push(chunk);
    }

    /// Returns the memory of the chunks in bytes.
    pub(in super::super) fn charge(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.len()).sum()
    }
}

/// Copies a segment into memory. Any context.
///
/// # Errors
///
/// -FI_ENOMEM.
fn new_chunk(bytes: &[u8]) -> Result<ListBox<KVec<u8>>> {
    ListBox::new_atomic(bytes.to_kvec()?)
}

impl Held<'_> {
    /// Handles the first segment of a message.
    pub(in super::super) fn first_segment(
        &mut self,
        msg: &RxMsg,
        segment: &Segment,
        payload: &[u8],
    ) -> RxResult {
        let Some(peer) = self.peer(msg.peer_idx) else {
            return Ok(RxOutcome::Done);
        };
        let Some(conn) = peer.conn.as_ref().filter(|_| peer.has(msg.conn_gen)) else {
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
        let number = self.sar_count + 1;
        let sar_msg = SarMsg::new(number, msg.conn_gen, msg.key);
        let Ok(mut sar) = self.unlocked(|| ListBox::new_atomic(SarRx::new(segment, sar_msg)))
        else {
            return Ok(RxOutcome::Deferred);
        };
        let (state, sinks) = self.split();
        let mut found = state.match_rx(sinks, &msg.key, &msg.message);
        let mut queued = None;
        if let Err(missing) = &found {
            if !self.within_limits(msg, UNEXP_OVERHEAD + payload.len()) {
                return Ok(self.unmatched(msg, *missing));
            }
            let copied = self.unlocked(|| {
                let unexp = ListBox::new_atomic(msg.unexp_msg(UnexpBody::Sar(number)))?;
                Ok::<_, Errno>((unexp, new_chunk(payload)?))
            });
            // A receive may have been posted meanwhile.
            let (state, sinks) = self.split();
            found = state.match_rx(sinks, &msg.key, &msg.message);
            queued = copied.ok();
        }
        match (found, queued) {
            (Ok(receive), _) => {
                sar.data.len = self.copy(payload.len(), || {
                    receive.into.copy_from_slice(0, payload);
                    payload.len()
                });
                sar.data.receive = Some(receive);
                self.begin_sar(msg.peer_idx, sar);
            }
            (Err(missing), Some((unexp, chunk))) => {
                self.charge_unexp(&unexp);
                self.add_charge(msg.peer_idx, payload.len());
                sar.data.add_chunk(chunk);
                self.begin_sar(msg.peer_idx, sar);
                // Queued last, because a match looks the message up in the table.
                self.queue_missing(unexp, missing);
            }
            (Err(missing), None) => return Ok(self.unmatched(msg, missing)),
        }
        Ok(RxOutcome::Done)
    }

    /// Puts a message whose first segment has been taken into the table.
    fn begin_sar(&mut self, peer_idx: u32, mut sar: ListBox<SarRxMsg>) {
        self.sar_count = sar.data.number;
        sar.advance();
        let Some(peer) = self.peer(peer_idx) else {
            return;
        };
        let conn = peer.conn.as_mut();
        if let Some(conn) = conn.filter(|conn| conn.conn_gen == sar.data.conn_gen) {
            conn.sar_left -= 1;
        }
        peer.sar_rx.keep(sar);
    }

    /// Handles a later segment.
    pub(in super::super) fn next_segment(
        &mut self,
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
        if sar.data.receive.is_none() && !sar.data.is_busy {
            // The message stays in the table, where a receive that is posted meanwhile finds it.
            peer.sar_rx.keep(sar);
            let chunk = match self.within_limits(msg, payload.len()) {
                true => self.unlocked(|| new_chunk(payload)),
                false => Err(Errno::ENOMEM),
            };
            let Some(peer) = self.peer(msg.peer_idx) else {
                return Ok(RxOutcome::Done);
            };
            sar = peer.sar_rx.take(segment)?;
            if let (Ok(chunk), None, false) = (chunk, &sar.data.receive, sar.data.is_busy) {
                self.add_charge(msg.peer_idx, chunk.len());
                sar.data.add_chunk(chunk);
                return Ok(self.end_segment(msg.peer_idx, sar, segment.pos));
            }
        }
        let Some(receive) = &sar.data.receive else {
            // There is no memory, or the segments before are being copied.
            sar.defer_next();
            self.keep_sar(msg.peer_idx, sar);
            return Ok(RxOutcome::Deferred);
        };
        let at = sar.data.len;
        self.copy(payload.len(), || {
            receive.into.copy_from_slice(at, payload);
        });
        sar.data.len += payload.len();
        Ok(self.end_segment(msg.peer_idx, sar, segment.pos))
    }

    /// Counts a later segment that has been taken.
    fn end_segment(&mut self, peer_idx: u32, mut sar: ListBox<SarRxMsg>, pos: SegPos) -> RxOutcome {
        sar.advance();
        sar.data.is_complete = pos == SegPos::Last;
        let (state, sinks) = self.split();
        state.keep_or_complete(sinks, peer_idx, sar);
        RxOutcome::Done
    }

    /// Delivers the segments of a message that have arrived to a receive. The message stays in the table, and segments
    /// that arrive meanwhile are deferred: the caller retries them.
    #[inline(never)]
    pub(in super::super) fn deliver_sar(
        &mut self,
        receive: ListBox<Receive>,
        peer_idx: u32,
        number: u64,
    ) {
        if let Some(mut sar) = self.take_sar(peer_idx, number) {
            self.drop_charge(peer_idx, sar.data.charge());
            let chunks = mem::take(&mut sar.data.chunks);
            sar.data.is_busy = true;
            self.keep_sar(peer_idx, sar);
            let len: usize = chunks.iter().map(|chunk| chunk.len()).sum();
            let copy_chunks = || {
                let mut at = 0;
                for chunk in chunks.iter() {
                    receive.into.copy_from_slice(at, chunk);
                    at += chunk.len();
                }
                drop(chunks);
            };
            match len <= SEGMENTED {
                true => self.copy(len, copy_chunks),
                // Not under the lock, also while the endpoint is claimed: it takes too long.
                false => self.unlocked(copy_chunks),
            }
        }
        let sar = self.take_sar(peer_idx, number);
        let (state, sinks) = self.split();
        match sar {
            Some(mut sar) => {
                sar.data.is_busy = false;
                sar.data.receive = Some(receive);
                state.retry_wanted = true;
                state.keep_or_complete(sinks, peer_idx, sar);
            }
            // The connection has ended.
            None => state.give_up_receive(sinks, receive, Errno::ECONNABORTED),
        }
    }
}

impl EpState {
    /// Takes the message with that number out of the table of its sender.
    fn take_sar(&mut self, peer_idx: u32, number: u64) -> Option<ListBox<SarRxMsg>> {
        let peer = self.peer(peer_idx)?;
        peer.sar_rx.find(|sar| sar.number == number)
    }

    /// Puts a message into the table of its sender.
    fn keep_sar(&mut self, peer_idx: u32, sar: ListBox<SarRxMsg>) {
        if let Some(peer) = self.peer(peer_idx) {
            peer.sar_rx.keep(sar);
        }
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
            self.keep_sar(peer_idx, sar);
            return;
        };
        let len = sar.data.len.min(receive.into.len());
        self.end_receive(sinks, receive, &sar.data.key, sar.message(), len);
        self.delivered(peer_idx, sar.data.conn_gen, sar.message().ack);
        let conn = self.conn(peer_idx);
        if let Some(conn) = conn.filter(|conn| conn.conn_gen == sar.data.conn_gen) {
            conn.sar_left += 1;
            self.retry_wanted = true;
        }
    }

    /// Drops the incomplete messages and rendezvous requests of a connection that has ended. Complete messages are
    /// kept.
    pub(in super::super) fn drop_incomplete_rx(
        &mut self,
        sinks: &CompSinks,
        peer_idx: u32,
        conn_gen: usize,
    ) -> BoxList<UnexpMsg> {
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
        self.remove_incomplete_unexp(peer_idx, conn_gen)
    }
}
