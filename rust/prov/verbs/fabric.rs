// SPDX-License-Identifier: GPL-2.0

//! Fabrics: the devices of one kind in one network namespace.

use super::{
    super::common::connreq::ConnReqList,
    connreq::ConnReq,
    domain::Domain,
    pep::PassiveEndpoint,
    prelude::*, //
};
use crate::{
    abi::errno::strerror,
    fi::provider::FabricAttr,
    rdma::{
        cm,
        device,
        device_attr::Protocol,
        net::Net, //
    },
    util::biased_lock::Threading, //
};
use kernel::sync::aref::ARef;

/// A fabric of verbs devices.
#[pin_data]
pub(super) struct Fabric {
    /// Network namespace of the fabric's addresses.
    pub(super) net: Net,
    /// The namespace for an info, whose readers use it while the fabric is open.
    pub(super) namespace: ARef<Namespace>,
    /// Kind of its devices; None for any kind.
    pub(super) protocol: Option<Protocol>,
    /// Pending connection requests.
    #[pin]
    pub(super) connreqs: ConnReqList<ConnReq>,
}

impl Fabric {
    /// Opens the fabric of a name, or a fabric of all devices. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENODATA for a name of no verbs fabric, -FI_ENOMEM.
    pub(super) fn new(attr: &FabricAttr<'_>, net: Net) -> Result<Arc<Self>> {
        let by_name = super::info::protocol_from_fabric_name;
        let protocol = attr.name.map(by_name).transpose()?;
        Ok(Arc::pin_init(
            pin_init!(Self {
                net,
                namespace: attr.net.into(),
                protocol,
                connreqs <- ConnReqList::new(),
            }),
            GFP_KERNEL,
        )?)
    }
}

impl provider::Fabric for Fabric {
    fn domain(
        self: Arc<Self>,
        info: &Info,
        threading: Threading,
    ) -> Result<Arc<dyn provider::Domain>> {
        let name = info.domain_name().ok_or(Errno::EINVAL)?;
        let device = device::list()?
            .into_iter()
            .find(|device| device.name().as_c_str() == name)
            .ok_or(Errno::ENODEV)?;
        if self.protocol.is_some_and(|kind| kind != device.protocol) {
            return Err(Errno::EINVAL);
        }
        Ok(Domain::new(self, &device, info, threading)?)
    }

    fn passive_endpoint(
        self: Arc<Self>,
        info: &Info,
        source: Source,
    ) -> Result<Arc<dyn provider::PassiveEndpoint>> {
        Ok(PassiveEndpoint::new(self, info, source)?)
    }

    fn strerror_fn(&self) -> fn(c_int) -> &'static CStr {
        |prov_errno| match prov_errno {
            // A positive value is the reason of a peer's rejection; statuses of rdma_cm are never
            // positive.
            1.. => cm::reject_reason_text(prov_errno),
            _ => strerror(prov_errno),
        }
    }
}
