// SPDX-License-Identifier: GPL-2.0

//! Domains: that of the provider below, whose memory is that of its datagrams.

use super::{
    super::common::mr::Regions,
    below::{
        Below,
        Route, //
    },
    cq::Cq,
    endpoint::{
        self,
        Endpoint, //
    },
    fabric::Fabric,
    mr::Region,
    offer,
    removal::{
        Watch,
        Watchers, //
    },
    scalable::Scalable,
    srx::Srx,
    stx::Stx, //
};
use crate::{
    abi::{
        context,
        downcast::downcast,
        info::Info,
        Errno,
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
        srx,
        stx, //
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
    watch: Option<Watch>,
    lower: Below,
    local: Option<Below>,
    fabric: Arc<Fabric>,
    regions: Arc<Regions>,
}

impl Domain {
    /// Opens what `lower_info` is an offer of, and what reaches peers on the same host if there is something
    /// and it `is_local`. May sleep.
    ///
    /// # Errors
    ///
    /// Those of the provider below.
    pub(super) fn new(
        fabric: Arc<Fabric>,
        lower_info: KBox<Info>,
        is_local: bool,
    ) -> Result<Arc<Self>> {
        let regions = Regions::new()?;
        let lower = Below::new(fabric.lower().clone(), lower_info)?;
        let local = match is_local && fabric.is_beside_loop() {
            true => Some(Below::beside(fabric.net(), &regions)?),
            false => None,
        };
        let watch = match local {
            Some(_) => Some(Watch::new(
                context::in_process()?,
                &lower.fabric,
                &lower.domain,
            )?),
            None => None,
        };
        Ok(Arc::new(
            Self {
                watch,
                lower,
                local,
                fabric,
                regions,
            },
            GFP_KERNEL,
        )?)
    }

    /// The one below.
    pub(super) fn lower(&self) -> &Arc<fi::domain::Domain> {
        &self.lower.domain
    }

    /// What endpoints below are made of.
    pub(super) fn lower_info(&self) -> &Info {
        &self.lower.info
    }

    /// Who is told when the device goes away, beside what is below.
    pub(super) fn watchers(&self) -> Option<&Watchers> {
        self.watch.as_ref().map(|watch| &*watch.watchers)
    }

    /// What connections go by on that route.
    ///
    /// # Errors
    ///
    /// -FI_EHOSTUNREACH where there is none.
    pub(super) fn below(&self, route: Route) -> Result<&Below> {
        match route {
            Route::Wire => Ok(&self.lower),
            Route::Host => self.local.as_ref().ok_or(Errno::EHOSTUNREACH),
        }
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

    fn max_rx_contexts(&self) -> usize {
        offer::CONTEXTS
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

    fn shared_transmit(
        self: Arc<Self>,
        attr: &stx::Attr,
    ) -> Result<Arc<dyn provider::SharedTransmit>> {
        let shared: Arc<dyn provider::SharedTransmit> =
            Stx::new(context::in_process()?, &self, attr)?;
        Ok(shared)
    }

    fn peer_receive(
        self: Arc<Self>,
        posts: srx::Posts,
    ) -> Result<Arc<dyn provider::SharedReceive>> {
        let shared: Arc<dyn provider::SharedReceive> = match posts {
            // They are no device's.
            srx::Posts::Ours(core) => downcast::<Srx>(core.into_any()).ok_or(Errno::EINVAL)?,
            srx::Posts::Others(owner) => Srx::of_others(owner)?,
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
        let addressing = Addressing::of_mode(mr_mode);
        let region: Arc<dyn provider::MemoryRegion> =
            Region::new(&self.regions, lower, memory, access, addressing)?;
        Ok(region)
    }

    fn set_farewell(&self, notice: Option<Notice>) {
        match &self.watch {
            Some(watch) => watch.watchers.set_farewell(notice),
            None => self.lower().core().set_farewell(notice),
        }
    }

    fn most_elements(&self, form: Form, _op: Op, datatype: Datatype) -> Result<usize> {
        Ok(endpoint::most_elements(form, datatype))
    }

    fn resolve(&self, peers: &mut dyn provider::Resolving) {
        self.lower().core().resolve(peers);
    }
}
