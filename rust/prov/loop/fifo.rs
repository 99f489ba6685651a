// SPDX-License-Identifier: GPL-2.0

//! A FIFO of slots that are used and freed in order: one allocation, and entries do not move.

use super::prelude::*;

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

#[kunit_tests(kofi_loop_fifo)]
mod tests {
    use super::*;

    fn has_items(fifo: &Fifo<u32>, numbers: &[u32]) -> bool {
        fifo.len() == numbers.len() && fifo.iter().copied().eq(numbers.iter().copied())
    }

    #[test]
    fn fifo_keeps_order_across_the_wraparound() -> Result {
        let mut fifo = Fifo::new(3, || 0)?;
        assert!(fifo.is_empty() && fifo.free_slots() == 3 && fifo.front().is_none());
        for round in 0..5 {
            for number in 0..3 {
                let slot = fifo.alloc_slot();
                assert!(slot.map(|slot| *slot = round + number).is_some());
            }
            assert!(fifo.alloc_slot().is_none() && fifo.free_slots() == 0);
            assert!(has_items(&fifo, &[round, round + 1, round + 2]));
            fifo.free_first();
            assert!(fifo.front() == Some(&(round + 1)));
            let slot = fifo.alloc_slot();
            assert!(slot.map(|slot| *slot = 9).is_some());
            assert!(has_items(&fifo, &[round + 1, round + 2, 9]));
            for _ in 0..3 {
                fifo.free_first();
            }
            assert!(has_items(&fifo, &[]) && fifo.front_mut().is_none());
        }
        Ok(())
    }

    #[test]
    fn empty_fifo_has_no_slots() {
        let mut fifo = Fifo::<u32>::EMPTY;
        assert!(fifo.alloc_slot().is_none() && fifo.free_slots() == 0);
        fifo.free_first();
        assert!(fifo.is_empty());
    }
}
