// SPDX-License-Identifier: GPL-2.0

//! Which device has an address, and which one leads to it: rdma_cm knows.

use crate::{
    abi::{
        Errno,
        Result, //
    },
    rdma::{
        cm::{
            Event,
            Handler,
            Id,
            Locked, //
        },
        device::Device,
        net::{
            Net,
            SockAddr, //
        }, //
    },
};
use core::net::{
    IpAddr,
    Ipv4Addr, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            AtomicFlag,
            Release, //
        },
        Arc,
        Completion, //
    },
};

/// How long rdma_cm may look; it ends the search by itself.
const TIMEOUT_MS: u32 = 2000;

/// The address that a numeric node and a numeric service name; none stands for any.
///
/// # Errors
///
/// -FI_ENODATA for names, which would need a resolver.
pub(super) fn parse(node: Option<&CStr>, service: Option<&CStr>) -> Result<SockAddr> {
    fn text(name: &CStr) -> Result<&str> {
        core::str::from_utf8(name.to_bytes()).map_err(|_| Errno::ENODATA)
    }
    let port = match service {
        Some(service) => text(service)?.parse().map_err(|_| Errno::ENODATA)?,
        None => 0,
    };
    let Some(node) = node else {
        return Ok(SockAddr::new(Ipv4Addr::UNSPECIFIED.into(), port, 0));
    };
    let (ip, scope) = match text(node)?.split_once('%') {
        Some((ip, scope)) => (ip, scope.parse().map_err(|_| Errno::ENODATA)?),
        None => (text(node)?, 0),
    };
    let ip = ip.parse::<IpAddr>().map_err(|_| Errno::ENODATA)?;
    Ok(SockAddr::new(ip, port, scope))
}

/// A device and the addresses to use it with.
pub(super) struct Route {
    pub(super) device: Arc<Device>,
    pub(super) local: Option<SockAddr>,
    pub(super) peer: Option<SockAddr>,
}

/// The devices that own a local address; all of them for the unspecified one. May sleep.
///
/// Two devices can sit on one network interface, so each is asked by itself.
pub(super) fn to_local(
    net: &Net,
    devices: &[Arc<Device>],
    local: &SockAddr,
) -> Result<KVec<Route>> {
    let mut routes = KVec::new();
    for device in devices {
        if !local.is_unspecified() {
            let id = Id::new(net, None)?;
            id.restrict_to(device)?;
            // The port is not the question, and may be taken.
            let bound = id.bind(&local.with_port(0));
            if bound.is_err() || !is_on(&id, device) {
                continue;
            }
        }
        let route = Route {
            device: device.clone(),
            local: Some(*local),
            peer: None,
        };
        routes.push(route, GFP_KERNEL)?;
    }
    Ok(routes)
}

/// The devices over which `peer` can be reached. May sleep, some seconds at worst.
///
/// rdma_cm chooses among devices of one kind by itself, so there is one search for each kind; they
/// go on at the same time.
pub(super) fn to_peer(
    net: &Net,
    devices: &[Arc<Device>],
    local: Option<&SockAddr>,
    peer: &SockAddr,
) -> Result<KVec<Route>> {
    let mut searches = KVec::new();
    for (at, device) in devices.iter().enumerate() {
        let kind = device.node_type();
        if devices[..at].iter().any(|other| other.node_type() == kind) {
            continue;
        }
        let search = Arc::pin_init(Search::new(), GFP_KERNEL)?;
        let handler: Arc<dyn Handler> = search.clone();
        let id = Id::new(net, Some(handler))?;
        id.restrict_to(device)?;
        if id.resolve_addr(local, peer, TIMEOUT_MS).is_ok() {
            searches.push((id, search), GFP_KERNEL)?;
        }
    }
    let mut routes = KVec::new();
    for (id, search) in &searches {
        search.over.wait_for_completion();
        if !search.found.load(Acquire) {
            continue;
        }
        let Some(device) = devices.iter().find(|device| is_on(id, device)) else {
            continue;
        };
        let route = Route {
            device: device.clone(),
            local: Some(id.local_addr()?.with_port(local.map_or(0, SockAddr::port))),
            peer: Some(*peer),
        };
        routes.push(route, GFP_KERNEL)?;
    }
    if routes.is_empty() {
        return Err(Errno::ENODATA);
    }
    Ok(routes)
}

fn is_on(id: &Id, device: &Arc<Device>) -> bool {
    id.device().is_some_and(|found| Arc::ptr_eq(&found, device))
}

/// Waits for the end of an address resolution.
#[pin_data]
struct Search {
    #[pin]
    over: Completion,
    found: AtomicFlag,
}

impl Search {
    fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            over <- Completion::new(),
            found: AtomicFlag::new(false),
        })
    }
}

impl Handler for Search {
    fn event(&self, _id: &Locked, event: Event<'_>) {
        if matches!(event, Event::AddrResolved) {
            self.found.store(true, Release);
        }
        self.over.complete_all();
    }
}
