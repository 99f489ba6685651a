// SPDX-License-Identifier: GPL-2.0

//! The packets that an endpoint sends with: its own, or those that it shares with others.

use super::{
    flights::Numbered,
    posting::{
        Packet,
        Use, //
    },
    refused::{
        Poster,
        RefusedPosters, //
    },
    stx::Stx,
    traffic::{
        SENDS,
        SHARE, //
    },
};
use crate::util::owned_list::{
    BoxList,
    ListBox, //
};
use core::ops::Range;
use kernel::sync::Arc;

/// Idle packets for sending.
pub(super) enum Sends {
    /// Packets of one endpoint, and its contexts that were refused one.
    Own {
        idle: BoxList<Packet>,
        refused: RefusedPosters,
    },
    /// Packets of a shared transmit context.
    Shared(Arc<Stx>),
}

impl Sends {
    /// No packets.
    pub(super) const NONE: Self = Self::Own {
        idle: BoxList::new(),
        refused: RefusedPosters::new(),
    };

    /// Takes a packet.
    #[inline(always)]
    pub(super) fn get(&mut self) -> Option<ListBox<Packet>> {
        match self {
            Self::Own { idle, .. } => idle.pop(),
            Self::Shared(stx) => stx.get(),
        }
    }

    /// Takes a packet for `poster`. If there is none, the poster is woken when one is put back.
    #[inline(always)]
    pub(super) fn get_or_await(&mut self, poster: &Arc<Poster>) -> Option<ListBox<Packet>> {
        match self {
            Self::Own { idle, refused } => {
                let packet = idle.pop();
                if packet.is_none() {
                    refused.add(poster);
                }
                packet
            }
            Self::Shared(stx) => stx.get_or_await(poster),
        }
    }

    /// Adds `poster` to the contexts that are woken when a packet is put back.
    #[cold]
    pub(super) fn await_return(&mut self, poster: &Arc<Poster>) {
        match self {
            Self::Own { refused, .. } => refused.add(poster),
            Self::Shared(stx) => stx.await_return(poster),
        }
    }

    /// Wakes all contexts that were refused a packet, because one of them is closed.
    pub(super) fn wake_refused(&mut self) {
        match self {
            Self::Own { refused, .. } => refused.wake(),
            Self::Shared(stx) => stx.wake_refused(),
        }
    }

    /// Puts a packet back, and wakes the contexts that were refused one. The next operation takes it, because its
    /// state is still in the CPU's cache.
    #[inline(always)]
    pub(super) fn put(&mut self, mut packet: ListBox<Packet>) {
        packet.usage = Use::Idle;
        match self {
            Self::Own { idle, refused } => {
                idle.push_front(packet);
                refused.wake();
            }
            Self::Shared(stx) => stx.put(packet),
        }
    }

    /// The same of one that has come back when everything ended, which may be of another kind.
    pub(super) fn take_back(&mut self, packet: ListBox<Packet>) {
        if packet.number() < SENDS as u32 {
            self.put(packet);
        }
    }

    /// Returns whether other endpoints share them.
    pub(super) fn are_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }

    /// How many there are that nothing is done with.
    pub(super) fn left(&self) -> usize {
        match self {
            Self::Own { idle, .. } => idle.len(),
            Self::Shared(stx) => stx.left(),
        }
    }

    /// How many one peer may have, so that there are some for the others.
    #[inline(always)]
    pub(super) fn share(&self) -> usize {
        match self {
            Self::Own { .. } => SHARE,
            Self::Shared(stx) => stx.size().div_ceil(2),
        }
    }

    /// The numbers of its own that it has not got yet.
    pub(super) fn missing(&self) -> Range<u32> {
        match self {
            Self::Own { idle, .. } => idle.len() as u32..SENDS as u32,
            Self::Shared(_) => 0..0,
        }
    }
}
