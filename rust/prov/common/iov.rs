// SPDX-License-Identifier: GPL-2.0

//! I/O vectors of messages, and copies between them and packets.
//!
//! The CPU copies a message that fits into one packet or a few: the sender may reuse its memory soon, and the
//! receive need not be posted before the message arrives. A device reads a longer message from where it is.

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

/// Limit of the segments of a message.
pub(crate) const MAX_IOV: usize = 4;

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
struct IoSeg {
    addr: usize,
    len: usize,
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
struct IoVec {
    segs: [IoSeg; MAX_IOV],
}

impl IoVec {
    /// Vector without segments.
    const EMPTY: Self = Self::single(IoSeg::EMPTY);

    #[inline(always)]
    const fn single(seg: IoSeg) -> Self {
        let segs = [seg, IoSeg::EMPTY, IoSeg::EMPTY, IoSeg::EMPTY];
        Self { segs }
    }

    #[inline(always)]
    fn new(memory: Memory<'_>, check: AddrCheck) -> Result<Self> {
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

    fn from_region(part: &Segment) -> Self {
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
    fn len(&self) -> usize {
        let sum = |sum: usize, run: &IoSeg| sum.wrapping_add(run.len);
        self.segs.iter().fold(0, sum)
    }

    /// Calls `f` for each segment of the `len` bytes at offset `at`, with the number of bytes before it. Returns
    /// the number of bytes found.
    #[inline]
    fn for_each_segment(&self, at: usize, len: usize, mut f: impl FnMut(IoSeg, usize)) -> usize {
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

    /// Returns the first segment of the `len` bytes at offset `at`, up to where it stops being physically
    /// contiguous.
    ///
    /// # Safety
    ///
    /// Operations posted with the result complete before the operation that owns this memory.
    unsafe fn first_contiguous(&self, at: usize, len: usize) -> Result<Option<Segment>> {
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
        // SAFETY: By the invariant, and this function's safety requirement.
        let part = |run: IoSeg| unsafe { Segment::new(run.addr as *mut _, run.len) };
        self.0.segs.map(part)
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
        // SAFETY: By the invariant, and this function's safety requirement.
        let part = |run: IoSeg| unsafe { Segment::new(run.addr as *mut _, run.len) };
        let parts = self.iov.segs.map(part);
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
        // SAFETY: By the invariant, and this function's safety requirement.
        let part = |run: IoSeg| unsafe { Segment::new(run.addr as *mut _, run.len) };
        self.0.segs.map(part)
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

#[kernel::prelude::kunit_tests(kofi_prov_iov)]
mod tests {
    use super::*;
    use crate::{
        abi::Result,
        util::random::SeededRandom, //
    };
    use kernel::page::PAGE_SIZE;

    fn pattern(len: usize) -> Result<VVec<u8>> {
        let mut bytes = VVec::with_capacity(len, GFP_KERNEL)?;
        for at in 0..len {
            bytes.push((at * 7 + at / 251) as u8, GFP_KERNEL)?;
        }
        Ok(bytes)
    }

    /// Returns the segment at `at`, for a test that keeps the bytes longer than the objects made from it.
    fn segment(bytes: &mut [u8], at: usize, len: usize) -> Segment {
        let start = bytes.as_mut_ptr().wrapping_add(at);
        // SAFETY: The bytes of a test outlive the objects made from them.
        unsafe { Segment::new(start.cast(), len) }
    }

    fn outgoing(parts: &[Segment]) -> Result<SrcBuf> {
        // SAFETY: The bytes of a test outlive the objects made from them.
        unsafe { SrcBuf::new(Memory::Segments(parts)) }
    }

    fn incoming(parts: &[Segment]) -> Result<DstBuf> {
        // SAFETY: As in `outgoing`; nothing else writes to the bytes until the test has checked them.
        unsafe { DstBuf::new(Memory::Segments(parts)) }
    }

    #[test]
    fn copy_out_and_copy_in_round_trip() -> Result {
        const LEN: usize = 4 * PAGE_SIZE;
        let mut random = SeededRandom::new(1);
        let mut bytes = pattern(LEN)?;
        let model = pattern(LEN)?;
        let mut packet = VVec::from_elem(0, LEN, GFP_KERNEL)?;
        let mut back = VVec::from_elem(0, LEN, GFP_KERNEL)?;
        for _ in 0..300 {
            // Four parts that follow each other with gaps between them, some of them empty.
            let mut lens = [0; MAX_IOV];
            for len in &mut lens {
                *len = random.next_below(3).min(1) as usize
                    * random.next_below(PAGE_SIZE as u64) as usize;
            }
            let mut at = random.next_below(9) as usize;
            let mut expected = VVec::with_capacity(LEN, GFP_KERNEL)?;
            let mut starts = [0; MAX_IOV];
            for (start, len) in starts.iter_mut().zip(lens) {
                *start = at;
                expected.extend_from_slice(&model[at..at + len], GFP_KERNEL)?;
                at = (at + len + random.next_below(5) as usize).min(LEN - PAGE_SIZE);
            }
            let parts: [Segment; MAX_IOV] =
                core::array::from_fn(|at| segment(&mut bytes, starts[at], lens[at]));
            let outgoing = outgoing(&parts)?;
            assert_eq!(outgoing.len(), expected.len());
            let from = random.next_below(expected.len() as u64 + 2) as usize;
            let len = random.next_below(LEN as u64) as usize;
            let copied = outgoing.copy_to_slice(from, &mut packet[..len]);
            let expected_part = expected.get(from..).unwrap_or(&[]);
            let expected_part = &expected_part[..expected_part.len().min(len)];
            assert!(packet[..copied] == *expected_part);
            back.fill(0xee);
            let parts = core::array::from_fn::<_, MAX_IOV, _>(|at| {
                segment(&mut back, starts[at], lens[at])
            });
            let incoming = incoming(&parts)?;
            assert_eq!(incoming.len(), expected.len());
            assert_eq!(incoming.copy_from_slice(from, &packet[..copied]), copied);
            let mut left = expected.len();
            let mut at = 0;
            for (start, len) in starts.into_iter().zip(lens) {
                for (written, original) in back[start..start + len].iter().zip(&model[start..]) {
                    let is_copied = (from..from + copied).contains(&at);
                    assert!(*written == if is_copied { *original } else { 0xee });
                    at += 1;
                    left -= 1;
                }
            }
            assert_eq!(left, 0);
        }
        Ok(())
    }

    #[test]
    fn copy_in_stops_at_the_end_of_the_segments() -> Result {
        let mut bytes = VVec::from_elem(0, 16, GFP_KERNEL)?;
        let parts = [segment(&mut bytes, 2, 3), segment(&mut bytes, 9, 2)];
        let incoming = incoming(&parts)?;
        assert_eq!(incoming.copy_from_slice(0, &[1; 16]), 5);
        assert_eq!(*bytes, [0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]);
        assert_eq!(incoming.copy_from_slice(4, &[2; 16]), 1);
        assert_eq!(incoming.copy_from_slice(5, &[3; 16]), 0);
        assert_eq!(incoming.copy_from_slice(usize::MAX, &[3; 16]), 0);
        assert_eq!(*bytes, [0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0]);
        Ok(())
    }

    #[test]
    fn invalid_segments_are_rejected() -> Result {
        let mut bytes = VVec::from_elem(0, PAGE_SIZE, GFP_KERNEL)?;
        let mut local = [0; 8];
        let invalid = [
            segment(&mut local, 0, 8),
            segment(&mut bytes, 0, usize::MAX),
            segment(&mut bytes, 0, usize::MAX / 2),
            // SAFETY: The memory is not accessed.
            unsafe { Segment::new(ptr::null_mut(), 8) },
        ];
        for segment in invalid {
            assert!(incoming(core::slice::from_ref(&segment)).is_err());
            assert!(outgoing(core::slice::from_ref(&segment)).is_err());
        }
        let many: [Segment; MAX_IOV + 1] = core::array::from_fn(|at| segment(&mut bytes, at, 1));
        assert!(outgoing(&many).is_err());
        assert!(outgoing(&many[1..]).is_ok());
        // An empty segment may have any address.
        let empty = segment(&mut bytes, 1 << 62, 0);
        let empty = incoming(&[empty])?;
        assert_eq!((empty.len(), empty.copy_from_slice(0, &[1])), (0, 0));
        Ok(())
    }
}
