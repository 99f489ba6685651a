// SPDX-License-Identifier: GPL-2.0

//! Lower domains and endpoints: those of the lower provider, and those of the loop provider for peers on the same
//! host.
//!
//! An endpoint uses both at once. It listens on both at the same address, and uses the same packet buffers, the same
//! matcher and one completion queue for both: the queue of the loop provider is a peer of the lower completion queue.
//! Peers access the same regions with the same keys on both routes, so a consumer does not notice which route a
//! message took. Descriptors of memory mean nothing to the loop provider and are removed.

use super::{
    super::{
        common::mr_table::MrTable,
        r#loop::{
            self,
            LoopBeside, //
        },
    },
    fabric::Fabric, //
};
use crate::{
    abi::{
        fi_rma_iov,
        info::InfoList, //
    },
    fi::{
        self, ep,
        info::Query,
        prelude::*,
        provider::{
            FabricAttr,
            Message,
            Operation,
            Provider,
            Rma,
            SingleSegment, //
        },
    },
    util::biased_lock::Threading, //
};

/// Route of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Route {
    /// Through the device of the lower provider.
    Device,
    /// Through the loop provider.
    Local,
}

/// Holds a lower domain and what its endpoints are opened with.
pub(super) struct LowerDomain {
    // Fields are dropped in this order.
    pub(super) domain: Arc<fi::domain::Domain>,
    pub(super) info: KBox<Info>,
    pub(super) fabric: Arc<fi::fabric::Fabric>,
}

impl LowerDomain {
    /// Opens the domain of `info`. May sleep.
    ///
    /// # Errors
    ///
    /// Errors of the provider.
    pub(super) fn new(fabric: Arc<fi::fabric::Fabric>, info: KBox<Info>) -> Result<Self> {
        // Readers and work items post and poll concurrently.
        let domain = fabric.domain_for(&info, Threading::THREAD_SAFE, None)?;
        Ok(Self {
            domain,
            info,
            fabric,
        })
    }

    /// Opens a domain of the loop provider in a network namespace; peers access `regions` through it. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn open_loop(net: &Namespace, regions: &Arc<MrTable>) -> Result<Self> {
        let provider = LoopBeside(regions.clone());
        let query = Query {
            node: None,
            service: None,
            source: false,
            hints: None,
            net: Some(net),
        };
        let mut found = InfoList::new();
        provider.getinfo(&query, &mut found)?;
        let info = found.pop().ok_or(Errno::ENODATA)?;
        let attr = FabricAttr { name: None, net };
        Self::new(fi::fabric::Fabric::open_own(&provider, &attr)?, info)
    }
}

/// Protection domain of connections: a domain of the lower provider, a loop domain beside it, and the regions that
/// peers access through either.
pub(super) struct ProtectionDomain {
    // Fields are dropped in this order.
    device: LowerDomain,
    local: Option<LowerDomain>,
    regions: Arc<MrTable>,
}

impl ProtectionDomain {
    /// Opens a protection domain without regions, from `info` of the lower provider, with a loop domain if
    /// `is_local`. May sleep.
    ///
    /// # Errors
    ///
    /// Errors of the lower provider, -FI_ENOMEM.
    pub(super) fn new(fabric: &Fabric, info: KBox<Info>, is_local: bool) -> Result<Self> {
        let regions = MrTable::new()?;
        let device = LowerDomain::new(fabric.lower().clone(), info)?;
        let local = match is_local {
            true => Some(LowerDomain::open_loop(fabric.net(), &regions)?),
            false => None,
        };
        Ok(Self {
            device,
            local,
            regions,
        })
    }

    /// Returns the domain for connections on that route.
    ///
    /// # Errors
    ///
    /// -FI_EHOSTUNREACH if there is none.
    pub(super) fn lower_domain(&self, route: Route) -> Result<&LowerDomain> {
        match route {
            Route::Device => Ok(&self.device),
            Route::Local => self.local.as_ref().ok_or(Errno::EHOSTUNREACH),
        }
    }

    /// Returns the domain of the lower provider.
    pub(super) fn lower(&self) -> &Arc<fi::domain::Domain> {
        &self.device.domain
    }

    /// Returns the info that endpoints of [`Self::lower`] are opened with.
    pub(super) fn lower_info(&self) -> &Info {
        &self.device.info
    }

    /// Returns whether peers on the same host are reached through the loop provider.
    pub(super) fn has_local(&self) -> bool {
        self.local.is_some()
    }

    /// Returns the regions that peers access through loop, and that atomic operations modify.
    pub(super) fn regions(&self) -> &Arc<MrTable> {
        &self.regions
    }
}

/// Endpoint of a connection.
pub(super) struct LowerEp {
    pub(super) ep: Arc<ep::Endpoint>,
    pub(super) route: Route,
    /// True if the endpoint is one of the loop provider, so the peer is on the same host.
    pub(super) is_local_path: bool,
    /// True if the memory of transmits is registered in the endpoint's domain.
    is_registered: bool,
}

impl LowerEp {
    /// Wraps `ep`, which is on that route. If `is_registered`, transmit memory is registered for the lower provider
    /// in the domain of `ep`, otherwise in another domain.
    pub(super) fn new(ep: Arc<ep::Endpoint>, route: Route, is_registered: bool) -> Self {
        Self {
            is_local_path: r#loop::Endpoint::from_endpoint(&ep).is_some(),
            ep,
            is_registered: is_registered && route == Route::Device,
            route,
        }
    }

    /// Posts a transmit, with the descriptors if they are valid in the endpoint's domain.
    #[inline(always)]
    pub(super) fn transmit(&self, operation: Operation<'_>, message: &Message<'_>) -> Result {
        match self.is_registered {
            true => self.ep.core().transmit(operation, message),
            false => self.ep.core().transmit(operation, &plain(message)),
        }
    }

    /// Sends one segment, with its descriptor if that is valid in the endpoint's domain.
    #[inline(always)]
    pub(super) fn send(&self, single: &SingleSegment<'_>) -> Result {
        match self.is_registered {
            true => self.ep.core().send_segment(single),
            false => self.ep.core().send_segment(&SingleSegment {
                descriptor: Descriptor::NONE,
                ..*single
            }),
        }
    }

    /// Posts an RDMA read or write of one segment, with its descriptor if that is valid in the endpoint's domain.
    #[inline(always)]
    pub(super) fn access(
        &self,
        way: Rma,
        remote: &fi_rma_iov,
        single: &SingleSegment<'_>,
    ) -> Result {
        let descriptor = match self.is_registered {
            true => single.descriptor,
            false => Descriptor::NONE,
        };
        let single = SingleSegment {
            descriptor,
            ..*single
        };
        self.ep.core().rma_segment(way, remote, &single)
    }

    /// Posts a receive, without descriptors on the local route.
    #[inline(always)]
    pub(super) fn receive(&self, message: &Message<'_>) -> Result {
        match self.route {
            Route::Device => self.ep.core().receive(message),
            Route::Local => self.ep.core().receive(&plain(message)),
        }
    }
}

/// Returns the message without descriptors.
fn plain<'a>(message: &Message<'a>) -> Message<'a> {
    Message {
        descriptors: &[],
        ..*message
    }
}
