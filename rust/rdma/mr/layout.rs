// SPDX-License-Identifier: GPL-2.0

//! Computation of the page list of a memory region, independent of a device.
//!
//! A region is a list of pages of one size; it starts at an offset in the first page and ends in
//! the last. A gap between two segments would be part of the region, so that segments meet at page
//! boundaries or are merged into one.

use crate::rdma::prelude::*;

/// Smallest page size that is used, as a power of two.
const MIN_PAGE_SHIFT: u32 = 12;

/// Largest page size, as a power of two: sizes are 32 bits.
const MAX_PAGE_SHIFT: u32 = 31;

/// Limit of the bytes of all pages of a region. rxe keeps an array of the CPU's pages, 16 bytes per
/// 4 KiB, in one allocation, and the kernel has none over 4 MiB.
const MAX_REGION_BYTES: u64 = 1 << 30;

/// A range of DMA addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DmaSegment {
    pub(crate) addr: u64,
    pub(crate) len: u64,
}

impl DmaSegment {
    fn end(&self) -> Option<u64> {
        self.addr.checked_add(self.len)
    }

    /// Appends `next` if it starts where this segment ends, and returns whether it did.
    pub(crate) fn try_merge(&mut self, next: &DmaSegment) -> bool {
        let follows = self.end() == Some(next.addr);
        if follows {
            self.len += next.len;
        }
        follows
    }
}

/// Limits of a device's page lists.
#[derive(Clone, Copy)]
pub(super) struct PageListLimits {
    /// Bit mask of the supported page sizes.
    pub(super) page_size_cap: u64,
    /// Limit of the pages in a list.
    pub(super) max_pages: u32,
}

/// Page size and page count for some memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PageLayout {
    pub(super) page_size: u32,
    /// Length of the page list.
    pub(super) pages: u32,
    /// Set when the memory has more pages than `pages`.
    pub(super) is_truncated: bool,
}

impl PageLayout {
    /// Returns the layout with the smallest pages that holds all segments, accessed from the
    /// address `iova`; `None` if there is no such layout.
    ///
    /// If even the largest usable pages are too many, the page list has its maximum length: siw,
    /// which supports only small pages, counts segments instead of pages.
    pub(super) fn new(segments: &[DmaSegment], iova: u64, limits: PageListLimits) -> Option<Self> {
        if u32::try_from(segments.len()).ok()? > limits.max_pages {
            return None;
        }
        let mut best = None;
        for shift in MIN_PAGE_SHIFT..=MAX_PAGE_SHIFT {
            if limits.page_size_cap & (1 << shift) == 0 {
                continue;
            }
            if !fits_page_size(segments, iova, shift) {
                break;
            }
            let pages = count_pages(segments, shift)?;
            if pages > MAX_REGION_BYTES >> shift {
                break;
            }
            let short = pages > u64::from(limits.max_pages);
            best = Some(Self {
                page_size: 1 << shift,
                pages: u32::try_from(pages).ok()?.min(limits.max_pages),
                is_truncated: short,
            });
            if !short {
                break;
            }
        }
        best
    }
}

/// Returns whether segments meet at page boundaries, and `iova` and the first segment have the same
/// offset in their pages.
fn fits_page_size(segments: &[DmaSegment], iova: u64, shift: u32) -> bool {
    let inner = |addr: u64| addr & ((1 << shift) - 1);
    let Some(first) = segments.first() else {
        return false;
    };
    inner(first.addr) == inner(iova)
        && segments.iter().skip(1).all(|run| inner(run.addr) == 0)
        && segments
            .iter()
            .rev()
            .skip(1)
            .all(|run| run.end().is_some_and(|end| inner(end) == 0))
}

/// Returns the number of pages that the segments cover; `None` when a segment exceeds the address
/// space.
fn count_pages(segments: &[DmaSegment], shift: u32) -> Option<u64> {
    segments.iter().try_fold(0_u64, |pages, run| {
        let last = run.end()?.checked_sub(1)?;
        let further = (last >> shift).checked_sub(run.addr >> shift)?;
        pages.checked_add(further + 1)
    })
}

#[kunit_tests(kofi_rdma_mr_layout)]
mod tests {
    use super::*;

    const K: u64 = 1024;
    const M: u64 = 1024 * K;

    /// Limits of rxe.
    const RXE: PageListLimits = PageListLimits {
        page_size_cap: 0xffff_f000,
        max_pages: 512,
    };

    /// Limits of siw.
    const SIW: PageListLimits = PageListLimits {
        page_size_cap: 0x1000,
        max_pages: 256,
    };

    const fn segment(addr: u64, len: u64) -> DmaSegment {
        DmaSegment { addr, len }
    }

    fn layout(page_size: u64, pages: u32) -> Option<PageLayout> {
        Some(PageLayout {
            page_size: page_size as u32,
            pages,
            is_truncated: false,
        })
    }

    fn truncated(page_size: u64, pages: u32) -> Option<PageLayout> {
        layout(page_size, pages).map(|layout| PageLayout {
            is_truncated: true,
            ..layout
        })
    }

    fn layout_of(segments: &[DmaSegment], limits: PageListLimits) -> Option<PageLayout> {
        PageLayout::new(
            segments,
            segments.first().map_or(0, |segment| segment.addr),
            limits,
        )
    }

    #[test]
    fn smallest_page_size_is_used_while_it_suffices() {
        assert_eq!(layout_of(&[segment(64 * M + 1, 1)], RXE), layout(4 * K, 1));
        assert_eq!(
            layout_of(&[segment(64 * M + 4095, 2)], RXE),
            layout(4 * K, 2)
        );
        assert_eq!(
            layout_of(&[segment(64 * M, 2 * M)], RXE),
            layout(4 * K, 512)
        );
    }

    #[test]
    fn page_size_grows_with_the_page_count() {
        assert_eq!(
            layout_of(&[segment(64 * M + 1, 2 * M)], RXE),
            layout(8 * K, 257)
        );
        assert_eq!(
            layout_of(&[segment(64 * M, 16 * M)], RXE),
            layout(32 * K, 512)
        );
        assert_eq!(
            layout_of(&[segment(1 << 40, 1 << 30)], RXE),
            layout(2 * M, 512)
        );
    }

    #[test]
    fn oversized_and_empty_ranges_have_no_layout() {
        assert_eq!(layout_of(&[segment(1 << 40, (1 << 30) + 1)], RXE), None);
        assert_eq!(layout_of(&[segment(1 << 40, 1 << 31)], SIW), None);
        assert_eq!(layout_of(&[segment(u64::MAX, 1)], RXE), None);
        assert_eq!(layout_of(&[segment(64 * M, 0)], RXE), None);
        assert_eq!(layout_of(&[], RXE), None);
    }

    #[test]
    fn layout_is_truncated_at_max_pages() {
        assert_eq!(
            layout_of(&[segment(64 * M, 16 * M)], SIW),
            truncated(4 * K, 256)
        );
        assert_eq!(layout_of(&[segment(64 * M, 5 * K)], SIW), layout(4 * K, 2));
    }

    #[test]
    fn inner_segment_edges_must_be_page_aligned() {
        let apart = [
            segment(M + 100, 4 * K - 100),
            segment(8 * M, 4 * K),
            segment(4 * M, 7),
        ];
        assert_eq!(layout_of(&apart, RXE), layout(4 * K, 3));
        assert_eq!(
            layout_of(&[segment(M, 4 * K - 1), segment(4 * M, 7)], RXE),
            None
        );
        assert_eq!(
            layout_of(&[segment(M, 4 * K), segment(4 * M + 1, 7)], RXE),
            None
        );
    }

    #[test]
    fn segment_count_is_limited_by_max_pages() {
        let segments = [
            segment(M, 4 * K),
            segment(4 * M, 4 * K),
            segment(8 * M, 4 * K),
        ];
        let two_pages = PageListLimits {
            max_pages: 2,
            ..RXE
        };
        assert_eq!(layout_of(&segments[..2], two_pages), layout(4 * K, 2));
        assert_eq!(layout_of(&segments, two_pages), None);
    }

    #[test]
    fn iova_and_dma_address_share_the_page_offset() {
        let memory = [segment(64 * M + 5, 8 * M)];
        assert_eq!(PageLayout::new(&memory, 5, RXE), layout(32 * K, 257));
        assert_eq!(
            PageLayout::new(&memory, 4 * K + 5, RXE),
            truncated(4 * K, 512)
        );
        assert_eq!(PageLayout::new(&memory, 0, RXE), None);
        assert_eq!(
            PageLayout::new(&[segment(4 * K, 10)], 0, RXE),
            layout(4 * K, 1)
        );
    }

    #[test]
    fn pages_do_not_cover_gaps_between_segments() {
        // For any page size, the pages cover the segments and, at both ends, less than one page beyond
        // them.
        for shift in 12..20 {
            for len in [1, 4 * K - 1, 4 * K, 12 * K, 64 * K, M] {
                let segments = [segment(M << 4, 1 << shift), segment(M << 8, len)];
                let Some(layout) = layout_of(&segments, RXE) else {
                    continue;
                };
                let size = u64::from(layout.page_size);
                assert!(!layout.is_truncated);
                assert!(u64::from(layout.pages) * size < (1 << shift) + len + size);
            }
        }
    }

    #[test]
    fn adjacent_segments_are_merged() {
        let mut first = segment(M, 10);
        assert!(!first.try_merge(&segment(M + 11, 1)));
        assert!(first.try_merge(&segment(M + 10, 5)));
        assert_eq!(first, segment(M, 15));
        let mut last = segment(u64::MAX, 1);
        assert!(!last.try_merge(&segment(0, 1)));
    }
}
