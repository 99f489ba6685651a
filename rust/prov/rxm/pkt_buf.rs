// SPDX-License-Identifier: GPL-2.0

//! Packet buffers: registered memory for packets. Guarded by `EpCore::inner`, or by the lock of a shared transmit context
//! while free.

pub(super) mod post;

use super::{
    ep_state::RESERVES,
    inflight::Indexed,
    iov::{
        PostedSrc,
        Slot,
        SrcBuf, //
    },
    matcher::MsgKey,
    tx_op::{
        AtomicTx,
        RndvReply,
        RndvState,
        RndvTx,
        TxComp,
        TxOp, //
    },
    wire::{
        self,
        AckSlot,
        Extensions,
        PeerFormat,
        PktHdr,
        RxPkt,
        ATOMIC_MAX_OPERANDS,
        HEADER,
        MAX_PACKET,
        RANGES, //
    },
};
use crate::fi::{
    domain::Domain,
    memory::BufferPart,
    prelude::*, //
};
use core::ops::Range;

/// Size of a control buffer in bytes: at least that of the longest packet without payload.
pub(super) const CTRL_BUF_SIZE: usize = 256;

/// Acknowledgement of a message by the peer (FI_DELIVERY_COMPLETE).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TxAck {
    /// The message completes when it has been sent.
    None,
    /// The message completes when it is in its receive.
    Wanted,
    /// The message has been posted in this slot of its connection.
    Slot(AckSlot),
}

/// Use of a packet buffer.
#[allow(clippy::large_enum_variant)] // It is in a box with the packet, once and for all.
pub(super) enum BufState {
    /// Unused.
    Free,
    /// Holds a transmit operation.
    Tx(TxOp),
    /// Holds a segment of a message whose last segment uses the message's own buffer.
    Segment,
    /// Holds a control packet.
    Ctrl,
    /// Received a request and holds the response.
    Response,
    /// Posted as a receive, or holds a received packet.
    RxPosted,
}

/// Content of a received packet.
#[derive(Clone, Copy)]
pub(super) enum RxData {
    /// A packet of this number of bytes.
    Bytes(usize),
    /// No packet: a peer wrote this number of bytes to memory, with remote CQ data.
    RemoteWrite(usize, u64),
}

/// A packet buffer.
pub(super) struct Packet {
    number: u32,
    /// Generation of the buffer, which makes the ids of its operations unique.
    generation: u32,
    /// Index of the peer.
    pub(super) peer_idx: u32,
    /// Generation of the connection to the peer.
    pub(super) conn_gen: usize,
    /// Index of the ring that the buffer was posted to as a receive.
    pub(super) ring: u32,
    /// Use of the buffer.
    pub(super) state: BufState,
    /// Report of the transmit operation.
    comp: TxComp,
    /// Acknowledgement of the message.
    pub(super) ack: TxAck,
    /// Address of the peer, while the peer has no index.
    pub(super) dest: SocketAddr,
    /// Content, if the buffer has received.
    pub(super) rx_data: RxData,
    len: usize,
    memory: BufferPart,
}

impl Indexed for Packet {
    fn number(&self) -> u32 {
        self.number
    }
}

impl Packet {
    /// Allocates free buffers with the given numbers for the endpoints of `domain`, and passes each to `take`. Each has
    /// `size` bytes and a slot of `slot_size` bytes for vectors. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENODEV when the device is removed, -FI_ENOMEM.
    pub(super) fn alloc(
        here: ProcessContext,
        domain: &Arc<Domain>,
        mut numbers: Range<u32>,
        (size, slot_size): (usize, usize),
        mut take: impl FnMut(ListBox<Self>),
    ) -> Result {
        BufferPart::alloc_parts(here, domain, (size, slot_size), numbers.len(), |memory| {
            if let Some(number) = numbers.next() {
                take(ListBox::new(Self {
                    number,
                    generation: 0,
                    peer_idx: 0,
                    conn_gen: 0,
                    ring: 0,
                    state: BufState::Free,
                    comp: TxComp::NONE,
                    ack: TxAck::None,
                    dest: MsgKey::NONE.from,
                    rx_data: RxData::Bytes(0),
                    len: 0,
                    memory,
                })?);
            }
            Ok(())
        })
    }

    /// Returns whether the buffer is a control buffer, without space for a payload.
    pub(super) fn is_ctrl(&self) -> bool {
        self.memory.len() < MAX_PACKET
    }

    /// Returns whether a transmit buffer is a reserved one.
    #[inline(always)]
    pub(super) fn is_reserve(&self) -> bool {
        self.number < RESERVES as u32
    }

    /// Returns the message id of the operation.
    pub(super) fn id(&self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.number)
    }

    /// Returns the number of the buffer that has a message id.
    pub(super) fn number_of(id: u64) -> u32 {
        id as u32
    }

    /// Returns whether the operation is to that peer and has that message id.
    pub(super) fn has_id(&self, peer_idx: u32, id: u64) -> bool {
        self.peer_idx == peer_idx && self.id() == id
    }

    /// Starts a new operation in the buffer.
    #[inline(always)]
    pub(super) fn begin(&mut self, comp: TxComp) {
        self.generation = self.generation.wrapping_add(1);
        self.comp = comp;
        self.ack = TxAck::None;
    }

    /// Returns the transmit operation, mutable.
    #[inline(always)]
    pub(super) fn tx_op(&mut self) -> Option<&mut TxOp> {
        match &mut self.state {
            BufState::Tx(tx_op) => Some(tx_op),
            _ => None,
        }
    }

    /// Returns the transmit operation.
    #[inline(always)]
    pub(super) fn as_tx_op(&self) -> Option<&TxOp> {
        match &self.state {
            BufState::Tx(tx_op) => Some(tx_op),
            _ => None,
        }
    }

    /// Returns the report of the transmit operation.
    #[inline(always)]
    pub(super) fn tx_comp(&self) -> Option<&TxComp> {
        self.as_tx_op().map(|_| &self.comp)
    }

    /// Returns whether the buffer holds an operation of that transmit context.
    pub(super) fn is_from_ctx(&self, context: u8) -> bool {
        self.tx_comp().is_some_and(|comp| comp.tx_ctx == context)
    }

    /// Returns the receive context that the message is for.
    pub(super) fn context(&self) -> u8 {
        match self.as_tx_op() {
            Some(TxOp::Eager) => wire::RxPkt::rx_index(&self.memory),
            Some(TxOp::Sar(sar_tx)) => sar_tx.message.context,
            Some(TxOp::Rndv(rndv_tx)) => rndv_tx.message.context,
            _ => 0,
        }
    }

    /// Returns whether the memory of the operation has to be registered for the peer.
    #[inline(always)]
    pub(super) fn needs_registration(&self) -> bool {
        matches!(self.as_tx_op(), Some(TxOp::Rndv(rndv_tx)) if rndv_tx.needs_region())
    }

    /// Returns whether the operation accesses a tagged receive of the peer.
    #[inline(always)]
    pub(super) fn is_tagged_access(&self) -> bool {
        matches!(self.as_tx_op(), Some(TxOp::Rndv(rndv_tx)) if rndv_tx.access.is_some())
    }

    /// Returns whether the message has to be acknowledged, and has no slot yet.
    #[inline(always)]
    pub(super) fn wants_ack(&self) -> bool {
        self.ack == TxAck::Wanted
    }

    /// Returns the acknowledgement slot of the message.
    #[inline(always)]
    pub(super) fn ack_slot(&self) -> Option<AckSlot> {
        match self.ack {
            TxAck::Slot(slot) => Some(slot),
            TxAck::None | TxAck::Wanted => None,
        }
    }

    /// Sets or removes the acknowledgement slot of an eager or segmented message.
    pub(super) fn set_ack_slot(&mut self, slot: Option<AckSlot>) {
        self.ack = slot.map_or(TxAck::Wanted, TxAck::Slot);
        match &mut self.state {
            BufState::Tx(TxOp::Eager) => wire::set_ack_slot(slot, &mut self.memory),
            BufState::Tx(TxOp::Sar(sar_tx)) => sar_tx.message.ack = slot,
            _ => {}
        }
    }

    /// Makes a message whose delivery is awaited a rendezvous message, if the peer does not acknowledge it otherwise.
    #[cold]
    pub(super) fn adapt_to(&mut self, extensions: Extensions) {
        if extensions.have(Extensions::DELIVERY) || self.has_started() {
            return;
        }
        match &mut self.state {
            BufState::Tx(TxOp::Eager) => self.inline_to_rndv(),
            BufState::Tx(tx_op) => tx_op.make_rndv(),
            _ => {}
        }
    }

    /// Makes the eager message in the buffer a rendezvous message, unless it has no bytes. They move to the end of the
    /// buffer, behind the request.
    fn inline_to_rndv(&mut self) {
        let written = self.memory.get(..self.len).unwrap_or(&[]);
        let Ok(RxPkt {
            hdr: PktHdr::Eager(message),
            payload,
            ..
        }) = RxPkt::parse(written, PeerFormat::OWN)
        else {
            return;
        };
        let len = payload.len();
        let begin = self.memory.len().saturating_sub(len);
        if len == 0 || begin < HEADER + RANGES {
            return;
        }
        self.memory.copy_within(HEADER..HEADER + len, begin);
        // SAFETY: The bytes are not accessed before the operation has completed: the request is written before them.
        let (whole, _) = unsafe { self.memory.segment(usize::MAX) };
        // SAFETY: The operation completes before the buffer is used again, and after its region has been closed.
        let from = unsafe { SrcBuf::from_region(&whole.part(begin, len)) };
        self.state = BufState::Tx(TxOp::Rndv(RndvTx::new(message, from)));
    }

    /// Returns whether a segment has been posted, or the peer has replied to the rendezvous request.
    pub(super) fn has_started(&self) -> bool {
        self.as_tx_op().is_some_and(TxOp::has_started)
    }

    /// Returns whether the peer may give this reply to the operation.
    pub(super) fn accepts(&self, reply: &RndvReply) -> bool {
        matches!(self.as_tx_op(), Some(TxOp::Rndv(rndv_tx)) if rndv_tx.accepts(reply))
    }

    /// Returns the rendezvous send.
    #[inline(always)]
    pub(super) fn rndv_tx(&mut self) -> Option<&mut RndvTx> {
        match self.tx_op()? {
            TxOp::Rndv(rndv_tx) => Some(rndv_tx),
            _ => None,
        }
    }

    /// Returns whether the operation is atomic.
    pub(super) fn is_atomic(&self) -> bool {
        matches!(self.as_tx_op(), Some(TxOp::Atomic(_)))
    }

    /// Returns the atomic operation.
    pub(super) fn atomic_tx(&mut self) -> Option<&mut AtomicTx> {
        match self.tx_op()? {
            TxOp::Atomic(atomic_tx) => Some(atomic_tx),
            _ => None,
        }
    }

    /// Returns the received bytes.
    pub(super) fn rx_bytes(&self) -> &[u8] {
        match self.rx_data {
            RxData::Bytes(len) => self.memory.get(..len).unwrap_or(&[]),
            RxData::RemoteWrite(..) => &[],
        }
    }

    /// Returns the payload of a message.
    pub(super) fn payload(&mut self) -> &mut [u8] {
        self.memory.get_mut(HEADER..).unwrap_or(&mut [])
    }

    /// Returns the operands of an atomic request.
    pub(super) fn operands(&mut self) -> &mut [u8] {
        self.memory
            .get_mut(MAX_PACKET - ATOMIC_MAX_OPERANDS..)
            .unwrap_or(&mut [])
    }

    /// Returns the slot for the vectors of an operation that begins in the buffer.
    pub(super) fn slot(&mut self) -> Slot<'_> {
        // SAFETY: The vectors are stored in `state`, whose operation ends before another one begins.
        unsafe { Slot::new(self.memory.extra()) }
    }

    /// Returns the whole memory.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory
    }

    /// Makes the buffer a segment of the message at `from`; `to` is the peer's connection id.
    pub(super) fn fill_segment(&mut self, to: u64, from: &SrcBuf, segment: &wire::Segment) {
        self.state = BufState::Segment;
        let len = copy_segment(&mut self.memory, from, segment);
        self.write_any(to, &PktHdr::Segment(*segment), len);
    }

    /// Writes the packet header; `to` is the peer's connection id, or 0 if it is not known yet.
    #[inline(always)]
    pub(super) fn write(&mut self, to: u64, hdr: &PktHdr, payload: usize) {
        let begin = hdr.write(to, payload, &mut self.memory);
        self.len = begin.map_or(0, |begin| begin + payload);
    }

    /// Writes the packet header, out of line, for paths that are not hot.
    #[inline(never)]
    pub(super) fn write_any(&mut self, to: u64, hdr: &PktHdr, payload: usize) {
        self.write(to, hdr, payload);
    }

    /// Makes the message an eager one, with its packet complete for a peer whose connection id is `to`.
    #[inline(always)]
    pub(super) fn write_eager(&mut self, to: u64, message: &wire::Message, from: &PostedSrc<'_>) {
        from.copy_to_slice(0, self.payload());
        self.write(to, &PktHdr::Eager(*message), from.len());
        self.state = BufState::Tx(TxOp::Eager);
    }

    /// Completes the next packet of the operation for a peer whose connection id is `to`.
    #[inline(always)]
    pub(super) fn prepare(&mut self, to: u64) {
        match &self.state {
            BufState::Tx(TxOp::Sar(_) | TxOp::Rndv(_)) => self.write_next(to),
            _ => wire::set_conn_id(to, &mut self.memory),
        }
    }

    #[inline(never)]
    fn write_next(&mut self, to: u64) {
        let id = self.id();
        let (hdr, payload) = match &self.state {
            BufState::Tx(TxOp::Sar(sar_tx)) => {
                let segment = sar_tx.segment(id);
                let len = copy_segment(&mut self.memory, &sar_tx.from, &segment);
                (PktHdr::Segment(segment), len)
            }
            BufState::Tx(TxOp::Rndv(rndv_tx)) => match (&rndv_tx.state, rndv_tx.ranges()) {
                (RndvState::WriteDone, _) => (PktHdr::RndvWrDone { id }, 0),
                (_, Some(ranges)) => {
                    let message = rndv_tx.message;
                    let hdr = match rndv_tx.access {
                        None => PktHdr::RndvReq {
                            id,
                            message,
                            ranges,
                        },
                        Some(way) => PktHdr::TaggedAccess {
                            id,
                            way,
                            message,
                            ranges,
                        },
                    };
                    (hdr, 0)
                }
                (_, None) => return,
            },
            _ => return,
        };
        self.write_any(to, &hdr, payload);
    }
}

/// Copies a segment into the payload. Returns its length in bytes.
fn copy_segment(packet: &mut [u8], from: &SrcBuf, segment: &wire::Segment) -> usize {
    let payload = packet.get_mut(HEADER..);
    let payload = payload.and_then(|payload| payload.get_mut(..segment.len()));
    payload.map_or(0, |payload| {
        from.copy_to_slice(segment.offset() as usize, payload)
    })
}
