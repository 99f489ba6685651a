// SPDX-License-Identifier: GPL-2.0

//! Backlog of completions that were polled before a consumer asked for them.
//!
//! A failure waits here for its reader, with all completions after it. A drain, or a poster that
//! finds its queue full, adds the completions that it polls. Each completion in the backlog is
//! reported; silent operations are retired when they are polled. The ring is as large as the
//! completion queue and allocated with it, so that it cannot overflow.

use super::{
    prelude::*,
    srx, //
};
use crate::rdma::cq::Wc;

/// The fields of a work completion that are kept.
#[derive(Clone, Copy)]
pub(super) struct PolledWc {
    pub(super) wr_id: u64,
    pub(super) status: WcStatus,
    /// Number of bytes; for a failure, the driver's vendor error.
    pub(super) len: u32,
    /// Immediate data of the peer's message or write.
    pub(super) imm: ImmData,
}

/// Index of a queue in the table of its completion queue, shifted to the upper half of a `wr_id`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct WqId(u64);

impl WqId {
    /// Returns the id for an index.
    pub(super) fn from_index(index: u32) -> Self {
        Self(u64::from(index) << 32)
    }

    /// Returns the id of the queue that a work request was posted to.
    #[inline]
    pub(super) fn from_wr_id(wr_id: u64) -> Self {
        Self(wr_id & !u64::from(u32::MAX) & !OWNER_MASK)
    }

    /// Returns the index.
    #[inline]
    pub(super) fn index(self) -> usize {
        (self.0 >> 32) as usize
    }

    /// Returns the `wr_id` of the queue's operation `seq`.
    #[inline(always)]
    pub(super) fn wr_id(self, seq: u32) -> u64 {
        self.0 | u64::from(seq)
    }

    /// Returns the `wr_id` of a work request of the operation in CAS slot `index`. With its bit,
    /// the upper half is an index that no table has, so that the fast path of a reader leaves the
    /// completion alone.
    pub(super) fn cas_wr_id(self, index: u32) -> u64 {
        self.0 | CAS_STEP_BIT | u64::from(index)
    }

    /// Returns the `wr_id` of the shared receive in slot `slot`, completed for this queue.
    pub(super) fn srx_wr_id(self, slot: u32) -> u64 {
        self.0 | srx::SRX_WR_ID_BIT | u64::from(slot)
    }
}

/// Bit of the `wr_id`s of [`WqId::cas_wr_id`].
const CAS_STEP_BIT: u64 = 1 << 62;

/// Bits that are clear in the `wr_id` of an operation with a slot of its queue.
const OWNER_MASK: u64 = CAS_STEP_BIT | srx::SRX_WR_ID_BIT;

/// Kind of operation that a work request belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WrOwner {
    /// Operation with a slot of its queue.
    Wq,
    /// Operation with a CAS slot.
    Cas(u32),
    /// Shared receive, with a slot of the shared receive context.
    Srx(u32),
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
            imm: wc.imm_data(),
        }
    }

    /// Creates a failed completion for a work request that the device has not taken.
    #[cold]
    pub(super) fn from_post_error(wr_id: u64) -> Self {
        Self {
            wr_id,
            status: WcStatus::GENERAL_ERR,
            len: 0,
            imm: ImmData::None,
        }
    }

    /// Returns whether the completion may go unreported. A failure is always reported, and so are the immediate data
    /// of a peer's write, whichever receive it takes, and a key that the peer has invalidated.
    #[inline]
    pub(super) fn may_be_silent(&self) -> bool {
        self.status == WcStatus::SUCCESS
            && !matches!(self.imm, ImmData::Write(_) | ImmData::Invalidated(_))
    }

    /// Returns the id of its queue.
    #[inline]
    pub(super) fn wq_id(&self) -> WqId {
        WqId::from_wr_id(self.wr_id)
    }

    /// Returns the kind of operation that it belongs to.
    #[inline]
    pub(super) fn owner(&self) -> WrOwner {
        match self.wr_id & OWNER_MASK {
            0 => WrOwner::Wq,
            CAS_STEP_BIT => WrOwner::Cas(self.wr_id as u32),
            _ => WrOwner::Srx(self.wr_id as u32),
        }
    }

    /// Returns the sequence number of its operation, if that has a slot of its queue.
    #[inline]
    pub(super) fn seq(&self) -> u32 {
        self.wr_id as u32
    }
}

/// Completion that waits for a reader.
#[derive(Clone, Copy)]
pub(super) struct DeferredWc {
    pub(super) wc: PolledWc,
    /// Copy of the operation's slot, which may have been reused since.
    pub(super) slot: WrSlot,
    /// True if the operation is retired only when this completion is read.
    pub(super) retire_on_read: bool,
}

impl DeferredWc {
    /// Returns whether this is the completion of operation `seq` of the queue `wq_id`.
    fn matches(&self, wq_id: WqId, seq: u32) -> bool {
        self.wc.owner() == WrOwner::Wq && self.wc.wq_id() == wq_id && self.wc.seq() == seq
    }

    /// Returns whether the completion is reported as a failure.
    #[inline]
    pub(super) fn is_failure(&self) -> bool {
        self.wc.status != WcStatus::SUCCESS
    }
}

/// First-in, first-out ring of fixed size.
#[repr(C)]
pub(super) struct WcBacklog {
    // Nearly always 0, and then the only field that a reader accesses.
    len: usize,
    head: usize,
    ring: KVVec<Option<DeferredWc>>,
}

impl WcBacklog {
    /// Allocates space for `size` completions. May sleep.
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
        at.checked_sub(self.ring.len()).unwrap_or(at)
    }

    /// Appends a completion; -FI_EOVERRUN when full, which the reservation of entries excludes.
    pub(super) fn push(&mut self, deferred: DeferredWc) -> Result {
        if self.len == self.ring.len() {
            return Err(Errno::EOVERRUN);
        }
        let at = self.ring_index(self.len);
        self.ring[at] = Some(deferred);
        self.len += 1;
        Ok(())
    }

    /// Returns the oldest completion.
    pub(super) fn front(&self) -> Option<&DeferredWc> {
        match self.len {
            0 => None,
            _ => self.ring[self.head].as_ref(),
        }
    }

    /// Takes the oldest completion.
    pub(super) fn pop(&mut self) -> Option<DeferredWc> {
        if self.len == 0 {
            return None;
        }
        let waiting = self.ring[self.head].take();
        self.head = self.ring_index(1);
        self.len -= 1;
        waiting
    }

    /// Calls `change` with the slot kept for operation `seq` of the queue `wq_id`; false if its
    /// completion does not wait here.
    #[cold]
    pub(super) fn update_slot(
        &mut self,
        wq_id: WqId,
        seq: u32,
        change: impl FnOnce(&mut WrSlot),
    ) -> bool {
        let mut all = self.ring.iter_mut().flatten();
        let found = all.find(|waiting| waiting.matches(wq_id, seq));
        found.map(|waiting| change(&mut waiting.slot)).is_some()
    }

    /// Removes the oldest completions of the queue `wq_id`, up to the length of `out`, and returns
    /// their number.
    pub(super) fn take_wq(&mut self, wq_id: WqId, out: &mut [Option<DeferredWc>]) -> usize {
        let mut places = out.iter_mut();
        let most = places.len();
        for _ in 0..self.len {
            let Some(waiting) = self.pop() else {
                break;
            };
            let is_its = waiting.wc.wq_id() == wq_id;
            match is_its.then(|| places.next()).flatten() {
                Some(place) => *place = Some(waiting),
                None => {
                    // Cannot fail: a completion has just been removed.
                    let _ = self.push(waiting);
                }
            }
        }
        most - places.len()
    }
}

#[kunit_tests(kofi_verbs_backlog)]
mod tests {
    use super::{
        super::ep::siw_quirk::KICK_WR_ID,
        *, //
    };

    fn deferred_wc(index: u32, seq: u32) -> DeferredWc {
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
    fn kick_wr_id_belongs_to_no_queue() {
        assert!(WqId::from_wr_id(KICK_WR_ID).index() > i32::MAX as usize);
        assert!(PolledWc::from_post_error(KICK_WR_ID).owner() == WrOwner::Wq);
    }

    #[test]
    fn wr_id_encodes_queue_owner_and_sequence() {
        let wq_id = WqId::from_index(7);
        for (wr_id, owner) in [
            (wq_id.wr_id(3), WrOwner::Wq),
            (wq_id.cas_wr_id(3), WrOwner::Cas(3)),
            (wq_id.srx_wr_id(3), WrOwner::Srx(3)),
        ] {
            let done = PolledWc::from_post_error(wr_id);
            assert!(done.owner() == owner && done.wq_id() == wq_id && done.seq() == 3);
        }
    }

    #[test]
    fn backlog_keeps_order_across_the_wraparound() -> kernel::error::Result {
        let mut backlog = WcBacklog::new(3).map_err(|_| ENOMEM)?;
        for round in 0..10u32 {
            assert!(backlog.push(deferred_wc(1, round)).is_ok());
            assert!(backlog.push(deferred_wc(2, round)).is_ok());
            assert_eq!(backlog.pop().map(|w| w.wc.wq_id().index()), Some(1));
            assert_eq!(backlog.pop().map(|w| w.wc.seq()), Some(round));
        }
        assert!(backlog.is_empty());
        Ok(())
    }

    #[test]
    fn take_wq_removes_one_queue_and_preserves_order() -> kernel::error::Result {
        let mut backlog = WcBacklog::new(5).map_err(|_| ENOMEM)?;
        for seq in 0..5u32 {
            assert!(backlog.push(deferred_wc(seq % 2, seq)).is_ok());
        }
        assert!(backlog.push(deferred_wc(0, 9)).is_err());
        let mut taken = [None; 2];
        let seq = |deferred: Option<DeferredWc>| deferred.map(|deferred| deferred.wc.seq());
        assert_eq!(backlog.take_wq(WqId::from_index(0), &mut taken), 2);
        assert_eq!(taken.map(seq), [Some(0), Some(2)]);
        assert_eq!(backlog.take_wq(WqId::from_index(0), &mut taken), 1);
        assert_eq!(seq(taken[0]), Some(4));
        assert_eq!(backlog.take_wq(WqId::from_index(0), &mut taken), 0);
        assert_eq!(seq(backlog.pop()), Some(1));
        assert_eq!(seq(backlog.pop()), Some(3));
        assert!(backlog.pop().is_none());
        Ok(())
    }

    #[test]
    fn update_slot_changes_the_matching_entry_only() -> kernel::error::Result {
        let mut backlog = WcBacklog::new(3).map_err(|_| ENOMEM)?;
        for seq in 0..3u32 {
            assert!(backlog.push(deferred_wc(1, seq)).is_ok());
        }
        assert!(backlog.update_slot(WqId::from_index(1), 1, |slot| slot.flags = 7));
        assert!(!backlog.update_slot(WqId::from_index(1), 3, |_| {}));
        assert!(!backlog.update_slot(WqId::from_index(2), 1, |_| {}));
        let flags = [(); 3].map(|()| backlog.pop().map_or(9, |deferred| deferred.slot.flags));
        assert_eq!(flags, [0, 7, 0]);
        Ok(())
    }
}
