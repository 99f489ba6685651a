// SPDX-License-Identifier: GPL-2.0

//! What a lower endpoint has in hand, by the numbers that its completions bring back.
//!
//! Whatever is posted stands here until its completion has come, or its endpoint has been closed: so
//! its memory is there for as long as a device may use it.

use crate::{
    fi::prelude::*,
    util::owned_list::ListBox, //
};

/// What has a number of its own, which no other of its kind has.
pub(super) trait Indexed {
    /// The number.
    fn number(&self) -> u32;
}

/// Everything of one kind that is under way.
pub(super) struct Inflight<T> {
    first: usize,
    slots: KVVec<Option<ListBox<T>>>,
    len: usize,
}

/// What was not posted, and why.
pub(super) struct PostError<T> {
    /// Why.
    pub(super) errno: Errno,
    /// As it was.
    pub(super) node: ListBox<T>,
}

impl<T: Indexed> Inflight<T> {
    /// None yet; their numbers are below `most`, and come back as so much more than `first`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(first: usize, most: usize) -> Result<Self> {
        let mut slots = KVVec::with_capacity(most, GFP_KERNEL)?;
        for _ in 0..most {
            slots.push(None, GFP_KERNEL)?;
        }
        Ok(Self {
            first,
            slots,
            len: 0,
        })
    }

    /// How many are under way.
    #[cfg(CONFIG_KUNIT = "y")]
    fn len(&self) -> usize {
        self.len
    }

    /// Has `post` post it, with the context that is to come back.
    ///
    /// # Errors
    ///
    /// With what was to be posted: what `post` says, -FI_EINVAL for a number that is not free.
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
                // It stands where it was put.
                None => Ok(()),
            },
        }
    }

    /// All that are under way: their memory is not to be touched.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten().map(|node| &**node)
    }

    /// The same, to be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().flatten().map(|node| &mut **node)
    }

    /// That of a number, while it is under way: its memory is not to be touched.
    pub(super) fn get(&mut self, number: u32) -> Option<&mut T> {
        Some(self.slots.get_mut(number as usize)?.as_mut()?)
    }

    /// Takes what a completion is of; none if that is under way no more.
    #[inline(always)]
    pub(super) fn complete(&mut self, context: Context) -> Option<ListBox<T>> {
        let number = (context.as_ptr() as usize).checked_sub(self.first)?;
        let node = self.slots.get_mut(number)?.take()?;
        self.len -= 1;
        Some(node)
    }
}

#[kunit_tests(kofi_rdm_flights)]
mod tests {
    use super::*;

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
    fn what_was_started_lands_once() -> Result {
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
    fn what_is_not_posted_comes_back() -> Result {
        let mut inflight = Inflight::new(0, 2)?;
        let refused = post(&mut inflight, 1, Err(Errno::EAGAIN));
        assert_eq!(refused.err(), Some(Errno::EAGAIN));
        assert_eq!(inflight.len(), 0);
        let context = post(&mut inflight, 1, Ok(()))?;
        assert_eq!(post(&mut inflight, 1, Ok(())).err(), Some(Errno::EINVAL));
        assert_eq!(post(&mut inflight, 2, Ok(())).err(), Some(Errno::EINVAL));
        assert!(inflight.complete(context).is_some());
        Ok(())
    }

    #[test]
    fn two_kinds_have_contexts_of_their_own() -> Result {
        let mut one = Inflight::new(0, 2)?;
        let mut other = Inflight::new(2, 2)?;
        let first = post(&mut one, 1, Ok(()))?;
        let second = post(&mut other, 1, Ok(()))?;
        assert!(other.complete(first).is_none() && one.complete(second).is_none());
        assert!(one.get(1).is_some() && one.get(0).is_none() && other.get(2).is_none());
        assert!(one.complete(first).is_some() && other.complete(second).is_some());
        assert!(one.get(1).is_none());
        Ok(())
    }

    #[test]
    fn what_nobody_has_started_does_not_land() -> Result {
        let mut inflight = Inflight::<Entry>::new(0, 2)?;
        for number in [0, 1, 2, usize::MAX] {
            let context = Context::new(ptr::without_provenance_mut(number));
            assert!(inflight.complete(context).is_none());
        }
        Ok(())
    }
}
