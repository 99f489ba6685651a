// SPDX-License-Identifier: GPL-2.0

//! Segmentation and reassembly (SAR): which segment of a message is next. Pure: no locks, no I/O.
//!
//! A peer may interleave segments of several messages, but sends those of one message in order. The network keeps the
//! order, so a segment out of order is a violation that closes the connection.

pub(super) mod reassembly;

use super::wire::{
    Message,
    ProtoError,
    SegPos,
    Segment, //
};
use crate::util::owned_list::{
    BoxList,
    ListBox, //
};

/// A message of which segments have arrived.
pub(super) struct SarRx<T> {
    id: u64,
    message: Message,
    next: u32,
    /// True if the next segment has arrived and is deferred.
    is_next_deferred: bool,
    /// Data of the user.
    pub(super) data: T,
}

impl<T> SarRx<T> {
    /// Creates the message of the segment `first`, which is not counted yet.
    pub(super) fn new(first: &Segment, data: T) -> Self {
        Self {
            id: first.id,
            message: first.message,
            next: 0,
            is_next_deferred: false,
            data,
        }
    }

    /// Returns the whole message.
    pub(super) fn message(&self) -> &Message {
        &self.message
    }

    /// Counts a segment that has been taken.
    pub(super) fn advance(&mut self) {
        self.next += 1;
    }

    /// Records that the next segment is deferred, until [`SarTable::clear_deferred`].
    pub(super) fn defer_next(&mut self) {
        self.is_next_deferred = true;
    }

    /// Returns whether all segments have been taken.
    fn is_complete(&self) -> bool {
        u64::from(self.next) == self.message.segments()
    }

    /// Returns whether more segments with this message id belong to the message. When it is complete, the peer may
    /// use the id again.
    fn has_id(&self, id: u64) -> bool {
        self.id == id && !self.is_complete()
    }
}

/// Reassembly table of one peer.
pub(super) struct SarTable<T> {
    queue: BoxList<SarRx<T>>,
    max_incomplete: usize,
}

impl<T> SarTable<T> {
    /// Creates an empty table for at most `max_incomplete` incomplete messages.
    pub(super) const fn new(max_incomplete: usize) -> Self {
        Self {
            queue: BoxList::new(),
            max_incomplete,
        }
    }

    /// Checks that a message can begin with `segment`. The caller [keeps](Self::keep) it until the next segment.
    ///
    /// # Errors
    ///
    /// The segment is not the first one, its message id belongs to an incomplete message, or there are too many
    /// incomplete messages.
    pub(super) fn begin(&self, segment: &Segment) -> Result<(), ProtoError> {
        if segment.pos != SegPos::First {
            return Err(ProtoError("segment of an unknown message"));
        }
        if self.queue.iter().any(|sar| sar.has_id(segment.id)) {
            return Err(ProtoError("message id that a message in reassembly has"));
        }
        let unfinished = self.queue.iter().filter(|sar| !sar.is_complete());
        if unfinished.count() >= self.max_incomplete {
            return Err(ProtoError("too many messages in reassembly"));
        }
        Ok(())
    }

    /// Returns whether `segment`, which is not the first, is the next one of a message. If that segment is deferred
    /// already, this one belongs to a later message with the same id.
    pub(super) fn continues(&self, segment: &Segment) -> bool {
        self.queue.iter().any(|sar| {
            let is_next = sar.next == segment.number && !sar.is_next_deferred;
            is_next && sar.has_id(segment.id)
        })
    }

    /// Marks all deferred segments as not deferred; the caller processes them again in order.
    pub(super) fn clear_deferred(&mut self) {
        self.queue.for_each_mut(|sar| sar.is_next_deferred = false);
    }

    /// Returns whether a message `matches`.
    pub(super) fn any(&self, mut matches: impl FnMut(&T) -> bool) -> bool {
        self.queue.iter().any(|sar| matches(&sar.data))
    }

    /// Takes the message whose next segment is `segment`, which is not a first one. The caller
    /// [counts](SarRx::advance) the segment, and [keeps](Self::keep) the message unless the segment is the last one.
    ///
    /// # Errors
    ///
    /// There is no such message, or another segment is next.
    pub(super) fn take(&mut self, segment: &Segment) -> Result<ListBox<SarRx<T>>, ProtoError> {
        let sar = self
            .queue
            .remove_first_where(|sar| sar.has_id(segment.id))
            .ok_or(ProtoError("segment of an unknown message"))?;
        let is_next = sar.next == segment.number && sar.message == segment.message;
        if is_next {
            return Ok(sar);
        }
        self.queue.push(sar);
        Err(ProtoError("segment out of order"))
    }

    /// Puts a message into the table.
    pub(super) fn keep(&mut self, sar: ListBox<SarRx<T>>) {
        self.queue.push(sar);
    }

    /// Changes the data of each message.
    pub(super) fn change(&mut self, mut change: impl FnMut(&mut T)) {
        self.queue.for_each_mut(|sar| change(&mut sar.data));
    }

    /// Takes the first message that `matches`.
    pub(super) fn find(
        &mut self,
        mut matches: impl FnMut(&T) -> bool,
    ) -> Option<ListBox<SarRx<T>>> {
        self.queue.remove_first_where(|sar| matches(&sar.data))
    }
}

#[kernel::prelude::kunit_tests(kofi_rdm_sar)]
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
            pos: SegPos::of(number, count.into()),
            message: Message {
                context: 0,
                ack: None,
                tag: Some(id),
                len: u64::from(count) * EAGER as u64,
                data: None,
            },
        }
    }

    /// Creates a message without segments.
    fn begun<T>(first: &Segment, data: T) -> Result<ListBox<SarRx<T>>> {
        ListBox::new(SarRx::new(first, data))
    }

    /// Creates a message with its first segment.
    fn of_first(first: &Segment) -> Result<ListBox<SarRx<()>>> {
        let mut sar = begun(first, ())?;
        sar.advance();
        Ok(sar)
    }

    #[test]
    fn interleaved_messages_are_reassembled() -> kernel::error::Result {
        const MESSAGES: usize = 20;
        let mut random = SeededRandom::new(1);
        let mut sar_rx = SarTable::<u64>::new(MESSAGES);
        let mut next = KVec::from_elem(0u32, MESSAGES, GFP_KERNEL)?;
        let count = |at: usize| 2 + at as u32 % 5;
        let mut whole = 0;
        while whole < MESSAGES {
            let at = random.next_below(MESSAGES as u64) as usize;
            let Some(number) = next.get_mut(at).filter(|number| **number < count(at)) else {
                continue;
            };
            let segment = segment(at as u64, *number, count(at));
            let mut sar = match *number {
                0 => {
                    assert!(sar_rx.begin(&segment).is_ok());
                    begun(&segment, 0)?
                }
                _ => {
                    assert!(sar_rx.continues(&segment));
                    let taken = sar_rx.take(&segment);
                    assert!(taken.is_ok());
                    let mut taken = taken.map_err(|_| EINVAL)?;
                    taken.data += 1;
                    taken
                }
            };
            assert_eq!(segment.offset(), u64::from(*number) * EAGER as u64);
            assert_eq!(sar.message(), &segment.message);
            sar.advance();
            *number += 1;
            match segment.pos {
                SegPos::Last => {
                    assert_eq!(sar.data + 1, u64::from(count(at)));
                    whole += 1;
                }
                SegPos::First | SegPos::Middle => sar_rx.keep(sar),
            }
        }
        assert!(sar_rx.find(|_| true).is_none());
        Ok(())
    }

    #[test]
    fn out_of_order_segments_are_refused_without_effect() -> Result {
        let mut sar_rx = SarTable::<()>::new(2);
        let first = segment(1, 0, 4);
        assert!(sar_rx.begin(&segment(1, 1, 4)).is_err());
        assert!(sar_rx.take(&segment(1, 1, 4)).is_err());
        assert!(sar_rx.begin(&first).is_ok());
        sar_rx.keep(of_first(&first)?);
        for wrong in [
            first,
            segment(1, 2, 4),
            segment(1, 3, 4),
            segment(2, 1, 4),
            segment(1, 1, 5),
        ] {
            assert!(sar_rx.take(&wrong).is_err());
        }
        let other = Segment {
            message: Message {
                context: 0,
                ack: None,
                tag: None,
                ..first.message
            },
            ..segment(1, 1, 4)
        };
        assert!(sar_rx.take(&other).is_err());
        let right = sar_rx.take(&segment(1, 1, 4));
        assert!(right.is_ok_and(|sar| sar.next == 1));
        Ok(())
    }

    #[test]
    fn segment_does_not_pass_a_deferred_one() -> Result {
        let mut sar_rx = SarTable::<()>::new(2);
        let (first, next) = (segment(1, 0, 3), segment(1, 1, 3));
        sar_rx.keep(of_first(&first)?);
        let mut sar = sar_rx.take(&next).map_err(|_| crate::abi::Errno::EOTHER)?;
        sar.defer_next();
        sar_rx.keep(sar);
        sar_rx.keep(of_first(&segment(2, 0, 3))?);
        assert!(!sar_rx.continues(&next) && sar_rx.continues(&segment(2, 1, 3)));
        sar_rx.clear_deferred();
        assert!(sar_rx.continues(&next) && sar_rx.take(&next).is_ok());
        Ok(())
    }

    #[test]
    fn message_id_is_free_after_the_last_segment() -> Result {
        let mut sar_rx = SarTable::<u32>::new(3);
        for number in 1..=2 {
            let first = segment(1, 0, 2);
            assert!(sar_rx.begin(&first).is_ok());
            let mut sar = begun(&first, number)?;
            sar.advance();
            sar_rx.keep(sar);
            assert!(sar_rx.begin(&first).is_err());
            let last = segment(1, 1, 2);
            assert!(sar_rx.continues(&last));
            let mut sar = sar_rx.take(&last).map_err(|_| crate::abi::Errno::EOTHER)?;
            assert_eq!(sar.data, number);
            sar.advance();
            sar_rx.keep(sar);
            assert!(!sar_rx.continues(&last) && sar_rx.take(&last).is_err());
        }
        assert!(sar_rx.find(|&number| number == 1).is_some());
        assert!(sar_rx.find(|&number| number == 2).is_some());
        Ok(())
    }

    #[test]
    fn incomplete_messages_are_limited_and_have_distinct_ids() -> Result {
        let mut sar_rx = SarTable::<()>::new(2);
        for id in [1, 2] {
            let first = segment(id, 0, 2);
            assert!(sar_rx.begin(&first).is_ok());
            sar_rx.keep(of_first(&first)?);
            assert!(sar_rx.begin(&first).is_err());
        }
        assert!(sar_rx.begin(&segment(3, 0, 2)).is_err());
        assert!(sar_rx.take(&segment(1, 1, 2)).is_ok());
        assert!(sar_rx.begin(&segment(3, 0, 2)).is_ok());
        assert!(sar_rx.find(|()| false).is_none() && !sar_rx.any(|()| false));
        assert!(sar_rx.any(|()| true));
        assert!(sar_rx.find(|()| true).is_some_and(|sar| sar.id == 2));
        assert!(sar_rx.find(|()| true).is_none());
        Ok(())
    }
}
