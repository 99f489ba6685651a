// SPDX-License-Identifier: GPL-2.0

//! Buffers for injected data, for devices that do not take it inline.

use super::sge;
use crate::fi::prelude::*;
use core::cell::UnsafeCell;

/// A buffer for each slot of a queue.
///
/// # Invariants
///
/// A buffer has the same user as its slot: the poster, then the device.
pub(super) struct InjectBufs {
    size: usize,
    bytes: KVVec<UnsafeCell<MaybeUninit<u8>>>,
}

// SAFETY: By the type invariant each buffer has one user at a time.
unsafe impl Send for InjectBufs {}

// SAFETY: As above.
unsafe impl Sync for InjectBufs {}

impl InjectBufs {
    /// Allocates `slots` buffers of `size` bytes. May sleep.
    pub(super) fn new(slots: usize, size: usize) -> Result<Self> {
        let len = slots.checked_mul(size).ok_or(Errno::EINVAL)?;
        let mut memory = KVVec::with_capacity(len, GFP_KERNEL)?;
        // SAFETY: The capacity is `len` bytes, which need not be initialised.
        unsafe { memory.inc_len(len) };
        Ok(Self {
            size,
            bytes: memory,
        })
    }

    /// Returns the buffer of a slot.
    ///
    /// # Safety
    ///
    /// The caller is the slot's user, and the slot is not filled again before the device is done
    /// with the buffer.
    #[inline]
    pub(super) unsafe fn buf(&self, index: usize) -> InjectBuf<'_> {
        let start = index * self.size;
        let cells = &self.bytes[start..start + self.size];
        InjectBuf {
            start: cells.as_ptr().cast_mut().cast(),
            size: cells.len(),
            _memory: PhantomData,
        }
    }
}

/// The buffer of one slot.
///
/// # Invariants
///
/// `start` is valid for writing `size` bytes, which are not accessed otherwise until the slot's
/// operation has completed.
pub(super) struct InjectBuf<'a> {
    start: *mut u8,
    size: usize,
    _memory: PhantomData<&'a InjectBufs>,
}

impl InjectBuf<'_> {
    /// Copies `memory`, which is not used after this call.
    ///
    /// # Errors
    ///
    /// -FI_EMSGSIZE when it is longer; -FI_EINVAL for a page without a kernel address.
    pub(super) fn fill_from(self, memory: Memory<'_>) -> Result<Segment> {
        let mut len = 0;
        memory.for_each(|part| {
            if part.is_empty() {
                return Ok(());
            }
            if part.len() > self.size - len {
                return Err(Errno::EMSGSIZE);
            }
            let from = sge::kernel_addr(&part)? as *const u8;
            // SAFETY: The length was checked above, and `start` is valid by the invariant; the
            // memory is readable by the invariants of `Memory`'s parts, and does not overlap the
            // buffer.
            unsafe { core::ptr::copy_nonoverlapping(from, self.start.add(len), part.len()) };
            len += part.len();
            Ok(())
        })?;
        // SAFETY: By the invariant, it is not accessed otherwise until the operation has completed.
        Ok(unsafe { Segment::new(self.start.cast(), len) })
    }
}
