// SPDX-License-Identifier: GPL-2.0

//! One direction of an endpoint: the ring of operations between a post and its completion.
//!
//! The ring is allocated with the endpoint, so that posting never allocates. A poster fills the next
//! slot and posts under `head`, which no completion path takes; whoever reads the completion queue
//! retires slots in order, under that queue's lock, by moving `tail`. A completion also retires the
//! unsignalled operations before it.

use super::cq::Cq;
use crate::{
    abi::{
        Errno,
        Result, //
    },
    fi::memory::Context,
    rdma::{
        attributes::Protocol,
        dma::Mapping,
        pd::Pd,
        qp::Qp, //
    },
};
use core::cell::UnsafeCell;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            AtomicFlag,
            Relaxed,
            Release, //
        },
        new_spinlock_irq,
        Arc,
        SpinLockIrq, //
    },
};

/// What a slot is used for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// An operation whose success is reported.
    Reported,
    /// An operation whose success nobody asked for.
    Silent,
    /// The work request behind which nothing is outstanding any more.
    Marker,
}

/// An operation between its post and its completion.
struct Slot {
    context: Atomic<*mut c_void>,
    usage: Atomic<u32>,
}

impl Slot {
    const fn new() -> Self {
        Self {
            context: Atomic::new(core::ptr::null_mut()),
            usage: Atomic::new(0),
        }
    }
}

/// The DMA mappings of the operations that are under way, a row for each slot.
///
/// # Invariants
///
/// A row is touched by the poster who fills its slot, under `head` and before `tail` lets anyone
/// retire it, and by whoever retires the slot, before `tail` lets anyone fill it again.
struct Mappings {
    pd: Arc<Pd>,
    width: usize,
    rows: KVVec<UnsafeCell<Option<Mapping>>>,
}

// SAFETY: By the type invariant a row has one user at a time.
unsafe impl Send for Mappings {}

// SAFETY: As above.
unsafe impl Sync for Mappings {}

impl Mappings {
    fn new(pd: Arc<Pd>, slots: usize, width: usize) -> Result<Self> {
        let len = slots.checked_mul(width).ok_or(Errno::EINVAL)?;
        let mut rows = KVVec::with_capacity(len, GFP_KERNEL)?;
        for _ in 0..len {
            rows.push(UnsafeCell::new(None), GFP_KERNEL)?;
        }
        Ok(Self { pd, width, rows })
    }

    /// The row of a slot.
    ///
    /// # Safety
    ///
    /// The caller is its user by the type invariant, and calls this once at a time.
    #[allow(clippy::mut_from_ref)]
    unsafe fn row(&self, slot: usize) -> &mut [Option<Mapping>] {
        let start = slot * self.width;
        let cells = &self.rows[start..start + self.width];
        // SAFETY: `UnsafeCell` is transparent, and the caller is the row's only user.
        unsafe { core::slice::from_raw_parts_mut(cells.as_ptr().cast_mut().cast(), cells.len()) }
    }

    /// Undoes what a slot has mapped.
    ///
    /// # Safety
    ///
    /// As of [`Self::row`], and the slot's operation is over.
    unsafe fn undo(&self, slot: usize) {
        // SAFETY: By this function's safety requirement.
        for place in unsafe { self.row(slot) } {
            let Some(mapping) = place.take() else {
                return;
            };
            // SAFETY: It was made on this protection domain for an operation that is over.
            unsafe { self.pd.dma().unmap(mapping) };
        }
    }
}

/// Where a queue posts to, from its endpoint's enabling to its close.
pub(super) struct Target {
    pub(super) qp: Arc<Qp>,
    pub(super) cq: Arc<Cq>,
    /// The queue's place in the completion queue's table, in the upper half of a `wr_id`.
    pub(super) place: u32,
}

/// What posters share.
pub(super) struct Head {
    /// How many operations have been posted, modulo 2^32.
    seq: u32,
    /// How many of the last ones were not signalled.
    unsignalled: u32,
    /// One past the last signalled one.
    signalled: u32,
    target: Option<Target>,
}

/// Which way messages go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Transmit,
    Receive,
}

/// A retired operation.
pub(super) struct Retired {
    pub(super) context: Context,
    pub(super) usage: Use,
    /// How many operations its completion retired, itself included.
    pub(super) count: u32,
}

/// A send or a receive queue.
#[pin_data]
pub(super) struct Queue {
    #[pin]
    head: SpinLockIrq<Head>,
    /// How many operations have been retired, modulo 2^32.
    tail: Atomic<u32>,
    /// One past the last operation whose completion has been taken from the device.
    seen: Atomic<u32>,
    depth: u32,
    /// How many operations in a row may go unsignalled.
    most_unsignalled: u32,
    slots: KVVec<Slot>,
    /// None where a mapping is the address itself.
    mappings: Option<Mappings>,
    direction: Direction,
    drained: AtomicFlag,
}

impl Use {
    fn from_raw(raw: u32) -> Self {
        match raw {
            0 => Self::Reported,
            1 => Self::Silent,
            _ => Self::Marker,
        }
    }
}

impl Queue {
    /// A queue for `depth` operations of at most `width` addresses at a time. May sleep.
    pub(super) fn new(
        pd: &Arc<Pd>,
        depth: u32,
        width: usize,
        direction: Direction,
    ) -> Result<Arc<Self>> {
        // One slot more, for the marker of a drain.
        let len = depth.checked_add(1).ok_or(Errno::EINVAL)? as usize;
        let len = len.checked_next_power_of_two().ok_or(Errno::EINVAL)?;
        let mut slots = KVVec::with_capacity(len, GFP_KERNEL)?;
        for _ in 0..len {
            slots.push(Slot::new(), GFP_KERNEL)?;
        }
        let most_unsignalled = match pd.device().protocol() {
            // siw has no completion for an unsignalled request that fails.
            Protocol::Iwarp => 0,
            // The rest of the queue can be used while these wait to be retired.
            _ => (depth / 4).saturating_sub(1),
        };
        let mappings = if pd.device().uses_virt_dma() {
            None
        } else {
            Some(Mappings::new(pd.clone(), len, width)?)
        };
        Ok(Arc::pin_init(
            pin_init!(Self {
                head <- new_spinlock_irq!(
                    Head { seq: 0, unsignalled: 0, signalled: 0, target: None },
                    "kofi::Queue"
                ),
                tail: Atomic::new(0),
                seen: Atomic::new(0),
                depth,
                most_unsignalled,
                slots,
                mappings,
                direction,
                drained: AtomicFlag::new(false),
            }),
            GFP_KERNEL,
        )?)
    }

    /// Which way its messages go.
    pub(super) fn direction(&self) -> Direction {
        self.direction
    }

    /// The length is a power of two, so that the index survives the wrap of `seq`.
    #[inline]
    fn index(&self, seq: u32) -> usize {
        seq as usize & (self.slots.len() - 1)
    }

    #[inline]
    fn slot(&self, seq: u32) -> &Slot {
        &self.slots[self.index(seq)]
    }

    /// Undoes the mappings of the operations from `from` up to `to`, which are over.
    #[inline]
    fn unmap(&self, mut from: u32, to: u32) {
        if let Some(mappings) = &self.mappings {
            while from != to {
                // SAFETY: The caller retires these slots and moves `tail` past them only later.
                unsafe { mappings.undo(self.index(from)) };
                from = from.wrapping_add(1);
            }
        }
    }

    /// From now on the queue posts to `target`.
    pub(super) fn open(&self, target: Target) {
        self.head.lock().target = Some(target);
    }

    /// The queue posts no more; what it posted to is returned.
    pub(super) fn shut(&self) -> Option<Target> {
        self.head.lock().target.take()
    }

    /// How many operations can be posted now; -FI_EOPBADSTATE when it posts nowhere.
    pub(super) fn room(&self) -> Result<usize> {
        let head = self.head.lock();
        if head.target.is_none() {
            return Err(Errno::EOPBADSTATE);
        }
        let used = head.seq.wrapping_sub(self.tail.load(Relaxed));
        Ok(self.depth.saturating_sub(used) as usize)
    }

    /// Whether a signalled operation has no completion yet, read or not.
    pub(super) fn is_busy(&self) -> bool {
        let signalled = self.head.lock().signalled;
        signalled.wrapping_sub(self.seen.load(Acquire)) as i32 > 0
    }

    /// Notes that the completion of `seq` has been taken from the device. The caller holds the lock
    /// of the queue's completion queue.
    #[inline]
    pub(super) fn saw(&self, seq: u32) {
        self.seen.store(seq.wrapping_add(1), Release);
    }

    /// Where the queue's completions go, while it posts.
    pub(super) fn completion_queue(&self) -> Option<Arc<Cq>> {
        let head = self.head.lock();
        head.target.as_ref().map(|target| target.cq.clone())
    }

    /// Posts one operation: `post` gets where to, the `wr_id`, whether to signal it, and where to
    /// put the mappings that are to be undone when it completes.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN when the queue or its completion queue is full, -FI_EOPBADSTATE when it posts
    /// nowhere, what `post` says.
    #[inline]
    pub(super) fn post(
        &self,
        context: Context,
        usage: Use,
        post: impl FnOnce(&Qp, u64, bool, &mut [Option<Mapping>]) -> Result,
    ) -> Result {
        let mut head = self.head.lock();
        let head = &mut *head;
        let target = head.target.as_ref().ok_or(Errno::EOPBADSTATE)?;
        let used = head.seq.wrapping_sub(self.tail.load(Acquire));
        let limit = self.depth + u32::from(usage == Use::Marker);
        if used >= limit {
            return Err(Errno::EAGAIN);
        }
        // The room of a marker was reserved when the queue was opened.
        if usage != Use::Marker && !target.cq.reserve() {
            return Err(Errno::EAGAIN);
        }
        let signal = usage != Use::Silent
            || head.unsignalled >= self.most_unsignalled
            || target.cq.is_short();
        let slot = self.slot(head.seq);
        slot.context.store(context.as_ptr(), Relaxed);
        slot.usage.store(usage as u32, Relaxed);
        let row: &mut [Option<Mapping>] = match &self.mappings {
            // SAFETY: The slot is ours: `head` is locked, and `tail` shows it to be free.
            Some(mappings) => unsafe { mappings.row(self.index(head.seq)) },
            None => &mut [],
        };
        let wr_id = u64::from(target.place) << 32 | u64::from(head.seq);
        if let Err(error) = post(&target.qp, wr_id, signal, row) {
            if usage != Use::Marker {
                target.cq.release(1);
            }
            return Err(error);
        }
        head.seq = head.seq.wrapping_add(1);
        if signal {
            head.unsignalled = 0;
            head.signalled = head.seq;
        } else {
            head.unsignalled += 1;
        }
        Ok(())
    }

    /// Retires the operation `seq` and the silent ones before it.
    ///
    /// The caller holds the lock of the queue's completion queue.
    #[inline]
    pub(super) fn retire(&self, seq: u32) -> Retired {
        self.saw(seq);
        let tail = self.tail.load(Relaxed);
        let slot = self.slot(seq);
        let retired = Retired {
            context: Context::new(slot.context.load(Relaxed)),
            usage: Use::from_raw(slot.usage.load(Relaxed)),
            count: seq.wrapping_sub(tail).wrapping_add(1),
        };
        self.unmap(tail, seq.wrapping_add(1));
        // Pairs with the acquire of a poster, who may fill the slots again.
        self.tail.store(seq.wrapping_add(1), Release);
        retired
    }

    /// What the operation `seq` is used for. The caller holds the completion queue's lock.
    pub(super) fn usage(&self, seq: u32) -> Use {
        Use::from_raw(self.slot(seq).usage.load(Relaxed))
    }

    /// The marker has come back: everything before it has a completion.
    pub(super) fn set_drained(&self) {
        self.drained.store(true, Release);
    }

    /// Whether the marker has come back.
    pub(super) fn is_drained(&self) -> bool {
        self.drained.load(Acquire)
    }

    /// Retires everything, after the queue pair has been destroyed: each context that has not been
    /// handed out goes to `reclaim`. Returns how many there were, markers aside.
    pub(super) fn abandon(&self, reclaim: &mut dyn FnMut(Context)) -> u32 {
        let end = self.head.lock().seq;
        let mut seq = self.tail.load(Acquire);
        self.unmap(seq, end);
        let mut count = 0;
        while seq != end {
            let slot = self.slot(seq);
            if Use::from_raw(slot.usage.load(Relaxed)) != Use::Marker {
                reclaim(Context::new(slot.context.load(Relaxed)));
                count += 1;
            }
            seq = seq.wrapping_add(1);
        }
        self.tail.store(end, Release);
        count
    }
}
