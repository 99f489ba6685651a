// SPDX-License-Identifier: GPL-2.0

//! Scatter/gather lists of work requests, from a consumer's segments.
//!
//! A segment with a descriptor lies in a registered region, and only its address is translated. A
//! segment without one is mapped for the operation, and unmapped when its slot is retired.

use super::{
    mr::VerbsMr,
    pieces::{
        for_each_piece,
        take_pieces,
        Piece, //
    },
    prelude::*, //
};
use crate::{
    fi::memory::{
        Start,
        VectorEntry, //
    },
    rdma::dma::{
        self,
        PhysRange, //
    },
};
use core::slice::from_ref;

/// Returns the kernel address of a part of a message's memory.
///
/// # Errors
///
/// -FI_EINVAL for a page without a kernel address.
#[inline]
pub(super) fn kernel_addr(part: &VectorEntry) -> Result<usize> {
    match part.start() {
        Start::Address(addr) => Ok(addr),
        Start::Page(..) => Ok(phys_range(part)?.kernel_addr()?),
    }
}

/// Returns the physical range of a part that begins in a page.
#[inline(always)]
pub(super) fn phys_range(part: &VectorEntry) -> Result<PhysRange> {
    let Start::Page(page, offset) = part.start() else {
        return Err(Errno::EINVAL);
    };
    // SAFETY: The page exists by the invariant of `VectorEntry`.
    Ok(unsafe { PhysRange::new(page, offset, part.len()) }?)
}

/// Checks that a segment lies in the region of its descriptor, if it has one.
///
/// # Errors
///
/// -FI_EINVAL if not, or for a region of another protection domain.
pub(super) fn check_descriptor(segment: &Segment, descriptor: Descriptor, pd: &Pd) -> Result {
    let Some(region) = VerbsMr::from_descriptor(descriptor) else {
        return Ok(());
    };
    if !region.is_in_pd(pd) {
        return Err(Errno::EINVAL);
    }
    region.translate(segment.addr(), segment.len(), |_, _| Ok(()))
}

/// Checks each part of a message's memory as [`check_descriptor`] does.
///
/// # Errors
///
/// -FI_EINVAL if one is not in its region.
#[inline]
pub(super) fn check_descriptors(memory: Memory<'_>, descriptors: &[Descriptor], pd: &Pd) -> Result {
    if let (Memory::Segments([segment]), [descriptor]) = (memory, descriptors) {
        let region = VerbsMr::from_descriptor(*descriptor).filter(|region| region.is_in_pd(pd));
        if region.is_some_and(|region| region.single_span_addr(segment).is_some()) {
            return Ok(());
        }
    }
    check_each_descriptor(memory, descriptors, pd)
}

/// Implements [`check_descriptors`] for several parts, and for regions of several spans.
#[inline(never)]
fn check_each_descriptor(memory: Memory<'_>, descriptors: &[Descriptor], pd: &Pd) -> Result {
    let mut descriptors = descriptors.iter();
    memory.for_each(|part| {
        let region = descriptors
            .next()
            .copied()
            .and_then(VerbsMr::from_descriptor);
        match region {
            Some(region) if !part.is_empty() => match region.is_in_pd(pd) {
                true => region.translate(kernel_addr(&part)?, part.len(), |_, _| Ok(())),
                false => Err(Errno::EINVAL),
            },
            _ => Ok(()),
        }
    })
}

/// Checks that the kernel can store to a segment until its operation has completed: the memory has
/// to be accessible to devices, too.
///
/// # Errors
///
/// -FI_EINVAL for other memory.
pub(super) fn check_writable(segment: &Segment) -> Result {
    match segment.is_empty() {
        true => Ok(()),
        false => Ok(dma::check_range(segment.addr(), segment.len())?),
    }
}

/// Maximum number of scatter/gather elements of a work request.
pub(super) const MAX_SGE: usize = 16;

/// The scatter/gather element of a segment in a single span of a registered region, the common
/// case.
pub(super) struct SingleSge {
    kernel_addr: usize,
    dma_addr: u64,
    len: u32,
}

impl SingleSge {
    /// Creates the element of a message's memory. None for other memory, and for an empty segment,
    /// which has no address.
    #[inline(always)]
    pub(super) fn from_memory(
        memory: Memory<'_>,
        descriptors: &[Descriptor],
        pd: &Pd,
    ) -> Option<Self> {
        let (Memory::Segments([segment]), [descriptor]) = (memory, descriptors) else {
            return None;
        };
        Self::from_segment(segment, *descriptor, pd)
    }

    /// Creates the element of a segment, like [`Self::from_memory`].
    #[inline(always)]
    pub(super) fn from_segment(segment: &Segment, descriptor: Descriptor, pd: &Pd) -> Option<Self> {
        if segment.is_empty() {
            // The descriptor of an empty segment is ignored, like its address.
            return None;
        }
        let region = VerbsMr::from_descriptor(descriptor)?;
        if !region.is_in_pd(pd) {
            return None;
        }
        Some(Self {
            kernel_addr: segment.addr(),
            dma_addr: region.single_span_addr(segment)?,
            // No longer than a message.
            len: segment.len() as u32,
        })
    }

    /// Returns the length in bytes.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Returns the DMA address, or for inline data the kernel address, from which the driver
    /// copies.
    #[inline(always)]
    pub(super) fn addr(&self, is_inline: bool) -> u64 {
        match is_inline {
            false => self.dma_addr,
            true => self.kernel_addr as u64,
        }
    }

    /// Returns the element for a work request of a queue in `pd`.
    #[inline(always)]
    pub(super) fn build(&self, is_inline: bool, pd: &Pd) -> Sge {
        Sge::new(self.addr(is_inline), self.len, pd.local_dma_lkey())
    }
}

/// Scatter/gather list of one work request, on the poster's stack.
pub(super) struct SgeList<'a> {
    pd: &'a Pd,
    direction: DataDirection,
    sges: [MaybeUninit<Sge>; MAX_SGE],
    len: usize,
    limit: usize,
    /// The slot's place for mappings to undo; empty where the DMA address needs no mapping.
    mappings: &'a mut [Option<DmaMapping>],
    mapped_count: usize,
    /// Set if the driver copies the data while it posts.
    pub(super) is_inline: bool,
}

impl<'a> SgeList<'a> {
    /// Creates an empty list of at most `limit` elements, for a queue in `pd`.
    #[inline]
    pub(super) fn new(
        pd: &'a Pd,
        direction: DataDirection,
        limit: usize,
        mappings: &'a mut [Option<DmaMapping>],
    ) -> Self {
        Self {
            pd,
            direction,
            sges: [const { MaybeUninit::uninit() }; MAX_SGE],
            len: 0,
            limit: limit.min(MAX_SGE),
            mappings,
            mapped_count: 0,
            is_inline: false,
        }
    }

    /// Adds the memory of a message, with a descriptor for each of its parts or none at all.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for memory that devices may not access, that is outside of its region, or that
    /// takes more elements than the device; -FI_ENOMEM when it cannot be mapped. All of it is
    /// unmapped then.
    pub(super) fn push_memory(&mut self, memory: Memory<'_>, descriptors: &[Descriptor]) -> Result {
        let mut descriptors = descriptors.iter();
        let added = memory.for_each(|part| {
            let descriptor = descriptors.next().copied().unwrap_or(Descriptor::NONE);
            if part.is_empty() {
                return Ok(());
            }
            for_each_piece(self.pd, &part, descriptor, |piece| self.push_piece(piece))
        });
        added.inspect_err(|_| self.unmap_all())
    }

    /// Adds the pieces of a part of a message's memory that is not empty, until the list is full. Returns the number of
    /// bytes added.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::push_memory`], without unmapping, except for too many elements.
    pub(super) fn push_some(
        &mut self,
        part: &VectorEntry,
        descriptor: Descriptor,
    ) -> Result<usize> {
        let mut space = self.limit - self.len;
        take_pieces(self.pd, part, descriptor, &mut space, |piece| {
            self.push_piece(piece)
        })
    }

    /// Adds the memory of a message whose data is copied at once: into `buf`, or by the driver
    /// while it posts. The errors are those of [`Self::push_memory`].
    pub(super) fn push_inject(&mut self, memory: Memory<'_>, buf: Option<InjectBuf<'_>>) -> Result {
        if let Some(buf) = buf {
            let copy = buf.fill_from(memory)?;
            if copy.is_empty() {
                return Ok(());
            }
            return self.push_memory(Memory::Segments(from_ref(&copy)), &[]);
        }
        memory.for_each(|part| match part.is_empty() {
            true => Ok(()),
            false => self.push_sge(kernel_addr(&part)? as u64, part.len()),
        })?;
        // siw takes no empty message inline.
        self.is_inline = self.len > 0;
        Ok(())
    }

    /// Adds an element of length 0 to an empty list: siw takes no read without elements.
    pub(super) fn pad_if_empty(&mut self) -> Result {
        match self.len {
            0 => self.push_sge(0, 0),
            _ => Ok(()),
        }
    }

    #[inline]
    fn push_sge(&mut self, addr: u64, len: usize) -> Result {
        if self.len >= self.limit {
            return Err(Errno::EINVAL);
        }
        let len = u32::try_from(len).map_err(|_| Errno::EMSGSIZE)?;
        self.sges[self.len].write(Sge::new(addr, len, self.pd.local_dma_lkey()));
        self.len += 1;
        Ok(())
    }

    #[inline]
    fn push_piece(&mut self, piece: Piece) -> Result {
        match piece {
            Piece::Registered(addr, len) => self.push_sge(addr, len),
            Piece::Unmapped(range) => self.push_mapped(range),
        }
    }

    fn push_mapped(&mut self, range: PhysRange) -> Result {
        // SAFETY: The memory is the operation's until it completes, and the slot keeps the mapping
        // until then.
        let mapping = unsafe { self.pd.dma().map(range, self.direction) }?;
        let added = self.push_sge(mapping.addr(), mapping.len());
        match self.mappings.get_mut(self.mapped_count) {
            Some(place) if added.is_ok() => {
                *place = Some(mapping);
                self.mapped_count += 1;
            }
            // Where the device takes kernel addresses, a mapping is the address itself and remains
            // valid when it is undone.
            // SAFETY: It was made here, and needs no undoing or has not been posted.
            _ => unsafe { self.pd.dma().unmap(mapping) },
        }
        added
    }

    /// Returns the elements to post.
    #[inline]
    pub(super) fn sges(&self) -> &[Sge] {
        // SAFETY: The first `len` entries have been written.
        unsafe { core::slice::from_raw_parts(self.sges.as_ptr().cast(), self.len) }
    }

    /// Unmaps everything, when the work request was not posted.
    pub(super) fn unmap_all(&mut self) {
        for place in self.mappings.iter_mut().take(self.mapped_count) {
            if let Some(mapping) = place.take() {
                // SAFETY: It was mapped here, and the work request has not been posted.
                unsafe { self.pd.dma().unmap(mapping) };
            }
        }
        self.mapped_count = 0;
    }
}

/// The buffer of one slot for injected data, where devices do not take it inline.
///
/// # Invariants
///
/// The buffer is not accessed otherwise until the slot's operation has completed.
pub(super) struct InjectBuf<'a>(&'a mut [MaybeUninit<u8>]);

impl<'a> InjectBuf<'a> {
    /// Creates the object for a slot's buffer.
    ///
    /// # Safety
    ///
    /// The slot is not filled again before the device is done with the buffer.
    pub(super) unsafe fn new(buf: &'a mut [MaybeUninit<u8>]) -> Self {
        // INVARIANT: By this function's safety requirement.
        Self(buf)
    }

    /// Copies `memory`, which is not used after this call.
    ///
    /// # Errors
    ///
    /// -FI_EMSGSIZE when it is longer; -FI_EINVAL for a page without a kernel address.
    pub(super) fn fill_from(self, memory: Memory<'_>) -> Result<Segment> {
        let mut len = 0;
        memory.for_each(|part| {
            if part.is_empty() {
                return Ok(());
            }
            let space = self
                .0
                .get_mut(len..)
                .and_then(|rest| rest.get_mut(..part.len()));
            let space = space.ok_or(Errno::EMSGSIZE)?;
            let from = kernel_addr(&part)? as *const u8;
            // SAFETY: The memory is readable by the invariants of `Memory`'s parts, and does not
            // overlap the buffer, which has space for it.
            unsafe { ptr::copy_nonoverlapping(from, space.as_mut_ptr().cast(), space.len()) };
            len += part.len();
            Ok(())
        })?;
        // SAFETY: By the invariant, it is not accessed otherwise until the operation has completed.
        Ok(unsafe { Segment::new(self.0.as_mut_ptr().cast(), len) })
    }
}
