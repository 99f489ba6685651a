// SPDX-License-Identifier: GPL-2.0

//! Packets: memory of their own, registered once, and how they are given to a lower endpoint.

use super::{
    below::Lower,
    flights::{
        Flights,
        Numbered,
        Refused, //
    },
    iov::SrcBuf,
    matching::Title,
    order::{
        Access,
        Asked,
        Local,
        Offer,
        Phase,
        Report,
        Work, //
    },
    receive::Receive,
    wire::{
        self,
        Head,
        ATOMIC_REQUEST,
        HEADER,
        MOST, //
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
pub(super) const SHORT: usize = 256;

/// What a packet is used for.
#[allow(clippy::large_enum_variant)] // It is in a box with the packet, once and for all.
pub(super) enum Use {
    /// Nothing.
    Idle,
    /// An operation of the consumer's, of which this is to be done.
    Order(Work),
    /// A segment of a message whose last one has the message's own packet.
    Segment,
    /// A word to the peer's endpoint.
    Word,
    /// It has brought an operation, and takes back what has come of it.
    Answer,
    /// Waits for whatever a peer sends, or has it.
    Posted,
}

/// What has arrived in a packet.
#[derive(Clone, Copy)]
pub(super) enum Arrival {
    /// So many bytes.
    Bytes(usize),
    /// No message: a peer wrote that many bytes to memory, with remote CQ data.
    Written(usize, u64),
}

/// A packet.
pub(super) struct Packet {
    number: u32,
    /// How often it has been an order: so that none has another's name.
    round: u32,
    /// With whom it is exchanged.
    pub(super) slot: u32,
    /// By which attempt at a connection with that peer.
    pub(super) attempt: usize,
    /// What it is used for.
    pub(super) usage: Use,
    /// Who waits for the outcome of an operation.
    report: Report,
    /// Whom that is with, while the peer has no number.
    pub(super) to: SocketAddr,
    /// What has arrived in it.
    pub(super) arrival: Arrival,
    len: usize,
    memory: BufferPart,
}

impl Numbered for Packet {
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
    pub(super) fn make(
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
                    round: 0,
                    slot: 0,
                    attempt: 0,
                    usage: Use::Idle,
                    report: Report::NOBODY,
                    to: Title::NONE.from,
                    arrival: Arrival::Bytes(0),
                    len: 0,
                    memory,
                })?);
            }
            Ok(())
        })
    }

    /// Whether it has no room for a payload.
    pub(super) fn is_short(&self) -> bool {
        self.memory.len() < MOST
    }

    /// What the peer calls the operation that it is used for.
    pub(super) fn id(&self) -> u64 {
        u64::from(self.round) << 32 | u64::from(self.number)
    }

    /// The number of the packet whose operation a peer calls that.
    pub(super) fn number_of(id: u64) -> u32 {
        id as u32
    }

    /// Whether that peer calls the operation so that it is used for.
    pub(super) fn is_called(&self, slot: u32, id: u64) -> bool {
        self.slot == slot && self.id() == id
    }

    /// It is used for an operation from now on.
    #[inline(always)]
    pub(super) fn begin(&mut self, report: Report) {
        self.round = self.round.wrapping_add(1);
        self.report = report;
    }

    /// What is to be done of the operation that it is used for.
    #[inline(always)]
    pub(super) fn work(&mut self) -> Option<&mut Work> {
        match &mut self.usage {
            Use::Order(work) => Some(work),
            _ => None,
        }
    }

    /// The same, to be looked at.
    #[inline(always)]
    pub(super) fn as_work(&self) -> Option<&Work> {
        match &self.usage {
            Use::Order(work) => Some(work),
            _ => None,
        }
    }

    /// Who waits for the outcome of the operation that it is used for.
    #[inline(always)]
    pub(super) fn report(&self) -> Option<&Report> {
        self.as_work().map(|_| &self.report)
    }

    /// Whether it is used for an operation with that peer, who has no number.
    pub(super) fn is_with(&self, addr: &SocketAddr) -> bool {
        self.as_work().is_some() && self.to == *addr
    }

    /// Whether it is used for an operation of that transmit context.
    pub(super) fn is_by(&self, context: u8) -> bool {
        self.report().is_some_and(|report| report.by == context)
    }

    /// The receive context that its message is for.
    pub(super) fn context(&self) -> u8 {
        match self.as_work() {
            Some(Work::Eager) => wire::Packet::named_context(&self.memory),
            Some(Work::Segments(long)) => long.message.context,
            Some(Work::Offer(offer)) => offer.message.context,
            _ => 0,
        }
    }

    /// Whether its message is to be offered, and its memory is not open to the peer.
    #[inline(always)]
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.as_work(), Some(Work::Offer(offer)) if offer.region.is_none())
    }

    /// Whether the peer knows of the operation that it is used for.
    pub(super) fn is_begun(&self) -> bool {
        self.as_work().is_some_and(Work::is_begun)
    }

    /// Whether it offers a message.
    pub(super) fn is_offer(&self) -> bool {
        matches!(self.as_work(), Some(Work::Offer(_)))
    }

    /// The message that it offers.
    #[inline(always)]
    pub(super) fn offer(&mut self) -> Option<&mut Offer> {
        match self.work()? {
            Work::Offer(offer) => Some(offer),
            _ => None,
        }
    }

    /// Whether it asks a peer for an operation.
    pub(super) fn is_asked(&self) -> bool {
        matches!(self.as_work(), Some(Work::Atomic(_)))
    }

    /// The operation that a peer is asked for.
    pub(super) fn asked(&mut self) -> Option<&mut Asked> {
        match self.work()? {
            Work::Atomic(asked) => Some(asked),
            _ => None,
        }
    }

    /// The bytes that a peer has sent.
    pub(super) fn arrived(&self) -> &[u8] {
        match self.arrival {
            Arrival::Bytes(len) => self.memory.get(..len).unwrap_or(&[]),
            Arrival::Written(..) => &[],
        }
    }

    /// Where the payload of a message stands.
    pub(super) fn payload(&mut self) -> &mut [u8] {
        self.memory.get_mut(HEADER..).unwrap_or(&mut [])
    }

    /// Where the operands of an atomic operation stand.
    pub(super) fn operands(&mut self) -> &mut [u8] {
        self.memory
            .get_mut(MOST - ATOMIC_REQUEST..)
            .unwrap_or(&mut [])
    }

    /// All of its memory, where it is no message.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory
    }

    /// Makes it a segment of the message at `from`, for a peer who calls the connection `to`.
    pub(super) fn carry(&mut self, to: u64, from: &SrcBuf, segment: &wire::Segment) {
        self.usage = Use::Segment;
        let len = fill(&mut self.memory, from, segment);
        self.write_any(to, &Head::Segment(*segment), len);
    }

    /// Writes what stands before the payload: to a peer who calls the connection `to`, if that is known.
    #[inline(always)]
    pub(super) fn write(&mut self, to: u64, head: &Head, payload: usize) {
        let begin = head.write(to, payload, &mut self.memory);
        self.len = begin.map_or(0, |begin| begin + payload);
    }

    /// The same, where that need not be as fast as can be.
    #[inline(never)]
    pub(super) fn write_any(&mut self, to: u64, head: &Head, payload: usize) {
        self.write(to, head, payload);
    }

    /// Makes it the next packet of the operation that it is used for, unless it is that already: to a peer
    /// who calls the connection `to`.
    #[inline(always)]
    pub(super) fn address(&mut self, to: u64) {
        match &self.usage {
            Use::Order(Work::Segments(_) | Work::Offer(_)) => self.go_on(to),
            _ => wire::address(to, &mut self.memory),
        }
    }

    #[inline(never)]
    fn go_on(&mut self, to: u64) {
        let id = self.id();
        let (head, payload) = match &self.usage {
            Use::Order(Work::Segments(long)) => {
                let segment = long.segment(id);
                let len = fill(&mut self.memory, &long.from, &segment);
                (Head::Segment(segment), len)
            }
            Use::Order(Work::Offer(offer)) => match (&offer.phase, offer.ranges()) {
                (Phase::Written, _) => (Head::Written { id }, 0),
                (_, Some(ranges)) => {
                    let message = offer.message;
                    let head = Head::Offer {
                        id,
                        message,
                        ranges,
                    };
                    (head, 0)
                }
                (_, None) => return,
            },
            _ => return,
        };
        self.write_any(to, &head, payload);
    }

    /// Gives its first `len` bytes to an operation.
    #[inline(always)]
    fn give(
        &mut self,
        len: usize,
        context: Context,
        post: impl FnOnce(&provider::Message<'_>) -> Result,
    ) -> Result {
        // SAFETY: `Flights` has the packet until the operation is over, and nobody looks into it there.
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
        own: ListBox<Self>,
        flights: &mut Flights<Self>,
        lower: &Lower,
    ) -> core::result::Result<(), Refused<Self>> {
        flights.start(own, |packet, context| {
            packet.give(packet.len, context, |message| {
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
        own: ListBox<Self>,
        flights: &mut Flights<Self>,
        post: impl FnOnce(&provider::Message<'_>) -> Result,
    ) -> core::result::Result<(), Refused<Self>> {
        flights.start(own, |packet, context| {
            packet.usage = Use::Posted;
            packet.give(MOST, context, post)
        })
    }

    /// Has `lower` access the peer's memory, as the operation says that it is used for.
    ///
    /// # Errors
    ///
    /// With the packet: those of a transmit.
    pub(super) fn access(
        own: ListBox<Self>,
        flights: &mut Flights<Self>,
        lower: &Lower,
    ) -> core::result::Result<(), Refused<Self>> {
        flights.start(own, |packet, context| {
            let Self { usage, memory, .. } = packet;
            let Use::Order(work) = usage else {
                return Err(Errno::EINVAL);
            };
            match work {
                Work::Offer(offer) => offer.write(|segment, remote| {
                    let message = plain(segment, &[], context);
                    let operation = Operation::Rma(Rma::Write, slice::from_ref(remote));
                    lower.transmit(operation, &message)
                }),
                Work::Access(access) => match &access.local {
                    // SAFETY: The operation completes after that of the lower endpoint.
                    Local::Lent(lent) => unsafe {
                        lent.with_memory(|memory, descriptors| {
                            access.post(lower, memory, descriptors, context)
                        })
                    },
                    Local::Packet(len) => {
                        // SAFETY: As in `give`.
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

impl Access {
    fn post(
        &self,
        lower: &Lower,
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

/// Has `lower` read more of the message that a receive fetches.
///
/// # Errors
///
/// With the receive: those of a transmit, -FI_EINVAL for memory that is not there any more.
pub(super) fn fetch(
    own: ListBox<Receive>,
    flights: &mut Flights<Receive>,
    lower: &Lower,
) -> core::result::Result<(), Refused<Receive>> {
    flights.start(own, |receive, context| {
        let next = receive.next()?.ok_or(Errno::EINVAL)?;
        let message = plain(&next.into, &[], context);
        let remote = remote(&next.from);
        let operation = Operation::Rma(Rma::Read, slice::from_ref(&remote));
        lower.transmit(operation, &message)?;
        if let Some(fetch) = &mut receive.fetch {
            fetch.coming = if next.is_again { 0 } else { next.into.len() };
            fetch.is_doubtful = !next.is_again && lower.ep.core().may_report_reads_early();
        }
        Ok(())
    })
}

/// Copies a segment's bytes to where the payload stands, and says how many there are.
fn fill(packet: &mut [u8], from: &SrcBuf, segment: &wire::Segment) -> usize {
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

fn plain<'a>(
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
