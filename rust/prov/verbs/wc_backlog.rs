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
    pub(super) imm: ImmData,
}

/// Remote data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ImmData {
    /// None.
    None,
    /// Beside a message.
    Send(u32),
    /// Beside a write, which has left the receive's memory alone.
    Write(u32),
}

/// A queue's place in the table of its completion queue, as the upper half of a `wr_id` has it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct WqId(u64);

impl WqId {
    /// That of an index.
    pub(super) fn from_index(index: u32) -> Self {
        Self(u64::from(index) << 32)
    }

    /// That of a work request's queue.
    #[inline]
    pub(super) fn from_wr_id(wr_id: u64) -> Self {
        Self(wr_id & !u64::from(u32::MAX) & !OWNER_MASK)
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
    pub(super) fn cas_wr_id(self, index: u32) -> u64 {
        self.0 | CAS_STEP_BIT | u64::from(index)
    }

    /// That of the receive in a slot which its endpoint shares.
    pub(super) fn srx_wr_id(self, slot: u32) -> u64 {
        self.0 | srx::SRX_WR_ID_BIT | u64::from(slot)
    }
}

/// See [`WqId::cas_wr_id`].
const CAS_STEP_BIT: u64 = 1 << 62;

/// What no `wr_id` has that is the place and the number of an operation.
const OWNER_MASK: u64 = CAS_STEP_BIT | srx::SRX_WR_ID_BIT;

/// What a work request is of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WrOwner {
    /// An operation with a slot of its queue.
    WqSlot,
    /// One that has a cell instead.
    CasSlot(u32),
    /// A receive that its queue shares with others, which has a slot there.
    SrxSlot(u32),
}

/// Which of its queue's operations a work request is.
#[inline]
pub(super) fn wr_id_seq(wr_id: u64) -> u32 {
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
            imm: match wc.imm_data() {
                None => ImmData::None,
                Some(data) if wc.opcode() == Some(WcOpcode::Recv) => ImmData::Send(data),
                Some(data) => ImmData::Write(data),
            },
        }
    }

    /// A request that the device has not even taken.
    #[cold]
    pub(super) fn from_post_error(wr_id: u64) -> Self {
        Self {
            wr_id,
            status: WcStatus::GENERAL_ERR,
            len: 0,
            imm: ImmData::None,
        }
    }

    /// What the driver says of a failure.
    pub(super) fn vendor_err(&self) -> u32 {
        self.len
    }

    /// Whether it is not reported unless that was asked for: the data beside a peer's write always
    /// is, whatever receive it takes.
    #[inline]
    pub(super) fn may_be_silent(&self) -> bool {
        self.status == WcStatus::SUCCESS && !matches!(self.imm, ImmData::Write(_))
    }

    /// The place of its queue in the completion queue's table.
    #[inline]
    pub(super) fn wq_id(&self) -> WqId {
        WqId::from_wr_id(self.wr_id)
    }

    /// What it is of.
    #[inline]
    pub(super) fn owner(&self) -> WrOwner {
        match self.wr_id & OWNER_MASK {
            0 => WrOwner::WqSlot,
            CAS_STEP_BIT => WrOwner::CasSlot(self.wr_id as u32),
            _ => WrOwner::SrxSlot(self.wr_id as u32),
        }
    }

    /// Which of its queue's operations it is, if it has a slot there.
    #[inline]
    pub(super) fn seq(&self) -> u32 {
        wr_id_seq(self.wr_id)
    }
}

/// A completion that waits for a reader.
#[derive(Clone, Copy)]
pub(super) struct DeferredWc {
    pub(super) wc: PolledWc,
    /// Copy of the operation's slot, which may have been reused since.
    pub(super) slot: WrSlot,
    /// True if the operation is retired only when this completion is read.
    pub(super) retire_on_read: bool,
}

impl DeferredWc {
    /// Returns whether this is the completion of operation `seq` of the queue at `place`.
    fn matches(&self, wq_id: WqId, seq: u32) -> bool {
        self.wc.owner() == WrOwner::WqSlot && self.wc.wq_id() == wq_id && self.wc.seq() == seq
    }

    /// Returns whether it is reported as a failure.
    #[inline]
    pub(super) fn is_failure(&self) -> bool {
        self.wc.status != WcStatus::SUCCESS
    }
}

/// A first-in, first-out ring of fixed size.
#[repr(C)]
pub(super) struct WcBacklog {
    // Nearly always 0, and all that its reader looks at then.
    len: usize,
    head: usize,
    ring: KVVec<Option<DeferredWc>>,
}

impl WcBacklog {
    /// Room for `size` completions. May sleep.
    pub(super) fn new(size: usize) -> Result<Self> {
        Ok(Self {
            ring: KVVec::from_elem(None, size, GFP_KERNEL)?,
            head: 0,
            len: 0,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn ring_index(&self, offset: usize) -> usize {
        let at = self.head + offset;
        if at >= self.ring.len() {
            at - self.ring.len()
        } else {
            at
        }
    }

    /// Appends; -FI_EOVERRUN when full, which the reservation of room excludes.
    pub(super) fn push(&mut self, deferred: DeferredWc) -> Result {
        if self.len == self.ring.len() {
            return Err(Errno::EOVERRUN);
        }
        let at = self.ring_index(self.len);
        self.ring[at] = Some(deferred);
        self.len += 1;
        Ok(())
    }

    /// The oldest.
    pub(super) fn front(&self) -> Option<&DeferredWc> {
        match self.len {
            0 => None,
            _ => self.ring[self.head].as_ref(),
        }
    }

    /// Takes the oldest.
    pub(super) fn pop(&mut self) -> Option<DeferredWc> {
        if self.len == 0 {
            return None;
        }
        let waiting = self.ring[self.head].take();
        self.head = self.ring_index(1);
        self.len -= 1;
        waiting
    }

    /// Calls `change` with the slot kept for operation `seq` of the queue at `place`; false if its completion does
    /// not wait here.
    #[cold]
    pub(super) fn update_slot(
        &mut self,
        wq_id: WqId,
        seq: u32,
        change: impl FnOnce(&mut WrSlot),
    ) -> bool {
        let mut all = self.ring.iter_mut().flatten();
        match all.find(|waiting| waiting.matches(wq_id, seq)) {
            Some(waiting) => {
                change(&mut waiting.slot);
                true
            }
            None => false,
        }
    }

    /// Removes the oldest completions of the queue at `place`, up to the length of `room`, and returns their
    /// number.
    pub(super) fn take_wq(&mut self, wq_id: WqId, out: &mut [Option<DeferredWc>]) -> usize {
        let mut places = out.iter_mut();
        let most = places.len();
        for _ in 0..self.len {
            let Some(waiting) = self.pop() else {
                break;
            };
            match places.len() > 0 && waiting.wc.wq_id() == wq_id {
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
            wc: PolledWc {
                wr_id: WqId::from_index(index).wr_id(seq),
                status: WcStatus::SUCCESS,
                len: 0,
                imm: ImmData::None,
            },
            slot: WrSlot::EMPTY,
            retire_on_read: false,
        }
    }

    #[test]
    fn nudges_belong_to_no_queue() {
        assert!(WqId::from_wr_id(siw_kick::KICK_WR_ID).index() > i32::MAX as usize);
        assert!(PolledWc::from_post_error(siw_kick::KICK_WR_ID).owner() == WrOwner::WqSlot);
    }

    #[test]
    fn each_kind_of_request_keeps_its_place() {
        let place = WqId::from_index(7);
        for (wr_id, part) in [
            (place.wr_id(3), WrOwner::WqSlot),
            (place.cas_wr_id(3), WrOwner::CasSlot(3)),
            (place.srx_wr_id(3), WrOwner::SrxSlot(3)),
        ] {
            let done = PolledWc::from_post_error(wr_id);
            assert!(done.owner() == part && done.wq_id() == place && done.seq() == 3);
        }
    }

    #[test]
    fn keeps_order_across_the_wrap() -> kernel::error::Result {
        let mut backlog = WcBacklog::new(3).map_err(|_| ENOMEM)?;
        for round in 0..10u32 {
            assert!(backlog.push(waiting(1, round)).is_ok());
            assert!(backlog.push(waiting(2, round)).is_ok());
            assert_eq!(backlog.pop().map(|w| w.wc.wq_id().index()), Some(1));
            assert_eq!(backlog.pop().map(|w| w.wc.seq()), Some(round));
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
        let seq = |waiting: Option<DeferredWc>| waiting.map(|waiting| waiting.wc.seq());
        assert_eq!(backlog.take_wq(WqId::from_index(0), &mut room), 2);
        assert_eq!(room.map(seq), [Some(0), Some(2)]);
        assert_eq!(backlog.take_wq(WqId::from_index(0), &mut room), 1);
        assert_eq!(seq(room[0]), Some(4));
        assert_eq!(backlog.take_wq(WqId::from_index(0), &mut room), 0);
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
        assert!(backlog.update_slot(WqId::from_index(1), 1, |slot| slot.flags = 7));
        assert!(!backlog.update_slot(WqId::from_index(1), 3, |_| {}));
        assert!(!backlog.update_slot(WqId::from_index(2), 1, |_| {}));
        let flags = [(); 3].map(|()| backlog.pop().map_or(9, |waiting| waiting.slot.flags));
        assert_eq!(flags, [0, 7, 0]);
        Ok(())
    }
}
