// SPDX-License-Identifier: GPL-2.0

//! Lists of DMA ranges for memory regions that are registered repeatedly. A list is allocated once and filled in any
//! context.
//!
//! A page has 4 KiB, which each device supports. Each range after the first continues the previous range, or starts at
//! a page boundary after a range that ends at one: a gap within a page would become part of the region.

use crate::rdma::{
    dma::{
        DataDirection,
        DmaMapper,
        PhysRange, //
    },
    prelude::*, //
};
use kernel::bindings::scatterlist;

/// True if the `struct page` of all pages are in one array, so that the distance of two of them is that of their pages.
const HAS_PAGE_ARRAY: bool = cfg!(any(CONFIG_SPARSEMEM_VMEMMAP, CONFIG_FLATMEM));

/// Maximum length of an entry that consists of several ranges, in bytes: the default of `dma_get_max_seg_size()`. A
/// bounce buffer (swiotlb) takes at most four times that.
const MAX_MERGED: usize = 64 << 10;

/// Size of a page in bytes.
pub(super) const PAGE_LEN: u32 = 4096;

/// Returns the offset of an address in its page.
fn page_offset(addr: u64) -> u64 {
    addr % u64::from(PAGE_LEN)
}

/// Returns the number of the page that contains an address.
fn page_number(addr: u64) -> u64 {
    addr / u64::from(PAGE_LEN)
}

/// Number of pages of ranges that follow each other in a region.
#[derive(Clone, Copy, Default)]
struct PageCount {
    pages: u32,
    /// Address after the last byte; meaningless without pages.
    end: u64,
}

impl PageCount {
    /// Adds a range. Returns `None`, and changes nothing, if the range is empty, wraps around or leaves a gap, or if
    /// the number of pages overflows.
    fn add(&mut self, addr: u64, len: u64) -> Option<()> {
        let last = addr.checked_add(len.checked_sub(1)?)?;
        let end = last.checked_add(1)?;
        let first_new = match self.pages {
            0 => page_number(addr),
            // The page of its first byte may be counted already.
            _ if self.end == addr => page_number(addr - 1) + 1,
            _ if page_offset(addr) == 0 && page_offset(self.end) == 0 => page_number(addr),
            _ => return None,
        };
        let more = u32::try_from((page_number(last) + 1).checked_sub(first_new)?).ok()?;
        self.pages = self.pages.checked_add(more)?;
        self.end = end;
        Some(())
    }
}

/// A list of DMA ranges, in memory that is allocated with it.
///
/// # Invariants
///
/// `ranges` has a capacity of `max_pages`, and at most as many entries.
pub(crate) struct PageList {
    ranges: KVVec<scatterlist>,
    max_pages: u32,
    count: PageCount,
    total: u64,
    /// Mapping of the ranges that this list has to undo; `None` for ranges that the caller has mapped.
    mapping: Option<Mapping>,
}

/// Mapping of a list.
#[derive(Clone, Copy)]
struct Mapping {
    direction: DataDirection,
    /// Number of DMA ranges, which are in the first entries of the list.
    count: u32,
}

impl PageList {
    /// Allocates a list for at most `max_pages` pages. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(max_pages: u32) -> Result<Self> {
        // INVARIANT: It is empty, and has the capacity.
        Ok(Self {
            ranges: KVVec::with_capacity(max_pages as usize, GFP_KERNEL)?,
            max_pages,
            count: PageCount::default(),
            total: 0,
            mapping: None,
        })
    }

    /// Returns the number of DMA ranges.
    pub(super) fn dma_ranges(&self) -> u32 {
        match self.mapping {
            Some(mapping) => mapping.count,
            // The cast is exact: there are at most `max_pages` ranges.
            None => self.ranges.len() as u32,
        }
    }

    /// Returns the number of pages.
    pub(crate) fn pages(&self) -> u32 {
        self.count.pages
    }

    /// Returns the number of bytes.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the DMA address of the first byte; 0 for an empty list.
    pub(crate) fn first_addr(&self) -> u64 {
        self.ranges.first().map_or(0, |range| range.dma_address)
    }

    /// Returns whether an address and the first byte have the same offset in their pages.
    pub(super) fn has_same_offset(&self, addr: u64) -> bool {
        page_offset(addr) == page_offset(self.first_addr())
    }

    /// Appends a mapped DMA range, which this list does not unmap.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a range that is empty, wraps around, leaves a gap or does not fit.
    pub(crate) fn push(&mut self, addr: u64, len: usize) -> Result {
        let mut count = self.count;
        count.add(addr, len as u64).ok_or(EINVAL)?;
        if count.pages > self.max_pages {
            return Err(EINVAL);
        }
        // The length in a scatterlist entry has 32 bits.
        let short = u32::try_from(len).map_err(|_| EINVAL)?;
        let mut entry = pin_init::zeroed();
        // SAFETY: `entry` is a local scatterlist entry.
        unsafe { bindings::kofi_sg_set_dma(&mut entry, addr, short) };
        self.ranges
            .push_within_capacity(entry)
            .map_err(|_| EINVAL)?;
        self.count = count;
        self.total += len as u64;
        Ok(())
    }

    /// Returns a builder that appends memory for [`Self::map`] to the empty list.
    #[inline(always)]
    pub(crate) fn builder(&mut self) -> PageListBuilder<'_> {
        PageListBuilder {
            list: self,
            last: None,
        }
    }

    /// Maps the memory that a builder has appended. Any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when the device or the IOMMU cannot map it.
    ///
    /// # Safety
    ///
    /// Each entry comes from [`Self::builder`]. The device may access its memory until [`Self::clear`] is called.
    pub(crate) unsafe fn map(&mut self, dma: &DmaMapper, direction: DataDirection) -> Result {
        let _ = self.as_terminated();
        // SAFETY: By this function's safety requirement.
        let count = unsafe { dma.map_list(&mut self.ranges, direction) }?;
        self.mapping = Some(Mapping { direction, count });
        Ok(())
    }

    /// Empties the list, and undoes [`Self::map`] with the same `dma`, if the list was mapped. Any context.
    ///
    /// # Safety
    ///
    /// The device does not access the ranges any more.
    pub(crate) unsafe fn clear(&mut self, dma: &DmaMapper) {
        if let Some(mapping) = self.mapping.take() {
            // SAFETY: It has been mapped by `map`, and by this function's safety requirement.
            unsafe { dma.unmap_list(&mut self.ranges, mapping.direction) };
        }
        self.ranges.truncate(0);
        self.count = PageCount::default();
        self.total = 0;
    }

    /// Returns the list as a terminated scatterlist.
    pub(super) fn as_terminated(&mut self) -> *mut scatterlist {
        if let Some(last) = self.ranges.last_mut() {
            // SAFETY: It is an entry of this list.
            unsafe { bindings::sg_mark_end(last) };
        }
        self.ranges.as_mut_ptr()
    }
}

/// Appends memory to a list.
pub(crate) struct PageListBuilder<'a> {
    list: &'a mut PageList,
    /// Last range, which is not in the list yet.
    last: Option<PhysRange>,
}

impl PageListBuilder<'_> {
    /// Appends memory. A range that continues the last one is merged with it, up to [`MAX_MERGED`] bytes, if
    /// [`HAS_PAGE_ARRAY`] is true. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the range before this one leaves a gap or does not fit.
    #[inline(always)]
    pub(crate) fn append(&mut self, range: PhysRange) -> Result {
        let last = self.last.as_mut().filter(|_| HAS_PAGE_ARRAY);
        if last.is_some_and(|last| last.extend(&range, MAX_MERGED)) {
            return Ok(());
        }
        self.flush()?;
        self.last = Some(range);
        Ok(())
    }

    /// Adds the last range to the list.
    #[inline(always)]
    fn flush(&mut self) -> Result {
        let Some(last) = self.last.take() else {
            return Ok(());
        };
        let (list, len) = (&mut *self.list, last.len() as u64);
        list.count.add(last.position(), len).ok_or(EINVAL)?;
        if list.count.pages > list.max_pages {
            return Err(EINVAL);
        }
        list.total += len;
        let refused = list.ranges.push_within_capacity(last.to_entry()?);
        refused.map_err(|_| EINVAL)
    }

    /// Completes the list.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the last range leaves a gap or does not fit.
    pub(crate) fn finish(mut self) -> Result {
        self.flush()
    }
}

#[kunit_tests(kofi_rdma_page_list)]
mod tests {
    use super::*;
    use crate::rdma::dma::PhysRanges;

    /// Returns the number of pages of these ranges; `None` if one leaves a gap.
    fn pages_of(ranges: &[(u64, u64)]) -> Option<u32> {
        let mut count = PageCount::default();
        for (addr, len) in ranges {
            count.add(*addr, *len)?;
        }
        Some(count.pages)
    }

    #[test]
    fn mr_03_pages_are_counted_once() {
        assert_eq!(pages_of(&[]), Some(0));
        assert_eq!(pages_of(&[(0x1fff, 1)]), Some(1));
        assert_eq!(pages_of(&[(0x1fff, 2)]), Some(2));
        assert_eq!(pages_of(&[(0x1000, 512), (0x1200, 512)]), Some(1));
        assert_eq!(pages_of(&[(0x1000, 0x1000), (0x2000, 1)]), Some(2));
        assert_eq!(
            pages_of(&[(0x1800, 0x800), (0x8000, 0x1000), (0x3000, 7)]),
            Some(3)
        );
    }

    #[test]
    fn mr_03_gaps_and_wrapping_ranges_are_refused() {
        assert_eq!(pages_of(&[(0x1000, 0)]), None);
        assert_eq!(pages_of(&[(u64::MAX, 1)]), None);
        assert_eq!(pages_of(&[(u64::MAX, 2)]), None);
        assert_eq!(pages_of(&[(0x1000, 8), (0x1010, 8)]), None);
        assert_eq!(pages_of(&[(0x1000, 0x1000), (0x3001, 8)]), None);
        assert_eq!(pages_of(&[(0x1000, 0xfff), (0x3000, 8)]), None);
    }

    #[test]
    fn mr_03_full_list_refuses_ranges_and_can_be_reused() -> Result {
        let mut list = PageList::new(2)?;
        for _ in 0..2 {
            assert!(list.push(0x1000, 0x2001).is_err());
            list.push(0x1800, 0x800)?;
            list.push(0x4000, 0x10)?;
            assert!(list.push(0x4010, 0).is_err());
            assert!(list.push(0x4010, 0x10).is_err());
            assert_eq!(
                (list.dma_ranges(), list.pages(), list.total()),
                (2, 2, 0x810)
            );
            assert!(list.has_same_offset(0x9800) && !list.has_same_offset(0x9000));
            list.ranges.truncate(0);
            (list.count, list.total) = (PageCount::default(), 0);
        }
        Ok(())
    }

    #[test]
    fn mr_03_contiguous_memory_is_merged() -> Result {
        let mut memory: KVec<u8> = KVec::with_capacity(4 * PAGE_LEN as usize, GFP_KERNEL)?;
        let start = memory.as_mut_ptr() as usize;
        let mut list = PageList::new(4)?;
        let mut builder = list.builder();
        // Two halves of a page, the next page, and a page after a gap of one page.
        for (from, len) in [(0, 2048), (2048, 2048), (4096, 4096), (3 * 4096, 4096)] {
            for range in PhysRanges::new(start + from, len)? {
                builder.append(range?)?;
            }
        }
        builder.finish()?;
        assert_eq!((list.pages(), list.total()), (3, 3 * 4096));
        let lengths = list.ranges.iter().map(|range| range.length);
        assert!(!HAS_PAGE_ARRAY || lengths.eq([2 * 4096, 4096]));
        // A range that neither starts at a page boundary nor continues the last one leaves a gap.
        let mut builder = list.builder();
        for range in PhysRanges::new(start + 8, 8)? {
            builder.append(range?)?;
        }
        assert!(builder.finish().is_err());
        Ok(())
    }

    #[test]
    fn mr_03_offsets_beyond_the_first_page_continue_a_range() -> Result {
        let mut memory: KVec<u8> = KVec::with_capacity(4 * PAGE_LEN as usize, GFP_KERNEL)?;
        let start = memory.as_mut_ptr() as usize;
        let ranges = PhysRanges::new(start, PAGE_LEN as usize)?;
        let first = ranges
            .map(|range| range.map(|range| range.first_page()))
            .next();
        let first = first.ok_or(EINVAL)??;
        let mut list = PageList::new(4)?;
        let mut builder = list.builder();
        for (offset, len) in [(4096, 512), (4608, 3584), (8192, 4096)] {
            // SAFETY: The page exists as long as `memory`.
            builder.append(unsafe { PhysRange::new(first, offset, len) }?)?;
        }
        builder.finish()?;
        assert_eq!((list.pages(), list.total()), (2, 2 * 4096));
        assert!(!HAS_PAGE_ARRAY || list.ranges.len() == 1);
        Ok(())
    }

    #[test]
    fn mr_03_merged_entries_have_a_maximum_length() -> Result {
        let mut memory: KVec<u8> = KVec::with_capacity(2 * MAX_MERGED, GFP_KERNEL)?;
        let start = memory.as_mut_ptr() as usize;
        let mut list = PageList::new(32)?;
        let mut builder = list.builder();
        for page in 0..32 {
            for range in PhysRanges::new(start + page * PAGE_LEN as usize, PAGE_LEN as usize)? {
                builder.append(range?)?;
            }
        }
        builder.finish()?;
        assert_eq!((list.pages(), list.total()), (32, 2 * MAX_MERGED as u64));
        let is_short = |range: &scatterlist| range.length as usize <= MAX_MERGED;
        assert!(list.ranges.iter().all(is_short));
        Ok(())
    }

    #[test]
    fn mr_03_builder_refuses_more_pages_than_the_list_has() -> Result {
        let mut memory: KVec<u8> = KVec::with_capacity(4 * PAGE_LEN as usize, GFP_KERNEL)?;
        let start = memory.as_mut_ptr() as usize;
        let mut list = PageList::new(2)?;
        let mut builder = list.builder();
        for range in PhysRanges::new(start, 3 * 4096)? {
            builder.append(range?)?;
        }
        assert!(builder.finish().is_err());
        Ok(())
    }
}
