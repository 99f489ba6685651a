// SPDX-License-Identifier: GPL-2.0

//! Peers, and the connections with them.

pub(super) mod credits;
pub(super) mod deferred;
pub(super) mod iwarp_order;
pub(super) mod lifecycle;
pub(super) mod post;

use self::{
    credits::Credits,
    iwarp_order::IwarpOrder, //
};
use super::{
    cm::shutdown::{
        IdleRounds,
        ShutdownState, //
    },
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
        reassembly::{
            SarMsg,
            SarRxMsg, //
        },
        SarTable, //
    },
    wire::{
        Extensions,
        PktHdr, //
    },
};
use crate::{
    fi::{
        prelude::*,
        srx::SharedReceive, //
    },
    util::owned_list::{
        BoxList,
        ListBox, //
    },
};
use kernel::time::{
    Instant,
    Monotonic, //
};

/// Receives that each connection has, at most.
pub(super) const MAX_RX_BUFS: usize = 64;

/// And from the beginning.
pub(super) const INITIAL_RX: usize = MAX_RX_BUFS / 4;

/// Words of ours that may be on their way to a peer.
pub(super) const CTRL_BUFS: usize = 8;

/// Segments of ours that may be on their way to a peer, beside the last ones of messages.
pub(super) const MAX_SEGS: usize = 8;

/// Messages of a peer's that are being read.
pub(super) const MAX_READS: usize = 8;

/// Operations that a peer has been asked for and has not answered. Each takes a receive of the peer's
/// until the answer has gone: the others are for what else is said.
pub(super) const MAX_ATOMICS: usize = INITIAL_RX / 2;

/// Messages of a peer's of which some segments are there, and others to come.
pub(super) const MAX_SAR_RX: usize = 128;

/// A connection with a peer, or what is to become one.
pub(super) struct Conn {
    /// The endpoint below.
    pub(super) lower: LowerEp,
    /// Which attempt it is.
    pub(super) conn_gen: usize,
    /// What the peer calls it; known when it is there.
    pub(super) remote_conn_id: Option<u64>,
    /// What the peer understands beyond the protocol.
    pub(super) extensions: Extensions,
    /// Where its packets are posted, if it shares them with others.
    pub(super) shared: Option<Arc<SharedReceive>>,
    /// How many of its packets are posted.
    pub(super) posted: i64,
    /// How many it has beyond its first ones, or is to have, of those that are shared.
    pub(super) extra_rx: usize,
    /// How many more are to be made for it.
    pub(super) rx_deficit: usize,
    /// What each side has room for.
    pub(super) credits: Credits,
    /// When the peer was last told of some, while it may have more.
    last_grant: Option<Instant<Monotonic>>,
    /// Packets for words to the peer that are not on their way.
    pub(super) ctrl_bufs: BoxList<Packet>,
    /// What messages in segments are kept with that are not there.
    pub(super) free_sar: BoxList<SarRxMsg>,
    /// How many more segments may be on their way.
    pub(super) segments: usize,
    /// How many more messages may be read.
    pub(super) reads_left: usize,
    /// Whether one may be now, or something else be posted.
    pub(super) iwarp_order: IwarpOrder,
    /// How many more operations the peer may be asked for.
    pub(super) atomics: usize,
    /// What has come of operations that the peer has asked for, and is to be sent.
    pub(super) atomic_resps: BoxList<Packet>,
    /// Part of a message is on its way whose rest has no other packet, or one is being handed over.
    pub(super) tx_exclusive: bool,
    /// Number of the packet with the last answer to a peer that violated its access rights. The connection ends
    /// when the answer has been sent, and packets that arrive on it are dropped.
    pub(super) last_atomic_resp: Option<u32>,
    /// Whether it is to end, as it is not needed.
    pub(super) shutdown: ShutdownState,
    /// When something was last done by it, on the endpoint's own clock.
    pub(super) last_used: u64,
    /// For how long nobody has used it, in rounds of those who look for what is idle.
    pub(super) idle: IdleRounds,
    /// The same of those who wait for room.
    pub(super) quiet: IdleRounds,
    /// Nothing goes or comes any more.
    pub(super) is_closing: bool,
}

impl Conn {
    /// A new one.
    pub(super) fn new(
        lower: LowerEp,
        conn_gen: usize,
        shared: Option<Arc<SharedReceive>>,
        credits: Credits,
        iwarp_order: IwarpOrder,
        shutdown: ShutdownState,
        free_sar: BoxList<SarRxMsg>,
    ) -> Self {
        Self {
            lower,
            conn_gen,
            remote_conn_id: None,
            extensions: Extensions::NONE,
            shared,
            posted: 0,
            extra_rx: 0,
            rx_deficit: 0,
            credits,
            last_grant: None,
            ctrl_bufs: BoxList::new(),
            free_sar,
            segments: MAX_SEGS,
            reads_left: MAX_READS,
            iwarp_order,
            atomics: MAX_ATOMICS,
            atomic_resps: BoxList::new(),
            tx_exclusive: false,
            last_atomic_resp: None,
            shutdown,
            last_used: 0,
            idle: IdleRounds::new(),
            quiet: IdleRounds::new(),
            is_closing: false,
        }
    }

    /// Whether something can be sent by it.
    pub(super) fn is_open(&self) -> bool {
        self.remote_conn_id.is_some() && !self.is_closing
    }

    /// Whether the peer has the receive context that a message is for.
    ///
    /// # Errors
    ///
    /// -FI_EOPNOTSUPP if it knows of none, -FI_EINVAL if it has not as many.
    pub(super) fn check_context(&self, context: u8) -> Result {
        match (context, self.extensions.contexts()) {
            (0, _) => Ok(()),
            (_, None) => Err(Errno::EOPNOTSUPP),
            (context, Some(contexts)) if usize::from(context) < contexts => Ok(()),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Receives into a packet.
    ///
    /// # Errors
    ///
    /// With the packet: those of a receive.
    #[inline(always)]
    pub(super) fn receive(
        &mut self,
        inflight: &mut Inflight<Packet>,
        mut packet: ListBox<Packet>,
    ) -> core::result::Result<(), PostError<Packet>> {
        packet.conn_gen = self.conn_gen;
        packet.peer_idx = peer_idx_of_gen(self.conn_gen);
        let (lower, shared) = (&self.lower, &self.shared);
        Packet::receive(packet, inflight, |message| match shared {
            None => lower.receive(message),
            Some(shared) => shared.core().receive(message),
        })?;
        self.posted += 1;
        Ok(())
    }

    /// Returns whether packets from the peer are processed.
    #[inline(always)]
    pub(super) fn accepts_rx(&self) -> bool {
        !self.is_closing && self.last_atomic_resp.is_none()
    }

    /// Whether its peer is to be told of more receives than before: it has soon used up what it was told of.
    #[inline(always)]
    pub(super) fn wants_more_rx(&self) -> bool {
        self.credits.receives() < MAX_RX_BUFS as u32
            && self.credits.grant_due()
            && self.used_credits_quickly()
    }

    #[inline(never)]
    fn used_credits_quickly(&self) -> bool {
        let is_soon = |last_grant: Instant<Monotonic>| (last_grant.elapsed() - SOON).is_negative();
        self.rx_deficit == 0 && self.last_grant.is_some_and(is_soon)
    }

    /// Whether a packet may be sent now; then it is counted.
    #[inline(always)]
    pub(super) fn may_send(&mut self) -> bool {
        if !self.credits.take_credit() {
            return false;
        }
        let may_send = self.iwarp_order.may_send();
        if !may_send {
            self.credits.return_credit();
        }
        may_send
    }

    /// Whether there is something to be done for it, operations and fetches aside.
    #[inline(always)]
    fn has_pending(&self) -> bool {
        self.is_closing
            || self.credits.grant_due()
            || self.iwarp_order.has_send_waiter()
            || !self.atomic_resps.is_empty()
    }

    /// Notes why something has not been posted.
    pub(super) fn note_post_error(&mut self, errno: Errno) {
        self.is_closing |= errno != Errno::EAGAIN;
    }

    /// Tells the peer something, if that is possible now. The credit that it takes is the caller's.
    fn send_ctrl(&mut self, inflight: &mut Inflight<Packet>, hdr: &PktHdr) -> bool {
        let (Some(to), false) = (self.remote_conn_id, self.is_closing) else {
            return false;
        };
        if !self.iwarp_order.may_send() {
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

    /// The same of something that takes a credit as any packet does.
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

    /// Tells the peer of receives, if that is due.
    pub(super) fn send_grant(&mut self, inflight: &mut Inflight<Packet>) {
        if self.remote_conn_id.is_none() || self.ctrl_bufs.is_empty() {
            return;
        }
        if let Some(count) = self.credits.take_grant() {
            if !self.send_ctrl(inflight, &PktHdr::Credit(count)) {
                self.credits.undo_grant(count);
            } else if self.credits.receives() < MAX_RX_BUFS as u32 {
                self.last_grant = Some(Instant::now());
            }
        }
    }

    /// Sends what has come of the peer's operations, as far as there is room.
    pub(super) fn send_atomic_resps(&mut self, inflight: &mut Inflight<Packet>) {
        let Some(to) = self.remote_conn_id else {
            return;
        };
        while !self.is_closing && !self.atomic_resps.is_empty() && self.may_send() {
            let Some(mut answer) = self.atomic_resps.pop() else {
                return;
            };
            answer.prepare(to);
            if let Err(error) = Packet::send(answer, inflight, &self.lower) {
                self.note_post_error(error.errno);
                self.credits.return_credit();
                self.atomic_resps.push_front(error.node);
                return;
            }
        }
    }
}

/// Somebody whom there is, was, or is to be a connection with.
pub(super) struct Peer {
    /// Where it listens.
    pub(super) addr: SocketAddr,
    pub(super) conn: Option<Conn>,
    /// What is to be sent, in order.
    pub(super) deferred: BoxList<Packet>,
    /// The first of that has its memory opened just now, and the others wait behind it.
    pub(super) is_registering: bool,
    /// Operations that it knows of, and has not answered.
    pub(super) awaiting_reply: BoxList<Packet>,
    /// Receives of messages that are to be read, or of which it is to be told that they have been.
    pub(super) rndv_reads: BoxList<Receive>,
    /// Messages of which there are segments.
    pub(super) sar_rx: SarTable<SarMsg>,
    /// How many packets it has, those that wait included.
    pub(super) tx_count: usize,
    /// How many packets of its have not been looked at.
    pub(super) deferred_rx: usize,
    /// How much memory its messages have that wait for receives, in bytes.
    pub(super) unexp_bytes: usize,
    /// What calls for somebody to look after it, unless that has been done.
    pub(super) cm_node: Option<ListBox<u32>>,
}

impl Peer {
    /// One that nothing is known of but where it is; `peer_idx` is its number.
    pub(super) fn new(addr: SocketAddr, peer_idx: u32) -> Result<KBox<Self>> {
        let cm_node = Some(ListBox::new(peer_idx)?);
        Ok(KBox::new(
            Self {
                addr,
                conn: None,
                deferred: BoxList::new(),
                is_registering: false,
                awaiting_reply: BoxList::new(),
                rndv_reads: BoxList::new(),
                sar_rx: SarTable::new(2 * MAX_SAR_RX),
                tx_count: 0,
                deferred_rx: 0,
                unexp_bytes: 0,
                cm_node,
            },
            GFP_KERNEL,
        )?)
    }

    /// Whether there is something to be done for it, as far as that is possible.
    #[inline(always)]
    pub(super) fn has_pending(&self) -> bool {
        !self.deferred.is_empty()
            || !self.rndv_reads.is_empty()
            || self.conn.as_ref().is_some_and(Conn::has_pending)
    }

    /// How many packets are to be made for its connection.
    pub(super) fn rx_deficit(&self) -> usize {
        self.conn.as_ref().map_or(0, |conn| conn.rx_deficit)
    }

    /// Whether the next operation with it needs memory that is to be opened to it.
    pub(super) fn needs_registration(&self) -> bool {
        self.deferred
            .front()
            .is_some_and(|next| next.needs_registration())
    }

    /// Its connection is to be closed, if there is one.
    pub(super) fn schedule_disconnect(&mut self, cm_queue: &mut BoxList<u32>) {
        if let Some(conn) = &mut self.conn {
            conn.is_closing = true;
            if let Some(cm_node) = self.cm_node.take() {
                cm_queue.push(cm_node);
            }
        }
    }

    /// Returns whether packets that arrive on the peer's connection are dropped.
    pub(super) fn is_refused(&self) -> bool {
        let conn = self.conn.as_ref();
        conn.is_some_and(|conn| conn.last_atomic_resp.is_some())
    }

    /// Whether that attempt has become its connection, or is to.
    pub(super) fn has(&self, conn_gen: usize) -> bool {
        let conn = self.conn.as_ref();
        conn.is_some_and(|conn| conn.conn_gen == conn_gen)
    }
}

/// The number of the end that accepts a connection of ourselves with ourselves.
pub(super) const fn loopback_idx(peer_idx: u32) -> u32 {
    peer_idx | 1
}

/// Whether it is such a number.
pub(super) const fn is_loopback_idx(peer_idx: u32) -> bool {
    peer_idx & 1 != 0
}

/// The number of the peer that is the `index`th to have one.
pub(super) fn peer_idx_of(index: u64) -> Option<u32> {
    u32::try_from(index).ok()?.checked_mul(2)
}

/// The number of an attempt at a connection: the `count`th one, with that peer.
pub(super) const fn conn_gen_of(count: u32, peer_idx: u32) -> usize {
    (count as usize) << 32 | peer_idx as usize
}

/// The peer whose it is.
pub(super) const fn peer_idx_of_gen(conn_gen: usize) -> u32 {
    conn_gen as u32
}
