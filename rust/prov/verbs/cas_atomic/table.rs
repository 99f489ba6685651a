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
pub(in super::super) const CELLS: u32 = 8;

/// Where the device puts what it finds. Caches that do not see it lose nothing else.
#[repr(align(128))]
struct ResultWord(Atomic<u64>);

/// What is in a cell.
struct CasSlotState {
    exchange: Option<CasAtomic>,
    /// Whether its last request has completed, and its reader is to be told.
    is_over: bool,
    /// That of the landing, while a request is posted.
    mapping: Option<DmaMapping>,
}

#[pin_data]
struct CasSlot {
    landing: ResultWord,
    #[pin]
    content: FastLockIrq<CasSlotState>,
}

/// The cells of a queue, allocated with it.
pub(in super::super) struct CasAtomicTable {
    cells: KVec<Pin<KBox<CasSlot>>>,
    /// Bit by bit, those that are used ...
    busy: Atomic<u32>,
    /// ... and those of them with something to be posted.
    ready: Atomic<u32>,
    /// How many are not over.
    under_way: Atomic<u32>,
    pub(super) pd: Arc<Pd>,
    pub(super) mover: Arc<CasProgressWork>,
}

impl CasAtomicTable {
    /// None under way. May sleep.
    pub(in super::super) fn new(pd: Arc<Pd>) -> Result<Self> {
        let mut cells = KVec::with_capacity(CELLS as usize, GFP_KERNEL)?;
        for _ in 0..CELLS {
            let cell = KBox::pin_init(
                pin_init!(CasSlot {
                    landing: ResultWord(Atomic::new(0)),
                    content <- FastLockIrq::new(
                        CasSlotState { exchange: None, is_over: false, mapping: None },
                        c"kofi::Exchange",
                        static_lock_class!(),
                    ),
                }),
                GFP_KERNEL,
            )?;
            cells.push(cell, GFP_KERNEL)?;
        }
        Ok(Self {
            cells,
            busy: Atomic::new(0),
            ready: Atomic::new(0),
            under_way: Atomic::new(0),
            pd,
            mover: CasProgressWork::new()?,
        })
    }

    /// Whether there are any that are not over.
    pub(super) fn are_under_way(&self) -> bool {
        self.under_way.load(Acquire) > 0
    }

    fn cell(&self, index: u32) -> Option<&CasSlot> {
        self.cells.get(index as usize).map(|cell| &**cell)
    }

    /// Finds a cell for one; -FI_EAGAIN when there is none.
    #[inline(never)]
    pub(super) fn put(&self, exchange: CasAtomic) -> Result<u32> {
        let mut busy = self.busy.load(Relaxed);
        loop {
            let index = (!busy).trailing_zeros();
            let cell = self.cell(index).ok_or(Errno::EAGAIN)?;
            match self.busy.cmpxchg(busy, busy | 1 << index, Full) {
                Ok(_) => {
                    let mut content = cell.content.lock();
                    content.exchange = Some(exchange);
                    content.is_over = false;
                    let _ = self.under_way.fetch_add(1, Full);
                    return Ok(index);
                }
                Err(now) => busy = now,
            }
        }
    }

    /// What the consumer is told in the end of what is in a cell.
    pub(super) fn told(&self, index: u32) -> Option<AtomicComp> {
        let content = self.cell(index)?.content.lock();
        content.exchange.as_ref().map(|exchange| exchange.told)
    }

    /// Ends the use of a cell; the same, and what has not been unmapped.
    pub(super) fn take(&self, index: u32) -> Option<(AtomicComp, Option<DmaMapping>)> {
        let mut content = self.cell(index)?.content.lock();
        let exchange = content.exchange.take()?;
        let mapping = content.mapping.take();
        if !content.is_over {
            let _ = self.under_way.fetch_sub(1, Full);
        }
        drop(content);
        let _ = self.busy.fetch_sub(1 << index, Full);
        Some((exchange.told, mapping))
    }

    /// Keeps the mapping of the landing until [`Self::answer`] or [`Self::take`].
    pub(super) fn keep(&self, index: u32, mapping: DmaMapping) {
        if let Some(cell) = self.cell(index) {
            cell.content.lock().mapping = Some(mapping);
        }
    }

    /// The mapping of the landing, which nothing writes to any more.
    pub(super) fn let_go(&self, index: u32) -> Option<DmaMapping> {
        self.cell(index)?.content.lock().mapping.take()
    }

    /// There is something to be posted.
    pub(super) fn set_ready(&self, index: u32) {
        let _ = self.ready.fetch_add(1 << index, Full);
    }

    /// Those for which there is, which are the caller's to post.
    pub(super) fn take_ready(&self) -> impl Iterator<Item = u32> {
        let ready = self.ready.xchg(0, Full);
        (0..CELLS).filter(move |index| ready & (1 << index) != 0)
    }

    /// What an operation asks of the device, and where the answer goes.
    pub(super) fn ask(&self, index: u32) -> Option<(CasRequest, usize)> {
        let cell = self.cell(index)?;
        let ask = cell.content.lock().exchange.as_ref()?.ask();
        Some((ask, cell.landing.0.as_ptr() as usize))
    }

    /// The device has answered, or failed.
    pub(super) fn answer(&self, index: u32, is_success: bool) -> CasProgress {
        let Some(cell) = self.cell(index) else {
            return CasProgress::Lost;
        };
        let mut content = cell.content.lock();
        let progress = match &mut content.exchange {
            Some(exchange) if is_success => exchange.answer(cell.landing.0.load(Relaxed)),
            _ => CasProgress::Over,
        };
        if progress == CasProgress::Over && is_success {
            if let Some(exchange) = &content.exchange {
                exchange.deliver();
            }
        }
        if progress != CasProgress::Again {
            content.is_over = true;
            let _ = self.under_way.fetch_sub(1, Full);
        }
        progress
    }

    /// Those that are used.
    pub(super) fn used(&self) -> impl Iterator<Item = u32> {
        let busy = self.busy.load(Acquire);
        (0..CELLS).filter(move |index| busy & (1 << index) != 0)
    }
}
