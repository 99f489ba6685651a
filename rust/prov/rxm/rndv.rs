// SPDX-License-Identifier: GPL-2.0

//! Rendezvous protocol, both directions: the sender registers its memory, and the receiver reads it or asks for
//! writes. An access to a tagged receive goes the same way, and its target may also write. Guarded by
//! `EpCore::inner`.

use super::{
    super::common::mr_table::AccessKind,
    completion::CompSinks,
    conn::Peer,
    dispatch::{
        RxMsg,
        RxOutcome,
        RxResult, //
    },
    ep_state::EpState,
    inflight::{
        Indexed,
        Inflight,
        PostError, //
    },
    lower::LowerEp,
    matcher::MatchResult,
    pkt_buf::{
        post::remote,
        Packet, //
    },
    rx_entry::{
        Receive,
        RndvRead, //
    },
    turn::Held,
    tx_op::{
        RndvReply,
        RndvState, //
    },
    unexpected::{
        RndvReq,
        UnexpBody,
        UNEXP_OVERHEAD, //
    },
    wire::{
        PktHdr,
        ProtoError,
        Ranges, //
    },
};
use crate::fi::{
    mr::MemoryRegion,
    prelude::*,
    provider::{
        self,
        Operation,
        Rma, //
    },
};

impl EpState {
    /// Posts reads of a peer's rendezvous messages, and what its accesses need; notifies the peer of those that are
    /// done.
    pub(super) fn progress_reads(&mut self, sinks: &CompSinks, peer_idx: u32) {
        loop {
            let Self {
                peers,
                inflight,
                reads_inflight,
                rx_ctxs,
                ..
            } = self;
            let Some(Some(peer)) = peers.get_mut(peer_idx as usize) else {
                return;
            };
            let Peer {
                conn, rndv_reads, ..
            } = &mut **peer;
            let Some(conn) = conn.as_mut().filter(|conn| conn.is_open()) else {
                return;
            };
            let Some(mut receive) = rndv_reads.pop() else {
                return;
            };
            let next = receive.next_read().map(|next| next.is_some());
            let Some(rndv) = &mut receive.rndv else {
                return;
            };
            match next {
                Err(errno) => {
                    // The memory cannot be accessed; the peer must not wait for the read.
                    rndv.done = usize::MAX;
                    sinks.fail_rx(rx_ctxs, &mut receive, errno);
                    rndv_reads.push_front(receive);
                }
                Ok(true) => {
                    let is_read = rndv.way() == Rma::Read;
                    let may_go = match is_read {
                        true => conn.iwarp_order.may_read(),
                        false => conn.iwarp_order.request_send(),
                    };
                    if conn.reads_left == 0 || !may_go {
                        rndv_reads.push_front(receive);
                        return;
                    }
                    match post_read(receive, reads_inflight, &conn.lower) {
                        Ok(()) => {
                            conn.reads_left -= 1;
                            if is_read {
                                conn.iwarp_order.read_posted();
                            }
                        }
                        Err(error) => {
                            conn.note_post_error(error.errno);
                            rndv_reads.push_front(error.node);
                            return;
                        }
                    }
                }
                Ok(false) => {
                    let (id, len) = (rndv.id, rndv.done);
                    let (key, message) = (rndv.key(), rndv.message);
                    let flags = rndv.flags();
                    // The receive of an access may have ended before: its context was closed.
                    let reply = match rndv.access {
                        Some(_) if len as u64 != message.len => PktHdr::AccessRefused {
                            id,
                            status: Errno::ECANCELED.to_int(),
                        },
                        _ => PktHdr::RndvRdDone { id },
                    };
                    let was_reported = receive.is_reported;
                    sinks.complete_rx_as(rx_ctxs, &mut receive, &key, &message, (len, flags));
                    if !conn.send_ctrl_with_credit(inflight, &reply) {
                        rndv_reads.push_front(receive);
                        return;
                    }
                    self.put_back_late(sinks, receive, was_reported);
                }
            }
        }
    }

    /// Takes the next deferred operation if its memory has to be registered. [`Self::set_region`] puts it back.
    pub(super) fn take_unregistered(&mut self, peer_idx: u32) -> Option<ListBox<Packet>> {
        let peer = self.peer(peer_idx)?;
        if !peer.needs_registration() {
            return None;
        }
        peer.is_registering = true;
        peer.deferred.pop()
    }

    /// Takes the memory region of a deferred rendezvous message that has not been announced to the peer.
    pub(super) fn take_region(&mut self, peer_idx: u32) -> Option<Arc<MemoryRegion>> {
        let deferred = &mut self.peer(peer_idx)?.deferred;
        let mut taken = None;
        deferred.for_each_mut(|packet| {
            if taken.is_none() && !packet.has_started() {
                taken = packet.rndv_tx().and_then(|rndv_tx| rndv_tx.region.take());
            }
        });
        taken
    }

    /// Puts back an operation with its memory region. If the registration failed, the message is sent in segments.
    pub(super) fn set_region(
        &mut self,
        sinks: &CompSinks,
        mut packet: ListBox<Packet>,
        region: Result<Arc<MemoryRegion>>,
    ) {
        let peer_idx = packet.peer_idx;
        let failed = region.as_ref().err();
        let failed = failed.and_then(|&errno| self.registration_failed(&mut packet, errno));
        if let Some(peer) = self.peer(peer_idx) {
            peer.is_registering = false;
        }
        if let Some(failed) = failed {
            self.queued_ops.remove(packet.number());
            self.finish(sinks, packet, failed);
            self.progress_peer(sinks, peer_idx);
            return;
        }
        if let Some(tx_op) = packet.tx_op() {
            tx_op.set_region(region);
        }
        self.requeue_front(sinks, packet);
    }

    /// Handles *rndv_rd_done*: the peer has read a message, or an access is done.
    pub(super) fn handle_rd_done(
        &mut self,
        sinks: &CompSinks,
        peer_idx: u32,
        id: u64,
    ) -> core::result::Result<(), ProtoError> {
        if let Some(packet) = self.take_replied(peer_idx, id, RndvReply::ReadDone)? {
            self.finish(sinks, packet, Ok(()));
        }
        Ok(())
    }

    /// Handles *rndv_wr_data*: the peer asks for a message to be written.
    pub(super) fn handle_wr_data(
        &mut self,
        sinks: &CompSinks,
        peer_idx: u32,
        id: u64,
        ranges: Ranges,
    ) -> core::result::Result<(), ProtoError> {
        if ranges.total().is_none() {
            return Err(ProtoError("rendezvous reply with invalid memory ranges"));
        }
        if let Some(packet) = self.take_replied(peer_idx, id, RndvReply::WriteTo(ranges))? {
            self.start_write(sinks, packet, ranges);
        }
        Ok(())
    }

    /// Handles the refusal of an access.
    pub(super) fn handle_refusal(
        &mut self,
        sinks: &CompSinks,
        peer_idx: u32,
        id: u64,
        status: i32,
    ) -> core::result::Result<(), ProtoError> {
        let errno = status.checked_neg().and_then(Errno::new);
        let errno = errno.unwrap_or(Errno::EOTHER);
        if let Some(packet) = self.take_replied(peer_idx, id, RndvReply::Refused(errno))? {
            self.finish(sinks, packet, Err(errno));
        }
        Ok(())
    }

    /// Takes the rendezvous operation that a peer replies to. Returns `None` if the request's own completion is
    /// outstanding.
    fn take_replied(
        &mut self,
        peer_idx: u32,
        id: u64,
        answer: RndvReply,
    ) -> core::result::Result<Option<ListBox<Packet>>, ProtoError> {
        let is_it = |packet: &Packet| packet.has_id(peer_idx, id) && packet.accepts(&answer);
        let in_flight = self.inflight.get(Packet::number_of(id));
        if let Some(packet) = in_flight.filter(|packet| is_it(packet)) {
            let is_access = packet.is_tagged_access();
            if let Some(RndvState::ReqSent(reply)) =
                packet.rndv_tx().map(|rndv_tx| &mut rndv_tx.state)
            {
                if reply.is_none() {
                    *reply = Some(answer);
                    self.return_access_credit(peer_idx, is_access);
                    return Ok(None);
                }
            }
        }
        let peer = self.peer(peer_idx);
        let awaiting = peer.and_then(|peer| peer.awaiting_reply.remove_first_where(is_it));
        let awaiting = awaiting.ok_or(ProtoError("rendezvous reply without a request"))?;
        self.return_access_credit(peer_idx, awaiting.is_tagged_access());
        Ok(Some(awaiting))
    }

    /// Permits one more request to the peer if the operation that it has replied to is an access.
    #[inline]
    fn return_access_credit(&mut self, peer_idx: u32, is_access: bool) {
        if let Some(conn) = self.conn(peer_idx).filter(|_| is_access) {
            conn.requests_left += 1;
        }
    }

    /// Starts to write a message to the receiver's memory.
    pub(super) fn start_write(
        &mut self,
        sinks: &CompSinks,
        mut packet: ListBox<Packet>,
        ranges: Ranges,
    ) {
        if let Some(rndv_tx) = packet.rndv_tx() {
            rndv_tx.state = RndvState::Writing(ranges, 0, 0);
            if !rndv_tx.has_more_to_write() {
                rndv_tx.state = RndvState::WriteDone;
            }
        }
        self.requeue_front(sinks, packet);
    }
}

impl Held<'_> {
    /// Handles a rendezvous request.
    pub(super) fn receive_rndv_req(&mut self, msg: &RxMsg, id: u64, ranges: Ranges) -> RxResult {
        if ranges.total().is_none_or(|total| total < msg.message.len) {
            return Err(ProtoError(
                "a rendezvous request with less memory than the message",
            ));
        }
        let (state, sinks) = self.split();
        let mut found = state.match_rx(sinks, &msg.key, &msg.message);
        let mut unexp = Err(Errno::ENOMEM);
        if found.is_err() && (self.within_limits(msg, UNEXP_OVERHEAD) || !msg.is_limited) {
            unexp = self.unlocked(|| {
                let rndv_req = RndvReq {
                    conn_gen: msg.conn_gen,
                    id,
                    ranges,
                };
                let body = UnexpBody::Rndv(KBox::new(rndv_req, GFP_NOWAIT)?);
                ListBox::new_atomic(msg.unexp_msg(body))
            });
            // A receive may have been posted meanwhile.
            let (state, sinks) = self.split();
            found = state.match_rx(sinks, &msg.key, &msg.message);
        }
        match found {
            Ok(receive) => {
                let (state, sinks) = self.split();
                state.start_read(sinks, receive, msg.rndv_read(id, ranges));
                Ok(RxOutcome::Done)
            }
            Err(missing) => Ok(self.queue_bounded(msg, unexp, missing)),
        }
    }
}

impl EpState {
    /// Handles the request of a peer to read or write the memory of a tagged receive, which has to be posted.
    ///
    /// # Errors
    ///
    /// The endpoint permits no such access.
    #[inline(never)]
    pub(super) fn receive_tagged_access(
        &mut self,
        sinks: &CompSinks,
        msg: &RxMsg,
        (id, way): (u64, Rma),
        ranges: Ranges,
    ) -> RxResult {
        let peer = self.peer(msg.peer_idx);
        if !peer.is_some_and(|peer| peer.has(msg.conn_gen)) {
            // The initiator has been told that its connection has ended.
            return Ok(RxOutcome::Done);
        }
        let kind = match way {
            Rma::Read => AccessKind::Read,
            Rma::Write => AccessKind::Write,
        };
        let (_, rights) = &self.regions;
        if rights.check_tagged(kind).is_err() {
            return Err(ProtoError("access to a tagged receive without the right"));
        }
        let rx_ctx = self.rx_ctxs.ctx_mut(msg.key.context);
        if rx_ctx.rights.check_tagged(kind).is_err() {
            return Ok(RxOutcome::Refused(id, Errno::EACCES));
        }
        let Some(MatchResult::One(mut receive)) = rx_ctx.matcher.match_msg(&msg.key) else {
            return Ok(RxOutcome::Refused(id, Errno::ENOMSG));
        };
        let rndv = RndvRead {
            access: Some(way),
            ..msg.rndv_read(id, ranges)
        };
        if (receive.into.len() as u64) < msg.message.len {
            receive.rndv = Some(rndv);
            self.give_up_receive(sinks, receive, Errno::ETRUNC);
            return Ok(RxOutcome::Refused(id, Errno::ETRUNC));
        }
        self.start_read(sinks, receive, rndv);
        Ok(RxOutcome::Done)
    }

    /// Starts to read a message into its receive.
    pub(super) fn start_read(
        &mut self,
        sinks: &CompSinks,
        mut receive: ListBox<Receive>,
        rndv: RndvRead,
    ) {
        let peer_idx = rndv.peer_idx;
        let conn_gen = rndv.conn_gen;
        receive.rndv = Some(rndv);
        let peer = self.peer(peer_idx);
        match peer.filter(|peer| peer.has(conn_gen)) {
            Some(peer) => {
                peer.rndv_reads.push(receive);
                self.progress_peer(sinks, peer_idx);
            }
            None => self.give_up_receive(sinks, receive, Errno::ECONNABORTED),
        }
    }

    /// Handles the completion of a rendezvous read.
    pub(super) fn read_complete(
        &mut self,
        sinks: &CompSinks,
        mut receive: ListBox<Receive>,
        result: Result,
    ) {
        let Some(rndv) = &mut receive.rndv else {
            self.put_back(receive);
            return;
        };
        let (peer_idx, conn_gen) = (rndv.peer_idx, rndv.conn_gen);
        let is_read = rndv.way() == Rma::Read;
        rndv.done += mem::take(&mut rndv.in_flight);
        let peer = self.peer(peer_idx);
        let conn = peer.and_then(|peer| peer.conn.as_mut());
        if let Some(conn) = conn.filter(|conn| conn.conn_gen == conn_gen) {
            conn.reads_left += 1;
            if is_read {
                conn.iwarp_order.read_completed();
            }
        }
        match result {
            Ok(()) => {
                if let Some(peer) = self.peer(peer_idx) {
                    peer.rndv_reads.push_front(receive);
                }
                self.progress_peer(sinks, peer_idx);
            }
            Err(errno) => {
                self.give_up_receive(sinks, receive, errno);
                self.schedule_disconnect(peer_idx, conn_gen);
            }
        }
    }
}

/// Posts the next read of a rendezvous message, or the next access of a tagged receive, by `lower`.
///
/// # Errors
///
/// Errors of the lower transmit, -FI_EINVAL if the memory cannot be accessed; with the receive.
pub(super) fn post_read(
    node: ListBox<Receive>,
    inflight: &mut Inflight<Receive>,
    lower: &LowerEp,
) -> core::result::Result<(), PostError<Receive>> {
    inflight.post(node, |receive, context| {
        let next = receive.next_read()?.ok_or(Errno::EINVAL)?;
        let message = provider::Message::with_segment(&next.into, &[], context);
        let remote = remote(&next.from);
        let rndv = receive.rndv.as_mut().ok_or(Errno::EINVAL)?;
        let operation = Operation::Rma(rndv.way(), slice::from_ref(&remote));
        lower.transmit(operation, &message)?;
        let is_early = rndv.way() == Rma::Read && lower.ep.core().may_report_reads_early();
        rndv.in_flight = if next.is_confirm { 0 } else { next.into.len() };
        rndv.needs_confirm = is_early && !next.is_confirm;
        Ok(())
    })
}
