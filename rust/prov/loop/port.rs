// SPDX-License-Identifier: GPL-2.0

//! Port numbers of the provider, separate for each network namespace and address family. They are kept in the
//! module's [`registry`], beside the entries of endpoints of other providers, which have their ports from
//! their devices and are found through these entries on the same host.

use super::{
    pep::PassiveEndpoint,
    prelude::*, //
};
use crate::{
    rdma::net::Net,
    util::registry::{
        self,
        Entry, //
    },
};

/// First ephemeral port, and the number of them.
const FIRST_EPHEMERAL: u16 = 49152;
const EPHEMERAL_COUNT: u16 = u16::MAX - FIRST_EPHEMERAL + 1;

/// Counter for the choice of the next ephemeral port.
static NEXT_EPHEMERAL: Atomic<u32> = Atomic::new(0);

/// Port space, by the provider that owns the ports.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PortOwner {
    /// Ports of this provider.
    Loop,
    /// Ports of endpoints of other providers, entered so that they are found on the same host.
    OtherProvider,
}

/// A port space in a network namespace.
#[derive(Clone, Copy)]
pub(super) struct PortNamespace<'a> {
    pub(super) net: &'a Net,
    pub(super) owner: PortOwner,
}

/// A port in use.
struct UsedPort {
    net: Net,
    owner: PortOwner,
    addr: SockAddr,
    /// The listener on the port, if any.
    listener: Option<Arc<PassiveEndpoint>>,
}

impl UsedPort {
    /// Returns whether this port conflicts with `addr`.
    fn conflicts_with(&self, port_ns: PortNamespace<'_>, addr: &SockAddr) -> bool {
        let is_same = self.addr.ip() == addr.ip() && self.addr.scope() == addr.scope();
        let overlaps = is_same || self.addr.is_unspecified() || addr.is_unspecified();
        self.net == *port_ns.net
            && self.owner == port_ns.owner
            && self.addr.is_ipv6() == addr.is_ipv6()
            && self.addr.port() == addr.port()
            && overlaps
    }
}

/// A port, owned until it is dropped. Dropping it may sleep.
pub(super) struct Port {
    entry: Entry,
    /// The address with the port number.
    pub(super) addr: SockAddr,
}

impl Port {
    /// Takes the port of `addr`, or a free one if it is 0. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EADDRNOTAVAIL for an address that the namespace does not have, -FI_EADDRINUSE, -FI_ENOMEM.
    pub(super) fn bind(port_ns: PortNamespace<'_>, addr: &SockAddr) -> Result<Self> {
        if !addr.is_unspecified() && !port_ns.net.has_addr(addr) {
            return Err(Errno::EADDRNOTAVAIL);
        }
        let is_ephemeral = addr.port() == 0;
        let tries = if is_ephemeral { EPHEMERAL_COUNT } else { 1 };
        for _ in 0..tries {
            let next = || NEXT_EPHEMERAL.fetch_add(1, Relaxed) % u32::from(EPHEMERAL_COUNT);
            let addr = match is_ephemeral {
                true => addr.with_port(FIRST_EPHEMERAL + next() as u16),
                false => *addr,
            };
            let entry = new_entry(port_ns, &addr, None)?;
            let is_free = registry::with_list(|list| {
                let is_free = conflicting(list, port_ns, &addr).next().is_none();
                if is_free {
                    list.push(entry.clone(), GFP_KERNEL)?;
                }
                Ok::<_, Errno>(is_free)
            })?;
            if is_free {
                return Ok(Self { entry, addr });
            }
        }
        Err(Errno::EADDRINUSE)
    }

    /// Replaces the entry by one with `listener`, which receives connection requests from now on.
    pub(super) fn set_listener(
        &mut self,
        port_ns: PortNamespace<'_>,
        listener: Arc<PassiveEndpoint>,
    ) -> Result {
        let new = new_entry(port_ns, &self.addr, Some(listener))?;
        registry::with_list(|list| {
            let mut own = list.iter_mut();
            if let Some(own) = own.find(|entry| Arc::ptr_eq(entry, &self.entry)) {
                *own = new.clone();
            }
        });
        self.entry = new;
        Ok(())
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let removed = registry::with_list(|list| {
            let is_own = |entry: &Entry| Arc::ptr_eq(entry, &self.entry);
            list.remove(list.iter().position(is_own)?).ok()
        });
        drop(removed);
    }
}

fn new_entry(
    port_ns: PortNamespace<'_>,
    addr: &SockAddr,
    listener: Option<Arc<PassiveEndpoint>>,
) -> Result<Entry> {
    let used = UsedPort {
        net: port_ns.net.clone(),
        owner: port_ns.owner,
        addr: *addr,
        listener,
    };
    Ok(Arc::new(used, GFP_KERNEL)?)
}

/// Returns the ports that conflict with `addr`.
fn conflicting<'a>(
    list: &'a [Entry],
    port_ns: PortNamespace<'a>,
    addr: &'a SockAddr,
) -> impl Iterator<Item = &'a UsedPort> {
    list.iter()
        .filter_map(|entry| entry.downcast_ref::<UsedPort>())
        .filter(move |used| used.conflicts_with(port_ns, addr))
}

/// Returns the listener at `addr`, if any. May sleep.
pub(super) fn listener_at(
    port_ns: PortNamespace<'_>,
    addr: &SockAddr,
) -> Option<Arc<PassiveEndpoint>> {
    registry::with_list(|list| {
        conflicting(list, port_ns, addr).find_map(|used| used.listener.clone())
    })
}
