// SPDX-License-Identifier: GPL-2.0

//! Slots of the atomic operations of a queue that are built from compare-and-swap work requests. An operation has a
//! slot from its first work request until it is reported.
//!
//! A slot has one user at a time, which `used_mask` and `ready_mask` select: the poster that has found the slot unused
//! or ready, and after the post the thread that polls the completion. So the lock in a slot is never contended; it is
//! there because the compiler cannot check this rule. It is a leaf in the lock order.

use super::{
    progress::CasProgressWork,
    AtomicComp,
    CasAtomic,
    CasProgress,
    CasRequest, //
};
use crate::prov::verbs::prelude::*;

/// Number of slots of a queue.
pub(in super::super) const MAX_CAS_OPS: u32 = 8;

/// A word that devices write. The alignment keeps other data out of its cache line, which is stale after the write if
/// the device is not coherent with the CPU's cache.
#[repr(align(128))]
pub(in super::super) struct DeviceWord(pub(in super::super) Atomic<u64>);

/// State of a slot.
struct CasSlotState {
    op: Option<CasAtomic>,
    /// Set once the last work request has completed. The operation then waits to be reported.
    is_done: bool,
    /// Mapping of the result word while a work request is posted.
    mapping: Option<DmaMapping>,
}

#[pin_data]
struct CasSlot {
    /// Result of the compare-and-swap, which the device writes: the previous value of the remote word.
    result: DeviceWord,
    #[pin]
    state: FastLockIrq<CasSlotState>,
}

/// Slots of a queue, allocated with it.
pub(in super::super) struct CasAtomicTable {
    slots: KVec<Pin<KBox<CasSlot>>>,
    /// Bit mask of the used slots.
    used_mask: Atomic<u32>,
    /// Bit mask of the used slots whose next work request has to be posted.
    ready_mask: Atomic<u32>,
    /// Number of operations that have not completed.
    in_flight: Atomic<u32>,
    pub(super) pd: Arc<Pd>,
    pub(super) progress: Arc<CasProgressWork>,
}

impl CasAtomicTable {
    /// Allocates the slots. May sleep.
    pub(in super::super) fn new(pd: Arc<Pd>) -> Result<Self> {
        let mut cells = KVec::with_capacity(MAX_CAS_OPS as usize, GFP_KERNEL)?;
        for _ in 0..MAX_CAS_OPS {
            let cell = KBox::pin_init(
                pin_init!(CasSlot {
                    result: DeviceWord(Atomic::new(0)),
                    state <- FastLockIrq::new(
                        CasSlotState { op: None, is_done: false, mapping: None },
                        c"kofi::verbs::CasSlot",
                        static_lock_class!(),
                    ),
                }),
                GFP_KERNEL,
            )?;
            cells.push(cell, GFP_KERNEL)?;
        }
        Ok(Self {
            slots: cells,
            used_mask: Atomic::new(0),
            ready_mask: Atomic::new(0),
            in_flight: Atomic::new(0),
            pd,
            progress: CasProgressWork::new()?,
        })
    }

    /// Returns whether an operation has not completed.
    pub(super) fn has_in_flight(&self) -> bool {
        self.in_flight.load(Acquire) > 0
    }

    fn slot(&self, index: u32) -> Option<&CasSlot> {
        self.slots.get(index as usize).map(|cell| &**cell)
    }

    /// Puts an operation into a free slot, and returns the index; -FI_EAGAIN if there is none.
    #[inline(never)]
    pub(super) fn insert(&self, op: CasAtomic) -> Result<u32> {
        let mut busy = self.used_mask.load(Relaxed);
        loop {
            let index = (!busy).trailing_zeros();
            let cell = self.slot(index).ok_or(Errno::EAGAIN)?;
            match self.used_mask.cmpxchg(busy, busy | 1 << index, Full) {
                Ok(_) => {
                    let mut content = cell.state.lock();
                    content.op = Some(op);
                    content.is_done = false;
                    let _ = self.in_flight.fetch_add(1, Full);
                    return Ok(index);
                }
                Err(now) => busy = now,
            }
        }
    }

    /// Returns the completion data of the operation in a slot; `None` if the slot is free.
    pub(super) fn completion(&self, index: u32) -> Option<AtomicComp> {
        let content = self.slot(index)?.state.lock();
        content.op.as_ref().map(|exchange| exchange.completion)
    }

    /// Frees a slot. Returns the operation's completion data, and the mapping of the result word if it still exists.
    pub(super) fn remove(&self, index: u32) -> Option<(AtomicComp, Option<DmaMapping>)> {
        let mut content = self.slot(index)?.state.lock();
        let op = content.op.take()?;
        let mapping = content.mapping.take();
        if !content.is_done {
            let _ = self.in_flight.fetch_sub(1, Full);
        }
        drop(content);
        let _ = self.used_mask.fetch_sub(1 << index, Full);
        Some((op.completion, mapping))
    }

    /// Keeps the mapping of the result word until [`Self::take_mapping`] or [`Self::remove`].
    pub(super) fn set_mapping(&self, index: u32, mapping: DmaMapping) {
        if let Some(cell) = self.slot(index) {
            cell.state.lock().mapping = Some(mapping);
        }
    }

    /// Takes the mapping of the result word, which the device does not write any more.
    pub(super) fn take_mapping(&self, index: u32) -> Option<DmaMapping> {
        self.slot(index)?.state.lock().mapping.take()
    }

    /// Marks an operation as ready for its next work request.
    pub(super) fn set_ready(&self, index: u32) {
        let _ = self.ready_mask.fetch_add(1 << index, Full);
    }

    /// Takes the indices of the operations that are ready; the caller posts their next work requests.
    pub(super) fn take_ready(&self) -> impl Iterator<Item = u32> {
        let ready = self.ready_mask.xchg(0, Full);
        (0..MAX_CAS_OPS).filter(move |index| ready & (1 << index) != 0)
    }

    /// Returns the next work request of an operation, and the address of the result word.
    pub(super) fn next_request(&self, index: u32) -> Option<(CasRequest, usize)> {
        let cell = self.slot(index)?;
        let request = cell.state.lock().op.as_ref()?.next_request();
        Some((request, cell.result.0.as_ptr() as usize))
    }

    /// Handles the completion of an operation's work request. After a failure the operation is done.
    pub(super) fn handle_result(&self, index: u32, is_success: bool) -> CasProgress {
        let Some(cell) = self.slot(index) else {
            return CasProgress::Contended;
        };
        let mut content = cell.state.lock();
        let progress = match &mut content.op {
            Some(op) if is_success => {
                let progress = op.handle_result(cell.result.0.load(Relaxed));
                if progress == CasProgress::Done {
                    op.store_results();
                }
                progress
            }
            _ => CasProgress::Done,
        };
        if progress != CasProgress::NextRequest {
            content.is_done = true;
            let _ = self.in_flight.fetch_sub(1, Full);
        }
        progress
    }

    /// Returns the indices of the used slots.
    pub(super) fn used_slots(&self) -> impl Iterator<Item = u32> {
        let busy = self.used_mask.load(Acquire);
        (0..MAX_CAS_OPS).filter(move |index| busy & (1 << index) != 0)
    }
}
