// SPDX-License-Identifier: GPL-2.0

//! Fabrics: each opens a fabric of the lower provider.

use super::{
    domain::Domain,
    info,
    Rxm, //
};
use crate::{
    abi::info::InfoList,
    fi::{
        self,
        eq::Source,
        info::Query,
        prelude::*,
        provider::{
            self,
            FabricAttr, //
        },
    },
    util::biased_lock::Threading, //
};
use kernel::sync::aref::ARef;

/// A fabric.
pub(super) struct Fabric {
    provider: Rxm,
    lower: Arc<fi::fabric::Fabric>,
    net: ARef<Namespace>,
}

impl Fabric {
    /// Opens a fabric with a fabric of the lower provider. May sleep.
    ///
    /// # Errors
    ///
    /// Errors of the lower provider.
    pub(super) fn new(provider: Rxm, attr: &FabricAttr<'_>) -> Result<Arc<Self>> {
        let lower = fi::fabric::Fabric::open_own(provider.lower, attr)?;
        Ok(Arc::new(
            Self {
                provider,
                lower,
                net: attr.net.into(),
            },
            GFP_KERNEL,
        )?)
    }

    /// Returns the lower fabric.
    pub(super) fn lower(&self) -> &Arc<fi::fabric::Fabric> {
        &self.lower
    }

    /// Returns the network namespace of the fabric.
    pub(super) fn net(&self) -> &Namespace {
        &self.net
    }

    /// Returns whether peers on the same host are reached through the loop provider.
    pub(super) fn uses_loop(&self) -> bool {
        self.provider.uses_loop
    }

    /// Returns the name of the provider.
    pub(super) fn provider_name(&self) -> &'static CStr {
        self.provider.name
    }

    /// Returns the info of the lower provider that corresponds to `info`.
    ///
    /// # Errors
    ///
    /// -FI_ENODATA if there is none any more.
    fn lower_info(&self, info: &Info) -> Result<KBox<Info>> {
        let hints = self.provider.lower_hints(Some(info))?;
        let query = Query {
            node: None,
            service: None,
            source: false,
            hints: Some(&hints),
            net: Some(&self.net),
        };
        let mut found = InfoList::new();
        self.provider.lower.getinfo(&query, &mut found)?;
        let wanted = info.domain_name();
        let at = found
            .iter()
            .position(|lower| wanted.is_none() || lower.domain_name() == wanted);
        let at = at.ok_or(Errno::ENODATA)?;
        let mut lower = found.remove(at).map_err(|_| Errno::ENODATA)?;
        // Each endpoint has addresses of its own.
        lower.set_addresses(info.addr_format(), None, None)?;
        Ok(lower)
    }
}

impl provider::Fabric for Fabric {
    fn domain(
        self: Arc<Self>,
        info: &Info,
        _threading: Threading,
    ) -> Result<Arc<dyn provider::Domain>> {
        let lower_info = self.lower_info(info)?;
        let is_local = info::is_local(info);
        let domain: Arc<dyn provider::Domain> = Domain::new(self, lower_info, is_local)?;
        Ok(domain)
    }

    fn passive_endpoint(
        self: Arc<Self>,
        _info: &Info,
        _source: Source,
    ) -> Result<Arc<dyn provider::PassiveEndpoint>> {
        // Datagram endpoints have no connections to listen for.
        Err(Errno::EINVAL)
    }
}
