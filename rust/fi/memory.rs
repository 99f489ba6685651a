// SPDX-License-Identifier: GPL-2.0

//! Memory that stays valid until the operation on it completes.
//!
//! This is the one file of `fi/` with `unsafe` in it; what needs none stands in the folder beside it.
//! Providers take [`Segment`], [`Descriptor`] and [`Context`], whose existence is the promise; the C API
//! makes them from its caller's pointers, the Rust API from a [`Buffer`] that it takes over, so that safe
//! code cannot break the promise.

mod iter;
mod storage;

use super::{
    cq::FormatEntry,
    domain::Domain,
    mr::{
        Access,
        MemoryRegion, //
    },
};
use crate::abi::{
    bio_vec,
    context::ProcessContext,
    deferred_drop::DeferredDrop,
    kvec,
    page,
    scatterlist,
    Errno,
    Result, //
};
use core::{
    marker::PhantomData,
    mem::MaybeUninit,
    ops::{
        Deref,
        DerefMut, //
    },
};
use kernel::{
    bindings,
    prelude::*,
    sync::Arc, //
};

pub use iter::{
    Start,
    VectorEntry, //
};
use storage::Storage;

/// A range of kernel memory that an operation reads or writes.
///
/// # Invariants
///
/// The range stays valid, and a receive's is not used by anyone else, until the operation that the
/// segment was posted with has completed or its endpoint has been closed.
#[repr(transparent)]
pub struct Segment(kvec);

/// More entries than any provider takes: a count beyond is a mistake, and not followed.
const MAX_VECTOR: usize = 1024;

impl Segment {
    /// A segment of `len` bytes at `base`.
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

    /// The segments of a C vector; `iov` may be NULL when `count` is 0.
    ///
    /// # Safety
    ///
    /// `iov` points to `count` initialised entries for `'a`, each of which upholds the invariant.
    #[inline]
    pub unsafe fn from_vector<'a>(iov: *const kvec, count: usize) -> Result<&'a [Self]> {
        if count == 0 {
            return Ok(&[]);
        }
        if iov.is_null() || count > MAX_VECTOR {
            return Err(Errno::EINVAL);
        }
        // SAFETY: The caller promises `count` entries; `Segment` is transparent over `kvec`.
        Ok(unsafe { core::slice::from_raw_parts(iov.cast(), count) })
    }

    /// Where the range begins, as a number: what lies there is the device's business.
    #[inline]
    pub fn addr(&self) -> usize {
        self.0.iov_base as usize
    }

    /// How many bytes it has.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.iov_len
    }

    /// Whether it has none: its address means nothing then.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Those of its bytes from `from` on, `len` at most.
    pub fn part(&self, from: usize, len: usize) -> Self {
        let from = from.min(self.len());
        // INVARIANT: They are as valid as all of them.
        Self(kvec {
            iov_base: self.0.iov_base.wrapping_byte_add(from),
            iov_len: len.min(self.len() - from),
        })
    }
}

/// A range of a page, or of pages that follow each other in physical memory.
///
/// # Invariants
///
/// As of [`Segment`].
#[repr(transparent)]
pub struct PageRange(bio_vec);

/// The entries of a scatterlist.
///
/// # Invariants
///
/// `next` is the first of at least `left` entries of a list that stays as it is for `'a`, each of
/// which upholds the invariant of [`Segment`].
#[derive(Clone, Copy)]
pub struct ScatterList<'a> {
    next: *mut scatterlist,
    left: usize,
    _list: PhantomData<&'a scatterlist>,
}

/// The local memory of a transfer, in one of the forms in which kernel code has it.
#[derive(Clone, Copy)]
pub enum Memory<'a> {
    /// Kernel addresses.
    Segments(&'a [Segment]),
    /// Pages.
    Extents(&'a [PageRange]),
    /// Pages as well.
    List(ScatterList<'a>),
}

impl<'a> Memory<'a> {
    /// The extents of a C vector.
    ///
    /// # Safety
    ///
    /// As of [`Segment::from_vector`].
    pub unsafe fn from_extents(bvec: *const bio_vec, count: usize) -> Result<Self> {
        if count == 0 {
            return Ok(Self::Extents(&[]));
        }
        if bvec.is_null() || count > MAX_VECTOR {
            return Err(Errno::EINVAL);
        }
        // SAFETY: The caller promises `count` entries; `PageRange` is transparent over `bio_vec`.
        Ok(Self::Extents(unsafe {
            core::slice::from_raw_parts(bvec.cast(), count)
        }))
    }

    /// The first `count` entries of a scatterlist, which may be chained.
    ///
    /// # Safety
    ///
    /// As of [`Segment::from_vector`].
    pub unsafe fn from_list(first: *const scatterlist, count: usize) -> Result<Self> {
        if count > MAX_VECTOR || (first.is_null() && count > 0) {
            return Err(Errno::EINVAL);
        }
        // INVARIANT: By this function's safety requirement.
        Ok(Self::List(ScatterList {
            next: first.cast_mut(),
            left: count,
            _list: PhantomData,
        }))
    }
}

impl ScatterList<'_> {
    fn take(&mut self) -> Option<VectorEntry> {
        self.left = self.left.checked_sub(1)?;
        // SAFETY: By the invariant this is an entry.
        let entry = unsafe { *self.next };
        if self.left > 0 {
            // SAFETY: By the invariant there is another entry behind it.
            self.next = unsafe { bindings::sg_next(self.next) };
        }
        let page = entry.page_link & !(bindings::SG_PAGE_LINK_MASK as usize);
        Some(VectorEntry {
            start: Start::Page(page as *mut page, entry.offset as usize),
            len: entry.length as usize,
        })
    }
}

/// What `fi_mr_desc()` gave for a segment's region, or none: then the provider maps the segment for
/// the one operation.
///
/// # Invariants
///
/// Null, or the descriptor of a memory region that outlives every operation it is passed to.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Descriptor(*mut c_void);

// SAFETY: It is the provider's pointer, to what any thread may look at.
unsafe impl Send for Descriptor {}

// SAFETY: As above.
unsafe impl Sync for Descriptor {}

impl Descriptor {
    /// No region.
    pub const NONE: Self = Self(core::ptr::null_mut());

    /// That of a region which no operation uses, for tests.
    #[cfg(CONFIG_KUNIT = "y")]
    pub(super) const UNUSED: Self = Self(core::ptr::dangling_mut());

    /// The descriptor that a C caller got from its region.
    ///
    /// # Safety
    ///
    /// The caller upholds the type invariant.
    #[inline]
    pub const unsafe fn new(raw: *mut c_void) -> Self {
        Self(raw)
    }

    /// The descriptors of a C vector, none if it is NULL.
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
        unsafe { core::slice::from_raw_parts(descs.cast(), count) }
    }

    /// The provider's own pointer.
    #[inline]
    pub fn as_ptr(&self) -> *mut c_void {
        self.0
    }
}

/// What the poster wants back with the completion; nobody in between looks inside.
#[derive(Clone, Copy, PartialEq, Eq, Zeroable)]
#[repr(transparent)]
pub struct Context(*mut c_void);

// SAFETY: It is an opaque value here; only the poster, who gets it back, may dereference it.
unsafe impl Send for Context {}

// SAFETY: As above.
unsafe impl Sync for Context {}

impl Context {
    /// No context.
    pub const NULL: Self = Self(core::ptr::null_mut());

    /// From a C caller's pointer.
    #[inline]
    pub const fn new(raw: *mut c_void) -> Self {
        Self(raw)
    }

    /// The pointer, for its poster.
    #[inline]
    pub fn as_ptr(self) -> *mut c_void {
        self.0
    }
}

/// A message buffer that Rust consumers post: the operation owns it, its completion gives it back.
///
/// Dropped where one may not sleep, one that is registered, or made of pages, is freed soon after.
pub struct Buffer {
    body: DeferredDrop<Body>,
    /// A number of the consumer's, which comes back with the buffer.
    pub tag: u64,
}

struct Body {
    /// Before the memory: dropped first.
    region: Option<Arc<MemoryRegion>>,
    data: Storage,
}

impl Buffer {
    /// A zeroed buffer of `len` bytes. Up to 4 MiB it is one piece of memory; beyond, it is made of pages,
    /// of which a device may not take as many for a message.
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
            Storage::Small(_) | Storage::Linear(_) => DeferredDrop::at_once(body),
            Storage::Paged(_) => DeferredDrop::new(body)?,
        };
        Ok(KBox::new(Self { body, tag }, GFP_KERNEL)?)
    }

    /// The same, registered in `domain`: its endpoints post it without mapping it each time. For the others
    /// it is like any other.
    ///
    /// Dropping it ends the registration; where that may not sleep, as in a completion handler in interrupt
    /// context, it is freed soon after.
    ///
    /// # Errors
    ///
    /// -FI_ENODEV when the device goes away, -FI_ENOMEM.
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
        let region = domain.register(core::slice::from_ref(&segment), Access::LOCAL)?;
        body.region = Some(region);
        Ok(KBox::new(Self { body, tag }, GFP_KERNEL)?)
    }

    /// What it is known by when it is posted, until it comes back. Any context.
    pub fn context(&self) -> Context {
        Context(core::ptr::from_ref(self).cast_mut().cast())
    }

    /// What the endpoints of `domain` post it with.
    #[inline]
    fn descriptor(&self, domain: &Arc<Domain>) -> Descriptor {
        let region = self.body.region.as_ref();
        let region = region.filter(|region| Arc::ptr_eq(region.domain(), domain));
        region.map_or(Descriptor::NONE, |region| region.descriptor())
    }

    /// Gives the buffer to an operation in `domain`, of which it is the memory as well as the context.
    ///
    /// `post` is called with both; if it refuses, the buffer comes back.
    pub(super) fn give<R>(
        mut buffer: KBox<Self>,
        len: usize,
        domain: &Arc<Domain>,
        post: impl FnOnce(&Segment, Descriptor, Context) -> Result<R>,
    ) -> core::result::Result<R, RefusedPost> {
        if len > buffer.body.data.len() {
            return Err(RefusedPost {
                errno: Errno::EINVAL,
                buffer,
            });
        }
        // SAFETY: The boxed vector neither moves nor is freed or accessed before `reclaim` takes
        // the context back, which happens at the completion or after the endpoint is closed.
        let segment = unsafe { Segment::new(buffer.body.data.as_mut_ptr().cast(), len) };
        // The region goes with the buffer.
        let descriptor = buffer.descriptor(domain);
        let raw = KBox::into_raw(buffer);
        post(&segment, descriptor, Context(raw.cast())).map_err(|errno| RefusedPost {
            errno,
            // SAFETY: `raw` came from `into_raw` above, and a refused post keeps nothing.
            buffer: unsafe { KBox::from_raw(raw) },
        })
    }
}

/// Most bytes of a buffer that is made for parts of it.
const MOST_SHARED: usize = 128 << 10;

/// How far what one part's device writes is from what the CPU writes in another: no cache has longer lines.
const APART: usize = 128;

/// A part of a registered buffer, which nobody else uses.
///
/// # Invariants
///
/// `start` is that of `len` bytes of the buffer's, which are reached by this alone.
pub(crate) struct BufferPart {
    start: *mut u8,
    len: usize,
    descriptor: Descriptor,
    _whole: Arc<KBox<Buffer>>,
}

// SAFETY: It owns its bytes, and others' references to the buffer only keep that.
unsafe impl Send for BufferPart {}

// SAFETY: A shared one is only read.
unsafe impl Sync for BufferPart {}

impl BufferPart {
    /// Hands `count` of them to `each`, of `len` bytes each, more than none: zeroes, registered in `domain`.
    ///
    /// # Errors
    ///
    /// Those of [`Buffer::registered`], and what `each` says.
    pub(crate) fn several(
        here: ProcessContext,
        domain: &Arc<Domain>,
        len: usize,
        count: usize,
        mut each: impl FnMut(Self) -> Result,
    ) -> Result {
        let stride = len.next_multiple_of(APART);
        let mut most = (MOST_SHARED / stride).max(1);
        let mut left = count;
        while left > 0 {
            let these = left.min(most);
            let mut buffer = match Buffer::registered(here, domain, these * stride, 0) {
                // There may be memory enough in smaller pieces.
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
                // INVARIANT: The buffer has so many strides, and neither moves its bytes nor is looked into.
                each(Self {
                    start: start.wrapping_add(number * stride),
                    len,
                    descriptor,
                    _whole: whole.clone(),
                })?;
            }
            left -= these;
        }
        Ok(())
    }

    /// Its first bytes, at most `len`, and what the endpoints of its domain post them with.
    ///
    /// # Safety
    ///
    /// The caller keeps the portion, and does not look into it, until the operation that both are posted
    /// with has completed or its endpoint has been closed.
    #[inline(always)]
    pub(crate) unsafe fn lend(&mut self, len: usize) -> (Segment, Descriptor) {
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
        unsafe { core::slice::from_raw_parts(self.start, self.len) }
    }
}

impl DerefMut for BufferPart {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: By the invariant.
        unsafe { core::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

/// A post that was refused, with the buffer that it would have taken.
pub struct RefusedPost {
    /// Why.
    pub errno: Errno,
    /// The buffer, untouched.
    pub buffer: KBox<Buffer>,
}

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

/// A registered buffer, which peers may read and change at any time.
///
/// # Invariants
///
/// The vector is not reached but through `data`, which points to its bytes.
pub(super) struct SharedBuffer {
    /// Declared before the memory, so that it is dropped first. No other reference exists.
    region: Arc<MemoryRegion>,
    buffer: KBox<Buffer>,
    data: *mut u8,
}

// SAFETY: It owns its memory, which is only copied.
unsafe impl Send for SharedBuffer {}

// SAFETY: As above; what two do to the same bytes at once is what is meant by sharing them.
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
    ) -> core::result::Result<Self, RefusedPost> {
        let (data, len) = (buffer.body.data.as_mut_ptr(), buffer.body.data.len());
        // SAFETY: The region is dropped before the memory, which does not move. The CPU only copies it.
        let segment = unsafe { Segment::new(data.cast(), len) };
        match domain.register(core::slice::from_ref(&segment), access) {
            // INVARIANT: By construction; moving the box does not move the bytes.
            Ok(region) => Ok(Self {
                region,
                buffer,
                data,
            }),
            Err(errno) => Err(RefusedPost { errno, buffer }),
        }
    }

    /// Returns the address that peers use for the first byte, and the key.
    pub(super) fn name(&self) -> (u64, u64) {
        (self.region.base(), self.region.key())
    }

    /// How many bytes it has.
    pub(super) fn len(&self) -> usize {
        self.buffer.body.data.len()
    }

    /// Whether there are so many bytes from `at` on.
    fn has(&self, at: usize, len: usize) -> bool {
        at.checked_add(len).is_some_and(|end| end <= self.len())
    }

    /// Copies what is there at the moment, or nothing if it is not all in there. Any context.
    pub(super) fn read(&self, at: usize, to: &mut [u8]) -> bool {
        if !self.has(at, to.len()) {
            return false;
        }
        // SAFETY: The range is within the bytes. The kernel's own copies, as a driver's of memory that
        // its device writes: whatever it finds there is a byte.
        unsafe {
            let from = self.data.add(at);
            bindings::memcpy(to.as_mut_ptr().cast(), from.cast(), to.len());
        }
        true
    }

    /// Copies `from` there, or nothing if there is not enough room. Any context.
    pub(super) fn write(&self, at: usize, from: &[u8]) -> bool {
        if !self.has(at, from.len()) {
            return false;
        }
        // SAFETY: As of `read`.
        unsafe {
            let to = self.data.add(at);
            bindings::memcpy(to.cast(), from.as_ptr().cast(), from.len());
        }
        true
    }

    /// Closes the region, and returns the buffer, which no peer can access any more. May sleep.
    pub(super) fn end(self) -> KBox<Buffer> {
        let Self { region, buffer, .. } = self;
        drop(region);
        buffer
    }
}

/// The right to turn contexts back into buffers.
///
/// It belongs to a queue that only the Rust API posts to and reads: every context in there came from
/// [`Buffer::give`].
pub(super) struct Claim(());

impl Claim {
    /// Claims a queue that the caller has just opened and that nobody else can reach.
    pub(super) const fn new() -> Self {
        Self(())
    }

    /// Takes back the buffer of an operation that is over.
    ///
    /// The context comes from the claimed queue, or from closing an endpoint bound to it or the receives
    /// that such endpoints share: whichever hands it out does so once.
    pub(super) fn reclaim(&self, context: Context) -> Option<KBox<Buffer>> {
        let raw: *mut Buffer = context.0.cast();
        if raw.is_null() {
            return None;
        }
        // SAFETY: By the claim the context came from `give`, and this is the only time it is used.
        Some(unsafe { KBox::from_raw(raw) })
    }
}

/// Room for `N` entries of a completion queue, initialised from the start.
pub(crate) struct EntrySlots<E, const N: usize>([MaybeUninit<E>; N]);

// SAFETY: Entries are numbers and contexts, which are as those of `Context`.
unsafe impl<E: FormatEntry, const N: usize> Send for EntrySlots<E, N> {}

impl<E: Zeroable, const N: usize> EntrySlots<E, N> {
    /// Zeroes.
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
        // SAFETY: Zeroes are a value of the array, whose elements need none.
        Ok(unsafe { slots.assume_init() })
    }

    /// Where a queue writes.
    #[inline]
    pub(crate) fn room(&mut self) -> &mut [MaybeUninit<E>] {
        &mut self.0
    }

    /// What it has written, and zeroes behind that.
    #[inline]
    pub(crate) fn get(&self) -> [&E; N] {
        // SAFETY: Initialised by `new`; a queue writes whole entries.
        self.0
            .each_ref()
            .map(|slot| unsafe { slot.assume_init_ref() })
    }

    /// One of them.
    #[inline(always)]
    pub(crate) fn nth(&self, at: usize) -> Option<&E> {
        // SAFETY: As above.
        Some(unsafe { self.0.get(at)?.assume_init_ref() })
    }
}

#[kunit_tests(kofi_fi_memory)]
mod tests {
    use super::{
        super::dummy_provider::{
            domain,
            HERE, //
        },
        *, //
    };
    use kernel::page::PAGE_SIZE;

    /// What an operation in `domain` is given to post the buffer with, and refuses.
    fn offered(buffer: KBox<Buffer>, domain: &Arc<Domain>) -> Result<(*mut c_void, KBox<Buffer>)> {
        let mut descriptor = Descriptor::NONE;
        let len = buffer.len();
        let given = Buffer::give(buffer, len, domain, |_, given, _| -> Result {
            descriptor = given;
            Err(Errno::EAGAIN)
        });
        let refused = given.err().ok_or(Errno::EOTHER)?;
        Ok((descriptor.as_ptr(), refused.buffer))
    }

    #[test]
    fn a_registered_buffer_is_posted_with_its_descriptor_in_its_own_domain_only() -> Result {
        let (own, other) = (domain()?, domain()?);
        let buffer = Buffer::registered(HERE, &own, PAGE_SIZE, 7)?;
        let (in_own, buffer) = offered(buffer, &own)?;
        let (in_other, buffer) = offered(buffer, &other)?;
        assert_eq!(in_own, Descriptor::UNUSED.as_ptr());
        assert_eq!(in_other, Descriptor::NONE.as_ptr());
        assert_eq!((buffer.len(), buffer.tag), (PAGE_SIZE, 7));
        Ok(())
    }

    #[test]
    fn a_buffer_that_is_not_registered_or_empty_has_no_descriptor() -> Result {
        let domain = domain()?;
        for buffer in [
            Buffer::new(HERE, PAGE_SIZE, 0)?,
            Buffer::registered(HERE, &domain, 0, 0)?,
        ] {
            let (descriptor, _) = offered(buffer, &domain)?;
            assert_eq!(descriptor, Descriptor::NONE.as_ptr());
        }
        Ok(())
    }

    #[test]
    fn a_registered_buffer_keeps_its_domain_open_until_it_is_dropped() -> Result {
        let domain = domain()?;
        let buffer = Buffer::registered(HERE, &domain, 1, 0)?;
        assert_eq!(domain.close(), Err(Errno::EBUSY));
        drop(buffer);
        assert_eq!(domain.close(), Ok(()));
        Ok(())
    }
}
