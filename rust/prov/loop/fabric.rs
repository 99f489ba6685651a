// SPDX-License-Identifier: GPL-2.0

//! Fabrics, which are one per network namespace.

use super::{
    super::common::connreq::ConnReqList,
    domain::Domain,
    info,
    pep::PassiveEndpoint,
    port::PortNamespace,
    prelude::*, //
};
use crate::{
    fi::provider::FabricAttr,
    rdma::net::Net,
    util::biased_lock::Threading, //
};
use kernel::sync::aref::ARef;

/// The fabric of a network namespace.
#[pin_data]
pub(super) struct Fabric {
    /// Network namespace of the addresses.
    pub(super) net: Net,
    /// Network namespace for infos, whose readers use it while the fabric is open.
    pub(super) namespace: ARef<Namespace>,
    /// Port space of the endpoints.
    pub(super) port_owner: PortOwner,
    /// Memory regions shared with another provider, for a fabric of [`LoopBeside`](super::LoopBeside).
    pub(super) shared_mr_table: Option<Arc<MrTable>>,
    /// Unanswered connection requests.
    #[pin]
    pub(super) connreqs: ConnReqList<Request>,
}

impl Fabric {
    /// Opens the fabric; `shared_mr_table` has the memory regions of a provider that it is used beside. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENODATA for another name, -FI_ENOMEM.
    pub(super) fn new(
        attr: &FabricAttr<'_>,
        net: Net,
        shared_mr_table: Option<Arc<MrTable>>,
    ) -> Result<Arc<Self>> {
        if attr.name.is_some_and(|name| name != info::NAME) {
            return Err(Errno::ENODATA);
        }
        Ok(Arc::pin_init(
            pin_init!(Self {
                net,
                namespace: attr.net.into(),
                port_owner: match shared_mr_table {
                    None => PortOwner::Loop,
                    Some(_) => PortOwner::OtherProvider,
                },
                shared_mr_table,
                connreqs <- ConnReqList::new(),
            }),
            GFP_KERNEL,
        )?)
    }

    /// Returns the port space of the endpoints.
    pub(super) fn port_namespace(&self) -> PortNamespace<'_> {
        PortNamespace {
            net: &self.net,
            owner: self.port_owner,
        }
    }
}

impl provider::Fabric for Fabric {
    fn domain(
        self: Arc<Self>,
        info: &Info,
        _threading: Threading,
    ) -> Result<Arc<dyn provider::Domain>> {
        if info.domain_name() != Some(info::NAME) {
            return Err(Errno::EINVAL);
        }
        Ok(Domain::new(self, info)?)
    }

    fn passive_endpoint(
        self: Arc<Self>,
        info: &Info,
        source: Source,
    ) -> Result<Arc<dyn provider::PassiveEndpoint>> {
        Ok(PassiveEndpoint::new(self, info, source)?)
    }
}
