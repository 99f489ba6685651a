// SPDX-License-Identifier: GPL-2.0

//! I/O vectors of messages, and copies between them and packets.
//!
//! The CPU copies a message that fits into one packet or a few: the sender may reuse its memory soon, and the
//! receive need not be posted before the message arrives. A device reads a longer message from where it is.

mod io_vec;
#[cfg(CONFIG_KUNIT = "y")]
mod tests;

use crate::fi::prelude::*;

pub(crate) use io_vec::AddrCheck;
use io_vec::{
    IoSeg,
    IoVec, //
};

/// Limit of the segments of a message.
pub(crate) const MAX_IOV: usize = 4;

/// Source memory of an operation that sends.
///
/// # Invariants
///
/// The memory belongs to an operation that has not completed.
pub(crate) struct SrcBuf(IoVec);

impl SrcBuf {
    /// Memory of no bytes.
    pub(crate) const EMPTY: Self = Self(IoVec::EMPTY);

    /// Wraps the memory of an operation that sends.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for more than [`MAX_IOV`] segments and for addresses outside of the kernel's memory;
    /// -FI_EMSGSIZE if the total length overflows.
    ///
    /// # Safety
    ///
    /// The result is dropped before the operation completes.
    #[inline(always)]
    pub(crate) unsafe fn new(memory: Memory<'_>) -> Result<Self> {
        // INVARIANT: By this function's safety requirement, and the invariant of segments.
        Ok(Self(IoVec::new(memory, AddrCheck::Device)?))
    }

    /// Wraps memory that is read only while the operation is posted, and that may be on a stack.
    ///
    /// # Errors
    ///
    /// Errors of [`Self::new`]; a stack is accepted.
    ///
    /// # Safety
    ///
    /// The result is dropped before the call that posts the operation returns.
    #[inline(always)]
    pub(crate) unsafe fn new_inject(memory: Memory<'_>) -> Result<Self> {
        // INVARIANT: By this function's safety requirement, and the invariant of segments.
        Ok(Self(IoVec::new(memory, AddrCheck::Kernel)?))
    }

    /// Wraps a part of a region. The part was validated when the region was registered.
    ///
    /// # Safety
    ///
    /// The result is dropped before the region is closed, or before the operation that was posted with `part`
    /// completes.
    #[inline]
    pub(crate) unsafe fn from_region(part: &Segment) -> Self {
        // INVARIANT: By this function's safety requirement.
        Self(IoVec::from_region(part))
    }

    /// Copies `len` bytes at offset `at` to offset `to_at` of `to`. Returns the number of bytes copied.
    pub(crate) fn copy_range_to(&self, at: usize, len: usize, to: &DstBuf, to_at: usize) -> usize {
        self.0.for_each_segment(at, len, |from, before| {
            to.0.for_each_segment(to_at + before, from.len, |into, done| {
                let from = (from.addr + done) as *const u8;
                // SAFETY: By the invariants `from` can be read and `into` written, `done` bytes into `from`.
                // They may overlap: an endpoint can send to itself.
                unsafe { ptr::copy(from, into.addr as *mut u8, into.len) };
            });
        })
    }

    /// Returns the total length.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the first contiguous segment of the `len` bytes at offset `at`, for a device to read.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if the memory is not mapped any more.
    ///
    /// # Safety
    ///
    /// Operations posted with the result complete before the operation that owns this memory.
    pub(crate) unsafe fn first_contiguous(&self, at: usize, len: usize) -> Result<Option<Segment>> {
        // SAFETY: By this function's safety requirement.
        unsafe { self.0.first_contiguous(at, len) }
    }

    /// Returns all segments, to be registered; array entries after the last segment are empty.
    ///
    /// # Safety
    ///
    /// The region is closed before the operation that owns this memory completes.
    pub(crate) unsafe fn segments(&self) -> [Segment; MAX_IOV] {
        // SAFETY: By this function's safety requirement.
        unsafe { self.0.segments() }
    }

    /// Copies the bytes at offset `at` to `packet`. Returns the number of bytes copied.
    #[inline(always)]
    pub(crate) fn copy_to_slice(&self, at: usize, packet: &mut [u8]) -> usize {
        let (to, len) = (packet.as_mut_ptr(), packet.len());
        self.0.for_each_segment(at, len, |run, before| {
            // SAFETY: The segments together are no longer than the packet, to which this has exclusive access.
            // By the invariants the segment can be read; a concurrent write changes which bytes are sent.
            unsafe { ptr::copy_nonoverlapping(run.addr as *const u8, to.add(before), run.len) };
        })
    }
}

/// Returns the descriptor of each segment of `memory` that is not empty.
///
/// # Errors
///
/// -FI_EINVAL for more than [`MAX_IOV`] segments.
pub(crate) fn collect_descriptors(
    memory: Memory<'_>,
    descriptors: &[Descriptor],
) -> Result<[Descriptor; MAX_IOV]> {
    let mut found = [Descriptor::NONE; MAX_IOV];
    if descriptors.is_empty() {
        return Ok(found);
    }
    let (mut given, mut free) = (descriptors.iter().copied(), found.iter_mut());
    memory.for_each(|part| {
        let descriptor = given.next().unwrap_or(Descriptor::NONE);
        if !part.is_empty() {
            *free.next().ok_or(Errno::EINVAL)? = descriptor;
        }
        Ok(())
    })?;
    Ok(found)
}

/// Memory of an operation that a device accesses, with the segments' descriptors.
///
/// # Invariants
///
/// The invariants of [`SrcBuf`], or of [`DstBuf`] if the device writes, hold; descriptor `i` belongs to segment `i`.
pub(crate) struct DeviceBuf {
    iov: IoVec,
    descriptors: [Descriptor; MAX_IOV],
}

impl DeviceBuf {
    /// Wraps the memory of an operation.
    ///
    /// # Errors
    ///
    /// Errors of [`SrcBuf::new`].
    ///
    /// # Safety
    ///
    /// The result is dropped before the operation completes. With [`AddrCheck::Registered`] regions contain the
    /// memory.
    pub(crate) unsafe fn new(
        memory: Memory<'_>,
        descriptors: &[Descriptor],
        check: AddrCheck,
    ) -> Result<Self> {
        // INVARIANT: By this function's safety requirement; empty parts have been left out of both.
        Ok(Self {
            iov: IoVec::new(memory, check)?,
            descriptors: collect_descriptors(memory, descriptors)?,
        })
    }

    /// Calls `post` to post the operation.
    ///
    /// # Safety
    ///
    /// Operations that `post` posts with it complete before the operation that owns this memory.
    pub(crate) unsafe fn with_memory<R>(
        &self,
        post: impl FnOnce(Memory<'_>, &[Descriptor]) -> R,
    ) -> R {
        let count = self.iov.segs.iter().filter(|run| run.len > 0).count();
        // SAFETY: By this function's safety requirement.
        let parts = unsafe { self.iov.segments() };
        let parts = parts.get(..count).unwrap_or(&[]);
        let descriptors = self.descriptors.get(..count).unwrap_or(&[]);
        post(Memory::Segments(parts), descriptors)
    }
}

/// Destination memory of an operation that receives.
///
/// # Invariants
///
/// The memory belongs to an operation that has not completed, and no device accesses it.
pub(crate) struct DstBuf(IoVec);

impl DstBuf {
    /// Memory of no bytes.
    pub(crate) const EMPTY: Self = Self(IoVec::EMPTY);

    /// Wraps the memory of an operation that receives.
    ///
    /// # Errors
    ///
    /// Errors of [`SrcBuf::new`].
    ///
    /// # Safety
    ///
    /// The result is dropped before the operation completes, and nothing else writes to the memory until then.
    #[inline(always)]
    pub(crate) unsafe fn new(memory: Memory<'_>) -> Result<Self> {
        // SAFETY: By this function's safety requirement.
        unsafe { Self::new_checked(memory, AddrCheck::Device) }
    }

    /// Wraps the memory of an operation that receives, with a check of its addresses.
    ///
    /// # Errors
    ///
    /// Errors of [`SrcBuf::new`].
    ///
    /// # Safety
    ///
    /// The requirements of [`Self::new`]. With [`AddrCheck::Registered`] regions contain the memory.
    #[inline(always)]
    pub(crate) unsafe fn new_checked(memory: Memory<'_>, check: AddrCheck) -> Result<Self> {
        // INVARIANT: By this function's safety requirement, and the invariant of segments.
        Ok(Self(IoVec::new(memory, check)?))
    }

    /// Wraps a part of a region. The part was validated when the region was registered. If another writer
    /// changes it at the same time, the content is that of either write.
    ///
    /// # Safety
    ///
    /// The requirements of [`SrcBuf::from_region`].
    #[inline]
    pub(crate) unsafe fn from_region(part: &Segment) -> Self {
        // INVARIANT: By this function's safety requirement.
        Self(IoVec::from_region(part))
    }

    /// Returns all segments, for a receive that takes this operation's place; array entries after the last segment
    /// are empty.
    ///
    /// # Safety
    ///
    /// The receive completes before the operation that owns this memory, and this object is not used any more.
    pub(crate) unsafe fn segments(&self) -> [Segment; MAX_IOV] {
        // SAFETY: By this function's safety requirement.
        unsafe { self.0.segments() }
    }

    /// Wraps the memory of a test.
    ///
    /// # Safety
    ///
    /// The result is dropped before `bytes` is used again.
    #[cfg(CONFIG_KUNIT = "y")]
    pub(crate) unsafe fn from_bytes(bytes: &mut [u8]) -> Result<Self> {
        // SAFETY: By this function's safety requirement.
        unsafe {
            let segment = Segment::new(bytes.as_mut_ptr().cast(), bytes.len());
            Self::new(Memory::Segments(core::slice::from_ref(&segment)))
        }
    }

    /// Returns the total length.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Splits the first `len` bytes, or all if there are fewer, off memory of one segment, for an operation of
    /// their own. The rest begins at the next multiple of `alignment`, a power of two.
    pub(crate) fn split_off_front(&mut self, len: usize, alignment: usize) -> Self {
        let [run, ..] = &mut self.0.segs;
        let (addr, len) = (run.addr, len.min(run.len));
        let gap = run.addr.wrapping_add(len).wrapping_neg() & (alignment - 1);
        let taken = len.saturating_add(gap).min(run.len);
        run.addr = run.addr.wrapping_add(taken);
        run.len -= taken;
        // INVARIANT: The bytes are valid as part of `self`, which does not have them any more.
        Self(IoVec::single(IoSeg { addr, len }))
    }

    /// Returns the first contiguous segment of the `len` bytes at offset `at`, for a device to write.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if the memory is not mapped any more.
    ///
    /// # Safety
    ///
    /// Operations posted with the result complete before the operation that owns this memory, and before this is
    /// written.
    pub(crate) unsafe fn first_contiguous(&self, at: usize, len: usize) -> Result<Option<Segment>> {
        // SAFETY: By this function's safety requirement.
        unsafe { self.0.first_contiguous(at, len) }
    }

    /// Copies `packet` to offset `at`. Returns the number of bytes that fitted.
    #[inline(always)]
    pub(crate) fn copy_from_slice(&self, at: usize, packet: &[u8]) -> usize {
        let (from, len) = (packet.as_ptr(), packet.len());
        self.0.for_each_segment(at, len, |run, before| {
            // SAFETY: The segments together are no longer than the packet, to which this has access. By the
            // invariants nothing else accesses the segment.
            unsafe { ptr::copy_nonoverlapping(from.add(before), run.addr as *mut u8, run.len) };
        })
    }
}

/// Bytes of a received message.
pub(crate) trait Payload {
    /// Returns the length.
    fn len(&self) -> usize;

    /// Copies the bytes to `to`. Returns the number of bytes that fitted.
    fn copy_to(&self, to: &DstBuf) -> usize;

    /// Returns a copy. Any context; the allocation is GFP_NOWAIT.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    fn to_kvec(&self) -> Result<KVec<u8>>;
}

impl Payload for [u8] {
    #[inline(always)]
    fn len(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn copy_to(&self, to: &DstBuf) -> usize {
        to.copy_from_slice(0, self)
    }

    fn to_kvec(&self) -> Result<KVec<u8>> {
        let mut copy = KVec::with_capacity(self.len(), GFP_NOWAIT)?;
        copy.extend_from_slice(self, GFP_NOWAIT)?;
        Ok(copy)
    }
}

impl Payload for SrcBuf {
    fn len(&self) -> usize {
        self.len()
    }

    fn copy_to(&self, to: &DstBuf) -> usize {
        self.copy_range_to(0, self.len().min(to.len()), to, 0)
    }

    fn to_kvec(&self) -> Result<KVec<u8>> {
        let mut copy = KVec::from_elem(0, self.len(), GFP_NOWAIT)?;
        self.copy_to_slice(0, &mut copy);
        Ok(copy)
    }
}
