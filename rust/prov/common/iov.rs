// SPDX-License-Identifier: GPL-2.0

//! I/O vectors of messages, and copies between them and packets.
//!
//! The CPU copies a message that fits into one packet or a few: the sender may reuse its memory soon, and the
//! receive need not be posted before the message arrives. A device reads a longer message from where it is.

mod device;
mod io_vec;
mod slot;
#[cfg(CONFIG_KUNIT = "y")]
mod tests;

use crate::{
    fi::prelude::*,
    util::cold::call_cold, //
};

pub(crate) use device::{
    DeviceBuf,
    PostedDevice, //
};
pub(crate) use io_vec::{
    AddrCheck,
    Vector, //
};
use io_vec::{
    IoSeg,
    IoVec,
    PostedVec, //
};
pub(crate) use slot::{
    IovBlock,
    IovLimits,
    RmaRanges,
    Slot, //
};

/// Number of segments of a message that an entry has space for. More need a [`Slot`].
pub(crate) const MAX_IOV: usize = 4;

/// Source memory of an operation that sends.
///
/// # Invariants
///
/// The memory belongs to an operation that has not completed.
#[derive(Clone, Copy)]
pub(crate) struct SrcIov<V>(V);

/// Source memory of an operation in its entry.
pub(crate) type SrcBuf = SrcIov<IoVec>;

/// Source memory of an operation that is being posted.
pub(crate) type PostedSrc<'a> = SrcIov<PostedVec<'a>>;

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
        let posted = PostedVec::new(memory, AddrCheck::Device, MAX_IOV)?;
        Ok(Self(posted.into_entry(&[], Slot::none)))
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
        let posted = PostedVec::new(memory, AddrCheck::Kernel, MAX_IOV)?;
        Ok(Self(posted.into_entry(&[], Slot::none)))
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

    /// Returns all segments, to be registered, as the argument of `register`.
    ///
    /// # Safety
    ///
    /// The region is closed before the operation that owns this memory completes.
    pub(crate) unsafe fn with_segments<R>(&self, register: impl FnOnce(&[Segment]) -> R) -> R {
        // SAFETY: By this function's safety requirement.
        unsafe { self.0.with_segments(|segments, _| register(segments)) }
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
}

impl<'a> PostedSrc<'a> {
    /// Memory of no bytes.
    pub(crate) const EMPTY: Self = Self(PostedVec::EMPTY);

    /// Wraps the memory of an operation that sends, up to `limit` segments.
    ///
    /// # Errors
    ///
    /// Errors of [`Self::new`], but for more than `limit` segments.
    ///
    /// # Safety
    ///
    /// The requirements of [`Self::new`], or with [`AddrCheck::Kernel`] those of [`Self::new_inject`].
    #[inline(always)]
    pub(crate) unsafe fn borrow(
        memory: Memory<'a>,
        check: AddrCheck,
        limit: usize,
    ) -> Result<Self> {
        // INVARIANT: By this function's safety requirement, and the invariant of segments.
        Ok(Self(PostedVec::new(memory, check, limit)?))
    }

    /// Returns the memory for the entry of the operation. More segments than an entry has space for are stored in its
    /// slot; no memory is left if it is too small.
    #[inline(always)]
    pub(crate) fn into_entry<'s>(self, slot: impl FnOnce() -> Slot<'s>) -> SrcBuf {
        // INVARIANT: The memory is that of `self`.
        SrcIov(self.0.into_entry(&[], slot))
    }
}

impl<V: Vector> SrcIov<V> {
    /// Copies `len` bytes at offset `at` to offset `to_at` of `to`. Returns the number of bytes copied.
    pub(crate) fn copy_range_to(&self, at: usize, len: usize, to: &DstBuf, to_at: usize) -> usize {
        if self.0.is_long() || to.0.is_long() {
            return call_cold(move || self.copy_long(at, len, to, to_at));
        }
        self.0.for_each_segment(at, len, |(from, len), before| {
            to.0.for_each_segment(to_at + before, len, |(into, len), done| {
                // SAFETY: By the invariants `from` can be read and `into` written, `done` bytes into `from`.
                // They may overlap: an endpoint can send to itself.
                unsafe { ptr::copy((from + done) as *const u8, into as *mut u8, len) };
            });
        })
    }

    /// Implements [`Self::copy_range_to`] for long vectors: visits each segment once.
    fn copy_long(&self, at: usize, len: usize, to: &DstBuf, to_at: usize) -> usize {
        let (mut sources, mut targets) = (self.0.iter_from(at), to.0.iter_from(to_at));
        let (mut from, mut into) = (sources.next(), targets.next());
        let mut done = 0;
        while let (Some(source), Some(target)) = (from, into) {
            let here = source.len.min(target.len).min(len - done);
            // SAFETY: By the invariants `source` can be read and `target` written. They may overlap: an endpoint can
            // send to itself.
            unsafe { ptr::copy(source.addr() as *const u8, target.addr() as *mut u8, here) };
            done += here;
            if done == len {
                break;
            }
            let rest = |seg: IoSeg| Some(seg.behind(here)).filter(|rest| rest.len > 0);
            from = rest(source).or_else(|| sources.next());
            into = rest(target).or_else(|| targets.next());
        }
        done
    }

    /// Returns the total length.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Copies the bytes at offset `at` to `packet`. Returns the number of bytes copied.
    #[inline(always)]
    pub(crate) fn copy_to_slice(&self, at: usize, packet: &mut [u8]) -> usize {
        let (to, len) = (packet.as_mut_ptr(), packet.len());
        self.0.for_each_segment(at, len, |(from, len), before| {
            // SAFETY: The segments together are no longer than the packet, to which this has exclusive access.
            // By the invariants the segment can be read; a concurrent write changes which bytes are sent.
            unsafe { ptr::copy_nonoverlapping(from as *const u8, to.add(before), len) };
        })
    }
}

/// Destination memory of an operation that receives.
///
/// # Invariants
///
/// The memory belongs to an operation that has not completed, and no device accesses it.
#[derive(Clone, Copy)]
pub(crate) struct DstIov<V>(V);

/// Destination memory of an operation in its entry.
pub(crate) type DstBuf = DstIov<IoVec>;

/// Destination memory of an operation that is being posted.
pub(crate) type PostedDst<'a> = DstIov<PostedVec<'a>>;

impl<V: Vector> DstIov<V> {
    /// Returns whether there are more segments than an entry has space for.
    #[inline(always)]
    pub(crate) fn is_long(&self) -> bool {
        self.0.is_long()
    }
}

impl<'a> PostedDst<'a> {
    /// Wraps the memory of an operation that receives, up to `limit` segments.
    ///
    /// # Errors
    ///
    /// Errors of [`PostedSrc::borrow`].
    ///
    /// # Safety
    ///
    /// The requirements of [`Self::new`]. With [`AddrCheck::Registered`] regions contain the memory.
    #[inline(always)]
    pub(crate) unsafe fn borrow(
        memory: Memory<'a>,
        check: AddrCheck,
        limit: usize,
    ) -> Result<Self> {
        // INVARIANT: By this function's safety requirement, and the invariant of segments.
        Ok(Self(PostedVec::new(memory, check, limit)?))
    }

    /// Returns the descriptor of each segment that is not empty, or none of a long vector; `given` are those of all
    /// parts, or none.
    pub(crate) fn descriptors(&self, given: &[Descriptor]) -> [Descriptor; MAX_IOV] {
        self.0.descriptors(given)
    }

    /// Returns the memory for the entry of the operation. More segments than an entry has space for are stored in its
    /// slot; no memory is left if it is too small.
    #[inline(always)]
    pub(crate) fn into_entry<'s>(self, slot: impl FnOnce() -> Slot<'s>) -> DstBuf {
        // INVARIANT: The memory is that of `self`.
        DstIov(self.0.into_entry(&[], slot))
    }
}

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
        // INVARIANT: By this function's safety requirement, and the invariant of segments.
        let posted = PostedVec::new(memory, AddrCheck::Device, MAX_IOV)?;
        Ok(Self(posted.into_entry(&[], Slot::none)))
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

    /// Returns all segments, at most [`MAX_IOV`], for a receive that takes this operation's place; array entries after
    /// the last segment are empty.
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
        let IoVec::Direct([rest, ..]) = &mut self.0 else {
            return Self::EMPTY;
        };
        let front = rest.front(len);
        let gap = rest.addr().wrapping_add(front.len).wrapping_neg() & (alignment - 1);
        *rest = rest.behind(front.len.saturating_add(gap).min(rest.len));
        // INVARIANT: The bytes are valid as part of `self`, which does not have them any more.
        Self(IoVec::single(front))
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
        self.0.for_each_segment(at, len, |(into, len), before| {
            // SAFETY: The segments together are no longer than the packet, to which this has access. By the
            // invariants nothing else accesses the segment.
            unsafe { ptr::copy_nonoverlapping(from.add(before), into as *mut u8, len) };
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

impl<V: Vector> Payload for SrcIov<V> {
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
