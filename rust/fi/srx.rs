// SPDX-License-Identifier: GPL-2.0

//! Shared receive contexts: receives for the messages of all bound endpoints, and of peer providers.

mod peer;

pub use self::peer::{
    ExportedReceives,
    GetResult,
    MatchedReceive,
    MessageInfo,
    MessageStarter,
    PeerEndpoint,
    ReceiveOwner,
    RxEntryList,
    MAX_SEGMENTS, //
};

use super::{
    domain::Domain,
    info::size_within,
    introspect::EntryGuard,
    object::{
        impl_parent,
        ChildCount, //
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
    pub(super) entry_guard: EntryGuard<Domain>,
    /// The owner, if this context is a peer of another context of this module.
    owner: Option<ChildRef<SharedReceive>>,
}

impl_parent!(SharedReceive);

impl SharedReceive {
    pub(super) fn new(domain: ChildRef<Domain>, attr: &Attr) -> Result<Arc<Self>> {
        let core = domain.core().clone().shared_receive(attr)?;
        Self::build(core, domain, None)
    }

    /// Creates a peer context: endpoints of `domain` take receives that are posted to `owner`.
    pub(super) fn peer(domain: ChildRef<Domain>, owner: ChildRef<Self>) -> Result<Arc<Self>> {
        let posts = PeerOwner::Local(owner.core.clone());
        let core = domain.core().clone().peer_srx(posts)?;
        Self::build(core, domain, Some(owner))
    }

    /// Creates a peer context whose owner is in another module.
    pub(super) fn import(
        domain: ChildRef<Domain>,
        owner: KBox<dyn ReceiveOwner>,
    ) -> Result<Arc<Self>> {
        let core = domain.core().clone().peer_srx(PeerOwner::Imported(owner))?;
        Self::build(core, domain, None)
    }

    fn build(
        core: Arc<dyn provider::SharedReceive>,
        domain: ChildRef<Domain>,
        owner: Option<ChildRef<Self>>,
    ) -> Result<Arc<Self>> {
        let describe = provider::SharedReceive::fill_info;
        let entry_guard = EntryGuard::of_core(domain, KOFI_OBJECT_SRX, &core, describe);
        if entry_guard.is_err() && owner.is_none() {
            core.close(&mut |_| {});
        }
        new_arc(Self {
            core,
            users: ChildCount::new(),
            entry_guard: entry_guard?,
            owner,
        })
    }

    /// Returns the provider's object.
    pub fn core(&self) -> &Arc<dyn provider::SharedReceive> {
        &self.core
    }

    /// Returns the number of the context in the object table.
    pub(crate) fn number(&self) -> u64 {
        self.entry_guard.entry.number()
    }

    /// Closes the context: -FI_EBUSY while an endpoint is bound or a peer context uses it. May sleep.
    ///
    /// When it returns, posted memory is not accessed any more, and the context of each posted receive has
    /// been passed to `reclaim`.
    pub(crate) fn close(&self, reclaim: &mut dyn FnMut(Context)) -> Result {
        self.users
            .try_close()
            .map(|()| self.close_unchecked(reclaim))
    }

    fn close_unchecked(&self, reclaim: &mut dyn FnMut(Context)) {
        // The receives of a peer context belong to its owner.
        if self.owner.is_none() {
            self.core.close(reclaim);
        }
        self.entry_guard.entry.remove();
    }
}

impl Drop for SharedReceive {
    fn drop(&mut self) {
        // The provider's close does nothing for a context that its owner has closed.
        self.close_unchecked(&mut |_| {});
    }
}
