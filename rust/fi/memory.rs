// SPDX-License-Identifier: GPL-2.0

//! Memory that stays valid until the operation on it completes.
//!
//! This is the only file of `fi/` with `unsafe` code; helpers without it are in the folder `memory/`.
//! Providers take [`Segment`], [`Descriptor`] and [`Context`], which exist only for valid memory: the C API
//! makes them from its caller's pointers, the Rust API from a [`Buffer`] that the operation owns. So safe
//! code cannot break the guarantee.

mod iter;
mod storage;

use super::{
    cq::FormatEntry,
    domain::Domain,
    mr::{
        Access,
        MemoryRegion, //
    },
    post::RemoteMemory, //
};
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

pub use iter::{
    Start,
    VectorEntry, //
};
use storage::Storage;

/// A range of kernel memory that an operation reads or writes.
///
/// # Invariants
///
/// The range stays valid until the operation that the segment was posted with has completed or its endpoint
/// has been closed. Until then nothing else uses the range of a receive.
#[repr(transparent)]
pub struct Segment(kvec);

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
    fn advance(&mut self) -> Option<*mut scatterlist> {
        self.remaining = self.remaining.checked_sub(1)?;
        let at = self.next;
        if self.remaining > 0 {
            // SAFETY: By the invariant another entry follows.
            self.next = unsafe { bindings::sg_next(at) };
        }
        Some(at)
    }

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

/// A message buffer of a Rust consumer. A posted operation owns the buffer, and its completion returns it.
///
/// A registered buffer, or one made of pages, that is dropped in atomic context is freed later by a
/// workqueue.
pub struct Buffer {
    body: DeferredDrop<Body>,
    /// A number for the consumer's use, returned with the buffer.
    pub tag: u64,
}

struct Body {
    /// Declared before the memory, so that it is dropped first.
    region: Option<Arc<MemoryRegion>>,
    data: Storage,
}

impl Buffer {
    /// Allocates a zeroed buffer of `len` bytes. May sleep. Up to 4 MiB the memory is physically contiguous;
    /// a larger buffer consists of pages, of which a device may accept fewer per message.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub fn new(_here: ProcessContext, len: usize, tag: u64) -> Result<KBox<Self>> {
        let body = Body {
            region: None,
            data: Storage::new(len)?,
        };
        let body = match &body.data {
            Storage::Small(_) | Storage::Linear(_) => DeferredDrop::new_atomic(body),
            Storage::Paged(_) => DeferredDrop::new(body)?,
        };
        Ok(KBox::new(Self { body, tag }, GFP_KERNEL)?)
    }

    /// Allocates a zeroed buffer and registers it in `domain`: endpoints of the domain post it without
    /// mapping it each time, other endpoints treat it as unregistered. May sleep.
    ///
    /// Dropping the buffer closes the region; in atomic context, as in a completion handler in interrupt
    /// context, a workqueue does so later.
    ///
    /// # Errors
    ///
    /// -FI_ENODEV when the device is being removed, -FI_ENOMEM.
    pub fn registered(
        here: ProcessContext,
        domain: &Arc<Domain>,
        len: usize,
        tag: u64,
    ) -> Result<KBox<Self>> {
        if len == 0 {
            return Self::new(here, len, tag);
        }
        let mut body = DeferredDrop::new(Body {
            region: None,
            data: Storage::new(len)?,
        })?;
        // SAFETY: The region is dropped before the memory, which does not move.
        let segment = unsafe { Segment::new(body.data.as_mut_ptr().cast(), len) };
        let region = domain.register(slice::from_ref(&segment), Access::LOCAL)?;
        body.region = Some(region);
        Ok(KBox::new(Self { body, tag }, GFP_KERNEL)?)
    }

    /// Returns the operation context that identifies the buffer while it is posted. Any context.
    pub fn context(&self) -> Context {
        Context(ptr::from_ref(self).cast_mut().cast())
    }

    /// Returns the descriptor with which endpoints of `domain` post the buffer.
    #[inline]
    fn descriptor(&self, domain: &Arc<Domain>) -> Descriptor {
        let region = self.body.region.as_ref();
        let region = region.filter(|region| Arc::ptr_eq(region.domain(), domain));
        region.map_or(Descriptor::NONE, |region| region.descriptor())
    }

    /// Posts the buffer to an operation in `domain`, as its memory and its context.
    ///
    /// `post` starts the operation; if it fails, the buffer is returned with the error. -FI_EINVAL if `len`
    /// exceeds the buffer.
    pub(super) fn post<R>(
        mut buffer: KBox<Self>,
        len: usize,
        domain: &Arc<Domain>,
        post: impl FnOnce(&Segment, Descriptor, Context) -> Result<R>,
    ) -> PostResult<R> {
        if len > buffer.body.data.len() {
            let errno = Errno::EINVAL;
            return Err(RefusedPost { errno, buffer });
        }
        // SAFETY: The boxed storage neither moves nor is freed or accessed before `reclaim` takes the context
        // back, which happens at the completion or after the endpoint is closed.
        let segment = unsafe { Segment::new(buffer.body.data.as_mut_ptr().cast(), len) };
        // The region moves with the buffer.
        let descriptor = buffer.descriptor(domain);
        let raw = KBox::into_raw(buffer);
        post(&segment, descriptor, Context(raw.cast())).map_err(|errno| RefusedPost {
            errno,
            // SAFETY: `raw` came from `into_raw` above, and a refused post keeps no reference.
            buffer: unsafe { KBox::from_raw(raw) },
        })
    }
}

/// Maximum size of a buffer that is divided into parts, in bytes.
const MAX_SHARED_BUFFER: usize = 128 << 10;

/// Alignment of the parts in bytes. No cache line is longer, so that device writes to one part and CPU writes
/// to another never share a cache line.
const PART_ALIGN: usize = 128;

/// An exclusively owned part of a registered buffer.
///
/// # Invariants
///
/// `start` points to `len` bytes of the buffer, which are accessed through this part alone.
pub(crate) struct BufferPart {
    start: *mut u8,
    len: usize,
    descriptor: Descriptor,
    _buffer: Arc<KBox<Buffer>>,
}

// SAFETY: The part owns its bytes; the other references to the buffer only keep it allocated.
unsafe impl Send for BufferPart {}

// SAFETY: A shared reference only reads.
unsafe impl Sync for BufferPart {}

impl BufferPart {
    /// Passes `count` zeroed parts of `len` bytes each, not 0, registered in `domain`, to `each`. May sleep.
    ///
    /// # Errors
    ///
    /// Errors of [`Buffer::registered`], and the first error of `each`.
    pub(crate) fn alloc_parts(
        here: ProcessContext,
        domain: &Arc<Domain>,
        len: usize,
        count: usize,
        mut each: impl FnMut(Self) -> Result,
    ) -> Result {
        let stride = len.next_multiple_of(PART_ALIGN);
        let mut most = (MAX_SHARED_BUFFER / stride).max(1);
        let mut left = count;
        while left > 0 {
            let these = left.min(most);
            let mut buffer = match Buffer::registered(here, domain, these * stride, 0) {
                // Smaller allocations may still succeed.
                Err(Errno::ENOMEM) if these > 1 => {
                    most = these / 2;
                    continue;
                }
                buffer => buffer?,
            };
            let descriptor = buffer.descriptor(domain);
            let start = buffer.body.data.as_mut_ptr();
            let whole = Arc::new(buffer, GFP_KERNEL)?;
            for number in 0..these {
                // INVARIANT: The buffer has `these` strides; it does not move its bytes, and no other code
                // accesses them.
                each(Self {
                    start: start.wrapping_add(number * stride),
                    len,
                    descriptor,
                    _buffer: whole.clone(),
                })?;
            }
            left -= these;
        }
        Ok(())
    }

    /// Returns the first bytes, at most `len`, as a segment, and the descriptor for endpoints of the domain.
    ///
    /// # Safety
    ///
    /// The caller keeps the part, and does not access it, until the operation that both are posted with has
    /// completed or its endpoint has been closed.
    #[inline(always)]
    pub(crate) unsafe fn segment(&mut self, len: usize) -> (Segment, Descriptor) {
        let len = len.min(self.len);
        // SAFETY: By this function's safety requirement.
        let segment = unsafe { Segment::new(self.start.cast(), len) };
        (segment, self.descriptor)
    }
}

impl Deref for BufferPart {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: By the invariant.
        unsafe { slice::from_raw_parts(self.start, self.len) }
    }
}

impl DerefMut for BufferPart {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: By the invariant.
        unsafe { slice::from_raw_parts_mut(self.start, self.len) }
    }
}

/// A refused post: the error and the buffer.
pub struct RefusedPost {
    /// Reason for the refusal.
    pub errno: Errno,
    /// The buffer, unchanged.
    pub buffer: KBox<Buffer>,
}

/// Result of a post, which owns a buffer.
pub type PostResult<T = ()> = core::result::Result<T, RefusedPost>;

impl From<RefusedPost> for Errno {
    fn from(refused: RefusedPost) -> Self {
        refused.errno
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.body.data
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.body.data
    }
}

/// A registered buffer that peers may read and write at any time.
///
/// # Invariants
///
/// The storage is accessed only through `data`, which points to its bytes.
pub(super) struct SharedBuffer {
    /// Declared before the memory, so that it is dropped first. No other reference exists.
    region: Arc<MemoryRegion>,
    buffer: KBox<Buffer>,
    data: *mut u8,
}

// SAFETY: The buffer owns its memory, which is only copied from and to.
unsafe impl Send for SharedBuffer {}

// SAFETY: As above; concurrent accesses to the same bytes are part of sharing memory with peers.
unsafe impl Sync for SharedBuffer {}

impl SharedBuffer {
    /// Registers all of `buffer` in `domain` for access by peers. May sleep.
    ///
    /// # Errors
    ///
    /// Returns the buffer with an error of [`Domain::register`].
    pub(super) fn new(
        mut buffer: KBox<Buffer>,
        domain: &Arc<Domain>,
        access: Access,
    ) -> PostResult<Self> {
        let (data, len) = (buffer.body.data.as_mut_ptr(), buffer.body.data.len());
        // SAFETY: The region is dropped before the memory, which does not move. The CPU only copies it.
        let segment = unsafe { Segment::new(data.cast(), len) };
        match domain.register(slice::from_ref(&segment), access) {
            // INVARIANT: By construction; moving the box does not move the bytes.
            Ok(region) => Ok(Self {
                region,
                buffer,
                data,
            }),
            Err(errno) => Err(RefusedPost { errno, buffer }),
        }
    }

    /// Returns the location of the first byte as peers address it.
    pub(super) fn remote(&self) -> RemoteMemory {
        let (addr, key) = (self.region.base(), self.region.key());
        RemoteMemory { addr, key }
    }

    /// Returns the length in bytes.
    pub(super) fn len(&self) -> usize {
        self.buffer.body.data.len()
    }

    /// Returns the start of `len` bytes from `at` on; -FI_EINVAL if they are not within the buffer.
    fn range(&self, at: usize, len: usize) -> Result<*mut u8> {
        let end = at.checked_add(len).filter(|&end| end <= self.len());
        Errno::EINVAL.when(end.is_none())?;
        Ok(self.data.wrapping_add(at))
    }

    /// Copies the current bytes from `at` on to `to`. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if the range is not within the buffer; nothing is copied.
    pub(super) fn read(&self, at: usize, to: &mut [u8]) -> Result {
        let from = self.range(at, to.len())?;
        // SAFETY: The range is within the bytes. `memcpy()` is the kernel's, as a driver uses it on memory
        // that its device writes: any byte that it finds is valid.
        unsafe { bindings::memcpy(to.as_mut_ptr().cast(), from.cast(), to.len()) };
        Ok(())
    }

    /// Copies `from` to the bytes from `at` on. Any context.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub(super) fn write(&self, at: usize, from: &[u8]) -> Result {
        let to = self.range(at, from.len())?;
        // SAFETY: As in `read`.
        unsafe { bindings::memcpy(to.cast(), from.as_ptr().cast(), from.len()) };
        Ok(())
    }

    /// Closes the region, and returns the buffer, which no peer can access any more. May sleep.
    pub(super) fn into_buffer(self) -> KBox<Buffer> {
        let Self { region, buffer, .. } = self;
        drop(region);
        buffer
    }
}

/// The right to turn contexts back into buffers.
///
/// A right belongs to a queue that only the Rust API posts to and reads: every context in the queue came from
/// [`Buffer::post`].
pub(super) struct ReclaimRight(());

impl ReclaimRight {
    /// Creates the right for a queue that the caller has just opened and that no other code can reach.
    pub(super) const fn new() -> Self {
        Self(())
    }

    /// Returns the buffer of a completed operation; `None` for a null context.
    ///
    /// The context comes from the queue of this right, or from closing an endpoint bound to the queue or its
    /// shared receives. Each source passes a context once.
    pub(super) fn reclaim(&self, context: Context) -> Option<KBox<Buffer>> {
        let raw: *mut Buffer = context.0.cast();
        if raw.is_null() {
            return None;
        }
        // SAFETY: By the type's rule the context came from `Buffer::post`, and this is its only use.
        Some(unsafe { KBox::from_raw(raw) })
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

#[kunit_tests(kofi_fi_memory)]
mod tests {
    use super::{
        super::tests::dummy_provider::{
            domain,
            HERE, //
        },
        *, //
    };
    use kernel::page::PAGE_SIZE;

    /// Returns the descriptor with which an operation in `domain` would post the buffer; the operation is
    /// refused.
    fn posted_descriptor(
        buffer: KBox<Buffer>,
        domain: &Arc<Domain>,
    ) -> Result<(*mut c_void, KBox<Buffer>)> {
        let mut descriptor = Descriptor::NONE;
        let len = buffer.len();
        let given = Buffer::post(buffer, len, domain, |_, given, _| -> Result {
            descriptor = given;
            Err(Errno::EAGAIN)
        });
        let refused = given.err().ok_or(Errno::EOTHER)?;
        Ok((descriptor.as_ptr(), refused.buffer))
    }

    #[test]
    fn registered_buffer_has_a_descriptor_in_its_own_domain_only() -> Result {
        let (own, other) = (domain()?, domain()?);
        let buffer = Buffer::registered(HERE, &own, PAGE_SIZE, 7)?;
        let (in_own, buffer) = posted_descriptor(buffer, &own)?;
        let (in_other, buffer) = posted_descriptor(buffer, &other)?;
        assert_eq!(in_own, Descriptor::UNUSED.as_ptr());
        assert_eq!(in_other, Descriptor::NONE.as_ptr());
        assert_eq!((buffer.len(), buffer.tag), (PAGE_SIZE, 7));
        Ok(())
    }

    #[test]
    fn unregistered_or_empty_buffer_has_no_descriptor() -> Result {
        let domain = domain()?;
        for buffer in [
            Buffer::new(HERE, PAGE_SIZE, 0)?,
            Buffer::registered(HERE, &domain, 0, 0)?,
        ] {
            let (descriptor, _) = posted_descriptor(buffer, &domain)?;
            assert_eq!(descriptor, Descriptor::NONE.as_ptr());
        }
        Ok(())
    }

    #[test]
    fn registered_buffer_keeps_its_domain_open_until_it_is_dropped() -> Result {
        let domain = domain()?;
        let buffer = Buffer::registered(HERE, &domain, 1, 0)?;
        assert_eq!(domain.close(), Err(Errno::EBUSY));
        drop(buffer);
        assert_eq!(domain.close(), Ok(()));
        Ok(())
    }
}
