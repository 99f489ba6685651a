// SPDX-License-Identifier: GPL-2.0

//! How many packets a peer has room for, where the device does not see to that.
//!
//! Each side tells the other of the receives that it has posted. One is there from the beginning without
//! a word, so that the first word can come; and the last one is kept for such words, so that two sides
//! that have used up what they have been told of can tell each other of more.

use super::wire::Flow;

/// What a side of a connection knows.
pub(super) struct Credits {
    flow: Flow,
    /// How many packets the peer has room for.
    room: u64,
    /// How many receives of ours it has not been told of. The first one it knows.
    untold: i64,
    /// So many are worth a word.
    worth: i64,
    /// The peer has told of its receives.
    is_told: bool,
}

/// The peer tells of more receives than anybody has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Absurd;

impl Credits {
    /// Those of a new connection, for which we post `receives` at a time, two at least. Words are packets too:
    /// there is one when the peer has used three quarters of them, which it need not wait for.
    pub(super) fn new(flow: Flow, receives: u32) -> Self {
        Self {
            flow,
            room: 1,
            untold: -1,
            worth: i64::from(receives - receives.div_ceil(4)).max(1),
            is_told: false,
        }
    }

    /// Whether something could have been sent by the connection since it is there.
    pub(super) fn are_there(&self) -> bool {
        self.is_told || self.flow == Flow::Device
    }

    /// What both sides have agreed upon.
    pub(super) fn agree(&mut self, flow: Flow) {
        self.flow = flow;
    }

    /// Whether a packet can be sent; then it is counted. Not for [`Self::word`].
    #[inline]
    pub(super) fn take(&mut self) -> bool {
        if self.flow == Flow::Device {
            return true;
        }
        let is_room = self.room > 1;
        self.room -= u64::from(is_room);
        is_room
    }

    /// A packet that was counted has not been sent.
    #[inline]
    pub(super) fn give_back(&mut self) {
        self.room += 1;
    }

    /// So many receives have been posted.
    #[inline]
    pub(super) fn posted(&mut self, count: u32) {
        self.untold += i64::from(count);
    }

    /// Whether the peer is to be told of receives now.
    #[inline(always)]
    pub(super) fn is_due(&self) -> bool {
        self.untold >= self.worth && self.room > 0 && self.flow == Flow::Credits
    }

    /// How many receives the peer is to be told of now, if any; then that packet is counted.
    pub(super) fn word(&mut self) -> Option<u64> {
        if !self.is_due() {
            return None;
        }
        let count = u64::try_from(self.untold).ok()?;
        self.room -= 1;
        self.untold = 0;
        Some(count)
    }

    /// The packet with that word has not been sent.
    pub(super) fn unsaid(&mut self, count: u64) {
        self.room += 1;
        self.untold = self.untold.saturating_add_unsigned(count);
    }

    /// The peer has told of so many.
    ///
    /// # Errors
    ///
    /// More than can be.
    pub(super) fn told(&mut self, count: u64) -> Result<(), Absurd> {
        const MOST: u64 = u32::MAX as u64;
        if count > MOST || self.room + count > MOST {
            return Err(Absurd);
        }
        self.room += count;
        self.is_told = true;
        Ok(())
    }
}

#[kernel::prelude::kunit_tests(kofi_rdm_credits)]
mod tests {
    use super::*;
    use crate::abi::random::Repeatable;

    #[test]
    fn the_first_word_is_of_all_receives_but_the_one_that_is_known() {
        let mut credits = Credits::new(Flow::Credits, 128);
        assert!(!credits.take());
        credits.posted(128);
        assert_eq!(credits.word(), Some(127));
        assert_eq!(credits.word(), None);
        // It was the one packet that there was room for.
        credits.posted(96);
        assert_eq!(credits.word(), None);
        assert!(credits.told(127).is_ok());
        assert_eq!(credits.word(), Some(96));
        for _ in 0..125 {
            assert!(credits.take());
        }
        assert!(!credits.take());
        credits.posted(96);
        assert_eq!(credits.word(), Some(96));
    }

    #[test]
    fn a_few_receives_are_not_worth_a_word() {
        let mut credits = Credits::new(Flow::Credits, 8);
        credits.posted(6);
        assert_eq!(credits.word(), None);
        credits.posted(1);
        assert_eq!(credits.word(), Some(6));
    }

    #[test]
    fn what_was_not_sent_does_not_count() {
        let mut credits = Credits::new(Flow::Credits, 8);
        credits.posted(8);
        let word = credits.word();
        assert_eq!(word, Some(7));
        credits.unsaid(7);
        assert_eq!(credits.word(), word);
        assert!(credits.told(2).is_ok());
        assert!(credits.take());
        assert!(!credits.take());
        credits.give_back();
        assert!(credits.take());
    }

    #[test]
    fn where_the_device_sees_to_it_nobody_counts() {
        let mut credits = Credits::new(Flow::Device, 8);
        credits.posted(8);
        assert_eq!(credits.word(), None);
        assert!((0..1000).all(|_| credits.take()));
    }

    #[test]
    fn nobody_has_so_many() {
        let mut credits = Credits::new(Flow::Credits, 8);
        assert_eq!(credits.told(u64::MAX), Err(Absurd));
        assert_eq!(credits.told(1 << 32), Err(Absurd));
        assert!(credits.told(1 << 31).is_ok());
        assert_eq!(credits.told(1 << 31), Err(Absurd));
        assert!(credits.take());
    }

    /// One side of a connection, with a device that has no mercy.
    struct Side {
        credits: Credits,
        /// Receives that are posted.
        receives: u32,
        /// Packets that have arrived, and whose receives are to be posted again.
        held: u32,
        /// Words on their way to it, at most.
        words: [u64; 2],
        /// Packets and words on their way to it.
        packets: u32,
        wants: u32,
        sent: u32,
    }

    impl Side {
        fn new(receives: u32) -> Self {
            let mut credits = Credits::new(Flow::Credits, receives);
            credits.posted(receives);
            Self {
                credits,
                receives,
                held: 0,
                words: [0; 2],
                packets: 0,
                wants: 0,
                sent: 0,
            }
        }

        /// Takes a receive for what arrives.
        fn use_receive(&mut self) {
            assert!(self.receives > 0);
            self.receives -= 1;
        }

        fn post(&mut self, count: u32) {
            self.receives += count;
            self.credits.posted(count);
        }
    }

    /// Lets both sides do one thing of those that they can do.
    fn step(sides: &mut [Side; 2], random: &mut Repeatable) {
        let who = random.below(2) as usize;
        let [one, other] = sides;
        let (own, peer) = if who == 0 { (one, other) } else { (other, one) };
        match random.below(4) {
            0 if own.wants > 0 && own.credits.take() => {
                own.wants -= 1;
                own.sent += 1;
                peer.packets += 1;
            }
            1 => {
                let slot = peer.words.iter_mut().find(|word| **word == 0);
                if let Some(slot) = slot {
                    *slot = own.credits.word().unwrap_or(0);
                }
            }
            2 if own.packets > 0 => {
                own.use_receive();
                own.packets -= 1;
                own.held += 1;
            }
            2 => {
                let word = own.words.iter_mut().find(|word| **word > 0);
                let count = word.map_or(0, core::mem::take);
                if count > 0 {
                    own.use_receive();
                    assert!(own.credits.told(count).is_ok());
                    own.post(1);
                }
            }
            _ => {
                let count = random.below(u64::from(own.held) + 1) as u32;
                own.held -= count;
                own.post(count);
            }
        }
    }

    #[test]
    fn nothing_arrives_without_a_receive_and_all_arrives() {
        const MESSAGES: u32 = 500;
        for (seed, receives) in [(1, 2), (2, 3), (3, 8), (4, 64), (5, 2), (6, 4)] {
            let mut random = Repeatable::new(seed);
            let mut sides = [Side::new(receives), Side::new(receives.max(4))];
            for side in &mut sides {
                side.wants = MESSAGES;
            }
            // Far more steps than it takes.
            for _ in 0..200_000 {
                step(&mut sides, &mut random);
                if sides.iter().all(|side| side.sent == MESSAGES) {
                    break;
                }
            }
            assert!(sides.iter().all(|side| side.sent == MESSAGES));
        }
    }
}
