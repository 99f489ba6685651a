// SPDX-License-Identifier: GPL-2.0

//! Buffers of Rust consumers: memory that a posted operation owns, and memory that peers access.
//!
//! A context of a posted operation is the address of its buffer; [`ReclaimRight`] turns it back.

use super::{
    super::{
        domain::Domain,
        mr::{
            Access,
            MemoryRegion, //
        },
        post::RemoteMemory, //
    },
    storage::Storage, //
};
use crate::fi::prelude::*;
use kernel::bindings;

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
        Context::new(ptr::from_ref(self).cast_mut().cast())
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
    pub(in crate::fi) fn post<R>(
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
        post(&segment, descriptor, Context::new(raw.cast())).map_err(|errno| RefusedPost {
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
/// `start` points to `len` and `extra` bytes of the buffer, which are accessed through this part alone.
pub(crate) struct BufferPart {
    start: *mut u8,
    len: u32,
    /// Number of bytes behind the part, for the owner's use.
    extra: u32,
    descriptor: Descriptor,
    _buffer: Arc<KBox<Buffer>>,
}

// SAFETY: The part owns its bytes; the other references to the buffer only keep it allocated.
unsafe impl Send for BufferPart {}

// SAFETY: A shared reference only reads.
unsafe impl Sync for BufferPart {}

impl BufferPart {
    /// Passes `count` zeroed parts of `len` bytes each, not 0, registered in `domain`, to `each`. Each has `extra` bytes
    /// behind it, a multiple of the word size, for [`Self::extra`]. May sleep.
    ///
    /// # Errors
    ///
    /// Errors of [`Buffer::registered`], and the first error of `each`.
    pub(crate) fn alloc_parts(
        here: ProcessContext,
        domain: &Arc<Domain>,
        (len, extra): (usize, usize),
        count: usize,
        mut each: impl FnMut(Self) -> Result,
    ) -> Result {
        let padded = len.next_multiple_of(mem::size_of::<usize>());
        let stride = (padded + extra).next_multiple_of(PART_ALIGN);
        let mut most = MAX_SHARED_BUFFER.checked_div(stride).unwrap_or(1).max(1);
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
                    len: len as u32,
                    extra: extra as u32,
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
        let len = len.min(self.len as usize);
        // SAFETY: By this function's safety requirement.
        let segment = unsafe { Segment::new(self.start.cast(), len) };
        (segment, self.descriptor)
    }

    /// Returns the words behind the part, which no device accesses. Those that the owner uses from an earlier call are
    /// not accessed through the result.
    pub(crate) fn extra(&mut self) -> &mut [usize] {
        let padded = (self.len as usize).next_multiple_of(mem::size_of::<usize>());
        let words = self.extra as usize / mem::size_of::<usize>();
        // SAFETY: By the invariant the memory is the part's own. The buffer and the stride are aligned to words.
        unsafe { slice::from_raw_parts_mut(self.start.add(padded).cast(), words) }
    }
}

impl Deref for BufferPart {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: By the invariant.
        unsafe { slice::from_raw_parts(self.start, self.len as usize) }
    }
}

impl DerefMut for BufferPart {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: By the invariant.
        unsafe { slice::from_raw_parts_mut(self.start, self.len as usize) }
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

/// The right to turn contexts back into buffers.
///
/// A right belongs to a queue that only the Rust API posts to and reads: every context in the queue came from
/// [`Buffer::post`].
pub(in crate::fi) struct ReclaimRight(());

impl ReclaimRight {
    /// Creates the right for a queue that the caller has just opened and that no other code can reach.
    pub(in crate::fi) const fn new() -> Self {
        Self(())
    }

    /// Returns the buffer of a completed operation; `None` for a null context.
    ///
    /// The context comes from the queue of this right, or from closing an endpoint bound to the queue or its
    /// shared receives. Each source passes a context once.
    pub(in crate::fi) fn reclaim(&self, context: Context) -> Option<KBox<Buffer>> {
        let raw: *mut Buffer = context.as_ptr().cast();
        if raw.is_null() {
            return None;
        }
        // SAFETY: By the type's rule the context came from `Buffer::post`, and this is its only use.
        Some(unsafe { KBox::from_raw(raw) })
    }
}

/// A registered buffer that peers may read and write at any time.
///
/// # Invariants
///
/// The storage is accessed only through `data`, which points to its bytes.
pub(in crate::fi) struct SharedBuffer {
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
    pub(in crate::fi) fn new(
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
    pub(in crate::fi) fn remote(&self) -> RemoteMemory {
        let (addr, key) = (self.region.base(), self.region.key());
        RemoteMemory { addr, key }
    }

    /// Returns the length in bytes.
    pub(in crate::fi) fn len(&self) -> usize {
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
    pub(in crate::fi) fn read(&self, at: usize, to: &mut [u8]) -> Result {
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
    pub(in crate::fi) fn write(&self, at: usize, from: &[u8]) -> Result {
        let to = self.range(at, from.len())?;
        // SAFETY: As in `read`.
        unsafe { bindings::memcpy(to.cast(), from.as_ptr().cast(), from.len()) };
        Ok(())
    }

    /// Closes the region, and returns the buffer, which no peer can access any more. May sleep.
    pub(in crate::fi) fn into_buffer(self) -> KBox<Buffer> {
        let Self { region, buffer, .. } = self;
        drop(region);
        buffer
    }
}
