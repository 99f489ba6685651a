// SPDX-License-Identifier: GPL-2.0

//! Domains: opened devices.

use super::{
    atomic::{
        Datatype,
        Form,
        Op, //
    },
    av::{
        self,
        AddressVector, //
    },
    cntr::{
        self,
        Counter, //
    },
    cq::{
        self,
        CompletionQueue,
        PeerSink, //
    },
    ep::Endpoint,
    eq::{
        EventQueue,
        Kind,
        ReservedEvent,
        Source, //
    },
    fabric::Fabric,
    introspect::EntryGuard,
    mr::{
        region_pool::RegionPool,
        Access,
        Addressing,
        MemoryRegion, //
    },
    object::{
        impl_open,
        impl_parent,
        ChildCount, //
    },
    poll::PollSet,
    provider,
    sep::ScalableEndpoint,
    srx::{
        self,
        SharedReceive, //
    },
    stx::{
        self,
        SharedTransmit, //
    },
};
use crate::{
    fi::prelude::*,
    util::biased_lock::Threading, //
};
use kernel::str::CString;

/// The event queue binding of a domain.
struct EqBinding {
    eq: ChildRef<EventQueue>,
    /// Source of the events about the domain.
    source: Source,
    /// True if registrations are reported (FI_REG_MR).
    reports_mr: bool,
}

/// The attributes of a domain that the infos of its endpoints have, too.
pub(crate) struct Scope {
    name: CString,
    addr_format: u32,
    av_type: u32,
    mr_mode: c_int,
    threading: u32,
}

impl Scope {
    fn from_info(info: &Info) -> Result<Self> {
        let attr = info.domain().copied().unwrap_or(pin_init::zeroed());
        Ok(Self {
            name: CString::try_from(info.domain_name().unwrap_or(c""))?,
            addr_format: info.addr_format(),
            av_type: attr.av_type,
            mr_mode: attr.mr_mode,
            threading: attr.threading,
        })
    }

    /// Returns true if the endpoints of an offer can be opened in the domain.
    pub(crate) fn accepts(&self, offer: &Info) -> bool {
        offer.domain_name() == Some(&*self.name) && self.merge(offer).is_some()
    }

    /// Returns the domain attributes and the address format that infos and the domain agree on.
    fn merge(&self, info: &Info) -> Option<(abi::fi_domain_attr, u32)> {
        let asked = info.domain().copied().unwrap_or(pin_init::zeroed());
        let av_type = match (asked.av_type, self.av_type) {
            (asked, abi::FI_AV_UNSPEC) => asked,
            (abi::FI_AV_UNSPEC, open) => open,
            (asked, open) if asked == open => open,
            _ => return None,
        };
        let format = match (info.addr_format(), self.addr_format) {
            (asked, abi::FI_FORMAT_UNSPEC | abi::FI_SOCKADDR) if asked != abi::FI_ADDR_STR => asked,
            (abi::FI_FORMAT_UNSPEC | abi::FI_SOCKADDR, open) => open,
            (asked, open) if asked == open => asked,
            _ => return None,
        };
        // Hints that accept no mode bit of the domain keep their own; [`Self::has_same_addressing`] filters
        // the offers.
        let mr_mode = match (asked.mr_mode, asked.mr_mode & self.mr_mode) {
            (0, _) => self.mr_mode,
            (asked, 0) => asked,
            (_, both) => both,
        };
        // A domain whose consumer serializes data calls does not serve a consumer that does not.
        let threading = match (asked.threading, self.threading) {
            (abi::FI_THREAD_UNSPEC, open) | (_, open @ abi::FI_THREAD_SAFE) => open,
            (asked, open) if asked == open => open,
            _ => return None,
        };
        let attr = abi::fi_domain_attr {
            av_type,
            mr_mode,
            threading,
            ..asked
        };
        Some((attr, format))
    }

    /// Restricts hints, which have all attributes, to the domain; false if they conflict with it.
    pub(super) fn restrict(&self, hints: &mut Info) -> Result<bool> {
        if hints.domain_name().is_some_and(|name| name != &*self.name) {
            return Ok(false);
        }
        let Some((attr, format)) = self.merge(hints) else {
            return Ok(false);
        };
        hints.set_domain_name(&self.name)?;
        let (src, dest) = hints.addresses()?;
        hints.set_addresses(format, src.as_ref(), dest.as_ref())?;
        hints.set_domain(&attr)?;
        Ok(true)
    }

    /// Returns true if an offer and the domain address the bytes of memory regions alike.
    pub(super) fn has_same_addressing(&self, offer: &Info) -> bool {
        let mr_mode = offer.domain().map_or(0, |domain| domain.mr_mode);
        Addressing::from_mr_mode(mr_mode) == self.addressing()
    }

    /// Returns how peers address the bytes of a memory region.
    pub(super) fn addressing(&self) -> Addressing {
        Addressing::from_mr_mode(self.mr_mode)
    }
}

/// An open domain.
#[pin_data]
pub struct Domain {
    /// Regions for its endpoints.
    #[pin]
    regions: RegionPool,
    resources: DeferredDrop<Resources>,
    scope: Arc<Scope>,
    /// Type of the domain's address vectors; `None` for any type.
    pub(super) av_type: Option<av::Type>,
    threading: Threading,
    users: ChildCount,
}

struct Resources {
    core: Arc<dyn provider::Domain>,
    eq_binding: SetOnce<EqBinding>,
    /// The owner, for a peer domain.
    _owner: Option<ChildRef<Domain>>,
    entry_guard: EntryGuard<Fabric>,
}

impl_parent!(Domain, resources.entry_guard.entry);

impl Domain {
    pub(super) fn new(
        fabric: ChildRef<Fabric>,
        info: &Info,
        threading: Threading,
        owner: Option<ChildRef<Self>>,
    ) -> Result<Arc<Self>> {
        let av_type = match info.domain().map_or(0, |domain| domain.av_type) {
            abi::FI_AV_UNSPEC => None,
            abi::FI_AV_TABLE => Some(av::Type::Table),
            abi::FI_AV_MAP => Some(av::Type::Map),
            _ => return Err(Errno::EINVAL),
        };
        let core = fabric.resources.core.clone().domain(info, threading)?;
        let name = info.domain_name().unwrap_or(c"");
        let resources = DeferredDrop::new(Resources {
            core,
            eq_binding: SetOnce::new(),
            _owner: owner,
            entry_guard: EntryGuard::new(fabric, abi::KOFI_OBJECT_DOMAIN, name, None)?,
        })?;
        let scope = new_arc(Scope::from_info(info)?)?;
        pin_arc(pin_init!(Self {
            regions <- RegionPool::new(),
            resources,
            scope,
            av_type,
            threading,
            users: ChildCount::new(),
        }))
    }

    /// Returns the regions for the domain's endpoints.
    pub(super) fn regions(&self) -> &RegionPool {
        &self.regions
    }

    /// Returns whether endpoints register memory for their peers (FI_MR_ENDPOINT) from pools.
    pub(crate) fn has_ep_regions(&self) -> bool {
        self.is_ep_mode() && !self.regions.is_empty()
    }

    /// Returns whether the domain has FI_MR_ENDPOINT.
    pub(crate) fn is_ep_mode(&self) -> bool {
        self.scope.mr_mode & abi::FI_MR_ENDPOINT != 0
    }

    pub(crate) fn core(&self) -> &Arc<dyn provider::Domain> {
        &self.resources.core
    }

    impl_open! {
        /// Opens a completion queue. May sleep.
        pub(crate) fn completion_queue(attr: &cq::Attr) -> CompletionQueue::new(attr, None);

        /// Opens a completion queue that no consumer reads: each entry goes to `sink` as the operation ends.
        /// May sleep.
        ///
        /// # Errors
        ///
        /// -FI_ENOSYS for a provider whose completions come from a device, -FI_ENOMEM.
        pub(crate) fn peer_cq(attr: &cq::Attr, sink: Arc<dyn PeerSink>)
            -> CompletionQueue::new(attr, Some(sink));

        /// Opens an address vector. Without a type it has the domain's type, or else is a table.
        ///
        /// # Errors
        ///
        /// -FI_EINVAL for another type than the domain's, too many receive context bits, an invalid name, and a
        /// name whose vector has other attributes; -FI_ENOENT for a read-only open of a name that does not exist;
        /// -FI_ENOMEM.
        pub fn address_vector(_here: ProcessContext, attr: &av::Attr<'_>)
            -> AddressVector::new(attr);

        /// Opens a peer address vector, which has the addresses of `owner`. Addresses are inserted and removed in
        /// the owner alone, which cannot be closed before the peer.
        ///
        /// # Errors
        ///
        /// -FI_EINVAL for another type than the owner's, in `kind` or in the domain, and for an owner that is
        /// closed; -FI_ENOMEM.
        pub fn peer_address_vector(
            _here: ProcessContext, owner: &Arc<AddressVector>, kind: Option<av::Type>)
            -> AddressVector::peer(ChildRef::new(owner)?, kind);

        /// Opens a counter.
        pub fn counter(_here: ProcessContext, attr: &cntr::Attr) -> Counter::new(attr);

        /// Opens a poll set.
        pub fn poll_set(_here: ProcessContext) -> PollSet::new();

        /// Creates an endpoint, whose events carry `source`. May sleep.
        pub(crate) fn endpoint(info: &Info, source: Source) -> Endpoint::new(info, source);

        /// Creates a scalable endpoint. May sleep.
        pub(crate) fn scalable_endpoint(info: &Info) -> ScalableEndpoint::new(info);

        /// Opens a shared receive context. May sleep.
        pub(crate) fn shared_receive(attr: &srx::Attr) -> SharedReceive::new(attr);

        /// Opens a shared transmit context. May sleep.
        pub(crate) fn shared_transmit(attr: &stx::Attr) -> SharedTransmit::new(attr);

        /// Imports the shared receive context `owner`: endpoints take receives that are posted there, and nothing
        /// is posted here. The owner cannot be closed before the imported context.
        ///
        /// # Errors
        ///
        /// -FI_EINVAL if the device of either domain holds posted receives itself, and for an owner that is
        /// closed; -FI_ENOMEM.
        pub fn peer_shared_receive(_here: ProcessContext, owner: &Arc<SharedReceive>)
            -> SharedReceive::peer(ChildRef::new(owner)?);

        /// Imports a shared receive context of another module. May sleep.
        pub(crate) fn imported_shared_receive(owner: KBox<dyn srx::ReceiveOwner>)
            -> SharedReceive::import(owner);

        /// Registers memory. May sleep.
        pub(crate) fn register(memory: &[Segment], access: Access)
            -> MemoryRegion::new(memory, access);
    }

    /// Returns the address format of the domain: FI_SOCKADDR_IN, for example.
    pub fn addr_format(&self) -> u32 {
        self.scope.addr_format
    }

    /// Returns whether the consumer serializes the data calls of an object, or kOFI does.
    pub(crate) fn threading(&self) -> Threading {
        self.threading
    }

    /// Returns the fabric that the domain was opened from.
    pub(super) fn fabric(&self) -> &Arc<Fabric> {
        self.resources.entry_guard.parent.arc()
    }

    /// Returns the domain's name; domains of the same device have the same name.
    pub(super) fn name(&self) -> &CStr {
        &self.scope.name
    }

    /// Returns the attributes that the infos of the domain's endpoints have, too.
    pub(crate) fn scope(&self) -> &Arc<Scope> {
        &self.scope
    }

    /// Returns the maximum number of elements of an atomic operation; -FI_EOPNOTSUPP if the device does not
    /// support the operation. Any context.
    pub fn max_atomic_elements(&self, form: Form, op: Op, datatype: Datatype) -> Result<usize> {
        self.resources.core.max_atomic_elements(form, op, datatype)
    }

    /// Binds an event queue, once. The queue gets an error event with FI_ENODEV and `source` when the
    /// domain's device is removed. The removal waits until the consumer has closed everything up to the
    /// domain.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if the queue belongs to another fabric, or a queue is bound already; -FI_ENOMEM.
    pub fn bind_event_queue(
        &self,
        _here: ProcessContext,
        queue: &Arc<EventQueue>,
        source: Source,
    ) -> Result {
        self.bind_eq(queue, source, 0)
    }

    /// Binds the event queue for endpoints without their own. It gets an error event with FI_ENODEV and
    /// `source` when the device is removed and, with FI_REG_MR, the events of [`Self::reserve_mr_event`]. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// -FI_EBADFLAGS for other flags, -FI_EINVAL for another fabric's queue or if one is bound already;
    /// -FI_ENOMEM.
    pub(crate) fn bind_eq(&self, queue: &Arc<EventQueue>, source: Source, flags: u64) -> Result {
        Errno::EBADFLAGS.when(flags & !abi::FI_REG_MR != 0)?;
        Errno::EINVAL.when(!queue.is_of(self.fabric()))?;
        let removal_event = ReservedEvent::new(queue, source, Kind::Error(Errno::ENODEV, 0))?;
        let reports = EqBinding {
            eq: ChildRef::new(queue)?,
            source,
            reports_mr: flags & abi::FI_REG_MR != 0,
        };
        Errno::EINVAL.when(!self.resources.eq_binding.populate(reports))?;
        self.resources.core.set_removal_event(Some(removal_event));
        Ok(())
    }

    /// Returns the bound event queue.
    pub(super) fn event_queue(&self) -> Option<&Arc<EventQueue>> {
        Some(self.resources.eq_binding.as_ref()?.eq.arc())
    }

    /// Reserves an FI_MR_COMPLETE event about the region `source`; `None` if the domain does not report
    /// registrations. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn reserve_mr_event(&self, source: Source) -> Result<Option<ReservedEvent>> {
        let binding = self.resources.eq_binding.as_ref();
        let kind = Kind::Complete(abi::FI_MR_COMPLETE);
        let reserve = |binding: &EqBinding| ReservedEvent::new(binding.eq.arc(), source, kind);
        let binding = binding.filter(|binding| binding.reports_mr);
        binding.map(reserve).transpose()
    }

    /// Drops the unread events about `source`. Process context.
    pub(crate) fn drop_events(&self, source: Source) {
        if let Some(events) = self.event_queue() {
            events.drop_events(source);
        }
    }

    /// Closes the domain: -FI_EBUSY while an object or a peer domain uses it.
    pub(crate) fn close(&self) -> Result {
        self.users.close(&self.resources.entry_guard.entry)?;
        if let Some(reports) = self.resources.eq_binding.as_ref() {
            self.resources.core.set_removal_event(None);
            self.drop_events(reports.source);
        }
        Ok(())
    }
}
