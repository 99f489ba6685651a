// SPDX-License-Identifier: GPL-2.0

//! DMA of kernel memory: the kind of an address, the pages of a range, and their DMA mappings.

use super::{
    device::DeviceRef,
    prelude::*, //
};
use core::{
    num::NonZeroUsize,
    ops::Range, //
};
pub(crate) use kernel::dma::DataDirection;
use kernel::{
    bindings::{
        page,
        scatterlist, //
    },
    page::PAGE_SIZE, //
};

/// Returns the alignment, a power of two in bytes, that separates memory written by the CPU from
/// memory written by a device: the DMA cache alignment.
pub(crate) fn cache_alignment() -> usize {
    // SAFETY: The function only returns a constant of the machine.
    let alignment = unsafe { bindings::kofi_dma_alignment() };
    (alignment as usize).max(1)
}

/// Maps memory for one device and counts the mappings.
///
/// Dropping it warns about remaining mappings: the kernel's DMA API debugging does not see mappings
/// of software devices.
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

    /// Maps a range of memory. Any context; with an IOMMU it may allocate.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when the device or the IOMMU cannot map it.
    ///
    /// # Safety
    ///
    /// The device may access the memory of `range` until it is unmapped.
    #[inline]
    pub(crate) unsafe fn map(
        &self,
        range: PhysRange,
        direction: DataDirection,
    ) -> Result<DmaMapping> {
        let device = self.device.raw();
        // SAFETY: A `DeviceRef` keeps the device registered; the caller guarantees the memory.
        let addr = unsafe {
            bindings::ib_dma_map_page(
                device,
                range.page,
                range.offset,
                range.len.get(),
                direction.into(),
            )
        };
        // SAFETY: `addr` is the result of a mapping on this device.
        if unsafe { bindings::ib_dma_mapping_error(device, addr) } != 0 {
            return Err(ENOMEM);
        }
        self.active.add(1, Relaxed);
        Ok(DmaMapping {
            addr,
            len: range.len,
            direction,
        })
    }

    /// Maps the ranges of a terminated list, whose entries get the DMA addresses; the device may have merged some.
    /// Returns the number of DMA ranges. Any context; with an IOMMU it may allocate.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when the device or the IOMMU cannot map them.
    ///
    /// # Safety
    ///
    /// The device may access the memory of the ranges until they are unmapped.
    pub(crate) unsafe fn map_list(
        &self,
        list: &mut [scatterlist],
        direction: DataDirection,
    ) -> Result<u32> {
        let (first, count) = (list.as_mut_ptr(), list.len() as c_int);
        // SAFETY: A `DeviceRef` keeps the device registered; the list has `count` entries, and the caller guarantees
        // their memory.
        let mapped =
            unsafe { bindings::ib_dma_map_sg(self.device.raw(), first, count, direction.into()) };
        match u32::try_from(mapped) {
            // Not counted: the owner of the list undoes the mapping when it is dropped.
            Ok(mapped @ 1..) => Ok(mapped),
            _ => Err(ENOMEM),
        }
    }

    /// Undoes [`Self::map_list`] with the same arguments. Any context.
    ///
    /// # Safety
    ///
    /// The list was mapped by this object, and no operation with its addresses is outstanding.
    pub(crate) unsafe fn unmap_list(&self, list: &mut [scatterlist], direction: DataDirection) {
        let (first, count) = (list.as_mut_ptr(), list.len() as c_int);
        // SAFETY: By this function's contract.
        unsafe { bindings::ib_dma_unmap_sg(self.device.raw(), first, count, direction.into()) };
    }

    /// Returns whether writes of the CPU or the device are visible to the other only after the
    /// mapping is synchronised or undone: the caches are not coherent, or there is a bounce buffer.
    pub(crate) fn needs_sync(&self, mapping: &DmaMapping) -> bool {
        // SAFETY: A `DeviceRef` keeps the device registered; the address is not accessed.
        unsafe { bindings::kofi_dma_need_sync(self.device.raw(), mapping.addr) }
    }

    /// Makes the device's writes visible to the CPU, and keeps the mapping. Any context.
    pub(crate) fn sync_for_cpu(&self, mapping: &DmaMapping) {
        // SAFETY: A `DeviceRef` keeps the device registered, and a borrowed mapping has not been
        // undone.
        unsafe {
            bindings::ib_dma_sync_single_for_cpu(
                self.device.raw(),
                mapping.addr,
                mapping.len.get(),
                mapping.direction.into(),
            )
        };
    }

    /// Returns the memory to the device after [`Self::sync_for_cpu`]. Any context.
    pub(crate) fn sync_for_device(&self, mapping: &DmaMapping) {
        // SAFETY: As above.
        unsafe {
            bindings::ib_dma_sync_single_for_device(
                self.device.raw(),
                mapping.addr,
                mapping.len.get(),
                mapping.direction.into(),
            )
        };
    }

    /// Undoes a mapping. Any context.
    ///
    /// # Safety
    ///
    /// `mapping` was created by this object, and no operation with its address is outstanding.
    #[inline]
    pub(crate) unsafe fn unmap(&self, mapping: DmaMapping) {
        // SAFETY: By this function's contract.
        unsafe {
            bindings::ib_dma_unmap_page(
                self.device.raw(),
                mapping.addr,
                mapping.len.get(),
                mapping.direction.into(),
            )
        };
        self.active.add(-1, Relaxed);
    }
}

impl Drop for DmaMapper {
    fn drop(&mut self) {
        let live = self.active.load(Relaxed);
        if live != 0 {
            pr_err!(
                "{}: {live} DMA mappings were not undone\n",
                self.device.name()
            );
        }
        kernel::warn_on!(live != 0);
    }
}

/// A DMA mapping. [`DmaMapper::unmap`] takes it back.
#[must_use = "a mapping that is dropped is never undone"]
pub(crate) struct DmaMapping {
    addr: u64,
    len: NonZeroUsize,
    direction: DataDirection,
}

impl DmaMapping {
    /// Returns the DMA address.
    #[inline]
    pub(crate) fn addr(&self) -> u64 {
        self.addr
    }

    /// Returns the length in bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len.get()
    }
}

/// Kind of a range of kernel addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AddrKind {
    /// The linear map: the pages are contiguous in physical memory.
    Linear,
    /// The vmalloc or the modules' area: the pages may be scattered in physical memory.
    Paged,
}

/// Addresses that can be memory: without the first page, for NULL, and the last ones, for error
/// pointers.
pub(crate) const VALID_ADDRS: Range<usize> = PAGE_SIZE..usize::MAX - 2 * PAGE_SIZE;

/// Returns the kind of the `len` bytes from `addr` on.
///
/// The address alone is checked, not the ownership of the memory. Any context.
///
/// # Errors
///
/// `EINVAL` for zero bytes, a range that wraps around, the stack of the current task, and addresses
/// outside of the linear map and of the vmalloc and modules' areas.
#[inline(always)]
fn classify(addr: usize, len: usize) -> Result<AddrKind> {
    let last = last_addr(addr, len)?;
    let (first, last) = (addr as *const c_void, last as *const c_void);
    // SAFETY: The function does not access the addresses, and may be called in any context.
    match unsafe { bindings::kofi_memory_kind(first, last) } {
        1 => Ok(AddrKind::Linear),
        2 => Ok(AddrKind::Paged),
        _ => Err(EINVAL),
    }
}

/// Returns the address of the last of `len` bytes.
#[inline(always)]
fn last_addr(addr: usize, len: usize) -> Result<usize> {
    let more = len.checked_sub(1).ok_or(EINVAL)?;
    addr.checked_add(more).ok_or(EINVAL)
}

/// A physically contiguous range of memory.
///
/// # Invariants
///
/// `page` exists while the range is used.
#[derive(Clone, Copy)]
pub(crate) struct PhysRange {
    page: *mut page,
    offset: usize,
    len: NonZeroUsize,
}

impl PhysRange {
    /// Creates a range of `len` bytes at `offset` in `page`; a range that is longer than the page
    /// continues in the physically following pages.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a null page or zero bytes.
    ///
    /// # Safety
    ///
    /// `page` is null, or exists while the range is used.
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

    /// Returns the kernel address of the range; `EINVAL` if the page has none.
    pub(crate) fn kernel_addr(&self) -> Result<usize> {
        // SAFETY: The page exists; the lookup may be done in any context.
        let start = unsafe { bindings::kofi_page_address(self.page) } as usize;
        match start {
            0 => Err(EINVAL),
            start => start.checked_add(self.offset).ok_or(EINVAL),
        }
    }

    /// Returns the length in bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len.get()
    }

    /// Returns the page that the offset is counted from.
    #[cfg(CONFIG_KUNIT = "y")]
    pub(super) fn first_page(&self) -> *mut page {
        self.page
    }

    /// Appends `next`, if that continues the range in one array of all page descriptors, and the range then has at most
    /// `max_len` bytes. Returns whether it has been appended.
    #[inline(always)]
    pub(super) fn extend(&mut self, next: &Self, max_len: usize) -> bool {
        let end = self.offset.wrapping_add(self.len());
        let page_at = |start: *mut page, offset: usize| start.wrapping_add(offset / PAGE_SIZE);
        let continues = page_at(next.page, next.offset) == page_at(self.page, end)
            && next.offset % PAGE_SIZE == end % PAGE_SIZE;
        let len = self.len.saturating_add(next.len());
        let is_extended = continues && len.get() <= max_len;
        if is_extended {
            self.len = len;
        }
        is_extended
    }

    /// Returns the entry of a scatterlist for the range; `EINVAL` if an entry cannot have its length or offset.
    #[inline(always)]
    pub(super) fn to_entry(self) -> Result<scatterlist> {
        let mut entry: scatterlist = pin_init::zeroed();
        entry.page_link = self.page as usize;
        entry.offset = u32::try_from(self.offset).map_err(|_| EINVAL)?;
        entry.length = u32::try_from(self.len()).map_err(|_| EINVAL)?;
        Ok(entry)
    }

    /// Returns a number for the first byte: the numbers of two bytes differ by as much as their physical addresses, if
    /// the descriptors of all pages are in one array, and otherwise at least within a page.
    #[inline(always)]
    pub(super) fn position(&self) -> u64 {
        let index = self.page as usize / core::mem::size_of::<page>();
        (index as u64)
            .wrapping_mul(PAGE_SIZE as u64)
            .wrapping_add(self.offset as u64)
    }
}

/// Iterator over the physically contiguous ranges of a range of kernel addresses, in order: one
/// range for the linear map, otherwise one for each run of contiguous pages.
///
/// An item is an `Err`, and the last one, when a page does not exist.
pub(crate) struct PhysRanges {
    kind: AddrKind,
    addr: usize,
    remaining: usize,
}

impl PhysRanges {
    /// # Errors
    ///
    /// Errors of [`classify`].
    pub(crate) fn new(addr: usize, len: usize) -> Result<Self> {
        Ok(Self {
            kind: classify(addr, len)?,
            addr,
            remaining: len,
        })
    }

    /// Returns the page at `addr`, which lies in the range.
    fn page_at(&self, addr: usize) -> Result<*mut page> {
        let addr = addr as *const c_void;
        let page = match self.kind {
            // SAFETY: `classify` found both ends of the range in the linear map.
            AddrKind::Linear => unsafe { bindings::kofi_virt_to_page(addr) },
            // SAFETY: `classify` found both ends of the range in the vmalloc or modules' area,
            // whose page tables may be walked at any address.
            AddrKind::Paged => unsafe { kernel::bindings::vmalloc_to_page(addr) },
        };
        match page.is_null() {
            true => Err(EINVAL),
            false => Ok(page),
        }
    }

    fn next_range(&mut self) -> Result<PhysRange> {
        let offset = self.addr % PAGE_SIZE;
        let page = self.page_at(self.addr)?;
        let len = match self.kind {
            AddrKind::Linear => self.remaining,
            AddrKind::Paged => self.contiguous_len(page, bytes_in_page(offset, self.remaining))?,
        };
        let range = PhysRange {
            page,
            offset,
            len: NonZeroUsize::new(len).ok_or(EINVAL)?,
        };
        self.addr = self.addr.wrapping_add(len);
        self.remaining = self.remaining.saturating_sub(len);
        Ok(range)
    }

    /// Returns the number of physically contiguous bytes, of which the first `len` are in `page`.
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
        let range = self.next_range();
        if range.is_err() {
            self.remaining = 0;
        }
        Some(range)
    }
}

/// Checks that each address of a range has memory that a device can access.
///
/// # Errors
///
/// Errors of [`classify`], and `EINVAL` for a page that does not exist.
#[inline]
pub(crate) fn check_range(addr: usize, len: usize) -> Result {
    match classify(addr, len)? {
        AddrKind::Linear => Ok(()),
        AddrKind::Paged => PhysRanges::new(addr, len)?.try_for_each(|range| range.map(|_| ())),
    }
}

/// Returns how many of `left` bytes, the first at `offset` in its page, lie in that page.
fn bytes_in_page(offset: usize, left: usize) -> usize {
    left.min(PAGE_SIZE - offset)
}

#[kunit_tests(kofi_rdma_dma)]
mod tests {
    use super::*;

    fn range_totals(addr: usize, len: usize) -> Result<(usize, usize)> {
        let (mut ranges, mut bytes) = (0, 0);
        for range in PhysRanges::new(addr, len)? {
            ranges += 1;
            bytes += range?.len();
        }
        Ok((ranges, bytes))
    }

    #[test]
    fn range_arithmetic_rejects_empty_and_wrapping_ranges() {
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
    fn classify_rejects_stack_and_invalid_addresses() {
        let local = 0_u64;
        let on_stack = core::ptr::from_ref(&local) as usize;
        assert_eq!(classify(on_stack, 8).err(), Some(EINVAL));
        assert_eq!(classify(0, 8).err(), Some(EINVAL));
        assert_eq!(classify(usize::MAX, 2).err(), Some(EINVAL));
    }

    #[test]
    fn linear_memory_is_one_range() -> Result {
        let mut memory: KVec<u8> = KVec::with_capacity(3 * PAGE_SIZE, GFP_KERNEL)?;
        let addr = memory.as_mut_ptr() as usize;
        assert_eq!(classify(addr, 3 * PAGE_SIZE), Ok(AddrKind::Linear));
        assert_eq!(
            range_totals(addr + 1, 3 * PAGE_SIZE - 1)?,
            (1, 3 * PAGE_SIZE - 1)
        );
        Ok(())
    }

    #[test]
    fn vmalloc_memory_is_covered_by_page_ranges() -> Result {
        let mut memory: VVec<u8> = VVec::with_capacity(5 * PAGE_SIZE, GFP_KERNEL)?;
        let addr = memory.as_mut_ptr() as usize;
        assert_eq!(classify(addr, 5 * PAGE_SIZE), Ok(AddrKind::Paged));
        for (skip, len) in [
            (0, 5 * PAGE_SIZE),
            (7, 1),
            (PAGE_SIZE - 1, 2),
            (9, 3 * PAGE_SIZE),
        ] {
            let (ranges, bytes) = range_totals(addr + skip, len)?;
            assert_eq!(bytes, len);
            assert!(ranges >= 1 && ranges <= 1 + len.div_ceil(PAGE_SIZE));
        }
        Ok(())
    }

    #[test]
    fn module_memory_is_covered_by_ranges() -> Result {
        static DATA: [u8; 64] = [1; 64];
        assert_eq!(
            range_totals(DATA.as_ptr() as usize, DATA.len())?.1,
            DATA.len()
        );
        Ok(())
    }
}
