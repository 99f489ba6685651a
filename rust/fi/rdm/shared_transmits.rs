// SPDX-License-Identifier: GPL-2.0

//! Shared transmit contexts of datagram endpoints for Rust consumers.

use super::super::{
    domain::Domain,
    stx::{
        Attr,
        SharedTransmit, //
    },
};
use crate::fi::prelude::*;

/// A shared transmit context: a pool of transmit packets that bound endpoints use instead of packets of their
/// own.
///
/// The context closes when its owner and all bound endpoints have dropped it; in atomic context, a workqueue
/// does so later.
pub struct SharedTransmits(pub(in super::super) DeferredDrop<Arc<SharedTransmit>>);

impl SharedTransmits {
    /// Opens a context for `size` simultaneous operations; 0 selects the limit of an endpoint of its own. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS for a domain of connected endpoints, -FI_EINVAL for a size over an endpoint's own limit,
    /// -FI_ENODEV when the device is being removed, -FI_ENOMEM.
    pub fn new(_here: ProcessContext, domain: &Arc<Domain>, size: usize) -> Result<Arc<Self>> {
        let shared = domain.shared_transmit(&Attr {
            size,
            ..Attr::default()
        })?;
        new_arc(Self(DeferredDrop::new(shared)?))
    }
}
