// SPDX-License-Identifier: GPL-2.0

//! Messages that are cut into segments: which comes next, and where its bytes belong.
//!
//! A peer may send segments of several messages in turns, but those of one come in order. What does not
//! is no mistake of the network's, which keeps the order, but the peer's: its connection is to be closed.

use super::wire::{
    Malformed,
    Message,
    Place,
    Segment, //
};
use crate::util::owned_list::{
    BoxList,
    ListBox, //
};

/// A message of which segments have come.
pub(super) struct Partial<T> {
    id: u64,
    message: Message,
    next: u32,
    /// The next segment is there, and waits for room.
    is_next_held: bool,
    /// Where it goes.
    pub(super) what: T,
}

impl<T> Partial<T> {
    /// No message yet: see [`Self::begin`].
    pub(super) fn idle(what: T) -> Self {
        Self {
            id: 0,
            message: Message {
                context: 0,
                tag: None,
                len: 0,
                data: None,
            },
            next: 0,
            is_next_held: false,
            what,
        }
    }

    /// It is the message that begins with `first`, none of which has been taken yet.
    pub(super) fn begin(&mut self, first: &Segment) {
        self.id = first.id;
        self.message = first.message;
        self.next = 0;
        self.is_next_held = false;
    }

    /// All of the message.
    pub(super) fn message(&self) -> &Message {
        &self.message
    }

    /// The next segment has been taken.
    pub(super) fn advance(&mut self) {
        self.next += 1;
    }

    /// The next segment has not been taken, and waits for room until [`Partials::look_again`].
    pub(super) fn hold(&mut self) {
        self.is_next_held = true;
    }

    /// Whether all of the message has been.
    fn is_whole(&self) -> bool {
        u64::from(self.next) == self.message.segments()
    }

    /// Whether more of a message of that name is to come: once it is whole, the peer may give its name
    /// to another one.
    fn is_called(&self, id: u64) -> bool {
        self.id == id && !self.is_whole()
    }
}

/// The messages of one peer of which segments have come, until somebody has taken all of each.
pub(super) struct Partials<T> {
    queue: BoxList<Partial<T>>,
    most: usize,
}

impl<T> Partials<T> {
    /// None yet, and never more than `most` that are not whole.
    pub(super) const fn new(most: usize) -> Self {
        Self {
            queue: BoxList::new(),
            most,
        }
    }

    /// That a message begins with `segment`, which is to be [`kept`](Self::keep) until the next comes.
    ///
    /// # Errors
    ///
    /// It is not the first one, there is one of that name which is not whole, or there are too many.
    pub(super) fn begin(&self, segment: &Segment) -> Result<(), Malformed> {
        if segment.place != Place::First {
            return Err(Malformed("a segment of no message"));
        }
        if self
            .queue
            .iter()
            .any(|partial| partial.is_called(segment.id))
        {
            return Err(Malformed("two messages of one name"));
        }
        let parts = self.queue.iter().filter(|partial| !partial.is_whole());
        if parts.count() >= self.most {
            return Err(Malformed("segments of too many messages at once"));
        }
        Ok(())
    }

    /// Whether `segment`, which is not the first, is the next of some message. Where that one waits, this is of
    /// another message, which got the name when the peer had sent all of the first.
    pub(super) fn continues(&self, segment: &Segment) -> bool {
        self.queue.iter().any(|partial| {
            let is_next = partial.next == segment.number && !partial.is_next_held;
            is_next && partial.is_called(segment.id)
        })
    }

    /// What has waited for room is looked at again, in order.
    pub(super) fn look_again(&mut self) {
        self.queue
            .for_each_mut(|partial| partial.is_next_held = false);
    }

    /// Whether a message is `meant`.
    pub(super) fn any(&self, mut meant: impl FnMut(&T) -> bool) -> bool {
        self.queue.iter().any(|partial| meant(&partial.what))
    }

    /// Takes the message that `segment` is the next of, if it is not the first; it is to be
    /// [`advanced`](Partial::advance), and [`kept`](Self::keep) unless the segment is the last one.
    ///
    /// # Errors
    ///
    /// There is no such message, or another segment of it is the next.
    pub(super) fn take(&mut self, segment: &Segment) -> Result<ListBox<Partial<T>>, Malformed> {
        let partial = self
            .queue
            .remove_first_where(|partial| partial.is_called(segment.id))
            .ok_or(Malformed("a segment of no message"))?;
        let is_next = partial.next == segment.number && partial.message == segment.message;
        if is_next {
            return Ok(partial);
        }
        self.queue.push(partial);
        Err(Malformed("a segment that is not the next"))
    }

    /// Waits for the next segment of a message.
    pub(super) fn keep(&mut self, partial: ListBox<Partial<T>>) {
        self.queue.push(partial);
    }

    /// Changes where each message goes.
    pub(super) fn change(&mut self, mut change: impl FnMut(&mut T)) {
        self.queue.for_each_mut(|partial| change(&mut partial.what));
    }

    /// Takes the first message that is `meant`.
    pub(super) fn find(
        &mut self,
        mut meant: impl FnMut(&T) -> bool,
    ) -> Option<ListBox<Partial<T>>> {
        self.queue
            .remove_first_where(|partial| meant(&partial.what))
    }
}

#[kernel::prelude::kunit_tests(kofi_rdm_segments)]
mod tests {
    use super::{
        super::wire::EAGER,
        *, //
    };
    use crate::{
        abi::Result,
        util::random::SeededRandom, //
    };
    use kernel::{
        alloc::KVec,
        prelude::*, //
    };

    fn segment(id: u64, number: u32, count: u32) -> Segment {
        Segment {
            id,
            number,
            place: Place::of(number, count.into()),
            message: Message {
                context: 0,
                tag: Some(id),
                len: u64::from(count) * EAGER as u64,
                data: None,
            },
        }
    }

    /// A message of which nothing has been taken.
    fn begun<T>(first: &Segment, what: T) -> Result<ListBox<Partial<T>>> {
        let mut partial = ListBox::new(Partial::idle(what))?;
        partial.begin(first);
        Ok(partial)
    }

    /// One of which the first segment has been.
    fn of_first(first: &Segment) -> Result<ListBox<Partial<()>>> {
        let mut partial = begun(first, ())?;
        partial.advance();
        Ok(partial)
    }

    #[test]
    fn segments_of_several_messages_come_in_turns() -> kernel::error::Result {
        const MESSAGES: usize = 20;
        let mut random = SeededRandom::new(1);
        let mut partials = Partials::<u64>::new(MESSAGES);
        let mut next = KVec::from_elem(0u32, MESSAGES, GFP_KERNEL)?;
        let count = |at: usize| 2 + at as u32 % 5;
        let mut whole = 0;
        while whole < MESSAGES {
            let at = random.next_below(MESSAGES as u64) as usize;
            let Some(number) = next.get_mut(at).filter(|number| **number < count(at)) else {
                continue;
            };
            let segment = segment(at as u64, *number, count(at));
            let mut partial = match *number {
                0 => {
                    assert!(partials.begin(&segment).is_ok());
                    begun(&segment, 0)?
                }
                _ => {
                    assert!(partials.continues(&segment));
                    let taken = partials.take(&segment);
                    assert!(taken.is_ok());
                    let mut taken = taken.map_err(|_| EINVAL)?;
                    taken.what += 1;
                    taken
                }
            };
            assert_eq!(segment.offset(), u64::from(*number) * EAGER as u64);
            assert_eq!(partial.message(), &segment.message);
            partial.advance();
            *number += 1;
            match segment.place {
                Place::Last => {
                    assert_eq!(partial.what + 1, u64::from(count(at)));
                    whole += 1;
                }
                Place::First | Place::Middle => partials.keep(partial),
            }
        }
        assert!(partials.find(|_| true).is_none());
        Ok(())
    }

    #[test]
    fn what_is_out_of_order_is_refused_and_changes_nothing() -> Result {
        let mut partials = Partials::<()>::new(2);
        let first = segment(1, 0, 4);
        assert!(partials.begin(&segment(1, 1, 4)).is_err());
        assert!(partials.take(&segment(1, 1, 4)).is_err());
        assert!(partials.begin(&first).is_ok());
        partials.keep(of_first(&first)?);
        for wrong in [
            first,
            segment(1, 2, 4),
            segment(1, 3, 4),
            segment(2, 1, 4),
            segment(1, 1, 5),
        ] {
            assert!(partials.take(&wrong).is_err());
        }
        let other = Segment {
            message: Message {
                context: 0,
                tag: None,
                ..first.message
            },
            ..segment(1, 1, 4)
        };
        assert!(partials.take(&other).is_err());
        let right = partials.take(&segment(1, 1, 4));
        assert!(right.is_ok_and(|partial| partial.next == 1));
        Ok(())
    }

    #[test]
    fn what_is_behind_a_segment_that_waits_does_not_pass_it() -> Result {
        let mut partials = Partials::<()>::new(2);
        let (first, next) = (segment(1, 0, 3), segment(1, 1, 3));
        partials.keep(of_first(&first)?);
        let mut partial = partials
            .take(&next)
            .map_err(|_| crate::abi::Errno::EOTHER)?;
        partial.hold();
        partials.keep(partial);
        partials.keep(of_first(&segment(2, 0, 3))?);
        assert!(!partials.continues(&next) && partials.continues(&segment(2, 1, 3)));
        partials.look_again();
        assert!(partials.continues(&next) && partials.take(&next).is_ok());
        Ok(())
    }

    #[test]
    fn a_name_is_free_when_its_message_is_whole() -> Result {
        let mut partials = Partials::<u32>::new(3);
        for number in 1..=2 {
            let first = segment(1, 0, 2);
            assert!(partials.begin(&first).is_ok());
            let mut partial = begun(&first, number)?;
            partial.advance();
            partials.keep(partial);
            assert!(partials.begin(&first).is_err());
            let last = segment(1, 1, 2);
            assert!(partials.continues(&last));
            let mut partial = partials
                .take(&last)
                .map_err(|_| crate::abi::Errno::EOTHER)?;
            assert_eq!(partial.what, number);
            partial.advance();
            partials.keep(partial);
            assert!(!partials.continues(&last) && partials.take(&last).is_err());
        }
        assert!(partials.find(|&number| number == 1).is_some());
        assert!(partials.find(|&number| number == 2).is_some());
        Ok(())
    }

    #[test]
    fn there_are_not_too_many_and_none_twice() -> Result {
        let mut partials = Partials::<()>::new(2);
        for id in [1, 2] {
            let first = segment(id, 0, 2);
            assert!(partials.begin(&first).is_ok());
            partials.keep(of_first(&first)?);
            assert!(partials.begin(&first).is_err());
        }
        assert!(partials.begin(&segment(3, 0, 2)).is_err());
        assert!(partials.take(&segment(1, 1, 2)).is_ok());
        assert!(partials.begin(&segment(3, 0, 2)).is_ok());
        assert!(partials.find(|()| false).is_none() && !partials.any(|()| false));
        assert!(partials.any(|()| true));
        assert!(partials
            .find(|()| true)
            .is_some_and(|partial| partial.id == 2));
        assert!(partials.find(|()| true).is_none());
        Ok(())
    }
}
