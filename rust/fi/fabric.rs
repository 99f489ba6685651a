// SPDX-License-Identifier: GPL-2.0

//! Fabrics: the root of a consumer's objects.

use super::{
    domain::Domain,
    eq::{
        self,
        EventQueue,
        Source, //
    },
    introspect::{
        ObjectEntry,
        Owner, //
    },
    object::{
        impl_open,
        impl_parent,
        ChildCount, //
    },
    pep::PassiveEndpoint,
    provider::{
        self,
        FabricAttr,
        Provider, //
    },
    wait_set::WaitSet, //
};
use crate::{
    abi::KOFI_OBJECT_FABRIC,
    fi::prelude::*,
    util::{
        biased_lock::Threading,
        context::OwnModule, //
    },
};
use kernel::{
    str::CString,
    sync::aref::ARef, //
};

/// An open fabric.
pub struct Fabric {
    pub(super) resources: DeferredDrop<Resources>,
    /// Name of the provider.
    pub(super) provider: &'static CStr,
    /// Name that the fabric was opened with; `None` if any fabric of the provider was accepted.
    pub(super) name: Option<CString>,
    /// Network namespace of the fabric's addresses.
    pub(super) net: ARef<Namespace>,
    users: ChildCount,
}

pub(super) struct Resources {
    pub(super) core: Arc<dyn provider::Fabric>,
    entry: ObjectEntry,
    /// Reference that keeps kofi.ko loaded while a consumer's fabric is open, also after the consumer's
    /// module is gone; `None` for a fabric of kOFI itself. The last field, as dropping it lets kofi.ko be
    /// unloaded.
    _kofi: Option<OwnModule>,
}

impl_parent!(Fabric, resources.entry);

impl Fabric {
    /// Opens a fabric of `provider` for the consumer `owner`. May sleep.
    pub(crate) fn open(
        provider: &dyn Provider,
        attr: &FabricAttr<'_>,
        owner: &Owner,
    ) -> Result<Arc<Self>> {
        Self::open_for(provider, attr, owner, Some(OwnModule::get_this_module()))
    }

    /// Opens a fabric of `provider` for kOFI itself. May sleep.
    pub(crate) fn open_own(provider: &dyn Provider, attr: &FabricAttr<'_>) -> Result<Arc<Self>> {
        Self::open_for(provider, attr, &Owner::module(c"kofi"), None)
    }

    fn open_for(
        provider: &dyn Provider,
        attr: &FabricAttr<'_>,
        owner: &Owner,
        kofi: Option<OwnModule>,
    ) -> Result<Arc<Self>> {
        let core = provider.fabric(attr)?;
        let name = attr.name.unwrap_or(provider.name());
        let entry = ObjectEntry::for_fabric(KOFI_OBJECT_FABRIC, name, owner, attr.net)?;
        let resources = DeferredDrop::new(Resources {
            core,
            entry,
            _kofi: kofi,
        })?;
        new_arc(Self {
            resources,
            provider: provider.name(),
            name: attr.name.map(CString::try_from).transpose()?,
            net: attr.net.into(),
            users: ChildCount::new(),
        })
    }

    /// Opens the domain that `info` names, for calls from any thread.
    pub fn domain(self: &Arc<Self>, _here: ProcessContext, info: &Info) -> Result<Arc<Domain>> {
        self.domain_for(info, Threading::THREAD_SAFE, None)
    }

    /// Opens the domain that `info` names, with the consumer's threading model. With `owner` it is a peer
    /// domain; the owner cannot be closed before it.
    pub(crate) fn domain_for(
        self: &Arc<Self>,
        info: &Info,
        threading: Threading,
        owner: Option<&Arc<Domain>>,
    ) -> Result<Arc<Domain>> {
        let owner = owner.map(ChildRef::new).transpose()?;
        Domain::new(ChildRef::new(self)?, info, threading, owner)
    }

    impl_open! {
        /// Opens an event queue.
        pub fn event_queue(_here: ProcessContext, attr: eq::Attr) -> EventQueue::new(attr, None);

        /// Opens a wait set.
        pub fn wait_set(_here: ProcessContext) -> WaitSet::new();

        /// Creates a passive endpoint, whose events carry `source`. May sleep.
        pub(crate) fn passive_endpoint(info: &Info, source: Source)
            -> PassiveEndpoint::new(info, source);
    }

    /// Opens a peer event queue: each event goes to `owner`, which cannot be closed before it.
    pub fn peer_event_queue(
        self: &Arc<Self>,
        _here: ProcessContext,
        owner: &Arc<EventQueue>,
    ) -> Result<Arc<EventQueue>> {
        let owner = ChildRef::new(owner)?;
        EventQueue::new(ChildRef::new(self)?, eq::Attr::default(), Some(owner))
    }

    /// Closes the fabric: -FI_EBUSY while an object uses it.
    pub(crate) fn close(&self) -> Result {
        self.users.close(&self.resources.entry)
    }
}
