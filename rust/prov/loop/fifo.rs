// SPDX-License-Identifier: GPL-2.0

//! A FIFO of slots that are used and freed in order: one allocation, and entries do not move.

use crate::abi::Result;
use kernel::prelude::*;

/// A FIFO of reusable slots.
///
/// # Invariants
///
/// The `len` slots from `first` on, modulo the number of slots, are in use.
pub(super) struct Fifo<T> {
    slots: KVVec<T>,
    first: usize,
    len: usize,
}

impl<T> Fifo<T> {
    /// A FIFO without slots.
    pub(super) const EMPTY: Self = Self {
        slots: KVVec::new(),
        first: 0,
        len: 0,
    };

    /// Makes a FIFO of `size` slots. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(size: usize, idle: impl Fn() -> T) -> Result<Self> {
        let mut slots = KVVec::with_capacity(size, GFP_KERNEL)?;
        for _ in 0..size {
            slots.push(idle(), GFP_KERNEL)?;
        }
        // No slot is in use.
        Ok(Self {
            slots,
            first: 0,
            len: 0,
        })
    }

    /// Returns how many slots are in use.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns how many slots are free.
    #[inline]
    pub(super) fn free_slots(&self) -> usize {
        self.slots.len() - self.len
    }

    /// Returns the index of the slot `offset` places after the first.
    #[inline(always)]
    fn slot_index(&self, offset: usize) -> usize {
        let at = self.first + offset;
        match at.checked_sub(self.slots.len()) {
            None => at,
            Some(around) => around,
        }
    }

    /// Returns the first entry in use.
    #[inline(always)]
    pub(super) fn front(&self) -> Option<&T> {
        match self.len {
            0 => None,
            _ => self.slots.get(self.first),
        }
    }

    /// Returns the first entry in use, mutably.
    #[inline]
    pub(super) fn front_mut(&mut self) -> Option<&mut T> {
        match self.len {
            0 => None,
            _ => self.slots.get_mut(self.first),
        }
    }

    /// Takes the next free slot into use, if there is one; it still has its last content.
    #[inline(always)]
    pub(super) fn alloc_slot(&mut self) -> Option<&mut T> {
        if self.free_slots() == 0 {
            return None;
        }
        let at = self.slot_index(self.len);
        self.len += 1;
        self.slots.get_mut(at)
    }

    /// Frees the first slot.
    #[inline(always)]
    pub(super) fn free_first(&mut self) {
        if self.len > 0 {
            self.first = self.slot_index(1);
            self.len -= 1;
        }
    }

    /// Iterates over the entries in use, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len).filter_map(|offset| self.slots.get(self.slot_index(offset)))
    }
}

#[kunit_tests(kofi_loop_ring)]
mod tests {
    use super::*;

    fn is(ring: &Fifo<u32>, numbers: &[u32]) -> bool {
        ring.len() == numbers.len() && ring.iter().copied().eq(numbers.iter().copied())
    }

    #[test]
    fn in_turn_around_the_end() -> Result {
        let mut ring = Fifo::new(3, || 0)?;
        assert!(ring.is_empty() && ring.free_slots() == 3 && ring.front().is_none());
        for round in 0..5 {
            for number in 0..3 {
                let slot = ring.alloc_slot();
                assert!(slot.map(|slot| *slot = round + number).is_some());
            }
            assert!(ring.alloc_slot().is_none() && ring.free_slots() == 0);
            assert!(is(&ring, &[round, round + 1, round + 2]));
            ring.free_first();
            assert!(ring.front() == Some(&(round + 1)));
            let slot = ring.alloc_slot();
            assert!(slot.map(|slot| *slot = 9).is_some());
            assert!(is(&ring, &[round + 1, round + 2, 9]));
            for _ in 0..3 {
                ring.free_first();
            }
            assert!(is(&ring, &[]) && ring.front_mut().is_none());
        }
        Ok(())
    }

    #[test]
    fn none_has_no_slots() {
        let mut none = Fifo::<u32>::EMPTY;
        assert!(none.alloc_slot().is_none() && none.free_slots() == 0);
        none.free_first();
        assert!(none.is_empty());
    }
}
