// SPDX-License-Identifier: GPL-2.0

//! Shared receive contexts: receives for the messages of all endpoints that are bound to one, and of peers.

mod peer_export;
mod peer_import;

pub use self::{
    peer_export::{
        ExportedReceives,
        MatchedReceive,
        PeerEndpoint,
        PARTS, //
    },
    peer_import::{
        GetResult,
        MessageInfo,
        MessageStarter,
        ReceiveOwner,
        TicketList, //
    },
};

use super::{
    domain::Domain,
    introspect::{
        Introspect,
        ObjectEntry,
        ObjectInfo, //
    },
    memory::Context,
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
    KOFI_OBJECT_SRX, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// How a context is opened.
#[derive(Clone, Copy, Default, Debug)]
pub struct Attr {
    /// How many receives can be posted; 0 for as many as the provider likes.
    pub size: usize,
    /// Into how many pieces of memory each; 0 for as many as the device takes.
    pub segments: usize,
    /// What they are to be capable of; 0 for all that there is.
    pub caps: u64,
}

impl Attr {
    /// How many receives there are to be, of `most`; `default` where that is not said.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for more.
    pub(crate) fn size_within(&self, default: usize, most: usize) -> Result<usize> {
        match self.size {
            0 => Ok(default.min(most)),
            size if size <= most => Ok(size),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Into how many pieces of memory each, of `most`.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for more.
    pub(crate) fn segments_within(&self, most: usize) -> Result<usize> {
        match self.segments {
            0 => Ok(most),
            segments if segments <= most => Ok(segments),
            _ => Err(Errno::EINVAL),
        }
    }
}

/// Whose receives a peer's context has.
pub enum PeerOwner {
    /// Those of a context of ours.
    Ours(Arc<dyn provider::SharedReceive>),
    /// Those of another module's.
    Others(KBox<dyn ReceiveOwner>),
}

/// Receives that endpoints share.
pub struct SharedReceive {
    core: Arc<dyn provider::SharedReceive>,
    users: ChildCount,
    card: ObjectEntry,
    domain: ChildRef<Domain>,
    /// Whose they are, if this is a peer's.
    owner: Option<ChildRef<SharedReceive>>,
}

impl Parent for SharedReceive {
    fn users(&self) -> &ChildCount {
        &self.users
    }
}

/// What of it is told of.
struct SrxInfo(Arc<dyn provider::SharedReceive>);

impl Introspect for SrxInfo {
    fn fill_info(&self, told: &mut ObjectInfo<'_>) {
        self.0.fill_info(told);
    }
}

impl SharedReceive {
    pub(super) fn new(domain: ChildRef<Domain>, attr: &Attr) -> Result<Arc<Self>> {
        let core = domain.core().clone().shared_receive(attr)?;
        Self::made(core, domain)
    }

    /// Endpoints of `domain` take what is posted with `owner`.
    pub(super) fn peer(domain: ChildRef<Domain>, owner: ChildRef<Self>) -> Result<Arc<Self>> {
        let posts = PeerOwner::Ours(owner.core.clone());
        let core = domain.core().clone().peer_srx(posts)?;
        Self::around(&core, domain, Some(owner))
    }

    /// The same of an owner of another module.
    pub(super) fn peer_of_others(
        domain: ChildRef<Domain>,
        owner: KBox<dyn ReceiveOwner>,
    ) -> Result<Arc<Self>> {
        let core = domain.core().clone().peer_srx(PeerOwner::Others(owner))?;
        Self::made(core, domain)
    }

    fn made(core: Arc<dyn provider::SharedReceive>, domain: ChildRef<Domain>) -> Result<Arc<Self>> {
        let made = Self::around(&core, domain, None);
        if made.is_err() {
            core.close(&mut |_| {});
        }
        made
    }

    fn around(
        core: &Arc<dyn provider::SharedReceive>,
        domain: ChildRef<Domain>,
        owner: Option<ChildRef<Self>>,
    ) -> Result<Arc<Self>> {
        let shown = Arc::new(SrxInfo(core.clone()), GFP_KERNEL)?;
        let card = domain
            .entry()
            .new_child(KOFI_OBJECT_SRX, c"", Some(shown))?;
        Ok(Arc::new(
            Self {
                core: core.clone(),
                users: ChildCount::new(),
                card,
                domain,
                owner,
            },
            GFP_KERNEL,
        )?)
    }

    /// The provider's part.
    pub fn core(&self) -> &Arc<dyn provider::SharedReceive> {
        &self.core
    }

    /// Where it was opened.
    pub(super) fn domain(&self) -> &Arc<Domain> {
        self.domain.arc()
    }

    /// Its number on the roster.
    pub(crate) fn number(&self) -> u64 {
        self.card.number()
    }

    /// Closes it: -FI_EBUSY while an endpoint is bound, or a peer takes from it. May sleep.
    ///
    /// When it returns no posted memory is touched any more; `reclaim` has been given the context of every
    /// receive that is posted.
    pub(crate) fn close(&self, reclaim: &mut dyn FnMut(Context)) -> Result {
        self.users.try_close()?;
        self.end(reclaim);
        Ok(())
    }

    fn end(&self, reclaim: &mut dyn FnMut(Context)) {
        // A peer's receives are its owner's.
        if self.owner.is_none() {
            self.core.close(reclaim);
        }
        self.card.remove();
    }
}

impl Drop for SharedReceive {
    fn drop(&mut self) {
        // Nothing is left to do for one that its owner has closed.
        self.end(&mut |_| {});
    }
}

/// What another domain's context answers, and one that has been closed.
pub(super) fn hold(
    shared: &Arc<SharedReceive>,
    domain: &Arc<Domain>,
) -> Result<ChildRef<SharedReceive>> {
    if !Arc::ptr_eq(shared.domain(), domain) {
        return Err(Errno::EDOMAIN);
    }
    ChildRef::new(shared)
}
