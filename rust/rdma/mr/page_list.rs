// SPDX-License-Identifier: GPL-2.0

//! Lists of DMA ranges for regions that are registered again and again. A list is allocated once and filled in
//! any context.
//!
//! Pages have 4 KiB, which each device supports. A range has to start at a page boundary, and the one before it
//! to end at one, or it continues the one before it: a gap would become part of the region.

use crate::rdma::{
    dma::{
        DataDirection,
        DmaMapper,
        DmaMapping,
        PhysRange, //
    },
    prelude::*, //
};
use kernel::bindings::scatterlist;

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
    /// Adds a range; `None`, without any effect, if it wraps around or leaves a gap.
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
    /// Direction of the mappings that this list has to undo; `None` for ranges that others have mapped.
    direction: Option<DataDirection>,
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
            direction: None,
        })
    }

    /// Returns the number of ranges.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
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
    pub(super) fn starts_like(&self, addr: u64) -> bool {
        page_offset(addr) == page_offset(self.first_addr())
    }

    /// Appends a DMA range that others keep mapped.
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
        // Not longer than the pages.
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

    /// Maps memory and appends it. Any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when the device or the IOMMU cannot map it, and the errors of [`Self::push`].
    ///
    /// # Safety
    ///
    /// The device may access the memory of `range` until [`Self::clear`] is called. Until then all ranges of the
    /// list are mapped by this function, with the same direction.
    pub(crate) unsafe fn map(
        &mut self,
        dma: &DmaMapper,
        range: PhysRange,
        direction: DataDirection,
    ) -> Result {
        // SAFETY: By this function's safety requirement.
        let mapping = unsafe { dma.map(range, direction) }?;
        match self.push(mapping.addr(), mapping.len()) {
            Ok(()) => {
                self.direction = Some(direction);
                Ok(())
            }
            Err(error) => {
                // SAFETY: It was mapped above, and no device knows of it.
                unsafe { dma.unmap(mapping) };
                Err(error)
            }
        }
    }

    /// Empties the list, and unmaps what [`Self::map`] has mapped, by the same `dma`. Any context.
    ///
    /// # Safety
    ///
    /// The device does not access the ranges any more.
    pub(crate) unsafe fn clear(&mut self, dma: &DmaMapper) {
        let direction = self.direction.take();
        while let Some(range) = self.ranges.pop() {
            let Some(direction) = direction else {
                continue;
            };
            if let Some(mapping) =
                DmaMapping::from_parts(range.dma_address, range.length as usize, direction)
            {
                // SAFETY: It has been mapped by `map`, and by this function's safety requirement.
                unsafe { dma.unmap(mapping) };
            }
        }
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

#[kunit_tests(kofi_rdma_page_list)]
mod tests {
    use super::*;

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
            assert_eq!((list.len(), list.pages(), list.total()), (2, 2, 0x810));
            assert!(list.starts_like(0x9800) && !list.starts_like(0x9000));
            list.ranges.truncate(0);
            (list.count, list.total) = (PageCount::default(), 0);
        }
        Ok(())
    }
}
