// SPDX-License-Identifier: GPL-2.0

//! Packets: memory of their own, registered once, and how they are given to a lower endpoint.

use super::{
    bounce::Incoming,
    flights::{
        Flights,
        Numbered,
        Refused, //
    },
    matching::{
        Title,
        Titled, //
    },
    wire::{
        Head,
        Message,
        HEADER,
        MOST, //
    },
};
use crate::{
    abi::{
        context::InProcess,
        flags::FI_COMPLETION,
        nodes::Own,
        Result,
        FI_ADDR_UNSPEC, //
    },
    fi::{
        domain::Domain,
        ep,
        memory::{
            Buffer,
            Context,
            Descriptor,
            Memory,
            Segment, //
        },
        provider::{
            self,
            Operation, //
        }, //
    },
};
use core::{
    net::SocketAddr,
    slice, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Whom the outcome of a send is told.
#[derive(Clone, Copy)]
pub(super) struct Report {
    /// What the sender gets back.
    pub(super) context: Context,
    /// FI_SEND and what belongs to it.
    pub(super) flags: u64,
    /// Whether a success is told too.
    pub(super) is_wanted: bool,
}

/// What a packet is used for.
#[derive(Clone, Copy)]
pub(super) enum Use {
    /// Nothing.
    Idle,
    /// A message to a peer.
    Sent {
        /// Whom.
        to: SocketAddr,
        /// What of it is not the payload.
        message: Message,
        /// Who waits for the outcome.
        report: Report,
    },
    /// A word to a peer of so many receives.
    Word(u64),
    /// Waits for whatever a peer sends.
    Posted,
    /// A message from a peer that waits for its receive.
    Arrived(Title, Message),
}

/// A packet.
pub(super) struct Packet {
    number: u32,
    /// With whom it is exchanged.
    pub(super) slot: u32,
    /// By which attempt at a connection with that peer.
    pub(super) attempt: usize,
    /// What it is used for.
    pub(super) usage: Use,
    len: usize,
    buffer: KBox<Buffer>,
    domain: Arc<Domain>,
}

impl Numbered for Packet {
    fn number(&self) -> u32 {
        self.number
    }
}

impl Titled for Packet {
    fn title(&self) -> &Title {
        match &self.usage {
            Use::Arrived(title, _) => title,
            _ => &Title::NONE,
        }
    }
}

impl Packet {
    /// An idle one, for the endpoints of `domain`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENODEV when the device goes away, -FI_ENOMEM.
    pub(super) fn new(here: InProcess, domain: &Arc<Domain>, number: u32) -> Result<Own<Self>> {
        Own::new(Self {
            number,
            slot: 0,
            attempt: 0,
            usage: Use::Idle,
            len: 0,
            buffer: Buffer::registered(here, domain, MOST, 0)?,
            domain: domain.clone(),
        })
    }

    /// Where the payload of a message stands.
    pub(super) fn payload(&mut self) -> &mut [u8] {
        self.buffer.get_mut(HEADER..).unwrap_or(&mut [])
    }

    /// The first bytes, which a peer has sent.
    pub(super) fn arrived(&self, len: usize) -> &[u8] {
        self.buffer.get(..len).unwrap_or(&[])
    }

    /// Copies the payload of a message to its receive, and says for how much of it there was room.
    pub(super) fn copy_to(&self, message: &Message, into: &Incoming) -> usize {
        let payload = self.buffer.get(HEADER..).unwrap_or(&[]);
        let len = payload.len().min(message.len as usize);
        into.write(0, payload.get(..len).unwrap_or(&[]))
    }

    /// Writes what stands before the payload: to a peer who calls the connection `to`.
    pub(super) fn address(&mut self, to: u64) {
        let (head, payload) = match self.usage {
            Use::Sent { message, .. } => (Head::Eager(message), message.len as usize),
            Use::Word(count) => (Head::Credit(count), 0),
            Use::Idle | Use::Posted | Use::Arrived(..) => return,
        };
        let begin = head.write(to, payload, &mut self.buffer);
        self.len = begin.map_or(0, |begin| begin + payload);
    }

    /// Gives its first `len` bytes to an operation.
    fn give<R>(
        &mut self,
        len: usize,
        post: impl FnOnce(&Segment, &Descriptor) -> Result<R>,
    ) -> Result<R> {
        // SAFETY: `Flights` has the packet until the operation is over, and nobody looks into it there.
        let (segment, descriptor) = unsafe { self.buffer.lend(len, &self.domain) };
        post(&segment, &descriptor)
    }

    /// Sends it by `lower`.
    ///
    /// # Errors
    ///
    /// With the packet: those of a transmit.
    pub(super) fn send(
        own: Own<Self>,
        flights: &mut Flights<Self>,
        lower: &ep::Endpoint,
    ) -> core::result::Result<(), Refused<Self>> {
        flights.start(own, |packet, context| {
            packet.give(packet.len, |segment, descriptor| {
                let message = plain(segment, descriptor, context);
                lower.core().transmit(Operation::Send, &message)
            })
        })
    }

    /// Has `lower` receive into it.
    ///
    /// # Errors
    ///
    /// With the packet: those of a receive.
    pub(super) fn receive(
        own: Own<Self>,
        flights: &mut Flights<Self>,
        lower: &ep::Endpoint,
    ) -> core::result::Result<(), Refused<Self>> {
        flights.start(own, |packet, context| {
            packet.usage = Use::Posted;
            packet.give(MOST, |segment, descriptor| {
                let message = plain(segment, descriptor, context);
                lower.core().receive(&message)
            })
        })
    }
}

fn plain<'a>(
    segment: &'a Segment,
    descriptor: &'a Descriptor,
    context: Context,
) -> provider::Message<'a> {
    provider::Message {
        memory: Memory::Segments(slice::from_ref(segment)),
        descriptors: slice::from_ref(descriptor),
        context,
        flags: FI_COMPLETION,
        data: 0,
        peer: FI_ADDR_UNSPEC,
        tag: None,
    }
}
