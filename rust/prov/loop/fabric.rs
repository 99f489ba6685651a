// SPDX-License-Identifier: GPL-2.0

//! Fabrics, which are one per network namespace.

use super::{
    super::common::{
        connreq::ConnReqList,
        mr_table::MrTable, //
    },
    connreq::Request,
    domain::Domain,
    info,
    pep::PassiveEndpoint,
    port::{
        PortNamespace,
        PortOwner, //
    },
};
use crate::{
    fi::{
        eq::Source,
        prelude::*,
        provider::{
            self,
            FabricAttr, //
        },
    },
    rdma::net::Net,
    util::biased_lock::Threading, //
};
use kernel::sync::aref::ARef;

/// The fabric of a network namespace.
#[pin_data]
pub(super) struct Fabric {
    net: Net,
    /// Network namespace, for infos.
    namespace: ARef<Namespace>,
    /// Port space of the endpoints.
    port_owner: PortOwner,
    /// Memory regions shared with another provider, for a fabric of [`LoopBeside`](super::LoopBeside).
    shared_mr_table: Option<Arc<MrTable>>,
    #[pin]
    connreqs: ConnReqList<Request>,
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

    /// Returns the network namespace of the addresses.
    pub(super) fn net(&self) -> &Net {
        &self.net
    }

    /// Returns the port space of the endpoints.
    pub(super) fn port_namespace(&self) -> PortNamespace<'_> {
        PortNamespace {
            net: &self.net,
            owner: self.port_owner,
        }
    }

    /// Returns the memory regions shared with another provider, for a fabric of [`LoopBeside`](super::LoopBeside).
    pub(super) fn shared_mr_table(&self) -> Option<&Arc<MrTable>> {
        self.shared_mr_table.as_ref()
    }

    /// Returns the network namespace for an info, whose readers use it while the fabric is open.
    pub(super) fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Returns the unanswered connection requests.
    pub(super) fn connreqs(&self) -> &ConnReqList<Request> {
        &self.connreqs
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
        let domain: Arc<dyn provider::Domain> = Domain::new(self, info)?;
        Ok(domain)
    }

    fn passive_endpoint(
        self: Arc<Self>,
        info: &Info,
        source: Source,
    ) -> Result<Arc<dyn provider::PassiveEndpoint>> {
        let listener: Arc<dyn provider::PassiveEndpoint> =
            PassiveEndpoint::new(self, info, source)?;
        Ok(listener)
    }
}
