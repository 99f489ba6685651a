// SPDX-License-Identifier: GPL-2.0

//! Messages to peers on this host that are copied once, by who sends: from where they are to where the
//! receiver wants them.
//!
//! Who sends has let go of its own lock when it takes the peer's, so nobody holds two. Meanwhile what it sends
//! to that peer waits (`Lane::is_carrying`), and the connection does not end, as loop does not let it.
//!
//! A message goes so only while nothing else is under way to its peer, who first handles what has come: none
//! is overtaken. One that the peer does not take then, as it waits for room or for another, goes in packets as
//! to any peer, of which there are not many: so a peer that does not receive slows its senders.

use super::{
    super::r#loop,
    arriving::{
        Mail,
        Taken, //
    },
    iov::SrcBuf,
    matching::Title,
    order::{
        Long,
        Offer,
        Phase,
        Report,
        Work, //
    },
    outlets::Outlets,
    peer::{
        slot_of_attempt,
        Lane, //
    },
    posting::{
        Packet,
        Use, //
    },
    station::Station,
    traffic::Traffic,
    wire::{
        Head,
        Message,
        EAGER, //
    },
};
use crate::fi::{
    ep,
    eq::Source, //
};
use core::any::Any;
use kernel::sync::Arc;

/// Most bytes of a message that is sent in segments, or handed over: a longer one is offered.
const SEGMENTED: usize = 8 * EAGER;

/// A message, where its sender has it.
pub(super) struct Parcel {
    /// The message.
    pub(super) message: Message,
    /// Where it is.
    pub(super) from: SrcBuf,
}

/// A way to a peer on this host that is free, and kept so.
pub(super) struct Shortcut {
    slot: u32,
    attempt: usize,
    ep: Arc<ep::Endpoint>,
}

impl Parcel {
    /// Has it go in packets, the first of which this is.
    #[inline(always)]
    pub(super) fn pack(self, packet: &mut Packet) {
        let Self { message, from } = self;
        match message.len as usize {
            len if len <= EAGER => {
                from.copy_to_slice(0, packet.payload());
                packet.write(0, &Head::Eager(message), len);
                packet.usage = Use::Order(Work::Eager);
            }
            len if len <= SEGMENTED => {
                packet.usage = Use::Order(Work::Segments(Long {
                    message,
                    from,
                    next: 0,
                }));
            }
            _ => {
                packet.usage = Use::Order(Work::Offer(Offer {
                    message,
                    from,
                    region: None,
                    phase: Phase::Offered(None),
                }));
            }
        }
    }
}

impl Shortcut {
    /// Hands a message to the peer: whether that has taken it. The caller holds no lock.
    pub(super) fn hand(&self, parcel: &Parcel) -> bool {
        let call = |peer: &(dyn Any + Send + Sync), source: Source| {
            let station: Option<&Station> = peer.downcast_ref();
            station.is_some_and(|station| station.take_parcel(source, parcel))
        };
        let near = r#loop::Endpoint::from_endpoint(&self.ep);
        near.and_then(|near| near.call_peer(call)).unwrap_or(false)
    }
}

impl Station {
    /// Takes a message that a peer hands over, by the connection whose events carry `source`: whether it has.
    fn take_parcel(&self, source: Source, parcel: &Parcel) -> bool {
        let Ok(bound) = self.bound() else {
            return false;
        };
        let mut floor = self.traffic.lock();
        let (traffic, outlets) = floor.parts();
        // If more has come than is handled at once, what the peer sent before may be among it.
        let is_all = traffic.take(outlets, &bound.queue, false).is_all;
        let is_taken = is_all && traffic.take_parcel(outlets, source.0, parcel);
        let is_calling = traffic.is_calling();
        drop(floor);
        if is_calling {
            bound.kick();
        }
        is_taken
    }
}

impl Traffic {
    /// The way on which a message can be handed to its peer, which is kept for that until it has been
    /// [`left`](Self::leave_shortcut).
    #[inline(always)]
    pub(super) fn shortcut(&mut self, slot: u32, message: &Message) -> Option<Shortcut> {
        let peer = self.peer(slot)?;
        let lane = peer.lane.as_mut().filter(|lane| lane.lower.is_near)?;
        let is_free = peer.load == 0
            && message.len as usize <= SEGMENTED
            && lane.is_open()
            && !lane.is_carrying
            && lane.parting.may_begin()
            && lane.check_context(message.context).is_ok();
        if !is_free {
            return None;
        }
        lane.is_carrying = true;
        peer.load += 1;
        Some(Shortcut {
            slot,
            attempt: lane.attempt,
            ep: lane.lower.ep.clone(),
        })
    }

    /// A message has been handed over, of which `report` is to be told; or it has not.
    pub(super) fn leave_shortcut(
        &mut self,
        outlets: &Outlets,
        shortcut: &Shortcut,
        report: Option<&Report>,
    ) {
        let &Shortcut { slot, attempt, .. } = shortcut;
        if let Some(peer) = self.peer(slot) {
            peer.load -= 1;
            let lane = peer.lane.as_mut();
            if let Some(lane) = lane.filter(|lane| lane.attempt == attempt) {
                lane.is_carrying = false;
            }
        }
        if let Some(report) = report {
            outlets.sent(report, Ok(()));
        }
        self.pump(outlets, slot);
    }

    /// Takes a message that is handed over by that connection, behind all that has come: whether it has.
    fn take_parcel(&mut self, outlets: &Outlets, attempt: usize, parcel: &Parcel) -> bool {
        let Parcel { message, from } = parcel;
        let slot = slot_of_attempt(attempt);
        let has_office = usize::from(message.context) < self.offices.len();
        let Some(peer) = self.peer(slot) else {
            return false;
        };
        let lane = peer.lane.as_ref();
        let is_heard = |lane: &Lane| lane.attempt == attempt && lane.is_open() && lane.is_heard();
        let is_open = lane.is_some_and(is_heard);
        if !is_open || !has_office || peer.held > 0 {
            return false;
        }
        let title = Title {
            context: message.context,
            tag: message.tag,
            from: peer.addr,
        };
        if self.are_parting && self.interrupt(slot).is_err() {
            return false;
        }
        let mail = Mail {
            slot,
            attempt,
            title,
            message: *message,
            is_bounded: true,
        };
        let may_wait = message.len as usize <= EAGER;
        let taken = self.eager(outlets, &mail, from, may_wait);
        self.pump(outlets, slot);
        matches!(taken, Taken::Done)
    }
}
