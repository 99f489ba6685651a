// SPDX-License-Identifier: GPL-2.0

//! Transmit buffers of an endpoint, its own or those of a shared transmit context, and the transmit contexts that
//! wait for one. The [`budget`] decides who gets one.
//!
//! Guarded by `EpCore::inner`, or by the lock of the shared transmit context. A context that was refused a buffer is
//! entered in the list of waiters under the same lock, in any context, without an allocation.

mod budget;
pub(super) mod queued;
pub(super) mod unresolved;

pub(super) use self::budget::TxShare;
use self::budget::{
    TxBudget,
    EPOCH_MS, //
};
use super::{
    ep_state::RESERVES,
    inflight::Indexed,
    pkt_buf::{
        BufState,
        Packet, //
    },
    stx::Stx,
    sw_cq::SwCq, //
};
use crate::{
    fi::prelude::*,
    util::sequence_wait::now_jiffies, //
};
use core::ops::Range;
use kernel::{
    list::{
        impl_list_arc_safe,
        impl_list_item,
        AtomicTracker,
        List,
        ListArc,
        ListLinks,
        TryNewListArc, //
    },
    sync::Arc,
    time::{
        msecs_to_jiffies,
        Jiffies, //
    },
};

/// Free transmit buffers with their budget, and the contexts that wait for one.
pub(super) struct TxBufs {
    free: BoxList<Packet>,
    /// Number of buffers that have been allocated.
    made: usize,
    budget: TxBudget,
    waiters: TxWaiters,
}

impl TxBufs {
    /// Creates the pool of `total` buffers, which the caller adds.
    pub(super) const fn new(total: usize) -> Self {
        Self {
            free: BoxList::new(),
            made: 0,
            budget: TxBudget::new(total),
            waiters: TxWaiters::new(),
        }
    }

    /// Adds a newly allocated buffer.
    pub(super) fn add(&mut self, packet: ListBox<Packet>) {
        self.free.push(packet);
        self.made += 1;
    }

    /// Removes all free buffers.
    pub(super) fn take_free(&mut self) -> BoxList<Packet> {
        mem::take(&mut self.free)
    }

    /// Returns the number of operations that can be started to every peer.
    pub(super) fn left(&self) -> usize {
        self.budget.left()
    }

    /// Returns the number of free buffers.
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// Takes a buffer for an operation to the peer that owns `share`, if the peer may have one more.
    #[inline(always)]
    fn try_take(&mut self, share: &mut TxShare) -> Option<ListBox<Packet>> {
        match !self.free.is_empty() && self.budget.take(share, epoch_clock) {
            true => self.free.pop(),
            false => None,
        }
    }

    /// Takes a buffer for an operation to the peer that owns `share`. If it may have none, `tx_waiter` is woken when a
    /// buffer is put back: it is entered under the lock that buffers are put back under.
    #[inline(always)]
    fn take_or_wait(
        &mut self,
        share: &mut TxShare,
        tx_waiter: &Arc<TxWaiter>,
    ) -> Option<ListBox<Packet>> {
        let packet = self.try_take(share);
        if packet.is_none() {
            self.waiters.add(tx_waiter);
        }
        packet
    }

    /// Takes a buffer for a segment to the peer that owns `share`.
    fn take_segment(&mut self, share: &mut TxShare) -> Option<ListBox<Packet>> {
        match !self.free.is_empty() && self.budget.take_segment(share) {
            true => self.free.pop(),
            false => None,
        }
    }

    /// Puts a buffer back, and wakes the waiting contexts. The next operation takes it, because its state is still in
    /// the CPU's cache.
    #[inline(always)]
    fn put(&mut self, packet: ListBox<Packet>, share: &mut TxShare, is_done: bool) {
        self.free.push_front(packet);
        self.budget.put(share, is_done);
        self.waiters.wake();
    }
}

/// Returns the time and the length of an epoch of the budget.
#[cold]
fn epoch_clock() -> (Jiffies, Jiffies) {
    (now_jiffies(), msecs_to_jiffies(EPOCH_MS))
}

/// Returns the numbers of the buffers of a pool of `total`.
pub(super) const fn numbers(total: usize) -> Range<u32> {
    RESERVES as u32..(RESERVES + total) as u32
}

/// Pool of transmit buffers that an endpoint uses.
pub(super) enum TxPool {
    /// Buffers of one endpoint.
    Own(TxBufs),
    /// Buffers of a shared transmit context.
    Shared(Arc<Stx>),
}

impl TxPool {
    /// Returns the pool of `total` buffers of an endpoint, which are not allocated.
    pub(super) const fn unallocated(total: usize) -> Self {
        Self::Own(TxBufs::new(total))
    }

    /// Returns the number of buffers, allocated or not.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Own(bufs) => bufs.budget.total(),
            Self::Shared(stx) => stx.size,
        }
    }

    /// Runs `act` with the buffers, under the lock of the shared transmit context if there is one.
    #[inline(always)]
    fn with<R>(&mut self, act: impl FnOnce(&mut TxBufs) -> R) -> R {
        match self {
            Self::Own(bufs) => act(bufs),
            Self::Shared(stx) => act(&mut stx.bufs.lock()),
        }
    }

    /// Adds newly allocated buffers, of which there are `total` then, to a pool of the endpoint's own.
    pub(super) fn add(&mut self, total: usize, mut packets: BoxList<Packet>) {
        if let Self::Own(bufs) = self {
            bufs.budget.grow(total);
            while let Some(packet) = packets.pop() {
                bufs.add(packet);
            }
            bufs.waiters.wake();
        }
    }

    /// Takes a buffer for an operation to the peer that owns `share`, if the peer may have one more.
    #[inline(always)]
    pub(super) fn try_take(&mut self, share: &mut TxShare) -> Option<ListBox<Packet>> {
        self.with(|bufs| bufs.try_take(share))
    }

    /// Takes a buffer for an operation to the peer that owns `share`, if the peer may have one more. Otherwise
    /// `tx_waiter` is woken when a buffer is put back.
    #[inline(always)]
    pub(super) fn take_or_wait(
        &mut self,
        share: &mut TxShare,
        tx_waiter: &Arc<TxWaiter>,
    ) -> Option<ListBox<Packet>> {
        self.with(|bufs| bufs.take_or_wait(share, tx_waiter))
    }

    /// Takes a buffer for a segment to the peer that owns `share`.
    pub(super) fn take_segment(&mut self, share: &mut TxShare) -> Option<ListBox<Packet>> {
        self.with(|bufs| bufs.take_segment(share))
    }

    /// Wakes all waiting contexts.
    pub(super) fn wake_waiters(&mut self) {
        self.with(|bufs| bufs.waiters.wake());
    }

    /// Puts back a buffer of the peer that owns `share`; `is_done` tells whether its operation was successful.
    #[inline(always)]
    pub(super) fn put(&mut self, mut packet: ListBox<Packet>, share: &mut TxShare, is_done: bool) {
        packet.state = BufState::Free;
        self.with(|bufs| bufs.put(packet, share, is_done));
    }

    /// Records that an operation with another buffer has completed, to the peer that owns `share`.
    pub(super) fn note_completion(&mut self, share: &mut TxShare) {
        self.with(|bufs| bufs.budget.note_completion(share));
    }

    /// Moves a buffer from the share `from` to the share `to`.
    pub(super) fn transfer(&mut self, from: &mut TxShare, to: &mut TxShare) {
        self.with(|bufs| bufs.budget.transfer(from, to));
    }

    /// Puts back the buffers of a peer of a closed endpoint in the budget. [`Self::take_back`] frees them.
    pub(super) fn put_share(&mut self, share: &mut TxShare) {
        self.with(|bufs| bufs.budget.put_all(share));
    }

    /// Puts back a buffer of a closed endpoint, unless it is not one of the pool.
    pub(super) fn take_back(&mut self, mut packet: ListBox<Packet>) {
        if numbers(self.size()).contains(&packet.number()) {
            packet.state = BufState::Free;
            self.with(|bufs| bufs.free.push_front(packet));
        }
    }

    /// Returns whether other endpoints use the pool too.
    pub(super) fn are_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }

    /// Returns the number of operations that can be started to every peer.
    pub(super) fn left(&self) -> usize {
        match self {
            Self::Own(bufs) => bufs.left(),
            Self::Shared(stx) => stx.bufs.lock().left(),
        }
    }

    /// Returns the numbers of the buffers that a pool of the endpoint's own needs besides those that it has, to have
    /// `total`.
    pub(super) fn missing(&self, total: usize) -> Range<u32> {
        match self {
            Self::Own(bufs) => numbers(bufs.made).end..numbers(total).end,
            Self::Shared(_) => 0..0,
        }
    }
}

/// A transmit context that may wait for a buffer, as an entry of the list.
#[pin_data]
pub(super) struct TxWaiter {
    /// Completion queue of the context.
    queue: Arc<SwCq>,
    /// Records whether the context is in the list.
    #[pin]
    tracker: AtomicTracker,
    #[pin]
    list_links: ListLinks,
}

impl_list_arc_safe! {
    impl ListArcSafe<0> for TxWaiter { tracked_by tracker: AtomicTracker; }
}

impl_list_item! {
    impl ListItem<0> for TxWaiter { using ListLinks { self.list_links }; }
}

impl TxWaiter {
    /// Creates the entry of a context that reports to `queue`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(queue: &Arc<SwCq>) -> Result<Arc<Self>> {
        Ok(Arc::pin_init(
            pin_init!(Self {
                queue: queue.clone(),
                tracker <- AtomicTracker::new(),
                list_links <- ListLinks::new(),
            }),
            GFP_KERNEL,
        )?)
    }
}

/// List of the waiting contexts, each at most once.
pub(super) struct TxWaiters(List<TxWaiter>);

impl TxWaiters {
    /// Creates an empty list.
    pub(super) const fn new() -> Self {
        Self(List::new())
    }

    /// Adds a context, unless it is in the list. Any context.
    #[cold]
    pub(super) fn add(&mut self, tx_waiter: &Arc<TxWaiter>) {
        if let Ok(entry) = ListArc::try_from_arc(tx_waiter.clone()) {
            self.0.push_back(entry);
        }
    }

    /// Removes all contexts, wakes the readers of their queues and calls the handlers. Any context.
    #[inline(always)]
    pub(super) fn wake(&mut self) {
        if !self.0.is_empty() {
            self.wake_all();
        }
    }

    #[cold]
    fn wake_all(&mut self) {
        while let Some(tx_waiter) = self.0.pop_front() {
            tx_waiter.queue.wake_readers();
        }
    }
}
