// SPDX-License-Identifier: GPL-2.0

//! Memory that stays valid until the operation on it completes.
//!
//! This file and `memory/buffer.rs` are the only ones of `fi/` with `unsafe` code; the other files of the folder
//! `memory/` are helpers without it.
//! Providers take [`Segment`], [`Descriptor`] and [`Context`], which exist only for valid memory: the C API
//! makes them from its caller's pointers, the Rust API from a [`Buffer`] that the operation owns. So safe
//! code cannot break the guarantee.

mod buffer;
mod iter;
mod storage;
#[cfg(CONFIG_KUNIT = "y")]
mod tests;

use super::cq::FormatEntry;
use crate::{
    abi::{
        bio_vec,
        kvec,
        page,
        scatterlist, //
    },
    fi::prelude::*,
    util::pages, //
};
use kernel::bindings;

pub(crate) use buffer::BufferPart;
pub use buffer::{
    Buffer,
    PostResult,
    RefusedPost, //
};
pub(super) use buffer::{
    ReclaimRight,
    SharedBuffer, //
};
pub(crate) use iter::EntryVisitor;
pub use iter::{
    Start,
    VectorEntry, //
};

/// A range of kernel memory that an operation reads or writes.
///
/// # Invariants
///
/// The range stays valid until the operation that the segment was posted with has completed or its endpoint
/// has been closed. Until then nothing else uses the range of a receive.
#[repr(transparent)]
pub struct Segment(kvec);

// SAFETY: The segment is an address and a length; it gives no access to the range.
unsafe impl Send for Segment {}

// SAFETY: As above.
unsafe impl Sync for Segment {}

/// Maximum number of vector entries, above any provider's limit: a larger count is refused as invalid.
const MAX_VECTOR: usize = 1024;

impl Segment {
    /// A segment without bytes.
    // INVARIANT: There is nothing to use.
    pub(crate) const EMPTY: Self = Self(kvec {
        iov_base: ptr::null_mut(),
        iov_len: 0,
    });

    /// Returns a segment of `len` bytes that no operation uses, for tests.
    #[cfg(CONFIG_KUNIT = "y")]
    pub(crate) fn unused(len: usize) -> Self {
        // INVARIANT: No operation is posted with the segment.
        Self(kvec {
            iov_len: len,
            ..Self::EMPTY.0
        })
    }

    /// Creates a segment of `len` bytes at `base`.
    ///
    /// # Safety
    ///
    /// The caller upholds the type invariant.
    #[inline]
    pub unsafe fn new(base: *mut c_void, len: usize) -> Self {
        // INVARIANT: By this function's safety requirement.
        Self(kvec {
            iov_base: base,
            iov_len: len,
        })
    }

    /// Returns the segments of a C vector; `iov` may be NULL when `count` is 0.
    ///
    /// # Safety
    ///
    /// `iov` points to `count` initialised entries for `'a`, each of which upholds the invariant.
    #[inline]
    pub unsafe fn from_vector<'a>(iov: *const kvec, count: usize) -> Result<&'a [Self]> {
        if count == 0 {
            return Ok(&[]);
        }
        Errno::EINVAL.when(iov.is_null() || count > MAX_VECTOR)?;
        // SAFETY: The caller promises `count` entries; `Segment` is transparent over `kvec`.
        Ok(unsafe { slice::from_raw_parts(iov.cast(), count) })
    }

    /// Returns the start address as a number; only the device accesses the bytes.
    #[inline]
    pub fn addr(&self) -> usize {
        self.0.iov_base as usize
    }

    /// Returns the length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.iov_len
    }

    /// Returns true if the length is 0; the address is meaningless then.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the subrange of at most `len` bytes from `from` on.
    pub fn part(&self, from: usize, len: usize) -> Self {
        let from = from.min(self.len());
        // INVARIANT: A subrange is valid as long as the whole range.
        Self(kvec {
            iov_base: self.0.iov_base.wrapping_byte_add(from),
            iov_len: len.min(self.len() - from),
        })
    }
}

/// A range of a page, or of physically contiguous pages.
///
/// # Invariants
///
/// As [`Segment`].
#[repr(transparent)]
pub struct PageRange(bio_vec);

/// The remaining entries of a scatterlist.
///
/// # Invariants
///
/// `next` is the first of at least `remaining` entries of a list that does not change for `'a`, each of which
/// upholds the invariant of [`Segment`].
#[derive(Clone, Copy)]
pub struct ScatterList<'a> {
    next: *mut scatterlist,
    remaining: usize,
    _list: PhantomData<&'a scatterlist>,
}

/// The local memory of a transfer, in one of the forms of the kernel.
#[derive(Clone, Copy)]
pub enum Memory<'a> {
    /// Kernel addresses.
    Segments(&'a [Segment]),
    /// Page ranges, as in a bio vector.
    PageRanges(&'a [PageRange]),
    /// Pages of a scatterlist.
    ScatterList(ScatterList<'a>),
}

impl<'a> Memory<'a> {
    /// Returns the page ranges of a C vector.
    ///
    /// # Safety
    ///
    /// As [`Segment::from_vector`].
    pub unsafe fn from_page_ranges(bvec: *const bio_vec, count: usize) -> Result<Self> {
        if count == 0 {
            return Ok(Self::PageRanges(&[]));
        }
        Errno::EINVAL.when(bvec.is_null() || count > MAX_VECTOR)?;
        // SAFETY: The caller promises `count` entries; `PageRange` is transparent over `bio_vec`.
        let ranges = unsafe { slice::from_raw_parts(bvec.cast(), count) };
        Ok(Self::PageRanges(ranges))
    }

    /// Returns the kernel addresses of the memory. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for a page without a kernel address, -FI_ENOMEM.
    pub(crate) fn to_segments(self) -> Result<KVVec<Segment>> {
        let mut segments = KVVec::with_capacity(self.count(), GFP_KERNEL)?;
        self.for_each(|part| Ok(segments.push(part.to_segment()?, GFP_KERNEL)?))?;
        Ok(segments)
    }

    /// Returns the first `count` entries of a scatterlist, which may be chained.
    ///
    /// # Safety
    ///
    /// As [`Segment::from_vector`].
    pub unsafe fn from_scatterlist(first: *const scatterlist, count: usize) -> Result<Self> {
        Errno::EINVAL.when(count > MAX_VECTOR || (first.is_null() && count > 0))?;
        // INVARIANT: By this function's safety requirement.
        Ok(Self::ScatterList(ScatterList {
            next: first.cast_mut(),
            remaining: count,
            _list: PhantomData,
        }))
    }
}

impl VectorEntry {
    /// Returns the kernel addresses of the entry; -FI_EINVAL for a page without a kernel address. Any context.
    pub(crate) fn to_segment(self) -> Result<Segment> {
        let base = match self.start {
            Start::Address(addr) => ptr::with_exposed_provenance_mut(addr),
            Start::Page(page, offset) => {
                // SAFETY: By the type invariant.
                let base = unsafe { pages::address_of(page) };
                Errno::EINVAL.when(base.is_null())?;
                base.wrapping_byte_add(offset)
            }
        };
        // SAFETY: The memory of the entry is valid as long, by the type invariant.
        Ok(unsafe { Segment::new(base, self.len) })
    }
}

impl ScatterList<'_> {
    /// Returns the DMA address and length of the next entry of a list that has been mapped for a device.
    pub(crate) fn next_dma(&mut self) -> Option<(u64, usize)> {
        let at = self.advance()?;
        // SAFETY: By the invariant it is a valid entry.
        let entry = unsafe { &*at };
        #[cfg(CONFIG_NEED_SG_DMA_LENGTH)]
        let len = entry.dma_length;
        #[cfg(not(CONFIG_NEED_SG_DMA_LENGTH))]
        let len = entry.length;
        Some((entry.dma_address, len as usize))
    }

    /// Returns the next entry, which is valid.
    #[inline(always)]
    fn advance(&mut self) -> Option<*mut scatterlist> {
        self.remaining = self.remaining.checked_sub(1)?;
        let at = self.next;
        if self.remaining > 0 {
            let behind = at.wrapping_add(1);
            // SAFETY: By the invariant another entry follows: it is behind this one, or a link to it is.
            self.next = match unsafe { (*behind).page_link } & (bindings::SG_CHAIN as usize) {
                0 => behind,
                // SAFETY: As above.
                _ => unsafe { bindings::sg_next(at) },
            };
        }
        Some(at)
    }

    #[inline(always)]
    fn next_entry(&mut self) -> Option<VectorEntry> {
        let at = self.advance()?;
        // SAFETY: By the invariant it is a valid entry.
        let entry = unsafe { *at };
        let page = entry.page_link & !(bindings::SG_PAGE_LINK_MASK as usize);
        Some(VectorEntry {
            start: Start::Page(page as *mut page, entry.offset as usize),
            len: entry.length as usize,
        })
    }
}

/// The value of `fi_mr_desc()` for a segment's region, or null: the provider then maps the segment for the
/// one operation.
///
/// # Invariants
///
/// Null, or the descriptor of a memory region that outlives every operation it is passed to.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Descriptor(*mut c_void);

// SAFETY: The pointer is the provider's, to an object that any thread may access.
unsafe impl Send for Descriptor {}

// SAFETY: As above.
unsafe impl Sync for Descriptor {}

impl Descriptor {
    /// No region.
    pub const NONE: Self = Self(ptr::null_mut());

    /// The descriptor of a region that no operation uses, for tests.
    #[cfg(CONFIG_KUNIT = "y")]
    pub(super) const UNUSED: Self = Self(ptr::dangling_mut());

    /// Wraps the descriptor that a C caller got from its region.
    ///
    /// # Safety
    ///
    /// The caller upholds the type invariant.
    #[inline]
    pub const unsafe fn new(raw: *mut c_void) -> Self {
        Self(raw)
    }

    /// Returns the descriptors of a C vector; empty if it is NULL.
    ///
    /// # Safety
    ///
    /// `descs` is NULL or points to `count` entries for `'a` that uphold the type invariant.
    #[inline]
    pub unsafe fn from_vector<'a>(descs: *const *mut c_void, count: usize) -> &'a [Self] {
        if descs.is_null() || count == 0 {
            return &[];
        }
        // SAFETY: The caller promises `count` entries; the type is transparent over the pointer.
        unsafe { slice::from_raw_parts(descs.cast(), count) }
    }

    /// Returns the provider's pointer.
    #[inline]
    pub fn as_ptr(&self) -> *mut c_void {
        self.0
    }
}

/// The poster's operation context, returned with the completion; opaque to everything else.
#[derive(Clone, Copy, PartialEq, Eq, Zeroable)]
#[repr(transparent)]
pub struct Context(*mut c_void);

// SAFETY: The value is opaque here; only the poster, to which it returns, may dereference it.
unsafe impl Send for Context {}

// SAFETY: As above.
unsafe impl Sync for Context {}

impl Context {
    /// No context.
    pub const NULL: Self = Self(ptr::null_mut());

    /// Wraps a C caller's pointer.
    #[inline]
    pub const fn new(raw: *mut c_void) -> Self {
        Self(raw)
    }

    /// Returns the pointer, for the poster.
    #[inline]
    pub fn as_ptr(self) -> *mut c_void {
        self.0
    }
}

/// Storage for `N` completion entries, always initialised.
pub(crate) struct EntrySlots<E, const N: usize>([MaybeUninit<E>; N]);

// SAFETY: Entries are numbers and contexts, and `Context` is `Send`.
unsafe impl<E: FormatEntry, const N: usize> Send for EntrySlots<E, N> {}

impl<E: Zeroable, const N: usize> EntrySlots<E, N> {
    /// Creates zeroed entries.
    #[inline]
    pub(crate) fn new() -> Self {
        Self(core::array::from_fn(|_| MaybeUninit::zeroed()))
    }

    /// Allocates zeroed entries on the heap, without a copy on the stack. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn boxed() -> Result<KBox<Self>> {
        let slots = KBox::<Self>::new_uninit(GFP_KERNEL | __GFP_ZERO)?;
        // SAFETY: A zeroed array is valid; its elements are `MaybeUninit`.
        Ok(unsafe { slots.assume_init() })
    }

    /// Returns the slots for a queue to write to.
    #[inline]
    pub(crate) fn as_mut_slots(&mut self) -> &mut [MaybeUninit<E>] {
        &mut self.0
    }

    /// Returns all entries; those not written are zero.
    #[inline]
    pub(crate) fn get(&self) -> [&E; N] {
        // SAFETY: Initialised by `new`; a queue writes whole entries.
        self.0
            .each_ref()
            .map(|slot| unsafe { slot.assume_init_ref() })
    }

    /// Returns the entry at `at`; `None` out of range.
    #[inline(always)]
    pub(crate) fn nth(&self, at: usize) -> Option<&E> {
        // SAFETY: As above.
        Some(unsafe { self.0.get(at)?.assume_init_ref() })
    }
}
