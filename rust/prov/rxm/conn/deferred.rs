// SPDX-License-Identifier: GPL-2.0

//! Deferred transmit queue of each peer: operations that cannot be posted now are posted when a completion or a
//! packet arrives. Guarded by `EpCore::inner`.
//!
//! An eager message has been copied into its packet buffer. A longer one is sent in segments, each copied into a
//! buffer, or by rendezvous.

use super::super::{
    completion::CompSinks,
    ep_state::{
        CmAction,
        EpState, //
    },
    inflight::Indexed,
    pkt_buf::{
        BufState,
        Packet, //
    },
    tx_op::{
        RndvReply,
        RndvState,
        TxOp, //
    },
    tx_pool::{
        queued::QueuedAt,
        TxShare, //
    },
};
use crate::fi::prelude::*;

impl EpState {
    /// Starts an operation: posts it, defers it, or queues it until the peer has an index.
    #[inline]
    pub(in super::super) fn send(
        &mut self,
        sinks: &CompSinks,
        to: &SocketAddr,
        peer_idx: Option<u32>,
        mut packet: ListBox<Packet>,
    ) {
        let Self {
            peers,
            inflight,
            tx_pool,
            ..
        } = self;
        let known = peer_idx
            .and_then(|peer_idx| Some((peer_idx, peers.get_mut(peer_idx as usize)?.as_mut()?)));
        let Some((peer_idx, peer)) = known else {
            packet.dest = *to;
            self.queued_ops.insert(&packet, QueuedAt::Unresolved);
            self.unresolved.push(packet);
            return;
        };
        packet.peer_idx = peer_idx;
        peer.tx_count += 1;
        match peer.post(packet, inflight, tx_pool) {
            Ok(()) => {}
            Err((packet, None)) => {
                self.queued_ops.insert(&packet, QueuedAt::Peer(peer_idx));
                peer.deferred.push(packet);
                self.want_stall_check();
                self.progress_peer(sinks, peer_idx);
            }
            Err((packet, Some(errno))) => self.finish(sinks, packet, Err(errno)),
        }
    }

    /// Defers an operation whose peer has got an index.
    pub(in super::super) fn queue(&mut self, peer_idx: u32, mut packet: ListBox<Packet>) {
        packet.peer_idx = peer_idx;
        let Self {
            peers,
            tx_pool,
            queued_ops,
            ..
        } = self;
        if let Some(Some(peer)) = peers.get_mut(peer_idx as usize) {
            tx_pool.transfer(&mut TxShare::slow(1), &mut peer.tx_share);
            queued_ops.insert(&packet, QueuedAt::Peer(peer_idx));
            peer.tx_count += 1;
            peer.deferred.push(packet);
            self.want_stall_check();
        }
    }

    /// Makes progress for a peer: posts what can be posted, and queues the peer for the connection manager if it has
    /// work.
    #[inline(always)]
    pub(in super::super) fn progress_peer(&mut self, sinks: &CompSinks, peer_idx: u32) {
        self.use_clock += 1;
        let (clock, shutdown_pending) = (self.use_clock, self.shutdown_pending);
        let Some(peer) = self.peer(peer_idx) else {
            return;
        };
        if let Some(conn) = &mut peer.conn {
            conn.last_used = clock;
        }
        if shutdown_pending || peer.has_pending() {
            self.progress_slow(sinks, peer_idx);
        }
    }

    #[inline(never)]
    fn progress_slow(&mut self, sinks: &CompSinks, peer_idx: u32) {
        loop {
            self.progress_reads(sinks, peer_idx);
            while let Some((packet, errno)) = self.post_deferred(peer_idx) {
                // The failure concerns this operation alone; go on with the others.
                self.finish(sinks, packet, Err(errno));
            }
            let conn = self.conn(peer_idx);
            let resumes_reads = conn.is_some_and(|conn| conn.iwarp_order.resume_reads());
            let has_more = self.shutdown_pending && self.drive_shutdown(peer_idx);
            if !resumes_reads && !has_more {
                break;
            }
        }
        if self.cm_action(peer_idx) != CmAction::Nothing {
            self.queue_cm_work(peer_idx);
        }
    }

    /// Posts deferred operations as far as possible. Returns the first one that can never be posted, with its errno.
    fn post_deferred(&mut self, peer_idx: u32) -> Option<(ListBox<Packet>, Errno)> {
        let conn = self.peer(peer_idx)?.conn.as_ref()?;
        if conn.wants_more_rx() {
            self.grow_rx(peer_idx);
        }
        let Self {
            peers,
            inflight,
            tx_pool,
            queued_ops,
            ..
        } = self;
        let peer = peers.get_mut(peer_idx as usize)?.as_mut()?;
        let conn = peer.conn.as_mut()?;
        conn.send_grant(inflight);
        conn.send_acks(inflight);
        conn.send_responses(inflight);
        loop {
            let packet = peer.deferred.pop()?;
            let number = packet.number();
            match peer.post_next(packet, inflight, tx_pool) {
                Ok(()) => queued_ops.remove(number),
                Err((packet, None)) => {
                    if packet.has_started() {
                        queued_ops.remove(number);
                    }
                    peer.deferred.push_front(packet);
                    return None;
                }
                Err((packet, Some(errno))) => {
                    queued_ops.remove(number);
                    return Some((packet, errno));
                }
            }
        }
    }

    /// Puts an operation at the head of the deferred queue and makes progress.
    pub(in super::super) fn requeue_front(&mut self, sinks: &CompSinks, packet: ListBox<Packet>) {
        let peer_idx = packet.peer_idx;
        if let Some(peer) = self.peer(peer_idx) {
            peer.deferred.push_front(packet);
        }
        self.progress_peer(sinks, peer_idx);
    }

    /// Handles the completion of a lower transmit.
    #[inline]
    pub(in super::super) fn sent(
        &mut self,
        sinks: &CompSinks,
        mut packet: ListBox<Packet>,
        result: Result,
    ) {
        let (peer_idx, conn_gen) = (packet.peer_idx, packet.conn_gen);
        let Some(tx_op) = packet.tx_op() else {
            self.aux_sent(packet);
            match result {
                Ok(()) => self.progress_peer(sinks, peer_idx),
                // A failed credit packet, segment or response ends the connection like a failed message.
                Err(_) => self.schedule_disconnect(peer_idx, conn_gen),
            }
            return;
        };
        if tx_op.is_read() {
            let peer = self.peer(peer_idx);
            let conn = peer.and_then(|peer| peer.conn.as_mut());
            if let Some(conn) = conn.filter(|conn| conn.conn_gen == conn_gen) {
                conn.iwarp_order.read_completed();
            }
        }
        if result.is_err() {
            // The response may have arrived before the failure.
            let answer = packet
                .atomic_tx()
                .and_then(|atomic_tx| atomic_tx.early_result);
            self.finish(sinks, packet, answer.unwrap_or(result));
            // The connection cannot be used any more.
            self.schedule_disconnect(peer_idx, conn_gen);
            return;
        }
        match tx_op {
            TxOp::Eager => self.message_sent(sinks, packet),
            TxOp::Rma(_) | TxOp::PostedRma(_) => self.finish(sinks, packet, result),
            TxOp::Atomic(atomic_tx) => match atomic_tx.early_result {
                Some(answer) => {
                    self.finish(sinks, packet, answer);
                    self.progress_peer(sinks, peer_idx);
                }
                None => self.await_reply(sinks, packet),
            },
            TxOp::Sar(sar_tx) => match u64::from(sar_tx.next) >= sar_tx.message.segments() {
                true => self.message_sent(sinks, packet),
                false => {
                    let peer = self.peer(peer_idx);
                    if let Some(conn) = peer.and_then(|peer| peer.conn.as_mut()) {
                        conn.tx_exclusive = false;
                    }
                    self.requeue_front(sinks, packet);
                }
            },
            TxOp::Rndv(rndv_tx) => match &mut rndv_tx.state {
                RndvState::ReqSent(None) => self.await_reply(sinks, packet),
                RndvState::ReqSent(Some(RndvReply::ReadDone))
                | RndvState::WriteDone
                | RndvState::Done(_) => {
                    self.finish(sinks, packet, result);
                }
                RndvState::ReqSent(Some(RndvReply::Refused(errno))) => {
                    let errno = *errno;
                    self.finish(sinks, packet, Err(errno));
                }
                RndvState::ReqSent(Some(RndvReply::WriteTo(ranges))) => {
                    let ranges = *ranges;
                    self.start_write(sinks, packet, ranges);
                }
                RndvState::Writing(_, done, in_flight) => {
                    *done += mem::take(in_flight);
                    if !rndv_tx.has_more_to_write() {
                        rndv_tx.state = RndvState::WriteDone;
                    }
                    self.requeue_front(sinks, packet);
                }
            },
        }
    }

    /// Keeps an operation until the peer answers.
    pub(in super::super) fn await_reply(&mut self, sinks: &CompSinks, packet: ListBox<Packet>) {
        let peer_idx = packet.peer_idx;
        if let Some(peer) = self.peer(peer_idx) {
            peer.awaiting_reply.push(packet);
        }
        self.progress_peer(sinks, peer_idx);
    }

    /// Puts back a packet buffer that was sent for no operation of its own.
    fn aux_sent(&mut self, packet: ListBox<Packet>) {
        let (peer_idx, conn_gen) = (packet.peer_idx, packet.conn_gen);
        let is_segment = matches!(packet.state, BufState::Segment);
        if matches!(packet.state, BufState::Response) {
            self.response_sent(packet);
            return;
        }
        let conn = self.conn(peer_idx);
        let conn = conn.filter(|conn| conn.conn_gen == conn_gen);
        match (is_segment, conn) {
            (true, conn) => {
                if let Some(conn) = conn {
                    conn.segments += 1;
                }
                self.put_segment_buf(packet);
            }
            (false, Some(conn)) => conn.ctrl_bufs.push(packet),
            (false, None) => self.keep(packet),
        }
    }

    /// Completes an operation. If its memory is registered for the peer, it is deregistered first.
    #[inline]
    pub(in super::super) fn finish(
        &mut self,
        sinks: &CompSinks,
        mut packet: ListBox<Packet>,
        result: Result,
    ) {
        if let Some(rndv_tx) = packet.rndv_tx().filter(|rndv_tx| rndv_tx.region.is_some()) {
            rndv_tx.state = RndvState::Done(result);
            self.pending_dereg.push(packet);
            return;
        }
        let peer_idx = packet.peer_idx;
        if let Some(comp) = packet.tx_comp() {
            sinks.complete_tx(comp, result);
        }
        self.put_tx_buf(packet, result.is_ok());
        if result.is_ok() {
            self.progress_peer(sinks, peer_idx);
        }
    }

    /// Takes a completed operation whose memory has to be deregistered.
    pub(in super::super) fn next_dereg(&mut self) -> Option<ListBox<Packet>> {
        self.pending_dereg.pop()
    }

    /// Completes an operation whose memory has been deregistered.
    pub(in super::super) fn dereg_done(&mut self, sinks: &CompSinks, mut packet: ListBox<Packet>) {
        let state = packet.rndv_tx().map(|rndv_tx| rndv_tx.state);
        let result = match state {
            Some(RndvState::Done(result)) => result,
            _ => Ok(()),
        };
        self.finish(sinks, packet, result);
    }

    /// Fails the deferred operations of a peer.
    pub(in super::super) fn fail(&mut self, sinks: &CompSinks, peer_idx: u32, errno: Errno) {
        let Some(peer) = self.peer(peer_idx) else {
            return;
        };
        let mut deferred = mem::take(&mut peer.deferred);
        while let Some(packet) = deferred.pop() {
            self.finish_queued(sinks, packet, errno);
        }
    }

    /// Fails an operation that has been removed from a deferred queue.
    pub(in super::super) fn finish_queued(
        &mut self,
        sinks: &CompSinks,
        packet: ListBox<Packet>,
        errno: Errno,
    ) {
        self.queued_ops.remove(packet.number());
        self.finish(sinks, packet, Err(errno));
    }

    /// Cancels the latest operation of a transmit context with a context, if nothing of it has been posted.
    ///
    /// # Errors
    ///
    /// -FI_ENOENT if there is none, -FI_EAGAIN while its memory is being registered.
    pub(in super::super) fn cancel_tx(
        &mut self,
        sinks: &CompSinks,
        tx_ctx: u8,
        context: Context,
    ) -> Result {
        let found = self.queued_ops.find(context, tx_ctx);
        let (number, at) = found.ok_or(Errno::ENOENT)?;
        match at {
            QueuedAt::Unresolved => {
                let packet = self.unresolved.take(number);
                let packet = packet.ok_or(Errno::ENOENT)?;
                self.finish_unresolved(sinks, packet, Errno::ECANCELED);
            }
            QueuedAt::Peer(peer_idx) => {
                let is_it = |packet: &Packet| packet.number() == number;
                let peer = self.peer(peer_idx);
                let packet = peer.and_then(|peer| peer.deferred.remove_first_where(is_it));
                let packet = packet.ok_or(Errno::EAGAIN)?;
                self.finish_queued(sinks, packet, Errno::ECANCELED);
                // Others may have waited for it.
                self.progress_peer(sinks, peer_idx);
            }
        }
        Ok(())
    }

    /// Fails the operations and reads that were started on a connection that has ended.
    pub(in super::super) fn fail_begun(&mut self, sinks: &CompSinks, peer_idx: u32, errno: Errno) {
        let Some(peer) = self.peer(peer_idx) else {
            return;
        };
        let mut begun = mem::take(&mut peer.awaiting_reply);
        let mut others = peer.deferred.drain_where(Packet::has_started);
        let mut rndv_reads = mem::take(&mut peer.rndv_reads);
        begun.append(&mut others);
        while let Some(packet) = begun.pop() {
            self.finish(sinks, packet, Err(errno));
        }
        while let Some(receive) = rndv_reads.pop() {
            self.give_up_receive(sinks, receive, errno);
        }
    }
}
