// SPDX-License-Identifier: GPL-2.0

//! Memory of operations that a device accesses.

use super::{
    io_vec::{
        IoVec,
        PostedVec, //
    },
    AddrCheck,
    Slot,
    Vector,
    MAX_IOV, //
};
use crate::fi::prelude::*;

/// Memory of an operation in its entry that a device accesses, with the segments' descriptors.
///
/// # Invariants
///
/// The invariants of [`SrcBuf`](super::SrcBuf), or of [`DstBuf`](super::DstBuf) if the device writes, hold; descriptor
/// `i` belongs to segment `i`. Those of a long vector are in its slot.
pub(crate) struct DeviceBuf {
    iov: IoVec,
    descriptors: [Descriptor; MAX_IOV],
}

/// Memory of an operation that is being posted, and that a device accesses.
///
/// # Invariants
///
/// The invariants of [`DeviceBuf`].
#[derive(Clone, Copy)]
pub(crate) struct PostedDevice<'a> {
    iov: PostedVec<'a>,
    /// Descriptor of each part of the memory, or none.
    descriptors: &'a [Descriptor],
}

impl<'a> PostedDevice<'a> {
    /// Wraps the memory of an operation, up to `limit` segments.
    ///
    /// # Errors
    ///
    /// Errors of [`PostedSrc::borrow`](super::PostedSrc::borrow).
    ///
    /// # Safety
    ///
    /// The result is dropped before the operation completes. With [`AddrCheck::Registered`] regions contain the
    /// memory.
    #[inline(always)]
    pub(crate) unsafe fn borrow(
        memory: Memory<'a>,
        descriptors: &'a [Descriptor],
        check: AddrCheck,
        limit: usize,
    ) -> Result<Self> {
        // INVARIANT: By this function's safety requirement.
        Ok(Self {
            iov: PostedVec::new(memory, check, limit)?,
            descriptors,
        })
    }

    /// Returns whether there are more segments than an entry has space for.
    #[inline(always)]
    pub(crate) fn is_long(&self) -> bool {
        self.iov.is_long()
    }

    /// Returns the memory for the entry of the operation. More segments than an entry has space for are stored in its
    /// slot, with their descriptors; no memory is left if it is too small.
    #[inline(always)]
    pub(crate) fn into_entry<'s>(self, slot: impl FnOnce() -> Slot<'s>) -> DeviceBuf {
        let Self { iov, descriptors } = self;
        // INVARIANT: Empty parts are left out of both.
        DeviceBuf {
            descriptors: iov.descriptors(descriptors),
            iov: iov.into_entry(descriptors, slot),
        }
    }
}

impl DeviceBuf {
    /// Calls `post` to post the operation.
    ///
    /// # Safety
    ///
    /// Operations that `post` posts with it complete before the operation that owns this memory.
    pub(crate) unsafe fn with_memory<R>(
        &self,
        post: impl FnOnce(Memory<'_>, &[Descriptor]) -> R,
    ) -> R {
        // SAFETY: By this function's safety requirement.
        unsafe {
            self.iov.with_segments(|segments, stored| {
                let own = self.descriptors.get(..segments.len());
                post(Memory::Segments(segments), own.unwrap_or(stored))
            })
        }
    }
}
