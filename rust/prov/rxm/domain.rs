// SPDX-License-Identifier: GPL-2.0

//! Datagram domains: the domain of the lower provider, where consumers register memory, and a second protection
//! domain for endpoints whose peers may access no registered memory.
//!
//! A device checks the rights of a queue pair, and that a key belongs to its protection domain. The receiver reads a
//! long message from the sender's memory, so the sender's queue pair has to permit remote reads even if the endpoint
//! does not offer them, and remote writes for what it reads with FI_TAGGED_RMA. Connections of such an endpoint use the
//! second protection domain, where only the memory of such operations is registered: the consumer's keys are not valid
//! there, even if the driver checks no rights.
//!
//! A region is registered with the lower provider for the device, and in the region table of the domain for atomic
//! operations, which the CPU executes.

use super::{
    super::common::mr_table::{
        EpRights,
        MrRegistration,
        MrTable,
        RmaIoc, //
    },
    cm::removal::{
        RemovalList,
        RemovalWatch, //
    },
    ep::{
        self,
        Endpoint, //
    },
    fabric::Fabric,
    info,
    lower::ProtectionDomain,
    sep::Sep,
    srx::Srx,
    stx::Stx,
    sw_cq::SwCq,
    wire::Range, //
};
use crate::{
    fi::{
        self,
        atomic::{
            Datatype,
            Form,
            Op, //
        },
        cq,
        eq::{
            ReservedEvent,
            Source, //
        },
        mr::{
            Access,
            Addressing, //
        },
        prelude::*,
        provider,
        srx,
        stx, //
    },
    util::{
        context,
        downcast::downcast,
        once::OnceBox, //
    },
};
use core::any::Any;

/// A domain.
pub(super) struct Domain {
    // Fields are dropped in this order.
    removal_watch: Option<RemovalWatch>,
    /// Protection domain with the consumer's regions.
    open: Arc<ProtectionDomain>,
    /// Protection domain without them, allocated when the first endpoint needs it.
    closed: OnceBox<Arc<ProtectionDomain>>,
    fabric: Arc<Fabric>,
}

impl Domain {
    /// Opens the domain of `lower_info`, with a loop domain if `is_local` is set and the provider uses loop. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// Errors of the lower provider.
    pub(super) fn new(
        fabric: Arc<Fabric>,
        lower_info: KBox<Info>,
        is_local: bool,
    ) -> Result<Arc<Self>> {
        let is_local = is_local && fabric.uses_loop();
        let open = ProtectionDomain::new(&fabric, lower_info, is_local)?;
        let removal_watch = match is_local {
            true => Some(RemovalWatch::new(
                context::in_process()?,
                fabric.lower(),
                open.lower(),
            )?),
            false => None,
        };
        Ok(Arc::new(
            Self {
                removal_watch,
                open: Arc::new(open, GFP_KERNEL)?,
                closed: OnceBox::new(),
                fabric,
            },
            GFP_KERNEL,
        )?)
    }

    /// Returns the protection domain for connections of an endpoint that grants its peers these rights. May sleep.
    ///
    /// # Errors
    ///
    /// Errors of the lower provider, -FI_ENOMEM.
    pub(super) fn protection_domain(&self, rights: EpRights) -> Result<&Arc<ProtectionDomain>> {
        if rights.has_rma_read() || rights.has_rma_write() {
            return Ok(&self.open);
        }
        self.closed.get_or_try_init(|| {
            let info = self.open.lower_info().duplicate()?;
            let closed = ProtectionDomain::new(&self.fabric, info, self.open.has_local())?;
            Ok(KBox::new(Arc::new(closed, GFP_KERNEL)?, GFP_KERNEL)?)
        })
    }

    /// Returns whether `domain` is the protection domain with the consumer's regions.
    pub(super) fn is_open(&self, domain: &Arc<ProtectionDomain>) -> bool {
        Arc::ptr_eq(&self.open, domain)
    }

    /// Returns the domain of the lower provider, with the consumer's regions.
    pub(super) fn lower(&self) -> &Arc<fi::domain::Domain> {
        self.open.lower()
    }

    /// Returns the info that lower endpoints are opened with.
    pub(super) fn lower_info(&self) -> &Info {
        self.open.lower_info()
    }

    /// Returns the list of endpoints that end when the device is removed.
    pub(super) fn removal_list(&self) -> Option<&RemovalList> {
        self.removal_watch
            .as_ref()
            .map(|removal_watch| &*removal_watch.removal_list)
    }

    /// Returns the regions that atomic operations of peers access.
    pub(super) fn regions(&self) -> &Arc<MrTable> {
        self.open.regions()
    }

    /// Checks that memory lies in the regions of its descriptors, although the provider does not need them. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if it does not, or for regions of another domain.
    #[inline(always)]
    pub(super) fn check_descriptors(
        &self,
        memory: Memory<'_>,
        descriptors: &[Descriptor],
    ) -> Result {
        match descriptors {
            [] => Ok(()),
            [only] if only.as_ptr().is_null() => Ok(()),
            _ => self.lower().core().check_descriptors(memory, descriptors),
        }
    }

    /// Returns the fabric.
    pub(super) fn fabric(&self) -> &Fabric {
        &self.fabric
    }
}

impl provider::Domain for Domain {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn max_rx_contexts(&self) -> usize {
        info::CONTEXTS
    }

    fn device(&self) -> Option<provider::DomainDevice> {
        self.lower().core().device()
    }

    fn completion_queue(
        self: Arc<Self>,
        attr: &cq::Attr,
    ) -> Result<Arc<dyn provider::CompletionQueue>> {
        let queue: Arc<dyn provider::CompletionQueue> = SwCq::new(attr)?;
        Ok(queue)
    }

    fn endpoint(
        self: Arc<Self>,
        info: &Info,
        _source: Source,
    ) -> Result<Arc<dyn provider::Endpoint>> {
        let endpoint: Arc<dyn provider::Endpoint> = Endpoint::new(self, info)?;
        Ok(endpoint)
    }

    fn scalable_endpoint(
        self: Arc<Self>,
        info: &Info,
    ) -> Result<Arc<dyn provider::ScalableEndpoint>> {
        let endpoint: Arc<dyn provider::ScalableEndpoint> = Sep::new(self, info)?;
        Ok(endpoint)
    }

    fn shared_receive(
        self: Arc<Self>,
        attr: &srx::Attr,
    ) -> Result<Arc<dyn provider::SharedReceive>> {
        let shared: Arc<dyn provider::SharedReceive> = Srx::new(Some(self), attr)?;
        Ok(shared)
    }

    fn shared_transmit(
        self: Arc<Self>,
        attr: &stx::Attr,
    ) -> Result<Arc<dyn provider::SharedTransmit>> {
        let shared: Arc<dyn provider::SharedTransmit> =
            Stx::new(context::in_process()?, &self, attr)?;
        Ok(shared)
    }

    fn peer_srx(
        self: Arc<Self>,
        posts: srx::PeerOwner,
    ) -> Result<Arc<dyn provider::SharedReceive>> {
        let shared: Arc<dyn provider::SharedReceive> = match posts {
            // Shared receives belong to no device, so any domain may use them.
            srx::PeerOwner::Local(core) => downcast::<Srx>(core.into_any()).ok_or(Errno::EINVAL)?,
            srx::PeerOwner::Imported(owner) => Srx::import(owner)?,
        };
        Ok(shared)
    }

    fn register(
        self: Arc<Self>,
        memory: &[Segment],
        access: Access,
    ) -> Result<Arc<dyn provider::MemoryRegion>> {
        let lower = self.lower().core().clone().register(memory, access)?;
        let mr_mode = self
            .lower_info()
            .domain()
            .map_or(0, |domain| domain.mr_mode);
        let addressing = Addressing::from_mr_mode(mr_mode);
        let region: Arc<dyn provider::MemoryRegion> =
            Region::new(self.regions(), lower, memory, access, addressing)?;
        Ok(region)
    }

    fn check_descriptors(&self, memory: Memory<'_>, descriptors: &[Descriptor]) -> Result {
        self.check_descriptors(memory, descriptors)
    }

    fn set_removal_event(&self, notice: Option<ReservedEvent>) {
        match &self.removal_watch {
            Some(removal_watch) => removal_watch.removal_list.set_event(notice),
            None => self.lower().core().set_removal_event(notice),
        }
    }

    fn max_atomic_elements(&self, form: Form, _op: Op, datatype: Datatype) -> Result<usize> {
        Ok(ep::max_elements(form, datatype))
    }

    fn resolve(&self, peers: &mut dyn provider::AsyncResolve) {
        self.lower().core().resolve(peers);
    }
}

impl From<&Range> for RmaIoc {
    fn from(range: &Range) -> Self {
        Self {
            addr: range.addr,
            count: range.len,
            key: range.key,
        }
    }
}

/// A registered region.
pub(super) struct Region {
    // Fields are dropped in this order.
    _opening: Option<MrRegistration>,
    lower: Arc<dyn provider::MemoryRegion>,
}

impl Region {
    /// Creates the region of the lower registration `lower`, and enters it in the region table if `access` is remote.
    /// May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(
        regions: &Arc<MrTable>,
        lower: Arc<dyn provider::MemoryRegion>,
        memory: &[Segment],
        access: Access,
        addressing: Addressing,
    ) -> Result<Arc<Self>> {
        let opening = match access.is_remote() {
            true => Some(regions.register(lower.key(), memory, access, addressing)?),
            false => None,
        };
        Ok(Arc::new(
            Self {
                _opening: opening,
                lower,
            },
            GFP_KERNEL,
        )?)
    }
}

impl provider::MemoryRegion for Region {
    fn descriptor(&self) -> Descriptor {
        self.lower.descriptor()
    }

    fn key(&self) -> u64 {
        self.lower.key()
    }
}
