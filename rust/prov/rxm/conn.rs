// SPDX-License-Identifier: GPL-2.0

//! Peers and their connections. Guarded by `EpCore::inner`.

pub(super) mod acks;
pub(super) mod credits;
pub(super) mod deferred;
pub(super) mod iwarp_order;
pub(super) mod lifecycle;
pub(super) mod post;
mod short;
pub(super) mod stalled;
pub(super) mod tx_bufs;

use self::{
    acks::Acks,
    credits::Credits,
    iwarp_order::IwarpOrder, //
};
use super::{
    cm::shutdown::{
        EvictGrace,
        IdleRounds,
        ShutdownState, //
    },
    deferred_rx::KeySlot,
    inflight::{
        Inflight,
        PostError, //
    },
    lower::LowerEp,
    pkt_buf::{
        BufState,
        Packet, //
    },
    rx_entry::Receive,
    rx_pool::SOON,
    sar::{
        reassembly::SarMsg,
        SarTable, //
    },
    tx_pool::TxShare,
    unexpected::UnexpBytes,
    wire::{
        Extensions,
        PeerFormat,
        PktHdr, //
    },
};
use crate::fi::{
    prelude::*,
    srx::SharedReceive, //
};
use kernel::time::{
    Instant,
    Monotonic, //
};

/// Largest number of receive buffers of a connection.
pub(super) const MAX_RX_BUFS: usize = 64;

/// Number of receive buffers of a new connection.
pub(super) const INITIAL_RX: usize = MAX_RX_BUFS / 4;

/// Number of control packets to a peer that can be in flight.
pub(super) const CTRL_BUFS: usize = 8;

/// Number of segments to a peer that can be in flight, besides the last one of each message.
pub(super) const MAX_SEGS: usize = 8;

/// Number of RDMA reads of rendezvous messages that can be in flight to a peer.
pub(super) const MAX_READS: usize = 8;

/// Number of atomic requests and accesses to tagged receives of a peer that can be in flight. Each may take a receive
/// buffer of the peer until it has responded; the other buffers are left for other packets.
pub(super) const MAX_REQUESTS: usize = INITIAL_RX / 2;

/// Number of incomplete segmented messages that a peer can have at once.
pub(super) const MAX_SAR_RX: usize = 128;

/// A connection to a peer, established or being established.
pub(super) struct Conn {
    /// Endpoint of the lower provider.
    pub(super) lower: LowerEp,
    /// Generation of the connection.
    pub(super) conn_gen: usize,
    /// Connection id that the peer assigned; `None` until the connection is established.
    pub(super) remote_conn_id: Option<u64>,
    /// Protocol extensions that the peer supports.
    pub(super) extensions: Extensions,
    /// Index of the ring that the connection completes in.
    pub(super) ring: u32,
    /// Shared receive queue of the connection, if it has no receives of its own.
    pub(super) shared: Option<Arc<SharedReceive>>,
    /// Number of receive buffers that are posted for the connection.
    pub(super) posted: i64,
    /// Number of shared receive buffers that the connection has beyond its initial ones, including those that are
    /// being allocated.
    pub(super) extra_rx: usize,
    /// Number of receive buffers that have to be allocated for the connection.
    pub(super) rx_deficit: usize,
    /// Flow-control credits of both sides.
    pub(super) credits: Credits,
    /// Acknowledgements of delivered messages, of both sides.
    pub(super) acks: Acks,
    /// Time of the last grant to the peer, while the connection may get more receive buffers.
    last_grant: Option<Instant<Monotonic>>,
    /// Free control buffers of the connection.
    pub(super) ctrl_bufs: BoxList<Packet>,
    /// Number of further segmented messages that may be in reassembly, of [`MAX_SAR_RX`].
    pub(super) sar_left: usize,
    /// Number of further segments that may be in flight.
    pub(super) segments: usize,
    /// Number of further reads that may be in flight.
    pub(super) reads_left: usize,
    /// Order of reads and sends on iWARP.
    pub(super) iwarp_order: IwarpOrder,
    /// Number of further requests that may be in flight, of [`MAX_REQUESTS`].
    pub(super) requests_left: usize,
    /// Responses that have to be sent, in the buffers of their requests.
    pub(super) responses: BoxList<Packet>,
    /// True while one operation holds the connection: the rest of a segmented message has no other buffer, or a local
    /// message is being delivered.
    pub(super) tx_exclusive: bool,
    /// Number of the packet with the last atomic response to a peer that violated its access rights. The connection
    /// ends when the response has been sent. Atomic requests that arrive on it are dropped; messages are delivered.
    pub(super) last_response: Option<u32>,
    /// State of the shutdown handshake.
    pub(super) shutdown: ShutdownState,
    /// Value of `EpState::use_clock` at the last use.
    pub(super) last_used: u64,
    /// Number of idle-timeout checks without a use.
    pub(super) idle: IdleRounds,
    /// Number of eviction checks without a use.
    pub(super) quiet: IdleRounds,
    /// Grace period before an eviction without the handshake.
    pub(super) grace: EvictGrace,
    /// True if the connection is going to be closed: nothing is posted any more. Packets that have arrived are
    /// dispatched.
    pub(super) is_closing: bool,
}

impl Conn {
    /// Creates a connection.
    pub(super) fn new(
        lower: LowerEp,
        conn_gen: usize,
        shared: Option<Arc<SharedReceive>>,
        credits: Credits,
        iwarp_order: IwarpOrder,
        shutdown: ShutdownState,
    ) -> Self {
        Self {
            lower,
            conn_gen,
            remote_conn_id: None,
            extensions: Extensions::NONE,
            ring: 0,
            shared,
            posted: 0,
            extra_rx: 0,
            rx_deficit: 0,
            credits,
            acks: Acks::new(),
            last_grant: None,
            ctrl_bufs: BoxList::new(),
            sar_left: MAX_SAR_RX,
            segments: MAX_SEGS,
            reads_left: MAX_READS,
            iwarp_order,
            requests_left: MAX_REQUESTS,
            responses: BoxList::new(),
            tx_exclusive: false,
            last_response: None,
            shutdown,
            last_used: 0,
            idle: IdleRounds::new(),
            quiet: IdleRounds::new(),
            grace: EvictGrace::new(),
            is_closing: false,
        }
    }

    /// Returns whether packets can be sent.
    pub(super) fn is_open(&self) -> bool {
        self.remote_conn_id.is_some() && !self.is_closing
    }

    /// Checks that the peer has the receive context `context`.
    ///
    /// # Errors
    ///
    /// -FI_EOPNOTSUPP if the peer does not support contexts, -FI_EINVAL if it has fewer.
    pub(super) fn check_context(&self, context: u8) -> Result {
        match (context, self.extensions.contexts()) {
            (0, _) => Ok(()),
            (_, None) => Err(Errno::EOPNOTSUPP),
            (context, Some(contexts)) if usize::from(context) < contexts => Ok(()),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Posts a packet buffer as a receive.
    ///
    /// # Errors
    ///
    /// Errors of the lower receive, with the packet buffer.
    #[inline(always)]
    pub(super) fn receive(
        &mut self,
        inflight: &mut Inflight<Packet>,
        mut packet: ListBox<Packet>,
    ) -> core::result::Result<(), PostError<Packet>> {
        packet.conn_gen = self.conn_gen;
        packet.peer_idx = peer_idx_of_gen(self.conn_gen);
        packet.ring = self.ring;
        let (lower, shared) = (&self.lower, &self.shared);
        Packet::receive(packet, inflight, |message| match shared {
            None => lower.receive(message),
            Some(shared) => shared.core().receive(message),
        })?;
        self.posted += 1;
        Ok(())
    }

    /// Returns whether receives are posted again, and messages of the same host are taken.
    #[inline(always)]
    pub(super) fn accepts_rx(&self) -> bool {
        !self.is_closing && self.last_response.is_none()
    }

    /// Returns whether the connection should get more receive buffers, because the peer uses its credits quickly.
    #[inline(always)]
    pub(super) fn wants_more_rx(&self) -> bool {
        self.may_grow_rx() && self.credits.grant_due() && self.used_credits_quickly()
    }

    /// Returns whether the connection may get more receive buffers.
    #[inline(always)]
    fn may_grow_rx(&self) -> bool {
        self.credits.receives() < MAX_RX_BUFS as u32
    }

    /// Forgets the time of the last grant, so that the connection gets no more receive buffers before the next one.
    pub(super) fn forget_last_grant(&mut self) {
        self.last_grant = None;
    }

    #[inline(never)]
    fn used_credits_quickly(&self) -> bool {
        let is_soon = |last_grant: Instant<Monotonic>| (last_grant.elapsed() - SOON).is_negative();
        self.rx_deficit == 0 && self.last_grant.is_some_and(is_soon)
    }

    /// Takes a credit for a packet, if one may be posted now.
    #[inline(always)]
    pub(super) fn take_send_credit(&mut self) -> bool {
        if !self.credits.take_credit() {
            return false;
        }
        let may_send = self.iwarp_order.request_send();
        if !may_send {
            self.credits.return_credit();
        }
        may_send
    }

    /// Returns whether work other than operations and reads is pending.
    #[inline(always)]
    fn has_pending(&self) -> bool {
        self.is_closing
            || self.credits.grant_due()
            || self.iwarp_order.has_send_waiter()
            || !self.responses.is_empty()
            || self.acks.delivered() != 0
    }

    /// Records why a post failed. Anything but -FI_EAGAIN closes the connection.
    pub(super) fn note_post_error(&mut self, errno: Errno) {
        self.is_closing |= errno != Errno::EAGAIN;
    }

    /// Sends a control packet if that is possible now. The caller has taken the credit.
    fn send_ctrl(&mut self, inflight: &mut Inflight<Packet>, hdr: &PktHdr) -> bool {
        let (Some(to), false) = (self.remote_conn_id, self.is_closing) else {
            return false;
        };
        if !self.iwarp_order.request_send() {
            return false;
        }
        let Some(mut ctrl_buf) = self.ctrl_bufs.pop() else {
            return false;
        };
        ctrl_buf.state = BufState::Ctrl;
        ctrl_buf.write_any(to, hdr, 0);
        match Packet::send(ctrl_buf, inflight, &self.lower) {
            Ok(()) => true,
            Err(error) => {
                self.note_post_error(error.errno);
                self.ctrl_bufs.push(error.node);
                false
            }
        }
    }

    /// Sends a control packet that takes a credit. Returns false if it was not sent.
    pub(super) fn send_ctrl_with_credit(
        &mut self,
        inflight: &mut Inflight<Packet>,
        hdr: &PktHdr,
    ) -> bool {
        if self.remote_conn_id.is_none() || !self.credits.take_credit() {
            return false;
        }
        let is_sent = self.send_ctrl(inflight, hdr);
        if !is_sent {
            self.credits.return_credit();
        }
        is_sent
    }

    /// Sends a credit packet if one is due.
    pub(super) fn send_grant(&mut self, inflight: &mut Inflight<Packet>) {
        if self.remote_conn_id.is_none() || self.ctrl_bufs.is_empty() {
            return;
        }
        if let Some(count) = self.credits.take_grant() {
            if !self.send_ctrl(inflight, &PktHdr::Credit(count)) {
                self.credits.undo_grant(count);
            } else if self.may_grow_rx() {
                self.last_grant = Some(Instant::now());
            }
        }
    }

    /// Sends the pending atomic responses, as far as credits permit.
    pub(super) fn send_responses(&mut self, inflight: &mut Inflight<Packet>) {
        let Some(to) = self.remote_conn_id else {
            return;
        };
        while !self.is_closing && !self.responses.is_empty() && self.take_send_credit() {
            let Some(mut answer) = self.responses.pop() else {
                return;
            };
            answer.prepare(to);
            if let Err(error) = Packet::send(answer, inflight, &self.lower) {
                self.note_post_error(error.errno);
                self.credits.return_credit();
                self.responses.push_front(error.node);
                return;
            }
        }
    }
}

/// A peer that has, had or gets a connection.
pub(super) struct Peer {
    /// Address that the peer listens on.
    pub(super) addr: SocketAddr,
    pub(super) conn: Option<Conn>,
    /// Generation of the last connection that has ended, and whether its messages name a receive context.
    last_ended: (usize, bool),
    /// Deferred transmit operations, in order.
    pub(super) deferred: BoxList<Packet>,
    /// True while the memory of the first deferred operation is being registered; the others wait for it.
    pub(super) is_registering: bool,
    /// Operations that the peer has received and not answered.
    pub(super) awaiting_reply: BoxList<Packet>,
    /// Receives of rendezvous messages that have to be read, or whose sender has to be notified.
    pub(super) rndv_reads: BoxList<Receive>,
    /// Reassembly table of the peer's segmented messages.
    pub(super) sar_rx: SarTable<SarMsg>,
    /// Number of operations in progress.
    pub(super) tx_count: usize,
    /// Number of checks of deferred operations in a row without a completion.
    pub(super) stalled_checks: u32,
    /// Transmit buffers of the pool that the operations and their segments hold.
    pub(super) tx_share: TxShare,
    /// True while an operation holds a reserved transmit buffer.
    pub(super) holds_reserve: bool,
    /// Received packets that are deferred until they can be processed, in order of arrival.
    pub(super) deferred_rx: BoxList<Packet>,
    /// Key of the first deferred packet.
    pub(super) deferred_key: KeySlot,
    /// Node for the list of peers with deferred packets; `None` while the peer is in it.
    pub(super) deferred_node: Option<ListBox<u32>>,
    /// Memory of the peer's unexpected messages, in bytes.
    pub(super) unexp_bytes: usize,
    /// Memory of the unexpected messages of all peers at the source address, in bytes.
    pub(super) source_unexp: Arc<UnexpBytes>,
    /// Number of unexpected messages that are rendezvous requests or segmented.
    pub(super) unexp_parts: usize,
    /// Node for the connection manager's queue; `None` while the peer is queued.
    pub(super) cm_node: Option<ListBox<u32>>,
}

impl Peer {
    /// Creates a peer without a connection.
    pub(super) fn new(
        addr: SocketAddr,
        peer_idx: u32,
        source_unexp: Arc<UnexpBytes>,
    ) -> Result<KBox<Self>> {
        let cm_node = Some(ListBox::new(peer_idx)?);
        let deferred_node = Some(ListBox::new(peer_idx)?);
        Ok(KBox::new(
            Self {
                addr,
                conn: None,
                last_ended: (0, false),
                deferred: BoxList::new(),
                is_registering: false,
                awaiting_reply: BoxList::new(),
                rndv_reads: BoxList::new(),
                sar_rx: SarTable::new(2 * MAX_SAR_RX),
                tx_count: 0,
                stalled_checks: 0,
                tx_share: TxShare::new(),
                holds_reserve: false,
                deferred_rx: BoxList::new(),
                deferred_key: KeySlot::NONE,
                deferred_node,
                unexp_bytes: 0,
                source_unexp,
                unexp_parts: 0,
                cm_node,
            },
            GFP_KERNEL,
        )?)
    }

    /// Takes the connection, which ends.
    pub(super) fn take_conn(&mut self) -> Option<Conn> {
        let conn = self.conn.take()?;
        self.last_ended = (conn.conn_gen, conn.extensions.contexts().is_some());
        Some(conn)
    }

    /// Returns the format of packets that arrived on the connection of generation `conn_gen`, which has ended; the
    /// endpoint has `rx_ctxs` receive contexts. Nothing can be acknowledged.
    #[cold]
    pub(super) fn ended_format(&self, conn_gen: usize, rx_ctxs: usize) -> PeerFormat {
        PeerFormat {
            contexts: (self.last_ended == (conn_gen, true)).then_some(rx_ctxs),
            ..PeerFormat::PLAIN
        }
    }

    /// Returns whether work is pending for the peer.
    #[inline(always)]
    pub(super) fn has_pending(&self) -> bool {
        !self.deferred.is_empty()
            || !self.rndv_reads.is_empty()
            || self.conn.as_ref().is_some_and(Conn::has_pending)
    }

    /// Returns the number of receive buffers that have to be allocated for the connection.
    pub(super) fn rx_deficit(&self) -> usize {
        self.conn.as_ref().map_or(0, |conn| conn.rx_deficit)
    }

    /// Returns whether the first deferred operation needs a memory registration.
    pub(super) fn needs_registration(&self) -> bool {
        self.deferred
            .front()
            .is_some_and(|next| next.needs_registration())
    }

    /// Schedules the close of the connection, if there is one.
    pub(super) fn schedule_disconnect(&mut self, cm_queue: &mut BoxList<u32>) {
        if let Some(conn) = &mut self.conn {
            conn.is_closing = true;
            if let Some(cm_node) = self.cm_node.take() {
                cm_queue.push(cm_node);
            }
        }
    }

    /// Returns whether atomic requests that arrive on the peer's connection are dropped.
    pub(super) fn is_refused(&self) -> bool {
        let conn = self.conn.as_ref();
        conn.is_some_and(|conn| conn.last_response.is_some())
    }

    /// Returns whether the current connection is of generation `conn_gen`.
    pub(super) fn has(&self, conn_gen: usize) -> bool {
        let conn = self.conn.as_ref();
        conn.is_some_and(|conn| conn.conn_gen == conn_gen)
    }
}

/// Returns the index of the accepting end of a connection of the endpoint to itself.
pub(super) const fn loopback_idx(peer_idx: u32) -> u32 {
    peer_idx | 1
}

/// Returns whether an index is one of [`loopback_idx`].
pub(super) const fn is_loopback_idx(peer_idx: u32) -> bool {
    peer_idx & 1 != 0
}

/// Returns the peer index for an index of the lower address vector.
pub(super) fn peer_idx_of(index: u64) -> Option<u32> {
    u32::try_from(index).ok()?.checked_mul(2)
}

/// Returns the generation of the `count`th connection, to this peer.
pub(super) const fn conn_gen_of(count: u32, peer_idx: u32) -> usize {
    (count as usize) << 32 | peer_idx as usize
}

/// Returns the index of the peer that a generation belongs to.
pub(super) const fn peer_idx_of_gen(conn_gen: usize) -> u32 {
    conn_gen as u32
}
