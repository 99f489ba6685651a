// SPDX-License-Identifier: GPL-2.0

//! Buffers that take several messages.
//!
//! A message has its place in a buffer as soon as it is known to go there, whether or not it can be told of
//! yet: so nobody overtakes it. A buffer is its owner's again when it takes no more, and everything that has
//! a place in it is over, in whatever order.

use super::{
    flights::Numbered,
    iov::DstBuf,
    receive::Receive, //
};
use crate::{
    fi::prelude::*,
    util::owned_list::{
        BoxList,
        ListBox, //
    },
};

/// Where a message goes in a buffer.
pub(super) struct Place {
    /// The number of the buffer's receive.
    pub(super) of: u32,
    /// What the consumer gets back.
    pub(super) context: Context,
    /// Where it begins.
    pub(super) at: usize,
    /// Its memory.
    pub(super) into: DstBuf,
}

/// A buffer.
struct Buffer {
    context: Context,
    /// Where what is left of it begins.
    at: usize,
    /// What is left of it.
    rest: DstBuf,
    /// It takes no more when less than that is left.
    least: usize,
    takes_more: bool,
    /// How many messages have places in it and are not over.
    places: usize,
    /// Its receive, when it takes no more.
    spent: Option<ListBox<Receive>>,
}

impl Buffer {
    /// None.
    const fn idle() -> Self {
        Self {
            context: Context::NULL,
            at: 0,
            rest: DstBuf::EMPTY,
            least: 0,
            takes_more: false,
            places: 0,
            spent: None,
        }
    }
}

/// How many bytes are left at least of a buffer that takes more messages.
pub(super) struct Least(Atomic<usize>);

impl Least {
    /// As many as is usual.
    pub(super) fn new() -> Self {
        Self(Atomic::new(4096))
    }

    /// How many. Any context.
    pub(super) fn get(&self) -> usize {
        self.0.load(Relaxed)
    }

    /// As many, of buffers that are posted from now on. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for none: a buffer would never be its owner's again.
    pub(super) fn set(&self, bytes: usize) -> Result {
        if bytes == 0 {
            return Err(Errno::EINVAL);
        }
        self.0.store(bytes, Relaxed);
        Ok(())
    }
}

/// Those of an endpoint, by the numbers of their receives.
pub(super) struct Buffers {
    /// The number of the first one's receive.
    first: u32,
    buffers: KVVec<Buffer>,
    /// Receives whose buffers are their owners' again.
    released: BoxList<Receive>,
    /// How places are aligned, but for the first of each buffer.
    alignment: usize,
}

impl Buffers {
    /// There will be none.
    pub(super) const fn none() -> Self {
        Self {
            first: 0,
            buffers: KVVec::new(),
            released: BoxList::new(),
            alignment: 1,
        }
    }

    /// None yet; there are `most` numbers, from `first` on. What one device writes is not disturbed by what
    /// lies `alignment` bytes away, a power of two. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(first: u32, most: usize, alignment: usize) -> Result<Self> {
        let mut buffers = KVVec::with_capacity(most, GFP_KERNEL)?;
        for _ in 0..most {
            buffers.push(Buffer::idle(), GFP_KERNEL)?;
        }
        Ok(Self {
            first,
            buffers,
            released: BoxList::new(),
            alignment,
        })
    }

    fn get(&mut self, number: u32) -> Option<&mut Buffer> {
        let at = number.checked_sub(self.first)?;
        self.buffers.get_mut(at as usize)
    }

    /// That of a receive takes messages from now on: one at least, and more while `least` bytes are left.
    pub(super) fn open(&mut self, receive: &Receive, (at, memory): (usize, DstBuf), least: usize) {
        if let Some(buffer) = self.get(receive.number()) {
            *buffer = Buffer {
                context: receive.context,
                at,
                rest: memory,
                least,
                takes_more: true,
                places: 0,
                spent: None,
            };
        }
    }

    /// Whether that of a number takes more messages.
    pub(super) fn takes_more(&mut self, number: u32) -> bool {
        self.get(number).is_some_and(|buffer| buffer.takes_more)
    }

    /// Takes a place for a message of `len` bytes, or as many as there are; none if the buffer takes no more.
    pub(super) fn cut(&mut self, number: u32, len: u64) -> Option<Place> {
        let alignment = self.alignment;
        let buffer = self.get(number).filter(|buffer| buffer.takes_more)?;
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let at = buffer.at;
        let before = buffer.rest.len();
        let into = buffer.rest.split_off_front(len, alignment);
        buffer.at = at.wrapping_add(before - buffer.rest.len());
        buffer.takes_more = buffer.rest.len() >= buffer.least;
        buffer.places += 1;
        Some(Place {
            of: number,
            context: buffer.context,
            at,
            into,
        })
    }

    /// Nothing more goes to the buffer of a receive, which comes back if there is nothing in it either.
    pub(super) fn retire(&mut self, receive: ListBox<Receive>) -> Option<ListBox<Receive>> {
        let Some(buffer) = self.get(receive.number()) else {
            return Some(receive);
        };
        buffer.takes_more = false;
        match buffer.places {
            0 => Some(receive),
            _ => {
                buffer.spent = Some(receive);
                None
            }
        }
    }

    /// A message that had a place is over: the receive comes back with the last one.
    pub(super) fn over(&mut self, number: u32) -> Option<ListBox<Receive>> {
        let buffer = self.get(number)?;
        buffer.places = buffer.places.saturating_sub(1);
        match buffer.places {
            0 => buffer.spent.take(),
            _ => None,
        }
    }

    /// Its owner has been told of all that was in the buffer of a receive.
    pub(super) fn release(&mut self, receive: ListBox<Receive>) {
        self.released.push(receive);
    }

    /// Takes such a receive, to be posted again.
    pub(super) fn take_released(&mut self) -> Option<ListBox<Receive>> {
        self.released.pop()
    }

    /// How many there are.
    pub(super) fn released(&self) -> usize {
        self.released.len()
    }

    /// The receives of all buffers that have something in them and take no more.
    pub(super) fn each_spent(&self, see: impl FnMut(&Receive)) {
        let spent = self
            .buffers
            .iter()
            .filter_map(|buffer| buffer.spent.as_deref());
        spent.for_each(see);
    }

    /// Takes the receives of all buffers that have something in them and take no more.
    pub(super) fn take_spent(&mut self) -> BoxList<Receive> {
        let mut all = BoxList::new();
        for buffer in &mut self.buffers {
            if let Some(receive) = mem::replace(buffer, Buffer::idle()).spent {
                all.push(receive);
            }
        }
        all
    }
}

#[kunit_tests(kofi_rdm_buffers)]
mod tests {
    use super::*;
    use crate::util::random::SeededRandom;

    fn opened(
        buffers: &mut Buffers,
        number: u32,
        memory: &mut [u8],
        least: usize,
    ) -> Result<usize> {
        let mut receive = ListBox::new(Receive::idle(number, 0, false))?;
        receive.context = Context::new(memory.as_mut_ptr().cast());
        let at = memory.as_ptr() as usize;
        // SAFETY: The memory is never written to.
        let into = unsafe { DstBuf::from_bytes(memory) }?;
        buffers.open(&receive, (at, into), least);
        Ok(at)
    }

    #[test]
    fn ep_11_messages_lie_one_behind_the_other() -> Result {
        let mut memory = VVec::from_elem(0, 1000, GFP_KERNEL)?;
        let mut random = SeededRandom::new(1);
        for alignment in [1, 8, 64] {
            for _ in 0..100 {
                let mut buffers = Buffers::new(0, 2, alignment)?;
                let least = 1 + random.next_below(200) as usize;
                let at = opened(&mut buffers, 1, &mut memory, least)?;
                let mut next = at;
                while buffers.takes_more(1) {
                    let left = at + 1000 - next;
                    assert!(next == at || left >= least);
                    let len = random.next_below(150);
                    let place = buffers.cut(1, len).ok_or(Errno::EOTHER)?;
                    assert_eq!((place.of, place.at), (1, next));
                    assert_eq!(place.into.len(), left.min(len as usize));
                    next = (next + place.into.len()).next_multiple_of(alignment);
                }
                assert!((at + 1000).saturating_sub(next) < least);
                assert!(buffers.cut(1, 0).is_none() && buffers.cut(0, 0).is_none());
            }
        }
        Ok(())
    }

    #[test]
    fn ep_11_a_short_buffer_takes_one_message() -> Result {
        let mut memory = VVec::from_elem(0, 10, GFP_KERNEL)?;
        let mut buffers = Buffers::new(0, 1, 1)?;
        for len in [0, 10] {
            opened(&mut buffers, 0, &mut memory[..len], 100)?;
            let place = buffers.cut(0, u64::MAX);
            assert!(place.is_some_and(|place| place.into.len() == len));
            assert!(!buffers.takes_more(0));
        }
        Ok(())
    }

    #[test]
    fn ep_11_the_last_that_is_over_gives_a_buffer_back() -> Result {
        let mut memory = VVec::from_elem(0, 100, GFP_KERNEL)?;
        let mut buffers = Buffers::new(0, 1, 1)?;
        opened(&mut buffers, 0, &mut memory, 60)?;
        assert!(buffers.cut(0, 20).is_some());
        assert!(buffers.over(0).is_none() && buffers.takes_more(0));
        assert!(buffers.cut(0, 10).is_some() && buffers.cut(0, 30).is_some());
        assert!(!buffers.takes_more(0));
        assert!(buffers
            .retire(ListBox::new(Receive::idle(0, 0, false))?)
            .is_none());
        assert!(buffers.over(0).is_none());
        assert!(buffers.over(0).is_some() && buffers.over(0).is_none());
        // At the end of the endpoint it comes back whatever is in it, once.
        opened(&mut buffers, 0, &mut memory, 60)?;
        assert!(buffers.cut(0, 50).is_some());
        assert!(buffers
            .retire(ListBox::new(Receive::idle(0, 0, false))?)
            .is_none());
        assert_eq!(buffers.take_spent().len(), 1);
        assert!(buffers.over(0).is_none());
        // One that has nothing in it comes back at once.
        opened(&mut buffers, 0, &mut memory, 60)?;
        assert!(buffers
            .retire(ListBox::new(Receive::idle(0, 0, false))?)
            .is_some());
        assert!(buffers.cut(0, 0).is_none());
        assert!(buffers.take_spent().is_empty());
        Ok(())
    }
}
