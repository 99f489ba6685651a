// SPDX-License-Identifier: GPL-2.0

//! The segments of a message's memory, with a check of their addresses.

use super::MAX_IOV;
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
pub(super) struct IoSeg {
    pub(super) addr: usize,
    pub(super) len: usize,
}

impl IoSeg {
    /// Segment without bytes.
    const EMPTY: Self = Self { addr: 0, len: 0 };

    /// Returns the segment of a vector entry that is not empty.
    fn from_part(part: &VectorEntry, check: AddrCheck) -> Result<Self> {
        let (addr, len) = match part.start() {
            Start::Address(addr) => return Self::from_addr(addr, part.len(), check),
            Start::Page(page, offset) => {
                // SAFETY: The page exists by the invariant of `VectorEntry`.
                let piece = unsafe { PhysRange::new(page, offset, part.len()) }?;
                (piece.kernel_addr()?, part.len())
            }
        };
        Ok(Self { addr, len })
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
        Ok(Self { addr, len })
    }
}

/// Segments of a message's memory, in order.
///
/// # Invariants
///
/// Each segment is mapped in the kernel, and valid as long as the [`Memory`] from which it was made; their total
/// length does not overflow.
#[derive(Clone, Copy)]
pub(super) struct IoVec {
    pub(super) segs: [IoSeg; MAX_IOV],
}

impl IoVec {
    /// Vector without segments.
    pub(super) const EMPTY: Self = Self::single(IoSeg::EMPTY);

    #[inline(always)]
    pub(super) const fn single(seg: IoSeg) -> Self {
        let segs = [seg, IoSeg::EMPTY, IoSeg::EMPTY, IoSeg::EMPTY];
        Self { segs }
    }

    #[inline(always)]
    pub(super) fn new(memory: Memory<'_>, check: AddrCheck) -> Result<Self> {
        match memory {
            // The common case.
            Memory::Segments([segment]) if !segment.is_empty() => {
                let seg = IoSeg::from_addr(segment.addr(), segment.len(), check)?;
                // INVARIANT: `from_addr` has checked the segment.
                Ok(Self::single(seg))
            }
            _ => Self::from_parts(memory, check),
        }
    }

    pub(super) fn from_region(part: &Segment) -> Self {
        let (addr, len) = (part.addr(), part.len());
        Self::single(IoSeg { addr, len })
    }

    #[inline(never)]
    fn from_parts(memory: Memory<'_>, check: AddrCheck) -> Result<Self> {
        let mut runs = Self::EMPTY;
        let mut free = runs.segs.iter_mut();
        let mut total = 0usize;
        if memory.count() > MAX_IOV {
            return Err(Errno::EINVAL);
        }
        memory.for_each(|part| {
            if !part.is_empty() {
                *free.next().ok_or(Errno::EINVAL)? = IoSeg::from_part(&part, check)?;
                total = total.checked_add(part.len()).ok_or(Errno::EMSGSIZE)?;
            }
            Ok(())
        })?;
        // INVARIANT: `from_part` has checked each segment, and `total` did not overflow.
        Ok(runs)
    }

    /// Returns the total length. It is not stored: eight words are passed in registers.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        let sum = |sum: usize, run: &IoSeg| sum.wrapping_add(run.len);
        self.segs.iter().fold(0, sum)
    }

    /// Calls `f` for each segment of the `len` bytes at offset `at`, with the number of bytes before it. Returns
    /// the number of bytes found.
    #[inline]
    pub(super) fn for_each_segment(
        &self,
        at: usize,
        len: usize,
        mut f: impl FnMut(IoSeg, usize),
    ) -> usize {
        let (mut skip, mut done) = (at, 0);
        for run in &self.segs {
            if done == len {
                break;
            }
            let skipped = skip.min(run.len);
            skip -= skipped;
            let here = (run.len - skipped).min(len - done);
            if here > 0 {
                let addr = run.addr.wrapping_add(skipped);
                f(IoSeg { addr, len: here }, done);
                done += here;
            }
        }
        done
    }

    /// Returns all segments; array entries after the last segment are empty.
    ///
    /// # Safety
    ///
    /// Operations posted with the result complete before the operation that owns this memory.
    pub(super) unsafe fn segments(&self) -> [Segment; MAX_IOV] {
        // SAFETY: By the invariant, and this function's safety requirement.
        let part = |run: IoSeg| unsafe { Segment::new(run.addr as *mut _, run.len) };
        self.segs.map(part)
    }

    /// Returns the first segment of the `len` bytes at offset `at`, up to where it stops being physically
    /// contiguous.
    ///
    /// # Safety
    ///
    /// Operations posted with the result complete before the operation that owns this memory.
    pub(super) unsafe fn first_contiguous(&self, at: usize, len: usize) -> Result<Option<Segment>> {
        let mut first = None;
        self.for_each_segment(at, len, |run, before| {
            if before == 0 {
                first = Some(run);
            }
        });
        let Some(IoSeg { addr, len }) = first else {
            return Ok(None);
        };
        let piece = PhysRanges::new(addr, len)?.next().transpose()?;
        let len = piece.map_or(0, |piece| piece.len());
        // SAFETY: By this function's safety requirement.
        Ok(Some(unsafe { Segment::new(addr as *mut _, len) }))
    }
}
