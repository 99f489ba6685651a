// SPDX-License-Identifier: GPL-2.0

//! Kernel addresses as devices see them: what kind an address is, the pages behind it, and their
//! DMA mappings.

use super::device::DeviceRef;
use crate::{
    bindings,
    compat::dma_data_direction, //
};
use core::{
    iter::FusedIterator,
    num::NonZeroUsize,
    ops::Range, //
};
use kernel::{
    bindings::page,
    page::PAGE_SIZE,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
};

/// Which way data goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DataDirection {
    /// The device reads memory: sends, writes.
    ToDevice,
    /// The device writes memory: receives, reads.
    FromDevice,
    /// Both.
    Bidirectional,
}

impl DataDirection {
    fn as_raw(self) -> kernel::bindings::dma_data_direction {
        match self {
            Self::ToDevice => dma_data_direction::DMA_TO_DEVICE,
            Self::FromDevice => dma_data_direction::DMA_FROM_DEVICE,
            Self::Bidirectional => dma_data_direction::DMA_BIDIRECTIONAL,
        }
    }
}

/// How far what the CPU writes has to be from what a device writes, in bytes: a power of two.
pub(crate) fn cache_alignment() -> usize {
    // SAFETY: It tells a number that the machine has.
    let alignment = unsafe { bindings::kofi_dma_alignment() };
    (alignment as usize).max(1)
}

/// Makes mappings on one device and counts them.
///
/// Dropping it warns when a mapping has not been undone: kernels that check mappings themselves see
/// none of those on soft devices.
pub(crate) struct DmaMapper {
    device: DeviceRef,
    active: Atomic<i64>,
}

impl DmaMapper {
    pub(crate) fn new(device: DeviceRef) -> Self {
        Self {
            device,
            active: Atomic::new(0),
        }
    }

    /// Mappings that have not been undone.
    pub(crate) fn active_mappings(&self) -> i64 {
        self.active.load(Relaxed)
    }

    /// Maps one piece of memory. Any context; where there is an IOMMU it may allocate.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when the device or the IOMMU has no room for it.
    ///
    /// # Safety
    ///
    /// The piece is memory that the caller may hand to the device, until it is unmapped.
    #[inline]
    pub(crate) unsafe fn map(
        &self,
        piece: PhysRange,
        direction: DataDirection,
    ) -> Result<DmaMapping> {
        let device = self.device.raw();
        // SAFETY: The device is registered as long as it is used; the memory is the caller's to
        // hand over.
        let addr = unsafe {
            bindings::ib_dma_map_page(
                device,
                piece.page,
                piece.offset,
                piece.len.get(),
                direction.as_raw(),
            )
        };
        // SAFETY: `addr` came from mapping on this device.
        if unsafe { bindings::ib_dma_mapping_error(device, addr) } != 0 {
            return Err(ENOMEM);
        }
        self.active.add(1, Relaxed);
        Ok(DmaMapping {
            addr,
            len: piece.len,
            direction,
        })
    }

    /// Whether what one side writes, the CPU or the device, is seen by the other only after the
    /// mapping is undone or synchronised: caches are not coherent, or a bounce buffer stands between.
    pub(crate) fn needs_sync(&self, mapping: &DmaMapping) -> bool {
        // SAFETY: The device is registered as long as it is used; only the address is looked at.
        unsafe { bindings::kofi_dma_need_sync(self.device.raw(), mapping.addr) }
    }

    /// Lets the CPU see what the device has written, with the mapping left as it is. Any context.
    pub(crate) fn sync_for_cpu(&self, mapping: &DmaMapping) {
        // SAFETY: The device is registered as long as it is used, and a mapping that is there has not been
        // undone.
        unsafe {
            bindings::ib_dma_sync_single_for_cpu(
                self.device.raw(),
                mapping.addr,
                mapping.len.get(),
                mapping.direction.as_raw(),
            )
        };
    }

    /// Gives the memory back to the device after that. Any context.
    pub(crate) fn sync_for_device(&self, mapping: &DmaMapping) {
        // SAFETY: As above.
        unsafe {
            bindings::ib_dma_sync_single_for_device(
                self.device.raw(),
                mapping.addr,
                mapping.len.get(),
                mapping.direction.as_raw(),
            )
        };
    }

    /// Undoes a mapping that [`Self::map`] made here. Any context.
    ///
    /// # Safety
    ///
    /// `mapping` was made by this object, and no operation that was given its address is under way.
    #[inline]
    pub(crate) unsafe fn unmap(&self, mapping: DmaMapping) {
        // SAFETY: By this function's contract.
        unsafe {
            bindings::ib_dma_unmap_page(
                self.device.raw(),
                mapping.addr,
                mapping.len.get(),
                mapping.direction.as_raw(),
            )
        };
        self.active.add(-1, Relaxed);
    }
}

impl Drop for DmaMapper {
    fn drop(&mut self) {
        let live = self.active_mappings();
        if live != 0 {
            pr_err!(
                "{}: {live} DMA mappings were not undone\n",
                self.device.name()
            );
        }
        kernel::warn_on!(live != 0);
    }
}

/// Memory as a device sees it. Give it back to [`DmaMapper::unmap`].
#[must_use = "a mapping that is dropped is never undone"]
pub(crate) struct DmaMapping {
    addr: u64,
    len: NonZeroUsize,
    direction: DataDirection,
}

impl DmaMapping {
    /// The address to give to the device.
    #[inline]
    pub(crate) fn addr(&self) -> u64 {
        self.addr
    }

    /// In bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len.get()
    }
}

/// What a range of kernel addresses is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AddrKind {
    /// The kernel's linear map: the pages follow each other in physical memory.
    Linear,
    /// vmalloc or a module: any page may be anywhere.
    Paged,
}

/// Where there is memory: the first page is for NULL, the last one for error pointers.
pub(crate) const VALID_ADDRS: Range<usize> = PAGE_SIZE..usize::MAX - 2 * PAGE_SIZE;

/// Tells what the `len` bytes from `addr` on are made of.
///
/// This looks at the address, not at who owns the memory. Any context.
///
/// # Errors
///
/// `EINVAL` for no bytes, a range that wraps, the stack of the calling task, and what is neither in
/// the linear map nor in vmalloc's or the modules' space.
#[inline(always)]
pub(crate) fn classify(addr: usize, len: usize) -> Result<AddrKind> {
    let last = last_addr(addr, len)?;
    let (first, last) = (addr as *const c_void, last as *const c_void);
    // SAFETY: It looks at the addresses only, in any context.
    match unsafe { bindings::kofi_memory_kind(first, last) } {
        1 => Ok(AddrKind::Linear),
        2 => Ok(AddrKind::Paged),
        _ => Err(EINVAL),
    }
}

/// The address of the last of `len` bytes.
#[inline(always)]
fn last_addr(addr: usize, len: usize) -> Result<usize> {
    let more = len.checked_sub(1).ok_or(EINVAL)?;
    addr.checked_add(more).ok_or(EINVAL)
}

/// Memory that is contiguous for a device.
///
/// # Invariants
///
/// `page` exists.
#[derive(Clone, Copy)]
pub(crate) struct PhysRange {
    page: *mut page,
    offset: usize,
    len: NonZeroUsize,
}

impl PhysRange {
    /// `len` bytes that begin `offset` bytes behind the beginning of a page; the pages behind it
    /// follow it in physical memory if there are more than it has.
    ///
    /// # Errors
    ///
    /// `EINVAL` for no page or no bytes.
    ///
    /// # Safety
    ///
    /// `page` is null, or exists as long as the piece is used.
    #[inline]
    pub(crate) unsafe fn new(page: *mut page, offset: usize, len: usize) -> Result<Self> {
        if page.is_null() {
            return Err(EINVAL);
        }
        Ok(Self {
            page,
            offset,
            len: NonZeroUsize::new(len).ok_or(EINVAL)?,
        })
    }

    /// Where the kernel sees it; `EINVAL` where it does not.
    pub(crate) fn kernel_addr(&self) -> Result<usize> {
        // SAFETY: The page exists; this looks up its address, in any context.
        let start = unsafe { bindings::kofi_page_address(self.page) } as usize;
        match start {
            0 => Err(EINVAL),
            start => start.checked_add(self.offset).ok_or(EINVAL),
        }
    }

    /// In bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len.get()
    }
}

/// The pieces of a range, in order: one for the linear map, else one for each run of pages that
/// follow each other in physical memory.
///
/// A piece is an `Err` when a page of the range is not there, and the last item then.
pub(crate) struct PhysRanges {
    kind: AddrKind,
    addr: usize,
    remaining: usize,
}

impl PhysRanges {
    /// # Errors
    ///
    /// Those of [`classify`].
    pub(crate) fn new(addr: usize, len: usize) -> Result<Self> {
        Ok(Self {
            kind: classify(addr, len)?,
            addr,
            remaining: len,
        })
    }

    /// What the range is made of.
    pub(crate) fn kind(&self) -> AddrKind {
        self.kind
    }

    /// The page at `addr`, which lies within a range of our kind.
    fn page_at(&self, addr: usize) -> Result<*mut page> {
        let addr = addr as *const c_void;
        let page = match self.kind {
            // SAFETY: `classify` found both ends of the range in the linear map.
            AddrKind::Linear => unsafe { bindings::kofi_virt_to_page(addr) },
            // SAFETY: `classify` found both ends of the range in the space of vmalloc or modules,
            // whose page tables may be walked at any address.
            AddrKind::Paged => unsafe { kernel::bindings::vmalloc_to_page(addr) },
        };
        if page.is_null() {
            Err(EINVAL)
        } else {
            Ok(page)
        }
    }

    fn advance(&mut self, len: usize) {
        self.addr = self.addr.wrapping_add(len);
        self.remaining = self.remaining.saturating_sub(len);
    }

    fn next_range(&mut self) -> Result<PhysRange> {
        let offset = self.addr % PAGE_SIZE;
        let page = self.page_at(self.addr)?;
        let len = match self.kind {
            AddrKind::Linear => self.remaining,
            AddrKind::Paged => self.contiguous_len(page, bytes_in_page(offset, self.remaining))?,
        };
        let piece = PhysRange {
            page,
            offset,
            len: NonZeroUsize::new(len).ok_or(EINVAL)?,
        };
        self.advance(len);
        Ok(piece)
    }

    /// How many bytes follow each other in physical memory, when the first `len` are in `page`.
    fn contiguous_len(&self, page: *mut page, mut len: usize) -> Result<usize> {
        // SAFETY: `page` is a page of the range.
        let mut pfn = unsafe { bindings::kofi_page_to_pfn(page) };
        while len < self.remaining {
            let next = self.page_at(self.addr.wrapping_add(len))?;
            // SAFETY: As above.
            let next_pfn = unsafe { bindings::kofi_page_to_pfn(next) };
            if next_pfn != pfn.wrapping_add(1) {
                break;
            }
            pfn = next_pfn;
            len += bytes_in_page(0, self.remaining - len);
        }
        Ok(len)
    }
}

impl Iterator for PhysRanges {
    type Item = Result<PhysRange>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.remaining == 0 {
            return None;
        }
        let piece = self.next_range();
        if piece.is_err() {
            self.remaining = 0;
        }
        Some(piece)
    }
}

impl FusedIterator for PhysRanges {}

/// Whether there is memory at each address of a range: the same that devices can be given.
///
/// # Errors
///
/// Those of [`classify`], and `EINVAL` for a page that is not there.
#[inline]
pub(crate) fn check_range(addr: usize, len: usize) -> Result {
    match classify(addr, len)? {
        AddrKind::Linear => Ok(()),
        AddrKind::Paged => PhysRanges::new(addr, len)?.try_for_each(|piece| piece.map(|_| ())),
    }
}

/// How many of `left` bytes lie in the page that the first of them has `offset` in.
fn bytes_in_page(offset: usize, left: usize) -> usize {
    left.min(PAGE_SIZE - offset)
}

#[kunit_tests(kofi_rdma_dma)]
mod tests {
    use super::*;

    fn total(addr: usize, len: usize) -> Result<(usize, usize)> {
        let (mut pieces, mut bytes) = (0, 0);
        for piece in PhysRanges::new(addr, len)? {
            pieces += 1;
            bytes += piece?.len();
        }
        Ok((pieces, bytes))
    }

    #[test]
    fn range_arithmetic_refuses_empty_and_wrapping() {
        assert_eq!(last_addr(10, 0).err(), Some(EINVAL));
        assert_eq!(last_addr(10, 1), Ok(10));
        assert_eq!(last_addr(usize::MAX, 1), Ok(usize::MAX));
        assert_eq!(last_addr(usize::MAX, 2).err(), Some(EINVAL));
        assert_eq!(last_addr(1, usize::MAX), Ok(usize::MAX));
        assert_eq!(last_addr(2, usize::MAX).err(), Some(EINVAL));
        assert_eq!(bytes_in_page(0, 1), 1);
        assert_eq!(bytes_in_page(0, PAGE_SIZE + 1), PAGE_SIZE);
        assert_eq!(bytes_in_page(PAGE_SIZE - 1, 5), 1);
    }

    #[test]
    fn classify_refuses_what_no_device_can_reach() {
        let local = 0_u64;
        let on_stack = core::ptr::from_ref(&local) as usize;
        assert_eq!(classify(on_stack, 8).err(), Some(EINVAL));
        assert_eq!(classify(0, 8).err(), Some(EINVAL));
        assert_eq!(classify(usize::MAX, 2).err(), Some(EINVAL));
    }

    #[test]
    fn linear_memory_is_one_piece() -> Result {
        let mut memory: KVec<u8> = KVec::with_capacity(3 * PAGE_SIZE, GFP_KERNEL)?;
        let addr = memory.as_mut_ptr() as usize;
        assert_eq!(classify(addr, 3 * PAGE_SIZE), Ok(AddrKind::Linear));
        assert_eq!(total(addr + 1, 3 * PAGE_SIZE - 1)?, (1, 3 * PAGE_SIZE - 1));
        Ok(())
    }

    #[test]
    fn vmalloc_memory_is_whole_in_pieces() -> Result {
        let mut memory: VVec<u8> = VVec::with_capacity(5 * PAGE_SIZE, GFP_KERNEL)?;
        let addr = memory.as_mut_ptr() as usize;
        assert_eq!(classify(addr, 5 * PAGE_SIZE), Ok(AddrKind::Paged));
        for (skip, len) in [
            (0, 5 * PAGE_SIZE),
            (7, 1),
            (PAGE_SIZE - 1, 2),
            (9, 3 * PAGE_SIZE),
        ] {
            let (pieces, bytes) = total(addr + skip, len)?;
            assert_eq!(bytes, len);
            assert!(pieces >= 1 && pieces <= 1 + len.div_ceil(PAGE_SIZE));
        }
        Ok(())
    }

    #[test]
    fn module_memory_can_be_mapped() -> Result {
        static DATA: [u8; 64] = [1; 64];
        assert_eq!(total(DATA.as_ptr() as usize, DATA.len())?.1, DATA.len());
        Ok(())
    }
}
