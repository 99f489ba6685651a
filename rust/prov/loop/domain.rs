// SPDX-License-Identifier: GPL-2.0

//! Domains, which own the memory regions that peers reach.

use super::{
    super::common::{
        mr_table::MrTable,
        sw_cq::SwCq, //
    },
    ep::Endpoint,
    fabric::Fabric,
    mr::Region,
    op,
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
        srx, //
    },
    rdma::net::SockAddr, //
};
use core::any::Any;

/// A domain.
pub(super) struct Domain {
    fabric: Arc<Fabric>,
    mr_table: Arc<MrTable>,
    addressing: Addressing,
}

impl Domain {
    /// Opens a domain. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(fabric: Arc<Fabric>, info: &Info) -> Result<Arc<Self>> {
        let mr_table = match fabric.shared_mr_table() {
            Some(mr_table) => mr_table.clone(),
            None => MrTable::new()?,
        };
        Ok(Arc::new(
            Self {
                fabric,
                mr_table,
                addressing: Addressing::from_mr_mode(
                    info.domain().map_or(0, |domain| domain.mr_mode),
                ),
            },
            GFP_KERNEL,
        )?)
    }

    /// Returns the fabric of the domain.
    pub(super) fn fabric(&self) -> &Arc<Fabric> {
        &self.fabric
    }

    /// Returns the memory regions that peers may reach.
    pub(super) fn mr_table(&self) -> &Arc<MrTable> {
        &self.mr_table
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
        let queue: Arc<dyn provider::CompletionQueue> = SwCq::new_connected(attr)?;
        Ok(queue)
    }

    fn peer_cq(
        self: Arc<Self>,
        attr: &cq::Attr,
        sink: Arc<dyn cq::PeerSink>,
    ) -> Result<Arc<dyn provider::CompletionQueue>> {
        let queue: Arc<dyn provider::CompletionQueue> = SwCq::new_with_sink(attr, sink)?;
        Ok(queue)
    }

    fn shared_receive(
        self: Arc<Self>,
        attr: &srx::Attr,
    ) -> Result<Arc<dyn provider::SharedReceive>> {
        let shared: Arc<dyn provider::SharedReceive> = Srx::new(&self.mr_table, attr)?;
        Ok(shared)
    }

    fn endpoint(
        self: Arc<Self>,
        info: &Info,
        source: Source,
    ) -> Result<Arc<dyn provider::Endpoint>> {
        let endpoint: Arc<dyn provider::Endpoint> = Endpoint::new(self, info, source)?;
        Ok(endpoint)
    }

    fn register(
        self: Arc<Self>,
        memory: &[Segment],
        access: Access,
    ) -> Result<Arc<dyn provider::MemoryRegion>> {
        let owner = self.fabric.port_namespace().owner;
        let region: Arc<dyn provider::MemoryRegion> =
            Region::new(&self.mr_table, memory, access, self.addressing, owner)?;
        Ok(region)
    }

    fn set_removal_event(&self, notice: Option<ReservedEvent>) {
        // No device can be removed: the event is never needed.
        drop(notice);
    }

    fn max_atomic_elements(&self, _form: Form, _op: Op, datatype: Datatype) -> Result<usize> {
        Ok(op::max_elements(datatype))
    }

    fn resolve(&self, peers: &mut dyn provider::AsyncResolve) {
        while !peers.is_canceled() {
            let Some((number, addr)) = peers.next() else {
                return;
            };
            let result = match self.fabric.net().has_addr(&SockAddr::from(addr)) {
                true => Ok(()),
                false => Err(Errno::EHOSTUNREACH),
            };
            peers.complete(number, result);
        }
    }
}
