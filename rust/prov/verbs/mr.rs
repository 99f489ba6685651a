// SPDX-License-Identifier: GPL-2.0

//! Registered memory, for local use: its DMA mappings, made once.
//!
//! Where the device and the CPU do not see the same memory at all times, one mapping cannot serve
//! many operations: a region is not mapped there and has no descriptor, and each operation maps its
//! memory for itself, as without a region.

use crate::{
    abi::{
        Errno,
        Result,
        FI_KEY_NOTAVAIL, //
    },
    fi::{
        memory::{
            Descriptor,
            Segment, //
        },
        provider, //
    },
    rdma::{
        dma::{
            Direction,
            Mapping,
            Pieces, //
        },
        pd::Pd, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A run of the region that is contiguous for the device.
struct Span {
    start: usize,
    mapping: Mapping,
}

/// A registered region.
pub(super) struct Region {
    pd: Arc<Pd>,
    /// In the order of their addresses; none where each operation has to map.
    spans: KVVec<Span>,
}

impl Region {
    /// Maps `memory`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for memory that no device may have, -FI_ENOMEM.
    pub(super) fn new(pd: Arc<Pd>, memory: &[Segment]) -> Result<Arc<Self>> {
        let mut region = Self {
            pd,
            spans: KVVec::new(),
        };
        for segment in memory {
            let mut start = segment.addr();
            for piece in Pieces::new(segment.addr(), segment.len())? {
                region.spans.reserve(1, GFP_KERNEL)?;
                // SAFETY: The memory stays valid until the region is closed, which unmaps it.
                let mapping = unsafe { region.pd.dma().map(piece?, Direction::Both) }?;
                let len = mapping.len();
                // There is room: it has just been made.
                let _ = region.spans.push_within_capacity(Span { start, mapping });
                start += len;
            }
        }
        let dma = region.pd.dma();
        if region
            .spans
            .iter()
            .any(|span| dma.needs_sync(&span.mapping))
        {
            region.unmap();
        }
        region.spans.sort_unstable_by_key(|span| span.start);
        Ok(Arc::new(region, GFP_KERNEL)?)
    }

    /// Undoes all mappings, which no operation uses.
    fn unmap(&mut self) {
        for span in core::mem::take(&mut self.spans) {
            // SAFETY: Made in `new`; whoever calls this says that no operation uses it.
            unsafe { self.pd.dma().unmap(span.mapping) };
        }
    }

    /// The region that a descriptor stands for.
    #[inline]
    pub(super) fn from_descriptor<'a>(descriptor: Descriptor) -> Option<&'a Self> {
        // SAFETY: By the invariant of `Descriptor` it is null or what `descriptor()` below gave,
        // of a region that outlives the operation.
        unsafe { descriptor.as_ptr().cast::<Self>().as_ref() }
    }

    /// Whether it can be used with this protection domain.
    #[inline]
    pub(super) fn is_of(&self, pd: &Pd) -> bool {
        core::ptr::eq(&*self.pd, pd)
    }

    /// The device's address and the length of a segment, if the region is a single run that has all
    /// of its bytes.
    #[inline(always)]
    pub(super) fn whole(&self, segment: &Segment) -> Option<(u64, u32)> {
        let [span] = self.spans.as_slice() else {
            return None;
        };
        let offset = segment.addr().wrapping_sub(span.start);
        let len = segment.len();
        // Below the start, the offset is larger than any region.
        if offset > span.mapping.len() || len > span.mapping.len() - offset {
            return None;
        }
        Some((
            span.mapping.addr() + offset as u64,
            u32::try_from(len).ok()?,
        ))
    }

    /// Hands the device's addresses of `len` bytes from `addr` on to `push`.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if they are not all in the region, what `push` says.
    #[inline]
    pub(super) fn translate(
        &self,
        mut addr: usize,
        mut len: usize,
        mut push: impl FnMut(u64, usize) -> Result,
    ) -> Result {
        let mut at = match self.spans.len() {
            1 => 0,
            _ => self
                .spans
                .partition_point(|span| span.start <= addr)
                .checked_sub(1)
                .ok_or(Errno::EINVAL)?,
        };
        while len > 0 {
            let span = self.spans.get(at).ok_or(Errno::EINVAL)?;
            let offset = addr.checked_sub(span.start).ok_or(Errno::EINVAL)?;
            let left = span
                .mapping
                .len()
                .checked_sub(offset)
                .filter(|left| *left > 0)
                .ok_or(Errno::EINVAL)?;
            let run = left.min(len);
            push(span.mapping.addr() + offset as u64, run)?;
            addr += run;
            len -= run;
            at += 1;
        }
        Ok(())
    }
}

impl provider::MemoryRegion for Region {
    fn descriptor(&self) -> Descriptor {
        if self.spans.is_empty() {
            return Descriptor::NONE;
        }
        // SAFETY: The consumer keeps the region open while operations use it.
        unsafe { Descriptor::new(core::ptr::from_ref(self).cast_mut().cast()) }
    }

    fn key(&self) -> u64 {
        FI_KEY_NOTAVAIL
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // The consumer has closed the region, so nothing uses it.
        self.unmap();
    }
}
