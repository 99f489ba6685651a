// SPDX-License-Identifier: GPL-2.0

//! Packets to send with that endpoints share.
//!
//! An endpoint takes one for each operation and puts it back when that is over, as with packets of its own: so
//! all have as many operations under way as there are packets, and whoever comes too late is told so. Nobody
//! waits for another's: a message in several packets has one of its own, by which it comes to its end.

use super::{
    domain::Domain,
    offer,
    posting::Packet,
    refused::{
        Poster,
        RefusedPosters, //
    },
    traffic::SENDS,
    wire::MOST, //
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
struct Idle {
    packets: BoxList<Packet>,
    refused: RefusedPosters,
}

/// See the module.
#[pin_data]
pub(super) struct Stx {
    #[pin]
    idle: FastLockIrq<Idle>,
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
            0 => SENDS,
            size => size,
        };
        let most = offer::transmits();
        let is_offered = size <= SENDS
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
        let mut idle = Idle {
            packets: BoxList::new(),
            refused: RefusedPosters::new(),
        };
        let numbers = 0..size as u32;
        Packet::make(here, domain.lower(), numbers, MOST, |packet| {
            idle.packets.push(packet)
        })?;
        Ok(Arc::pin_init(
            pin_init!(Self {
                idle <- FastLockIrq::new(idle, c"kofi::rdm::Stx", static_lock_class!()),
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
        self.idle.lock().packets.len()
    }

    /// Takes one.
    pub(super) fn get(&self) -> Option<ListBox<Packet>> {
        self.idle.lock().packets.pop()
    }

    /// Takes one for `poster`, which is woken when one is put back if there is none.
    pub(super) fn get_or_await(&self, poster: &Arc<Poster>) -> Option<ListBox<Packet>> {
        let mut idle = self.idle.lock();
        let packet = idle.packets.pop();
        if packet.is_none() {
            // Under the lock that packets are put back under.
            idle.refused.add(poster);
        }
        packet
    }

    /// Has `poster` woken when one is put back.
    pub(super) fn await_return(&self, poster: &Arc<Poster>) {
        self.idle.lock().refused.add(poster);
    }

    /// Wakes all who wait: one of them is closed.
    pub(super) fn wake_refused(&self) {
        self.idle.lock().refused.wake();
    }

    /// Puts one back, and wakes those who wait for one.
    pub(super) fn put(&self, packet: ListBox<Packet>) {
        let mut idle = self.idle.lock();
        idle.packets.push_front(packet);
        idle.refused.wake();
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
        let idle = mem::take(&mut self.idle.lock().packets);
        drop(idle);
    }
}
