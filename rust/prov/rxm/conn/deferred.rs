// SPDX-License-Identifier: GPL-2.0

//! What goes to peers: each has a queue, and what cannot go now goes when something has come back.
//!
//! A message in one packet has been copied there. A longer one is copied into packets one after the
//! other, or it is offered: its memory is opened to the peer, which reads it and says so.

use super::super::{
    completion::CompSinks,
    ep_state::{
        CmAction,
        EpState, //
    },
    pkt_buf::{
        BufState,
        Packet, //
    },
    tx_op::{
        RndvReply,
        RndvState,
        TxOp, //
    },
    tx_pool::TxWaiter, //
};
use crate::{
    fi::prelude::*,
    util::owned_list::ListBox, //
};

impl EpState {
    /// Takes a packet for an operation with a peer, if the peer may have one more. Otherwise `tx_waiter` is woken when
    /// one is put back.
    #[inline(always)]
    pub(in super::super) fn packet(
        &mut self,
        to: &SocketAddr,
        peer_idx: Option<u32>,
        tx_waiter: &Arc<TxWaiter>,
    ) -> Option<ListBox<Packet>> {
        let tx_count = match peer_idx.and_then(|peer_idx| self.peer(peer_idx)) {
            Some(peer) => peer.tx_count,
            None => {
                let orders = self.unresolved.iter();
                orders.filter(|packet| packet.is_to(to)).count()
            }
        };
        match tx_count < self.tx_pool.peer_limit() {
            true => self.tx_pool.get_or_wait(tx_waiter),
            false => {
                self.tx_pool.wait_for_buf(tx_waiter);
                None
            }
        }
    }

    /// Starts an operation, at once or when there is a connection.
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
            self.unresolved.push(packet);
            return;
        };
        packet.peer_idx = peer_idx;
        peer.tx_count += 1;
        match peer.post(packet, inflight, tx_pool) {
            Ok(()) => {}
            Err((packet, None)) => {
                peer.deferred.push(packet);
                self.progress_peer(sinks, peer_idx);
            }
            Err((packet, Some(errno))) => self.finish(sinks, packet, Err(errno)),
        }
    }

    /// Has an operation wait for its turn.
    pub(in super::super) fn queue(&mut self, peer_idx: u32, mut packet: ListBox<Packet>) {
        packet.peer_idx = peer_idx;
        if let Some(peer) = self.peer(peer_idx) {
            peer.tx_count += 1;
            peer.deferred.push(packet);
        }
    }

    /// Does what can be done for a peer, and calls for somebody to look after it if there is more.
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
                // It concerns this operation alone; finding that out goes on with the others.
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

    /// Posts what waits for a peer, as far as there is room; comes back with the first that cannot be
    /// posted at all, and why.
    fn post_deferred(&mut self, peer_idx: u32) -> Option<(ListBox<Packet>, Errno)> {
        let conn = self.peer(peer_idx)?.conn.as_ref()?;
        if conn.wants_more_rx() {
            self.grow_rx(peer_idx);
        }
        let Self {
            peers,
            inflight,
            tx_pool,
            ..
        } = self;
        let peer = peers.get_mut(peer_idx as usize)?.as_mut()?;
        let conn = peer.conn.as_mut()?;
        conn.send_grant(inflight);
        conn.send_atomic_resps(inflight);
        loop {
            let packet = peer.deferred.pop()?;
            match peer.post_next(packet, inflight, tx_pool) {
                Ok(()) => {}
                Err((packet, None)) => {
                    peer.deferred.push_front(packet);
                    return None;
                }
                Err((packet, Some(errno))) => return Some((packet, errno)),
            }
        }
    }

    /// An operation goes on, before all others.
    pub(in super::super) fn requeue_front(&mut self, sinks: &CompSinks, packet: ListBox<Packet>) {
        let peer_idx = packet.peer_idx;
        if let Some(peer) = self.peer(peer_idx) {
            peer.deferred.push_front(packet);
        }
        self.progress_peer(sinks, peer_idx);
    }

    /// What a packet was sent for, or has done, is over.
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
            // It may have been answered all the same.
            let answer = packet
                .atomic_tx()
                .and_then(|atomic_tx| atomic_tx.early_result);
            self.finish(sinks, packet, answer.unwrap_or(result));
            // Nothing more can be done by that connection.
            self.schedule_disconnect(peer_idx, conn_gen);
            return;
        }
        match tx_op {
            TxOp::Eager | TxOp::Rma(_) => self.finish(sinks, packet, result),
            TxOp::Atomic(atomic_tx) => match atomic_tx.early_result {
                Some(answer) => {
                    self.finish(sinks, packet, answer);
                    self.progress_peer(sinks, peer_idx);
                }
                None => self.await_reply(sinks, packet),
            },
            TxOp::Sar(sar_tx) => match u64::from(sar_tx.next) >= sar_tx.message.segments() {
                true => self.finish(sinks, packet, result),
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

    /// The peer knows of an operation.
    fn await_reply(&mut self, sinks: &CompSinks, packet: ListBox<Packet>) {
        let peer_idx = packet.peer_idx;
        if let Some(peer) = self.peer(peer_idx) {
            peer.awaiting_reply.push(packet);
        }
        self.progress_peer(sinks, peer_idx);
    }

    /// A packet is not needed any more that was sent for no operation of its own.
    fn aux_sent(&mut self, packet: ListBox<Packet>) {
        let (peer_idx, conn_gen) = (packet.peer_idx, packet.conn_gen);
        let is_segment = matches!(packet.state, BufState::Segment);
        if matches!(packet.state, BufState::AtomicResp) {
            self.atomic_resp_sent(packet);
            return;
        }
        let conn = self.conn(peer_idx);
        let conn = conn.filter(|conn| conn.conn_gen == conn_gen);
        match (is_segment, conn) {
            (true, conn) => {
                if let Some(conn) = conn {
                    conn.segments += 1;
                }
                self.tx_pool.put(packet);
            }
            (false, Some(conn)) => conn.ctrl_bufs.push(packet),
            (false, None) => self.keep(packet),
        }
    }

    /// An operation is over: if its memory is open to the peer, as soon as it is not.
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
        self.tx_pool.put(packet);
        if let Some(peer) = self.peer(peer_idx) {
            peer.tx_count -= 1;
        }
        if result.is_ok() {
            self.progress_peer(sinks, peer_idx);
        }
    }

    /// Takes an operation that is over, but for its memory, which is to be closed.
    pub(in super::super) fn next_dereg(&mut self) -> Option<ListBox<Packet>> {
        self.pending_dereg.pop()
    }

    /// It has been.
    pub(in super::super) fn dereg_done(&mut self, sinks: &CompSinks, mut packet: ListBox<Packet>) {
        let state = packet.rndv_tx().map(|rndv_tx| rndv_tx.state);
        let result = match state {
            Some(RndvState::Done(result)) => result,
            _ => Ok(()),
        };
        self.finish(sinks, packet, result);
    }

    /// Has what waits for a peer fail.
    pub(in super::super) fn fail(&mut self, sinks: &CompSinks, peer_idx: u32, errno: Errno) {
        let Some(peer) = self.peer(peer_idx) else {
            return;
        };
        let mut deferred = mem::take(&mut peer.deferred);
        while let Some(packet) = deferred.pop() {
            self.finish(sinks, packet, Err(errno));
        }
    }

    /// The same with what waits for somebody who has no number.
    pub(in super::super) fn fail_unresolved(&mut self, sinks: &CompSinks, errno: Errno) {
        if let Some(packet) = self.unresolved.pop() {
            if let Some(comp) = packet.tx_comp() {
                sinks.complete_tx(comp, Err(errno));
            }
            self.tx_pool.put(packet);
        }
    }

    /// Ends what was begun by a connection that is no more.
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
