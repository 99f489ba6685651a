// SPDX-License-Identifier: GPL-2.0

//! The free indices of a table: a bitmap whose lowest member is found in a constant number of steps.
//!
//! The lowest level has a bit per index; each further level has a bit for each word below that is not zero,
//! up to a single word.

use crate::fi::prelude::*;
use kernel::alloc::KVVec;

/// Number of levels, enough for every `u32`.
const LEVELS: usize = 6;
const WORD_BITS: u32 = u64::BITS;

/// The set of free indices.
pub(super) struct FreeIndexes {
    levels: [KVVec<u64>; LEVELS],
}

impl FreeIndexes {
    /// Returns an empty set without capacity.
    pub(super) const fn new() -> Self {
        Self {
            levels: [const { KVVec::new() }; LEVELS],
        }
    }

    /// Allocates capacity for the indices below `bound`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM; the capacity is unchanged.
    pub(super) fn reserve(&mut self, bound: u32) -> Result {
        let mut words = bound;
        for level in &mut self.levels {
            words = words.div_ceil(WORD_BITS);
            let len = words as usize;
            if len > level.len() {
                level.resize(len, 0, GFP_KERNEL)?;
            }
        }
        Ok(())
    }

    /// Adds an index; ignores one beyond the capacity.
    pub(super) fn add(&mut self, index: u32) {
        self.update(index, |word, bit| {
            let was_empty = *word == 0;
            *word |= bit;
            was_empty
        });
    }

    /// Calls `change` with the word and the bit of an index, and of its word in each further level as long as it
    /// returns true. Ignores an index beyond the capacity.
    fn update(&mut self, index: u32, change: impl Fn(&mut u64, u64) -> bool) {
        let mut at = index;
        for level in &mut self.levels {
            let word = level.get_mut((at / WORD_BITS) as usize);
            if !word.is_some_and(|word| change(word, 1 << (at % WORD_BITS))) {
                return;
            }
            at /= WORD_BITS;
        }
    }

    /// Returns the lowest free index.
    pub(super) fn lowest(&self) -> Option<u32> {
        let mut lowest = 0;
        for level in self.levels.iter().rev() {
            let word = level.get(lowest as usize)?;
            if *word == 0 {
                return None;
            }
            lowest = lowest * WORD_BITS + word.trailing_zeros();
        }
        Some(lowest)
    }

    /// Removes an index.
    pub(super) fn remove(&mut self, index: u32) {
        self.update(index, |word, bit| {
            *word &= !bit;
            *word == 0
        });
    }

    /// Returns the memory use in bytes.
    pub(super) fn size(&self) -> usize {
        let words = |level: &KVVec<u64>| level.capacity() * size_of::<u64>();
        self.levels.iter().map(words).sum()
    }
}

#[kunit_tests(kofi_fi_av_free_indexes)]
mod tests {
    use super::*;

    fn take_lowest(free: &mut FreeIndexes) -> Option<u32> {
        let lowest = free.lowest()?;
        free.remove(lowest);
        Some(lowest)
    }

    #[test]
    fn lowest_returns_the_smallest_free_index() -> kernel::error::Result {
        let mut free = FreeIndexes::new();
        assert!(take_lowest(&mut free).is_none());
        let indexes = [99_999, 64, 63, 4096, 0, 65, 70_000, 4095];
        assert!(free.reserve(100_000).is_ok());
        for index in indexes {
            free.add(index);
        }
        // A second add has no effect.
        free.add(64);
        let mut sorted = indexes;
        sorted.sort_unstable();
        for index in sorted {
            assert_eq!(take_lowest(&mut free), Some(index));
        }
        assert!(take_lowest(&mut free).is_none());
        Ok(())
    }

    #[test]
    fn reserve_keeps_the_free_indexes() -> kernel::error::Result {
        let mut free = FreeIndexes::new();
        for bound in [1, 64, 65, 4096, 4097, 262_145] {
            assert!(free.reserve(bound).is_ok());
            free.add(bound - 1);
            // The index is beyond the capacity, so it is ignored.
            free.add(bound.next_multiple_of(64));
        }
        for bound in [1, 64, 65, 4096, 4097, 262_145] {
            assert_eq!(take_lowest(&mut free), Some(bound - 1));
        }
        assert!(take_lowest(&mut free).is_none());
        Ok(())
    }

    #[test]
    fn free_indexes_match_a_naive_model() -> kernel::error::Result {
        const BOUND: usize = 5000;
        let mut free = FreeIndexes::new();
        let mut model = KVVec::from_elem(false, BOUND, GFP_KERNEL)?;
        assert!(free.reserve(BOUND as u32).is_ok());
        let mut seed = 1u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let index = (seed >> 33) as usize % BOUND;
            if seed >> 63 == 0 {
                free.add(index as u32);
                model[index] = true;
            } else {
                let lowest = model.iter().position(|is_free| *is_free);
                assert_eq!(take_lowest(&mut free).map(|lowest| lowest as usize), lowest);
                if let Some(lowest) = lowest {
                    model[lowest] = false;
                }
            }
        }
        Ok(())
    }
}
