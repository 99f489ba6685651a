// SPDX-License-Identifier: GPL-2.0

//! Peers, and the connections with them.

use super::{
    below::Lower,
    credits::Credits,
    farewell::{
        Parting,
        Rest, //
    },
    flights::{
        Flights,
        Refused, //
    },
    posting::{
        Packet,
        Use, //
    },
    receive::{
        Collected,
        Parts,
        Receive, //
    },
    segments::Partials,
    supply::SOON,
    turns::Turns,
    wire::{
        Extensions,
        Head, //
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
pub(super) const RECEIVES: usize = 64;

/// And from the beginning.
pub(super) const FIRST: usize = RECEIVES / 4;

/// Words of ours that may be on their way to a peer.
pub(super) const WORDS: usize = 8;

/// Segments of ours that may be on their way to a peer, beside the last ones of messages.
pub(super) const SEGMENTS: usize = 8;

/// Messages of a peer's that are being read.
pub(super) const FETCHES: usize = 8;

/// Operations that a peer has been asked for and has not answered. Each takes a receive of the peer's
/// until the answer has gone: the others are for what else is said.
pub(super) const ATOMICS: usize = FIRST / 2;

/// Messages of a peer's of which some segments are there, and others to come.
pub(super) const PARTIALS: usize = 128;

/// A connection with a peer, or what is to become one.
pub(super) struct Lane {
    /// The endpoint below.
    pub(super) lower: Lower,
    /// Which attempt it is.
    pub(super) attempt: usize,
    /// What the peer calls it; known when it is there.
    pub(super) to: Option<u64>,
    /// What the peer understands beyond the protocol.
    pub(super) extensions: Extensions,
    /// Where its packets are posted, if it shares them with others.
    pub(super) shared: Option<Arc<SharedReceive>>,
    /// How many of its packets are posted.
    pub(super) posted: i64,
    /// How many it has beyond its first ones, or is to have, of those that are shared.
    pub(super) extra: usize,
    /// How many more are to be made for it.
    pub(super) lacks: usize,
    /// What each side has room for.
    pub(super) credits: Credits,
    /// When the peer was last told of some, while it may have more.
    told: Option<Instant<Monotonic>>,
    /// Packets for words to the peer that are not on their way.
    pub(super) words: BoxList<Packet>,
    /// What messages in segments are kept with that are not there.
    pub(super) parts: BoxList<Parts>,
    /// How many more segments may be on their way.
    pub(super) segments: usize,
    /// How many more messages may be read.
    pub(super) fetches: usize,
    /// Whether one may be now, or something else be posted.
    pub(super) turns: Turns,
    /// How many more operations the peer may be asked for.
    pub(super) atomics: usize,
    /// What has come of operations that the peer has asked for, and is to be sent.
    pub(super) answers: BoxList<Packet>,
    /// Part of a message is on its way whose rest has no other packet, or one is being handed over.
    pub(super) is_carrying: bool,
    /// Number of the packet with the last answer to a peer that violated its access rights. The connection ends
    /// when the answer has been sent, and packets that arrive on it are dropped.
    pub(super) last_answer: Option<u32>,
    /// Whether it is to end, as it is not needed.
    pub(super) parting: Parting,
    /// When something was last done by it, on the endpoint's own clock.
    pub(super) used: u64,
    /// For how long nobody has used it, in rounds of those who look for what is idle.
    pub(super) idle: Rest,
    /// The same of those who wait for room.
    pub(super) rest: Rest,
    /// Nothing goes or comes any more.
    pub(super) is_broken: bool,
}

impl Lane {
    /// A new one.
    pub(super) fn new(
        lower: Lower,
        attempt: usize,
        shared: Option<Arc<SharedReceive>>,
        credits: Credits,
        turns: Turns,
        parting: Parting,
        parts: BoxList<Parts>,
    ) -> Self {
        Self {
            lower,
            attempt,
            to: None,
            extensions: Extensions::NONE,
            shared,
            posted: 0,
            extra: 0,
            lacks: 0,
            credits,
            told: None,
            words: BoxList::new(),
            parts,
            segments: SEGMENTS,
            fetches: FETCHES,
            turns,
            atomics: ATOMICS,
            answers: BoxList::new(),
            is_carrying: false,
            last_answer: None,
            parting,
            used: 0,
            idle: Rest::new(),
            rest: Rest::new(),
            is_broken: false,
        }
    }

    /// Whether something can be sent by it.
    pub(super) fn is_open(&self) -> bool {
        self.to.is_some() && !self.is_broken
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
        flights: &mut Flights<Packet>,
        mut packet: ListBox<Packet>,
    ) -> core::result::Result<(), Refused<Packet>> {
        packet.attempt = self.attempt;
        packet.slot = slot_of_attempt(self.attempt);
        let (lower, shared) = (&self.lower, &self.shared);
        Packet::receive(packet, flights, |message| match shared {
            None => lower.receive(message),
            Some(shared) => shared.core().receive(message),
        })?;
        self.posted += 1;
        Ok(())
    }

    /// Returns whether packets from the peer are processed.
    #[inline(always)]
    pub(super) fn is_heard(&self) -> bool {
        !self.is_broken && self.last_answer.is_none()
    }

    /// Whether its peer is to be told of more receives than before: it has soon used up what it was told of.
    #[inline(always)]
    pub(super) fn is_narrow(&self) -> bool {
        self.credits.receives() < RECEIVES as u32 && self.credits.is_due() && self.is_in_a_hurry()
    }

    #[inline(never)]
    fn is_in_a_hurry(&self) -> bool {
        let is_soon = |told: Instant<Monotonic>| (told.elapsed() - SOON).is_negative();
        self.lacks == 0 && self.told.is_some_and(is_soon)
    }

    /// Whether a packet may be sent now; then it is counted.
    #[inline(always)]
    pub(super) fn may_send(&mut self) -> bool {
        if !self.credits.take() {
            return false;
        }
        let may_send = self.turns.may_send();
        if !may_send {
            self.credits.give_back();
        }
        may_send
    }

    /// Whether there is something to be done for it, operations and fetches aside.
    #[inline(always)]
    fn has_business(&self) -> bool {
        self.is_broken
            || self.credits.is_due()
            || self.turns.is_awaited()
            || !self.answers.is_empty()
    }

    /// Notes why something has not been posted.
    pub(super) fn refused(&mut self, errno: Errno) {
        self.is_broken |= errno != Errno::EAGAIN;
    }

    /// Tells the peer something, if that is possible now. The credit that it takes is the caller's.
    fn tell(&mut self, flights: &mut Flights<Packet>, head: &Head) -> bool {
        let (Some(to), false) = (self.to, self.is_broken) else {
            return false;
        };
        if !self.turns.may_send() {
            return false;
        }
        let Some(mut word) = self.words.pop() else {
            return false;
        };
        word.usage = Use::Word;
        word.write_any(to, head, 0);
        match Packet::send(word, flights, &self.lower) {
            Ok(()) => true,
            Err(refused) => {
                self.refused(refused.errno);
                self.words.push(refused.own);
                false
            }
        }
    }

    /// The same of something that takes a credit as any packet does.
    pub(super) fn say(&mut self, flights: &mut Flights<Packet>, head: &Head) -> bool {
        if self.to.is_none() || !self.credits.take() {
            return false;
        }
        let is_said = self.tell(flights, head);
        if !is_said {
            self.credits.give_back();
        }
        is_said
    }

    /// Tells the peer of receives, if that is due.
    pub(super) fn say_credits(&mut self, flights: &mut Flights<Packet>) {
        if self.to.is_none() || self.words.is_empty() {
            return;
        }
        if let Some(count) = self.credits.word() {
            if !self.tell(flights, &Head::Credit(count)) {
                self.credits.unsaid(count);
            } else if self.credits.receives() < RECEIVES as u32 {
                self.told = Some(Instant::now());
            }
        }
    }

    /// Sends what has come of the peer's operations, as far as there is room.
    pub(super) fn send_answers(&mut self, flights: &mut Flights<Packet>) {
        let Some(to) = self.to else {
            return;
        };
        while !self.is_broken && !self.answers.is_empty() && self.may_send() {
            let Some(mut answer) = self.answers.pop() else {
                return;
            };
            answer.address(to);
            if let Err(refused) = Packet::send(answer, flights, &self.lower) {
                self.refused(refused.errno);
                self.credits.give_back();
                self.answers.push_front(refused.own);
                return;
            }
        }
    }
}

/// Somebody whom there is, was, or is to be a connection with.
pub(super) struct Peer {
    /// Where it listens.
    pub(super) addr: SocketAddr,
    pub(super) lane: Option<Lane>,
    /// What is to be sent, in order.
    pub(super) waiting: BoxList<Packet>,
    /// The first of that has its memory opened just now, and the others wait behind it.
    pub(super) is_opening: bool,
    /// Operations that it knows of, and has not answered.
    pub(super) unanswered: BoxList<Packet>,
    /// Receives of messages that are to be read, or of which it is to be told that they have been.
    pub(super) fetching: BoxList<Receive>,
    /// Messages of which there are segments.
    pub(super) partials: Partials<Collected>,
    /// How many packets it has, those that wait included.
    pub(super) load: usize,
    /// How many packets of its have not been looked at.
    pub(super) held: usize,
    /// How much memory its messages have that wait for receives, in bytes.
    pub(super) parked: usize,
    /// What calls for somebody to look after it, unless that has been done.
    pub(super) call: Option<ListBox<u32>>,
}

impl Peer {
    /// One that nothing is known of but where it is; `slot` is its number.
    pub(super) fn new(addr: SocketAddr, slot: u32) -> Result<KBox<Self>> {
        let call = Some(ListBox::new(slot)?);
        Ok(KBox::new(
            Self {
                addr,
                lane: None,
                waiting: BoxList::new(),
                is_opening: false,
                unanswered: BoxList::new(),
                fetching: BoxList::new(),
                partials: Partials::new(2 * PARTIALS),
                load: 0,
                held: 0,
                parked: 0,
                call,
            },
            GFP_KERNEL,
        )?)
    }

    /// Whether there is something to be done for it, as far as that is possible.
    #[inline(always)]
    pub(super) fn has_business(&self) -> bool {
        !self.waiting.is_empty()
            || !self.fetching.is_empty()
            || self.lane.as_ref().is_some_and(Lane::has_business)
    }

    /// How many packets are to be made for its connection.
    pub(super) fn lacks(&self) -> usize {
        self.lane.as_ref().map_or(0, |lane| lane.lacks)
    }

    /// Whether the next operation with it needs memory that is to be opened to it.
    pub(super) fn is_closed(&self) -> bool {
        self.waiting.front().is_some_and(|next| next.is_closed())
    }

    /// Its connection is to be closed, if there is one.
    pub(super) fn break_off(&mut self, calls: &mut BoxList<u32>) {
        if let Some(lane) = &mut self.lane {
            lane.is_broken = true;
            if let Some(call) = self.call.take() {
                calls.push(call);
            }
        }
    }

    /// Returns whether packets that arrive on the peer's connection are dropped.
    pub(super) fn is_refused(&self) -> bool {
        let lane = self.lane.as_ref();
        lane.is_some_and(|lane| lane.last_answer.is_some())
    }

    /// Whether that attempt has become its connection, or is to.
    pub(super) fn has(&self, attempt: usize) -> bool {
        let lane = self.lane.as_ref();
        lane.is_some_and(|lane| lane.attempt == attempt)
    }
}

/// The number of the end that accepts a connection of ourselves with ourselves.
pub(super) const fn mirror(slot: u32) -> u32 {
    slot | 1
}

/// Whether it is such a number.
pub(super) const fn is_mirror(slot: u32) -> bool {
    slot & 1 != 0
}

/// The number of the peer that is the `index`th to have one.
pub(super) fn slot_of(index: u64) -> Option<u32> {
    u32::try_from(index).ok()?.checked_mul(2)
}

/// The number of an attempt at a connection: the `count`th one, with that peer.
pub(super) const fn attempt_of(count: u32, slot: u32) -> usize {
    (count as usize) << 32 | slot as usize
}

/// The peer whose it is.
pub(super) const fn slot_of_attempt(attempt: usize) -> u32 {
    attempt as u32
}
