// SPDX-License-Identifier: GPL-2.0

//! Memory regions for fast registration, whose keys give a peer access to exactly the given memory.

mod layout;
mod page_list;

pub(crate) use layout::DmaSegment;
pub(crate) use page_list::{
    PageList,
    PageListBuilder, //
};

use super::{
    pd::Pd,
    prelude::*, //
};
use kernel::impl_flags;
use layout::{
    PageLayout,
    PageListLimits, //
};

impl_flags!(
    /// Access rights of memory.
    #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
    pub(crate) struct Access(u32);

    /// An access right of memory.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) enum Right {
        /// The local device may write the memory.
        LocalWrite = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE,
        /// The peer may write the memory; requires [`Right::LocalWrite`].
        RemoteWrite = bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE,
        /// The peer may read the memory.
        RemoteRead = bindings::ib_access_flags_IB_ACCESS_REMOTE_READ,
        /// The peer may execute atomic operations on the memory; requires [`Right::LocalWrite`].
        RemoteAtomic = bindings::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC,
    }
);

/// A memory region that a work request registers for remote access.
///
/// Dropping it ends the remote access, whether or not the work request succeeded.
///
/// # Invariants
///
/// `raw` is a memory region in the protection domain `_pd`.
pub(crate) struct FastMr {
    raw: NonNull<bindings::ib_mr>,
    /// Access rights of peers.
    pub(super) access: Access,
    _pd: Arc<Pd>,
}

// SAFETY: Any thread may register and free a memory region.
unsafe impl Send for FastMr {}

// SAFETY: A shared reference only reads the region.
unsafe impl Sync for FastMr {}

impl FastMr {
    /// Creates a region of the concatenated `runs`, which starts at the address `iova` for peers.
    ///
    /// Peers cannot access it before
    /// [`FastRegQp::register`](super::fast_reg_qp::FastRegQp::register).
    ///
    /// # Errors
    ///
    /// `EINVAL` when the device's page list cannot describe the memory: two runs meet within a
    /// page, there are too many runs or pages, or `iova` and the first byte have different offsets
    /// in their pages. `EOPNOTSUPP`, `ENOMEM`, and the driver's errors.
    ///
    /// # Safety
    ///
    /// The runs are mapped for the device until the region is dropped, and peers may access their
    /// memory as `access` says.
    #[inline(never)]
    pub(crate) unsafe fn new(
        pd: Arc<Pd>,
        runs: &[DmaSegment],
        iova: u64,
        access: Access,
    ) -> Result<Self> {
        let attributes = &pd.device().attributes;
        let limits = PageListLimits {
            page_size_cap: attributes.page_size_cap,
            max_pages: attributes.max_fast_reg_page_list_len,
        };
        let layout = PageLayout::new(runs, iova, limits).ok_or(EINVAL)?;
        let mut list = build_scatterlist(runs)?;
        // If a later step fails, dropping the region frees it: rxe cannot map it a second time.
        let mut mr = Self::alloc(pd, layout.pages)?;
        mr.access = access;
        let count = c_int::try_from(runs.len()).map_err(|_| EINVAL)?;
        // SAFETY: By the invariant `raw` is valid. The list is terminated, and only read; its
        // addresses are mapped, as the caller guarantees. siw ignores an offset into it.
        let mapped = unsafe {
            bindings::ib_map_mr_sg(
                mr.raw(),
                list.as_mut_ptr(),
                count,
                ptr::null_mut(),
                layout.page_size,
            )
        };
        // SAFETY: `raw` is valid, and not shared yet.
        let raw = unsafe { &mut *mr.raw() };
        let total: u64 = runs.iter().map(|run| run.len).sum();
        // rxe returns `ENOMEM` for a page list that is too short.
        if mapped < 0 && !(layout.is_truncated && mapped == ENOMEM.to_errno()) {
            return Err(Error::from_errno(mapped));
        }
        if mapped != count || raw.length != total {
            return Err(EINVAL);
        }
        raw.iova = iova;
        Ok(mr)
    }

    /// Allocates a region without memory, for at most `pages` pages. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EOPNOTSUPP`, and the driver's errors.
    pub(crate) fn alloc(pd: Arc<Pd>, pages: u32) -> Result<Self> {
        let kind = bindings::ib_mr_type_IB_MR_TYPE_MEM_REG;
        // SAFETY: `pd` is a valid protection domain.
        let raw = unsafe { bindings::ib_alloc_mr(pd.raw(), kind, pages) };
        let raw = NonNull::new(from_err_ptr(raw)?).ok_or(ENOMEM)?;
        // INVARIANT: `raw` has just been allocated in `pd`.
        Ok(Self {
            raw,
            access: Access::default(),
            _pd: pd,
        })
    }

    /// Gives the region other memory, which starts at `iova` for peers, and another key. Any context; allocates
    /// nothing.
    ///
    /// Peers cannot access it before a work request of [`SendWr::reg_mr`](super::wr::SendWr::reg_mr) has been
    /// executed.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the list has more pages than the region, or `iova` and its first byte have different offsets
    /// in their pages, and the driver's errors.
    ///
    /// # Safety
    ///
    /// No peer can access the region now. The ranges of `list` are mapped for the device until a peer cannot
    /// access the region any more, and peers may access their memory as `access` says.
    pub(crate) unsafe fn assign(
        &mut self,
        list: &mut PageList,
        iova: u64,
        access: Access,
        max_pages: u32,
    ) -> Result {
        if list.pages() > max_pages || !list.has_same_offset(iova) {
            return Err(EINVAL);
        }
        let (count, total) = (list.dma_ranges() as c_int, list.total());
        // Larger pages make rxe allocate memory.
        // SAFETY: By the invariant `raw` is valid. The list is terminated, and only read; its addresses are mapped,
        // as the caller guarantees.
        let mapped = unsafe {
            bindings::ib_map_mr_sg(
                self.raw(),
                list.as_terminated(),
                count,
                ptr::null_mut(),
                page_list::PAGE_LEN,
            )
        };
        if mapped < 0 {
            return Err(Error::from_errno(mapped));
        }
        // SAFETY: `raw` is valid, and no work request uses it, as the caller guarantees.
        let raw = unsafe { &mut *self.raw() };
        if mapped != count || raw.length != total {
            return Err(EINVAL);
        }
        raw.iova = iova;
        self.access = access;
        set_key_variant(raw, raw.rkey.wrapping_add(1));
        Ok(())
    }

    /// Undoes the change of the key by [`Self::assign`], if the device has not registered the region with it.
    pub(crate) fn revert_key(&mut self) {
        // SAFETY: By the invariant `raw` is valid, and no work request uses the region with this key.
        let raw = unsafe { &mut *self.raw() };
        set_key_variant(raw, raw.rkey.wrapping_sub(1));
    }

    pub(super) fn raw(&self) -> *mut bindings::ib_mr {
        self.raw.as_ptr()
    }

    /// Returns the remote key.
    #[inline]
    pub(crate) fn rkey(&self) -> u32 {
        // SAFETY: By the invariant `raw` is valid.
        unsafe { (*self.raw()).rkey }
    }
}

/// Bits of a key that differ between successive registrations of a region; the others identify the region.
pub(crate) const KEY_VARIANT: u32 = 0xff;

/// Sets the lower byte of both keys, which is the user's, to that of `variant`: it distinguishes successive
/// registrations.
fn set_key_variant(raw: &mut bindings::ib_mr, variant: u32) {
    let variant = variant & KEY_VARIANT;
    raw.rkey = raw.rkey & !KEY_VARIANT | variant;
    raw.lkey = raw.lkey & !KEY_VARIANT | variant;
}

/// Returns the segments as a terminated scatterlist of DMA addresses.
fn build_scatterlist(segments: &[DmaSegment]) -> Result<KVVec<kernel::bindings::scatterlist>> {
    let mut list = KVVec::with_capacity(segments.len(), GFP_KERNEL)?;
    for run in segments {
        let len = u32::try_from(run.len).map_err(|_| EINVAL)?;
        let mut entry = pin_init::zeroed();
        // SAFETY: `entry` is a local scatterlist entry.
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
