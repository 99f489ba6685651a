// SPDX-License-Identifier: GPL-2.0

//! Slots: memory for the vectors that an entry of an operation has no space for.
//!
//! An entry stores up to [`MAX_IOV`] segments and one remote range. If the operations of a context may have more, each
//! entry owns a slot that is allocated with it: the bytes behind a packet, or the part of an [`IovBlock`] with the
//! number of a receive. The lock that guards the entry guards its slot.

use super::MAX_IOV;
use crate::{
    abi::fi_rma_iov,
    fi::prelude::*, //
};
use core::marker::PhantomData;

/// Limits of the vectors of a transmit.
#[derive(Clone, Copy)]
pub(crate) struct IovLimits {
    /// Maximum number of local segments, at least [`MAX_IOV`].
    pub(crate) segments: usize,
    /// Maximum number of remote ranges, at least 1.
    pub(crate) ranges: usize,
}

impl IovLimits {
    /// Returns whether entries have space for every vector.
    pub(crate) fn fit_entries(self) -> bool {
        self.segments <= MAX_IOV && self.ranges <= 1
    }

    /// Returns the number of work requests that a connection needs besides for the longest vectors: 0 if entries have
    /// space for every vector.
    ///
    /// A segment has two pieces at most if its pages are contiguous. A work request ends with its remote range, or when it
    /// has as many pieces as the device takes, which is one for reads over iWARP; and a piece in two ranges is two. So `p`
    /// pieces and `r` ranges take `p + r - 1` work requests at most. An operation with more pieces fails.
    pub(crate) fn long_requests(self) -> usize {
        match self.fit_entries() {
            true => 0,
            false => 2 * self.segments + self.ranges - 1,
        }
    }

    /// Returns the size of the slot of a transmit in bytes, or 0 if entries have space for every vector.
    pub(crate) fn slot_size(self) -> usize {
        match self.fit_entries() {
            true => 0,
            false => {
                self.segments * (mem::size_of::<Segment>() + mem::size_of::<Descriptor>())
                    + self.ranges * mem::size_of::<fi_rma_iov>()
            }
        }
    }
}

/// Free part of the slot of an entry.
///
/// # Invariants
///
/// `start` points to `words` words, which are accessed through this object alone. Items that are stored there are
/// dropped before the words are used again.
pub(crate) struct Slot<'a> {
    start: NonNull<usize>,
    words: usize,
    _entry: PhantomData<&'a mut [usize]>,
}

impl<'a> Slot<'a> {
    /// Returns a slot without memory, for vectors that entries have space for.
    pub(crate) const fn none() -> Self {
        // INVARIANT: There are no words.
        Self {
            start: NonNull::dangling(),
            words: 0,
            _entry: PhantomData,
        }
    }

    /// Wraps the slot of an entry whose earlier operation has ended.
    ///
    /// # Safety
    ///
    /// Items in the slot are dropped with the operation of the entry, which ends before the words are used again.
    pub(crate) unsafe fn new(words: &'a mut [usize]) -> Self {
        // INVARIANT: By this function's safety requirement; the reference is the only one.
        Self {
            words: words.len(),
            start: NonNull::from(words).cast(),
            _entry: PhantomData,
        }
    }

    /// Stores items, and removes their memory from the slot. Returns `None` if there is not enough memory.
    pub(super) fn store<T>(&mut self, items: impl Iterator<Item = Option<T>>) -> Option<InSlot<T>> {
        const { assert!(mem::align_of::<T>() == mem::align_of::<usize>()) };
        const { assert!(!mem::needs_drop::<T>()) };
        let words = mem::size_of::<T>() / mem::size_of::<usize>();
        let start = self.start.cast::<T>();
        let mut count = 0;
        for item in items {
            self.words = self.words.checked_sub(words)?;
            // SAFETY: By the invariant and the check above there is memory for the item.
            unsafe { start.add(count).write(item?) };
            count += 1;
        }
        // SAFETY: As above; this is the end of the items.
        // INVARIANT: The memory of the items is not that of the slot any more.
        self.start = unsafe { start.add(count) }.cast();
        // INVARIANT: `count` items have been written from `start` on, and are not used again before the result is dropped.
        Some(InSlot(NonNull::slice_from_raw_parts(start, count)))
    }
}

/// Items in the slot of an entry.
///
/// # Invariants
///
/// The pointer is that of initialised items in the slot, which nothing changes as long as this object exists.
pub(crate) struct InSlot<T>(NonNull<[T]>);

// SAFETY: The object gives shared access to the items alone.
unsafe impl<T: Sync> Send for InSlot<T> {}

// SAFETY: As above.
unsafe impl<T: Sync> Sync for InSlot<T> {}

impl<T> Default for InSlot<T> {
    // INVARIANT: There are no items.
    fn default() -> Self {
        Self(NonNull::from(&[]))
    }
}

impl<T> Deref for InSlot<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: By the type invariant.
        unsafe { self.0.as_ref() }
    }
}

/// Slots of the receives of a context, for their segments.
///
/// # Invariants
///
/// `words` is allocated once, has whole slots, and is freed after the receives.
pub(crate) struct IovBlock {
    words: KVVec<usize>,
    slot_words: usize,
    /// Number of the first slot.
    first: u32,
}

impl IovBlock {
    /// Block without slots.
    pub(crate) const NONE: Self = Self {
        words: KVVec::new(),
        slot_words: 0,
        first: 0,
    };

    /// Allocates the slots of `count` receives of up to `segments` segments, with numbers from `first` on, unless entries
    /// have space for them. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn new(first: u32, count: usize, segments: usize) -> Result<Self> {
        if segments <= MAX_IOV {
            return Ok(Self::NONE);
        }
        let slot_words = segments * (mem::size_of::<Segment>() / mem::size_of::<usize>());
        let words = slot_words.checked_mul(count).ok_or(Errno::ENOMEM)?;
        // INVARIANT: There are `count` slots.
        Ok(Self {
            words: KVVec::from_elem(0, words, GFP_KERNEL)?,
            slot_words,
            first,
        })
    }

    /// Returns the slot with that number; an empty one if there is none.
    ///
    /// # Safety
    ///
    /// The requirement of [`Slot::new`] for the receive that owns the slot.
    pub(crate) unsafe fn slot(&mut self, number: u32) -> Slot<'_> {
        let len = self.slot_words;
        let index = number.checked_sub(self.first);
        let start = index.and_then(|index| len.checked_mul(index as usize));
        let Some(start) = start.filter(|start| *start < self.words.len()) else {
            return Slot::none();
        };
        // SAFETY: By the invariant there is a whole slot at `start`. No reference to other slots is made, which have the
        // vectors of other receives. By this function's safety requirement this one has none.
        unsafe {
            let first = self.words.as_mut_ptr().add(start);
            Slot::new(slice::from_raw_parts_mut(first, len))
        }
    }
}

/// Remote ranges of an RMA operation.
pub(crate) enum RmaRanges {
    /// A single range.
    One(fi_rma_iov),
    /// Ranges in the slot of the entry.
    InSlot(InSlot<fi_rma_iov>),
}

impl RmaRanges {
    /// Stores several ranges in the slot of an entry. None are left if it is too small.
    #[inline(always)]
    pub(crate) fn new(ranges: &[fi_rma_iov], slot: &mut Slot<'_>) -> Self {
        if let [range] = ranges {
            return Self::One(*range);
        }
        let stored = slot.store(ranges.iter().map(|range| Some(*range)));
        Self::InSlot(stored.unwrap_or_default())
    }

    /// Returns the ranges.
    #[inline]
    pub(crate) fn as_slice(&self) -> &[fi_rma_iov] {
        match self {
            Self::One(range) => slice::from_ref(range),
            Self::InSlot(ranges) => ranges,
        }
    }
}
