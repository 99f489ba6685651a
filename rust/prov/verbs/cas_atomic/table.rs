// SPDX-License-Identifier: GPL-2.0

//! The operations of a queue that take several requests, each in a cell from its first request until
//! its reader has been told.
//!
//! A cell has one user at a time, whom the bits tell: the poster, who has found it idle or with something
//! to be posted, and after the post whoever takes the completion. The lock in it only says so to the
//! compiler; it is a leaf.

use super::{
    progress::CasProgressWork,
    AtomicComp,
    CasAtomic,
    CasProgress,
    CasRequest, //
};
use crate::{
    abi::{
        lock::FastLockIrq,
        Errno,
        Result, //
    },
    rdma::{
        dma::DmaMapping,
        pd::Pd, //
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed, //
        },
        static_lock_class,
        Arc, //
    },
};

/// How many operations of a queue can be under way.
pub(in super::super) const MAX_CAS_OPS: u32 = 8;

/// Where the device puts what it finds. Caches that do not see it lose nothing else.
#[repr(align(128))]
struct ResultWord(Atomic<u64>);

/// What is in a cell.
struct CasSlotState {
    op: Option<CasAtomic>,
    /// Whether its last request has completed, and its reader is to be told.
    is_done: bool,
    /// That of the landing, while a request is posted.
    mapping: Option<DmaMapping>,
}

#[pin_data]
struct CasSlot {
    result: ResultWord,
    #[pin]
    state: FastLockIrq<CasSlotState>,
}

/// The cells of a queue, allocated with it.
pub(in super::super) struct CasAtomicTable {
    slots: KVec<Pin<KBox<CasSlot>>>,
    /// Bit by bit, those that are used ...
    used_mask: Atomic<u32>,
    /// ... and those of them with something to be posted.
    ready_mask: Atomic<u32>,
    /// How many are not over.
    in_flight: Atomic<u32>,
    pub(super) pd: Arc<Pd>,
    pub(super) progress: Arc<CasProgressWork>,
}

impl CasAtomicTable {
    /// None under way. May sleep.
    pub(in super::super) fn new(pd: Arc<Pd>) -> Result<Self> {
        let mut cells = KVec::with_capacity(MAX_CAS_OPS as usize, GFP_KERNEL)?;
        for _ in 0..MAX_CAS_OPS {
            let cell = KBox::pin_init(
                pin_init!(CasSlot {
                    result: ResultWord(Atomic::new(0)),
                    state <- FastLockIrq::new(
                        CasSlotState { op: None, is_done: false, mapping: None },
                        c"kofi::Exchange",
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

    /// Whether there are any that are not over.
    pub(super) fn has_in_flight(&self) -> bool {
        self.in_flight.load(Acquire) > 0
    }

    fn slot(&self, index: u32) -> Option<&CasSlot> {
        self.slots.get(index as usize).map(|cell| &**cell)
    }

    /// Finds a cell for one; -FI_EAGAIN when there is none.
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

    /// What the consumer is told in the end of what is in a cell.
    pub(super) fn completion(&self, index: u32) -> Option<AtomicComp> {
        let content = self.slot(index)?.state.lock();
        content.op.as_ref().map(|exchange| exchange.completion)
    }

    /// Ends the use of a cell; the same, and what has not been unmapped.
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

    /// Keeps the mapping of the landing until [`Self::answer`] or [`Self::take`].
    pub(super) fn set_mapping(&self, index: u32, mapping: DmaMapping) {
        if let Some(cell) = self.slot(index) {
            cell.state.lock().mapping = Some(mapping);
        }
    }

    /// The mapping of the landing, which nothing writes to any more.
    pub(super) fn take_mapping(&self, index: u32) -> Option<DmaMapping> {
        self.slot(index)?.state.lock().mapping.take()
    }

    /// There is something to be posted.
    pub(super) fn set_ready(&self, index: u32) {
        let _ = self.ready_mask.fetch_add(1 << index, Full);
    }

    /// Those for which there is, which are the caller's to post.
    pub(super) fn take_ready(&self) -> impl Iterator<Item = u32> {
        let ready = self.ready_mask.xchg(0, Full);
        (0..MAX_CAS_OPS).filter(move |index| ready & (1 << index) != 0)
    }

    /// What an operation asks of the device, and where the answer goes.
    pub(super) fn next_request(&self, index: u32) -> Option<(CasRequest, usize)> {
        let cell = self.slot(index)?;
        let request = cell.state.lock().op.as_ref()?.next_request();
        Some((request, cell.result.0.as_ptr() as usize))
    }

    /// The device has answered, or failed.
    pub(super) fn handle_result(&self, index: u32, is_success: bool) -> CasProgress {
        let Some(cell) = self.slot(index) else {
            return CasProgress::Contended;
        };
        let mut content = cell.state.lock();
        let progress = match &mut content.op {
            Some(exchange) if is_success => exchange.handle_result(cell.result.0.load(Relaxed)),
            _ => CasProgress::Done,
        };
        if progress == CasProgress::Done && is_success {
            if let Some(exchange) = &content.op {
                exchange.store_results();
            }
        }
        if progress != CasProgress::NextRequest {
            content.is_done = true;
            let _ = self.in_flight.fetch_sub(1, Full);
        }
        progress
    }

    /// Those that are used.
    pub(super) fn used_slots(&self) -> impl Iterator<Item = u32> {
        let busy = self.used_mask.load(Acquire);
        (0..MAX_CAS_OPS).filter(move |index| busy & (1 << index) != 0)
    }
}
