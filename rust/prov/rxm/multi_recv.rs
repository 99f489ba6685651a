// SPDX-License-Identifier: GPL-2.0

//! Multi-receive buffers (FI_MULTI_RECV). Guarded by `EpCore::inner`.
//!
//! A message gets its slot in a buffer when it matches, even if no completion queue entry is free, so later messages
//! do not overtake it. The buffer is returned to the consumer when it takes no more messages and all slots are
//! complete, in whatever order.

pub(super) mod deliver;

use super::{
    inflight::Indexed,
    iov::DstBuf,
    rx_entry::Receive, //
};
use crate::fi::prelude::*;

/// Slot of a message in a buffer.
pub(super) struct MultiRecvSlot {
    /// Number of the buffer's receive.
    pub(super) of: u32,
    /// Context of the consumer.
    pub(super) context: Context,
    /// Address of the slot.
    pub(super) at: usize,
    /// Memory of the slot.
    pub(super) into: DstBuf,
}

/// A buffer.
struct Buffer {
    context: Context,
    /// Address of the free part.
    at: usize,
    /// Free part.
    rest: DstBuf,
    /// The buffer takes no more messages when less than this number of bytes is free.
    min_free: usize,
    takes_more: bool,
    /// Number of slots that are not complete.
    slots: usize,
    /// Receive of a buffer that takes no more messages.
    exhausted: Option<ListBox<Receive>>,
}

impl Buffer {
    /// Creates a buffer that is not in use.
    const fn idle() -> Self {
        Self {
            context: Context::NULL,
            at: 0,
            rest: DstBuf::EMPTY,
            min_free: 0,
            takes_more: false,
            slots: 0,
            exhausted: None,
        }
    }
}

/// Option FI_OPT_MIN_MULTI_RECV: free bytes that a buffer needs to take more messages.
pub(super) struct MinMultiRecv(Atomic<usize>);

impl MinMultiRecv {
    /// Creates the option with its default.
    pub(super) fn new() -> Self {
        Self(Atomic::new(4096))
    }

    /// Returns the value. Any context.
    pub(super) fn get(&self) -> usize {
        self.0.load(Relaxed)
    }

    /// Sets the value for buffers that are posted from now on. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for 0: a buffer would never be returned.
    pub(super) fn set(&self, bytes: usize) -> Result {
        if bytes == 0 {
            return Err(Errno::EINVAL);
        }
        self.0.store(bytes, Relaxed);
        Ok(())
    }
}

/// Multi-receive buffers of a context, by the numbers of their receives.
pub(super) struct MultiRecvBufs {
    /// Number of the first receive.
    first: u32,
    buffers: KVVec<Buffer>,
    /// Receives whose buffers have been returned.
    freed: BoxList<Receive>,
    /// Alignment of slots, except the first of each buffer.
    alignment: usize,
}

impl MultiRecvBufs {
    /// Creates a table without buffers.
    pub(super) const fn none() -> Self {
        Self {
            first: 0,
            buffers: KVVec::new(),
            freed: BoxList::new(),
            alignment: 1,
        }
    }

    /// Creates a table for `most` receives with numbers from `first` on. Slots are aligned to `alignment`, a power of
    /// two, so that writes of the device to one slot do not disturb the next one. May sleep.
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
            freed: BoxList::new(),
            alignment,
        })
    }

    fn get(&mut self, number: u32) -> Option<&mut Buffer> {
        let at = number.checked_sub(self.first)?;
        self.buffers.get_mut(at as usize)
    }

    /// Opens the buffer of a receive: it takes at least one message, and more while `min_free` bytes are free.
    pub(super) fn open(
        &mut self,
        receive: &Receive,
        (at, memory): (usize, DstBuf),
        min_free: usize,
    ) {
        if let Some(buffer) = self.get(receive.number()) {
            *buffer = Buffer {
                context: receive.context,
                at,
                rest: memory,
                min_free,
                takes_more: true,
                slots: 0,
                exhausted: None,
            };
        }
    }

    /// Returns whether a buffer takes more messages.
    pub(super) fn takes_more(&mut self, number: u32) -> bool {
        self.get(number).is_some_and(|buffer| buffer.takes_more)
    }

    /// Takes a slot for a message of `len` bytes, truncated to the free part. Returns `None` if the buffer takes no
    /// more messages.
    pub(super) fn take_slot(&mut self, number: u32, len: u64) -> Option<MultiRecvSlot> {
        let alignment = self.alignment;
        let buffer = self.get(number).filter(|buffer| buffer.takes_more)?;
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let at = buffer.at;
        let before = buffer.rest.len();
        let into = buffer.rest.split_off_front(len, alignment);
        buffer.at = at.wrapping_add(before - buffer.rest.len());
        buffer.takes_more = buffer.rest.len() >= buffer.min_free;
        buffer.slots += 1;
        Some(MultiRecvSlot {
            of: number,
            context: buffer.context,
            at,
            into,
        })
    }

    /// Closes a buffer for further messages. Returns its receive if no slot is in use.
    pub(super) fn close(&mut self, receive: ListBox<Receive>) -> Option<ListBox<Receive>> {
        let Some(buffer) = self.get(receive.number()) else {
            return Some(receive);
        };
        buffer.takes_more = false;
        match buffer.slots {
            0 => Some(receive),
            _ => {
                buffer.exhausted = Some(receive);
                None
            }
        }
    }

    /// Completes a slot. Returns the buffer's receive with the last one.
    pub(super) fn complete_slot(&mut self, number: u32) -> Option<ListBox<Receive>> {
        let buffer = self.get(number)?;
        buffer.slots = buffer.slots.saturating_sub(1);
        match buffer.slots {
            0 => buffer.exhausted.take(),
            _ => None,
        }
    }

    /// Puts back the receive of a buffer that has been returned to the consumer.
    pub(super) fn release(&mut self, receive: ListBox<Receive>) {
        self.freed.push(receive);
    }

    /// Takes a receive for another post.
    pub(super) fn take_freed(&mut self) -> Option<ListBox<Receive>> {
        self.freed.pop()
    }

    /// Returns the number of receives of returned buffers.
    pub(super) fn freed(&self) -> usize {
        self.freed.len()
    }

    /// Calls `see` for the receive of each closed buffer with slots in use.
    pub(super) fn for_each_exhausted(&self, see: impl FnMut(&Receive)) {
        let exhausted = self
            .buffers
            .iter()
            .filter_map(|buffer| buffer.exhausted.as_deref());
        exhausted.for_each(see);
    }

    /// Removes buffers when the endpoint ends, until one is found that takes no more messages, and returns its receive.
    /// Subtracts the removed buffers from `left`, and removes no more.
    pub(super) fn pop_exhausted(&mut self, left: &mut usize) -> Option<ListBox<Receive>> {
        while *left > 0 {
            let buffer = self.buffers.pop()?;
            *left -= 1;
            if buffer.exhausted.is_some() {
                return buffer.exhausted;
            }
        }
        None
    }
}

#[kunit_tests(kofi_rdm_multi_recv)]
mod tests {
    use super::*;
    use crate::util::random::SeededRandom;

    fn opened(
        buffers: &mut MultiRecvBufs,
        number: u32,
        memory: &mut [u8],
        min_free: usize,
    ) -> Result<usize> {
        let mut receive = ListBox::new(Receive::idle(number, 0, false))?;
        receive.context = Context::new(memory.as_mut_ptr().cast());
        let at = memory.as_ptr() as usize;
        // SAFETY: The memory is never written to.
        let into = unsafe { DstBuf::from_bytes(memory) }?;
        buffers.open(&receive, (at, into), min_free);
        Ok(at)
    }

    #[test]
    fn ep_11_messages_are_placed_consecutively() -> Result {
        let mut memory = VVec::from_elem(0, 1000, GFP_KERNEL)?;
        let mut random = SeededRandom::new(1);
        for alignment in [1, 8, 64] {
            for _ in 0..100 {
                let mut buffers = MultiRecvBufs::new(0, 2, alignment)?;
                let min_free = 1 + random.next_below(200) as usize;
                let at = opened(&mut buffers, 1, &mut memory, min_free)?;
                let mut next = at;
                while buffers.takes_more(1) {
                    let left = at + 1000 - next;
                    assert!(next == at || left >= min_free);
                    let len = random.next_below(150);
                    let slot = buffers.take_slot(1, len).ok_or(Errno::EOTHER)?;
                    assert_eq!((slot.of, slot.at), (1, next));
                    assert_eq!(slot.into.len(), left.min(len as usize));
                    next = (next + slot.into.len()).next_multiple_of(alignment);
                }
                assert!((at + 1000).saturating_sub(next) < min_free);
                assert!(buffers.take_slot(1, 0).is_none() && buffers.take_slot(0, 0).is_none());
            }
        }
        Ok(())
    }

    #[test]
    fn ep_11_a_short_buffer_takes_one_message() -> Result {
        let mut memory = VVec::from_elem(0, 10, GFP_KERNEL)?;
        let mut buffers = MultiRecvBufs::new(0, 1, 1)?;
        for len in [0, 10] {
            opened(&mut buffers, 0, &mut memory[..len], 100)?;
            let slot = buffers.take_slot(0, u64::MAX);
            assert!(slot.is_some_and(|slot| slot.into.len() == len));
            assert!(!buffers.takes_more(0));
        }
        Ok(())
    }

    #[test]
    fn ep_11_last_completion_returns_the_buffer() -> Result {
        let mut memory = VVec::from_elem(0, 100, GFP_KERNEL)?;
        let mut buffers = MultiRecvBufs::new(0, 1, 1)?;
        opened(&mut buffers, 0, &mut memory, 60)?;
        assert!(buffers.take_slot(0, 20).is_some());
        assert!(buffers.complete_slot(0).is_none() && buffers.takes_more(0));
        assert!(buffers.take_slot(0, 10).is_some() && buffers.take_slot(0, 30).is_some());
        assert!(!buffers.takes_more(0));
        assert!(buffers
            .close(ListBox::new(Receive::idle(0, 0, false))?)
            .is_none());
        assert!(buffers.complete_slot(0).is_none());
        assert!(buffers.complete_slot(0).is_some() && buffers.complete_slot(0).is_none());
        // When the endpoint ends, the receive is returned once, whatever is in the buffer.
        opened(&mut buffers, 0, &mut memory, 60)?;
        assert!(buffers.take_slot(0, 50).is_some());
        assert!(buffers
            .close(ListBox::new(Receive::idle(0, 0, false))?)
            .is_none());
        assert!(buffers.pop_exhausted(&mut 0).is_none() && buffers.pop_exhausted(&mut 9).is_some());
        assert!(buffers.pop_exhausted(&mut 9).is_none() && buffers.complete_slot(0).is_none());
        // The receive of an empty buffer is returned at once.
        let mut buffers = MultiRecvBufs::new(0, 1, 1)?;
        opened(&mut buffers, 0, &mut memory, 60)?;
        assert!(buffers
            .close(ListBox::new(Receive::idle(0, 0, false))?)
            .is_some());
        assert!(buffers.take_slot(0, 0).is_none());
        assert!(buffers.pop_exhausted(&mut 9).is_none());
        Ok(())
    }
}
