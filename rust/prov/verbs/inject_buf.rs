// SPDX-License-Identifier: GPL-2.0

//! Memory that injected data is copied to, for devices that do not take it inline.

use super::sge;
use crate::{
    abi::{
        Errno,
        Result, //
    },
    fi::memory::{
        Memory,
        Segment, //
    },
};
use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    mem::MaybeUninit, //
};
use kernel::prelude::*;

/// A piece of memory for each slot of a queue.
///
/// # Invariants
///
/// A piece has the user that its slot has: the poster, then the device.
pub(super) struct InjectBufs {
    size: usize,
    bytes: KVVec<UnsafeCell<MaybeUninit<u8>>>,
}

// SAFETY: By the type invariant each piece has one user at a time.
unsafe impl Send for InjectBufs {}

// SAFETY: As above.
unsafe impl Sync for InjectBufs {}

impl InjectBufs {
    /// `slots` pieces of `size` bytes. May sleep.
    pub(super) fn new(slots: usize, size: usize) -> Result<Self> {
        let len = slots.checked_mul(size).ok_or(Errno::EINVAL)?;
        let mut memory = KVVec::with_capacity(len, GFP_KERNEL)?;
        // SAFETY: There is room for `len` bytes, which need not be initialised.
        unsafe { memory.inc_len(len) };
        Ok(Self {
            size,
            bytes: memory,
        })
    }

    /// The piece of a slot.
    ///
    /// # Safety
    ///
    /// The caller is the slot's user, and the slot is not filled again before the device is done
    /// with the piece.
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

/// The memory of one slot.
///
/// # Invariants
///
/// `start` is valid for writing `size` bytes, and nobody else uses them until the slot's operation
/// has completed.
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
    /// -FI_EMSGSIZE when it is longer; -FI_EINVAL for a page that the kernel has no address for.
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
            // SAFETY: There is room, by the invariant and the check above; the memory is readable by the
            // invariants of what `Memory` is made of, and no memory of ours.
            unsafe { core::ptr::copy_nonoverlapping(from, self.start.add(len), part.len()) };
            len += part.len();
            Ok(())
        })?;
        // SAFETY: By the invariant, nobody else uses it until the operation has completed.
        Ok(unsafe { Segment::new(self.start.cast(), len) })
    }
}
