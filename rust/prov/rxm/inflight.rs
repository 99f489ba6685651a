// SPDX-License-Identifier: GPL-2.0

//! Operations in flight on lower endpoints, by the number that their completions return. The table grows with the
//! numbers that are in use.
//!
//! A posted object is owned by this table until its completion has arrived or its endpoint has been closed, so its
//! memory exists as long as a device may access it.

use crate::{
    fi::prelude::*,
    util::paged_vec::{
        Growth,
        GrowthSize,
        PagedVec, //
    },
};

/// Objects with a number that no other object of the table has.
pub(super) trait Indexed {
    /// Returns the number.
    fn number(&self) -> u32;
}

/// Objects of one type that are in flight.
pub(super) struct Inflight<T> {
    first: usize,
    slots: PagedVec<Option<ListBox<T>>>,
    len: usize,
}

/// Error of a post, with the object that was to be posted.
pub(super) struct PostError<T> {
    /// Errno of the post.
    pub(super) errno: Errno,
    /// Object, unchanged.
    pub(super) node: ListBox<T>,
}

impl<T: Indexed> Inflight<T> {
    /// Creates an empty table for numbers below `most`; completions return a number plus `first`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(first: usize, most: usize) -> Result<Self> {
        Ok(Self {
            first,
            slots: PagedVec::with_len(most)?,
            len: 0,
        })
    }

    /// Returns the size that memory has to be allocated for, unless the table has space for numbers below `most`.
    pub(super) fn growth_below(&self, most: usize) -> Option<GrowthSize> {
        (self.slots.len() < most).then(|| self.slots.growth_size())
    }

    /// Adds memory for more numbers.
    pub(super) fn grow(&mut self, growth: &mut Growth<Option<ListBox<T>>>) {
        self.slots.grow(growth);
    }

    /// Returns the number of objects in flight.
    #[cfg(CONFIG_KUNIT = "y")]
    fn len(&self) -> usize {
        self.len
    }

    /// Posts an object with `post`, which gets the context that the completion returns.
    ///
    /// # Errors
    ///
    /// Errors of `post`, -FI_EINVAL if the number is in use; with the object.
    #[inline(always)]
    pub(super) fn post(
        &mut self,
        node: ListBox<T>,
        post: impl FnOnce(&mut T, Context) -> Result,
    ) -> core::result::Result<(), PostError<T>> {
        let number = node.number() as usize;
        let slot = match self.slots.get_mut(number) {
            Some(slot) if slot.is_none() => slot,
            _ => {
                return Err(PostError {
                    errno: Errno::EINVAL,
                    node,
                })
            }
        };
        let node = slot.insert(node);
        let context = Context::new(ptr::without_provenance_mut(self.first + number));
        let posted = post(node, context);
        self.len += 1;
        match posted {
            Ok(()) => Ok(()),
            Err(errno) => match self.complete(context) {
                Some(node) => Err(PostError { errno, node }),
                // Cannot happen: the object was inserted above.
                None => Ok(()),
            },
        }
    }

    /// Iterates over the objects in flight, whose memory must not be accessed.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten().map(|node| &**node)
    }

    /// Iterates over the objects in flight, mutable; their memory must not be accessed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().flatten().map(|node| &mut **node)
    }

    /// Returns the object with a number if it is in flight; its memory must not be accessed.
    pub(super) fn get(&mut self, number: u32) -> Option<&mut T> {
        Some(self.slots.get_mut(number as usize)?.as_mut()?)
    }

    /// Removes the object that a completion names; `None` if it is not in flight.
    #[inline(always)]
    pub(super) fn complete(&mut self, context: Context) -> Option<ListBox<T>> {
        let number = (context.as_ptr() as usize).checked_sub(self.first)?;
        let node = self.slots.get_mut(number)?.take()?;
        self.len -= 1;
        Some(node)
    }
}

#[kunit_tests(kofi_rdm_inflight)]
mod tests {
    use super::*;
    use crate::util::paged_vec::PAGE_LEN;

    struct Entry(u32);

    impl Indexed for Entry {
        fn number(&self) -> u32 {
            self.0
        }
    }

    fn post(inflight: &mut Inflight<Entry>, number: u32, answer: Result) -> Result<Context> {
        let mut context = Err(Errno::EOTHER);
        let started = inflight.post(ListBox::new(Entry(number))?, |entry, given| {
            assert_eq!(entry.0, number);
            context = Ok(given);
            answer
        });
        match started {
            Ok(()) => context,
            Err(error) => {
                assert_eq!(error.node.0, number);
                Err(error.errno)
            }
        }
    }

    #[test]
    fn posted_entry_completes_once() -> Result {
        let mut inflight = Inflight::new(0, 3)?;
        let mut contexts = [Context::NULL; 3];
        for number in [2, 0, 1] {
            contexts[number as usize] = post(&mut inflight, number, Ok(()))?;
        }
        assert_eq!(inflight.len(), 3);
        for number in [1, 2, 0] {
            let completed = inflight.complete(contexts[number]);
            assert!(completed.is_some_and(|entry| entry.0 as usize == number));
            assert!(inflight.complete(contexts[number]).is_none());
        }
        assert_eq!(inflight.len(), 0);
        Ok(())
    }

    #[test]
    fn refused_entry_is_returned() -> Result {
        let mut inflight = Inflight::new(0, 2)?;
        let refused = post(&mut inflight, 1, Err(Errno::EAGAIN));
        assert_eq!(refused.err(), Some(Errno::EAGAIN));
        assert_eq!(inflight.len(), 0);
        let context = post(&mut inflight, 1, Ok(()))?;
        assert_eq!(post(&mut inflight, 1, Ok(())).err(), Some(Errno::EINVAL));
        let beyond = 2 * PAGE_LEN as u32;
        let refused = post(&mut inflight, beyond, Ok(()));
        assert_eq!(refused.err(), Some(Errno::EINVAL));
        assert!(inflight.complete(context).is_some());
        // The table grows up to that number, and not further.
        while let Some(size) = inflight.growth_below(beyond as usize + 1) {
            inflight.grow(&mut Growth::new(size)?);
        }
        assert_eq!(inflight.slots.len(), 3 * PAGE_LEN);
        let context = post(&mut inflight, beyond, Ok(()))?;
        assert!(inflight.complete(context).is_some());
        Ok(())
    }

    #[test]
    fn tables_have_distinct_contexts() -> Result {
        let mut one = Inflight::new(0, 2)?;
        let mut other = Inflight::new(PAGE_LEN, 2)?;
        let first = post(&mut one, 1, Ok(()))?;
        let second = post(&mut other, 1, Ok(()))?;
        assert!(other.complete(first).is_none() && one.complete(second).is_none());
        assert!(one.get(1).is_some() && one.get(0).is_none() && other.get(2).is_none());
        assert!(one.complete(first).is_some() && other.complete(second).is_some());
        assert!(one.get(1).is_none());
        Ok(())
    }

    #[test]
    fn unknown_contexts_complete_nothing() -> Result {
        let mut inflight = Inflight::<Entry>::new(0, 2)?;
        for number in [0, 1, 2, usize::MAX] {
            let context = Context::new(ptr::without_provenance_mut(number));
            assert!(inflight.complete(context).is_none());
        }
        Ok(())
    }
}
