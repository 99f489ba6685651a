// SPDX-License-Identifier: GPL-2.0

//! Posts operations to the lower endpoint, as far as credits and buffers permit. Guarded by `EpCore::inner`.

use super::{
    super::{
        inflight::Inflight,
        iov::SrcBuf,
        pkt_buf::Packet,
        tx_op::{
            RndvState,
            RndvTx,
            SarTx,
            TxOp, //
        },
        tx_pool::{
            TxPool,
            TxShare, //
        },
        wire::{
            Extensions,
            SegPos, //
        },
    },
    Conn,
    Peer,
    MAX_SEGS, //
};
use crate::{
    abi::flags::FI_REMOTE_CQ_DATA,
    fi::{
        mr::MemoryRegion,
        prelude::*,
        provider::Rma, //
    },
};

impl Conn {
    /// Returns whether an RDMA read or write may be posted now.
    #[inline(always)]
    pub(super) fn may_access(&mut self, way: Rma) -> bool {
        match way {
            Rma::Read => self.iwarp_order.may_read(),
            Rma::Write => self.iwarp_order.request_send(),
        }
    }

    /// Counts an RDMA read or write that has been posted.
    #[inline(always)]
    pub(super) fn note_access(&mut self, way: Rma) {
        if way == Rma::Read {
            self.iwarp_order.read_posted();
        }
    }
}

impl Peer {
    /// Posts an operation if no operation to the peer is deferred. On failure returns the packet buffer, and an errno
    /// if the operation can never be posted.
    #[inline(always)]
    pub(super) fn post(
        &mut self,
        packet: ListBox<Packet>,
        inflight: &mut Inflight<Packet>,
        tx_pool: &mut TxPool,
    ) -> core::result::Result<(), (ListBox<Packet>, Option<Errno>)> {
        match self.deferred.is_empty() {
            true => self.post_next(packet, inflight, tx_pool),
            false => Err((packet, None)),
        }
    }

    /// Posts the next packets or the next RDMA request of an operation, if the connection permits it. On failure
    /// returns the packet buffer, and an errno if the operation can never be posted.
    #[inline(always)]
    pub(super) fn post_next(
        &mut self,
        mut packet: ListBox<Packet>,
        inflight: &mut Inflight<Packet>,
        tx_pool: &mut TxPool,
    ) -> core::result::Result<(), (ListBox<Packet>, Option<Errno>)> {
        let conn = self.conn.as_mut();
        let conn = conn.filter(|conn| !conn.is_closing && !conn.tx_exclusive);
        let conn = conn.filter(|conn| conn.shutdown.may_start_ops() || packet.has_started());
        let target = conn.and_then(|conn| Some((conn.remote_conn_id?, conn)));
        if let (Some((_, conn)), true) = (&target, packet.wants_ack()) {
            packet.adapt_to(conn.extensions);
        }
        match target {
            Some((to, conn)) if !self.is_registering && !packet.needs_registration() => {
                match conn.check_context(packet.context()) {
                    Ok(()) => {
                        let segment_bufs = (tx_pool, &mut self.tx_share);
                        post_op(conn, to, packet, inflight, segment_bufs)
                    }
                    Err(errno) => Err((packet, Some(errno))),
                }
            }
            _ => Err((packet, None)),
        }
    }
}

impl TxOp {
    /// Returns whether a segment has been posted, or the peer has replied to the rendezvous request.
    pub(in super::super) fn has_started(&self) -> bool {
        match self {
            Self::Eager | Self::Rma(_) | Self::Atomic(_) => false,
            Self::PostedRma(_) => true,
            Self::Sar(sar_tx) => sar_tx.next > 0,
            Self::Rndv(rndv_tx) => !matches!(rndv_tx.state, RndvState::ReqSent(_)),
        }
    }

    /// Returns whether the operation is an RDMA read.
    pub(super) fn is_read(&self) -> bool {
        match self {
            Self::Rma(access) => access.way == Rma::Read,
            Self::PostedRma(way) => *way == Rma::Read,
            _ => false,
        }
    }

    /// Turns a segmented message into a rendezvous message.
    pub(in super::super) fn make_rndv(&mut self) {
        if let Self::Sar(SarTx { message, from, .. }) = self {
            let from = mem::replace(from, SrcBuf::EMPTY);
            *self = Self::Rndv(RndvTx::new(*message, from));
        }
    }

    /// Stores the memory region of a rendezvous message. If the registration failed, the message is sent in segments.
    pub(in super::super) fn set_region(&mut self, region: Result<Arc<MemoryRegion>>) {
        let Self::Rndv(rndv_tx) = self else {
            return;
        };
        match region {
            Ok(region) => rndv_tx.region = Some(region),
            Err(_) => {
                let RndvTx { message, from, .. } = rndv_tx;
                let sar_tx = SarTx {
                    message: *message,
                    from: mem::replace(from, SrcBuf::EMPTY),
                    next: 0,
                };
                *self = Self::Sar(sar_tx);
            }
        }
    }
}

/// Posts the next packets or the next RDMA request of an operation; `to` is the connection id that the peer assigned.
/// On failure returns the packet buffer, and an errno if the operation can never be posted.
fn post_op(
    conn: &mut Conn,
    to: u64,
    mut packet: ListBox<Packet>,
    inflight: &mut Inflight<Packet>,
    segment_bufs: (&mut TxPool, &mut TxShare),
) -> core::result::Result<(), (ListBox<Packet>, Option<Errno>)> {
    let mut requests = 0;
    if packet.wants_ack() && !conn.assign_slot(&mut packet) {
        return Err((packet, None));
    }
    match packet.as_tx_op() {
        Some(TxOp::Eager) => {}
        Some(TxOp::Rma(_)) => return post_rma(conn, packet, inflight),
        Some(TxOp::Rndv(rndv_tx)) if rndv_tx.has_more_to_write() => {
            return post_rma(conn, packet, inflight);
        }
        Some(TxOp::Sar(_)) => {
            if !post_segments(conn, to, &mut packet, inflight, segment_bufs) {
                conn.unassign_slot(&mut packet);
                return Err((packet, None));
            }
        }
        Some(TxOp::Atomic(_)) => requests = 1,
        Some(TxOp::Rndv(rndv_tx)) if rndv_tx.access.is_some() => {
            if !conn.extensions.have(Extensions::TAGGED_RMA) {
                return Err((packet, Some(Errno::EOPNOTSUPP)));
            }
            requests = 1;
        }
        _ => {}
    }
    if requests > conn.requests_left {
        return Err((packet, None));
    }
    if !conn.take_send_credit() {
        conn.tx_exclusive = false;
        conn.unassign_slot(&mut packet);
        return Err((packet, None));
    }
    packet.conn_gen = conn.conn_gen;
    packet.prepare(to);
    packet.advance_segment(1);
    conn.requests_left -= requests;
    Packet::send(packet, inflight, &conn.lower).map_err(|error| {
        conn.tx_exclusive = false;
        conn.requests_left += requests;
        conn.credits.return_credit();
        conn.note_post_error(error.errno);
        let mut packet = error.node;
        packet.advance_segment(-1);
        conn.unassign_slot(&mut packet);
        (packet, None)
    })
}

/// Posts segments of a message that have transmit buffers of their own, up to the segment that the message's buffer is
/// for. Returns whether the caller can post that segment.
#[inline(never)]
fn post_segments(
    conn: &mut Conn,
    to: u64,
    packet: &mut Packet,
    inflight: &mut Inflight<Packet>,
    (tx_pool, share): (&mut TxPool, &mut TxShare),
) -> bool {
    let (peer_idx, id) = (packet.peer_idx, packet.id());
    let Some(TxOp::Sar(sar_tx)) = packet.tx_op() else {
        return true;
    };
    loop {
        let segment = sar_tx.segment(id);
        if segment.pos == SegPos::Last {
            return true;
        }
        if !conn.take_send_credit() {
            return false;
        }
        let segment_buf = match conn.segments {
            0 => None,
            _ => tx_pool.take_segment(share),
        };
        let Some(mut segment_buf) = segment_buf else {
            conn.credits.return_credit();
            // If no segment is in flight, no buffer will be put back: this segment uses the message's buffer, and no
            // other operation is posted before the rest of the message.
            conn.tx_exclusive = conn.segments == MAX_SEGS;
            return conn.tx_exclusive;
        };
        segment_buf.peer_idx = peer_idx;
        segment_buf.conn_gen = conn.conn_gen;
        segment_buf.fill_segment(to, &sar_tx.from, &segment);
        if let Err(error) = Packet::send(segment_buf, inflight, &conn.lower) {
            tx_pool.put(error.node, share, false);
            conn.note_post_error(error.errno);
            conn.credits.return_credit();
            return false;
        }
        conn.segments -= 1;
        sar_tx.next += 1;
    }
}

/// Posts an RDMA read or write. On failure returns the packet buffer, and an errno if the operation can never be
/// posted.
fn post_rma(
    conn: &mut Conn,
    mut packet: ListBox<Packet>,
    inflight: &mut Inflight<Packet>,
) -> core::result::Result<(), (ListBox<Packet>, Option<Errno>)> {
    let way = match packet.as_tx_op().is_some_and(TxOp::is_read) {
        true => Rma::Read,
        false => Rma::Write,
    };
    if !conn.may_access(way) {
        return Err((packet, None));
    }
    // A write with remote CQ data consumes a receive of the peer.
    let takes_credit = match packet.as_tx_op() {
        Some(TxOp::Rma(access)) => access.flags & FI_REMOTE_CQ_DATA != 0,
        _ => false,
    };
    if takes_credit && !conn.credits.take_credit() {
        return Err((packet, None));
    }
    packet.conn_gen = conn.conn_gen;
    let accessed = Packet::access(packet, inflight, &conn.lower);
    if accessed.is_ok() {
        conn.note_access(way);
    }
    accessed.map_err(|error| {
        if takes_credit {
            conn.credits.return_credit();
        }
        match error.errno {
            Errno::EAGAIN => (error.node, None),
            // The operation stays deferred. When the connection has been closed, an operation that has started fails,
            // and any other is posted on the next connection.
            errno @ (Errno::ENOTCONN | Errno::ECONNABORTED | Errno::ESHUTDOWN) => {
                conn.note_post_error(errno);
                (error.node, None)
            }
            errno => (error.node, Some(errno)),
        }
    })
}

impl Packet {
    /// Adds `count` to the number of the next segment of a segmented message.
    fn advance_segment(&mut self, count: i32) {
        if let Some(TxOp::Sar(sar_tx)) = self.tx_op() {
            sar_tx.next = sar_tx.next.wrapping_add_signed(count);
        }
    }
}
