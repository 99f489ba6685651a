// SPDX-License-Identifier: GPL-2.0

//! Credit flow control, for connections without flow control by the device. Pure: no locks, no I/O.
//!
//! Each side grants the other the receives that it has posted. The first receive is known without a grant, so that
//! the first grant can arrive. The last credit is kept for grants, so that two sides that have used up their credits
//! can still send grants to each other.

use super::{
    super::wire::Flow,
    MAX_REQUESTS, //
};

/// Largest number of receives that stay in use until the peer has been sent a response, which may need a grant first.
/// One of them is for the peer's grant.
const RESERVED_RX: u32 = MAX_REQUESTS as u32 + 1;

/// Credit state of one side of a connection.
pub(in super::super) struct Credits {
    flow: Flow,
    /// Number of packets that may be sent.
    tx_credits: u64,
    /// Number of posted receives that have not been granted. The first one needs no grant.
    pending_grant: i64,
    /// Number of ungranted receives that makes a grant due.
    grant_threshold: i64,
    /// Number of receive buffers, posted or in use.
    receives: u32,
    /// Number of granted packets that may still arrive.
    rx_outstanding: i64,
    /// True if it is known whether the peer uses credits.
    is_flow_known: bool,
    /// True if the peer has sent a grant.
    has_credits: bool,
}

/// Error: the peer granted more receives than possible, or used more than were granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct CreditError;

impl Credits {
    /// Creates the credits of a new connection without receives. `is_flow_known` is false while it is unknown whether
    /// the peer uses credits.
    pub(in super::super) fn new(flow: Flow, is_flow_known: bool) -> Self {
        Self {
            flow,
            tx_credits: 1,
            pending_grant: -1,
            grant_threshold: 1,
            receives: 0,
            rx_outstanding: 1,
            is_flow_known,
            has_credits: false,
        }
    }

    /// Returns the number of receive buffers, posted or in use.
    pub(in super::super) fn receives(&self) -> u32 {
        self.receives
    }

    /// Adds a posted receive buffer; a connection needs at least two. Grants are packets too, so a grant is due when
    /// the peer has used three quarters of the receives, which it need not wait for, or all but [`RESERVED_RX`].
    pub(in super::super) fn add_rx_buf(&mut self) {
        self.receives += 1;
        self.pending_grant += 1;
        let reserved = self.receives.div_ceil(4).max(RESERVED_RX);
        self.grant_threshold = i64::from(self.receives.saturating_sub(reserved)).max(1);
    }

    /// Counts a packet from the peer.
    ///
    /// # Errors
    ///
    /// The peer had no credit for it.
    #[inline(always)]
    pub(in super::super) fn on_rx(&mut self) -> Result<(), CreditError> {
        self.rx_outstanding -= 1;
        let counts = self.is_flow_known && self.flow == Flow::Credits;
        match counts && self.rx_outstanding < 0 {
            true => Err(CreditError),
            false => Ok(()),
        }
    }

    /// Returns whether the connection could have been used for sending.
    pub(in super::super) fn are_usable(&self) -> bool {
        self.has_credits || self.flow == Flow::Device
    }

    /// Sets the flow control that both sides have agreed on.
    pub(in super::super) fn set_flow(&mut self, flow: Flow) {
        self.flow = flow;
        self.is_flow_known = true;
    }

    /// Takes a credit for a packet, if there is one. Grants use [`Self::take_grant`] instead.
    #[inline]
    pub(in super::super) fn take_credit(&mut self) -> bool {
        if self.flow == Flow::Device {
            return true;
        }
        let has_credit = self.tx_credits > 1;
        self.tx_credits -= u64::from(has_credit);
        has_credit
    }

    /// Returns the credit of a packet that was not sent.
    #[inline]
    pub(in super::super) fn return_credit(&mut self) {
        self.tx_credits += u64::from(self.flow != Flow::Device);
    }

    /// Counts a receive that has been posted again.
    #[inline]
    pub(in super::super) fn rx_reposted(&mut self) {
        self.pending_grant += 1;
    }

    /// Returns whether a grant should be sent now.
    #[inline(always)]
    pub(in super::super) fn grant_due(&self) -> bool {
        self.pending_grant >= self.grant_threshold
            && self.tx_credits > 0
            && self.flow == Flow::Credits
    }

    /// Takes the number of receives to grant and the credit for the grant, if a grant is due.
    pub(in super::super) fn take_grant(&mut self) -> Option<u64> {
        if !self.grant_due() {
            return None;
        }
        let count = u64::try_from(self.pending_grant).ok()?;
        self.tx_credits -= 1;
        self.rx_outstanding += self.pending_grant;
        self.pending_grant = 0;
        Some(count)
    }

    /// Undoes [`Self::take_grant`] for a grant that was not sent.
    pub(in super::super) fn undo_grant(&mut self, count: u64) {
        self.tx_credits += 1;
        self.pending_grant = self.pending_grant.saturating_add_unsigned(count);
        self.rx_outstanding = self.rx_outstanding.saturating_sub_unsigned(count);
    }

    /// Adds the credits of the peer's grant.
    ///
    /// # Errors
    ///
    /// The sum is more than 2^32 - 1.
    pub(in super::super) fn add_credits(&mut self, count: u64) -> Result<(), CreditError> {
        const MOST: u64 = u32::MAX as u64;
        if count > MOST || self.tx_credits + count > MOST {
            return Err(CreditError);
        }
        self.tx_credits += count;
        self.has_credits = true;
        Ok(())
    }
}

#[kernel::prelude::kunit_tests(kofi_rdm_credits)]
mod tests {
    use super::*;
    use crate::util::random::SeededRandom;

    /// Creates the credits of a connection with `receives` ungranted receives.
    fn of(flow: Flow, receives: u32) -> Credits {
        let mut credits = Credits::new(flow, true);
        for _ in 0..receives {
            credits.add_rx_buf();
        }
        credits
    }

    fn post_again(credits: &mut Credits, count: u32) {
        for _ in 0..count {
            credits.rx_reposted();
        }
    }

    #[test]
    fn first_grant_covers_all_receives_but_one() {
        let mut credits = of(Flow::Credits, 128);
        assert!(!credits.take_credit());
        assert_eq!(credits.take_grant(), Some(127));
        assert_eq!(credits.take_grant(), None);
        // The grant used the only credit.
        post_again(&mut credits, 96);
        assert_eq!(credits.take_grant(), None);
        assert!(credits.add_credits(127).is_ok());
        assert_eq!(credits.take_grant(), Some(96));
        for _ in 0..125 {
            assert!(credits.take_credit());
        }
        assert!(!credits.take_credit());
        post_again(&mut credits, 96);
        assert_eq!(credits.take_grant(), Some(96));
    }

    #[test]
    fn grant_waits_for_a_minimum_of_receives() {
        let mut credits = of(Flow::Credits, 40);
        assert_eq!(credits.take_grant(), Some(39));
        assert!(credits.add_credits(8).is_ok());
        post_again(&mut credits, 29);
        assert_eq!(credits.take_grant(), None);
        credits.rx_reposted();
        assert_eq!(credits.take_grant(), Some(30));
    }

    #[test]
    fn undone_grants_and_credits_are_available_again() {
        let mut credits = of(Flow::Credits, 8);
        let grant = credits.take_grant();
        assert_eq!(grant, Some(7));
        credits.undo_grant(7);
        assert_eq!(credits.take_grant(), grant);
        assert!(credits.add_credits(2).is_ok());
        assert!(credits.take_credit());
        assert!(!credits.take_credit());
        credits.return_credit();
        assert!(credits.take_credit());
    }

    #[test]
    fn device_flow_control_counts_no_credits() {
        let mut credits = of(Flow::Device, 8);
        assert_eq!(credits.take_grant(), None);
        assert!((0..1000).all(|_| credits.take_credit()));
    }

    #[test]
    fn credits_beyond_32_bits_are_a_violation() {
        let mut credits = of(Flow::Credits, 8);
        assert_eq!(credits.add_credits(u64::MAX), Err(CreditError));
        assert_eq!(credits.add_credits(1 << 32), Err(CreditError));
        assert!(credits.add_credits(1 << 31).is_ok());
        assert_eq!(credits.add_credits(1 << 31), Err(CreditError));
        assert!(credits.take_credit());
    }

    #[test]
    fn grant_is_due_when_all_but_the_reserved_receives_are_reposted() {
        for receives in 2 * RESERVED_RX..64 {
            let mut credits = of(Flow::Credits, receives);
            assert!(credits.take_grant().is_some() && credits.add_credits(2).is_ok());
            post_again(&mut credits, receives - RESERVED_RX);
            assert!(credits.grant_due());
        }
    }

    #[test]
    fn packet_without_a_credit_is_a_violation() {
        let mut credits = of(Flow::Credits, 8);
        // The first receive needs no grant.
        assert!(credits.on_rx().is_ok());
        assert_eq!(credits.on_rx(), Err(CreditError));
        let mut credits = of(Flow::Credits, 8);
        assert_eq!(credits.take_grant(), Some(7));
        assert!((0..8).all(|_| credits.on_rx().is_ok()));
        assert_eq!(credits.on_rx(), Err(CreditError));
    }

    #[test]
    fn undone_grant_permits_no_packet() {
        let mut credits = of(Flow::Credits, 8);
        assert_eq!(credits.take_grant(), Some(7));
        credits.undo_grant(7);
        assert!(credits.on_rx().is_ok());
        assert_eq!(credits.on_rx(), Err(CreditError));
    }

    #[test]
    fn packets_are_not_counted_before_flow_control_is_known() {
        let mut credits = Credits::new(Flow::Credits, false);
        assert!((0..100).all(|_| credits.on_rx().is_ok()));
        credits.set_flow(Flow::Device);
        assert!((0..100).all(|_| credits.on_rx().is_ok()));
        // The check starts when the flow control is known.
        let mut credits = Credits::new(Flow::Credits, false);
        assert!((0..2).all(|_| credits.on_rx().is_ok()));
        credits.set_flow(Flow::Credits);
        assert_eq!(credits.on_rx(), Err(CreditError));
    }

    #[test]
    fn added_receives_join_the_next_grant() {
        let mut credits = of(Flow::Credits, 32);
        assert_eq!(credits.take_grant(), Some(31));
        assert!(credits.add_credits(8).is_ok());
        post_again(&mut credits, 24);
        assert!(credits.grant_due());
        for _ in 0..32 {
            credits.add_rx_buf();
        }
        assert_eq!((credits.receives(), credits.take_grant()), (64, Some(56)));
    }

    /// Models one side of a connection whose device does not retry.
    struct Side {
        credits: Credits,
        /// Number of posted receives.
        receives: u32,
        /// Number of packets whose receives have to be posted again.
        held: u32,
        /// Grants in flight to this side.
        grants: [u64; 2],
        /// Number of packets in flight to this side.
        packets: u32,
        wants: u32,
        sent: u32,
    }

    impl Side {
        fn new(receives: u32) -> Self {
            Self {
                credits: of(Flow::Credits, receives),
                receives,
                held: 0,
                grants: [0; 2],
                packets: 0,
                wants: 0,
                sent: 0,
            }
        }

        /// Takes a receive for a packet.
        fn use_receive(&mut self) {
            assert!(self.receives > 0);
            assert!(self.credits.on_rx().is_ok());
            self.receives -= 1;
        }

        fn post(&mut self, count: u32) {
            self.receives += count;
            post_again(&mut self.credits, count);
        }
    }

    /// Runs one random step of the model.
    fn step(sides: &mut [Side; 2], random: &mut SeededRandom) {
        let who = random.next_below(2) as usize;
        let [one, other] = sides;
        let (own, peer) = if who == 0 { (one, other) } else { (other, one) };
        match random.next_below(5) {
            0 if own.credits.receives() < 64 && random.next_below(100) == 0 => {
                own.receives += 1;
                own.credits.add_rx_buf();
            }
            1 if own.wants > 0 && own.credits.take_credit() => {
                own.wants -= 1;
                own.sent += 1;
                peer.packets += 1;
            }
            2 => {
                let grant_slot = peer.grants.iter_mut().find(|grant| **grant == 0);
                if let Some(grant_slot) = grant_slot {
                    *grant_slot = own.credits.take_grant().unwrap_or(0);
                }
            }
            3 if own.packets > 0 => {
                own.use_receive();
                own.packets -= 1;
                own.held += 1;
            }
            3 => {
                let grant = own.grants.iter_mut().find(|grant| **grant > 0);
                let count = grant.map_or(0, core::mem::take);
                if count > 0 {
                    own.use_receive();
                    assert!(own.credits.add_credits(count).is_ok());
                    own.post(1);
                }
            }
            _ => {
                let count = random.next_below(u64::from(own.held) + 1) as u32;
                own.held -= count;
                own.post(count);
            }
        }
    }

    #[test]
    fn random_traffic_arrives_within_the_credits() {
        const MESSAGES: u32 = 500;
        for (seed, receives) in [(1, 2), (2, 3), (3, 8), (4, 64), (5, 2), (6, 4)] {
            let mut random = SeededRandom::new(seed);
            let mut sides = [Side::new(receives), Side::new(receives.max(4))];
            for side in &mut sides {
                side.wants = MESSAGES;
            }
            // More steps than are needed.
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
