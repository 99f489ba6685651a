// SPDX-License-Identifier: GPL-2.0

//! Acknowledgements of delivered messages (FI_DELIVERY_COMPLETE) on one connection. Pure: no locks, no I/O.
//!
//! The sender gives each message that awaits an acknowledgement one of [`SLOTS`] slots, which the message names. When
//! the message is in its receive, the receiver marks the slot, and sends all marked slots as a bitmap in one packet. So
//! neither end allocates or searches, whatever the other does.

use super::super::wire::{
    AckSlot,
    ProtoError, //
};

/// State of one connection, as bitmaps of slots.
///
/// # Invariants
///
/// `acked` is a part of `awaited`, and `delivered` of `owed`.
pub(in super::super) struct Acks {
    /// Slots of own messages that the peer has to acknowledge.
    awaited: u64,
    /// Slots of own messages that the peer has acknowledged before their sends completed.
    acked: u64,
    /// Slots of messages of the peer that have arrived and have not been acknowledged.
    owed: u64,
    /// Slots of messages of the peer that are in their receives.
    delivered: u64,
}

impl Acks {
    /// Creates the state of a new connection.
    pub(in super::super) const fn new() -> Self {
        Self {
            awaited: 0,
            acked: 0,
            owed: 0,
            delivered: 0,
        }
    }

    /// Takes a slot for an own message; `None` if all are in use.
    pub(in super::super) fn take_slot(&mut self) -> Option<AckSlot> {
        let slot = AckSlot::new(self.awaited.trailing_ones() as u8)?;
        self.awaited |= slot.bit();
        Some(slot)
    }

    /// Frees the slot of an own message that has been acknowledged, or could not be sent.
    pub(in super::super) fn free_slot(&mut self, slot: AckSlot) {
        self.awaited &= !slot.bit();
        self.acked &= !slot.bit();
    }

    /// Returns whether an own message has been acknowledged.
    pub(in super::super) fn is_acked(&self, slot: AckSlot) -> bool {
        self.acked & slot.bit() != 0
    }

    /// Handles an acknowledgement of the messages in `slots`.
    ///
    /// # Errors
    ///
    /// The acknowledgement names no message, or one that awaits none.
    pub(in super::super) fn on_ack(&mut self, slots: u64) -> Result<(), ProtoError> {
        if slots == 0 || slots & !(self.awaited & !self.acked) != 0 {
            return Err(ProtoError(
                "acknowledgement of a message that does not await one",
            ));
        }
        self.acked |= slots;
        Ok(())
    }

    /// Handles a message of the peer that awaits an acknowledgement.
    ///
    /// # Errors
    ///
    /// Another message has its slot.
    pub(in super::super) fn on_message(&mut self, slot: AckSlot) -> Result<(), ProtoError> {
        if self.owed & slot.bit() != 0 {
            return Err(ProtoError(
                "acknowledgement slot that another message holds",
            ));
        }
        self.owed |= slot.bit();
        Ok(())
    }

    /// Forgets a message of the peer, which is going to be handled again.
    pub(in super::super) fn forget(&mut self, slot: AckSlot) {
        self.owed &= !slot.bit();
        self.delivered &= !slot.bit();
    }

    /// Marks a message of the peer as delivered.
    pub(in super::super) fn deliver(&mut self, slot: AckSlot) {
        self.delivered |= self.owed & slot.bit();
    }

    /// Returns the slots that can be acknowledged.
    #[inline(always)]
    pub(in super::super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Records that `slots` have been acknowledged.
    pub(in super::super) fn sent(&mut self, slots: u64) {
        self.owed &= !slots;
        self.delivered &= !slots;
    }
}

#[kernel::prelude::kunit_tests(kofi_rdm_acks)]
mod tests {
    use super::{
        super::super::wire::SLOTS,
        *, //
    };
    use crate::util::random::SeededRandom;

    #[test]
    fn as_many_messages_await_an_acknowledgement_as_there_are_slots() {
        let mut acks = Acks::new();
        for number in 0..SLOTS {
            assert!(acks.take_slot() == AckSlot::new(number));
        }
        assert!(acks.take_slot().is_none());
        assert!(acks.on_ack(1 << 63 | 1).is_ok());
        for number in [0, 63] {
            let slot = AckSlot::new(number);
            assert!(slot.is_some_and(|slot| acks.is_acked(slot)));
            if let Some(slot) = slot {
                acks.free_slot(slot);
            }
        }
        assert!(acks.take_slot() == AckSlot::new(0) && acks.take_slot() == AckSlot::new(63));
        assert!(AckSlot::new(SLOTS).is_none());
    }

    #[test]
    fn rdm_10_acknowledgements_of_unused_slots_are_violations() {
        let mut acks = Acks::new();
        assert!(acks.on_ack(0).is_err() && acks.on_ack(1).is_err());
        let slot = acks.take_slot();
        assert!(acks.on_ack(2).is_err() && acks.on_ack(3).is_err());
        assert!(acks.on_ack(1).is_ok() && acks.on_ack(1).is_err());
        if let Some(slot) = slot {
            acks.free_slot(slot);
        }
        assert!(acks.on_ack(1).is_err());
    }

    /// Checks that each message is acknowledged once, after its delivery, in whatever order messages are delivered.
    #[test]
    fn each_message_is_acknowledged_once() -> Result<(), ProtoError> {
        let mut random = SeededRandom::new(1);
        let (mut one, mut other) = (Acks::new(), Acks::new());
        let (mut arrived, mut delivered, mut done, mut started) = (0u64, 0u64, 0, 0);
        while done < 1_000 {
            match random.next_below(4) {
                0 => {
                    if let Some(slot) = one.take_slot() {
                        started += 1;
                        assert_eq!((arrived | delivered) & slot.bit(), 0);
                        other.on_message(slot)?;
                        assert!(other.on_message(slot).is_err());
                        arrived |= slot.bit();
                    }
                }
                1 => {
                    let slot = AckSlot::new(random.next_below(SLOTS.into()) as u8);
                    let Some(slot) = slot.filter(|slot| arrived & slot.bit() != 0) else {
                        continue;
                    };
                    other.deliver(slot);
                    arrived &= !slot.bit();
                    delivered |= slot.bit();
                }
                // A message that has not arrived cannot be delivered.
                2 => {
                    let slot = AckSlot::new(SLOTS - 1);
                    if let Some(slot) = slot.filter(|slot| (arrived | delivered) & slot.bit() == 0)
                    {
                        other.deliver(slot);
                    }
                }
                _ => {
                    let slots = other.delivered();
                    assert_eq!(slots, delivered);
                    if slots == 0 {
                        continue;
                    }
                    other.sent(slots);
                    one.on_ack(slots)?;
                    for slot in (0..SLOTS).filter_map(AckSlot::new) {
                        if slots & slot.bit() != 0 {
                            assert!(one.is_acked(slot));
                            one.free_slot(slot);
                            done += 1;
                        }
                    }
                    delivered = 0;
                }
            }
        }
        assert_eq!(
            started,
            done + arrived.count_ones() as usize + delivered.count_ones() as usize
        );
        Ok(())
    }
}
