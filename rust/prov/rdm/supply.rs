// SPDX-License-Identifier: GPL-2.0

//! What connections receive with: packets that are posted, for one of them alone or for all that share.
//!
//! Each connection has a few packets from the beginning, of which its peer is told; one whose peer has used
//! them up soon after it has been told gets as many again. Where the device lets connections share, all of
//! these are in one queue: but no peer is told of more than there are, so that none waits for another that
//! does not receive. What a connection leaves there when it ends is for the next one.
//!
//! On iWARP they do not share, nor with a peer that does not count: either could use up what others have
//! been told of, and there that ends the connection of whoever comes next. Elsewhere such a message only
//! waits until another packet is there; and whoever sends more than it was told of is not heard again.

use super::{
    credits::Absurd,
    flights::Flights,
    peer::{
        slot_of_attempt,
        Lane,
        FIRST,
        RECEIVES, //
    },
    posting::Packet,
    traffic::{
        Traffic,
        LANES, //
    },
};
use crate::{
    fi::{
        eq::Source,
        prelude::*,
        srx::SharedReceive, //
    },
    util::owned_list::{
        BoxList,
        ListBox, //
    },
};

/// What connections that share may have beyond their first packets, all together.
const EXTRA: usize = 1984;

/// What can be posted where they share.
pub(super) const DEPTH: usize = LANES * FIRST + EXTRA;

/// Who has used up within that time what it was told of may have more.
pub(super) const SOON: Delta = Delta::from_millis(100);

/// How many packets connections have that share, all together, beyond their first ones. What is to be made for
/// one is its own before it is there: many may ask for some before that.
struct Extra(usize);

impl Extra {
    /// Takes as many of those `wanted` as there may be.
    fn take(&mut self, wanted: usize) -> usize {
        let taken = wanted.min(EXTRA - self.0);
        self.0 += taken;
        taken
    }

    /// They are not needed, or not there.
    fn give_back(&mut self, count: usize) {
        self.0 -= count;
    }
}

/// See the module.
pub(super) struct Supply {
    /// Where those are posted that share.
    shared: Option<Arc<SharedReceive>>,
    /// How many are posted there that no connection counts on; less than none where a peer has used more
    /// than it was told of.
    surplus: i64,
    extra: Extra,
    /// Packets that are not posted.
    spare: BoxList<Packet>,
}

impl Supply {
    /// Nothing yet, and nobody shares.
    pub(super) const fn new() -> Self {
        Self {
            shared: None,
            surplus: 0,
            extra: Extra(0),
            spare: BoxList::new(),
        }
    }

    /// Where those are posted that share, if any do.
    pub(super) fn shared(&self) -> Option<&Arc<SharedReceive>> {
        self.shared.as_ref()
    }

    /// Connections share what is posted there, from now on.
    pub(super) fn share(&mut self, shared: Arc<SharedReceive>) {
        self.shared = Some(shared);
    }

    /// There are no connections any more: where they have shared.
    pub(super) fn end(&mut self) -> Option<Arc<SharedReceive>> {
        self.shared.take()
    }

    /// Packets that are not posted.
    pub(super) fn spare(&mut self) -> &mut BoxList<Packet> {
        &mut self.spare
    }

    /// Posts `count` packets more for a connection, as far as there are any; says how many are lacking.
    ///
    /// # Errors
    ///
    /// Why one cannot be posted.
    fn give(
        &mut self,
        flights: &mut Flights<Packet>,
        lane: &mut Lane,
        count: usize,
    ) -> Result<usize> {
        let mut left = count;
        let mut posted = Ok(());
        while left > 0 && posted.is_ok() {
            if lane.shared.is_some() && self.surplus > 0 {
                self.surplus -= 1;
                lane.posted += 1;
            } else if let Some(packet) = self.spare.pop() {
                let refused = lane.receive(flights, packet).err();
                if let Some(refused) = refused {
                    self.spare.push(refused.own);
                    posted = Err(refused.errno);
                    break;
                }
            } else {
                break;
            }
            lane.credits.widen();
            left -= 1;
        }
        posted.map(|()| left)
    }

    /// Posts what a peer has used up of others' receives.
    fn restock(&mut self, flights: &mut Flights<Packet>) {
        let Some(shared) = &self.shared else {
            return;
        };
        while self.surplus < 0 {
            let Some(packet) = self.spare.pop() else {
                return;
            };
            let posted = Packet::receive(packet, flights, |message| shared.core().receive(message));
            if let Err(refused) = posted {
                self.spare.push(refused.own);
                return;
            }
            self.surplus += 1;
        }
    }
}

impl Traffic {
    /// Keeps a packet that a connection does not need any more, or that is to be posted.
    pub(super) fn keep_receive(&mut self, packet: ListBox<Packet>) {
        self.supply.spare.push(packet);
        if self.supply.surplus < 0 {
            self.supply.restock(&mut self.flights);
        }
    }

    /// Posts that many packets for a connection, which there are. Says how many are lacking all the same.
    ///
    /// # Errors
    ///
    /// Why one cannot be posted.
    pub(super) fn furnish(&mut self, slot: u32, count: usize) -> Result<usize> {
        let Self {
            peers,
            flights,
            supply,
            ..
        } = self;
        let peer = peers.get_mut(slot as usize).and_then(Option::as_mut);
        match peer.and_then(|peer| peer.lane.as_mut()) {
            Some(lane) => supply.give(flights, lane, count),
            None => Ok(0),
        }
    }

    /// Lets a peer send more at once that has soon used up what it was told of; where packets are lacking
    /// for that, they are to be made.
    #[inline(never)]
    pub(super) fn widen(&mut self, slot: u32) {
        let Self { peers, supply, .. } = self;
        let peer = peers.get_mut(slot as usize).and_then(Option::as_mut);
        let Some(lane) = peer.and_then(|peer| peer.lane.as_mut()) else {
            return;
        };
        let has = lane.credits.receives() as usize;
        let mut more = has.min(RECEIVES.saturating_sub(has));
        if lane.shared.is_some() {
            more = supply.extra.take(more);
            lane.extra += more;
        }
        let given = self.furnish(slot, more);
        if let Some(lane) = self.lane(slot) {
            match given {
                Ok(lacks) => lane.lacks = lacks,
                Err(errno) => lane.refused(errno),
            }
        }
    }

    /// Those that were lacking have been made, or cannot be.
    pub(super) fn supplied(&mut self, slot: u32, mut packets: BoxList<Packet>) {
        while let Some(packet) = packets.pop() {
            self.keep_receive(packet);
        }
        let lane = self.lane(slot);
        let lacks = lane.map_or(0, |lane| mem::take(&mut lane.lacks));
        let given = self.furnish(slot, lacks);
        let Self { peers, supply, .. } = self;
        let peer = peers.get_mut(slot as usize).and_then(Option::as_mut);
        let Some(lane) = peer.and_then(|peer| peer.lane.as_mut()) else {
            return;
        };
        match given {
            Ok(lacks) if lane.shared.is_some() => {
                lane.extra -= lacks;
                supply.extra.give_back(lacks);
            }
            Ok(_) => {}
            Err(errno) => lane.refused(errno),
        }
    }

    /// A connection has been taken from its peer: what is posted is there for others.
    pub(super) fn leave(&mut self, lane: &Lane) {
        let Self {
            supply, flights, ..
        } = self;
        if lane.shared.is_some() {
            supply.surplus += lane.posted;
            supply.extra.give_back(lane.extra);
            supply.restock(flights);
        }
    }

    /// A packet that was posted has come back: by the connection of `source`, where they share.
    ///
    /// # Errors
    ///
    /// Its peer was told of less.
    #[inline(always)]
    pub(super) fn unpost(
        &mut self,
        packet: &mut Packet,
        source: Option<Source>,
    ) -> core::result::Result<(), Absurd> {
        if let Some(Source(attempt)) = source {
            packet.attempt = attempt;
            packet.slot = slot_of_attempt(attempt);
        }
        let attempt = packet.attempt;
        let lane = self.lane(packet.slot);
        match lane.filter(|lane| lane.attempt == attempt) {
            Some(lane) => {
                lane.posted -= 1;
                lane.credits.came()
            }
            None => {
                self.supply.surplus -= i64::from(source.is_some());
                Ok(())
            }
        }
    }
}

#[kernel::prelude::kunit_tests(kofi_rdm_supply)]
mod tests {
    use super::*;
    use crate::util::random::SeededRandom;

    /// Connections ask for more until they have all that one may have, and end; no packet is ever made.
    #[test]
    fn rdm_06_no_more_is_promised_than_there_is() {
        let mut random = SeededRandom::new(1);
        let mut extra = Extra(0);
        let mut has = [FIRST; LANES];
        let mut was_scarce = false;
        for _ in 0..100 * LANES {
            let at = random.next_below(LANES as u64) as usize;
            let Some(has) = has.get_mut(at) else {
                continue;
            };
            if random.next_below(10) == 0 {
                extra.give_back(*has - FIRST);
                *has = FIRST;
            } else {
                let wanted = (*has).min(RECEIVES - *has);
                let taken = extra.take(wanted);
                was_scarce |= taken < wanted;
                *has += taken;
            }
        }
        let posted: usize = has.iter().sum();
        assert!(was_scarce && posted <= DEPTH);
        assert_eq!(posted, LANES * FIRST + extra.0);
    }
}
