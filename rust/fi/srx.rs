// SPDX-License-Identifier: GPL-2.0

//! Shared receive contexts: receives for the messages of all endpoints that are bound to one, and of peers.

mod guests;
mod owner;

pub use self::{
    guests::{
        Guest,
        Host,
        Taken,
        PARTS, //
    },
    owner::{
        Arrived,
        Got,
        Owner,
        Starter,
        Tickets, //
    },
};

use super::{
    card::{
        Card,
        Tell,
        Told, //
    },
    domain::Domain,
    memory::Context,
    object::{
        Held,
        Parent,
        Users, //
    },
    provider,
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
pub enum Posts {
    /// Those of a context of ours.
    Ours(Arc<dyn provider::SharedReceive>),
    /// Those of another module's.
    Others(KBox<dyn Owner>),
}

/// Receives that endpoints share.
pub struct SharedReceive {
    core: Arc<dyn provider::SharedReceive>,
    users: Users,
    card: Card,
    domain: Held<Domain>,
    /// Whose they are, if this is a peer's.
    owner: Option<Held<SharedReceive>>,
}

impl Parent for SharedReceive {
    fn users(&self) -> &Users {
        &self.users
    }
}

/// What of it is told of.
struct Shown(Arc<dyn provider::SharedReceive>);

impl Tell for Shown {
    fn tell(&self, told: &mut Told<'_>) {
        self.0.tell(told);
    }
}

impl SharedReceive {
    pub(super) fn new(domain: Held<Domain>, attr: &Attr) -> Result<Arc<Self>> {
        let core = domain.core().clone().shared_receive(attr)?;
        Self::made(core, domain)
    }

    /// Endpoints of `domain` take what is posted with `owner`.
    pub(super) fn peer(domain: Held<Domain>, owner: Held<Self>) -> Result<Arc<Self>> {
        let posts = Posts::Ours(owner.core.clone());
        let core = domain.core().clone().peer_receive(posts)?;
        Self::around(&core, domain, Some(owner))
    }

    /// The same of an owner of another module.
    pub(super) fn peer_of_others(
        domain: Held<Domain>,
        owner: KBox<dyn Owner>,
    ) -> Result<Arc<Self>> {
        let core = domain.core().clone().peer_receive(Posts::Others(owner))?;
        Self::made(core, domain)
    }

    fn made(core: Arc<dyn provider::SharedReceive>, domain: Held<Domain>) -> Result<Arc<Self>> {
        let made = Self::around(&core, domain, None);
        if made.is_err() {
            core.close(&mut |_| {});
        }
        made
    }

    fn around(
        core: &Arc<dyn provider::SharedReceive>,
        domain: Held<Domain>,
        owner: Option<Held<Self>>,
    ) -> Result<Arc<Self>> {
        let shown = Arc::new(Shown(core.clone()), GFP_KERNEL)?;
        let card = domain.card().child(KOFI_OBJECT_SRX, c"", Some(shown))?;
        Ok(Arc::new(
            Self {
                core: core.clone(),
                users: Users::new(),
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
        self.users.retire()?;
        self.end(reclaim);
        Ok(())
    }

    fn end(&self, reclaim: &mut dyn FnMut(Context)) {
        // A peer's receives are its owner's.
        if self.owner.is_none() {
            self.core.close(reclaim);
        }
        self.card.withdraw();
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
) -> Result<Held<SharedReceive>> {
    if !Arc::ptr_eq(shared.domain(), domain) {
        return Err(Errno::EDOMAIN);
    }
    Held::new(shared)
}
