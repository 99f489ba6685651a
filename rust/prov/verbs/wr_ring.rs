// SPDX-License-Identifier: GPL-2.0

//! Slots of posted operations, with the data that is needed at their completion.

use super::prelude::*;
use core::cell::UnsafeCell;

/// Data of an operation in flight.
#[derive(Clone, Copy)]
pub(super) struct WrSlot {
    pub(super) context: Context,
    /// Flags of the completion: FI_SEND | FI_MSG, FI_WRITE | FI_RMA, ... For a piece of a
    /// multi-receive buffer, the address of the piece; for a part, the sequence number of the last
    /// work request of its operation.
    pub(super) flags: u64,
    pub(super) kind: OpKind,
    /// Set once the completion has been moved to the backlog: siw reports some completions twice.
    pub(super) is_deferred: bool,
    /// Set once the operation has been reported while an earlier one has not.
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

    /// Returns the context and the flags of the completion, for tracing; None for a marker or a part.
    pub(super) fn trace_info(&self) -> Option<(Context, u64)> {
        self.is_operation()
            .then(|| (self.context, self.completion_info().0))
    }

    /// Returns whether the work request ends an operation.
    pub(super) fn is_operation(&self) -> bool {
        !matches!(self.kind, OpKind::DrainMarker | OpKind::Part)
    }

    /// Returns the flags of the completion, and the address of the message in a multi-receive
    /// buffer.
    #[inline]
    pub(super) fn completion_info(&self) -> (u64, usize) {
        let flags = FI_RECV | FI_MSG;
        match self.kind {
            OpKind::MultiRecv => (flags, self.flags as usize),
            OpKind::LastMultiRecv => (flags | FI_MULTI_RECV, self.flags as usize),
            _ => (self.flags, 0),
        }
    }
}

/// A ring of slots, each with the DMA mappings that its operation needs.
///
/// # Invariants
///
/// - The number of slots is a power of two, so that a slot index stays valid when sequence numbers
///   wrap; `mask` is one less.
/// - A slot and its mappings have one user at a time: the poster that fills it, under the queue's
///   lock and before its post lets other threads retire it, and the thread that retires it, before
///   `tail` lets posters fill it again.
pub(super) struct WrRing {
    slots: KVVec<UnsafeCell<WrSlot>>,
    mask: u32,
    /// Mappings of the slots; None where the DMA address is the kernel address itself.
    mappings: Option<KBox<SlotMappings>>,
}

/// DMA mappings of the slots of a [`WrRing`].
struct SlotMappings {
    pd: Arc<Pd>,
    mappings: SlotArray<Option<DmaMapping>>,
}

// SAFETY: By the type invariant the content of the cells has one user at a time.
unsafe impl Send for WrRing {}

// SAFETY: As above.
unsafe impl Sync for WrRing {}

/// The slots of a [`WrRing`].
///
/// # Invariants
///
/// The invariants of [`WrRing`] hold.
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
        // SAFETY: The number of slots is a power of two, and `mask` is one less, so the index is in
        // bounds.
        unsafe { self.slots.get_unchecked(self.index(seq)) }
    }

    /// Returns the slot of operation `seq`.
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
    /// Creates a ring of at least `len` slots, for operations of at most `width` scatter/gather
    /// elements. May sleep.
    pub(super) fn new(pd: Arc<Pd>, len: u32, width: usize) -> Result<Self> {
        let len = (len as usize)
            .checked_next_power_of_two()
            .ok_or(Errno::EINVAL)?;
        let slots = SlotArray::new(len, 1, || WrSlot::EMPTY)?.cells;
        let rows = match pd.device().uses_virt_dma {
            true => None,
            false => {
                let mappings = SlotArray::new(len, width, || None)?;
                Some(KBox::new(SlotMappings { pd, mappings }, GFP_KERNEL)?)
            }
        };
        // INVARIANT: The length is a power of two, see above, and not 0.
        Ok(Self {
            mask: len as u32 - 1,
            slots,
            mappings: rows,
        })
    }

    /// Allocates buffers of `size` bytes for the slots. May sleep.
    pub(super) fn new_inject_bufs(&self, size: usize) -> Result<InjectBufs> {
        SlotArray::new(self.slots.len(), size, MaybeUninit::uninit)
    }

    /// Returns the slots, for repeated accesses.
    #[inline(always)]
    pub(super) fn slots(&self) -> WrSlots<'_> {
        // INVARIANT: By the ring's.
        WrSlots {
            slots: &self.slots,
            mask: self.mask,
        }
    }

    /// Returns the index of the slot of operation `seq`.
    #[inline]
    pub(super) fn index(&self, seq: u32) -> usize {
        self.slots().index(seq)
    }

    /// Fills the slot of operation `seq`.
    ///
    /// # Safety
    ///
    /// The caller is the slot's user by the type invariant.
    #[inline(always)]
    pub(super) unsafe fn fill(&self, seq: u32, slot: WrSlot) {
        // SAFETY: By this function's safety requirement.
        unsafe { *self.slots().cell(seq).get() = slot };
    }

    /// Changes the slot of operation `seq`.
    ///
    /// # Safety
    ///
    /// The caller is the slot's user by the type invariant.
    pub(super) unsafe fn update<R>(&self, seq: u32, change: impl FnOnce(&mut WrSlot) -> R) -> R {
        // SAFETY: By this function's safety requirement.
        change(unsafe { &mut *self.slots().cell(seq).get() })
    }

    /// Returns the slot of operation `seq`.
    ///
    /// # Safety
    ///
    /// The caller is the slot's user by the type invariant.
    #[inline]
    pub(super) unsafe fn get(&self, seq: u32) -> WrSlot {
        // SAFETY: By this function's safety requirement.
        unsafe { self.slots().get(seq) }
    }

    /// Returns the mappings of a slot.
    ///
    /// # Safety
    ///
    /// The caller is the slot's user by the type invariant, and remains it while it uses the
    /// returned slice.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn slot_mappings(&self, index: usize) -> &mut [Option<DmaMapping>] {
        match &self.mappings {
            None => &mut [],
            // SAFETY: By this function's safety requirement.
            Some(rows) => unsafe { rows.mappings.slot(index) },
        }
    }

    /// Unmaps the memory of the operations from `from` up to, not including, `to`.
    ///
    /// # Safety
    ///
    /// The operations have completed, and the caller is the user of their slots by the type
    /// invariant.
    #[inline(always)]
    pub(super) unsafe fn unmap(&self, from: u32, to: u32) {
        if let Some(rows) = &self.mappings {
            // SAFETY: By this function's safety requirement.
            unsafe { rows.unmap_range(self.slots(), from, to) };
        }
    }
}

impl SlotMappings {
    /// Unmaps for [`WrRing::unmap`], out of line to keep the polling loop small.
    ///
    /// # Safety
    ///
    /// The requirements of [`WrRing::unmap`] hold.
    #[inline(never)]
    unsafe fn unmap_range(&self, slots: WrSlots<'_>, from: u32, to: u32) {
        let mut seq = from;
        while seq != to {
            // SAFETY: By this function's safety requirement.
            for place in unsafe { self.mappings.slot(slots.index(seq)) } {
                let Some(mapping) = place.take() else {
                    break;
                };
                // SAFETY: It was mapped in this protection domain for an operation that has
                // completed.
                unsafe { self.pd.dma().unmap(mapping) };
            }
            seq = seq.wrapping_add(1);
        }
    }
}

/// Values of the slots of a queue, `per_slot` for each.
///
/// # Invariants
///
/// The values of a slot have one user at a time, as its other data.
pub(super) struct SlotArray<T> {
    cells: KVVec<UnsafeCell<T>>,
    pub(super) per_slot: usize,
}

/// A buffer for injected data of each slot.
pub(super) type InjectBufs = SlotArray<MaybeUninit<u8>>;

// SAFETY: By the type invariant the content of the cells has one user at a time.
unsafe impl<T: Send> Send for SlotArray<T> {}

// SAFETY: As above.
unsafe impl<T: Send> Sync for SlotArray<T> {}

impl<T> SlotArray<T> {
    /// Allocates `per_slot` values for each of `slots` slots. May sleep.
    pub(super) fn new(slots: usize, per_slot: usize, value: impl Fn() -> T) -> Result<Self> {
        let count = slots.checked_mul(per_slot).ok_or(Errno::EINVAL)?;
        let mut cells = KVVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            cells.push(UnsafeCell::new(value()), GFP_KERNEL)?;
        }
        Ok(Self { cells, per_slot })
    }

    /// Returns the values of a slot.
    ///
    /// # Safety
    ///
    /// The caller is the slot's user by the type invariant, and remains it while it uses the
    /// returned slice.
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn slot(&self, index: usize) -> &mut [T] {
        let start = index * self.per_slot;
        let cells = &self.cells[start..start + self.per_slot];
        // SAFETY: `UnsafeCell` is transparent, and the caller is the only user of the values.
        unsafe { slice::from_raw_parts_mut(cells.as_ptr().cast_mut().cast(), cells.len()) }
    }
}
