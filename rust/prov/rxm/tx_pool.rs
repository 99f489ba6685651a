// SPDX-License-Identifier: GPL-2.0

//! The packets that an endpoint sends with: its own, or those that it shares with others.
//!
//! Transmit contexts that wait for a packet because a post was refused for want of one.
//!
//! The list stands beside the packets, under their lock. Nothing is allocated to enter it, in any context.

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

/// Idle packets for sending.
pub(super) enum TxPool {
    /// Packets of one endpoint, and its contexts that were refused one.
    Own {
        free: BoxList<Packet>,
        waiters: TxWaiters,
    },
    /// Packets of a shared transmit context.
    Shared(Arc<Stx>),
}

impl TxPool {
    /// No packets.
    pub(super) const NONE: Self = Self::Own {
        free: BoxList::new(),
        waiters: TxWaiters::new(),
    };

    /// Takes a packet.
    #[inline(always)]
    pub(super) fn get(&mut self) -> Option<ListBox<Packet>> {
        match self {
            Self::Own { free, .. } => free.pop(),
            Self::Shared(stx) => stx.get(),
        }
    }

    /// Takes a packet for `tx_waiter`. If there is none, the poster is woken when one is put back.
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

    /// Adds `tx_waiter` to the contexts that are woken when a packet is put back.
    #[cold]
    pub(super) fn wait_for_buf(&mut self, tx_waiter: &Arc<TxWaiter>) {
        match self {
            Self::Own { waiters, .. } => waiters.add(tx_waiter),
            Self::Shared(stx) => stx.wait_for_buf(tx_waiter),
        }
    }

    /// Wakes all contexts that were refused a packet, because one of them is closed.
    pub(super) fn wake_waiters(&mut self) {
        match self {
            Self::Own { waiters, .. } => waiters.wake(),
            Self::Shared(stx) => stx.wake_waiters(),
        }
    }

    /// Puts a packet back, and wakes the contexts that were refused one. The next operation takes it, because its
    /// state is still in the CPU's cache.
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

    /// The same of one that has come back when everything ended, which may be of another kind.
    pub(super) fn take_back(&mut self, packet: ListBox<Packet>) {
        if packet.number() < TX_BUFS as u32 {
            self.put(packet);
        }
    }

    /// Returns whether other endpoints share them.
    pub(super) fn are_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }

    /// How many there are that nothing is done with.
    pub(super) fn left(&self) -> usize {
        match self {
            Self::Own { free, .. } => free.len(),
            Self::Shared(stx) => stx.left(),
        }
    }

    /// How many one peer may have, so that there are some for the others.
    #[inline(always)]
    pub(super) fn peer_limit(&self) -> usize {
        match self {
            Self::Own { .. } => TX_SHARE,
            Self::Shared(stx) => stx.size().div_ceil(2),
        }
    }

    /// The numbers of its own that it has not got yet.
    pub(super) fn unallocated(&self) -> Range<u32> {
        match self {
            Self::Own { free, .. } => free.len() as u32..TX_BUFS as u32,
            Self::Shared(_) => 0..0,
        }
    }
}

/// A transmit context, as an entry of the list.
#[pin_data]
pub(super) struct TxWaiter {
    /// The queue in which its operations complete.
    queue: Arc<SwCq>,
    /// Records whether the poster is in the list.
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
    /// Makes the entry of a context whose operations complete in `queue`. May sleep.
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

/// The contexts that wait, each once.
pub(super) struct TxWaiters(List<TxWaiter>);

impl TxWaiters {
    /// Makes an empty list.
    pub(super) const fn new() -> Self {
        Self(List::new())
    }

    /// Adds a context, unless it waits already. Any context.
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
