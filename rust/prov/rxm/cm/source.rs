// SPDX-License-Identifier: GPL-2.0

//! Memory that the peers at a source address use, and its limit. Guarded by `EpCore::cm`.
//!
//! A host can claim any port in its connection requests. Without a limit it could have a connection, and unexpected
//! messages, for each of 65,535 ports. The memory of its connections is charged to its IP address, and a request beyond
//! the limit is refused. The unexpected messages of all its ports are counted together, too (see
//! [`unexpected`](super::super::unexpected)). An IPv6 host can have any address of its network, so all addresses with
//! the same 64 leading bits are one source. Each link-local address is a source of its own: all of them have the same
//! leading bits.
//!
//! Connections within the host that do not use the device are not charged. A connection that this endpoint needs,
//! because it has operations for the peer, is charged up to twice the limit. It is not exempt: otherwise the peers of
//! an endpoint that answers requests could make it open any number of connections.

use super::{
    super::{
        conn::{
            is_loopback_idx,
            INITIAL_RX,
            MAX_RX_BUFS, //
        },
        ep_core::EpCore,
        lower::Route,
        pkt_buf::Packet,
        unexpected::UnexpBytes,
        wire::{
            Flow,
            MAX_PACKET, //
        },
    },
    ConnMgr, //
};
use crate::{
    fi::prelude::*,
    util::{
        log::warn_of_peer,
        pages::total_ram, //
    },
};
use core::net::IpAddr;
use kernel::rbtree::RBTree;

/// Memory of a connection without its receive buffers, in bytes. A connection with 16 buffers was measured at 266 KiB.
const CONN_BYTES: usize = 10 << 10;

/// Memory of a receive buffer, in bytes.
const RX_BUF_BYTES: usize = MAX_PACKET + mem::size_of::<Packet>();

/// Lower bound of the default limit, in bytes; enough for 240 new connections.
const MIN_DEFAULT_LIMIT: usize = 64 << 20;

/// Returns the memory of a connection with `rx_bufs` receive buffers, in bytes.
const fn conn_bytes(rx_bufs: usize) -> usize {
    CONN_BYTES + rx_bufs * RX_BUF_BYTES
}

/// Returns the default limit of the memory of one source, in bytes: a sixteenth of the machine's memory.
pub(in super::super) fn default_limit() -> usize {
    (total_ram() / 16).max(MIN_DEFAULT_LIMIT)
}

/// Returns the source that an address belongs to.
pub(super) fn source_of(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
        IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some() || ip.is_unicast_link_local() => {
            ip.to_bits()
        }
        IpAddr::V6(ip) => ip.to_bits() & !u128::from(u64::MAX),
    }
}

/// Memory that the peers at a source address use, see [`source_of`].
struct Source {
    /// Number of peers.
    peers: usize,
    /// Memory of their connections, in bytes.
    conn_bytes: usize,
    /// Unexpected messages of the peers, shared with the data path.
    unexp_bytes: Arc<UnexpBytes>,
}

/// Source addresses that have peers, by the number that [`source_of`] returns.
pub(super) struct Sources(RBTree<u128, Source>);

impl Sources {
    /// Creates an empty tree.
    pub(super) fn new() -> Self {
        Self(RBTree::new())
    }

    /// Counts a peer of the source of `ip`, and returns the source's unexpected bytes. [`Self::remove_peer`] undoes it.
    /// May sleep.
    pub(super) fn add_peer(&mut self, ip: IpAddr) -> Result<Arc<UnexpBytes>> {
        let source_key = source_of(ip);
        if let Some(source) = self.0.get_mut(&source_key) {
            source.peers += 1;
            return Ok(source.unexp_bytes.clone());
        }
        let unexp_bytes = Arc::new(UnexpBytes::new(), GFP_KERNEL)?;
        let source = Source {
            peers: 1,
            conn_bytes: 0,
            unexp_bytes: unexp_bytes.clone(),
        };
        self.0
            .try_create_and_insert(source_key, source, GFP_KERNEL)?;
        Ok(unexp_bytes)
    }

    /// Counts the removal of a peer without a connection.
    pub(super) fn remove_peer(&mut self, ip: IpAddr) {
        let source_key = source_of(ip);
        let Some(source) = self.0.get_mut(&source_key) else {
            return;
        };
        source.peers -= 1;
        if source.peers == 0 {
            drop(self.0.remove(&source_key));
        }
    }

    /// Charges the memory of a connection to the source of `ip`, which has a peer.
    ///
    /// # Errors
    ///
    /// -FI_ENOSPC if the source would exceed `limit`; a `limit` of 0 is none.
    fn charge(&mut self, ip: IpAddr, bytes: usize, limit: usize) -> Result {
        let source = self.0.get_mut(&source_of(ip)).ok_or(Errno::EINVAL)?;
        let charged = source.conn_bytes.saturating_add(bytes);
        if limit != 0 && charged > limit {
            return Err(Errno::ENOSPC);
        }
        source.conn_bytes = charged;
        Ok(())
    }

    /// Subtracts `bytes`, which were charged, from the memory of the source of `ip`.
    fn release(&mut self, ip: IpAddr, bytes: usize) {
        if let Some(source) = self.0.get_mut(&source_of(ip)) {
            source.conn_bytes -= bytes;
        }
    }
}

impl ConnMgr {
    /// Returns whether `limit` permits another connection with the source of `ip`; 0 is no limit.
    pub(super) fn may_connect(&self, ip: IpAddr, limit: usize) -> bool {
        let source = self.sources.0.get(&source_of(ip));
        let used = source.map_or(0, |source| source.conn_bytes);
        limit == 0 || used.saturating_add(conn_bytes(INITIAL_RX)) <= limit
    }

    /// Charges `bytes` for the connection of a peer to its source.
    fn charge_source(&mut self, peer_idx: u32, bytes: usize, limit: usize) -> Result {
        if bytes == 0 {
            return Ok(());
        }
        let ip = self.cm_peer(peer_idx)?.addr.ip();
        self.sources.charge(ip, bytes, limit)?;
        self.cm_peer(peer_idx)?.charged += bytes;
        Ok(())
    }

    /// Ends the charge of up to `bytes` of the memory that was charged for the connection of a peer.
    pub(super) fn release_source(&mut self, peer_idx: u32, bytes: usize) {
        if let Ok(cm_peer) = self.cm_peer(peer_idx) {
            let (ip, bytes) = (cm_peer.addr.ip(), bytes.min(cm_peer.charged));
            cm_peer.charged -= bytes;
            self.sources.release(ip, bytes);
        }
    }
}

impl EpCore {
    /// Charges a connection to the source of the peer. [`ConnMgr::release_source`] ends the charge. The limit is
    /// doubled if this endpoint needs the connection (`is_wanted`).
    ///
    /// # Errors
    ///
    /// -FI_ENOSPC if the source has no memory left; this is logged.
    pub(super) fn charge_conn(
        &self,
        cm: &mut ConnMgr,
        (peer_idx, route): (u32, Route),
        flow: Flow,
        is_wanted: bool,
    ) -> Result {
        if route == Route::Local || is_loopback_idx(peer_idx) {
            return Ok(());
        }
        let limit = self.limits.source_bytes();
        let limit = limit.saturating_mul(1 + usize::from(is_wanted));
        let cm_peer = cm.cm_peer(peer_idx)?;
        let (addr, no_flow_ctrl) = (cm_peer.addr, cm_peer.no_flow_ctrl || flow == Flow::Device);
        let rx_bufs = match no_flow_ctrl {
            true => MAX_RX_BUFS,
            false => INITIAL_RX,
        };
        let charged = cm.charge_source(peer_idx, conn_bytes(rx_bufs), limit);
        if charged == Err(Errno::ENOSPC) {
            let name = self.inner.lock().name;
            warn_of_peer(
                &name,
                &addr,
                fmt!("connections of this host may use {limit} bytes (FI_OPT_KOFI_SOURCE_BYTES): another one is refused"),
            );
        }
        charged
    }

    /// Allocates receive buffers for a connection, and charges them to the source of the peer if the connection is
    /// charged.
    ///
    /// # Errors
    ///
    /// -FI_ENOSPC if the source has no memory left, -FI_ENOMEM.
    pub(super) fn alloc_charged(
        &self,
        here: ProcessContext,
        cm: &mut ConnMgr,
        peer_idx: u32,
        count: usize,
    ) -> Result<BoxList<Packet>> {
        let bytes = match cm.cm_peer(peer_idx)?.charged {
            0 => 0,
            _ => count * RX_BUF_BYTES,
        };
        cm.charge_source(peer_idx, bytes, self.limits.source_bytes())?;
        let packets = self.alloc_bufs(here, cm, count, MAX_PACKET);
        if packets.is_err() {
            cm.release_source(peer_idx, bytes);
        }
        packets
    }
}

#[kernel::prelude::kunit_tests(kofi_rdm_source_limits)]
mod tests {
    use super::*;
    use core::net::{
        Ipv4Addr,
        Ipv6Addr, //
    };

    fn v4(last: u8) -> IpAddr {
        Ipv4Addr::new(192, 0, 2, last).into()
    }

    fn v6(network: u16, last: u16) -> IpAddr {
        Ipv6Addr::new(network, 0xdb8, 0, 1, 0, 0, 0, last).into()
    }

    #[test]
    fn rdm_11_sources_have_separate_limits() -> Result {
        let mut sources = Sources::new();
        drop((sources.add_peer(v4(1))?, sources.add_peer(v4(2))?));
        assert!(sources.charge(v4(1), 60, 100).is_ok());
        assert!(sources.charge(v4(1), 40, 100).is_ok());
        assert_eq!(sources.charge(v4(1), 1, 100), Err(Errno::ENOSPC));
        assert!(sources.charge(v4(2), 100, 100).is_ok());
        sources.release(v4(1), 60);
        assert_eq!(sources.charge(v4(1), 61, 100), Err(Errno::ENOSPC));
        assert!(sources.charge(v4(1), 60, 100).is_ok());
        assert_eq!(sources.charge(v4(2), usize::MAX, 100), Err(Errno::ENOSPC));
        // 0 is no limit.
        assert!(sources.charge(v4(1), 1000, 0).is_ok());
        Ok(())
    }

    #[test]
    fn sources_without_peers_are_removed() -> Result {
        let mut sources = Sources::new();
        let (first, second) = (sources.add_peer(v4(1))?, sources.add_peer(v4(1))?);
        assert!(Arc::ptr_eq(&first, &second));
        sources.remove_peer(v4(1));
        assert_eq!(sources.charge(v4(1), 1, 1), Ok(()));
        sources.release(v4(1), 1);
        sources.remove_peer(v4(1));
        assert!(sources.0.is_empty());
        assert_eq!(sources.charge(v4(1), 1, 1), Err(Errno::EINVAL));
        Ok(())
    }

    #[test]
    fn rdm_11_ipv6_addresses_of_a_network_are_one_source() {
        assert_eq!(source_of(v6(0x2001, 1)), source_of(v6(0x2001, 2)));
        assert_ne!(source_of(v6(0x2001, 1)), source_of(v6(0x2002, 1)));
        assert_ne!(source_of(v6(0xfe80, 1)), source_of(v6(0xfe80, 2)));
        let mapped = |last| IpAddr::V6(Ipv4Addr::new(192, 0, 2, last).to_ipv6_mapped());
        assert_eq!(source_of(v4(1)), source_of(mapped(1)));
        assert_ne!(source_of(mapped(1)), source_of(mapped(2)));
    }
}
