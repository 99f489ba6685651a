// SPDX-License-Identifier: GPL-2.0

//! What a transfer's memory consists of, one part after another, in whatever form it came.

use super::{
    Memory,
    PageRange, //
};
use crate::abi::{
    cold::aside,
    page,
    Errno,
    Result, //
};

/// Where a part of a transfer's memory begins.
#[derive(Clone, Copy)]
pub enum Start {
    /// At a kernel address, as a number.
    Address(usize),
    /// That many bytes behind the beginning of a page.
    Page(*mut page, usize),
}

/// One entry of a vector, whatever its form.
///
/// # Invariants
///
/// As of [`Segment`](super::Segment): a page that it begins in exists.
#[derive(Clone, Copy)]
pub struct VectorEntry {
    pub(super) start: Start,
    pub(super) len: usize,
}

impl VectorEntry {
    /// Where it begins; means nothing if there are no bytes.
    #[inline]
    pub fn start(&self) -> Start {
        self.start
    }

    /// How many bytes it has.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Memory<'_> {
    /// How many entries the vector has.
    #[inline]
    pub fn count(&self) -> usize {
        match self {
            Self::Segments(segments) => segments.len(),
            Self::Extents(extents) => extents.len(),
            Self::List(list) => list.left,
        }
    }

    /// How many bytes there are in all; -FI_EMSGSIZE when they cannot be counted.
    #[inline]
    pub fn total(&self) -> Result<usize> {
        let mut total = 0usize;
        self.each(|part| {
            total = total.checked_add(part.len).ok_or(Errno::EMSGSIZE)?;
            Ok(())
        })?;
        Ok(total)
    }

    /// Hands the parts to `f`, in order, until it answers an error.
    #[inline]
    pub fn each(&self, mut f: impl FnMut(VectorEntry) -> Result) -> Result {
        let memory = *self;
        let Self::Segments(segments) = memory else {
            return aside(move || memory.each_in_pages(&mut f));
        };
        for segment in segments {
            f(VectorEntry {
                start: Start::Address(segment.addr()),
                len: segment.len(),
            })?;
        }
        Ok(())
    }

    /// [`Self::each`], where the parts begin in pages: apart, so that addresses take the short way.
    #[inline(never)]
    fn each_in_pages(&self, f: &mut dyn FnMut(VectorEntry) -> Result) -> Result {
        match *self {
            Self::Segments(_) => Ok(()),
            Self::Extents(extents) => {
                for PageRange(extent) in extents {
                    f(VectorEntry {
                        start: Start::Page(extent.bv_page, extent.bv_offset as usize),
                        len: extent.bv_len as usize,
                    })?;
                }
                Ok(())
            }
            Self::List(mut list) => {
                while let Some(part) = list.take() {
                    f(part)?;
                }
                Ok(())
            }
        }
    }
}
