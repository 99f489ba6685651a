// SPDX-License-Identifier: GPL-2.0

//! Iteration over the memory of a transfer, entry by entry, for every form of vector.

use super::PageRange;
use crate::{
    abi::page,
    fi::prelude::*,
    util::cold::call_cold, //
};

/// The start of a vector entry.
#[derive(Clone, Copy)]
pub enum Start {
    /// A kernel address, as a number.
    Address(usize),
    /// An offset in bytes from the start of a page.
    Page(*mut page, usize),
}

/// An entry of a vector of any form.
///
/// # Invariants
///
/// As [`Segment`](super::Segment): a page that the entry starts in exists.
#[derive(Clone, Copy)]
pub struct VectorEntry {
    pub(super) start: Start,
    pub(super) len: usize,
}

impl VectorEntry {
    /// Returns the start; meaningless if the entry is empty.
    #[inline]
    pub fn start(&self) -> Start {
        self.start
    }

    /// Returns the length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the length is 0.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the subrange of at most `len` bytes from `from` on.
    pub(crate) fn part(&self, from: usize, len: usize) -> Self {
        let from = from.min(self.len);
        // INVARIANT: A subrange is valid as long as the whole range; its page is the same.
        Self {
            start: match self.start {
                Start::Address(addr) => Start::Address(addr.wrapping_add(from)),
                Start::Page(page, offset) => Start::Page(page, offset + from),
            },
            len: len.min(self.len - from),
        }
    }
}

/// Visitor of the entries of a vector, for [`Memory::visit`]. Unlike a closure, its functions can be
/// `#[inline(always)]`, so that they are compiled into the loops.
pub(crate) trait EntryVisitor {
    /// Takes an entry of `len` bytes at a kernel address.
    fn visit_address(&mut self, addr: usize, len: usize) -> Result;

    /// Takes an entry that starts in a page.
    fn visit_page(&mut self, entry: VectorEntry) -> Result;
}

impl PageRange {
    #[inline(always)]
    fn to_entry(&self) -> VectorEntry {
        // INVARIANT: By the type invariant.
        VectorEntry {
            start: Start::Page(self.0.bv_page, self.0.bv_offset as usize),
            len: self.0.bv_len as usize,
        }
    }
}

impl Memory<'_> {
    /// Returns the number of entries.
    #[inline]
    pub fn count(&self) -> usize {
        match self {
            Self::Segments(segments) => segments.len(),
            Self::PageRanges(extents) => extents.len(),
            Self::ScatterList(list) => list.remaining,
        }
    }

    /// Returns the total length in bytes; -FI_EMSGSIZE on overflow.
    #[inline]
    pub fn total_len(&self) -> Result<usize> {
        let mut total = 0usize;
        self.for_each(|part| {
            total = total.checked_add(part.len).ok_or(Errno::EMSGSIZE)?;
            Ok(())
        })?;
        Ok(total)
    }

    /// Calls `f` for each entry in order, until it returns an error.
    #[inline]
    pub fn for_each(&self, mut f: impl FnMut(VectorEntry) -> Result) -> Result {
        let memory = *self;
        let Self::Segments(segments) = memory else {
            return call_cold(move || memory.for_each_in_pages(&mut f));
        };
        for segment in segments {
            f(VectorEntry {
                start: Start::Address(segment.addr()),
                len: segment.len(),
            })?;
        }
        Ok(())
    }

    /// Passes each entry to `visitor` in order, in a loop of its own for each form of vector: for vectors of many pages.
    #[inline(always)]
    pub(crate) fn visit(&self, visitor: &mut impl EntryVisitor) -> Result {
        match *self {
            Self::Segments(segments) => {
                for segment in segments {
                    visitor.visit_address(segment.addr(), segment.len())?;
                }
            }
            Self::PageRanges(ranges) => {
                for range in ranges {
                    visitor.visit_page(range.to_entry())?;
                }
            }
            Self::ScatterList(mut list) => {
                while let Some(entry) = list.next_entry() {
                    visitor.visit_page(entry)?;
                }
            }
        }
        Ok(())
    }

    /// Implements [`Self::for_each`] for pages, out of line to keep the path for addresses short.
    #[inline(never)]
    fn for_each_in_pages(&self, f: &mut dyn FnMut(VectorEntry) -> Result) -> Result {
        let mut rest = *self;
        while let Some(part) = rest.take_first() {
            f(part)?;
        }
        Ok(())
    }

    /// Removes the first entry, and returns it.
    pub(crate) fn take_first(&mut self) -> Option<VectorEntry> {
        match self {
            Self::Segments(rest) => {
                let (segment, behind) = rest.split_first()?;
                *rest = behind;
                Some(VectorEntry {
                    start: Start::Address(segment.addr()),
                    len: segment.len(),
                })
            }
            Self::PageRanges(rest) => {
                let (range, behind) = rest.split_first()?;
                *rest = behind;
                Some(range.to_entry())
            }
            Self::ScatterList(list) => list.next_entry(),
        }
    }
}
