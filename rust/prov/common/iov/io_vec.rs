// SPDX-License-Identifier: GPL-2.0

//! The segments of a message's memory, with a check of their addresses.

use super::{
    slot::{
        InSlot,
        Slot, //
    },
    MAX_IOV, //
};
use crate::{
    fi::{
        memory::{
            Start,
            VectorEntry, //
        },
        prelude::*, //
    },
    rdma::dma::{
        self,
        PhysRange,
        PhysRanges,
        VALID_ADDRS, //
    },
    util::cold::call_cold, //
};
use core::{
    iter,
    num::NonZeroUsize, //
};

/// Check of the addresses of a message's memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddrCheck {
    /// Kernel addresses. The memory is used until the posting call returns, and may be on a stack.
    Kernel,
    /// Memory that any thread or device can access until the operation completes.
    Device,
    /// No check: registered regions contain the memory, and were checked when they were registered.
    Registered,
}

/// Segment of bytes that are contiguous in the kernel's address space.
#[derive(Clone, Copy)]
pub(crate) struct IoSeg {
    /// Address; dangling if the segment is empty.
    addr: NonZeroUsize,
    pub(super) len: usize,
}

impl IoSeg {
    /// Segment without bytes.
    pub(super) const EMPTY: Self = Self {
        addr: NonZeroUsize::MIN,
        len: 0,
    };

    /// Returns a segment that has been checked.
    #[inline(always)]
    fn of(segment: &Segment) -> Self {
        NonZeroUsize::new(segment.addr()).map_or(Self::EMPTY, |addr| Self {
            addr,
            len: segment.len(),
        })
    }

    /// Returns the segment of a vector entry that is not empty.
    fn from_part(part: &VectorEntry, check: AddrCheck) -> Result<Self> {
        match part.start() {
            Start::Address(addr) => Self::from_addr(addr, part.len(), check),
            Start::Page(page, offset) => {
                // SAFETY: The page exists by the invariant of `VectorEntry`.
                let piece = unsafe { PhysRange::new(page, offset, part.len()) }?;
                Self::from_addr(piece.kernel_addr()?, part.len(), AddrCheck::Registered)
            }
        }
    }

    /// Returns the segment of `len` bytes at a kernel address.
    #[inline(always)]
    fn from_addr(addr: usize, len: usize, check: AddrCheck) -> Result<Self> {
        match check {
            AddrCheck::Kernel if VALID_ADDRS.contains(&addr) => {}
            AddrCheck::Kernel => return Err(Errno::EINVAL),
            AddrCheck::Device => dma::check_range(addr, len)?,
            AddrCheck::Registered => {}
        }
        let addr = NonZeroUsize::new(addr).ok_or(Errno::EINVAL)?;
        Ok(Self { addr, len })
    }

    /// Returns the address.
    #[inline(always)]
    pub(super) fn addr(self) -> usize {
        self.addr.get()
    }

    /// Returns the rest behind the first `len` bytes, of which there are as many.
    #[inline(always)]
    pub(super) fn behind(self, len: usize) -> Self {
        let addr = NonZeroUsize::new(self.addr().wrapping_add(len));
        addr.map_or(Self::EMPTY, |addr| Self {
            addr,
            len: self.len - len,
        })
    }

    /// Returns the first `len` bytes, or all if there are fewer.
    #[inline(always)]
    pub(super) fn front(self, len: usize) -> Self {
        Self {
            len: len.min(self.len),
            ..self
        }
    }
}

/// Segments of a vector, to be visited in order.
pub(crate) enum Parts<'a> {
    /// A single segment.
    One(IoSeg),
    /// Segments in an entry, some of them empty.
    Direct(&'a [IoSeg; MAX_IOV]),
    /// A vector whose addresses have been checked; some parts may be empty.
    Memory(Memory<'a>),
}

/// A vector of segments.
pub(crate) trait Vector {
    /// Returns the segments.
    fn parts(&self) -> Parts<'_>;

    /// Returns the total length.
    fn len(&self) -> usize;

    /// Returns whether there are more than [`MAX_IOV`] segments.
    fn is_long(&self) -> bool;

    /// Calls `f` for each segment of the `len` bytes at offset `at`, with its address and length and the number of bytes
    /// before it. Returns the number of bytes found.
    #[inline(always)]
    fn for_each_segment(
        &self,
        at: usize,
        len: usize,
        mut f: impl FnMut((usize, usize), usize),
    ) -> usize {
        match self.parts() {
            Parts::One(seg) => for_each_of(iter::once(seg), (at, len), f),
            Parts::Direct(segs) => for_each_of(segs.iter().copied(), (at, len), f),
            Parts::Memory(memory) => {
                call_cold(move || for_each_of(segments_of(memory), (at, len), &mut f))
            }
        }
    }

    /// Iterates over the segments from offset `at` on, without those that are empty.
    fn iter_from(&self, at: usize) -> impl Iterator<Item = IoSeg> {
        let (mut one, mut direct, mut memory) = match self.parts() {
            Parts::One(seg) => (Some(seg), [].iter(), None),
            Parts::Direct(segs) => (None, segs.iter(), None),
            Parts::Memory(memory) => (None, [].iter(), Some(segments_of(memory))),
        };
        let segs = iter::from_fn(move || match &mut memory {
            None => one.take().or_else(|| direct.next().copied()),
            Some(memory) => memory.next(),
        });
        let mut skip = at;
        let behind = move |seg: IoSeg| {
            let skipped = skip.min(seg.len);
            skip -= skipped;
            seg.behind(skipped)
        };
        segs.map(behind).filter(|seg| seg.len > 0)
    }

    /// Returns the first segment of the `len` bytes at offset `at`, up to where it stops being physically
    /// contiguous.
    ///
    /// # Safety
    ///
    /// Operations posted with the result complete before the operation that owns this memory.
    unsafe fn first_contiguous(&self, at: usize, len: usize) -> Result<Option<Segment>> {
        let first = self.iter_from(at).next().filter(|_| len > 0);
        let Some(first) = first.map(|seg| seg.front(len)) else {
            return Ok(None);
        };
        let piece = PhysRanges::new(first.addr(), first.len)?.next();
        let len = piece.transpose()?.map_or(0, |piece| piece.len());
        // SAFETY: By this function's safety requirement.
        Ok(Some(unsafe { Segment::new(first.addr() as *mut _, len) }))
    }
}

/// Vector of an operation that is being posted, which the poster owns until the call returns.
///
/// # Invariants
///
/// Each segment is mapped in the kernel, and `len` is their total length.
#[derive(Clone, Copy)]
pub(crate) struct PostedVec<'a> {
    memory: Memory<'a>,
    /// Number of segments that are not empty.
    count: usize,
    len: usize,
}

impl<'a> PostedVec<'a> {
    /// Vector without segments.
    // INVARIANT: There are none.
    pub(super) const EMPTY: Self = Self {
        memory: Memory::Segments(&[]),
        count: 0,
        len: 0,
    };

    /// Checks a vector with up to `limit` entries.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for more entries and for addresses outside of the kernel's memory; -FI_EMSGSIZE if the total length
    /// overflows.
    #[inline(always)]
    pub(super) fn new(memory: Memory<'a>, check: AddrCheck, limit: usize) -> Result<Self> {
        let (count, len) = match memory {
            // The common case.
            Memory::Segments([segment]) if !segment.is_empty() => {
                IoSeg::from_addr(segment.addr(), segment.len(), check)?;
                (1, segment.len())
            }
            _ => check_all(memory, check, limit)?,
        };
        // INVARIANT: The segments have been checked.
        Ok(Self { memory, count, len })
    }

    /// Returns the descriptor of each segment that is not empty, or none of a long vector; `given` are those of all
    /// parts, or none.
    #[inline(always)]
    pub(super) fn descriptors(&self, given: &[Descriptor]) -> [Descriptor; MAX_IOV] {
        match (self.memory, given) {
            (_, []) => [Descriptor::NONE; MAX_IOV],
            (Memory::Segments([_]), [only, ..]) => {
                [*only, Descriptor::NONE, Descriptor::NONE, Descriptor::NONE]
            }
            _ => call_cold(move || self.collect_descriptors(given)),
        }
    }

    /// Implements [`Self::descriptors`] for several segments.
    fn collect_descriptors(&self, given: &[Descriptor]) -> [Descriptor; MAX_IOV] {
        let mut found = [Descriptor::NONE; MAX_IOV];
        if self.is_long() {
            return found;
        }
        let parts = entries(self.memory).zip(given);
        let parts = parts.filter(|(part, _)| !part.is_empty());
        for (free, (_, descriptor)) in found.iter_mut().zip(parts) {
            *free = *descriptor;
        }
        found
    }

    /// Returns the vector for the entry of the operation. More segments than an entry has space for are stored in its
    /// slot, with their descriptors; none are left if it is too small.
    #[inline(always)]
    pub(super) fn into_entry<'s>(
        self,
        descriptors: &[Descriptor],
        slot: impl FnOnce() -> Slot<'s>,
    ) -> IoVec {
        match self.memory {
            Memory::Segments([segment]) => IoVec::from_region(segment),
            _ => call_cold(move || self.store(descriptors, slot)),
        }
    }

    /// Implements [`Self::into_entry`] for several segments.
    fn store<'s>(self, descriptors: &[Descriptor], slot: impl FnOnce() -> Slot<'s>) -> IoVec {
        if self.is_long() {
            let long = LongVec::store(self, descriptors, &mut slot());
            return long.map_or(IoVec::EMPTY, IoVec::Long);
        }
        let mut segs = [IoSeg::EMPTY; MAX_IOV];
        for (free, seg) in segs.iter_mut().zip(self.iter_from(0)) {
            *free = seg;
        }
        // INVARIANT: The segments are those of this vector.
        IoVec::Direct(segs)
    }
}

impl Vector for PostedVec<'_> {
    #[inline(always)]
    fn parts(&self) -> Parts<'_> {
        match self.memory {
            Memory::Segments([segment]) => Parts::One(IoSeg::of(segment)),
            memory => Parts::Memory(memory),
        }
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    fn is_long(&self) -> bool {
        self.count > MAX_IOV
    }
}

/// Vector in the entry of an operation.
///
/// # Invariants
///
/// Each segment is mapped in the kernel, and valid as long as the [`Memory`] from which it was made; their total
/// length does not overflow.
pub(crate) enum IoVec {
    /// Up to [`MAX_IOV`] segments. The others are empty.
    Direct([IoSeg; MAX_IOV]),
    /// More segments than an entry has space for.
    Long(LongVec),
}

/// A vector of more than [`MAX_IOV`] segments in the slot of an entry.
pub(crate) struct LongVec {
    /// Segments that are not empty.
    segments: InSlot<Segment>,
    /// Descriptors of the segments, or none.
    descriptors: InSlot<Descriptor>,
    len: usize,
}

impl LongVec {
    /// Stores a vector and its descriptors in a slot. Returns `None` if it is too small.
    fn store(
        posted: PostedVec<'_>,
        descriptors: &[Descriptor],
        slot: &mut Slot<'_>,
    ) -> Option<Self> {
        let parts = || entries(posted.memory).filter(|part| !part.is_empty());
        let segments = slot.store(parts().map(|part| part.to_segment().ok()))?;
        let given = entries(posted.memory).zip(descriptors);
        let given = given.filter(|(part, _)| !part.is_empty());
        let descriptors = slot.store(given.map(|(_, descriptor)| Some(*descriptor)))?;
        Some(Self {
            segments,
            descriptors,
            len: posted.len,
        })
    }
}

// Long vectors do not make entries larger: the niche in the address of the first segment tells the variants apart.
const _: () = assert!(mem::size_of::<IoVec>() == MAX_IOV * mem::size_of::<IoSeg>());

impl IoVec {
    /// Vector without segments.
    pub(super) const EMPTY: Self = Self::single(IoSeg::EMPTY);

    #[inline(always)]
    pub(super) const fn single(seg: IoSeg) -> Self {
        Self::Direct([seg, IoSeg::EMPTY, IoSeg::EMPTY, IoSeg::EMPTY])
    }

    /// Returns a vector of one segment, which has been checked.
    #[inline(always)]
    pub(super) fn from_region(part: &Segment) -> Self {
        Self::single(IoSeg::of(part))
    }

    /// Calls `act` with all segments that are not empty, and their descriptors, if they are in a slot.
    ///
    /// # Safety
    ///
    /// Operations posted with them complete before the operation that owns this memory.
    pub(super) unsafe fn with_segments<R>(
        &self,
        act: impl FnOnce(&[Segment], &[Descriptor]) -> R,
    ) -> R {
        if let Self::Long(long) = self {
            return act(&long.segments, &long.descriptors);
        }
        // SAFETY: By this function's safety requirement.
        let parts = unsafe { self.segments() };
        let count = parts.iter().filter(|part| !part.is_empty()).count();
        act(parts.get(..count).unwrap_or(&[]), &[])
    }

    /// Returns the segments of an entry, or none of a long vector; array entries after the last segment are empty.
    ///
    /// # Safety
    ///
    /// Operations posted with the result complete before the operation that owns this memory.
    pub(super) unsafe fn segments(&self) -> [Segment; MAX_IOV] {
        let segs = match self {
            Self::Direct(segs) => segs,
            Self::Long(_) => &[IoSeg::EMPTY; MAX_IOV],
        };
        // SAFETY: By the invariant, and this function's safety requirement.
        segs.map(|seg| unsafe { Segment::new(seg.addr() as *mut _, seg.len) })
    }
}

impl Vector for IoVec {
    #[inline(always)]
    fn parts(&self) -> Parts<'_> {
        match self {
            Self::Direct(segs) => Parts::Direct(segs),
            Self::Long(long) => Parts::Memory(Memory::Segments(&long.segments)),
        }
    }

    // The length of segments in the entry is not stored: entries have no space for it.
    #[inline(always)]
    fn len(&self) -> usize {
        match self {
            Self::Direct(segs) => segs.iter().fold(0, |sum, seg| sum.wrapping_add(seg.len)),
            Self::Long(long) => long.len,
        }
    }

    #[inline(always)]
    fn is_long(&self) -> bool {
        matches!(self, Self::Long(_))
    }
}

/// Iterates over the entries of a vector.
fn entries(mut memory: Memory<'_>) -> impl Iterator<Item = VectorEntry> + '_ {
    iter::from_fn(move || memory.take_first())
}

/// Iterates over the segments of a vector whose addresses have been checked; some may be empty.
fn segments_of(memory: Memory<'_>) -> impl Iterator<Item = IoSeg> + '_ {
    entries(memory).map(|part| match part.is_empty() {
        true => IoSeg::EMPTY,
        false => IoSeg::from_part(&part, AddrCheck::Registered).unwrap_or(IoSeg::EMPTY),
    })
}

/// Checks a vector with up to `limit` entries. Returns the number of segments that are not empty, and their total length.
#[inline(never)]
fn check_all(memory: Memory<'_>, check: AddrCheck, limit: usize) -> Result<(usize, usize)> {
    let (mut count, mut total) = (0, 0usize);
    if memory.count() > limit {
        return Err(Errno::EINVAL);
    }
    memory.for_each(|part| {
        if !part.is_empty() {
            IoSeg::from_part(&part, check)?;
            total = total.checked_add(part.len()).ok_or(Errno::EMSGSIZE)?;
            count += 1;
        }
        Ok(())
    })?;
    Ok((count, total))
}

/// Implements [`Vector::for_each_segment`] for these segments.
#[inline(always)]
fn for_each_of(
    segs: impl Iterator<Item = IoSeg>,
    (at, len): (usize, usize),
    mut f: impl FnMut((usize, usize), usize),
) -> usize {
    let (mut skip, mut done) = (at, 0);
    for seg in segs {
        if done == len {
            break;
        }
        let skipped = skip.min(seg.len);
        skip -= skipped;
        let here = (seg.len - skipped).min(len - done);
        if here > 0 {
            f((seg.addr().wrapping_add(skipped), here), done);
            done += here;
        }
    }
    done
}
