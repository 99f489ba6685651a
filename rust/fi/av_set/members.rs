// SPDX-License-Identifier: GPL-2.0

//! An ordered set of numbers: a list in insertion order, and a hash table of positions in the list.

use crate::fi::prelude::*;
use kernel::alloc::KVVec;

/// Value of an empty slot.
const EMPTY: u32 = u32::MAX;

/// The members in insertion order.
pub(super) struct Members {
    list: KVVec<u64>,
    /// Positions in the list, hashed by the number at that position, with linear probing. The number of slots
    /// is a power of two; at most half of them are used.
    slots: KVVec<u32>,
    max_len: usize,
}

fn hash(number: u64) -> usize {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

impl Members {
    /// Returns an empty set for at most `max_len` members.
    pub(super) fn new(max_len: usize) -> Self {
        Self {
            list: KVVec::new(),
            slots: KVVec::new(),
            max_len: max_len.min(EMPTY as usize),
        }
    }

    /// Returns the members in order.
    pub(super) fn as_slice(&self) -> &[u64] {
        &self.list
    }

    /// Returns true if `number` is a member.
    pub(super) fn contains(&self, number: u64) -> bool {
        self.position(number).is_some()
    }

    /// Appends a number. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for a member, -FI_ENOMEM if the set is full or memory is short.
    pub(super) fn insert(&mut self, number: u64) -> Result {
        Errno::EINVAL.when(self.contains(number))?;
        Errno::ENOMEM.when(self.list.len() >= self.max_len)?;
        if self.slots.len() <= 2 * self.list.len() {
            let wanted = (4 * self.list.len()).next_power_of_two().max(16);
            self.slots.resize(wanted, EMPTY, GFP_KERNEL)?;
            self.rebuild();
        }
        self.list.push(number, GFP_KERNEL)?;
        self.insert_slot(number, self.list.len() - 1);
        Ok(())
    }

    /// Removes a number.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if it is not a member.
    pub(super) fn remove(&mut self, number: u64) -> Result {
        let place = self.position(number).ok_or(Errno::EINVAL)?;
        let _ = self.list.remove(place);
        self.rebuild();
        Ok(())
    }

    /// Appends the numbers of `others` that are not members. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM; the set is unchanged.
    pub(super) fn unite(&mut self, others: &[u64]) -> Result {
        let before = self.list.len();
        for &number in others {
            match self.insert(number) {
                Ok(()) | Err(Errno::EINVAL) => {}
                Err(errno) => {
                    self.list.truncate(before);
                    self.rebuild();
                    return Err(errno);
                }
            }
        }
        Ok(())
    }

    /// Keeps the members that are, or are not, in `others`.
    pub(super) fn retain_among(&mut self, others: &Members, is_among: bool) {
        self.list
            .retain(|number| others.contains(*number) == is_among);
        self.rebuild();
    }

    /// Returns the slots in which the position of a number can be, in probing order.
    fn probe(&self, number: u64) -> impl Iterator<Item = usize> {
        let mask = self.slots.len().wrapping_sub(1);
        let first = hash(number);
        (0..self.slots.len()).map(move |step| first.wrapping_add(step) & mask)
    }

    fn position(&self, number: u64) -> Option<usize> {
        for slot in self.probe(number) {
            let place = *self.slots.get(slot)? as usize;
            // An empty slot is beyond the end of the list.
            if *self.list.get(place)? == number {
                return Some(place);
            }
        }
        None
    }

    fn insert_slot(&mut self, number: u64, position: usize) {
        let free = self
            .probe(number)
            .find(|&slot| self.slots.get(slot) == Some(&EMPTY));
        if let Some(slot) = free.and_then(|slot| self.slots.get_mut(slot)) {
            *slot = position as u32;
        }
    }

    fn rebuild(&mut self) {
        self.slots.fill(EMPTY);
        for place in 0..self.list.len() {
            if let Some(&number) = self.list.get(place) {
                self.insert_slot(number, place);
            }
        }
    }
}

#[kunit_tests(kofi_fi_av_set)]
mod tests {
    use super::*;
    use crate::util::random::SeededRandom;

    fn members_of(numbers: &[u64]) -> Result<Members> {
        let mut members = Members::new(usize::MAX);
        members.unite(numbers)?;
        Ok(members)
    }

    #[test]
    fn avset_02_union_appends_new_members() -> kernel::error::Result {
        let mut members = members_of(&[5, 1, 9]).map_err(|_| ENOMEM)?;
        assert!(members.unite(&[9, 2, 5, 7]) == Ok(()));
        assert!(members.as_slice() == [5, 1, 9, 2, 7]);
        Ok(())
    }

    #[test]
    fn avset_02_operations_preserve_the_member_order() -> kernel::error::Result {
        let others = members_of(&[1, 2, 3, 4]).map_err(|_| ENOMEM)?;
        let mut members = members_of(&[4, 9, 2, 8, 1]).map_err(|_| ENOMEM)?;
        members.retain_among(&others, true);
        assert!(members.as_slice() == [4, 2, 1]);
        let mut members = members_of(&[4, 9, 2, 8, 1]).map_err(|_| ENOMEM)?;
        members.retain_among(&others, false);
        assert!(members.as_slice() == [9, 8]);
        let mut members = members_of(&[4, 9, 2, 8, 1]).map_err(|_| ENOMEM)?;
        assert!(members.remove(2) == Ok(()));
        assert!(members.as_slice() == [4, 9, 8, 1]);
        assert!(members.insert(2) == Ok(()));
        assert!(members.as_slice() == [4, 9, 8, 1, 2]);
        Ok(())
    }

    #[test]
    fn avset_03_duplicate_absent_and_excess_members_are_rejected() {
        let mut members = Members::new(3);
        assert!(members.remove(1) == Err(Errno::EINVAL));
        for number in [0, u64::MAX, 7] {
            assert!(members.insert(number) == Ok(()));
            assert!(members.insert(number) == Err(Errno::EINVAL));
        }
        assert!(members.insert(8) == Err(Errno::ENOMEM));
        // A union that does not fit changes nothing.
        assert!(members.remove(7) == Ok(()));
        assert!(members.unite(&[0, 8, 9]) == Err(Errno::ENOMEM));
        assert!(members.as_slice() == [0, u64::MAX]);
        assert!(members.contains(0) && !members.contains(8));
        assert!(members.remove(8) == Err(Errno::EINVAL));
    }

    #[test]
    fn avset_02_operations_match_a_naive_model() -> kernel::error::Result {
        const ROUNDS: u32 = match cfg!(CONFIG_KASAN) {
            true => 2_000,
            false => 200_000,
        };
        let mut members = Members::new(usize::MAX);
        let mut model = KVVec::new();
        let mut random = SeededRandom::new(1);
        for _ in 0..ROUNDS {
            let number = random.next_below(60);
            let position = model.iter().position(|member| *member == number);
            match random.next_below(8) {
                0..4 => {
                    let inserted = members.insert(number);
                    assert!(inserted.is_ok() == position.is_none());
                    if position.is_none() {
                        model.push(number, GFP_KERNEL)?;
                    }
                }
                4..6 => {
                    let removed = members.remove(number);
                    assert!(removed.is_ok() == position.is_some());
                    if let Some(position) = position {
                        let _ = model.remove(position);
                    }
                }
                operation => {
                    let others = [number, number / 2, 59 - number, 7, 11];
                    let among = members_of(&others).map_err(|_| ENOMEM)?;
                    if operation == 6 && number % 4 > 0 {
                        assert!(members.unite(&others) == Ok(()));
                        for other in others {
                            if !model.contains(&other) {
                                model.push(other, GFP_KERNEL)?;
                            }
                        }
                    } else {
                        let is_among = number == 0;
                        members.retain_among(&among, is_among);
                        model.retain(|member| others.contains(member) == is_among);
                    }
                }
            }
            assert!(*members.as_slice() == model[..]);
        }
        Ok(())
    }
}
