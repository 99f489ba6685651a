// SPDX-License-Identifier: GPL-2.0

//! Shared transmit contexts: transmit buffers that several endpoints use.
//!
//! An endpoint takes a buffer for each operation and puts it back at the completion, as it does with buffers of its
//! own. If no buffer is free, the post returns -FI_EAGAIN. A segmented message holds a buffer of its own, so it makes
//! progress without further buffers.

use super::{
    domain::Domain,
    ep_state::TX_BUFS,
    info,
    pkt_buf::Packet,
    tx_pool::{
        TxWaiter,
        TxWaiters, //
    },
    wire::MAX_PACKET, //
};
use crate::{
    abi::{
        KOFI_VALUE_TX_DEPTH,
        KOFI_VALUE_TX_SIZE, //
    },
    fi::{
        prelude::*,
        provider,
        stx::Attr, //
    },
    util::owned_list::{
        BoxList,
        ListBox, //
    },
};
use core::any::Any;

/// Free buffers, and the contexts of all endpoints that wait for one.
struct FreeBufs {
    packets: BoxList<Packet>,
    waiters: TxWaiters,
}

/// A shared transmit context. `free` is taken inside `EpCore::inner`, in any context.
#[pin_data]
pub(super) struct Stx {
    #[pin]
    free: FastLockIrq<FreeBufs>,
    size: usize,
}

impl Stx {
    /// Opens a shared transmit context for endpoints of `domain`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for attributes beyond those of an endpoint, -FI_ENOMEM, -FI_ENODEV when the device is removed.
    pub(super) fn new(here: ProcessContext, domain: &Domain, attr: &Attr) -> Result<Arc<Self>> {
        let size = match attr.size {
            0 => TX_BUFS,
            size => size,
        };
        let most = info::transmits();
        let is_offered = size <= TX_BUFS
            && attr.segments <= most.iov_limit
            && attr.remote_ranges <= most.rma_iov_limit
            && attr.inject <= most.inject_size
            && attr.caps & !most.caps == 0
            && attr.flags & !most.op_flags == 0
            && attr.order & !most.msg_order == 0
            && attr.completion_order & !most.comp_order == 0;
        if !is_offered {
            return Err(Errno::EINVAL);
        }
        let mut free = FreeBufs {
            packets: BoxList::new(),
            waiters: TxWaiters::new(),
        };
        let numbers = 0..size as u32;
        Packet::alloc(here, domain.lower(), numbers, MAX_PACKET, |packet| {
            free.packets.push(packet)
        })?;
        Ok(Arc::pin_init(
            pin_init!(Self {
                free <- FastLockIrq::new(free, c"kofi::rxm::Stx", static_lock_class!()),
                size,
            }),
            GFP_KERNEL,
        )?)
    }

    /// Returns the number of buffers.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Returns the number of free buffers.
    pub(super) fn left(&self) -> usize {
        self.free.lock().packets.len()
    }

    /// Takes a buffer.
    pub(super) fn get(&self) -> Option<ListBox<Packet>> {
        self.free.lock().packets.pop()
    }

    /// Takes a buffer. If there is none, `tx_waiter` is woken when one is put back.
    pub(super) fn get_or_wait(&self, tx_waiter: &Arc<TxWaiter>) -> Option<ListBox<Packet>> {
        let mut free = self.free.lock();
        let packet = free.packets.pop();
        if packet.is_none() {
            // Entered under the lock that buffers are put back under.
            free.waiters.add(tx_waiter);
        }
        packet
    }

    /// Adds `tx_waiter` to the contexts that are woken when a buffer is put back.
    pub(super) fn wait_for_buf(&self, tx_waiter: &Arc<TxWaiter>) {
        self.free.lock().waiters.add(tx_waiter);
    }

    /// Wakes all waiting contexts, because one of them is closed.
    pub(super) fn wake_waiters(&self) {
        self.free.lock().waiters.wake();
    }

    /// Puts a buffer back, and wakes the waiting contexts.
    pub(super) fn put(&self, packet: ListBox<Packet>) {
        let mut free = self.free.lock();
        free.packets.push_front(packet);
        free.waiters.wake();
    }
}

impl provider::SharedTransmit for Stx {
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn fill_info(&self, out: &mut ObjectInfo<'_>) {
        out.add_value(KOFI_VALUE_TX_SIZE, self.size as u64);
        out.add_value(KOFI_VALUE_TX_DEPTH, (self.size - self.left()) as u64);
    }

    fn close(&self) {
        // Freed outside the lock, in process context.
        let free = mem::take(&mut self.free.lock().packets);
        drop(free);
    }
}
