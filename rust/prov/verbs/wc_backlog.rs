// SPDX-License-Identifier: GPL-2.0

//! Completions that were taken from a device before a consumer asked for them.
//!
//! A failure waits here for its reader, with all completions after it. A drain, or a poster that needs room, adds
//! the completions that it polls. Each of these is reported; silent operations are retired when they are polled.
//! The ring is as large as the completion queue and allocated with it, so that it cannot overflow.

use super::{
    srx,
    wr_ring::WrSlot, //
};
use crate::{
    abi::{
        Errno,
        Result, //
    },
    rdma::{
        cq::{
            Wc,
            WcOpcode,
            WcStatus, //
        },
        siw_kick, //
    },
};
use kernel::prelude::*;

/// What is kept of a work completion.
#[derive(Clone, Copy)]
pub(super) struct PolledWc {
    pub(super) wr_id: u64,
    pub(super) status: WcStatus,
    /// Bytes; of a failure, what the driver says of it.
    pub(super) len: u32,
    /// What the peer gave beside a message or a write.
    pub(super) brought: ImmData,
}

/// Remote data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ImmData {
    /// None.
    Nothing,
    /// Beside a message.
    Message(u32),
    /// Beside a write, which has left the receive's memory alone.
    Write(u32),
}

/// A queue's place in the table of its completion queue, as the upper half of a `wr_id` has it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct WqId(u64);

impl WqId {
    /// That of an index.
    pub(super) fn new(index: u32) -> Self {
        Self(u64::from(index) << 32)
    }

    /// That of a work request's queue.
    #[inline]
    pub(super) fn of(wr_id: u64) -> Self {
        Self(wr_id & !u64::from(u32::MAX) & !OTHER)
    }

    /// The index.
    #[inline]
    pub(super) fn index(self) -> usize {
        (self.0 >> 32) as usize
    }

    /// The `wr_id` of the queue's operation `seq`.
    #[inline(always)]
    pub(super) fn wr_id(self, seq: u32) -> u64 {
        self.0 | u64::from(seq)
    }

    /// That of a request of the operation in one of the queue's cells: to who reads in a hurry, a place
    /// that no table has.
    pub(super) fn step_id(self, cell: u32) -> u64 {
        self.0 | STEP | u64::from(cell)
    }

    /// That of the receive in a slot which its endpoint shares.
    pub(super) fn shared_id(self, slot: u32) -> u64 {
        self.0 | srx::WR_ID | u64::from(slot)
    }
}

/// See [`WqId::step_id`].
const STEP: u64 = 1 << 62;

/// What no `wr_id` has that is the place and the number of an operation.
const OTHER: u64 = STEP | srx::WR_ID;

/// What a work request is of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WrOwner {
    /// An operation with a slot of its queue.
    Slot,
    /// One that has a cell instead.
    Cell(u32),
    /// A receive that its queue shares with others, which has a slot there.
    Shared(u32),
}

/// Which of its queue's operations a work request is.
#[inline]
pub(super) fn seq_of(wr_id: u64) -> u32 {
    wr_id as u32
}

impl PolledWc {
    #[inline]
    pub(super) fn new(wc: &Wc) -> Self {
        Self {
            wr_id: wc.wr_id(),
            status: wc.status(),
            len: match wc.is_success() {
                true => wc.byte_len(),
                false => wc.vendor_err(),
            },
            brought: match wc.imm() {
                None => ImmData::Nothing,
                Some(data) if wc.opcode() == Some(WcOpcode::Recv) => ImmData::Message(data),
                Some(data) => ImmData::Write(data),
            },
        }
    }

    /// A request that the device has not even taken.
    #[cold]
    pub(super) fn refused(wr_id: u64) -> Self {
        Self {
            wr_id,
            status: WcStatus::GENERAL_ERR,
            len: 0,
            brought: ImmData::Nothing,
        }
    }

    /// What the driver says of a failure.
    pub(super) fn vendor(&self) -> u32 {
        self.len
    }

    /// Whether it is not reported unless that was asked for: the data beside a peer's write always
    /// is, whatever receive it takes.
    #[inline]
    pub(super) fn is_unheard(&self) -> bool {
        self.status == WcStatus::SUCCESS && !matches!(self.brought, ImmData::Write(_))
    }

    /// The place of its queue in the completion queue's table.
    #[inline]
    pub(super) fn place(&self) -> WqId {
        WqId::of(self.wr_id)
    }

    /// What it is of.
    #[inline]
    pub(super) fn part(&self) -> WrOwner {
        match self.wr_id & OTHER {
            0 => WrOwner::Slot,
            STEP => WrOwner::Cell(self.wr_id as u32),
            _ => WrOwner::Shared(self.wr_id as u32),
        }
    }

    /// Which of its queue's operations it is, if it has a slot there.
    #[inline]
    pub(super) fn seq(&self) -> u32 {
        seq_of(self.wr_id)
    }
}

/// A completion that waits for a reader.
#[derive(Clone, Copy)]
pub(super) struct DeferredWc {
    pub(super) done: PolledWc,
    /// Copy of the operation's slot, which may have been reused since.
    pub(super) slot: WrSlot,
    /// True if the operation is retired only when this completion is read.
    pub(super) is_late: bool,
}

impl DeferredWc {
    /// Returns whether this is the completion of operation `seq` of the queue at `place`.
    fn is_of(&self, place: WqId, seq: u32) -> bool {
        self.done.part() == WrOwner::Slot && self.done.place() == place && self.done.seq() == seq
    }

    /// Returns whether it is reported as a failure.
    #[inline]
    pub(super) fn is_failure(&self) -> bool {
        self.done.status != WcStatus::SUCCESS
    }
}

/// A first-in, first-out ring of fixed size.
#[repr(C)]
pub(super) struct WcBacklog {
    // Nearly always 0, and all that its reader looks at then.
    len: usize,
    first: usize,
    ring: KVVec<Option<DeferredWc>>,
}

impl WcBacklog {
    /// Room for `size` completions. May sleep.
    pub(super) fn new(size: usize) -> Result<Self> {
        Ok(Self {
            ring: KVVec::from_elem(None, size, GFP_KERNEL)?,
            first: 0,
            len: 0,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn at(&self, offset: usize) -> usize {
        let at = self.first + offset;
        if at >= self.ring.len() {
            at - self.ring.len()
        } else {
            at
        }
    }

    /// Appends; -FI_EOVERRUN when full, which the reservation of room excludes.
    pub(super) fn push(&mut self, waiting: DeferredWc) -> Result {
        if self.len == self.ring.len() {
            return Err(Errno::EOVERRUN);
        }
        let at = self.at(self.len);
        self.ring[at] = Some(waiting);
        self.len += 1;
        Ok(())
    }

    /// The oldest.
    pub(super) fn front(&self) -> Option<&DeferredWc> {
        match self.len {
            0 => None,
            _ => self.ring[self.first].as_ref(),
        }
    }

    /// Takes the oldest.
    pub(super) fn pop(&mut self) -> Option<DeferredWc> {
        if self.len == 0 {
            return None;
        }
        let waiting = self.ring[self.first].take();
        self.first = self.at(1);
        self.len -= 1;
        waiting
    }

    /// Calls `change` with the slot kept for operation `seq` of the queue at `place`; false if its completion does
    /// not wait here.
    #[cold]
    pub(super) fn change(
        &mut self,
        place: WqId,
        seq: u32,
        change: impl FnOnce(&mut WrSlot),
    ) -> bool {
        let mut all = self.ring.iter_mut().flatten();
        match all.find(|waiting| waiting.is_of(place, seq)) {
            Some(waiting) => {
                change(&mut waiting.slot);
                true
            }
            None => false,
        }
    }

    /// Removes the oldest completions of the queue at `place`, up to the length of `room`, and returns their
    /// number.
    pub(super) fn take_of(&mut self, place: WqId, room: &mut [Option<DeferredWc>]) -> usize {
        let mut places = room.iter_mut();
        let most = places.len();
        for _ in 0..self.len {
            let Some(waiting) = self.pop() else {
                break;
            };
            match places.len() > 0 && waiting.done.place() == place {
                true => {
                    if let Some(place) = places.next() {
                        *place = Some(waiting);
                    }
                }
                false => {
                    // There is room: one has just been taken.
                    let _ = self.push(waiting);
                }
            }
        }
        most - places.len()
    }
}

#[kunit_tests(kofi_verbs_backlog)]
mod tests {
    use super::*;

    fn waiting(index: u32, seq: u32) -> DeferredWc {
        DeferredWc {
            done: PolledWc {
                wr_id: WqId::new(index).wr_id(seq),
                status: WcStatus::SUCCESS,
                len: 0,
                brought: ImmData::Nothing,
            },
            slot: WrSlot::NONE,
            is_late: false,
        }
    }

    #[test]
    fn nudges_belong_to_no_queue() {
        assert!(WqId::of(siw_kick::WR_ID).index() > i32::MAX as usize);
        assert!(PolledWc::refused(siw_kick::WR_ID).part() == WrOwner::Slot);
    }

    #[test]
    fn each_kind_of_request_keeps_its_place() {
        let place = WqId::new(7);
        for (wr_id, part) in [
            (place.wr_id(3), WrOwner::Slot),
            (place.step_id(3), WrOwner::Cell(3)),
            (place.shared_id(3), WrOwner::Shared(3)),
        ] {
            let done = PolledWc::refused(wr_id);
            assert!(done.part() == part && done.place() == place && done.seq() == 3);
        }
    }

    #[test]
    fn keeps_order_across_the_wrap() -> kernel::error::Result {
        let mut backlog = WcBacklog::new(3).map_err(|_| ENOMEM)?;
        for round in 0..10u32 {
            assert!(backlog.push(waiting(1, round)).is_ok());
            assert!(backlog.push(waiting(2, round)).is_ok());
            assert_eq!(backlog.pop().map(|w| w.done.place().index()), Some(1));
            assert_eq!(backlog.pop().map(|w| w.done.seq()), Some(round));
        }
        assert!(backlog.is_empty());
        Ok(())
    }

    #[test]
    fn takes_out_one_queue_and_keeps_the_others_in_order() -> kernel::error::Result {
        let mut backlog = WcBacklog::new(5).map_err(|_| ENOMEM)?;
        for seq in 0..5u32 {
            assert!(backlog.push(waiting(seq % 2, seq)).is_ok());
        }
        assert!(backlog.push(waiting(0, 9)).is_err());
        let mut room = [None; 2];
        let seq = |waiting: Option<DeferredWc>| waiting.map(|waiting| waiting.done.seq());
        assert_eq!(backlog.take_of(WqId::new(0), &mut room), 2);
        assert_eq!(room.map(seq), [Some(0), Some(2)]);
        assert_eq!(backlog.take_of(WqId::new(0), &mut room), 1);
        assert_eq!(seq(room[0]), Some(4));
        assert_eq!(backlog.take_of(WqId::new(0), &mut room), 0);
        assert_eq!(seq(backlog.pop()), Some(1));
        assert_eq!(seq(backlog.pop()), Some(3));
        assert!(backlog.pop().is_none());
        Ok(())
    }

    #[test]
    fn changes_what_is_kept_of_one_operation() -> kernel::error::Result {
        let mut backlog = WcBacklog::new(3).map_err(|_| ENOMEM)?;
        for seq in 0..3u32 {
            assert!(backlog.push(waiting(1, seq)).is_ok());
        }
        assert!(backlog.change(WqId::new(1), 1, |slot| slot.flags = 7));
        assert!(!backlog.change(WqId::new(1), 3, |_| {}));
        assert!(!backlog.change(WqId::new(2), 1, |_| {}));
        let flags = [(); 3].map(|()| backlog.pop().map_or(9, |waiting| waiting.slot.flags));
        assert_eq!(flags, [0, 7, 0]);
        Ok(())
    }
}
