// SPDX-License-Identifier: GPL-2.0

//! Fast paths to a connected peer: post a short message, or an RDMA read or write of one segment, to the lower endpoint.
//! Guarded by `EpCore::inner`.

use super::{
    super::{
        ep_state::EpState,
        inflight::Inflight,
        iov::PostedSrc,
        pkt_buf::{
            BufState,
            Packet, //
        },
        tx_op::{
            TxComp,
            TxOp, //
        },
        tx_pool::TxPool,
        wire::Message, //
    },
    Conn,
    Peer, //
};
use crate::{
    abi::fi_rma_iov,
    fi::{
        prelude::*,
        provider::{
            Rma,
            SingleSegment, //
        },
    },
};

impl EpState {
    /// Posts a short message to the peer at an IPv4 address. Returns false, and the caller starts it as any other, unless
    /// the peer was used recently, is connected, and has no deferred operations, and the message has a buffer and a credit.
    #[inline(always)]
    pub(in super::super) fn post_short(
        &mut self,
        addr: (u32, u16),
        comp: TxComp,
        message: &Message,
        from: &PostedSrc<'_>,
    ) -> bool {
        match self.recent_peer(addr) {
            Some((peer_idx, peer, inflight, tx_pool)) => {
                peer.post_short(peer_idx, (comp, message, from), inflight, tx_pool)
            }
            None => false,
        }
    }

    /// Posts an RDMA read or write of one segment to the peer at an IPv4 address, as [`Self::post_short`].
    #[inline(always)]
    pub(in super::super) fn post_short_rma(
        &mut self,
        addr: (u32, u16),
        posted: (TxComp, (Rma, &fi_rma_iov), &SingleSegment<'_>),
    ) -> bool {
        match self.recent_peer(addr) {
            Some((peer_idx, peer, inflight, tx_pool)) => {
                peer.post_short_rma(peer_idx, posted, inflight, tx_pool)
            }
            None => false,
        }
    }
}

impl Conn {
    /// Returns the connection, and the connection id that the peer assigned, if the connection is open, permits new
    /// operations, does not use the loop provider, and is not held by an operation.
    #[inline(always)]
    fn short_target(&mut self) -> Option<(&mut Self, u64)> {
        let is_plain = !self.is_closing
            && !self.tx_exclusive
            && !self.lower.is_local_path
            && self.shutdown.may_start_ops();
        let to = self.remote_conn_id.filter(|_| is_plain)?;
        Some((self, to))
    }
}

impl Peer {
    /// Returns whether the peer listens at this IPv4 address and port.
    #[inline(always)]
    pub(in super::super) fn is_at(&self, ip: u32, port: u16) -> bool {
        matches!(self.addr, SocketAddr::V4(addr) if addr.port() == port && addr.ip().to_bits() == ip)
    }

    /// Posts a short message. Returns false if the message has to wait or the post fails: the caller then starts it on
    /// the general path.
    #[inline(always)]
    pub(in super::super) fn post_short(
        &mut self,
        peer_idx: u32,
        (comp, message, from): (TxComp, &Message, &PostedSrc<'_>),
        inflight: &mut Inflight<Packet>,
        tx_pool: &mut TxPool,
    ) -> bool {
        if !self.deferred.is_empty() || self.is_registering {
            return false;
        }
        let Some((conn, to)) = self.conn.as_mut().and_then(Conn::short_target) else {
            return false;
        };
        if conn.check_context(message.context).is_err() || !conn.take_send_credit() {
            return false;
        }
        let Some(mut packet) = tx_pool.try_take(&mut self.tx_share) else {
            conn.credits.return_credit();
            return false;
        };
        packet.begin(comp);
        packet.peer_idx = peer_idx;
        packet.conn_gen = conn.conn_gen;
        packet.write_eager(to, message, from);
        match Packet::send(packet, inflight, &conn.lower) {
            Ok(()) => {
                self.tx_count += 1;
                true
            }
            // The general path posts again, and closes the connection if that fails with any error but -FI_EAGAIN.
            Err(error) => {
                conn.credits.return_credit();
                tx_pool.put(error.node, &mut self.tx_share, false);
                false
            }
        }
    }

    /// Posts an RDMA read or write of one segment. Returns false if it has to wait or the post fails: the caller then
    /// starts it on the general path.
    #[inline(always)]
    pub(in super::super) fn post_short_rma(
        &mut self,
        peer_idx: u32,
        (comp, access, single): (TxComp, (Rma, &fi_rma_iov), &SingleSegment<'_>),
        inflight: &mut Inflight<Packet>,
        tx_pool: &mut TxPool,
    ) -> bool {
        if !self.deferred.is_empty() || self.is_registering {
            return false;
        }
        let Some((conn, _)) = self.conn.as_mut().and_then(Conn::short_target) else {
            return false;
        };
        let (way, _) = access;
        // If not, the general path defers the operation.
        if !conn.may_access(way) {
            return false;
        }
        let Some(mut packet) = tx_pool.try_take(&mut self.tx_share) else {
            return false;
        };
        packet.begin(comp);
        packet.peer_idx = peer_idx;
        packet.conn_gen = conn.conn_gen;
        packet.state = BufState::Tx(TxOp::PostedRma(way));
        match Packet::access_segment(packet, inflight, &conn.lower, access, single) {
            Ok(()) => {
                conn.note_access(way);
                self.tx_count += 1;
                true
            }
            // The general path posts again, and handles the error.
            Err(error) => {
                tx_pool.put(error.node, &mut self.tx_share, false);
                false
            }
        }
    }
}
