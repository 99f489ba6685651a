// SPDX-License-Identifier: GPL-2.0

//! Computation of the page list of a memory region, independent of a device.
//!
//! A region is a list of pages of one size; it starts at an offset in the first page and ends in
//! the last. A gap between two segments would be part of the region, so that segments meet at page
//! boundaries or are merged into one.

use kernel::prelude::*;

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
    const MANY: PageListLimits = PageListLimits {
        page_size_cap: 0xffff_f000,
        max_pages: 512,
    };

    /// Limits of siw.
    const SMALL: PageListLimits = PageListLimits {
        page_size_cap: 0x1000,
        max_pages: 256,
    };

    const fn run(addr: u64, len: u64) -> DmaSegment {
        DmaSegment { addr, len }
    }

    fn layout(page_size: u64, pages: u32) -> Option<PageLayout> {
        Some(PageLayout {
            page_size: page_size as u32,
            pages,
            is_truncated: false,
        })
    }

    fn short(page_size: u64, pages: u32) -> Option<PageLayout> {
        layout(page_size, pages).map(|layout| PageLayout {
            is_truncated: true,
            ..layout
        })
    }

    fn of(runs: &[DmaSegment], limits: PageListLimits) -> Option<PageLayout> {
        PageLayout::new(runs, runs.first().map_or(0, |run| run.addr), limits)
    }

    #[test]
    fn small_pages_while_they_suffice() {
        assert_eq!(of(&[run(64 * M + 1, 1)], MANY), layout(4 * K, 1));
        assert_eq!(of(&[run(64 * M + 4095, 2)], MANY), layout(4 * K, 2));
        assert_eq!(of(&[run(64 * M, 2 * M)], MANY), layout(4 * K, 512));
    }

    #[test]
    fn larger_pages_when_there_are_too_many() {
        assert_eq!(of(&[run(64 * M + 1, 2 * M)], MANY), layout(8 * K, 257));
        assert_eq!(of(&[run(64 * M, 16 * M)], MANY), layout(32 * K, 512));
        assert_eq!(of(&[run(1 << 40, 1 << 30)], MANY), layout(2 * M, 512));
    }

    #[test]
    fn no_more_than_any_driver_can_list() {
        assert_eq!(of(&[run(1 << 40, (1 << 30) + 1)], MANY), None);
        assert_eq!(of(&[run(1 << 40, 1 << 31)], SMALL), None);
        assert_eq!(of(&[run(u64::MAX, 1)], MANY), None);
        assert_eq!(of(&[run(64 * M, 0)], MANY), None);
        assert_eq!(of(&[], MANY), None);
    }

    #[test]
    fn a_driver_that_counts_pieces_is_asked() {
        assert_eq!(of(&[run(64 * M, 16 * M)], SMALL), short(4 * K, 256));
        assert_eq!(of(&[run(64 * M, 5 * K)], SMALL), layout(4 * K, 2));
    }

    #[test]
    fn pieces_meet_at_the_edges_of_pages() {
        let apart = [run(M + 100, 4 * K - 100), run(8 * M, 4 * K), run(4 * M, 7)];
        assert_eq!(of(&apart, MANY), layout(4 * K, 3));
        assert_eq!(of(&[run(M, 4 * K - 1), run(4 * M, 7)], MANY), None);
        assert_eq!(of(&[run(M, 4 * K), run(4 * M + 1, 7)], MANY), None);
    }

    #[test]
    fn no_more_pieces_than_pages() {
        let runs = [run(M, 4 * K), run(4 * M, 4 * K), run(8 * M, 4 * K)];
        let two = PageListLimits {
            max_pages: 2,
            ..MANY
        };
        assert_eq!(of(&runs[..2], two), layout(4 * K, 2));
        assert_eq!(of(&runs, two), None);
    }

    #[test]
    fn both_sides_have_the_same_place_in_a_page() {
        let memory = [run(64 * M + 5, 8 * M)];
        assert_eq!(PageLayout::new(&memory, 5, MANY), layout(32 * K, 257));
        assert_eq!(PageLayout::new(&memory, 4 * K + 5, MANY), short(4 * K, 512));
        assert_eq!(PageLayout::new(&memory, 0, MANY), None);
        assert_eq!(
            PageLayout::new(&[run(4 * K, 10)], 0, MANY),
            layout(4 * K, 1)
        );
    }

    #[test]
    fn no_page_reaches_between_the_runs() {
        // For any page size, the pages cover the runs and, at both ends, less than one page beyond
        // them.
        for shift in 12..20 {
            for len in [1, 4 * K - 1, 4 * K, 12 * K, 64 * K, M] {
                let runs = [run(M << 4, 1 << shift), run(M << 8, len)];
                let Some(layout) = of(&runs, MANY) else {
                    continue;
                };
                let size = u64::from(layout.page_size);
                assert!(!layout.is_truncated);
                assert!(u64::from(layout.pages) * size < (1 << shift) + len + size);
            }
        }
    }

    #[test]
    fn runs_that_follow_are_one() {
        let mut one = run(M, 10);
        assert!(!one.try_merge(&run(M + 11, 1)));
        assert!(one.try_merge(&run(M + 10, 5)));
        assert_eq!(one, run(M, 15));
        let mut last = run(u64::MAX, 1);
        assert!(!last.try_merge(&run(0, 1)));
    }
}
