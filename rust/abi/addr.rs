// SPDX-License-Identifier: GPL-2.0

//! Addresses as text, in the form of FI_ADDR_STR: `fi_sockaddr_in://10.0.0.1:7500`.

use super::{
    FI_ADDR_STR,
    FI_SOCKADDR,
    FI_SOCKADDR_IB,
    FI_SOCKADDR_IN,
    FI_SOCKADDR_IN6, //
};
use core::net::{
    Ipv4Addr,
    Ipv6Addr, //
};
use kernel::{
    bindings::{
        AF_INET,
        AF_INET6, //
    },
    fmt,
    prelude::*,
    str::BStr, //
};

/// An address of the format that stands beside it in an info, to be shown.
///
/// The bytes are a caller's: too few of them, or a format that has no text, show as their number.
#[derive(Clone, Copy)]
pub struct Address<'a> {
    /// FI_SOCKADDR_IN and its kind.
    pub format: u32,
    /// The address.
    pub bytes: &'a [u8],
}

/// What the bytes say.
enum Parsed<'a> {
    V4(Ipv4Addr, u16),
    V6(Ipv6Addr, u16, u32),
    Infiniband,
    Text(&'a BStr),
    Unknown,
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// A `struct sockaddr_in`: family, port, address.
fn v4(bytes: &[u8]) -> Option<Parsed<'_>> {
    let port = u16::from_be_bytes(part(bytes, 2)?);
    Some(Parsed::V4(Ipv4Addr::from(part::<4>(bytes, 4)?), port))
}

/// A `struct sockaddr_in6`: family, port, flow, address, scope.
fn v6(bytes: &[u8]) -> Option<Parsed<'_>> {
    let port = u16::from_be_bytes(part(bytes, 2)?);
    let address = Ipv6Addr::from(part::<16>(bytes, 8)?);
    Some(Parsed::V6(
        address,
        port,
        u32::from_ne_bytes(part(bytes, 24)?),
    ))
}

/// A `struct sockaddr`: its family says which.
fn any(bytes: &[u8]) -> Option<Parsed<'_>> {
    match u32::from(u16::from_ne_bytes(part(bytes, 0)?)) {
        AF_INET => v4(bytes),
        AF_INET6 => v6(bytes),
        _ => None,
    }
}

impl<'a> Address<'a> {
    fn parse(self) -> Parsed<'a> {
        let bytes = self.bytes;
        let parsed = match self.format {
            FI_SOCKADDR => any(bytes),
            FI_SOCKADDR_IN => v4(bytes),
            FI_SOCKADDR_IN6 => v6(bytes),
            FI_SOCKADDR_IB => Some(Parsed::Infiniband),
            FI_ADDR_STR => {
                let end = bytes.iter().position(|&byte| byte == 0);
                let text = &bytes[..end.unwrap_or(bytes.len())];
                Some(Parsed::Text(BStr::from_bytes(text)))
            }
            _ => None,
        };
        parsed.unwrap_or(Parsed::Unknown)
    }
}

impl fmt::Display for Address<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parse() {
            Parsed::V4(ip, port) => write!(f, "fi_sockaddr_in://{ip}:{port}"),
            Parsed::V6(ip, port, 0) => write!(f, "fi_sockaddr_in6://[{ip}]:{port}"),
            Parsed::V6(ip, port, scope) => write!(f, "fi_sockaddr_in6://[{ip}%{scope}]:{port}"),
            Parsed::Infiniband => write!(f, "fi_sockaddr_ib://({} bytes)", self.bytes.len()),
            Parsed::Text(text) => fmt::Display::fmt(text, f),
            Parsed::Unknown => write!(f, "({} bytes)", self.bytes.len()),
        }
    }
}

#[kunit_tests(kofi_abi_addr)]
mod tests {
    use super::*;
    use crate::abi::tostr::Text;
    use kernel::fmt::Write;

    // No assertions outside of a test's own function: there they are the kernel's, and panic.
    fn shows(format: u32, bytes: &[u8], expected: &str) -> bool {
        let mut room = [0; 96];
        let mut text = Text::new(&mut room);
        let address = Address { format, bytes };
        text.write_fmt(fmt!("{}", address)).is_ok() && text.as_bytes() == expected.as_bytes()
    }

    fn family(number: u32) -> [u8; 2] {
        (number as u16).to_ne_bytes()
    }

    fn in4() -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&family(AF_INET));
        bytes[2..8].copy_from_slice(&[0x1d, 0x4c, 10, 0, 0, 1]);
        bytes
    }

    fn in6(scope: u32) -> [u8; 28] {
        let mut bytes = [0; 28];
        bytes[..2].copy_from_slice(&family(AF_INET6));
        bytes[2..4].copy_from_slice(&[0x1d, 0x4c]);
        bytes[8..10].copy_from_slice(&[0xfe, 0x80]);
        bytes[23] = 1;
        bytes[24..].copy_from_slice(&scope.to_ne_bytes());
        bytes
    }

    #[test]
    fn ipv4_and_ipv6_show_as_addr_str() {
        assert!(shows(
            FI_SOCKADDR_IN,
            &in4(),
            "fi_sockaddr_in://10.0.0.1:7500"
        ));
        assert!(shows(
            FI_SOCKADDR_IN6,
            &in6(0),
            "fi_sockaddr_in6://[fe80::1]:7500"
        ));
        assert!(shows(
            FI_SOCKADDR_IN6,
            &in6(3),
            "fi_sockaddr_in6://[fe80::1%3]:7500",
        ));
    }

    #[test]
    fn the_family_of_a_sockaddr_decides() {
        assert!(shows(FI_SOCKADDR, &in4(), "fi_sockaddr_in://10.0.0.1:7500"));
        assert!(shows(
            FI_SOCKADDR,
            &in6(0),
            "fi_sockaddr_in6://[fe80::1]:7500"
        ));
        assert!(shows(FI_SOCKADDR, &[0xff, 0xff, 0, 0], "(4 bytes)"));
    }

    #[test]
    fn short_addresses_show_their_length() {
        for len in 0..8 {
            let mut room = [0; 32];
            let mut text = Text::new(&mut room);
            let address = Address {
                format: FI_SOCKADDR_IN,
                bytes: &in4()[..len],
            };
            assert!(text.write_fmt(fmt!("{}", address)).is_ok());
            assert!(text.as_bytes().ends_with(b" bytes)"));
        }
        assert!(shows(FI_SOCKADDR_IN6, &in6(0)[..27], "(27 bytes)"));
    }

    #[test]
    fn strings_end_at_nul_or_with_the_buffer() {
        assert!(shows(FI_ADDR_STR, b"fi_shm://x\0rest", "fi_shm://x"));
        assert!(shows(FI_ADDR_STR, b"fi_shm://x", "fi_shm://x"));
    }
}
