// SPDX-License-Identifier: GPL-2.0

//! Resolution of addresses to devices, local and remote ones, by rdma_cm.

use super::prelude::*;
use crate::{
    fi::provider::AsyncResolve,
    rdma::net::Net, //
};
use kernel::sync::Completion;

/// Timeouts of rdma_cm's first search for a peer, and of the second; rdma_cm ends a search itself.
///
/// rdma_cm misses the answer of a neighbour that comes while it is still asking, as it does over a
/// virtual cable within a machine: `rdma_resolve_ip()` sends the question first, and queues the
/// request that an answer wakes after that. It then looks again only when the timeout expires.
const RESOLVE_TIMEOUTS_MS: [u32; 2] = [20, 2000];

/// A device, and the addresses to use it with.
pub(super) struct Route {
    pub(super) device: Arc<Device>,
    pub(super) local: Option<SockAddr>,
    pub(super) peer: Option<SockAddr>,
}

/// Returns the devices that own a local address; all devices for none and for the unspecified
/// address. May sleep.
///
/// Two devices can sit on one network interface, so each device is asked separately.
pub(super) fn local_routes(
    net: &Net,
    devices: &[Arc<Device>],
    local: Option<SockAddr>,
) -> Result<KVec<Route>> {
    let mut routes = KVec::new();
    for device in devices {
        if let Some(addr) = local.filter(|addr| !addr.is_unspecified()) {
            let id = CmId::new(net, None)?;
            id.restrict_to(device)?;
            // The port is not checked here, and may be in use.
            if id.bind(&addr.with_port(0)).is_err() || !is_on_device(&id, device) {
                continue;
            }
        }
        let route = Route {
            device: device.clone(),
            local,
            peer: None,
        };
        routes.push(route, GFP_KERNEL)?;
    }
    Ok(routes)
}

/// Returns the devices over which `peer` can be reached. May sleep, some seconds at worst.
///
/// rdma_cm chooses among devices of one kind itself, so there is one search for each kind; the
/// searches run concurrently.
pub(super) fn peer_routes(
    net: &Net,
    devices: &[Arc<Device>],
    local: Option<&SockAddr>,
    peer: &SockAddr,
) -> Result<KVec<Route>> {
    let mut kinds = KVec::new();
    for (at, device) in devices.iter().enumerate() {
        let kind = device.node_type;
        if !devices[..at].iter().any(|other| other.node_type == kind) {
            kinds.push(device, GFP_KERNEL)?;
        }
    }
    let mut routes = KVec::new();
    for timeout_ms in RESOLVE_TIMEOUTS_MS {
        let mut searches = KVec::new();
        for kind in kinds.drain_all() {
            let search = RouteSearch::start(net, kind, local, peer, timeout_ms)?;
            searches.push((kind, search), GFP_KERNEL)?;
        }
        for (kind, search) in &searches {
            let result = search.wait_result();
            if result == SearchResult::TimedOut {
                kinds.push(*kind, GFP_KERNEL)?;
            }
            let is_found = |device: &&Arc<Device>| {
                result == SearchResult::Found && is_on_device(&search.id, device)
            };
            if let Some(device) = devices.iter().find(is_found) {
                let from = search.id.local_addr()?;
                let route = Route {
                    device: device.clone(),
                    local: Some(from.with_port(local.map_or(0, SockAddr::port))),
                    peer: Some(*peer),
                };
                routes.push(route, GFP_KERNEL)?;
            }
        }
    }
    Ok(routes)
}

/// Maximum number of concurrent searches.
const MAX_SEARCHES: usize = 32;

/// Resolves `peers` over one device, for [`Domain::resolve`](crate::fi::provider::Domain).
pub(super) fn resolve_peers(net: &Net, device: &Arc<Device>, peers: &mut dyn AsyncResolve) {
    let search =
        |peer: &SockAddr, timeout_ms| RouteSearch::start(net, device, None, peer, timeout_ms);
    let Ok(mut searches) = KVec::with_capacity(MAX_SEARCHES, GFP_KERNEL) else {
        while let Some((number, _)) = peers.next() {
            peers.complete(number, Err(Errno::ENOMEM));
        }
        return;
    };
    while !peers.is_canceled() {
        while searches.len() < MAX_SEARCHES {
            let Some((number, peer)) = peers.next() else {
                break;
            };
            let peer = SockAddr::from(peer);
            match search(&peer, RESOLVE_TIMEOUTS_MS[0]) {
                Ok(first) => {
                    // Cannot fail: there are fewer than `MAX_SEARCHES`.
                    let _ = searches.push_within_capacity((number, peer, first, true));
                }
                Err(errno) => peers.complete(number, Err(errno)),
            }
        }
        let Ok((number, peer, found, is_first)) = searches.remove(0) else {
            return;
        };
        let outcome = match found.wait_result() {
            SearchResult::Found if is_on_device(&found.id, device) => Ok(()),
            SearchResult::TimedOut if is_first => match search(&peer, RESOLVE_TIMEOUTS_MS[1]) {
                Ok(second) => {
                    // Cannot fail: takes the place of the first search.
                    let _ = searches.push_within_capacity((number, peer, second, false));
                    continue;
                }
                Err(errno) => Err(errno),
            },
            _ => Err(Errno::EHOSTUNREACH),
        };
        peers.complete(number, outcome);
    }
}

fn is_on_device(id: &CmId, device: &Arc<Device>) -> bool {
    id.device().is_some_and(|found| Arc::ptr_eq(&found, device))
}

/// Result of a search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SearchResult {
    Found,
    /// Timed out; another search may get an answer.
    TimedOut,
    NotFound,
}

/// A search for the route to a peer.
struct RouteSearch {
    id: CmId,
    handler: Arc<SearchHandler>,
}

impl RouteSearch {
    /// Starts a search among the devices of the kind of `like`, for at most `timeout_ms`
    /// milliseconds. May sleep.
    fn start(
        net: &Net,
        like: &Device,
        local: Option<&SockAddr>,
        peer: &SockAddr,
        timeout_ms: u32,
    ) -> Result<Self> {
        let handler = Arc::pin_init(
            pin_init!(SearchHandler {
                done <- Completion::new(),
                result: SetOnce::new(),
            }),
            GFP_KERNEL,
        )?;
        let id = CmId::new(net, Some(handler.clone()))?;
        id.restrict_to(like)?;
        if id.resolve_addr(local, peer, timeout_ms).is_err() {
            handler.done.complete_all();
        }
        Ok(Self { id, handler })
    }

    /// Waits for the end of the search, and returns its result.
    fn wait_result(&self) -> SearchResult {
        self.handler.done.wait_for_completion();
        self.handler.result.copy().unwrap_or(SearchResult::NotFound)
    }
}

/// Handler of a search's events.
#[pin_data]
struct SearchHandler {
    #[pin]
    done: Completion,
    /// Result of the first event.
    result: SetOnce<SearchResult>,
}

impl CmHandler for SearchHandler {
    fn handle_event(self: Arc<Self>, _id: &LockedCmId, event: CmEvent<'_>) {
        let result = match event {
            CmEvent::AddrResolved => SearchResult::Found,
            CmEvent::Failed { status, .. } if status == ETIMEDOUT.to_errno() => {
                SearchResult::TimedOut
            }
            _ => SearchResult::NotFound,
        };
        let _ = self.result.populate(result);
        self.done.complete_all();
    }
}
