// SPDX-License-Identifier: GPL-2.0

//! Dispatch of received packets. Guarded by `EpCore::inner`; the caller has the [turn](super::turn).
//!
//! A message without a receive, or without a completion queue entry, is copied out of its packet up to a limit, and the
//! receive buffer is posted again. Beyond the limit, packets are [deferred](super::deferred_rx) in their buffers. A
//! peer has a limited number of these buffers, so it stops sending. Control packets are processed even while messages are
//! deferred.

use super::{
    atomic::AtomicRequest,
    completion::CompSinks,
    conn::credits::CreditError,
    deferred_rx::KeySlot,
    ep_state::EpState,
    iov::Payload,
    matcher::MsgKey,
    multi_recv::deliver::Missing,
    pkt_buf::{
        Packet,
        RxData, //
    },
    rx_entry::{
        Receive,
        RndvRead, //
    },
    turn::Held,
    unexpected::{
        UnexpBody,
        UnexpMsg,
        UNEXP_OVERHEAD, //
    },
    wire::{
        Extensions,
        Message,
        PeerFormat,
        PktHdr,
        ProtoError,
        Ranges,
        RxPkt,
        SegPos, //
    },
};
use crate::{
    fi::{
        eq::Source,
        prelude::*, //
    },
    util::log::warn_of_peer, //
};

/// Result of processing a packet.
pub(super) enum RxOutcome {
    /// The buffer is not needed any more.
    Done,
    /// The packet has to be processed again later.
    Deferred,
    /// The packet has to be processed again when a receive with this key is posted, or there is memory.
    Unmatched(KeySlot),
    /// The packet is an atomic request, and its buffer takes the response.
    Atomic(AtomicRequest),
    /// The packet is an access of this id, and its buffer takes the refusal.
    Refused(u64, Errno),
}

/// Result of processing a packet, or the violation that closes the connection.
pub(super) type RxResult = core::result::Result<RxOutcome, ProtoError>;

impl Held<'_> {
    /// Handles the completion of a receive buffer. `source` names the connection if receives are shared.
    pub(super) fn rx_complete(
        &mut self,
        mut packet: ListBox<Packet>,
        source: Option<Source>,
        result: Result<RxData>,
    ) {
        match (result, self.on_rx_completion(&mut packet, source)) {
            (Ok(rx_data), Ok(())) => {
                packet.rx_data = rx_data;
                self.process_rx(packet, true);
            }
            (Ok(_), Err(CreditError)) => {
                self.protocol_error(packet, ProtoError("packet without a credit"));
            }
            (Err(_), _) => {
                let (peer_idx, conn_gen) = (packet.peer_idx, packet.conn_gen);
                self.keep(packet);
                let conn = self.peer(peer_idx).and_then(|peer| peer.conn.as_ref());
                if conn.is_some_and(|conn| conn.is_open()) {
                    // The connection cannot receive any more. A connection that was not established fails with an
                    // event that has the reason.
                    self.schedule_disconnect(peer_idx, conn_gen);
                }
            }
        }
    }

    /// Processes a packet.
    pub(super) fn process_rx(&mut self, mut packet: ListBox<Packet>, is_limited: bool) {
        let peer_idx = packet.peer_idx;
        match self.dispatch_rx(&packet, is_limited) {
            Ok(RxOutcome::Done) => {
                let _ = self.repost(packet);
            }
            Ok(RxOutcome::Deferred) => self.defer_rx(packet, KeySlot::NONE),
            Ok(RxOutcome::Unmatched(key_slot)) => self.defer_rx(packet, key_slot),
            Ok(RxOutcome::Atomic(request)) => {
                let regions = self.regions.clone();
                let done = self.unlocked(|| request.execute(&regions, packet.bytes()));
                self.respond_atomic(packet, &request, done);
            }
            Ok(RxOutcome::Refused(id, errno)) => self.refuse_access(packet, id, errno),
            Err(error) => self.protocol_error(packet, error),
        }
        let (state, sinks) = self.split();
        state.progress_peer(sinks, peer_idx);
    }
}

impl EpState {
    /// Closes the connection of a packet that violates the protocol.
    #[cold]
    fn protocol_error(&mut self, packet: ListBox<Packet>, ProtoError(why): ProtoError) {
        let (peer_idx, conn_gen) = (packet.peer_idx, packet.conn_gen);
        self.note_violation(peer_idx, why);
        self.keep(packet);
        self.schedule_disconnect(peer_idx, conn_gen);
    }

    /// Counts and logs a violation by a peer, for which its connection is closed.
    #[cold]
    pub(super) fn note_violation(&mut self, peer_idx: u32, why: &str) {
        self.violations.add(1);
        let name = self.name;
        if let Some(peer) = self.peer(peer_idx) {
            warn_of_peer(&name, &peer.addr, fmt!("a connection is closed: {}", why));
        }
    }
}

impl Held<'_> {
    fn dispatch_rx(&mut self, packet: &Packet, is_limited: bool) -> RxResult {
        let peer_idx = packet.peer_idx;
        let (state, sinks) = self.split();
        let rx_ctxs = state.rx_ctxs.len();
        let Some(peer) = state.peer(peer_idx) else {
            return Ok(RxOutcome::Done);
        };
        let has_deferred_rx = !peer.deferred_rx.is_empty();
        let from = peer.addr;
        if let RxData::RemoteWrite(len, data) = packet.rx_data {
            if !sinks.reports_remote_writes {
                return Err(ProtoError(
                    "remote CQ data at an endpoint without remote writes",
                ));
            }
            return Ok(
                match !has_deferred_rx && sinks.complete_remote_write(len, data) {
                    true => RxOutcome::Done,
                    false => {
                        state.awaits_entry = true;
                        RxOutcome::Deferred
                    }
                },
            );
        }
        let rx_bytes = packet.rx_bytes();
        let conn = peer.conn.as_ref();
        let format = match conn.filter(|conn| conn.conn_gen == packet.conn_gen) {
            // The peer's extensions are not known yet; later packets must not overtake this one.
            Some(conn)
                if conn.remote_conn_id.is_none()
                    && conn.extensions == Extensions::NONE
                    && (has_deferred_rx
                        || RxPkt::rx_index(rx_bytes) != 0
                        || RxPkt::asks_for_ack(rx_bytes)) =>
            {
                return Ok(RxOutcome::Deferred);
            }
            Some(conn) => PeerFormat {
                contexts: conn.extensions.contexts().map(|_| rx_ctxs),
                has_acks: conn.has_acks(),
            },
            None => peer.ended_format(packet.conn_gen, rx_ctxs),
        };
        let RxPkt { hdr, payload, .. } = RxPkt::parse(rx_bytes, format)?;
        let message = match &hdr {
            PktHdr::Eager(message)
            | PktHdr::RndvReq { message, .. }
            | PktHdr::TaggedAccess { message, .. } => *message,
            PktHdr::Segment(segment) => segment.message,
            // Control packets of an older connection have no effect.
            _ if !peer.has(packet.conn_gen) => return Ok(RxOutcome::Done),
            // The peer has used a wrong key: its other atomic requests on this connection are dropped. Its messages are
            // delivered, because their sends have completed.
            PktHdr::AtomicReq { .. } if peer.is_refused() => return Ok(RxOutcome::Done),
            &PktHdr::AtomicReq { id, call, targets } => {
                return Ok(RxOutcome::Atomic(AtomicRequest {
                    id,
                    call,
                    targets,
                    operands: payload.len(),
                }))
            }
            &PktHdr::AtomicResp { id, status, .. } => {
                let handled = self.handle_atomic_resp(peer_idx, id, status, payload);
                return handled.map(|()| RxOutcome::Done);
            }
            _ => {
                return state
                    .handle_ctrl(sinks, peer_idx, hdr)
                    .map(|()| RxOutcome::Done)
            }
        };
        if self.shutdown_pending {
            self.on_peer_message(peer_idx)?;
        }
        let key = MsgKey {
            context: message.context,
            tag: message.tag,
            from,
        };
        let msg = RxMsg {
            peer_idx,
            conn_gen: packet.conn_gen,
            key,
            message,
            is_limited,
        };
        match hdr {
            PktHdr::Segment(segment) if segment.pos != SegPos::First => {
                self.next_segment(&msg, &segment, payload, has_deferred_rx)
            }
            _ if has_deferred_rx => Ok(RxOutcome::Deferred),
            _ if message.ack.is_some() => self.receive_with_ack(&msg, hdr, payload),
            _ => self.receive_first(&msg, hdr, payload),
        }
    }

    /// Handles the first packet of a message.
    #[inline(always)]
    fn receive_first(&mut self, msg: &RxMsg, hdr: PktHdr, payload: &[u8]) -> RxResult {
        match hdr {
            PktHdr::Segment(segment) => self.first_segment(msg, &segment, payload),
            PktHdr::RndvReq { id, ranges, .. } => self.receive_rndv_req(msg, id, ranges),
            PktHdr::TaggedAccess {
                id, way, ranges, ..
            } => {
                let (state, sinks) = self.split();
                state.receive_tagged_access(sinks, msg, (id, way), ranges)
            }
            _ => Ok(self.eager(msg, payload, true)),
        }
    }

    /// Handles the first packet of a message that asks for an acknowledgement.
    #[cold]
    fn receive_with_ack(&mut self, msg: &RxMsg, hdr: PktHdr, payload: &[u8]) -> RxResult {
        let (Some(conn), Some(slot)) = (self.conn(msg.peer_idx), msg.message.ack) else {
            return Ok(RxOutcome::Done);
        };
        conn.acks.on_message(slot)?;
        let outcome = self.receive_first(msg, hdr, payload);
        let is_deferred = matches!(outcome, Ok(RxOutcome::Deferred | RxOutcome::Unmatched(_)));
        if let (true, Some(conn)) = (is_deferred, self.conn(msg.peer_idx)) {
            conn.acks.forget(slot);
        }
        outcome
    }
}

impl EpState {
    /// Handles a control packet.
    fn handle_ctrl(
        &mut self,
        sinks: &CompSinks,
        peer_idx: u32,
        hdr: PktHdr,
    ) -> core::result::Result<(), ProtoError> {
        match hdr {
            PktHdr::RndvRdDone { id } => self.handle_rd_done(sinks, peer_idx, id),
            PktHdr::RndvWrData { id, ranges } => self.handle_wr_data(sinks, peer_idx, id, ranges),
            PktHdr::Credit(count) => {
                let conn = self.conn(peer_idx);
                let added = conn.map_or(Ok(()), |conn| conn.credits.add_credits(count));
                added.map_err(|_| ProtoError("more credits than an endpoint can have"))
            }
            PktHdr::Shutdown(msg) => self.on_shutdown_msg(peer_idx, msg),
            PktHdr::Ack(slots) => self.handle_ack(sinks, peer_idx, slots),
            PktHdr::AccessRefused { id, status } => {
                self.handle_refusal(sinks, peer_idx, id, status)
            }
            _ => Err(ProtoError(
                "packet of a type that the endpoint does not accept",
            )),
        }
    }
}

impl Held<'_> {
    /// Receives a complete message. A message without a receive or a completion queue entry is queued as unexpected; if
    /// `may_wait` is false, it is deferred instead.
    #[inline(always)]
    pub(super) fn eager(
        &mut self,
        msg: &RxMsg,
        payload: &(impl Payload + ?Sized),
        may_wait: bool,
    ) -> RxOutcome {
        let (state, sinks) = self.split();
        match state.match_rx(sinks, &msg.key, &msg.message) {
            Ok(receive) => self.receive_eager(msg, payload, receive),
            Err(_) if !may_wait => RxOutcome::Deferred,
            Err(missing) => self.unexpected_eager(msg, payload, missing),
        }
    }

    /// Copies a complete message into its receive.
    #[inline(always)]
    fn receive_eager(
        &mut self,
        msg: &RxMsg,
        payload: &(impl Payload + ?Sized),
        receive: ListBox<Receive>,
    ) -> RxOutcome {
        let len = self.copy(payload.len(), || payload.copy_to(&receive.into));
        let (state, sinks) = self.split();
        state.end_receive(sinks, receive, &msg.key, &msg.message, len);
        state.delivered(msg.peer_idx, msg.conn_gen, msg.message.ack);
        RxOutcome::Done
    }

    /// Queues a complete message as unexpected. A receive that is posted while the bytes are copied takes it.
    #[inline(never)]
    fn unexpected_eager(
        &mut self,
        msg: &RxMsg,
        payload: &(impl Payload + ?Sized),
        mut missing: Missing,
    ) -> RxOutcome {
        // The packet may be processed many times: check the limits before the copy.
        let is_within = self.within_limits(msg, UNEXP_OVERHEAD + payload.len());
        let mut unexp = Err(Errno::ENOMEM);
        if is_within || !msg.is_limited {
            unexp = self.unlocked(|| msg.with_bytes(payload));
            let (state, sinks) = self.split();
            missing = match state.match_rx(sinks, &msg.key, &msg.message) {
                Ok(receive) => return self.receive_eager(msg, payload, receive),
                Err(missing) => missing,
            };
        }
        self.queue_bounded(msg, unexp, missing)
    }
}

/// A received message and its connection.
pub(super) struct RxMsg {
    /// Index of the sender.
    pub(super) peer_idx: u32,
    /// Generation of the connection.
    pub(super) conn_gen: usize,
    /// Matching key.
    pub(super) key: MsgKey,
    /// The message.
    pub(super) message: Message,
    /// True if the memory limits apply.
    pub(super) is_limited: bool,
}

impl RxMsg {
    /// Creates an unexpected message.
    pub(super) fn unexp_msg(&self, body: UnexpBody) -> UnexpMsg {
        let mut unexp = UnexpMsg::new(self.key, self.message, self.peer_idx, body);
        unexp.conn_gen = self.conn_gen;
        unexp
    }

    /// Creates an unexpected message with a copy of its bytes. Any context.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    fn with_bytes(&self, payload: &(impl Payload + ?Sized)) -> Result<ListBox<UnexpMsg>> {
        let body = UnexpBody::Bytes(payload.to_kvec()?);
        ListBox::new_atomic(self.unexp_msg(body))
    }

    /// Creates the state of a rendezvous read.
    pub(super) fn rndv_read(&self, id: u64, ranges: Ranges) -> RndvRead {
        RndvRead {
            access: None,
            peer_idx: self.peer_idx,
            conn_gen: self.conn_gen,
            id,
            from: self.key.from,
            message: self.message,
            ranges,
            done: 0,
            in_flight: 0,
            needs_confirm: false,
        }
    }
}
