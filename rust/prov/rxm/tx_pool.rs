// SPDX-License-Identifier: GPL-2.0

//! Transmit buffers of an endpoint, its own or those of a shared transmit context, and the transmit contexts that
//! wait for one.
//!
//! Guarded by `EpCore::inner`, or by the lock of the shared transmit context. A context that was refused a buffer is
//! entered in the list of waiters under the same lock, in any context, without an allocation.

use super::{
    ep_state::{
        TX_BUFS,
        TX_SHARE, //
    },
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
    util::owned_list::{
        BoxList,
        ListBox, //
    },
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
    sync::Arc, //
};

/// Pool of free transmit buffers.
pub(super) enum TxPool {
    /// Buffers of one endpoint, and its contexts that wait for one.
    Own {
        free: BoxList<Packet>,
        waiters: TxWaiters,
    },
    /// Buffers of a shared transmit context.
    Shared(Arc<Stx>),
}

impl TxPool {
    /// Empty pool.
    pub(super) const NONE: Self = Self::Own {
        free: BoxList::new(),
        waiters: TxWaiters::new(),
    };

    /// Takes a buffer.
    #[inline(always)]
    pub(super) fn get(&mut self) -> Option<ListBox<Packet>> {
        match self {
            Self::Own { free, .. } => free.pop(),
            Self::Shared(stx) => stx.get(),
        }
    }

    /// Takes a buffer. If there is none, `tx_waiter` is woken when one is put back.
    #[inline(always)]
    pub(super) fn get_or_wait(&mut self, tx_waiter: &Arc<TxWaiter>) -> Option<ListBox<Packet>> {
        match self {
            Self::Own { free, waiters } => {
                let packet = free.pop();
                if packet.is_none() {
                    waiters.add(tx_waiter);
                }
                packet
            }
            Self::Shared(stx) => stx.get_or_wait(tx_waiter),
        }
    }

    /// Adds `tx_waiter` to the contexts that are woken when a buffer is put back.
    #[cold]
    pub(super) fn wait_for_buf(&mut self, tx_waiter: &Arc<TxWaiter>) {
        match self {
            Self::Own { waiters, .. } => waiters.add(tx_waiter),
            Self::Shared(stx) => stx.wait_for_buf(tx_waiter),
        }
    }

    /// Wakes all waiting contexts, because one of them is closed.
    pub(super) fn wake_waiters(&mut self) {
        match self {
            Self::Own { waiters, .. } => waiters.wake(),
            Self::Shared(stx) => stx.wake_waiters(),
        }
    }

    /// Puts a buffer back, and wakes the waiting contexts. The next operation takes it, because its state is still in
    /// the CPU's cache.
    #[inline(always)]
    pub(super) fn put(&mut self, mut packet: ListBox<Packet>) {
        packet.state = BufState::Free;
        match self {
            Self::Own { free, waiters } => {
                free.push_front(packet);
                waiters.wake();
            }
            Self::Shared(stx) => stx.put(packet),
        }
    }

    /// Puts back a buffer of a closed endpoint, unless it is not a transmit buffer.
    pub(super) fn take_back(&mut self, packet: ListBox<Packet>) {
        if packet.number() < TX_BUFS as u32 {
            self.put(packet);
        }
    }

    /// Returns whether other endpoints use the pool too.
    pub(super) fn are_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }

    /// Returns the number of free buffers.
    pub(super) fn left(&self) -> usize {
        match self {
            Self::Own { free, .. } => free.len(),
            Self::Shared(stx) => stx.left(),
        }
    }

    /// Returns the number of buffers that one peer may hold, which leaves a share for the others.
    #[inline(always)]
    pub(super) fn peer_limit(&self) -> usize {
        match self {
            Self::Own { .. } => TX_SHARE,
            Self::Shared(stx) => stx.size().div_ceil(2),
        }
    }

    /// Returns the numbers of the endpoint's own buffers that have not been allocated.
    pub(super) fn unallocated(&self) -> Range<u32> {
        match self {
            Self::Own { free, .. } => free.len() as u32..TX_BUFS as u32,
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
