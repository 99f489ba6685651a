// SPDX-License-Identifier: GPL-2.0

//! The verbs provider: connected endpoints over RC queue pairs of any RDMA device.
//!
//! A send takes the path of `post.rs` in [`ep`], which fills a slot of a [`wq`] with addresses from
//! [`sge`] and posts. Its completion takes that of [`cq`], which polls the device, retires the slot
//! and writes the consumer's entry.

mod cas_atomic;
mod cm_data;
mod cntr;
mod connreq;
mod cq;
mod domain;
mod ep;
mod ep_region;
mod fabric;
mod info;
mod mr;
mod mr_pool;
mod pep;
mod pieces;
mod prelude;
mod resolve;
mod sge;
mod srx;
mod wc_backlog;
mod wc_status;
mod wq;
mod wr_ring;

use super::common::{
    conn_state,
    hints::{
        net_from_namespace,
        push_with_addrs,
        query_addrs,
        Hints, //
    },
};
use crate::{
    abi::info::InfoList,
    fi::{
        info::Query,
        prelude::*,
        provider::{
            self,
            FabricAttr,
            Provider, //
        },
    },
    rdma::device, //
};

/// The verbs provider.
pub(crate) struct Verbs;

pub(crate) use ep::lingering_id::LingeringIds;

/// Types for the function tables of the C API: posting and polling.
pub(crate) mod data_path {
    pub(crate) use super::{
        cq::Cq as CompletionQueue,
        ep::Endpoint,
        srx::Srx as SharedReceive, //
    };
}

impl Provider for Verbs {
    fn name(&self) -> &'static CStr {
        info::PROV_NAME
    }

    fn getinfo(&self, query: &Query<'_>, found: &mut InfoList) -> Result {
        let net = net_from_namespace(query.net());
        let (local, peer) = query_addrs(query)?;
        let hints = Hints::from_info(query.hints);
        let mut devices = device::list()?;
        devices.retain(|device| device.try_get().is_ok_and(|used| used.can_connect_in(&net)));
        let routes = match &peer {
            Some(peer) => resolve::peer_routes(&net, &devices, local.as_ref(), peer)?,
            None => resolve::local_routes(&net, &devices, local)?,
        };
        for route in &routes {
            match info::device_info(&route.device, &hints) {
                // A device that was removed meanwhile has no info.
                Err(Errno::ENODEV) => {}
                info => push_with_addrs(found, info?, route.local, route.peer)?,
            }
        }
        Ok(())
    }

    fn fabric(&self, attr: &FabricAttr<'_>) -> Result<Arc<dyn provider::Fabric>> {
        Ok(fabric::Fabric::new(attr, net_from_namespace(attr.net))?)
    }
}
