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
pub(super) trait Numbered {
    /// The number.
    fn number(&self) -> u32;
}

/// Everything of one kind that is under way.
pub(super) struct Flights<T> {
    first: usize,
    places: KVVec<Option<ListBox<T>>>,
    len: usize,
}

/// What was not posted, and why.
pub(super) struct Refused<T> {
    /// Why.
    pub(super) errno: Errno,
    /// As it was.
    pub(super) own: ListBox<T>,
}

impl<T: Numbered> Flights<T> {
    /// None yet; their numbers are below `most`, and come back as so much more than `first`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(first: usize, most: usize) -> Result<Self> {
        let mut places = KVVec::with_capacity(most, GFP_KERNEL)?;
        for _ in 0..most {
            places.push(None, GFP_KERNEL)?;
        }
        Ok(Self {
            first,
            places,
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
    pub(super) fn start(
        &mut self,
        own: ListBox<T>,
        post: impl FnOnce(&mut T, Context) -> Result,
    ) -> core::result::Result<(), Refused<T>> {
        let number = own.number() as usize;
        let place = match self.places.get_mut(number) {
            Some(place) if place.is_none() => place,
            _ => {
                return Err(Refused {
                    errno: Errno::EINVAL,
                    own,
                })
            }
        };
        let own = place.insert(own);
        let context = Context::new(ptr::without_provenance_mut(self.first + number));
        let posted = post(own, context);
        self.len += 1;
        match posted {
            Ok(()) => Ok(()),
            Err(errno) => match self.land(context) {
                Some(own) => Err(Refused { errno, own }),
                // It stands where it was put.
                None => Ok(()),
            },
        }
    }

    /// All that are under way: their memory is not to be touched.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().flatten().map(|own| &**own)
    }

    /// The same, to be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().flatten().map(|own| &mut **own)
    }

    /// That of a number, while it is under way: its memory is not to be touched.
    pub(super) fn get(&mut self, number: u32) -> Option<&mut T> {
        Some(self.places.get_mut(number as usize)?.as_mut()?)
    }

    /// Takes what a completion is of; none if that is under way no more.
    #[inline(always)]
    pub(super) fn land(&mut self, context: Context) -> Option<ListBox<T>> {
        let number = (context.as_ptr() as usize).checked_sub(self.first)?;
        let own = self.places.get_mut(number)?.take()?;
        self.len -= 1;
        Some(own)
    }
}

#[kunit_tests(kofi_rdm_flights)]
mod tests {
    use super::*;

    struct Plane(u32);

    impl Numbered for Plane {
        fn number(&self) -> u32 {
            self.0
        }
    }

    fn start(flights: &mut Flights<Plane>, number: u32, answer: Result) -> Result<Context> {
        let mut context = Err(Errno::EOTHER);
        let started = flights.start(ListBox::new(Plane(number))?, |plane, given| {
            assert_eq!(plane.0, number);
            context = Ok(given);
            answer
        });
        match started {
            Ok(()) => context,
            Err(refused) => {
                assert_eq!(refused.own.0, number);
                Err(refused.errno)
            }
        }
    }

    #[test]
    fn what_was_started_lands_once() -> Result {
        let mut flights = Flights::new(0, 3)?;
        let mut contexts = [Context::NULL; 3];
        for number in [2, 0, 1] {
            contexts[number as usize] = start(&mut flights, number, Ok(()))?;
        }
        assert_eq!(flights.len(), 3);
        for number in [1, 2, 0] {
            let landed = flights.land(contexts[number]);
            assert!(landed.is_some_and(|plane| plane.0 as usize == number));
            assert!(flights.land(contexts[number]).is_none());
        }
        assert_eq!(flights.len(), 0);
        Ok(())
    }

    #[test]
    fn what_is_not_posted_comes_back() -> Result {
        let mut flights = Flights::new(0, 2)?;
        let refused = start(&mut flights, 1, Err(Errno::EAGAIN));
        assert_eq!(refused.err(), Some(Errno::EAGAIN));
        assert_eq!(flights.len(), 0);
        let context = start(&mut flights, 1, Ok(()))?;
        assert_eq!(start(&mut flights, 1, Ok(())).err(), Some(Errno::EINVAL));
        assert_eq!(start(&mut flights, 2, Ok(())).err(), Some(Errno::EINVAL));
        assert!(flights.land(context).is_some());
        Ok(())
    }

    #[test]
    fn two_kinds_have_contexts_of_their_own() -> Result {
        let mut one = Flights::new(0, 2)?;
        let mut other = Flights::new(2, 2)?;
        let first = start(&mut one, 1, Ok(()))?;
        let second = start(&mut other, 1, Ok(()))?;
        assert!(other.land(first).is_none() && one.land(second).is_none());
        assert!(one.get(1).is_some() && one.get(0).is_none() && other.get(2).is_none());
        assert!(one.land(first).is_some() && other.land(second).is_some());
        assert!(one.get(1).is_none());
        Ok(())
    }

    #[test]
    fn what_nobody_has_started_does_not_land() -> Result {
        let mut flights = Flights::<Plane>::new(0, 2)?;
        for number in [0, 1, 2, usize::MAX] {
            let context = Context::new(ptr::without_provenance_mut(number));
            assert!(flights.land(context).is_none());
        }
        Ok(())
    }
}
