// SPDX-License-Identifier: GPL-2.0

//! From a consumer's segments to the addresses that a work request carries.
//!
//! A segment with a descriptor lies in a registered region and only has its address translated. One
//! without is mapped for the operation, and unmapped when its slot is retired.

use super::{
    inject_buf::InjectBuf,
    mr::VerbsMr, //
};
use crate::{
    abi::{
        Errno,
        Result, //
    },
    fi::memory::{
        Descriptor,
        Memory,
        Segment,
        Start,
        VectorEntry, //
    },
    rdma::{
        dma::{
            self,
            DataDirection,
            DmaMapping,
            PhysRange,
            PhysRanges, //
        },
        pd::Pd,
        qp::Qp,
        srq::Srq,
        wr::Sge, //
    },
};
use core::mem::MaybeUninit;
use kernel::sync::Arc;

/// Where the kernel sees a part of a message's memory.
///
/// # Errors
///
/// -FI_EINVAL for a page that it has no address for.
#[inline]
pub(super) fn address(part: &VectorEntry) -> Result<usize> {
    match part.start() {
        Start::Address(addr) => Ok(addr),
        Start::Page(..) => Ok(piece(part)?.address()?),
    }
}

/// The piece that a part is, which begins in a page.
fn piece(part: &VectorEntry) -> Result<PhysRange> {
    let Start::Page(page, offset) = part.start() else {
        return Err(Errno::EINVAL);
    };
    // SAFETY: The page exists by the invariant of `VectorEntry`.
    Ok(unsafe { PhysRange::new(page, offset, part.len()) }?)
}

/// Whether a segment lies in the region of its descriptor, if it has one.
///
/// # Errors
///
/// -FI_EINVAL.
pub(super) fn check(segment: &Segment, descriptor: Descriptor, pd: &Pd) -> Result {
    let Some(region) = VerbsMr::from_descriptor(descriptor) else {
        return Ok(());
    };
    if !region.is_of(pd) {
        return Err(Errno::EINVAL);
    }
    region.translate(segment.addr(), segment.len(), |_, _| Ok(()))
}

/// Whether the kernel can store to a segment, until its operation is over: the same memory that devices
/// can.
///
/// # Errors
///
/// -FI_EINVAL.
pub(super) fn check_stores(segment: &Segment) -> Result {
    match segment.is_empty() {
        true => Ok(()),
        false => Ok(dma::check(segment.addr(), segment.len())?),
    }
}

/// Most addresses in one work request.
pub(super) const MAX_SGE: usize = 16;

/// Memory that is one segment in a single run of a registered region, as nearly all is.
pub(super) struct SingleSge {
    start: usize,
    addr: u64,
    len: u32,
}

impl SingleSge {
    /// The memory as such; not if it is empty, which has no address.
    #[inline(always)]
    pub(super) fn of(memory: Memory<'_>, descriptors: &[Descriptor], pd: &Pd) -> Option<Self> {
        let (Memory::Segments([segment]), [descriptor]) = (memory, descriptors) else {
            return None;
        };
        Self::of_one(segment, *descriptor, pd)
    }

    /// The same of one segment.
    #[inline(always)]
    pub(super) fn of_one(segment: &Segment, descriptor: Descriptor, pd: &Pd) -> Option<Self> {
        if segment.is_empty() {
            // Its descriptor means as little as its address.
            return None;
        }
        let region = VerbsMr::from_descriptor(descriptor)?;
        if !region.is_of(pd) {
            return None;
        }
        Some(Self {
            start: segment.addr(),
            addr: region.whole(segment)?,
            // No longer than a message.
            len: segment.len() as u32,
        })
    }

    /// In bytes.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Where the device finds it; inline, it need not look for it.
    #[inline(always)]
    pub(super) fn addr(&self, is_inline: bool) -> u64 {
        match is_inline {
            false => self.addr,
            true => self.start as u64,
        }
    }
}

/// What a work request is posted to, as far as its addresses are concerned.
pub(super) trait LkeySource {
    /// The protection domain that it is in.
    fn pd(&self) -> &Arc<Pd>;

    /// The key for memory that is mapped there.
    fn lkey(&self) -> u32;
}

impl LkeySource for Qp {
    #[inline(always)]
    fn pd(&self) -> &Arc<Pd> {
        self.pd()
    }

    #[inline(always)]
    fn lkey(&self) -> u32 {
        self.local_dma_lkey()
    }
}

impl LkeySource for Srq {
    #[inline(always)]
    fn pd(&self) -> &Arc<Pd> {
        self.pd()
    }

    #[inline(always)]
    fn lkey(&self) -> u32 {
        self.local_dma_lkey()
    }
}

/// The addresses of one work request, on the poster's stack.
pub(super) struct SgeList<'a, K> {
    to: &'a K,
    direction: DataDirection,
    sges: [MaybeUninit<Sge>; MAX_SGE],
    len: usize,
    limit: usize,
    /// Where the slot keeps what it has to unmap; empty where mappings are free.
    mappings: &'a mut [Option<DmaMapping>],
    mapped: usize,
    /// Whether the driver copies the data while it posts.
    is_inline: bool,
}

impl<'a, K: LkeySource> SgeList<'a, K> {
    /// An empty list of at most `limit` addresses.
    #[inline]
    pub(super) fn new(
        to: &'a K,
        direction: DataDirection,
        limit: usize,
        mappings: &'a mut [Option<DmaMapping>],
    ) -> Self {
        Self {
            to,
            direction,
            sges: [const { MaybeUninit::uninit() }; MAX_SGE],
            len: 0,
            limit: limit.min(MAX_SGE),
            mappings,
            mapped: 0,
            is_inline: false,
        }
    }

    /// Adds the memory of a message, with a descriptor for each of its parts or none at all.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for memory that no device may have, that is outside of its region, or that lies
    /// in more pieces than the device takes; -FI_ENOMEM when it cannot be mapped. Nothing stays
    /// mapped then.
    pub(super) fn add(&mut self, memory: Memory<'_>, descriptors: &[Descriptor]) -> Result {
        let mut descriptors = descriptors.iter();
        let added = memory.each(|part| {
            let descriptor = descriptors.next().copied().unwrap_or(Descriptor::NONE);
            if part.is_empty() {
                return Ok(());
            }
            match VerbsMr::from_descriptor(descriptor) {
                Some(region) => self.translate(region, &part),
                None => self.map(&part),
            }
        });
        added.inspect_err(|_| self.undo())
    }

    /// Adds the memory of a message whose data is copied at once: into `slot`, or by the driver while
    /// it posts. Errors as of [`Self::add`].
    pub(super) fn inject(&mut self, memory: Memory<'_>, slot: Option<InjectBuf<'_>>) -> Result {
        if let Some(slot) = slot {
            return self.map_one(&slot.copy(memory)?);
        }
        memory.each(|part| match part.is_empty() {
            true => Ok(()),
            false => self.push(address(&part)? as u64, part.len()),
        })?;
        // siw takes nothing inline that has no bytes.
        self.is_inline = self.len > 0;
        Ok(())
    }

    /// Adds a segment without a descriptor.
    fn map_one(&mut self, segment: &Segment) -> Result {
        if segment.is_empty() {
            return Ok(());
        }
        self.map_range(segment.addr(), segment.len())
            .inspect_err(|_| self.undo())
    }

    /// Gives a list without addresses one of no bytes: siw takes no read without any.
    pub(super) fn pad(&mut self) -> Result {
        match self.len {
            0 => self.push(0, 0),
            _ => Ok(()),
        }
    }

    #[inline]
    fn push(&mut self, addr: u64, len: usize) -> Result {
        if self.len >= self.limit {
            return Err(Errno::EINVAL);
        }
        let len = u32::try_from(len).map_err(|_| Errno::EMSGSIZE)?;
        self.sges[self.len].write(Sge::new(addr, len, self.to.lkey()));
        self.len += 1;
        Ok(())
    }

    #[inline]
    fn translate(&mut self, region: &VerbsMr, part: &VectorEntry) -> Result {
        if !region.is_of(self.to.pd()) {
            return Err(Errno::EINVAL);
        }
        region.translate(address(part)?, part.len(), |addr, len| self.push(addr, len))
    }

    fn map(&mut self, part: &VectorEntry) -> Result {
        match part.start() {
            Start::Address(addr) => self.map_range(addr, part.len()),
            Start::Page(..) => self.map_piece(piece(part)?),
        }
    }

    fn map_range(&mut self, addr: usize, len: usize) -> Result {
        for piece in PhysRanges::new(addr, len)? {
            self.map_piece(piece?)?;
        }
        Ok(())
    }

    fn map_piece(&mut self, piece: PhysRange) -> Result {
        // SAFETY: The memory is the operation's until it completes, and the slot keeps the mapping
        // until then.
        let mapping = unsafe { self.to.pd().dma().map(piece, self.direction) }?;
        let added = self.push(mapping.addr(), mapping.len());
        match self.mappings.get_mut(self.mapped) {
            Some(place) if added.is_ok() => {
                *place = Some(mapping);
                self.mapped += 1;
            }
            // Where the device takes kernel addresses, a mapping is the address itself and stays
            // good when it is undone.
            // SAFETY: It was made here, and needs no undoing or has not been posted.
            _ => unsafe { self.to.pd().dma().unmap(mapping) },
        }
        added
    }

    /// Whether the driver is to copy the data while it posts.
    #[inline]
    pub(super) fn is_inline(&self) -> bool {
        self.is_inline
    }

    /// What to post.
    #[inline]
    pub(super) fn sges(&self) -> &[Sge] {
        // SAFETY: The first `len` entries have been written.
        unsafe { core::slice::from_raw_parts(self.sges.as_ptr().cast(), self.len) }
    }

    /// Unmaps everything, when it is not posted after all.
    pub(super) fn undo(&mut self) {
        for place in self.mappings.iter_mut().take(self.mapped) {
            if let Some(mapping) = place.take() {
                // SAFETY: It was made here and nothing has been posted.
                unsafe { self.to.pd().dma().unmap(mapping) };
            }
        }
        self.mapped = 0;
    }
}
