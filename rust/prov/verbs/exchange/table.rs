// SPDX-License-Identifier: GPL-2.0

//! The operations of a queue that take several requests, each in a cell from its first request to the
//! completion of its last one.
//!
//! A cell has one user at a time, whom the bits tell: the poster, who has found it idle or with something
//! to be posted, and after the post whoever takes the completion. The lock in it only says so to the
//! compiler; it is a leaf.

use super::{
    mover::Mover,
    Ask,
    Exchange,
    Progress,
    Told, //
};
use crate::{
    abi::{
        lock::FastLockIrq,
        Errno,
        Result, //
    },
    fi::memory::Context,
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
const CELLS: u32 = 8;

/// Where the device puts what it finds. Caches that do not see it lose nothing else.
#[repr(align(128))]
struct Landing(Atomic<u64>);

#[pin_data]
struct Cell {
    landing: Landing,
    #[pin]
    exchange: FastLockIrq<Option<Exchange>>,
}

/// The cells of a queue, allocated with it.
pub(in super::super) struct Exchanges {
    cells: KVec<Pin<KBox<Cell>>>,
    /// Bit by bit, those that are used ...
    busy: Atomic<u32>,
    /// ... and those of them with something to be posted.
    ready: Atomic<u32>,
    pub(super) mover: Arc<Mover>,
}

impl Exchanges {
    /// None under way. May sleep.
    pub(in super::super) fn new() -> Result<Self> {
        let mut cells = KVec::with_capacity(CELLS as usize, GFP_KERNEL)?;
        for _ in 0..CELLS {
            let cell = KBox::pin_init(
                pin_init!(Cell {
                    landing: Landing(Atomic::new(0)),
                    exchange <- FastLockIrq::new(None, c"kofi::Exchange", static_lock_class!()),
                }),
                GFP_KERNEL,
            )?;
            cells.push(cell, GFP_KERNEL)?;
        }
        Ok(Self {
            cells,
            busy: Atomic::new(0),
            ready: Atomic::new(0),
            mover: Mover::new()?,
        })
    }

    /// Whether there are any.
    pub(super) fn are_under_way(&self) -> bool {
        self.busy.load(Acquire) != 0
    }

    /// Finds a cell for one; -FI_EAGAIN when there is none.
    pub(super) fn put(&self, exchange: Exchange) -> Result<u32> {
        let mut busy = self.busy.load(Relaxed);
        loop {
            let index = (!busy).trailing_zeros();
            let cell = self.cells.get(index as usize).ok_or(Errno::EAGAIN)?;
            match self.busy.cmpxchg(busy, busy | 1 << index, Full) {
                Ok(_) => {
                    *cell.exchange.lock() = Some(exchange);
                    return Ok(index);
                }
                Err(now) => busy = now,
            }
        }
    }

    /// Ends the use of a cell; what the consumer is told, if there was an operation in it.
    pub(super) fn take(&self, index: u32) -> Option<Told> {
        let cell = self.cells.get(index as usize)?;
        let told = cell.exchange.lock().take()?.told;
        let _ = self.busy.fetch_sub(1 << index, Full);
        Some(told)
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
    pub(super) fn ask(&self, index: u32) -> Option<(Ask, *mut u64)> {
        let cell = self.cells.get(index as usize)?;
        let ask = cell.exchange.lock().as_ref()?.ask();
        Some((ask, cell.landing.0.as_ptr()))
    }

    /// The device has answered.
    pub(super) fn answer(&self, index: u32) -> Progress {
        let Some(cell) = self.cells.get(index as usize) else {
            return Progress::Lost;
        };
        let mut exchange = cell.exchange.lock();
        let Some(exchange) = &mut *exchange else {
            return Progress::Lost;
        };
        let progress = exchange.answer(cell.landing.0.load(Relaxed));
        if progress == Progress::Over {
            exchange.deliver();
        }
        progress
    }

    /// Ends the use of all cells, when nothing is posted any more: the consumer's contexts go to
    /// `reclaim`.
    pub(in super::super) fn abandon(&self, reclaim: &mut dyn FnMut(Context)) {
        for index in 0..CELLS {
            if let Some(told) = self.take(index) {
                reclaim(told.context);
            }
        }
    }
}
