// SPDX-License-Identifier: GPL-2.0

//! What comes from peers: packets, and messages without a receive.
//!
//! A message without a receive is copied out of its packet, so that the peer can go on, up to a bound; one
//! that goes to a buffer for several, and cannot be told of, is so as well. Beyond that, packets are held as
//! they came until a receive is posted, and as there are not many of them the peer is slowed. What a peer
//! says of our own messages is heard all the same.

use super::{
    atomic::AtomicRequest,
    completion::CompSinks,
    conn::credits::CreditError,
    ep_state::EpState,
    iov::Payload,
    matcher::MsgKey,
    pkt_buf::{
        Packet,
        RxData, //
    },
    rx_entry::RndvRead,
    unexpected::{
        UnexpBody,
        UnexpMsg,
        UNEXP_OVERHEAD, //
    },
    wire::{
        Message,
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
    util::{
        log::warn_of_peer,
        owned_list::ListBox, //
    },
};

/// What has become of a packet.
pub(super) enum RxOutcome {
    /// It is not needed any more.
    Done,
    /// It has to be looked at again when there is a receive.
    Deferred,
    /// It asks for an operation, and takes the answer back.
    Atomic(AtomicRequest),
}

/// The same, or why the connection is to be closed.
pub(super) type RxResult = core::result::Result<RxOutcome, ProtoError>;

impl EpState {
    /// Something has come from a peer, or a packet to receive with has come back; where connections share,
    /// by that of `source`.
    pub(super) fn rx_complete(
        &mut self,
        sinks: &CompSinks,
        mut packet: ListBox<Packet>,
        source: Option<Source>,
        result: Result<RxData>,
    ) {
        match (result, self.on_rx_completion(&mut packet, source)) {
            (Ok(rx_data), Ok(())) => {
                packet.rx_data = rx_data;
                self.process_rx(sinks, packet, true);
            }
            (Ok(_), Err(CreditError)) => {
                self.protocol_error(packet, ProtoError("more packets than were asked for"));
            }
            (Err(_), _) => {
                let (peer_idx, conn_gen) = (packet.peer_idx, packet.conn_gen);
                self.keep(packet);
                let conn = self.peer(peer_idx).and_then(|peer| peer.conn.as_ref());
                if conn.is_some_and(|conn| conn.is_open()) {
                    // Nothing comes by that connection any more. What has become of one that never
                    // was there is told otherwise, with the reason.
                    self.schedule_disconnect(peer_idx, conn_gen);
                }
            }
        }
    }

    /// Looks at a packet.
    fn process_rx(&mut self, sinks: &CompSinks, packet: ListBox<Packet>, is_limited: bool) {
        let peer_idx = packet.peer_idx;
        match self.dispatch_rx(sinks, &packet, is_limited) {
            Ok(RxOutcome::Done) => {
                let _ = self.repost(packet);
            }
            Ok(RxOutcome::Deferred) => {
                if let Some(peer) = self.peer(peer_idx) {
                    peer.deferred_rx += 1;
                }
                self.deferred_rx.push(packet);
                // Nobody says when something is posted.
                self.needs_srx_retry |= self.rx_ctxs.ctx(0).is_imported();
            }
            Ok(RxOutcome::Atomic(request)) => self.handle_atomic_req(packet, &request),
            Err(error) => self.protocol_error(packet, error),
        }
        self.progress_peer(sinks, peer_idx);
    }

    /// Has a connection closed by which something has come that nobody may send.
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

    /// Looks again at the packets that are held; those of one peer, whose connection ends, have room.
    pub(super) fn retry_deferred(&mut self, sinks: &CompSinks, ending: Option<u32>) {
        let mut deferred_rx = mem::take(&mut self.deferred_rx);
        for packet in deferred_rx.iter() {
            if let Some(peer) = self
                .peer(packet.peer_idx)
                .filter(|peer| peer.deferred_rx > 0)
            {
                peer.deferred_rx = 0;
                peer.sar_rx.clear_deferred();
            }
        }
        while let Some(packet) = deferred_rx.pop() {
            let is_limited = ending != Some(packet.peer_idx);
            self.process_rx(sinks, packet, is_limited);
        }
    }

    fn dispatch_rx(&mut self, sinks: &CompSinks, packet: &Packet, is_limited: bool) -> RxResult {
        let peer_idx = packet.peer_idx;
        let rx_ctxs = self.rx_ctxs.len();
        let Some(peer) = self.peer(peer_idx) else {
            return Ok(RxOutcome::Done);
        };
        let has_deferred_rx = peer.deferred_rx > 0;
        let from = peer.addr;
        if let RxData::RemoteWrite(len, data) = packet.rx_data {
            if !sinks.reports_remote_writes {
                return Err(ProtoError(
                    "data of a write where there is nothing to write to",
                ));
            }
            return Ok(
                match !has_deferred_rx && sinks.complete_remote_write(len, data) {
                    true => RxOutcome::Done,
                    false => RxOutcome::Deferred,
                },
            );
        }
        let rx_bytes = packet.rx_bytes();
        let conn = peer.conn.as_ref();
        let contexts = match conn.filter(|conn| conn.conn_gen == packet.conn_gen) {
            Some(conn) if conn.extensions.contexts().is_some() => Some(rx_ctxs),
            // It has not been heard yet what the peer knows; what is behind such a packet does not pass it.
            Some(conn)
                if conn.remote_conn_id.is_none()
                    && (has_deferred_rx || RxPkt::rx_index(rx_bytes) != 0) =>
            {
                return Ok(RxOutcome::Deferred);
            }
            _ => None,
        };
        let RxPkt { hdr, payload, .. } = RxPkt::parse(rx_bytes, contexts)?;
        let message = match &hdr {
            PktHdr::Eager(message) | PktHdr::RndvReq { message, .. } => *message,
            PktHdr::Segment(segment) => segment.message,
            // Of what there was before, nothing is left that it could be about.
            _ if !peer.has(packet.conn_gen) => return Ok(RxOutcome::Done),
            // No other key is tried; messages, whose senders have their success, are delivered.
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
                let handled = self.handle_atomic_resp(sinks, peer_idx, id, status, payload);
                return handled.map(|()| RxOutcome::Done);
            }
            _ => {
                return self
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
                self.next_segment(sinks, &msg, &segment, payload, has_deferred_rx)
            }
            _ if has_deferred_rx => Ok(RxOutcome::Deferred),
            PktHdr::Segment(segment) => self.first_segment(sinks, &msg, &segment, payload),
            PktHdr::RndvReq { id, ranges, .. } => self.receive_rndv_req(sinks, &msg, id, ranges),
            _ => Ok(self.eager(sinks, &msg, payload, true)),
        }
    }

    /// What a peer says of our own messages, or of its receives.
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
                added.map_err(|_| ProtoError("credits that nobody has"))
            }
            PktHdr::Shutdown(msg) => self.on_shutdown_msg(peer_idx, msg),
            _ => Err(ProtoError("a packet of a kind that was not offered")),
        }
    }

    /// A message all of which is there; where it lacks something it waits if it `may_wait`.
    #[inline(always)]
    pub(super) fn eager(
        &mut self,
        sinks: &CompSinks,
        msg: &RxMsg,
        payload: &(impl Payload + ?Sized),
        may_wait: bool,
    ) -> RxOutcome {
        match self.match_rx(sinks, &msg.key, &msg.message) {
            Ok(receive) => {
                let len = payload.copy_to(&receive.into);
                self.end_receive(sinks, receive, &msg.key, &msg.message, len);
                RxOutcome::Done
            }
            Err(_) if !may_wait => RxOutcome::Deferred,
            Err(missing) => {
                // It may be looked at again and again: what there is no room for is not copied first.
                let unexp = match self.within_limits(msg, UNEXP_OVERHEAD + payload.len())
                    || !msg.is_limited
                {
                    true => UnexpMsg::with_bytes(msg.key, msg.message, msg.peer_idx, payload),
                    false => Err(Errno::ENOMEM),
                };
                self.queue_bounded(sinks, msg, unexp, missing)
            }
        }
    }

    /// There may be room for what is held.
    pub(super) fn retry_deferred_all(&mut self, sinks: &CompSinks) {
        if !self.deferred_rx.is_empty() {
            self.retry_deferred(sinks, None);
        }
    }
}

/// A message, and how it came.
pub(super) struct RxMsg {
    /// Whom it is from.
    pub(super) peer_idx: u32,
    /// By which connection.
    pub(super) conn_gen: usize,
    /// Who takes it.
    pub(super) key: MsgKey,
    /// The message.
    pub(super) message: Message,
    /// Whether it may have to wait in its packet.
    pub(super) is_limited: bool,
}

impl RxMsg {
    /// Has it wait for its receive.
    pub(super) fn unexp_msg(&self, body: UnexpBody) -> UnexpMsg {
        UnexpMsg::new(self.key, self.message, self.peer_idx, body)
    }

    /// Has it fetched from its sender.
    pub(super) fn rndv_read(&self, id: u64, ranges: Ranges) -> RndvRead {
        RndvRead {
            peer_idx: self.peer_idx,
            conn_gen: self.conn_gen,
            id,
            key: self.key,
            message: self.message,
            ranges,
            done: 0,
            in_flight: 0,
            needs_confirm: false,
        }
    }
}
