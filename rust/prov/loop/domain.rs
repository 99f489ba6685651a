// SPDX-License-Identifier: GPL-2.0

//! Domains, which own the memory regions that peers reach.

use super::{
    super::common::sw_cq::SwCq,
    fabric::Fabric,
    mr::{
        self,
        Region, //
    },
    op,
    prelude::*,
    srx::Srx, //
};
use crate::fi::{
    cq,
    eq::ReservedEvent,
    mr::{
        Access,
        Addressing, //
    },
    srx, //
};
use core::any::Any;

/// A domain.
pub(super) struct Domain {
    pub(super) fabric: Arc<Fabric>,
    /// Memory regions that peers may reach.
    pub(super) mr_table: Arc<MrTable>,
    addressing: Addressing,
}

impl Domain {
    /// Opens a domain. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(fabric: Arc<Fabric>, info: &Info) -> Result<Arc<Self>> {
        let mr_table = match &fabric.shared_mr_table {
            Some(mr_table) => mr_table.clone(),
            None => MrTable::new()?,
        };
        let mr_mode = info.domain().map_or(0, |domain| domain.mr_mode);
        let domain = Self {
            fabric,
            mr_table,
            addressing: Addressing::from_mr_mode(mr_mode),
        };
        Ok(Arc::new(domain, GFP_KERNEL)?)
    }
}

impl provider::Domain for Domain {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn completion_queue(
        self: Arc<Self>,
        attr: &cq::Attr,
    ) -> Result<Arc<dyn provider::CompletionQueue>> {
        Ok(SwCq::new_connected(attr)?)
    }

    fn peer_cq(
        self: Arc<Self>,
        attr: &cq::Attr,
        sink: Arc<dyn cq::PeerSink>,
    ) -> Result<Arc<dyn provider::CompletionQueue>> {
        Ok(SwCq::new_with_sink(attr, sink)?)
    }

    fn shared_receive(
        self: Arc<Self>,
        attr: &srx::Attr,
    ) -> Result<Arc<dyn provider::SharedReceive>> {
        Ok(Srx::new(&self.mr_table, attr)?)
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
        let owner = self.fabric.port_owner;
        Ok(Region::new(
            &self.mr_table,
            memory,
            access,
            self.addressing,
            owner,
        )?)
    }

    fn set_removal_event(&self, notice: Option<ReservedEvent>) {
        // No device can be removed: the event is never needed.
        drop(notice);
    }

    fn check_descriptors(&self, memory: Memory<'_>, descriptors: &[Descriptor]) -> Result {
        mr::check_descriptors(memory, descriptors, &self.mr_table)
    }

    fn max_atomic_elements(&self, _form: Form, _op: Op, datatype: Datatype) -> Result<usize> {
        Ok(op::max_elements(datatype))
    }

    fn resolve(&self, peers: &mut dyn provider::AsyncResolve) {
        while !peers.is_canceled() {
            let Some((number, addr)) = peers.next() else {
                return;
            };
            let is_here = self.fabric.net.has_addr(&SockAddr::from(addr));
            peers.complete(number, is_here.then_some(()).ok_or(Errno::EHOSTUNREACH));
        }
    }
}
