// SPDX-License-Identifier: GPL-2.0

//! Domains: a device, its protection domain, and the endpoints that use them.

use super::{
    ep::atomic,
    ep_region::Region,
    fabric::Fabric,
    mr::{
        FastReg,
        VerbsMr, //
    },
    prelude::*,
    resolve,
    sge,
    srx::Srx, //
};
use crate::{
    fi::{
        atomic::{
            Datatype,
            Form,
            Op, //
        },
        cq,
        eq::ReservedEvent,
        mr::{
            Access,
            Addressing, //
        },
        provider::DomainDevice,
        srx, //
    },
    rdma::device::{
        NotifierRegistration,
        RemovalNotifier, //
    },
    util::biased_lock::Threading, //
};

/// Endpoints and the consumer that are notified when the device of a domain is removed, in this
/// order. The mutex of the list is not held across calls. `removal_notice` stays locked while the
/// event is written, so that no event is written after the notice has been taken.
#[pin_data]
struct DomainEndpoints {
    #[pin]
    endpoints: Mutex<KVec<Arc<Endpoint>>>,
    #[pin]
    removal_notice: Mutex<Option<ReservedEvent>>,
    fabric: Arc<Fabric>,
    device: Arc<Device>,
}

impl DomainEndpoints {
    /// Returns an endpoint that has not been notified of the removal, and marks it as notified.
    fn next_unnotified(&self) -> Option<Arc<Endpoint>> {
        let list = self.endpoints.lock();
        list.iter().find(|member| member.mark_removed()).cloned()
    }

    fn notify_consumer(&self) {
        let mut removal_notice = self.removal_notice.lock();
        if let Some(notice) = removal_notice.take() {
            notice.write();
        }
    }
}

impl RemovalNotifier for DomainEndpoints {
    fn notify_removal(&self) {
        self.fabric
            .connreqs
            .reject_where(|request| request.is_on_device(&self.device));
        // Each endpoint loses its peer, and the consumer closes it; the removal waits for that.
        while let Some(endpoint) = self.next_unnotified() {
            endpoint.handle_device_removal();
        }
        self.notify_consumer();
    }
}

/// A domain of a verbs device.
pub(super) struct Domain {
    // Dropped in this order: first no more removals are notified, then the device is released.
    _removal_notifier: NotifierRegistration,
    endpoints: Arc<DomainEndpoints>,
    /// Protection domain, which holds the device.
    pub(super) pd: Arc<Pd>,
    fast_reg: Arc<FastReg>,
    addressing: Addressing,
    /// Maximum length of a message.
    pub(super) max_msg_size: usize,
    /// Owner of the biased locks of the domain's objects.
    pub(super) serial: Option<Arc<BiasedLockList>>,
}

impl Domain {
    /// Opens the device of `info`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENODEV when the device is being removed or cannot be used in the fabric's network
    /// namespace, -FI_ENOMEM.
    pub(super) fn new(
        fabric: Arc<Fabric>,
        device: &Arc<Device>,
        info: &Info,
        threading: Threading,
    ) -> Result<Arc<Self>> {
        let used = device.try_get()?;
        if !used.can_connect_in(&fabric.net) {
            return Err(Errno::ENODEV);
        }
        let max_msg_size = used.max_msg_size()? as usize;
        let pd = Pd::new(used)?;
        let fast_reg = FastReg::new(pd.clone())?;
        let endpoints = Arc::pin_init(
            pin_init!(DomainEndpoints {
                endpoints <- new_mutex!(KVec::new(), "kofi::verbs::DomainEndpoints"),
                removal_notice <- new_mutex!(None, "kofi::verbs::DomainEndpoints::removal_notice"),
                fabric,
                device: device.clone(),
            }),
            GFP_KERNEL,
        )?;
        let serial = BiasedLockList::new(threading)?;
        let registration = device.register_notifier(endpoints.clone())?;
        Ok(Arc::new(
            Self {
                _removal_notifier: registration,
                endpoints,
                pd,
                fast_reg,
                addressing: Addressing::from_mr_mode(
                    info.domain().map_or(0, |domain| domain.mr_mode),
                ),
                max_msg_size,
                serial,
            },
            GFP_KERNEL,
        )?)
    }

    /// Returns the fabric of the domain.
    pub(super) fn fabric(&self) -> &Fabric {
        &self.endpoints.fabric
    }

    /// Excludes data calls that take no lock, for a caller that is no data call. May sleep.
    pub(super) fn enter_exclusive(&self) -> ExclusiveGuard {
        ExclusiveGuard::enter(self.serial.as_ref())
    }

    /// Adds an endpoint to the list. May sleep.
    pub(super) fn add_endpoint(&self, endpoint: &Arc<Endpoint>) -> Result {
        let mut list = self.endpoints.endpoints.lock();
        Ok(list.push(endpoint.clone(), GFP_KERNEL)?)
    }

    /// Removes an endpoint from the list.
    pub(super) fn remove_endpoint(&self, endpoint: &Endpoint) {
        let mut list = self.endpoints.endpoints.lock();
        let at = list
            .iter()
            .position(|member| core::ptr::eq(&**member, endpoint));
        let gone = at.map(|at| list.remove(at));
        drop(list);
        drop(gone);
    }
}

impl provider::Domain for Domain {
    fn resolve(&self, peers: &mut dyn provider::AsyncResolve) {
        resolve::resolve_peers(&self.endpoints.fabric.net, &self.endpoints.device, peers);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn device(&self) -> Option<DomainDevice> {
        let used = self.pd.device();
        let (device, dma_device) = used.struct_device_addrs();
        Some(DomainDevice {
            device,
            dma_device,
            comp_vectors: used.attributes.num_comp_vectors,
        })
    }

    fn completion_queue(
        self: Arc<Self>,
        attr: &cq::Attr,
    ) -> Result<Arc<dyn provider::CompletionQueue>> {
        Ok(Cq::new(
            self.serial.clone(),
            self.pd.device().clone(),
            attr,
        )?)
    }

    fn shared_receive(
        self: Arc<Self>,
        attr: &srx::Attr,
    ) -> Result<Arc<dyn provider::SharedReceive>> {
        Ok(Srx::new(&self.pd, attr, self.max_msg_size)?)
    }

    fn endpoint(
        self: Arc<Self>,
        info: &Info,
        source: Source,
    ) -> Result<Arc<dyn provider::Endpoint>> {
        Ok(Endpoint::new(self, info, source)?)
    }

    fn register(
        self: Arc<Self>,
        memory: &[Segment],
        access: Access,
    ) -> Result<Arc<dyn provider::MemoryRegion>> {
        Ok(match access.is_remote() {
            true => VerbsMr::new_remote(
                &self.fast_reg,
                memory,
                access,
                self.addressing,
                self.max_msg_size,
            )?,
            false => VerbsMr::new_local(self.pd.clone(), memory, self.max_msg_size)?,
        })
    }

    fn region_core(&self, pages: usize) -> Result<KBox<dyn provider::RegionCore>> {
        Ok(Region::new(self.pd.clone(), pages, self.addressing)?)
    }

    fn set_removal_event(&self, notice: Option<ReservedEvent>) {
        let old = core::mem::replace(&mut *self.endpoints.removal_notice.lock(), notice);
        drop(old);
        // A removal that was notified before did not find the event.
        if self.endpoints.device.is_gone() {
            self.endpoints.notify_consumer();
        }
    }

    fn check_descriptors(&self, memory: Memory<'_>, descriptors: &[Descriptor]) -> Result {
        sge::check_descriptors(memory, descriptors, &self.pd)
    }

    fn max_atomic_elements(&self, _form: Form, _op: Op, datatype: Datatype) -> Result<usize> {
        atomic::max_atomic_elements(&self.pd.device().attributes, datatype)
    }
}
