// SPDX-License-Identifier: GPL-2.0

//! What is handed to the endpoint below: as much of an operation as there is room for.

use super::super::{
    flights::Flights,
    iov::SrcBuf,
    order::{
        Long,
        Offer,
        Phase,
        Work, //
    },
    peer::{
        Lane,
        Peer,
        SEGMENTS, //
    },
    posting::Packet,
    sends::Sends,
    wire::Place, //
};
use crate::{
    abi::flags::FI_REMOTE_CQ_DATA,
    fi::{
        mr::MemoryRegion,
        prelude::*,
        provider::Rma, //
    },
    util::owned_list::ListBox, //
};

impl Peer {
    /// Posts an operation behind all others.
    #[inline(always)]
    pub(super) fn post(
        &mut self,
        packet: ListBox<Packet>,
        flights: &mut Flights<Packet>,
        sends: &mut Sends,
    ) -> core::result::Result<(), (ListBox<Packet>, Option<Errno>)> {
        match self.waiting.is_empty() {
            true => self.post_next(packet, flights, sends),
            false => Err((packet, None)),
        }
    }

    /// Posts the next operation; or what is left of it, if that cannot be now, or why it never can.
    #[inline(always)]
    pub(super) fn post_next(
        &mut self,
        packet: ListBox<Packet>,
        flights: &mut Flights<Packet>,
        sends: &mut Sends,
    ) -> core::result::Result<(), (ListBox<Packet>, Option<Errno>)> {
        let lane = self.lane.as_mut();
        let lane = lane.filter(|lane| !lane.is_broken && !lane.is_carrying);
        let lane = lane.filter(|lane| lane.parting.may_begin() || packet.is_begun());
        let way = lane.and_then(|lane| Some((lane.to?, lane)));
        match way {
            Some((to, lane)) if !self.is_opening && !packet.is_closed() => {
                match lane.check_context(packet.context()) {
                    Ok(()) => go(lane, to, packet, flights, sends),
                    Err(errno) => Err((packet, Some(errno))),
                }
            }
            _ => Err((packet, None)),
        }
    }
}

impl Work {
    /// Whether the peer knows of it.
    pub(in super::super) fn is_begun(&self) -> bool {
        match self {
            Self::Eager | Self::Access(_) | Self::Atomic(_) => false,
            Self::Segments(long) => long.next > 0,
            Self::Offer(offer) => !matches!(offer.phase, Phase::Offered(_)),
        }
    }

    /// Whether it reads the peer's memory.
    pub(super) fn is_read(&self) -> bool {
        matches!(self, Self::Access(access) if access.way == Rma::Read)
    }

    /// Its memory is open, or cannot be.
    pub(super) fn open_up(&mut self, region: Result<Arc<MemoryRegion>>) {
        let Self::Offer(offer) = self else {
            return;
        };
        match region {
            Ok(region) => offer.region = Some(region),
            Err(_) => {
                let Offer { message, from, .. } = offer;
                let long = Long {
                    message: *message,
                    from: mem::replace(from, SrcBuf::EMPTY),
                    next: 0,
                };
                *self = Self::Segments(long);
            }
        }
    }
}

/// Posts what is next of an operation; what is left of it, if there is no room, or why it cannot be.
fn go(
    lane: &mut Lane,
    to: u64,
    mut packet: ListBox<Packet>,
    flights: &mut Flights<Packet>,
    sends: &mut Sends,
) -> core::result::Result<(), (ListBox<Packet>, Option<Errno>)> {
    let mut asks = 0;
    match packet.as_work() {
        Some(Work::Eager) => {}
        Some(Work::Access(_)) => return access(lane, packet, flights),
        Some(Work::Offer(offer)) if offer.is_to_be_written() => {
            return access(lane, packet, flights);
        }
        Some(Work::Segments(_)) => {
            if !go_ahead(lane, to, &mut packet, flights, sends) {
                return Err((packet, None));
            }
        }
        Some(Work::Atomic(_)) if lane.atomics == 0 => return Err((packet, None)),
        Some(Work::Atomic(_)) => asks = 1,
        _ => {}
    }
    if !lane.may_send() {
        lane.is_carrying = false;
        return Err((packet, None));
    }
    packet.attempt = lane.attempt;
    packet.address(to);
    packet.step(1);
    lane.atomics -= asks;
    Packet::send(packet, flights, &lane.lower).map_err(|refused| {
        lane.is_carrying = false;
        lane.atomics += asks;
        lane.credits.give_back();
        lane.refused(refused.errno);
        let mut packet = refused.own;
        packet.step(-1);
        (packet, None)
    })
}

/// Posts segments of a message with packets of their own, up to one that goes with the message's: whether
/// that can go, as far as the others are concerned.
#[inline(never)]
fn go_ahead(
    lane: &mut Lane,
    to: u64,
    packet: &mut Packet,
    flights: &mut Flights<Packet>,
    sends: &mut Sends,
) -> bool {
    let (slot, id) = (packet.slot, packet.id());
    let Some(Work::Segments(long)) = packet.work() else {
        return true;
    };
    loop {
        let segment = long.segment(id);
        if segment.place == Place::Last {
            return true;
        }
        if !lane.may_send() {
            return false;
        }
        let helper = match lane.segments {
            0 => None,
            _ => sends.get(),
        };
        let Some(mut helper) = helper else {
            lane.credits.give_back();
            // None will come back: it goes by itself, and nothing goes before the rest of it.
            lane.is_carrying = lane.segments == SEGMENTS;
            return lane.is_carrying;
        };
        helper.slot = slot;
        helper.attempt = lane.attempt;
        helper.carry(to, &long.from, &segment);
        if let Err(refused) = Packet::send(helper, flights, &lane.lower) {
            sends.put(refused.own);
            lane.refused(refused.errno);
            lane.credits.give_back();
            return false;
        }
        lane.segments -= 1;
        long.next += 1;
    }
}

/// Posts an access to the peer's memory; the operation, and why it cannot be, or that there is no room.
fn access(
    lane: &mut Lane,
    mut packet: ListBox<Packet>,
    flights: &mut Flights<Packet>,
) -> core::result::Result<(), (ListBox<Packet>, Option<Errno>)> {
    let is_read = packet.as_work().is_some_and(Work::is_read);
    let may_go = match is_read {
        true => lane.turns.may_read(),
        false => lane.turns.may_send(),
    };
    if !may_go {
        return Err((packet, None));
    }
    // The peer has a receive for its data.
    let takes_credit = match packet.as_work() {
        Some(Work::Access(access)) => access.flags & FI_REMOTE_CQ_DATA != 0,
        _ => false,
    };
    if takes_credit && !lane.credits.take() {
        return Err((packet, None));
    }
    packet.attempt = lane.attempt;
    let accessed = Packet::access(packet, flights, &lane.lower);
    if is_read && accessed.is_ok() {
        lane.turns.begun();
    }
    accessed.map_err(|refused| {
        if takes_credit {
            lane.credits.give_back();
        }
        match refused.errno {
            Errno::EAGAIN => (refused.own, None),
            // What the connection has come to is told with it.
            errno @ (Errno::ENOTCONN | Errno::ECONNABORTED | Errno::ESHUTDOWN) => {
                lane.refused(errno);
                (refused.own, None)
            }
            errno => (refused.own, Some(errno)),
        }
    })
}

impl Packet {
    /// A segment more of its message has been sent, or one less.
    fn step(&mut self, count: i32) {
        if let Some(Work::Segments(long)) = self.work() {
            long.next = long.next.wrapping_add_signed(count);
        }
    }
}
