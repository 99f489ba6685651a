// SPDX-License-Identifier: GPL-2.0

//! Scalable endpoints: a core whose contexts are opened and closed, each as an endpoint of one direction.

use super::{
    domain::Domain,
    ep::{
        ctx::RxSize,
        Endpoint,
        EpKind, //
    },
    ep_core::EpCore,
    info::{
        self,
        PoolSize, //
    },
    progress::ReaderProgress,
    sw_cq::ProgressSource, //
};
use crate::{
    abi::{
        KOFI_STATE_ENABLED,
        KOFI_STATE_OPEN,
        KOFI_VALUE_RX_CTXS,
        KOFI_VALUE_TX_CTXS, //
    },
    fi::{
        av::AddressVector,
        prelude::*,
        provider::{
            self,
            ContextIndex,
            EpOption, //
        },
    },
    util::context, //
};

/// A scalable endpoint.
#[pin_data]
pub(super) struct Sep {
    core: Arc<EpCore>,
    /// Progress source of all contexts.
    progress: Arc<dyn ProgressSource>,
    /// Size of each receive context.
    size: RxSize,
    /// Number of transmit contexts and of receive contexts.
    contexts: [usize; 2],
    /// Address format, if no address to listen on is given.
    format: u32,
    /// Reference to the address vector, held until the endpoint is closed.
    #[pin]
    refs: Mutex<Option<ChildRef<AddressVector>>>,
}

impl Sep {
    /// Creates a scalable endpoint. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for an info that is not of `domain`, or for attributes beyond the limits; -FI_ENOMEM.
    pub(super) fn new(domain: Arc<Domain>, info: &Info) -> Result<Arc<Self>> {
        let is_shared = info::uses_shared_rx(info) || info::shares_transmits(info);
        let contexts = info::contexts(info).filter(|_| !is_shared);
        let contexts = contexts.ok_or(Errno::EINVAL)?;
        let size = RxSize::of(info)?;
        let pool_size = PoolSize::of(info, true)?;
        let core = EpCore::new(domain, info, contexts, (pool_size, size))?;
        Ok(Arc::pin_init(
            pin_init!(Self {
                progress: ReaderProgress::source_of(&core)?,
                core,
                size,
                contexts,
                format: info.addr_format(),
                refs <- new_mutex!(None, "kofi::rxm::Sep"),
            }? Errno),
            GFP_KERNEL,
        )?)
    }
}

impl provider::ScalableEndpoint for Sep {
    fn context_counts(&self) -> [usize; 2] {
        self.contexts
    }

    fn enable(self: Arc<Self>, addresses: ChildRef<AddressVector>) -> Result {
        let here = context::in_process()?;
        self.core.enable(here, addresses.arc(), self.format, 0)?;
        *self.refs.lock() = Some(addresses);
        Ok(())
    }

    fn context(
        self: Arc<Self>,
        which: ContextIndex,
        info: &Info,
    ) -> Result<Arc<dyn provider::Endpoint>> {
        let (kind, index) = match which {
            ContextIndex::Transmit(index) => (EpKind::Tx, index),
            ContextIndex::Receive(index) => (EpKind::Rx, index),
        };
        let index = u8::try_from(index).map_err(|_| Errno::EINVAL)?;
        if kind.transmits() {
            let here = context::in_process()?;
            self.core
                .alloc_tx_bufs(here, PoolSize::of(info, true)?.own)?;
        }
        let (core, progress) = (self.core.clone(), self.progress.clone());
        let context: Arc<dyn provider::Endpoint> =
            Endpoint::new_part((core, progress), (kind, index), info, self.size)?;
        Ok(context)
    }

    fn getopt(&self, option: EpOption) -> Result<usize> {
        self.core.getopt(option)
    }

    fn setopt(&self, option: EpOption, value: usize) -> Result {
        self.core.setopt(option, value)
    }

    fn set_name(&self, addr: SocketAddr) -> Result {
        self.core.set_name(addr)
    }

    fn name(&self) -> Result<SocketAddr> {
        self.core.name()
    }

    fn fill_info(&self, out: &mut ObjectInfo<'_>) {
        out.set_state(match self.core.bound() {
            Ok(_) => KOFI_STATE_ENABLED,
            Err(_) => KOFI_STATE_OPEN,
        });
        let [transmits, receives] = self.contexts;
        out.add_value(KOFI_VALUE_TX_CTXS, transmits as u64);
        out.add_value(KOFI_VALUE_RX_CTXS, receives as u64);
        self.core.fill_info(out);
    }

    fn close(&self) {
        let held = self.refs.lock().take();
        if held.is_some() {
            // The contexts have been closed and drained.
            self.core.end(&mut |_| {});
        }
    }
}
