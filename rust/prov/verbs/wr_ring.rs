// SPDX-License-Identifier: GPL-2.0

//! What a queue knows of each operation between its post and its completion.

use super::wq::OpKind;
use crate::{
    abi::{
        flags::*,
        Errno,
        Result, //
    },
    fi::memory::Context,
    rdma::{
        dma::DmaMapping,
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
pub(super) struct WrSlot {
    pub(super) context: Context,
    /// Those of its completion: FI_SEND | FI_MSG, FI_WRITE | FI_RMA, ... Of a piece of a buffer, the
    /// address where it begins.
    pub(super) flags: u64,
    pub(super) kind: OpKind,
    /// Whether its completion has been put off: siw tells some twice.
    pub(super) is_deferred: bool,
    /// Whether its reader has been told of it, before that of one that was posted earlier.
    pub(super) is_reported: bool,
}

impl WrSlot {
    /// A slot without an operation.
    pub(super) const EMPTY: Self = Self {
        context: Context::NULL,
        flags: 0,
        kind: OpKind::Silent,
        is_deferred: false,
        is_reported: false,
    };

    /// Its context and the flags of its completion, for who traces; none of a marker.
    pub(super) fn trace_info(&self) -> Option<(Context, u64)> {
        (self.kind != OpKind::DrainMarker).then(|| (self.context, self.completion_info().0))
    }

    /// The flags of its completion, and where its message is if that is told.
    #[inline]
    pub(super) fn completion_info(&self) -> (u64, usize) {
        let flags = FI_RECV | FI_MSG;
        match self.kind {
            OpKind::MultiRecv => (flags, self.flags as usize),
            OpKind::LastMultiRecv => (flags | FI_MULTI_RECV, self.flags as usize),
            OpKind::Reported | OpKind::Silent | OpKind::DrainMarker => (self.flags, 0),
        }
    }
}

/// A ring of slots, each with the DMA mappings that its operation needs.
///
/// # Invariants
///
/// - The number of slots is a power of two, so that an index survives the wrap of a sequence number;
///   `mask` is one less.
/// - A slot and its mappings have one user at a time: the poster who fills it, under the queue's
///   `head` and before `tail` lets anyone retire it, and whoever retires it, before `tail` lets
///   anyone fill it again.
pub(super) struct WrRing {
    slots: KVVec<UnsafeCell<WrSlot>>,
    mask: u32,
    /// None where a mapping is the address itself.
    mappings: Option<KBox<SlotMappings>>,
}

/// The mappings of a [`WrRing`]'s slots.
struct SlotMappings {
    pd: Arc<Pd>,
    /// How many a slot has.
    per_slot: usize,
    mappings: KVVec<UnsafeCell<Option<DmaMapping>>>,
}

// SAFETY: By the type invariant what is in the cells has one user at a time.
unsafe impl Send for WrRing {}

// SAFETY: As above.
unsafe impl Sync for WrRing {}

/// The slots of a [`WrRing`].
///
/// # Invariants
///
/// As of [`WrRing`].
#[derive(Clone, Copy)]
pub(super) struct WrSlots<'a> {
    slots: &'a [UnsafeCell<WrSlot>],
    mask: u32,
}

impl<'a> WrSlots<'a> {
    #[inline]
    fn index(self, seq: u32) -> usize {
        (seq & self.mask) as usize
    }

    #[inline(always)]
    fn cell(self, seq: u32) -> &'a UnsafeCell<WrSlot> {
        // SAFETY: There is a power of two of slots, so that an index is that of one.
        unsafe { self.slots.get_unchecked(self.index(seq)) }
    }

    /// What the operation `seq` is.
    ///
    /// # Safety
    ///
    /// The caller is the slot's user by the invariant of [`WrRing`].
    #[inline(always)]
    pub(super) unsafe fn get(self, seq: u32) -> WrSlot {
        // SAFETY: By this function's safety requirement.
        unsafe { *self.cell(seq).get() }
    }
}

impl WrRing {
    /// A ring of at least `len` slots for operations of at most `width` addresses. May sleep.
    pub(super) fn new(pd: Arc<Pd>, len: u32, width: usize) -> Result<Self> {
        let len = (len as usize)
            .checked_next_power_of_two()
            .ok_or(Errno::EINVAL)?;
        let mut slots = KVVec::with_capacity(len, GFP_KERNEL)?;
        for _ in 0..len {
            slots.push(UnsafeCell::new(WrSlot::EMPTY), GFP_KERNEL)?;
        }
        let rows = match pd.device().uses_virt_dma() {
            true => None,
            false => Some(KBox::new(SlotMappings::new(pd, len, width)?, GFP_KERNEL)?),
        };
        // INVARIANT: See above; it is not 0.
        Ok(Self {
            mask: len as u32 - 1,
            slots,
            mappings: rows,
        })
    }

    /// How many slots there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The slots, for several looks at them.
    #[inline(always)]
    pub(super) fn slots(&self) -> WrSlots<'_> {
        // INVARIANT: By the ring's.
        WrSlots {
            slots: &self.slots,
            mask: self.mask,
        }
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
    pub(super) unsafe fn fill(&self, seq: u32, slot: WrSlot) {
        // SAFETY: By this function's safety requirement.
        unsafe { *self.slots().cell(seq).get() = slot };
    }

    /// Changes the slot of `seq`.
    ///
    /// # Safety
    ///
    /// The caller is the slot's user by the type invariant.
    pub(super) unsafe fn update<R>(&self, seq: u32, change: impl FnOnce(&mut WrSlot) -> R) -> R {
        // SAFETY: By this function's safety requirement.
        change(unsafe { &mut *self.slots().cell(seq).get() })
    }

    /// What the operation `seq` is.
    ///
    /// # Safety
    ///
    /// The caller is the slot's user by the type invariant.
    #[inline]
    pub(super) unsafe fn get(&self, seq: u32) -> WrSlot {
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
    pub(super) unsafe fn slot_mappings(&self, index: usize) -> &mut [Option<DmaMapping>] {
        match &self.mappings {
            None => &mut [],
            // SAFETY: By this function's safety requirement.
            Some(rows) => unsafe { rows.slot_mappings(index) },
        }
    }

    /// Undoes the mappings of the operations from `from` up to `to`.
    ///
    /// # Safety
    ///
    /// The operations are over, and the caller is the user of their slots by the type invariant.
    #[inline(always)]
    pub(super) unsafe fn unmap(&self, from: u32, to: u32) {
        if let Some(rows) = &self.mappings {
            // SAFETY: By this function's safety requirement.
            unsafe { rows.unmap_range(self.slots(), from, to) };
        }
    }
}

impl SlotMappings {
    /// For `len` slots with `width` mappings each. May sleep.
    fn new(pd: Arc<Pd>, len: usize, width: usize) -> Result<Self> {
        let count = len.checked_mul(width).ok_or(Errno::EINVAL)?;
        let mut cells = KVVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            cells.push(UnsafeCell::new(None), GFP_KERNEL)?;
        }
        Ok(Self {
            pd,
            per_slot: width,
            mappings: cells,
        })
    }

    /// As [`WrRing::row`].
    ///
    /// # Safety
    ///
    /// As there.
    #[allow(clippy::mut_from_ref)]
    unsafe fn slot_mappings(&self, index: usize) -> &mut [Option<DmaMapping>] {
        let start = index * self.per_slot;
        let cells = &self.mappings[start..start + self.per_slot];
        // SAFETY: `UnsafeCell` is transparent, and the caller is the row's only user.
        unsafe { core::slice::from_raw_parts_mut(cells.as_ptr().cast_mut().cast(), cells.len()) }
    }

    /// [`WrRing::unmap`], apart from the loop that polls.
    ///
    /// # Safety
    ///
    /// As there.
    #[inline(never)]
    unsafe fn unmap_range(&self, slots: WrSlots<'_>, from: u32, to: u32) {
        let mut seq = from;
        while seq != to {
            // SAFETY: By this function's safety requirement.
            for place in unsafe { self.slot_mappings(slots.index(seq)) } {
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
