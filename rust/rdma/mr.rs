// SPDX-License-Identifier: GPL-2.0

//! Memory regions for fast registration: keys that give a peer exactly the given memory.

mod layout;

pub(crate) use layout::DmaSegment;

use super::pd::Pd;
use crate::bindings;
use core::ptr::{
    self,
    NonNull, //
};
use kernel::{
    error::from_err_ptr,
    impl_flags,
    prelude::*,
    sync::Arc, //
};
use layout::{
    PageLayout,
    PageListLimits, //
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

/// Memory that a work request opens to peers.
///
/// Dropping it closes the memory for certain, whatever became of the request.
///
/// # Invariants
///
/// `raw` is a memory region in the protection domain, which covers its memory.
pub(crate) struct FastMr {
    raw: NonNull<bindings::ib_mr>,
    access: Access,
    _pd: Arc<Pd>,
}

// SAFETY: A memory region may be registered and freed by any thread.
unsafe impl Send for FastMr {}

// SAFETY: Through a shared reference it is only read.
unsafe impl Sync for FastMr {}

impl FastMr {
    /// Makes a region of `runs`, one after the other, that is reached from the address `iova` on.
    ///
    /// Nobody reaches it before [`RegQp::register`](super::reg_qp::RegQp::register).
    ///
    /// # Errors
    ///
    /// `EINVAL` when the device cannot list the memory: two runs meet within a page, there are too
    /// many of them or of their pages, or `iova` has another place in its page than the first byte.
    /// `EOPNOTSUPP`, `ENOMEM`, and the driver's.
    ///
    /// # Safety
    ///
    /// The runs were mapped for the device and stay so until the region is dropped, and they are
    /// memory that peers may access as `access` says.
    #[inline(never)]
    pub(crate) unsafe fn new(
        pd: Arc<Pd>,
        runs: &[DmaSegment],
        iova: u64,
        access: Access,
    ) -> Result<Self> {
        let attributes = pd.device().attributes();
        let limits = PageListLimits {
            page_size_cap: attributes.page_size_cap,
            max_pages: attributes.max_fast_reg_page_list_len,
        };
        let layout = PageLayout::new(runs, iova, limits).ok_or(EINVAL)?;
        let mut list = build_scatterlist(runs)?;
        let kind = bindings::ib_mr_type_IB_MR_TYPE_MEM_REG;
        // SAFETY: `pd` is a valid protection domain.
        let raw = unsafe { bindings::ib_alloc_mr(pd.raw(), kind, layout.pages) };
        let raw = NonNull::new(from_err_ptr(raw)?).ok_or(ENOMEM)?;
        // If what follows fails, dropping the region frees it: rxe cannot map it once more.
        // INVARIANT: `raw` was made in `pd` just now; it is not returned before it is mapped.
        let mr = Self {
            raw,
            access,
            _pd: pd,
        };
        let count = c_int::try_from(runs.len()).map_err(|_| EINVAL)?;
        // SAFETY: By the invariant `raw` is valid. The list is terminated, and only read; its
        // addresses are mapped, as the caller promises. siw ignores an offset into it.
        let mapped = unsafe {
            bindings::ib_map_mr_sg(
                mr.raw(),
                list.as_mut_ptr(),
                count,
                ptr::null_mut(),
                layout.page_size,
            )
        };
        // SAFETY: `raw` is valid, and ours alone.
        let raw = unsafe { &mut *mr.raw() };
        let total: u64 = runs.iter().map(|run| run.len).sum();
        // To rxe, a list that is too short is a lack of memory.
        if mapped < 0 && !(layout.is_truncated && mapped == ENOMEM.to_errno()) {
            return Err(Error::from_errno(mapped));
        }
        if mapped != count || raw.length != total {
            return Err(EINVAL);
        }
        raw.iova = iova;
        Ok(mr)
    }

    pub(super) fn raw(&self) -> *mut bindings::ib_mr {
        self.raw.as_ptr()
    }

    /// What peers may do.
    pub(crate) fn access(&self) -> Access {
        self.access
    }

    /// The key that a peer needs.
    #[inline]
    pub(crate) fn rkey(&self) -> u32 {
        // SAFETY: By the invariant `raw` is valid.
        unsafe { (*self.raw()).rkey }
    }
}

/// The list that drivers take.
fn build_scatterlist(segments: &[DmaSegment]) -> Result<KVVec<kernel::bindings::scatterlist>> {
    let mut list = KVVec::with_capacity(segments.len(), GFP_KERNEL)?;
    for run in segments {
        let len = u32::try_from(run.len).map_err(|_| EINVAL)?;
        let mut entry = pin_init::zeroed();
        // SAFETY: `entry` is a scatterlist entry, of ours alone.
        unsafe { bindings::kofi_sg_set_dma(&mut entry, run.addr, len) };
        list.push(entry, GFP_KERNEL)?;
    }
    if let Some(last) = list.last_mut() {
        // SAFETY: As above.
        unsafe { bindings::sg_mark_end(last) };
    }
    Ok(list)
}

impl Drop for FastMr {
    fn drop(&mut self) {
        // SAFETY: By the invariant `raw` is valid.
        let err = unsafe { bindings::ib_dereg_mr_user(self.raw(), ptr::null_mut()) };
        kernel::warn_on!(err != 0);
    }
}
