// SPDX-License-Identifier: GPL-2.0

//! Memory regions for fast registration: keys that give a peer exactly the given memory.

use super::{
    dma::Mapping,
    pd::Pd, //
};
use crate::bindings;
use core::ptr::{
    self,
    NonNull, //
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    impl_flags,
    prelude::*,
    sync::Arc, //
};

impl_flags!(
    /// What may be done to memory.
    #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
    pub(crate) struct Access(u32);

    /// One thing that may be done to memory.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) enum Right {
        /// The device writes it for ourselves.
        LocalWrite = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE,
        /// The peer writes it; needs [`Right::LocalWrite`].
        RemoteWrite = bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE,
        /// The peer reads it.
        RemoteRead = bindings::ib_access_flags_IB_ACCESS_REMOTE_READ,
        /// The peer does atomic operations on it; needs [`Right::LocalWrite`].
        RemoteAtomic = bindings::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC,
    }
);

/// A memory region that is registered by a work request.
///
/// # Invariants
///
/// `raw` is a memory region in `pd`.
pub(crate) struct FastMr {
    raw: NonNull<bindings::ib_mr>,
    max_pieces: u32,
    _pd: Arc<Pd>,
}

// SAFETY: A memory region may be mapped and freed by any thread.
unsafe impl Send for FastMr {}

// SAFETY: Through a shared reference it is only read.
unsafe impl Sync for FastMr {}

impl FastMr {
    /// Makes a region for at most `max_pieces` pages of whatever page size.
    ///
    /// # Errors
    ///
    /// `EINVAL` for no pages, `EOPNOTSUPP`, `ENOMEM`, and the driver's.
    pub(crate) fn new(pd: Arc<Pd>, max_pieces: u32) -> Result<Self> {
        if max_pieces == 0 {
            return Err(EINVAL);
        }
        let kind = bindings::ib_mr_type_IB_MR_TYPE_MEM_REG;
        // SAFETY: `pd` is a valid protection domain.
        let raw = unsafe { bindings::ib_alloc_mr(pd.raw(), kind, max_pieces) };
        let raw = NonNull::new(from_err_ptr(raw)?).ok_or(ENOMEM)?;
        // INVARIANT: `raw` was made in `pd` just now.
        Ok(Self {
            raw,
            max_pieces,
            _pd: pd,
        })
    }

    pub(super) fn raw(&self) -> *mut bindings::ib_mr {
        self.raw.as_ptr()
    }

    /// Tells the region what to cover, one mapping after the other, in pages of `page_size` bytes.
    ///
    /// It takes effect with [`SendWr::reg_mr`](super::wr::SendWr::reg_mr). A region that failed
    /// here must be dropped: rxe is not able to map it again.
    ///
    /// # Errors
    ///
    /// `EINVAL` when the pages do not suffice for all mappings or one does not begin or end where
    /// a page does, `ENOMEM`, and the driver's.
    ///
    /// # Safety
    ///
    /// The region's key is not valid: it was never registered, or its invalidation has completed.
    /// The mappings stay until that is so again.
    pub(crate) unsafe fn map<'a>(
        &mut self,
        mappings: impl ExactSizeIterator<Item = &'a Mapping>,
        page_size: u32,
    ) -> Result {
        let count = u32::try_from(mappings.len()).map_err(|_| EINVAL)?;
        if count == 0 || count > self.max_pieces {
            return Err(EINVAL);
        }
        let mut list: KVVec<kernel::bindings::scatterlist> = KVVec::new();
        let mut total = 0_u64;
        for mapping in mappings {
            let len = u32::try_from(mapping.len()).map_err(|_| EINVAL)?;
            let mut entry = pin_init::zeroed();
            // SAFETY: `entry` is a scatterlist entry, of ours alone.
            unsafe { bindings::kofi_sg_set_dma(&mut entry, mapping.addr(), len) };
            list.push(entry, GFP_KERNEL)?;
            total = total.checked_add(u64::from(len)).ok_or(EINVAL)?;
        }
        if let Some(last) = list.last_mut() {
            // SAFETY: As above.
            unsafe { bindings::sg_mark_end(last) };
        }

        let count = c_int::try_from(count).map_err(|_| EINVAL)?;
        // SAFETY: By the invariant `raw` is valid. The list is terminated, and only read.
        let mapped = unsafe {
            bindings::ib_map_mr_sg(
                self.raw(),
                list.as_mut_ptr(),
                count,
                ptr::null_mut(),
                page_size,
            )
        };
        to_result(mapped)?;
        // SAFETY: As above.
        let covered = unsafe { (*self.raw()).length };
        if mapped != count || covered != total {
            return Err(EINVAL);
        }
        Ok(())
    }

    /// Counts the key on, so that one which a peer still holds is not valid again.
    pub(crate) fn renew_key(&mut self) {
        // SAFETY: By the invariant `raw` is valid; nothing else changes its keys.
        unsafe {
            let raw = self.raw();
            let tag = (*raw).rkey as u8;
            let next = u32::from(tag.wrapping_add(1));
            (*raw).lkey = ((*raw).lkey & !0xff) | next;
            (*raw).rkey = ((*raw).rkey & !0xff) | next;
        }
    }

    /// The key that a peer needs.
    #[inline]
    pub(crate) fn rkey(&self) -> u32 {
        // SAFETY: By the invariant `raw` is valid.
        unsafe { (*self.raw()).rkey }
    }

    /// The key for ourselves.
    #[inline]
    pub(crate) fn lkey(&self) -> u32 {
        // SAFETY: By the invariant `raw` is valid.
        unsafe { (*self.raw()).lkey }
    }

    /// The address by which the region's first byte is reached.
    #[inline]
    pub(crate) fn iova(&self) -> u64 {
        // SAFETY: By the invariant `raw` is valid.
        unsafe { (*self.raw()).iova }
    }

    /// Chooses that address. Its offset in a page must stay the same.
    #[inline]
    pub(crate) fn set_iova(&mut self, iova: u64) {
        // SAFETY: By the invariant `raw` is valid, and `&mut` says that nobody posts it meanwhile.
        unsafe { (*self.raw()).iova = iova };
    }
}

impl Drop for FastMr {
    fn drop(&mut self) {
        // SAFETY: By the invariant `raw` is valid.
        let err = unsafe { bindings::ib_dereg_mr_user(self.raw(), ptr::null_mut()) };
        kernel::warn_on!(err != 0);
    }
}
