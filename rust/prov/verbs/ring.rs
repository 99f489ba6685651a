// SPDX-License-Identifier: GPL-2.0

//! What a queue knows of each operation between its post and its completion.

use super::queue::Use;
use crate::{
    abi::{
        flags::*,
        Errno,
        Result, //
    },
    fi::memory::Context,
    rdma::{
        dma::Mapping,
        pd::Pd, //
    },
};
use core::cell::UnsafeCell;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// An operation under way.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub(super) context: Context,
    /// Those of its completion: FI_SEND | FI_MSG, FI_WRITE | FI_RMA, ... Of a piece of a buffer, the
    /// address where it begins.
    pub(super) flags: u64,
    pub(super) usage: Use,
}

impl Slot {
    /// The flags of its completion, and where its message is if that is told.
    #[inline]
    pub(super) fn told(&self) -> (u64, usize) {
        let flags = FI_RECV | FI_MSG;
        match self.usage {
            Use::Piece => (flags, self.flags as usize),
            Use::LastPiece => (flags | FI_MULTI_RECV, self.flags as usize),
            Use::Reported | Use::Silent | Use::Marker => (self.flags, 0),
        }
    }
}

/// A ring of slots, each with the DMA mappings that its operation needs.
///
/// # Invariants
///
/// - The number of slots is a power of two, so that an index survives the wrap of a sequence number.
/// - A slot and its mappings have one user at a time: the poster who fills it, under the queue's
///   `head` and before `tail` lets anyone retire it, and whoever retires it, before `tail` lets
///   anyone fill it again.
#[repr(C)]
pub(super) struct Ring {
    slots: KVVec<UnsafeCell<Slot>>,
    /// How many mappings a slot has; 0 where a mapping is the address itself.
    width: usize,
    mappings: KVVec<UnsafeCell<Option<Mapping>>>,
    pd: Arc<Pd>,
}

// SAFETY: By the type invariant what is in the cells has one user at a time.
unsafe impl Send for Ring {}

// SAFETY: As above.
unsafe impl Sync for Ring {}

/// The slots of a [`Ring`].
///
/// # Invariants
///
/// Their number is a power of two.
#[derive(Clone, Copy)]
pub(super) struct Slots<'a>(&'a [UnsafeCell<Slot>]);

impl<'a> Slots<'a> {
    #[inline]
    fn index(self, seq: u32) -> usize {
        seq as usize & (self.0.len() - 1)
    }

    #[inline(always)]
    fn at(self, seq: u32) -> &'a UnsafeCell<Slot> {
        // SAFETY: There is a power of two of slots, so that an index is that of one.
        unsafe { self.0.get_unchecked(self.index(seq)) }
    }

    /// What the operation `seq` is.
    ///
    /// # Safety
    ///
    /// The caller is the slot's user by the invariant of [`Ring`].
    #[inline(always)]
    pub(super) unsafe fn get(self, seq: u32) -> Slot {
        // SAFETY: By this function's safety requirement.
        unsafe { *self.at(seq).get() }
    }
}

impl Ring {
    /// A ring of at least `len` slots for operations of at most `width` addresses. May sleep.
    pub(super) fn new(pd: Arc<Pd>, len: u32, width: usize) -> Result<Self> {
        let len = (len as usize)
            .checked_next_power_of_two()
            .ok_or(Errno::EINVAL)?;
        let width = if pd.device().uses_virt_dma() {
            0
        } else {
            width
        };
        let rows = len.checked_mul(width).ok_or(Errno::EINVAL)?;
        let mut slots = KVVec::with_capacity(len, GFP_KERNEL)?;
        for _ in 0..len {
            let slot = Slot {
                context: Context::NULL,
                flags: 0,
                usage: Use::Silent,
            };
            slots.push(UnsafeCell::new(slot), GFP_KERNEL)?;
        }
        let mut mappings = KVVec::with_capacity(rows, GFP_KERNEL)?;
        for _ in 0..rows {
            mappings.push(UnsafeCell::new(None), GFP_KERNEL)?;
        }
        Ok(Self {
            pd,
            slots,
            width,
            mappings,
        })
    }

    /// How many slots there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The slots, for several looks at them.
    #[inline(always)]
    pub(super) fn slots(&self) -> Slots<'_> {
        // INVARIANT: A power of two by the ring's.
        Slots(&self.slots)
    }

    /// Which slot is that of `seq`.
    #[inline]
    pub(super) fn index(&self, seq: u32) -> usize {
        self.slots().index(seq)
    }

    /// Fills the slot of `seq`.
    ///
    /// # Safety
    ///
    /// The caller is the slot's user by the type invariant.
    #[inline(always)]
    pub(super) unsafe fn fill(&self, seq: u32, slot: Slot) {
        // SAFETY: By this function's safety requirement.
        unsafe { *self.slots().at(seq).get() = slot };
    }

    /// What the operation `seq` is.
    ///
    /// # Safety
    ///
    /// The caller is the slot's user by the type invariant.
    #[inline]
    pub(super) unsafe fn get(&self, seq: u32) -> Slot {
        // SAFETY: By this function's safety requirement.
        unsafe { self.slots().get(seq) }
    }

    /// The mappings of a slot.
    ///
    /// # Safety
    ///
    /// The caller is the slot's user by the type invariant, and remains it while it uses what is
    /// returned.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn row(&self, index: usize) -> &mut [Option<Mapping>] {
        if self.width == 0 {
            return &mut [];
        }
        let start = index * self.width;
        let cells = &self.mappings[start..start + self.width];
        // SAFETY: `UnsafeCell` is transparent, and the caller is the row's only user.
        unsafe { core::slice::from_raw_parts_mut(cells.as_ptr().cast_mut().cast(), cells.len()) }
    }

    /// Undoes the mappings of the operations from `from` up to `to`.
    ///
    /// # Safety
    ///
    /// The operations are over, and the caller is the user of their slots by the type invariant.
    #[inline(always)]
    pub(super) unsafe fn unmap(&self, from: u32, to: u32) {
        if self.width > 0 {
            // SAFETY: By this function's safety requirement.
            unsafe { self.undo(from, to) };
        }
    }

    /// [`Self::unmap`], where there is something to undo: apart from the loop that polls.
    ///
    /// # Safety
    ///
    /// As of [`Self::unmap`].
    #[inline(never)]
    unsafe fn undo(&self, from: u32, to: u32) {
        let mut seq = from;
        while seq != to {
            // SAFETY: By this function's safety requirement.
            for place in unsafe { self.row(self.index(seq)) } {
                let Some(mapping) = place.take() else {
                    break;
                };
                // SAFETY: It was made on this protection domain for an operation that is over.
                unsafe { self.pd.dma().unmap(mapping) };
            }
            seq = seq.wrapping_add(1);
        }
    }
}
