// SPDX-License-Identifier: GPL-2.0

//! Registered memory: its DMA mappings, made once, and the key by which peers reach it.
//!
//! Where the device and the CPU do not see the same memory at all times, one mapping cannot serve
//! many operations: a region is not mapped there and has no descriptor, each operation maps its
//! memory for itself, as without a region, and there are no regions for peers.

use super::fast_reg::FastReg;
use crate::{
    abi::{
        sort::sort_by_key,
        Errno,
        Result,
        FI_KEY_NOTAVAIL, //
    },
    fi::{
        memory::{
            Descriptor,
            Segment, //
        },
        mr::{
            Access,
            Addressing, //
        },
        provider, //
    },
    rdma::{
        device_attr::AtomicCap,
        dma::{
            DataDirection,
            DmaMapping,
            PhysRanges, //
        },
        mr::{
            self,
            DmaSegment,
            FastMr,
            Right, //
        },
        pd::Pd, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A run of the region that is contiguous for the device.
struct MrSpan {
    start: usize,
    mapping: DmaMapping,
}

/// A region that peers reach.
struct RemoteMr {
    mr: FastMr,
    fast_reg: Arc<FastReg>,
}

/// What a region of a single span needs to find a segment in it, side by side.
#[derive(Default)]
struct SingleSpan {
    start: usize,
    /// No more than a message may have. 0 when there is another number of spans than one.
    len: usize,
    addr: u64,
}

/// A registered region.
pub(super) struct VerbsMr {
    pd: Arc<Pd>,
    single: SingleSpan,
    /// In the order of their addresses; none where each operation has to map.
    spans: KVVec<MrSpan>,
    remote: Option<RemoteMr>,
}

/// What a region's rights are to the device. It wants to be told of a remote write that it is one
/// of ours too, and knows atomics as a thing of their own: here they read and write.
fn access_flags(access: Access, pd: &Pd) -> mr::Access {
    let mut rights = mr::Access::default();
    if access.is_remote_read() {
        rights |= Right::RemoteRead;
    }
    if access.is_remote_write() {
        rights |= Right::LocalWrite | Right::RemoteWrite;
    }
    let atomics = pd.device().attributes().atomic_cap != AtomicCap::None;
    if access.is_remote_read() && access.is_remote_write() && atomics {
        rights |= Right::RemoteAtomic;
    }
    rights
}

impl VerbsMr {
    /// Maps `memory` for local use by messages of at most `most` bytes. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for memory that no device may have, -FI_ENOMEM.
    #[inline(never)]
    pub(super) fn new_local(pd: Arc<Pd>, memory: &[Segment], max_len: usize) -> Result<Arc<Self>> {
        let mut region = Self::map_memory(pd, memory)?;
        if region.needs_sync() {
            // SAFETY: No other reference exists yet.
            unsafe { region.unmap() };
        }
        region.into_arc(max_len)
    }

    /// Maps `memory` and opens it to peers. May sleep.
    ///
    /// # Errors
    ///
    /// Those of [`Self::local`]; -FI_EOPNOTSUPP where device and CPU do not see the same memory at
    /// all times; -FI_EINVAL for what the device cannot list, as [`FastMr::new`] says; those of
    /// [`FastReg::register`].
    #[inline(never)]
    pub(super) fn new_remote(
        fast_reg: &Arc<FastReg>,
        memory: &[Segment],
        access: Access,
        addressing: Addressing,
        max_len: usize,
    ) -> Result<Arc<Self>> {
        let pd = fast_reg.pd();
        let mut region = Self::map_memory(pd.clone(), memory)?;
        if region.needs_sync() {
            return Err(Errno::EOPNOTSUPP);
        }
        let runs = region.dma_segments()?;
        // SAFETY: The region keeps its mappings until it has dropped what is made here. That the
        // memory may be accessed like this is what registering it means.
        let mr = unsafe {
            FastMr::new(
                pd.clone(),
                &runs,
                addressing.base(memory),
                access_flags(access, pd),
            )
        }?;
        fast_reg.register(&mr)?;
        region.remote = Some(RemoteMr {
            mr,
            fast_reg: fast_reg.clone(),
        });
        region.into_arc(max_len)
    }

    /// A region whose spans have the order of the segments.
    fn map_memory(pd: Arc<Pd>, memory: &[Segment]) -> Result<Self> {
        let mut region = Self {
            pd,
            single: SingleSpan::default(),
            spans: KVVec::new(),
            remote: None,
        };
        for segment in memory {
            let mut start = segment.addr();
            for piece in PhysRanges::new(segment.addr(), segment.len())? {
                region.spans.reserve(1, GFP_KERNEL)?;
                // SAFETY: The memory stays valid until the region is closed, which unmaps it.
                let mapping = unsafe { region.pd.dma().map(piece?, DataDirection::Bidirectional) }?;
                let len = mapping.len();
                // There is room: it has just been made.
                let _ = region.spans.push_within_capacity(MrSpan { start, mapping });
                start += len;
            }
        }
        Ok(region)
    }

    /// Whether what one side writes has to be handed over to the other.
    fn needs_sync(&self) -> bool {
        let dma = self.pd.dma();
        self.spans.iter().any(|span| dma.needs_sync(&span.mapping))
    }

    /// The same as the device sees it.
    fn dma_segments(&self) -> Result<KVVec<DmaSegment>> {
        let mut runs: KVVec<DmaSegment> = KVVec::new();
        for span in &self.spans {
            let next = DmaSegment {
                addr: span.mapping.addr(),
                len: span.mapping.len() as u64,
            };
            if !runs.last_mut().is_some_and(|last| last.try_merge(&next)) {
                runs.push(next, GFP_KERNEL)?;
            }
        }
        Ok(runs)
    }

    fn into_arc(mut self, max_len: usize) -> Result<Arc<Self>> {
        sort_by_key(&mut self.spans, |span| span.start);
        if let [MrSpan { start, mapping }] = self.spans.as_slice() {
            self.single = SingleSpan {
                start: *start,
                len: mapping.len().min(max_len),
                addr: mapping.addr(),
            };
        }
        Ok(Arc::new(self, GFP_KERNEL)?)
    }

    /// Unmaps all memory.
    ///
    /// # Safety
    ///
    /// No operation uses them.
    unsafe fn unmap(&mut self) {
        for span in core::mem::take(&mut self.spans) {
            // SAFETY: Made in `map`, and by this function's safety requirement.
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
    pub(super) fn is_in_pd(&self, pd: &Pd) -> bool {
        core::ptr::eq(&*self.pd, pd)
    }

    /// Where the device sees a segment, if the region is a single run that has all of its bytes; not too
    /// many for a message.
    #[inline(always)]
    pub(super) fn single_span_addr(&self, segment: &Segment) -> Option<u64> {
        let offset = segment.addr().wrapping_sub(self.single.start);
        // From below the start, that is more than any region has, or than there is.
        let end = offset.checked_add(segment.len())?;
        (end <= self.single.len).then(|| self.single.addr + offset as u64)
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

impl provider::MemoryRegion for VerbsMr {
    fn descriptor(&self) -> Descriptor {
        if self.spans.is_empty() {
            return Descriptor::NONE;
        }
        // SAFETY: The consumer keeps the region open while operations use it.
        unsafe { Descriptor::new(core::ptr::from_ref(self).cast_mut().cast()) }
    }

    fn key(&self) -> u64 {
        let key = |remote: &RemoteMr| u64::from(remote.mr.rkey());
        self.remote.as_ref().map_or(FI_KEY_NOTAVAIL, key)
    }
}

impl Drop for VerbsMr {
    fn drop(&mut self) {
        if let Some(RemoteMr {
            mr,
            fast_reg: registrar,
        }) = self.remote.take()
        {
            registrar.invalidate(&mr);
            // Whatever came of that: without the region there is no key. Drivers that are still
            // moving a packet are waited for here.
            drop(mr);
        }
        // SAFETY: The consumer has closed the region, and by the invariant of descriptors no operation uses it
        // then.
        unsafe { self.unmap() };
    }
}
