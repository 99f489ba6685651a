// SPDX-License-Identifier: GPL-2.0

//! Shared receive contexts: receives for the messages of all bound endpoints, and of peer providers.

mod peer_export;
mod peer_import;

pub use self::{
    peer_export::{
        ExportedReceives,
        MatchedReceive,
        PeerEndpoint,
        MAX_SEGMENTS, //
    },
    peer_import::{
        GetResult,
        MessageInfo,
        MessageStarter,
        ReceiveOwner,
        RxEntryList, //
    },
};

use super::{
    domain::Domain,
    info::size_within,
    introspect::ObjectEntry,
    object::{
        ChildCount,
        Parent, //
    },
    provider, //
};
use crate::{
    abi::KOFI_OBJECT_SRX,
    fi::prelude::*, //
};

/// Attributes of a shared receive context.
#[derive(Clone, Copy, Default, Debug)]
pub struct Attr {
    /// Number of receives that can be posted; 0 for the provider's default.
    pub size: usize,
    /// Number of memory segments per receive; 0 for the device's maximum.
    pub segments: usize,
    /// Required capabilities; 0 for all supported ones.
    pub caps: u64,
}

impl Attr {
    /// Returns the requested size, `default` if none is requested; at most `max`.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for a request over `max`.
    pub(crate) fn size_within(&self, default: usize, max: usize) -> Result<usize> {
        size_within(self.size, max, default.min(max))
    }

    /// Returns the requested number of segments, `max` if none is requested.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for a request over `max`.
    pub(crate) fn segments_within(&self, max: usize) -> Result<usize> {
        size_within(self.segments, max, max)
    }
}

/// The owner of an imported context's receives.
pub enum PeerOwner {
    /// A context of this module.
    Local(Arc<dyn provider::SharedReceive>),
    /// A context of another module.
    Imported(KBox<dyn ReceiveOwner>),
}

/// A shared receive context.
pub struct SharedReceive {
    core: Arc<dyn provider::SharedReceive>,
    users: ChildCount,
    entry: ObjectEntry,
    domain: ChildRef<Domain>,
    /// The owner, if this context is a peer of another context of this module.
    owner: Option<ChildRef<SharedReceive>>,
}

impl Parent for SharedReceive {
    fn users(&self) -> &ChildCount {
        &self.users
    }
}

impl SharedReceive {
    pub(super) fn new(domain: ChildRef<Domain>, attr: &Attr) -> Result<Arc<Self>> {
        let core = domain.core().clone().shared_receive(attr)?;
        Self::build_or_close(core, domain)
    }

    /// Creates a peer context: endpoints of `domain` take receives that are posted to `owner`.
    pub(super) fn peer(domain: ChildRef<Domain>, owner: ChildRef<Self>) -> Result<Arc<Self>> {
        let posts = PeerOwner::Local(owner.core.clone());
        let core = domain.core().clone().peer_srx(posts)?;
        Self::build(&core, domain, Some(owner))
    }

    /// Creates a peer context whose owner is in another module.
    pub(super) fn import(
        domain: ChildRef<Domain>,
        owner: KBox<dyn ReceiveOwner>,
    ) -> Result<Arc<Self>> {
        let core = domain.core().clone().peer_srx(PeerOwner::Imported(owner))?;
        Self::build_or_close(core, domain)
    }

    fn build_or_close(
        core: Arc<dyn provider::SharedReceive>,
        domain: ChildRef<Domain>,
    ) -> Result<Arc<Self>> {
        let made = Self::build(&core, domain, None);
        if made.is_err() {
            core.close(&mut |_| {});
        }
        made
    }

    fn build(
        core: &Arc<dyn provider::SharedReceive>,
        domain: ChildRef<Domain>,
        owner: Option<ChildRef<Self>>,
    ) -> Result<Arc<Self>> {
        let described = core.clone();
        let entry = domain
            .entry()
            .new_child_with(KOFI_OBJECT_SRX, move |info| described.fill_info(info))?;
        Ok(Arc::new(
            Self {
                core: core.clone(),
                users: ChildCount::new(),
                entry,
                domain,
                owner,
            },
            GFP_KERNEL,
        )?)
    }

    /// Returns the provider's object.
    pub fn core(&self) -> &Arc<dyn provider::SharedReceive> {
        &self.core
    }

    /// Returns true if the context belongs to `domain`.
    pub(super) fn is_of(&self, domain: &Arc<Domain>) -> bool {
        Arc::ptr_eq(self.domain.arc(), domain)
    }

    /// Returns the number of the context in the object table.
    pub(crate) fn number(&self) -> u64 {
        self.entry.number()
    }

    /// Closes the context: -FI_EBUSY while an endpoint is bound or a peer context uses it. May sleep.
    ///
    /// When it returns, posted memory is not accessed any more, and the context of each posted receive has
    /// been passed to `reclaim`.
    pub(crate) fn close(&self, reclaim: &mut dyn FnMut(Context)) -> Result {
        self.users.try_close()?;
        self.close_unchecked(reclaim);
        Ok(())
    }

    fn close_unchecked(&self, reclaim: &mut dyn FnMut(Context)) {
        // The receives of a peer context belong to its owner.
        if self.owner.is_none() {
            self.core.close(reclaim);
        }
        self.entry.remove();
    }
}

impl Drop for SharedReceive {
    fn drop(&mut self) {
        // The provider's close does nothing for a context that its owner has closed.
        self.close_unchecked(&mut |_| {});
    }
}
