// SPDX-License-Identifier: GPL-2.0

//! Provider of reliable-datagram endpoints: one endpoint reaches any number of peers over the connected endpoints of a
//! lower provider, with the wire protocol of libfabric's `ofi_rxm`.
//!
//! Send path: [`ep`] copies or describes the message in a packet buffer, [`conn`] posts it, or defers it until [`cm`]
//! has established a connection. Receive path: [`progress`] polls the lower completion queue, [`dispatch`] parses the
//! packet, [`matcher`] finds the receive, and [`completion`] writes the consumer's entry.

mod atomic;
mod cm;
mod completion;
mod conn;
mod deferred_rx;
mod delivery;
mod dispatch;
mod domain;
mod ep;
mod ep_core;
mod ep_state;
mod fabric;
mod inflight;
mod info;
mod local;
mod lower;
mod matcher;
mod multi_recv;
mod peer_srx;
mod pkt_buf;
mod progress;
mod recv;
mod ring;
mod rndv;
mod rx_entry;
mod rx_pool;
mod sar;
mod sep;
mod srx;
mod stx;
mod turn;
mod tx_op;
mod tx_pool;
mod unexpected;
mod wire;

use super::common::{
    flags,
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

/// A provider of FI_EP_RDM endpoints over the connected endpoints of a lower provider.
#[derive(Clone, Copy)]
pub(crate) struct Rxm {
    lower: &'static dyn Provider,
    name: &'static CStr,
    /// True if peers on the same host are reached through the loop provider.
    uses_loop: bool,
}

/// Types of the provider for which the C API instantiates its operation tables.
pub(crate) mod data_path {
    pub(crate) use super::{
        ep::Endpoint,
        srx::Srx as SharedReceive,
        sw_cq::SwCq as CompletionQueue, //
    };
}

impl Rxm {
    /// Creates the provider `name` over the connected endpoints of `lower`.
    pub(crate) const fn over(lower: &'static dyn Provider, name: &'static CStr) -> Self {
        Self {
            lower,
            name,
            uses_loop: false,
        }
    }

    /// Returns the provider with peers on the same host reached through the loop provider instead of `lower`.
    pub(crate) const fn with_loop(self) -> Self {
        Self {
            uses_loop: true,
            ..self
        }
    }

    /// Returns the hints for the lower provider that correspond to `info`.
    fn lower_hints(&self, info: Option<&Info>) -> Result<KBox<Info>> {
        let mut hints = info::lower_hints(info)?;
        // Hints that name this provider select its lower provider.
        if info.and_then(Info::provider_name) == Some(self.name) {
            hints.set_provider_name(self.lower.name())?;
        }
        Ok(hints)
    }
}

impl Provider for Rxm {
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
        let mut infos = InfoList::new();
        match self.lower.getinfo(&lower, &mut infos) {
            Err(Errno::ENODATA) => return Ok(()),
            asked => asked?,
        }
        for lower in &infos {
            found.push(info::from_lower(lower, query.hints, self.name)?, GFP_KERNEL)?;
        }
        Ok(())
    }

    fn fabric(&self, attr: &FabricAttr<'_>) -> Result<Arc<dyn provider::Fabric>> {
        let fabric: Arc<dyn provider::Fabric> = fabric::Fabric::new(*self, attr)?;
        Ok(fabric)
    }
}
