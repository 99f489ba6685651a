// SPDX-License-Identifier: GPL-2.0

//! Listeners for Rust consumers.

use super::super::{
    eq::{
        EventQueue,
        Source, //
    },
    fabric::Fabric,
    pep::PassiveEndpoint, //
};
use crate::fi::prelude::*;

/// A listener. Dropping it closes it and rejects the pending connection requests; in atomic context, a
/// workqueue does so later.
pub struct Listener(DeferredDrop<Arc<PassiveEndpoint>>);

impl Listener {
    /// Listens on the source address of `info`. FI_CONNREQ events go to `events` and carry `source`. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// -FI_EADDRINUSE, -FI_EADDRNOTAVAIL, -FI_ENODEV if no device has the address, -FI_ENOMEM.
    pub fn new(
        _here: ProcessContext,
        fabric: &Arc<Fabric>,
        info: &Info,
        source: Source,
        events: &Arc<EventQueue>,
    ) -> Result<Self> {
        let listener = Self(DeferredDrop::new(fabric.passive_endpoint(info, source)?)?);
        listener.0.bind_eq(events, 0)?;
        listener.0.listen()?;
        Ok(listener)
    }

    /// Rejects the connection request that `info` describes. May sleep.
    pub fn reject(&self, _here: ProcessContext, info: &Info, private_data: &[u8]) -> Result {
        self.0.core().reject(info.handle(), private_data)
    }
}
