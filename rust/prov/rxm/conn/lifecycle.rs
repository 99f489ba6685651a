// SPDX-License-Identifier: GPL-2.0

//! Start and end of connections on the data path. Guarded by `EpCore::inner`.

use super::{
    super::{
        completion::CompSinks,
        deferred_rx::RetryScope,
        ep_state::EpState,
        pkt_buf::Packet,
        turn::Held,
        unexpected::UnexpMsg,
        wire::{
            Extensions,
            Flow,
            PktHdr, //
        },
    },
    Conn,
    CTRL_BUFS, //
};
use crate::fi::prelude::*;

impl EpState {
    /// Opens a connection with its control buffers and posts its first receive buffers.
    ///
    /// # Errors
    ///
    /// The errno of the lower receive: the caller closes the connection.
    pub(in super::super) fn open(
        &mut self,
        peer_idx: u32,
        mut conn: Conn,
        mut receives: BoxList<Packet>,
        mut ctrl_bufs: BoxList<Packet>,
    ) -> Result {
        let count = receives.len();
        let conn_gen = conn.conn_gen;
        while let Some(mut ctrl_buf) = ctrl_bufs.pop() {
            ctrl_buf.peer_idx = peer_idx;
            ctrl_buf.conn_gen = conn_gen;
            conn.ctrl_bufs.push(ctrl_buf);
        }
        let peer = self.peer(peer_idx).ok_or(Errno::EINVAL)?;
        peer.conn = Some(conn);
        while let Some(packet) = receives.pop() {
            self.put_rx_buf(packet);
        }
        match self.post_rx_bufs(peer_idx, count)? {
            0 => Ok(()),
            _ => Err(Errno::ENOMEM),
        }
    }

    /// Ends the operations and the incomplete messages of a closed connection. The caller frees the returned messages
    /// without the lock.
    pub(in super::super) fn closed(
        &mut self,
        sinks: &CompSinks,
        peer_idx: u32,
        conn_gen: usize,
    ) -> BoxList<UnexpMsg> {
        self.fail_begun(sinks, peer_idx, Errno::ECONNABORTED);
        self.drop_incomplete_rx(sinks, peer_idx, conn_gen)
    }
}

impl Held<'_> {
    /// Marks a connection as established. `to` is the connection id that the peer assigned; `agreed` are the flow
    /// control and the extensions, if they were not known before. No thread has the turn.
    pub(in super::super) fn establish(
        &mut self,
        peer_idx: u32,
        conn_gen: usize,
        to: u64,
        agreed: Option<(Flow, Extensions)>,
    ) {
        let conn = self.conn(peer_idx);
        if let Some(conn) = conn.filter(|conn| conn.conn_gen == conn_gen) {
            conn.remote_conn_id = Some(to);
            if let Some((flow, extensions)) = agreed {
                conn.credits.set_flow(flow);
                conn.extensions = extensions;
            }
            // Packets that had to wait for the extensions can be parsed now.
            let _ = self.with_turn(|held, _| held.retry_peer(peer_idx, true, RetryScope::All));
            let (state, sinks) = self.split();
            state.progress_peer(sinks, peer_idx);
            // A refused post can use the connection's reserved buffer.
            state.tx_pool.wake_waiters();
        }
    }

    /// Removes the connection of a peer. Complete messages that have arrived on it are kept. No thread has the turn.
    pub(in super::super) fn close(&mut self, peer_idx: u32) -> Option<Conn> {
        let _ = self.with_turn(|held, _| held.retry_peer(peer_idx, false, RetryScope::All));
        let mut conn = self.peer(peer_idx)?.take_conn()?;
        self.release_conn_rx(&conn);
        conn.ctrl_bufs.append(&mut conn.responses);
        while let Some(packet) = conn.ctrl_bufs.pop() {
            self.keep(packet);
        }
        Some(conn)
    }
}

impl EpState {
    /// Sends the peer a credit packet that returns no credits, unless another packet is in flight, which serves as
    /// well: if the peer is gone, the device reports the failure and ends the connection.
    pub(in super::super) fn probe(&mut self, peer_idx: u32) {
        let Self {
            peers, inflight, ..
        } = self;
        let peer = peers.get_mut(peer_idx as usize).and_then(Option::as_mut);
        let conn = peer.and_then(|peer| peer.conn.as_mut());
        if let Some(conn) = conn.filter(|conn| conn.is_open() && conn.ctrl_bufs.len() == CTRL_BUFS)
        {
            let _ = conn.send_ctrl_with_credit(inflight, &PktHdr::Credit(0));
        }
    }

    /// Returns whether operations wait for a connection to the peer.
    pub(in super::super) fn has_deferred_tx(&mut self, peer_idx: u32) -> bool {
        self.peer(peer_idx)
            .is_some_and(|peer| !peer.deferred.is_empty())
    }

    /// Posts a receive buffer again if its connection is open, otherwise puts it back.
    ///
    /// # Errors
    ///
    /// The errno of the lower receive: the connection is going to be closed.
    pub(in super::super) fn repost(&mut self, packet: ListBox<Packet>) -> Result {
        let (peer_idx, conn_gen) = (packet.peer_idx, packet.conn_gen);
        let Self {
            peers, inflight, ..
        } = self;
        let peer = peers.get_mut(peer_idx as usize).and_then(Option::as_mut);
        let conn = peer.and_then(|peer| peer.conn.as_mut());
        let Some(conn) = conn.filter(|conn| conn.conn_gen == conn_gen && conn.accepts_rx()) else {
            self.keep(packet);
            return Ok(());
        };
        match conn.receive(inflight, packet) {
            Ok(()) => {
                conn.credits.rx_reposted();
                Ok(())
            }
            Err(error) => {
                self.keep(error.node);
                self.schedule_disconnect(peer_idx, conn_gen);
                Err(error.errno)
            }
        }
    }
}
