// SPDX-License-Identifier: GPL-2.0

//! Scatter/gather elements that each shared receive was posted with, so that it can be posted
//! again.

use crate::{
    fi::prelude::*,
    rdma::wr::Sge, //
};
use core::cell::UnsafeCell;

/// Scatter/gather elements of all slots.
///
/// # Invariants
///
/// There are `per_slot` elements for each slot, which have one user at a time.
pub(super) struct SavedSges {
    sges: KVVec<UnsafeCell<Sge>>,
    per_slot: usize,
}

// SAFETY: By the type invariant the content of the cells has one user at a time.
unsafe impl Send for SavedSges {}

// SAFETY: As above.
unsafe impl Sync for SavedSges {}

impl SavedSges {
    /// Allocates `width` elements for each of `slots` slots. May sleep.
    pub(super) fn new(slots: usize, width: usize) -> Result<Self> {
        let count = slots.checked_mul(width).ok_or(Errno::EINVAL)?;
        let mut places = KVVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            places.push(UnsafeCell::new(Sge::new(0, 0, 0)), GFP_KERNEL)?;
        }
        // INVARIANT: By construction.
        Ok(Self {
            sges: places,
            per_slot: width,
        })
    }

    /// Returns the maximum number of elements of a slot.
    pub(super) fn sges_per_slot(&self) -> usize {
        self.per_slot
    }

    /// Returns the elements of a slot; an empty slice if there is no such slot.
    fn slot_sges(&self, slot: u32) -> &[UnsafeCell<Sge>] {
        let start = (slot as usize).saturating_mul(self.per_slot);
        let end = start.saturating_add(self.per_slot);
        self.sges.get(start..end).unwrap_or(&[])
    }

    /// Saves the elements of a slot.
    ///
    /// # Safety
    ///
    /// The caller is the slot's user by the type invariant.
    pub(super) unsafe fn save(&self, slot: u32, sges: &[Sge]) {
        for (place, sge) in self.slot_sges(slot).iter().zip(sges) {
            // SAFETY: By this function's safety requirement.
            unsafe { *place.get() = *sge };
        }
    }

    /// Returns the first `count` elements that were saved for a slot.
    ///
    /// # Safety
    ///
    /// The caller is the slot's user by the type invariant, and remains it while it uses what is returned.
    pub(super) unsafe fn get(&self, slot: u32, count: usize) -> &[Sge] {
        let places = self.slot_sges(slot);
        let places = places.get(..count).unwrap_or(places);
        // SAFETY: By this function's safety requirement; `UnsafeCell` is transparent.
        unsafe { core::slice::from_raw_parts(places.as_ptr().cast(), places.len()) }
    }
}
