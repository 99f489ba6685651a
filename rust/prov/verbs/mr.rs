// SPDX-License-Identifier: GPL-2.0

//! Memory regions: DMA mappings that are made once, and the key by which peers access the memory.
//!
//! A single mapping cannot serve many operations where device and CPU are not coherent. There a
//! region is not mapped and has no descriptor, each operation maps its memory as it does without a
//! region, and regions for peers cannot be registered.
//!
//! Keys are made and invalidated by fast registration work requests, and `fi_mr_reg()` may come
//! before any connection. So a domain has a queue pair for this purpose only, created on first use.
//! Its registrations are valid for every queue pair of the domain. The mutex `reg_qp` guards the
//! queue pair, and is held while a work request is executed: one at a time.

use super::prelude::*;
use crate::{
    abi::FI_KEY_NOTAVAIL,
    fi::mr::{
        Access,
        Addressing, //
    },
    rdma::{
        dma::PhysRanges,
        fast_reg_qp::FastRegQp,
        mr::{
            self,
            DmaSegment,
            FastMr,
            Right, //
        },
    },
    util::sort::sort_by_key, //
};

/// Range of the region that is contiguous for the device.
struct MrSpan {
    start: usize,
    mapping: DmaMapping,
}

/// Registration of a region that peers access.
struct RemoteMr {
    mr: FastMr,
    fast_reg: Arc<FastReg>,
}

/// Fields of a region with a single span that address translation needs, side by side.
#[derive(Default)]
struct SingleSpan {
    start: usize,
    /// Length, at most that of a message. 0 if the region has not exactly one span.
    len: usize,
    addr: u64,
}

/// A memory region.
pub(super) struct VerbsMr {
    pd: Arc<Pd>,
    single: SingleSpan,
    /// Sorted by address; empty where each operation has to map.
    spans: KVVec<MrSpan>,
    remote: Option<RemoteMr>,
}

/// Returns the device's access rights for a peer that may read or write. Devices require local write
/// access for remote writes, and have a right of their own for atomics, which here need read and
/// write access.
pub(super) fn peer_access(reads: bool, writes: bool, has_atomics: bool) -> mr::Access {
    let mut rights = mr::Access::default();
    if reads {
        rights |= Right::RemoteRead;
    }
    if writes {
        rights |= Right::LocalWrite | Right::RemoteWrite;
    }
    if reads && writes && has_atomics {
        rights |= Right::RemoteAtomic;
    }
    rights
}

impl VerbsMr {
    /// Maps `memory` for local use by messages of at most `max_len` bytes. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for memory that devices may not access, -FI_ENOMEM.
    #[inline(never)]
    pub(super) fn new_local(pd: Arc<Pd>, memory: &[Segment], max_len: usize) -> Result<Arc<Self>> {
        let mut region = Self::map_memory(pd, memory)?;
        if region.needs_sync() {
            // SAFETY: No other reference exists yet.
            unsafe { region.unmap() };
        }
        region.into_arc(max_len)
    }

    /// Maps `memory` and registers it for peers. May sleep.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::new_local`]; -FI_EOPNOTSUPP where device and CPU are not coherent;
    /// -FI_EINVAL for memory that the device cannot list, as [`FastMr::new`] says; the errors of
    /// [`FastReg::register`].
    #[inline(never)]
    pub(super) fn new_remote(
        fast_reg: &Arc<FastReg>,
        memory: &[Segment],
        access: Access,
        addressing: Addressing,
        max_len: usize,
    ) -> Result<Arc<Self>> {
        let pd = &fast_reg.pd;
        let mut region = Self::map_memory(pd.clone(), memory)?;
        if region.needs_sync() {
            return Err(Errno::EOPNOTSUPP);
        }
        let runs = region.dma_segments()?;
        let rights = peer_access(
            access.is_remote_read(),
            access.is_remote_write(),
            pd.device().attributes.has_atomics,
        );
        // SAFETY: The region keeps its mappings until it has dropped the `FastMr`. Registering the
        // memory permits these accesses.
        let mr = unsafe { FastMr::new(pd.clone(), &runs, addressing.base(memory), rights) }?;
        fast_reg.register(&mr)?;
        region.remote = Some(RemoteMr {
            mr,
            fast_reg: fast_reg.clone(),
        });
        region.into_arc(max_len)
    }

    /// Maps `memory`; the spans have the order of the segments.
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
                // Cannot fail: capacity has been reserved above.
                let _ = region.spans.push_within_capacity(MrSpan { start, mapping });
                start += len;
            }
        }
        Ok(region)
    }

    /// Returns whether writes by the device or CPU have to be synced for the other one.
    fn needs_sync(&self) -> bool {
        let dma = self.pd.dma();
        self.spans.iter().any(|span| dma.needs_sync(&span.mapping))
    }

    /// Returns the memory as the device sees it, with adjacent spans merged.
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
    /// The mappings are not used by an operation.
    unsafe fn unmap(&mut self) {
        for span in core::mem::take(&mut self.spans) {
            // SAFETY: Mapped in `map_memory`, and by this function's safety requirement.
            unsafe { self.pd.dma().unmap(span.mapping) };
        }
    }

    /// Returns the region of a descriptor.
    #[inline]
    pub(super) fn from_descriptor<'a>(descriptor: Descriptor) -> Option<&'a Self> {
        // SAFETY: By the invariant of `Descriptor` it is null or a result of `descriptor()` below,
        // of a region that outlives the operation.
        unsafe { descriptor.as_ptr().cast::<Self>().as_ref() }
    }

    /// Returns whether the region belongs to the protection domain `pd`.
    #[inline]
    pub(super) fn is_in_pd(&self, pd: &Pd) -> bool {
        core::ptr::eq(&*self.pd, pd)
    }

    /// Returns the DMA address of a segment, if the region has a single span that contains the
    /// segment, and the segment is no longer than a message.
    #[inline(always)]
    pub(super) fn single_span_addr(&self, segment: &Segment) -> Option<u64> {
        let offset = segment.addr().wrapping_sub(self.single.start);
        // For an address below the start, the sum exceeds the length of any region, or overflows.
        let end = offset.checked_add(segment.len())?;
        (end <= self.single.len).then(|| self.single.addr + offset as u64)
    }

    /// Returns the number of spans, of which each element names a part.
    pub(super) fn span_count(&self) -> usize {
        self.spans.len()
    }

    /// Calls `push` with the DMA addresses of the `len` bytes from `addr` on.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if they are not all in the region, and the errors of `push`.
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
        if let Some(remote) = self.remote.take() {
            remote.fast_reg.invalidate(&remote.mr);
            // Deregistering ends the key even if the invalidation failed. Waits for drivers that
            // are still transferring a packet.
            drop(remote.mr);
        }
        // SAFETY: The consumer has closed the region, and by the invariant of descriptors no
        // operation uses it then.
        unsafe { self.unmap() };
    }
}

/// Registers memory of one protection domain.
#[pin_data]
pub(super) struct FastReg {
    pd: Arc<Pd>,
    /// The queue pair; None before first use, and after a failure.
    #[pin]
    reg_qp: Mutex<Option<FastRegQp>>,
}

impl FastReg {
    /// Creates the registration queue pair of a protection domain. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(pd: Arc<Pd>) -> Result<Arc<Self>> {
        Ok(Arc::pin_init(
            pin_init!(Self {
                pd,
                reg_qp <- new_mutex!(None, "kofi::verbs::FastReg"),
            }),
            GFP_KERNEL,
        )?)
    }

    /// Registers `mr` for peers. May sleep, some seconds if the device does not answer.
    ///
    /// # Errors
    ///
    /// -FI_EIO when the device refuses, -FI_ETIMEDOUT when it does not answer, -FI_ENOMEM, and on
    /// iWARP the errors of connecting.
    #[inline(never)]
    pub(super) fn register(&self, mr: &FastMr) -> Result {
        let mut reg_qp = self.reg_qp.lock();
        if let Some(old) = reg_qp.take() {
            *reg_qp = self.register_with(old, mr);
        }
        // The old queue pair may have failed before, so a new one is tried.
        if reg_qp.is_none() {
            *reg_qp = Some(self.register_with_new_qp(mr)?);
        }
        Ok(())
    }

    /// Registers `mr` with an existing queue pair, and returns the queue pair unless it is in
    /// error.
    #[inline(never)]
    fn register_with(&self, old: FastRegQp, mr: &FastMr) -> Option<FastRegQp> {
        let same = old.register(mr);
        same.inspect_err(|error| self.warn((*error).into())).ok()
    }

    /// Registers `mr` with a new queue pair, and returns the queue pair.
    #[inline(never)]
    fn register_with_new_qp(&self, mr: &FastMr) -> Result<FastRegQp> {
        Ok(FastRegQp::new(&self.pd)?.register(mr)?)
    }

    /// Invalidates the key of `mr`, if there is a queue pair. May sleep.
    ///
    /// No queue pair is created for it, and a failure is logged only: dropping `mr` ends the key,
    /// too.
    pub(super) fn invalidate(&self, mr: &FastMr) {
        let mut reg_qp = self.reg_qp.lock();
        if let Some(old) = reg_qp.take() {
            match old.invalidate(mr) {
                Ok(same) => *reg_qp = Some(same),
                Err(error) => self.warn(error.into()),
            }
        }
    }

    fn warn(&self, errno: Errno) {
        warn(
            &self.pd.device().name(),
            fmt!(
                "the queue pair that registers memory failed and is replaced: {:?}",
                errno
            ),
        );
    }
}
