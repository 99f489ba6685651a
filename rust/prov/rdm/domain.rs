// SPDX-License-Identifier: GPL-2.0

//! Domains: that of the provider below, whose memory is that of its datagrams.

use super::{
    super::common::mr::Regions,
    cq::Cq,
    endpoint::{
        self,
        Endpoint, //
    },
    fabric::Fabric,
    mr::Region,
    scalable::Scalable,
    srx::Srx,
};
use crate::{
    abi::{
        info::Info,
        serial::Threading,
        Result, //
    },
    fi::{
        self,
        atomic::{
            Datatype,
            Form,
            Op, //
        },
        cq,
        eq::{
            Notice,
            Source, //
        },
        memory::Segment,
        mr::{
            Access,
            Addressing, //
        },
        provider,
        srx, //
    },
};
use core::any::Any;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A domain.
pub(super) struct Domain {
    // Dropped in this order.
    lower: Arc<fi::domain::Domain>,
    lower_info: KBox<Info>,
    fabric: Arc<Fabric>,
    regions: Arc<Regions>,
}

impl Domain {
    /// Opens what `lower_info` is an offer of. May sleep.
    ///
    /// # Errors
    ///
    /// Those of the provider below.
    pub(super) fn new(fabric: Arc<Fabric>, lower_info: KBox<Info>) -> Result<Arc<Self>> {
        // Whoever reads completions moves packets, and so do work items.
        let lower = fabric.lower().domain_for(&lower_info, Threading::SAFE)?;
        Ok(Arc::new(
            Self {
                lower,
                lower_info,
                fabric,
                regions: Regions::new()?,
            },
            GFP_KERNEL,
        )?)
    }

    /// The one below.
    pub(super) fn lower(&self) -> &Arc<fi::domain::Domain> {
        &self.lower
    }

    /// What endpoints below are made of.
    pub(super) fn lower_info(&self) -> &Info {
        &self.lower_info
    }

    /// What peers may have operations done to.
    pub(super) fn regions(&self) -> &Arc<Regions> {
        &self.regions
    }

    /// The fabric that it is of.
    pub(super) fn fabric(&self) -> &Fabric {
        &self.fabric
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
        let queue: Arc<dyn provider::CompletionQueue> = Cq::new(attr)?;
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
        let endpoint: Arc<dyn provider::ScalableEndpoint> = Scalable::new(self, info)?;
        Ok(endpoint)
    }

    fn shared_receive(
        self: Arc<Self>,
        attr: &srx::Attr,
    ) -> Result<Arc<dyn provider::SharedReceive>> {
        let shared: Arc<dyn provider::SharedReceive> = Srx::new(attr)?;
        Ok(shared)
    }

    fn register(
        self: Arc<Self>,
        memory: &[Segment],
        access: Access,
    ) -> Result<Arc<dyn provider::MemoryRegion>> {
        let lower = self.lower.core().clone().register(memory, access)?;
        let mr_mode = self.lower_info.domain().map_or(0, |domain| domain.mr_mode);
        let addressing = Addressing::of_mode(mr_mode);
        let region: Arc<dyn provider::MemoryRegion> =
            Region::new(&self.regions, lower, memory, access, addressing)?;
        Ok(region)
    }

    fn set_farewell(&self, notice: Option<Notice>) {
        self.lower.core().set_farewell(notice);
    }

    fn most_elements(&self, form: Form, _op: Op, datatype: Datatype) -> Result<usize> {
        Ok(endpoint::most_elements(form, datatype))
    }

    fn resolve(&self, peers: &mut dyn provider::Resolving) {
        self.lower.core().resolve(peers);
    }
}
