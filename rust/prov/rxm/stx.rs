// SPDX-License-Identifier: GPL-2.0

//! Shared transmit contexts: transmit buffers that several endpoints use.
//!
//! An endpoint takes a buffer for each operation and puts it back at the completion, as it does with buffers of its
//! own. If no buffer is free, the post returns -FI_EAGAIN. A segmented message holds a buffer of its own, so it makes
//! progress without further buffers.

use super::{
    domain::Domain,
    info,
    iov::IovLimits,
    pkt_buf::Packet,
    tx_pool::{
        numbers,
        TxBufs, //
    },
    wire::TX_BUF_SIZE, //
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
};
use core::any::Any;

/// A shared transmit context. `bufs` is taken inside `EpCore::inner`, in any context.
#[pin_data]
pub(super) struct Stx {
    #[pin]
    pub(super) bufs: FastLockIrq<TxBufs>,
    pub(super) size: usize,
    /// Limits of the vectors of an operation.
    pub(super) iov_limits: IovLimits,
}

impl Stx {
    /// Opens a shared transmit context for endpoints of `domain`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for more operations or longer vectors than contexts have, and for attributes beyond those of an
    /// endpoint; -FI_ENOMEM, -FI_ENODEV when the device is removed.
    pub(super) fn new(here: ProcessContext, domain: &Domain, attr: &Attr) -> Result<Arc<Self>> {
        let size = match attr.size {
            0 => 2 * info::TX_SIZE,
            size => size,
        };
        let most = info::transmits();
        let iov_limits = info::tx_iov_limits((attr.segments, attr.remote_ranges))?;
        let is_offered = size <= 2 * info::MAX_TX_SIZE
            && attr.inject <= most.inject_size
            && attr.caps & !most.caps == 0
            && attr.flags & !most.op_flags == 0
            && attr.order & !most.msg_order == 0
            && attr.completion_order & !most.comp_order == 0;
        if !is_offered {
            return Err(Errno::EINVAL);
        }
        let mut bufs = TxBufs::new(size);
        let sizes = (TX_BUF_SIZE, iov_limits.slot_size());
        Packet::alloc(here, domain.lower(), numbers(size), sizes, |packet| {
            bufs.add(packet)
        })?;
        Ok(Arc::pin_init(
            pin_init!(Self {
                bufs <- FastLockIrq::new(bufs, c"kofi::rxm::Stx", static_lock_class!()),
                size,
                iov_limits,
            }),
            GFP_KERNEL,
        )?)
    }
}

impl provider::SharedTransmit for Stx {
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn fill_info(&self, out: &mut ObjectInfo<'_>) {
        out.add_value(KOFI_VALUE_TX_SIZE, self.size as u64);
        out.add_value(
            KOFI_VALUE_TX_DEPTH,
            (self.size - self.bufs.lock().free()) as u64,
        );
    }

    fn close(&self) {
        // Freed outside the lock, in process context.
        let free = self.bufs.lock().take_free();
        drop(free);
    }
}
