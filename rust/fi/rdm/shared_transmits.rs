// SPDX-License-Identifier: GPL-2.0

//! What several datagram endpoints send with, for Rust consumers.

use super::super::{
    domain::Domain,
    stx::{
        Attr,
        SharedTransmit, //
    },
};
use crate::abi::{
    context::ProcessContext,
    deferred_drop::DeferredDrop,
    Result, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What all endpoints that share it have their operations under way with, instead of each with its own.
///
/// Dropped by its owner and by the last of those endpoints it closes; where that may not sleep, soon after.
pub struct SharedTransmits(DeferredDrop<Arc<SharedTransmit>>);

impl SharedTransmits {
    /// Opens what `size` operations can be under way with at once, or as many as an endpoint has of its own
    /// for 0.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS of a domain of connected endpoints, -FI_EINVAL for more than an endpoint has of its own,
    /// -FI_ENODEV when the device goes away, -FI_ENOMEM.
    pub fn new(_here: ProcessContext, domain: &Arc<Domain>, size: usize) -> Result<Arc<Self>> {
        let shared = domain.shared_transmit(&Attr {
            size,
            ..Attr::default()
        })?;
        Ok(Arc::new(Self(DeferredDrop::new(shared)?), GFP_KERNEL)?)
    }

    /// What endpoints are bound to.
    pub(super) fn shared(&self) -> &Arc<SharedTransmit> {
        &self.0
    }
}
