// SPDX-License-Identifier: GPL-2.0

//! Shared transmit contexts: transmit resources for the operations of all bound endpoints.

use super::{
    domain::Domain,
    introspect::EntryGuard,
    object::{
        impl_parent,
        ChildCount, //
    },
    provider, //
};
use crate::{
    abi::KOFI_OBJECT_STX,
    fi::prelude::*, //
};

/// Attributes of a shared transmit context. A 0 requests no particular value.
#[derive(Clone, Copy, Default, Debug)]
pub struct Attr {
    /// Number of simultaneous operations.
    pub size: usize,
    /// Number of local memory segments per operation.
    pub segments: usize,
    /// Number of remote memory ranges per operation.
    pub remote_ranges: usize,
    /// Maximum size of an inject, in bytes.
    pub inject: usize,
    /// Required capabilities.
    pub caps: u64,
    /// Default operation flags: only checked for support, since an operation takes its endpoint's.
    pub flags: u64,
    /// Message ordering.
    pub order: u64,
    /// Completion ordering.
    pub completion_order: u64,
}

/// A shared transmit context.
pub struct SharedTransmit {
    core: Arc<dyn provider::SharedTransmit>,
    users: ChildCount,
    pub(super) entry_guard: EntryGuard<Domain>,
}

impl_parent!(SharedTransmit);

impl SharedTransmit {
    pub(super) fn new(domain: ChildRef<Domain>, attr: &Attr) -> Result<Arc<Self>> {
        let core = domain.core().clone().shared_transmit(attr)?;
        let describe = provider::SharedTransmit::fill_info;
        new_arc(Self {
            entry_guard: EntryGuard::of_core(domain, KOFI_OBJECT_STX, &core, describe)?,
            core,
            users: ChildCount::new(),
        })
    }

    /// Returns the provider's object.
    pub fn core(&self) -> &Arc<dyn provider::SharedTransmit> {
        &self.core
    }

    /// Closes the context: -FI_EBUSY while an endpoint is bound. May sleep.
    pub(crate) fn close(&self) -> Result {
        self.users.try_close().map(|()| self.close_unchecked())
    }

    fn close_unchecked(&self) {
        self.core.close();
        self.entry_guard.entry.remove();
    }
}

impl Drop for SharedTransmit {
    fn drop(&mut self) {
        // The provider's close does nothing for a context that its owner has closed.
        self.close_unchecked();
    }
}
