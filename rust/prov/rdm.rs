// SPDX-License-Identifier: GPL-2.0

//! Reliable datagrams: one endpoint, any number of peers, over the connected endpoints of another
//! provider, as user-space libfabric's `ofi_rxm` does it.
//!
//! The way of a send: [`endpoint`] copies it into a packet of its own, [`traffic`] sends that to the peer,
//! or has it wait until [`links`] has a connection with it. Of what arrives: [`station`] takes it from the
//! queue of the endpoints below, [`traffic`] finds the receive that it is for, and [`sw_cq`] has the consumer
//! read what came of it.

mod abroad;
mod agenda;
mod arriving;
mod assembling;
mod below;
mod buffers;
mod credits;
mod direct;
mod domain;
mod endpoint;
mod fabric;
mod farewell;
mod flights;
mod hosting;
mod limits;
mod link;
mod links;
mod looking;
mod matching;
mod mr;
mod offer;
mod office;
mod opening;
mod operating;
mod order;
mod outlets;
mod parting;
mod peer;
mod placing;
mod posting;
mod receive;
mod receiving;
mod refused;
mod removal;
mod retiring;
mod room;
mod row;
mod scalable;
mod segments;
mod sending;
mod sends;
mod sharing;
mod srx;
mod station;
mod stx;
mod supply;
mod traffic;
mod turns;
mod wire;

use super::common::{
    iov,
    stats,
    sw_cq, //
};
use crate::{
    abi::{
        info::InfoList,
        FI_EP_RDM,
        FI_EP_UNSPEC, //
    },
    fi::{
        info::Query,
        prelude::*,
        provider::{
            self,
            FabricAttr,
            Provider, //
        },
    },
};

/// The provider.
#[derive(Clone, Copy)]
pub(crate) struct Rdm {
    lower: &'static dyn Provider,
    name: &'static CStr,
    /// Whether peers on the same host are reached by loop.
    is_beside_loop: bool,
}

/// For the tables of the C API: who posts and who polls.
pub(crate) mod data_path {
    pub(crate) use super::{
        endpoint::Endpoint,
        srx::Srx as SharedReceive,
        sw_cq::SwCq as CompletionQueue, //
    };
}

impl Rdm {
    /// Datagrams over the connected endpoints of `lower`, by that name.
    pub(crate) const fn over(lower: &'static dyn Provider, name: &'static CStr) -> Self {
        Self {
            lower,
            name,
            is_beside_loop: false,
        }
    }

    /// The same, which reach peers on the same host without `lower`.
    pub(crate) const fn beside_loop(self) -> Self {
        Self {
            is_beside_loop: true,
            ..self
        }
    }

    /// What the provider below is asked for where `info` is, or is asked for.
    fn lower_hints(&self, info: Option<&Info>) -> Result<KBox<Info>> {
        let mut hints = offer::lower_hints(info)?;
        // Whoever means datagrams of this provider means the one below.
        if info.and_then(Info::provider_name) == Some(self.name) {
            hints.set_provider_name(self.lower.name())?;
        }
        Ok(hints)
    }
}

impl Provider for Rdm {
    fn name(&self) -> &'static CStr {
        self.name
    }

    fn getinfo(&self, query: &Query<'_>, found: &mut InfoList) -> Result {
        let kind = query.hints.and_then(|hints| hints.ep()).map(|ep| ep.type_);
        if !matches!(kind, None | Some(FI_EP_UNSPEC | FI_EP_RDM)) {
            return Ok(());
        }
        let hints = self.lower_hints(query.hints)?;
        let lower = Query {
            hints: Some(&hints),
            ..*query
        };
        let mut offers = InfoList::new();
        match self.lower.getinfo(&lower, &mut offers) {
            Err(Errno::ENODATA) => return Ok(()),
            asked => asked?,
        }
        for lower in &offers {
            found.push(offer::of_lower(lower, query.hints, self.name)?, GFP_KERNEL)?;
        }
        Ok(())
    }

    fn fabric(&self, attr: &FabricAttr<'_>) -> Result<Arc<dyn provider::Fabric>> {
        let fabric: Arc<dyn provider::Fabric> = fabric::Fabric::new(*self, attr)?;
        Ok(fabric)
    }
}
