// SPDX-License-Identifier: GPL-2.0

//! Ranges of consecutive addresses for `fi_av_insertsym()`: all services of a node, then those of the next
//! one.

use super::check_destination;
use crate::fi::prelude::*;
use core::net::{
    IpAddr,
    Ipv4Addr,
    Ipv6Addr, //
};

/// A range of `nodes` times `services` addresses, starting with `first`.
#[derive(Clone, Copy)]
pub struct AddrRange {
    first: SocketAddr,
    nodes: usize,
    services: usize,
}

impl AddrRange {
    /// Returns the range of `nodes` consecutive nodes with `services` consecutive ports each.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for more addresses than the result of a call can count.
    pub fn new(first: SocketAddr, nodes: usize, services: usize) -> Result<Self> {
        let range = Self {
            first,
            nodes,
            services,
        };
        match nodes.checked_mul(services).map(i32::try_from) {
            Some(Ok(_)) => Ok(range),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Returns the number of addresses.
    pub fn len(&self) -> usize {
        self.nodes * self.services
    }

    /// Returns true if the range is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the addresses in order.
    ///
    /// # Errors
    ///
    /// -FI_EADDRNOTAVAIL for each one beyond the last address or port, or that is no valid destination.
    pub fn iter(self) -> impl Iterator<Item = Result<SocketAddr>> {
        (0..self.nodes)
            .flat_map(move |node| (0..self.services).map(move |service| self.at(node, service)))
    }

    fn at(&self, node: usize, service: usize) -> Result<SocketAddr> {
        let step = || {
            let port = usize::from(self.first.port()).checked_add(service)?;
            let ip = match self.first.ip() {
                IpAddr::V4(ip) => {
                    let ip = ip.to_bits().checked_add(u32::try_from(node).ok()?)?;
                    IpAddr::V4(Ipv4Addr::from_bits(ip))
                }
                IpAddr::V6(ip) => {
                    let ip = ip.to_bits().checked_add(node as u128)?;
                    IpAddr::V6(Ipv6Addr::from_bits(ip))
                }
            };
            let mut address = self.first;
            address.set_ip(ip);
            address.set_port(u16::try_from(port).ok()?);
            Some(address)
        };
        check_destination(step().ok_or(Errno::EADDRNOTAVAIL)?)
    }
}

#[kunit_tests(kofi_fi_av_range)]
mod tests {
    use super::*;
    use core::net::{
        SocketAddrV4,
        SocketAddrV6, //
    };

    fn v4(ip: [u8; 4], port: u16) -> SocketAddr {
        SocketAddrV4::new(Ipv4Addr::from(ip), port).into()
    }

    fn v6(low: u128, port: u16) -> SocketAddr {
        let ip = Ipv6Addr::from(0xfe80 << 112 | low);
        SocketAddrV6::new(ip, port, 0, 7).into()
    }

    fn range_yields(
        first: SocketAddr,
        nodes: usize,
        services: usize,
        expected: &[Result<SocketAddr>],
    ) -> bool {
        let range = AddrRange::new(first, nodes, services);
        range.is_ok_and(|range| {
            range.len() == expected.len() && range.iter().eq(expected.iter().copied())
        })
    }

    const NOT_AVAILABLE: Result<SocketAddr> = Err(Errno::EADDRNOTAVAIL);

    #[test]
    fn av_12_services_of_a_node_precede_the_next_node() {
        let expected = [
            Ok(v4([10, 1, 1, 1], 5000)),
            Ok(v4([10, 1, 1, 1], 5001)),
            Ok(v4([10, 1, 1, 2], 5000)),
            Ok(v4([10, 1, 1, 2], 5001)),
        ];
        assert!(range_yields(v4([10, 1, 1, 1], 5000), 2, 2, &expected));
        assert!(range_yields(v4([10, 1, 1, 1], 5000), 0, 2, &[]));
        assert!(range_yields(v4([10, 1, 1, 1], 5000), 2, 0, &[]));
    }

    #[test]
    fn av_12_node_increment_carries_across_bytes() {
        let expected = [Ok(v4([10, 255, 255, 255], 1)), Ok(v4([11, 0, 0, 0], 1))];
        assert!(range_yields(v4([10, 255, 255, 255], 1), 2, 1, &expected));
        let low = u128::from(u64::MAX);
        assert!(range_yields(
            v6(low, 1),
            2,
            1,
            &[Ok(v6(low, 1)), Ok(v6(low + 1, 1))]
        ));
        let low = 0xffff;
        assert!(range_yields(
            v6(low, 1),
            2,
            1,
            &[Ok(v6(low, 1)), Ok(v6(low + 1, 1))]
        ));
    }

    #[test]
    fn av_12_addresses_past_the_end_are_not_available() {
        let first = v4([10, 0, 0, 1], 65_535);
        assert!(range_yields(
            first,
            2,
            2,
            &[
                Ok(first),
                NOT_AVAILABLE,
                Ok(v4([10, 0, 0, 2], 65_535)),
                NOT_AVAILABLE
            ]
        ));
        // A multicast address is no valid destination.
        assert!(range_yields(
            v4([223, 255, 255, 255], 1),
            2,
            1,
            &[Ok(v4([223, 255, 255, 255], 1)), NOT_AVAILABLE]
        ));
        assert!(range_yields(
            v4([255, 255, 255, 255], 1),
            2,
            1,
            &[NOT_AVAILABLE, NOT_AVAILABLE]
        ));
        let last = SocketAddrV6::new(Ipv6Addr::from(u128::MAX), 1, 0, 0).into();
        assert!(range_yields(last, 2, 1, &[NOT_AVAILABLE, NOT_AVAILABLE]));
    }

    #[test]
    fn av_12_too_many_addresses_are_rejected() {
        let first = v4([10, 0, 0, 1], 1);
        assert!(AddrRange::new(first, usize::MAX, 2).is_err());
        assert!(AddrRange::new(first, 1 << 16, 1 << 15).is_err());
        assert!(AddrRange::new(first, (1 << 31) - 1, 1).is_ok());
        assert!(AddrRange::new(first, usize::MAX, 0).is_ok());
    }
}
