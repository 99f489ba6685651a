// SPDX-License-Identifier: GPL-2.0

//! Fabrics: one for each network namespace.

use super::{
    super::common::mr_table::MrTable,
    connreq::Requests,
    domain::Domain,
    info,
    pep::PassiveEndpoint,
    port::{
        PortNamespace,
        PortOwner, //
    }, //
};
use crate::{
    abi::{
        biased_lock::Threading,
        info::Info,
        namespace::Namespace,
        Errno,
        Result, //
    },
    fi::{
        eq::Source,
        provider::{
            self,
            FabricAttr, //
        },
    },
    rdma::net::Net, //
};
use kernel::{
    prelude::*,
    sync::{
        aref::ARef,
        Arc, //
    },
};

/// The fabric of a network namespace.
#[pin_data]
pub(super) struct Fabric {
    net: Net,
    /// Network namespace, for infos.
    namespace: ARef<Namespace>,
    /// Whose ports its endpoints have.
    space: PortOwner,
    /// What peers reach, where that is what they reach by another provider.
    regions: Option<Arc<MrTable>>,
    #[pin]
    requests: Requests,
}

impl Fabric {
    /// Opens it; beside another provider, with what peers reach by that. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENODATA for a name that is not its own, -FI_ENOMEM.
    pub(super) fn new(
        attr: &FabricAttr<'_>,
        net: Net,
        beside: Option<Arc<MrTable>>,
    ) -> Result<Arc<Self>> {
        if attr.name.is_some_and(|name| name != info::NAME) {
            return Err(Errno::ENODATA);
        }
        Ok(Arc::pin_init(
            pin_init!(Self {
                net,
                namespace: attr.net.into(),
                space: match beside {
                    None => PortOwner::Own,
                    Some(_) => PortOwner::Beside,
                },
                regions: beside,
                requests <- Requests::new(),
            }),
            GFP_KERNEL,
        )?)
    }

    /// Where its addresses are valid.
    pub(super) fn net(&self) -> &Net {
        &self.net
    }

    /// Where its endpoints' ports are.
    pub(super) fn realm(&self) -> PortNamespace<'_> {
        PortNamespace {
            net: &self.net,
            space: self.space,
        }
    }

    /// What peers reach, where that is what they reach by another provider.
    pub(super) fn regions(&self) -> Option<&Arc<MrTable>> {
        self.regions.as_ref()
    }

    /// Returns the network namespace for an info, whose readers use it while the fabric is open.
    pub(super) fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// What nobody has answered.
    pub(super) fn requests(&self) -> &Requests {
        &self.requests
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
