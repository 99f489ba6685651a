// SPDX-License-Identifier: GPL-2.0

//! Packets to send with that endpoints share.
//!
//! An endpoint takes one for each operation and puts it back when that is over, as with packets of its own: so
//! all have as many operations under way as there are packets, and whoever comes too late is told so. Nobody
//! waits for another's: a message in several packets has one of its own, by which it comes to its end.

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

/// Packets that nobody has, and the contexts that wait for one, of any endpoint.
struct FreeBufs {
    packets: BoxList<Packet>,
    waiters: TxWaiters,
}

/// See the module.
#[pin_data]
pub(super) struct Stx {
    #[pin]
    free: FastLockIrq<FreeBufs>,
    size: usize,
}

impl Stx {
    /// Makes some, for endpoints of `domain`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for more than an endpoint has of its own, and for what it does not do; -FI_ENOMEM,
    /// -FI_ENODEV when the device goes away.
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

    /// How many there are.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// How many nobody has.
    pub(super) fn left(&self) -> usize {
        self.free.lock().packets.len()
    }

    /// Takes one.
    pub(super) fn get(&self) -> Option<ListBox<Packet>> {
        self.free.lock().packets.pop()
    }

    /// Takes one for `tx_waiter`, which is woken when one is put back if there is none.
    pub(super) fn get_or_wait(&self, tx_waiter: &Arc<TxWaiter>) -> Option<ListBox<Packet>> {
        let mut free = self.free.lock();
        let packet = free.packets.pop();
        if packet.is_none() {
            // Under the lock that packets are put back under.
            free.waiters.add(tx_waiter);
        }
        packet
    }

    /// Has `tx_waiter` woken when one is put back.
    pub(super) fn wait_for_buf(&self, tx_waiter: &Arc<TxWaiter>) {
        self.free.lock().waiters.add(tx_waiter);
    }

    /// Wakes all who wait: one of them is closed.
    pub(super) fn wake_waiters(&self) {
        self.free.lock().waiters.wake();
    }

    /// Puts one back, and wakes those who wait for one.
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
        // Their memory may be given back where one may sleep.
        let free = mem::take(&mut self.free.lock().packets);
        drop(free);
    }
}
