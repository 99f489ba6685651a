// SPDX-License-Identifier: GPL-2.0

//! Shared transmit contexts: what the endpoints that are bound to one have their operations under way with.

use super::{
    domain::Domain,
    introspect::{
        Introspect,
        ObjectEntry,
        ObjectInfo, //
    },
    object::{
        ChildCount,
        ChildRef,
        Parent, //
    },
    provider, //
};
use crate::abi::{
    Errno,
    Result,
    KOFI_OBJECT_STX, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// How a context is opened: what operations are to be capable of, with 0 for all that there is.
#[derive(Clone, Copy, Default, Debug)]
pub struct Attr {
    /// How many operations there can be at once.
    pub size: usize,
    /// From how many pieces of memory each, or to how many.
    pub segments: usize,
    /// To how many pieces of the peer's, or from how many.
    pub remote_ranges: usize,
    /// How many bytes can be injected.
    pub inject: usize,
    /// What they are capable of.
    pub caps: u64,
    /// Flags of those that have none: an operation takes its endpoint's, these are only to be possible.
    pub flags: u64,
    /// In which order messages come.
    pub order: u64,
    /// And completions.
    pub completion_order: u64,
}

/// What endpoints share to send with.
pub struct SharedTransmit {
    core: Arc<dyn provider::SharedTransmit>,
    users: ChildCount,
    card: ObjectEntry,
    domain: ChildRef<Domain>,
}

impl Parent for SharedTransmit {
    fn users(&self) -> &ChildCount {
        &self.users
    }
}

/// What of it is told of.
struct StxInfo(Arc<dyn provider::SharedTransmit>);

impl Introspect for StxInfo {
    fn fill_info(&self, told: &mut ObjectInfo<'_>) {
        self.0.fill_info(told);
    }
}

impl SharedTransmit {
    pub(super) fn new(domain: ChildRef<Domain>, attr: &Attr) -> Result<Arc<Self>> {
        let core = domain.core().clone().shared_transmit(attr)?;
        let shown = Arc::new(StxInfo(core.clone()), GFP_KERNEL)?;
        let card = domain
            .entry()
            .new_child(KOFI_OBJECT_STX, c"", Some(shown))?;
        Ok(Arc::new(
            Self {
                core,
                users: ChildCount::new(),
                card,
                domain,
            },
            GFP_KERNEL,
        )?)
    }

    /// The provider's part.
    pub fn core(&self) -> &Arc<dyn provider::SharedTransmit> {
        &self.core
    }

    /// Its number on the roster.
    pub(super) fn number(&self) -> u64 {
        self.card.number()
    }

    /// Closes it: -FI_EBUSY while an endpoint is bound. May sleep.
    pub(crate) fn close(&self) -> Result {
        self.users.try_close()?;
        self.end();
        Ok(())
    }

    fn end(&self) {
        self.core.close();
        self.card.remove();
    }
}

impl Drop for SharedTransmit {
    fn drop(&mut self) {
        // Nothing is left to do for one that its owner has closed.
        self.end();
    }
}

/// What another domain's context answers, and one that has been closed.
pub(super) fn hold(
    shared: &Arc<SharedTransmit>,
    domain: &Arc<Domain>,
) -> Result<ChildRef<SharedTransmit>> {
    if !Arc::ptr_eq(shared.domain.arc(), domain) {
        return Err(Errno::EDOMAIN);
    }
    ChildRef::new(shared)
}
