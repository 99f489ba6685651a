// SPDX-License-Identifier: GPL-2.0

//! Slots of the receives of a shared receive context, for vectors that an entry has no space for. Guarded by the lock
//! of the context.
//!
//! A receive has its slot until it is reported. Its node of the matcher is reused when it matches a message, so a slot
//! has a number of its own, from 1 on, which is the receive's `peer_entry`.

use super::super::iov::{
    DstBuf,
    IovBlock,
    PostedDst,
    MAX_IOV, //
};
use crate::fi::prelude::*;

/// Slots of a context.
pub(super) struct SrxSlots {
    iov_block: IovBlock,
    /// Numbers of the free slots. There is capacity for all.
    free: KVVec<u32>,
}

impl SrxSlots {
    /// Allocates the slots of `count` receives of up to `segments` segments. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(count: usize, segments: usize) -> Result<Self> {
        let mut free = KVVec::new();
        if segments > MAX_IOV {
            for number in 1..=count as u32 {
                free.push(number, GFP_KERNEL)?;
            }
        }
        Ok(Self {
            iov_block: IovBlock::new(1, count, segments)?,
            free,
        })
    }

    /// Returns the memory of a receive, and the number of the slot that has its segments, or 0. A slot is free if fewer
    /// receives are in use than the context has.
    pub(super) fn store(&mut self, into: PostedDst<'_>) -> (DstBuf, usize) {
        let number = match into.is_long() {
            true => self.free.pop().unwrap_or(0),
            false => 0,
        };
        // SAFETY: The slot is free, and no other receive gets it before this one has been reported.
        let into = into.into_entry(|| unsafe { self.iov_block.slot(number) });
        (into, number as usize)
    }

    /// Frees the slot with this number, unless it is 0.
    pub(super) fn put(&mut self, number: usize) {
        if number != 0 {
            let _ = self.free.push_within_capacity(number as u32);
        }
    }
}
