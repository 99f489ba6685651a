// SPDX-License-Identifier: GPL-2.0

//! Vector in pages, which grows under a spinlock without moving an element.
//!
//! Memory is allocated before the lock is taken, as [`Growth`], and moved in under it. What the vector replaces goes
//! back to the caller, who frees it without the lock. There is no lock here.

use crate::prelude::*;
use pin_init::init_array_from_fn;

/// Number of elements of a page; a power of two.
pub(crate) const PAGE_LEN: usize = 64;

type Page<T> = KBox<[T; PAGE_LEN]>;

/// Vector of pages of [`PAGE_LEN`] elements.
pub(crate) struct PagedVec<T> {
    pages: KVVec<Page<T>>,
}

/// Memory of one more page, and of a larger directory if the vector needs one.
pub(crate) struct Growth<T> {
    page: Option<Page<T>>,
    directory: KVVec<Page<T>>,
}

/// Size of a vector for which memory is allocated.
#[derive(Clone, Copy)]
pub(crate) struct GrowthSize {
    pages: usize,
    is_full: bool,
}

impl<T: Default> Growth<T> {
    /// Allocates the memory for a vector of that size. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn new(size: GrowthSize) -> Result<Self> {
        let page = KBox::init(init_array_from_fn(|_| T::default()), GFP_KERNEL)?;
        // A full directory doubles.
        let directory = match size.is_full {
            true => KVVec::with_capacity(2 * size.pages.max(1), GFP_KERNEL)?,
            false => KVVec::new(),
        };
        Ok(Self {
            page: Some(page),
            directory,
        })
    }
}

impl<T> PagedVec<T> {
    /// Creates an empty vector.
    pub(crate) const fn new() -> Self {
        Self {
            pages: KVVec::new(),
        }
    }

    /// Returns the number of elements.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.pages.len() * PAGE_LEN
    }

    /// Returns the size that [`Growth::new`] takes.
    pub(crate) fn growth_size(&self) -> GrowthSize {
        GrowthSize {
            pages: self.pages.len(),
            is_full: self.pages.len() == self.pages.capacity(),
        }
    }

    /// Returns an element.
    #[inline(always)]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.pages.get(index / PAGE_LEN)?.get(index % PAGE_LEN)
    }

    /// Returns an element, mutable.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        let page = self.pages.get_mut(index / PAGE_LEN)?;
        page.get_mut(index % PAGE_LEN)
    }

    /// Iterates over the elements in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.pages.iter().flat_map(|page| page.iter())
    }

    /// Iterates over the elements in order, mutable.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.pages.iter_mut().flat_map(|page| page.iter_mut())
    }

    /// Adds the page of `growth`, whose other memory is left for the caller to free. Returns false, and changes
    /// nothing, if it has no page, or no directory where one is needed. Any context.
    pub(crate) fn grow(&mut self, growth: &mut Growth<T>) -> bool {
        if self.pages.len() == self.pages.capacity() {
            if growth.directory.capacity() <= self.pages.len() {
                return false;
            }
            for page in self.pages.drain_all() {
                let _ = growth.directory.push_within_capacity(page);
            }
            mem::swap(&mut self.pages, &mut growth.directory);
        }
        match growth.page.take() {
            Some(page) => self.pages.push_within_capacity(page).is_ok(),
            None => false,
        }
    }
}

impl<T: Default> PagedVec<T> {
    /// Creates a vector of at least `len` elements. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn with_len(len: usize) -> Result<Self> {
        let mut vec = Self::new();
        while vec.len() < len {
            vec.grow(&mut Growth::new(vec.growth_size())?);
        }
        Ok(vec)
    }
}

#[kunit_tests(kofi_paged_vec)]
mod tests {
    use super::*;

    #[test]
    fn elements_stay_in_place_while_the_vector_grows() -> Result {
        let mut vec = PagedVec::<usize>::new();
        let mut first = ptr::null();
        for pages in 0..20 {
            assert_eq!(vec.len(), pages * PAGE_LEN);
            assert!(vec.get(vec.len()).is_none());
            let mut growth = Growth::new(vec.growth_size())?;
            assert!(vec.grow(&mut growth));
            // One page for each allocation.
            assert!(!vec.grow(&mut growth));
            for index in pages * PAGE_LEN..vec.len() {
                if let Some(element) = vec.get_mut(index) {
                    assert_eq!(mem::replace(element, index + 1), 0);
                }
            }
            let element = vec
                .get(0)
                .map_or(ptr::null(), |element| &raw const *element);
            assert!(pages == 0 || element == first);
            first = element;
        }
        assert!(vec.iter().copied().eq(1..=20 * PAGE_LEN));
        vec.iter_mut().for_each(|element| *element = 0);
        assert!(vec.iter().all(|&element| element == 0));
        Ok(())
    }

    #[test]
    fn memory_without_a_directory_is_refused_by_a_full_vector() -> Result {
        let mut vec = PagedVec::<u8>::with_len(PAGE_LEN)?;
        while !vec.growth_size().is_full {
            assert!(vec.grow(&mut Growth::new(vec.growth_size())?));
        }
        let size = GrowthSize {
            is_full: false,
            ..vec.growth_size()
        };
        let (len, mut growth) = (vec.len(), Growth::new(size)?);
        assert!(!vec.grow(&mut growth));
        assert_eq!(vec.len(), len);
        assert!(vec.grow(&mut Growth::new(vec.growth_size())?));
        assert!(vec.grow(&mut growth));
        Ok(())
    }
}
