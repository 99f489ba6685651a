// SPDX-License-Identifier: GPL-2.0

//! The loop provider: connected endpoints on one host, without a device or packets, with one copy per
//! message.
//!
//! A send goes from [`ep`]'s `post.rs` into the [`channel`] to the peer, where it is matched with a receive,
//! or waits for one. The thread that finds a match copies, in the order in which the transmits were posted,
//! and reports to both sides through the completion queues of [`common`](super::common). RMA reaches the
//! memory regions of the peer's domain, and atomic operations are the CPU's own.

mod channel;
mod completion;
mod conn;
mod domain;
mod ep;
mod fabric;
mod fifo;
mod info;
mod mr;
mod op;
mod pep;
mod port;
mod prelude;
mod srx;

use super::common::{
    hints::{
        net_from_namespace,
        push_with_addrs,
        query_addrs,
        Hints, //
    },
    mr_table::MrTable, //
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
    rdma::{
        device::{
            self,
            DeviceRef, //
        },
        net::{
            Net,
            SockAddr, //
        },
    },
};

/// The loop provider.
pub(crate) struct Loop;

pub(in crate::prov) use ep::Endpoint;

/// Types that the C API's tables for posting and for polling use.
pub(crate) mod data_path {
    pub(crate) use super::{
        super::common::sw_cq::SwCq as CompletionQueue,
        ep::Endpoint,
        srx::Srx as SharedReceive, //
    };
}

/// Returns whether any RDMA device can connect in the network namespace.
fn has_device(net: &Net) -> Result<bool> {
    let connects = |used: DeviceRef| used.can_connect_in(net);
    Ok(device::list()?
        .iter()
        .any(|device| device.try_get().is_ok_and(connects)))
}

impl Provider for Loop {
    fn name(&self) -> &'static CStr {
        info::NAME
    }

    fn getinfo(&self, query: &Query<'_>, found: &mut InfoList) -> Result {
        let net = net_from_namespace(query.net());
        let (local, peer) = query_addrs(query)?;
        let named = || [&local, &peer].into_iter().flatten();
        let is_meant = query.hints.and_then(Info::provider_name) == Some(info::NAME);
        // Without its name in the hints, loop is offered only for loopback addresses, or where no address is
        // specific and no device can connect.
        let is_specific = |addr: &&SockAddr| !addr.is_unspecified();
        let mut specific = named().filter(is_specific).peekable();
        let is_free = match specific.peek() {
            None => !has_device(&net)?,
            Some(_) => specific.all(|addr| addr.ip().is_loopback()),
        };
        if !is_meant && !is_free {
            return Ok(());
        }
        let is_here = |addr: &SockAddr| addr.is_unspecified() || net.has_addr(addr);
        if !named().all(is_here) {
            return Ok(());
        }
        // Without a source address, the endpoint has the peer's address.
        let local = local.or(peer.map(|peer| peer.with_port(0)));
        if local.is_some_and(|local| peer.is_some_and(|peer| peer.is_ipv6() != local.is_ipv6())) {
            return Ok(());
        }
        let info = info::build_info(&Hints::from_info(query.hints))?;
        push_with_addrs(found, info, local, peer)
    }

    fn fabric(&self, attr: &FabricAttr<'_>) -> Result<Arc<dyn provider::Fabric>> {
        let net = net_from_namespace(attr.net);
        Ok(fabric::Fabric::new(attr, net, None)?)
    }
}

/// The loop provider beside another provider, for peers on the same host: its endpoints have the other
/// provider's addresses, are found only by endpoints of this kind, and reach the same memory regions.
pub(in crate::prov) struct LoopBeside(pub(in crate::prov) Arc<MrTable>);

impl Provider for LoopBeside {
    fn name(&self) -> &'static CStr {
        info::NAME
    }

    fn getinfo(&self, _query: &Query<'_>, found: &mut InfoList) -> Result {
        Ok(found.push(info::build_info(&Hints::from_info(None))?, GFP_KERNEL)?)
    }

    fn fabric(&self, attr: &FabricAttr<'_>) -> Result<Arc<dyn provider::Fabric>> {
        let net = net_from_namespace(attr.net);
        Ok(fabric::Fabric::new(attr, net, Some(self.0.clone()))?)
    }
}

/// Returns whether an endpoint of [`LoopBeside`] listens at `addr`. May sleep.
pub(in crate::prov) fn has_listener(net: &Namespace, addr: &SocketAddr) -> bool {
    let port_ns = port::PortNamespace {
        net: &net_from_namespace(net),
        owner: port::PortOwner::OtherProvider,
    };
    port::listener_at(port_ns, &SockAddr::from(*addr)).is_some()
}
