// SPDX-License-Identifier: GPL-2.0

//! Posts of several work requests in a row, with the queue locked from the first to the last.

use super::{
    Producer,
    ReservedSlot, //
};
use crate::prov::verbs::prelude::*;

impl WorkQueue {
    /// Posts `count` operations; posts none if the queue has not that many free slots, or, with
    /// `reserves_entries`, the completion queue has not that many free entries. `post(slot, i)`
    /// posts operation `i`.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN, the errors of [`Self::reserve`], and those of `post`. The error comes with the
    /// index and the sequence number of the last operation that has been posted, if any.
    ///
    /// # Safety
    ///
    /// The call is made for a data call; `op_at` and `post` do not lock the queue.
    pub(in crate::prov::verbs) unsafe fn post_all(
        &self,
        (count, reserves_entries): (u32, bool),
        op_at: impl Fn(u32) -> OpDesc,
        mut post: impl FnMut(&mut ReservedSlot<'_>, u32) -> Result,
    ) -> core::result::Result<(), (Errno, Option<(u32, u32)>)> {
        let locked = self.lock_with_space(count, reserves_entries);
        let (mut producer, has_entries) = locked.map_err(|errno| (errno, None))?;
        let mut last = None;
        for number in 0..count {
            let op = op_at(number);
            let mut slot = self
                .reserve_locked(producer, &op, has_entries)
                .map_err(|errno| (errno, last))?;
            let posted = post(&mut slot, number);
            let settled;
            (producer, settled) = slot.finish_one(&op, posted);
            if let Err(errno) = settled {
                if let (true, Some(target)) = (has_entries, &producer.target) {
                    // `finish_one` has released the entry of this one.
                    target.cq.release_entries(count - 1 - number);
                }
                return Err((errno, last));
            }
            last = Some((number, producer.next_seq.wrapping_sub(1)));
        }
        Ok(())
    }

    /// Locks the queue for the post of `count` operations, and returns whether their entries of the
    /// completion queue are reserved, which is done with `reserves_entries` if entries are counted.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN without that many free slots or entries, -FI_EOPBADSTATE without a target.
    fn lock_with_space(
        &self,
        count: u32,
        reserves_entries: bool,
    ) -> Result<(BiasedGuard<'_, Producer>, bool)> {
        let find = |producer: &Producer| -> Result<Option<bool>> {
            let used = producer.next_seq.wrapping_sub(self.tail.load(Acquire));
            let target = producer.target.as_ref().ok_or(Errno::EOPBADSTATE)?;
            let has_slots = count <= self.depth.saturating_sub(used);
            let is_counted = reserves_entries && producer.is_accounting;
            let has_space = has_slots && (!is_counted || target.cq.reserve_entries(count));
            Ok(has_space.then_some(is_counted))
        };
        let mut producer = self.lock_data();
        let mut found = find(&producer)?;
        if found.is_none() {
            let cq;
            (producer, cq) = self.retire_silent(producer)?;
            found = find(&producer)?;
            if found.is_none() && producer.is_accounting {
                cq.set_entry_waiter();
                found = find(&producer)?;
            }
            if found.is_none() {
                drop(producer);
                return Err(self.reject_full(&cq));
            }
        }
        Ok((producer, found == Some(true)))
    }
}
