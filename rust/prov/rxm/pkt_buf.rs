// SPDX-License-Identifier: GPL-2.0

//! Packets: memory of their own, registered once, and how they are given to a lower endpoint.

use super::{
    inflight::{
        Indexed,
        Inflight,
        PostError, //
    },
    iov::SrcBuf,
    lower::LowerEp,
    matcher::MsgKey,
    tx_op::{
        AtomicTx,
        LocalBuf,
        RmaTx,
        RndvState,
        RndvTx,
        TxComp,
        TxOp, //
    },
    wire::{
        self,
        PktHdr,
        ATOMIC_MAX_OPERANDS,
        HEADER,
        MAX_PACKET, //
    },
};
use crate::{
    abi::{
        fi_rma_iov,
        flags::FI_COMPLETION,
        FI_ADDR_UNSPEC, //
    },
    fi::{
        domain::Domain,
        memory::BufferPart,
        prelude::*,
        provider::{
            self,
            Operation,
            Rma, //
        },
    },
    util::owned_list::ListBox, //
};
use core::ops::Range;

/// Bytes of the longest packet that has no payload.
pub(super) const CTRL_BUF_SIZE: usize = 256;

/// What a packet is used for.
#[allow(clippy::large_enum_variant)] // It is in a box with the packet, once and for all.
pub(super) enum BufState {
    /// Nothing.
    Free,
    /// An operation of the consumer's, of which this is to be done.
    Tx(TxOp),
    /// A segment of a message whose last one has the message's own packet.
    Segment,
    /// A word to the peer's endpoint.
    Ctrl,
    /// It has brought an operation, and takes back what has come of it.
    AtomicResp,
    /// Waits for whatever a peer sends, or has it.
    RxPosted,
}

/// What has arrived in a packet.
#[derive(Clone, Copy)]
pub(super) enum RxData {
    /// So many bytes.
    Bytes(usize),
    /// No message: a peer wrote that many bytes to memory, with remote CQ data.
    RemoteWrite(usize, u64),
}

/// A packet.
pub(super) struct Packet {
    number: u32,
    /// How often it has been an order: so that none has another's name.
    generation: u32,
    /// With whom it is exchanged.
    pub(super) peer_idx: u32,
    /// By which attempt at a connection with that peer.
    pub(super) conn_gen: usize,
    /// What it is used for.
    pub(super) state: BufState,
    /// Who waits for the outcome of an operation.
    comp: TxComp,
    /// Whom that is with, while the peer has no number.
    pub(super) dest: SocketAddr,
    /// What has arrived in it.
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
    /// Hands idle ones with those numbers to `take`, of `size` bytes each, for the endpoints of `domain`. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENODEV when the device goes away, -FI_ENOMEM.
    pub(super) fn alloc(
        here: ProcessContext,
        domain: &Arc<Domain>,
        mut numbers: Range<u32>,
        size: usize,
        mut take: impl FnMut(ListBox<Self>),
    ) -> Result {
        BufferPart::alloc_parts(here, domain, size, numbers.len(), |memory| {
            if let Some(number) = numbers.next() {
                take(ListBox::new(Self {
                    number,
                    generation: 0,
                    peer_idx: 0,
                    conn_gen: 0,
                    state: BufState::Free,
                    comp: TxComp::NONE,
                    dest: MsgKey::NONE.from,
                    rx_data: RxData::Bytes(0),
                    len: 0,
                    memory,
                })?);
            }
            Ok(())
        })
    }

    /// Whether it has no room for a payload.
    pub(super) fn is_ctrl(&self) -> bool {
        self.memory.len() < MAX_PACKET
    }

    /// What the peer calls the operation that it is used for.
    pub(super) fn id(&self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.number)
    }

    /// The number of the packet whose operation a peer calls that.
    pub(super) fn number_of(id: u64) -> u32 {
        id as u32
    }

    /// Whether that peer calls the operation so that it is used for.
    pub(super) fn has_id(&self, peer_idx: u32, id: u64) -> bool {
        self.peer_idx == peer_idx && self.id() == id
    }

    /// It is used for an operation from now on.
    #[inline(always)]
    pub(super) fn begin(&mut self, comp: TxComp) {
        self.generation = self.generation.wrapping_add(1);
        self.comp = comp;
    }

    /// What is to be done of the operation that it is used for.
    #[inline(always)]
    pub(super) fn tx_op(&mut self) -> Option<&mut TxOp> {
        match &mut self.state {
            BufState::Tx(tx_op) => Some(tx_op),
            _ => None,
        }
    }

    /// The same, to be looked at.
    #[inline(always)]
    pub(super) fn as_tx_op(&self) -> Option<&TxOp> {
        match &self.state {
            BufState::Tx(tx_op) => Some(tx_op),
            _ => None,
        }
    }

    /// Who waits for the outcome of the operation that it is used for.
    #[inline(always)]
    pub(super) fn tx_comp(&self) -> Option<&TxComp> {
        self.as_tx_op().map(|_| &self.comp)
    }

    /// Whether it is used for an operation with that peer, who has no number.
    pub(super) fn is_to(&self, addr: &SocketAddr) -> bool {
        self.as_tx_op().is_some() && self.dest == *addr
    }

    /// Whether it is used for an operation of that transmit context.
    pub(super) fn is_from_ctx(&self, context: u8) -> bool {
        self.tx_comp().is_some_and(|comp| comp.tx_ctx == context)
    }

    /// The receive context that its message is for.
    pub(super) fn context(&self) -> u8 {
        match self.as_tx_op() {
            Some(TxOp::Eager) => wire::RxPkt::rx_index(&self.memory),
            Some(TxOp::Sar(sar_tx)) => sar_tx.message.context,
            Some(TxOp::Rndv(rndv_tx)) => rndv_tx.message.context,
            _ => 0,
        }
    }

    /// Whether its message is to be offered, and its memory is not open to the peer.
    #[inline(always)]
    pub(super) fn needs_registration(&self) -> bool {
        matches!(self.as_tx_op(), Some(TxOp::Rndv(rndv_tx)) if rndv_tx.region.is_none())
    }

    /// Whether the peer knows of the operation that it is used for.
    pub(super) fn has_started(&self) -> bool {
        self.as_tx_op().is_some_and(TxOp::has_started)
    }

    /// Whether it offers a message.
    pub(super) fn is_rndv(&self) -> bool {
        matches!(self.as_tx_op(), Some(TxOp::Rndv(_)))
    }

    /// The message that it offers.
    #[inline(always)]
    pub(super) fn rndv_tx(&mut self) -> Option<&mut RndvTx> {
        match self.tx_op()? {
            TxOp::Rndv(rndv_tx) => Some(rndv_tx),
            _ => None,
        }
    }

    /// Whether it asks a peer for an operation.
    pub(super) fn is_atomic(&self) -> bool {
        matches!(self.as_tx_op(), Some(TxOp::Atomic(_)))
    }

    /// The operation that a peer is asked for.
    pub(super) fn atomic_tx(&mut self) -> Option<&mut AtomicTx> {
        match self.tx_op()? {
            TxOp::Atomic(atomic_tx) => Some(atomic_tx),
            _ => None,
        }
    }

    /// The bytes that a peer has sent.
    pub(super) fn rx_bytes(&self) -> &[u8] {
        match self.rx_data {
            RxData::Bytes(len) => self.memory.get(..len).unwrap_or(&[]),
            RxData::RemoteWrite(..) => &[],
        }
    }

    /// Where the payload of a message stands.
    pub(super) fn payload(&mut self) -> &mut [u8] {
        self.memory.get_mut(HEADER..).unwrap_or(&mut [])
    }

    /// Where the operands of an atomic operation stand.
    pub(super) fn operands(&mut self) -> &mut [u8] {
        self.memory
            .get_mut(MAX_PACKET - ATOMIC_MAX_OPERANDS..)
            .unwrap_or(&mut [])
    }

    /// All of its memory, where it is no message.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory
    }

    /// Makes it a segment of the message at `from`, for a peer who calls the connection `to`.
    pub(super) fn fill_segment(&mut self, to: u64, from: &SrcBuf, segment: &wire::Segment) {
        self.state = BufState::Segment;
        let len = copy_segment(&mut self.memory, from, segment);
        self.write_any(to, &PktHdr::Segment(*segment), len);
    }

    /// Writes what stands before the payload: to a peer who calls the connection `to`, if that is known.
    #[inline(always)]
    pub(super) fn write(&mut self, to: u64, hdr: &PktHdr, payload: usize) {
        let begin = hdr.write(to, payload, &mut self.memory);
        self.len = begin.map_or(0, |begin| begin + payload);
    }

    /// The same, where that need not be as fast as can be.
    #[inline(never)]
    pub(super) fn write_any(&mut self, to: u64, hdr: &PktHdr, payload: usize) {
        self.write(to, hdr, payload);
    }

    /// Makes it the next packet of the operation that it is used for, unless it is that already: to a peer
    /// who calls the connection `to`.
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
                    let hdr = PktHdr::RndvReq {
                        id,
                        message,
                        ranges,
                    };
                    (hdr, 0)
                }
                (_, None) => return,
            },
            _ => return,
        };
        self.write_any(to, &hdr, payload);
    }

    /// Gives its first `len` bytes to an operation.
    #[inline(always)]
    fn lend(
        &mut self,
        len: usize,
        context: Context,
        post: impl FnOnce(&provider::Message<'_>) -> Result,
    ) -> Result {
        // SAFETY: `Inflight` has the packet until the operation is over, and nobody looks into it there.
        let (segment, descriptor) = unsafe { self.memory.segment(len) };
        post(&plain(&segment, slice::from_ref(&descriptor), context))
    }

    /// Sends it by `lower`.
    ///
    /// # Errors
    ///
    /// With the packet: those of a transmit.
    #[inline(always)]
    pub(super) fn send(
        node: ListBox<Self>,
        inflight: &mut Inflight<Self>,
        lower: &LowerEp,
    ) -> core::result::Result<(), PostError<Self>> {
        inflight.post(node, |packet, context| {
            packet.lend(packet.len, context, |message| {
                lower.transmit(Operation::Send, message)
            })
        })
    }

    /// Has `post` receive into it.
    ///
    /// # Errors
    ///
    /// With the packet: what `post` says.
    #[inline(always)]
    pub(super) fn receive(
        node: ListBox<Self>,
        inflight: &mut Inflight<Self>,
        post: impl FnOnce(&provider::Message<'_>) -> Result,
    ) -> core::result::Result<(), PostError<Self>> {
        inflight.post(node, |packet, context| {
            packet.state = BufState::RxPosted;
            packet.lend(MAX_PACKET, context, post)
        })
    }

    /// Has `lower` access the peer's memory, as the operation says that it is used for.
    ///
    /// # Errors
    ///
    /// With the packet: those of a transmit.
    pub(super) fn access(
        node: ListBox<Self>,
        inflight: &mut Inflight<Self>,
        lower: &LowerEp,
    ) -> core::result::Result<(), PostError<Self>> {
        inflight.post(node, |packet, context| {
            let Self { state, memory, .. } = packet;
            let BufState::Tx(tx_op) = state else {
                return Err(Errno::EINVAL);
            };
            match tx_op {
                TxOp::Rndv(rndv_tx) => rndv_tx.write(|segment, remote| {
                    let message = plain(segment, &[], context);
                    let operation = Operation::Rma(Rma::Write, slice::from_ref(remote));
                    lower.transmit(operation, &message)
                }),
                TxOp::Rma(access) => match &access.local {
                    // SAFETY: The operation completes after that of the lower endpoint.
                    LocalBuf::Consumer(lent) => unsafe {
                        lent.with_memory(|memory, descriptors| {
                            access.post(lower, memory, descriptors, context)
                        })
                    },
                    LocalBuf::Inline(len) => {
                        // SAFETY: As in `lend`.
                        let (segment, descriptor) = unsafe { memory.segment(*len) };
                        let memory = Memory::Segments(slice::from_ref(&segment));
                        access.post(lower, memory, slice::from_ref(&descriptor), context)
                    }
                },
                _ => Err(Errno::EINVAL),
            }
        })
    }
}

impl RmaTx {
    fn post(
        &self,
        lower: &LowerEp,
        memory: Memory<'_>,
        descriptors: &[Descriptor],
        context: Context,
    ) -> Result {
        let message = provider::Message {
            memory,
            descriptors,
            context,
            flags: self.flags | FI_COMPLETION,
            errors_only: false,
            data: self.data,
            peer: FI_ADDR_UNSPEC,
            tag: None,
        };
        let operation = Operation::Rma(self.way, slice::from_ref(&self.remote));
        lower.transmit(operation, &message)
    }
}

/// Copies a segment's bytes to where the payload stands, and says how many there are.
fn copy_segment(packet: &mut [u8], from: &SrcBuf, segment: &wire::Segment) -> usize {
    let payload = packet.get_mut(HEADER..);
    let payload = payload.and_then(|payload| payload.get_mut(..segment.len()));
    payload.map_or(0, |payload| {
        from.copy_to_slice(segment.offset() as usize, payload)
    })
}

/// A range as a lower endpoint takes it.
pub(super) fn remote(range: &wire::Range) -> fi_rma_iov {
    fi_rma_iov {
        addr: range.addr,
        len: range.len as usize,
        key: range.key,
    }
}

pub(super) fn plain<'a>(
    segment: &'a Segment,
    descriptors: &'a [Descriptor],
    context: Context,
) -> provider::Message<'a> {
    provider::Message {
        memory: Memory::Segments(slice::from_ref(segment)),
        descriptors,
        context,
        flags: FI_COMPLETION,
        errors_only: false,
        data: 0,
        peer: FI_ADDR_UNSPEC,
        tag: None,
    }
}
