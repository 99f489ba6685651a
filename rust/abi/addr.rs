// SPDX-License-Identifier: GPL-2.0

//! IP addresses: as the bytes of a `struct sockaddr`, as numeric text, and in the form of FI_ADDR_STR, for
//! example `fi_sockaddr_in://10.0.0.1:7500`.

use super::{
    tostr::Text,
    FI_ADDR_STR,
    FI_SOCKADDR,
    FI_SOCKADDR_IB,
    FI_SOCKADDR_IN,
    FI_SOCKADDR_IN6, //
};
use crate::prelude::*;
use core::net::{
    IpAddr,
    Ipv4Addr,
    Ipv6Addr,
    SocketAddrV4,
    SocketAddrV6, //
};
use kernel::{
    bindings::{
        AF_INET,
        AF_INET6, //
    },
    error::Result,
    fmt::{
        self,
        Write, //
    },
    str::BStr, //
};

/// An address from an info, with its format, for display.
///
/// The bytes come from a caller, and may be too few. An address that is too short for its format, or whose format has
/// no text form, is displayed as its number of bytes.
#[derive(Clone, Copy)]
pub(crate) struct Address<'a> {
    /// Address format: FI_SOCKADDR_IN, ...
    pub format: u32,
    /// The address.
    pub bytes: &'a [u8],
}

/// Size of a `struct sockaddr_in` in bytes.
const IN_LEN: usize = 16;
/// Size of a `struct sockaddr_in6` in bytes.
const IN6_LEN: usize = 28;
/// Maximum number of bytes of an address in the form of FI_ADDR_STR, with its NUL.
const TEXT_LEN: usize = 96;

/// Maximum number of bytes of an address in any format.
pub(crate) const MAX_ADDR_LEN: usize = TEXT_LEN;

/// Returns the bytes before the first NUL, or all of them.
fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or(bytes)
}

/// Returns the `N` bytes from the index `at` on; `None` if `bytes` ends before.
fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Returns the address family, which the first two bytes hold.
fn family(bytes: &[u8]) -> Option<u32> {
    array_at(bytes, 0).map(|family| u16::from_ne_bytes(family).into())
}

/// Parses a `struct sockaddr_in`: family, port, address.
fn parse_sockaddr_in(bytes: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(array_at(bytes, 2)?);
    let ip = Ipv4Addr::from(array_at::<4>(bytes, 4)?);
    Some(SocketAddrV4::new(ip, port).into())
}

/// Parses a `struct sockaddr_in6`: family, port, flow, address, scope.
fn parse_sockaddr_in6(bytes: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(array_at(bytes, 2)?);
    let flow = u32::from_be_bytes(array_at(bytes, 4)?);
    let ip = Ipv6Addr::from(array_at::<16>(bytes, 8)?);
    let scope = u32::from_ne_bytes(array_at(bytes, 24)?);
    Some(SocketAddrV6::new(ip, port, flow, scope).into())
}

/// Parses a `struct sockaddr` by its family.
fn parse_sockaddr(bytes: &[u8]) -> Option<SocketAddr> {
    match family(bytes)? {
        AF_INET => parse_sockaddr_in(bytes),
        AF_INET6 => parse_sockaddr_in6(bytes),
        _ => None,
    }
}

/// Returns the length of a socket address of this format. For FI_SOCKADDR the address family decides, which the first
/// bytes of the address hold. `None` if the format or the family is none of IP.
pub(crate) fn sockaddr_len(format: u32, bytes: &[u8]) -> Option<usize> {
    match format {
        FI_SOCKADDR_IN => Some(IN_LEN),
        FI_SOCKADDR_IN6 => Some(IN6_LEN),
        FI_SOCKADDR => match family(bytes)? {
            AF_INET => Some(IN_LEN),
            AF_INET6 => Some(IN6_LEN),
            _ => None,
        },
        _ => None,
    }
}

/// Reads a socket address of this format; `None` if it has another family, or is too short.
pub(crate) fn from_bytes(format: u32, bytes: &[u8]) -> Option<SocketAddr> {
    let addr = parse_sockaddr(bytes.get(..sockaddr_len(format, bytes)?)?)?;
    match (format, addr) {
        (FI_SOCKADDR, _) | (FI_SOCKADDR_IN, SocketAddr::V4(_)) => Some(addr),
        (FI_SOCKADDR_IN6, SocketAddr::V6(_)) => Some(addr),
        _ => None,
    }
}

/// Reads the address at the beginning of `bytes`, which may be longer than the address.
///
/// # Errors
///
/// -FI_EINVAL if it is no IP address, or `bytes` is too short.
pub(crate) fn read_sockaddr(format: u32, bytes: &[u8]) -> Result<SocketAddr, Errno> {
    let found = match format {
        FI_ADDR_STR => from_addr_str(until_nul(bytes)),
        // The address family decides; the format is not compared with it.
        _ => parse_sockaddr(bytes),
    };
    found.ok_or(Errno::EINVAL)
}

/// Returns the format of this address's family.
pub(crate) fn format_of(addr: &SocketAddr) -> u32 {
    match addr {
        SocketAddr::V4(_) => FI_SOCKADDR_IN,
        SocketAddr::V6(_) => FI_SOCKADDR_IN6,
    }
}

/// Calls `f` with the bytes of the address: for FI_ADDR_STR those of its text and a NUL, for other formats those of the
/// `struct sockaddr_in` or `struct sockaddr_in6`.
pub(crate) fn with_bytes<R>(format: u32, addr: &SocketAddr, f: impl FnOnce(&[u8]) -> R) -> R {
    if format != FI_ADDR_STR {
        return f(Bytes::new(addr).as_bytes());
    }
    let mut buf = [0; TEXT_LEN];
    let mut text = Text::new(&mut buf);
    // Cannot fail: the buffer has space for the longest text.
    let _ = text.write_fmt(fmt!("{}\0", AddrText(addr)));
    f(text.as_bytes())
}

/// The bytes of a `struct sockaddr_in` or a `struct sockaddr_in6`.
pub(crate) struct Bytes {
    bytes: [u8; IN6_LEN],
    len: usize,
}

impl Bytes {
    /// Encodes the address.
    #[inline]
    pub(crate) fn new(addr: &SocketAddr) -> Self {
        let mut bytes = [0; IN6_LEN];
        bytes[2..4].copy_from_slice(&addr.port().to_be_bytes());
        let (family, len) = match addr {
            SocketAddr::V4(v4) => {
                bytes[4..8].copy_from_slice(&v4.ip().octets());
                (AF_INET, IN_LEN)
            }
            SocketAddr::V6(v6) => {
                bytes[4..8].copy_from_slice(&v6.flowinfo().to_be_bytes());
                bytes[8..24].copy_from_slice(&v6.ip().octets());
                bytes[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
                (AF_INET6, IN6_LEN)
            }
        };
        bytes[0..2].copy_from_slice(&(family as u16).to_ne_bytes());
        Self { bytes, len }
    }

    /// Returns the bytes, as many as the family has.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&self.bytes)
    }
}

/// Error of parsing a text as an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AddrParseError {
    /// The text could be the name of a host or of a service, which would need a resolver.
    HostName,
    /// The text is neither a numeric address nor a name.
    Invalid,
}

/// Parses an IP address with its scope: `10.0.0.1`, `::1` or `fe80::1%2`.
fn node_from_str(node: &str) -> Result<(IpAddr, u32), AddrParseError> {
    let (ip, scope) = match node.split_once('%') {
        Some((ip, scope)) => (ip, scope.parse().map_err(|_| AddrParseError::Invalid)?),
        None => (node, 0),
    };
    match ip.parse() {
        Ok(IpAddr::V4(_)) if ip.len() < node.len() => Err(AddrParseError::Invalid),
        Ok(ip) => Ok((ip, scope)),
        Err(_)
            if node.starts_with(|first: char| first.is_ascii_alphabetic())
                && !node.contains([':', '%']) =>
        {
            Err(AddrParseError::HostName)
        }
        Err(_) => Err(AddrParseError::Invalid),
    }
}

fn service_from_str(service: &str) -> Result<u16, AddrParseError> {
    service.parse().map_err(|_| {
        match service.starts_with(|first: char| first.is_ascii_alphabetic()) {
            true => AddrParseError::HostName,
            false => AddrParseError::Invalid,
        }
    })
}

fn socket_addr(ip: IpAddr, port: u16, scope: u32) -> SocketAddr {
    match ip {
        IpAddr::V4(ip) => SocketAddrV4::new(ip, port).into(),
        IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, scope).into(),
    }
}

/// Returns whether a node is written in the form of FI_ADDR_STR.
pub(crate) fn is_addr_str(node: &CStr) -> bool {
    node.to_bytes().windows(3).any(|part| part == b"://")
}

/// Parses a numeric node and a numeric service. Without a node the address is the wildcard address of IPv4; without a
/// service the port is 0. A node in the form of FI_ADDR_STR contains the port, and must come without a service.
pub(crate) fn from_names(
    node: Option<&CStr>,
    service: Option<&CStr>,
) -> Result<SocketAddr, AddrParseError> {
    if let Some(node) = node.filter(|node| is_addr_str(node)) {
        let addr = from_addr_str(node.to_bytes()).filter(|_| service.is_none());
        return addr.ok_or(AddrParseError::Invalid);
    }
    fn to_str(name: &CStr) -> Result<&str, AddrParseError> {
        core::str::from_utf8(name.to_bytes()).map_err(|_| AddrParseError::Invalid)
    }
    let port = service.map_or(Ok(0), |service| service_from_str(to_str(service)?))?;
    let (ip, scope) = match node {
        Some(node) => node_from_str(to_str(node)?)?,
        None => (Ipv4Addr::UNSPECIFIED.into(), 0),
    };
    Ok(socket_addr(ip, port, scope))
}

/// Parses an address in the form of FI_ADDR_STR.
pub(crate) fn from_addr_str(text: &[u8]) -> Option<SocketAddr> {
    let text = core::str::from_utf8(text).ok()?;
    let (scheme, rest) = text.split_once("://")?;
    let (node, service) = rest.rsplit_once(':')?;
    let node = match scheme {
        "fi_sockaddr_in" => node,
        "fi_sockaddr_in6" => node.strip_prefix('[')?.strip_suffix(']')?,
        _ => return None,
    };
    let (ip, scope) = node_from_str(node).ok()?;
    let is_v6 = scheme == "fi_sockaddr_in6";
    (ip.is_ipv6() == is_v6).then_some(())?;
    Some(socket_addr(ip, service_from_str(service).ok()?, scope))
}

/// Displays an IP address in the form of FI_ADDR_STR.
struct AddrText<'a>(&'a SocketAddr);

impl fmt::Display for AddrText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            SocketAddr::V4(v4) => write!(f, "fi_sockaddr_in://{}:{}", v4.ip(), v4.port()),
            SocketAddr::V6(v6) => {
                write!(f, "fi_sockaddr_in6://[{}", v6.ip())?;
                if v6.scope_id() != 0 {
                    write!(f, "%{}", v6.scope_id())?;
                }
                write!(f, "]:{}", v6.port())
            }
        }
    }
}

impl fmt::Display for Address<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes;
        let ip = match self.format {
            FI_SOCKADDR => parse_sockaddr(bytes),
            FI_SOCKADDR_IN => parse_sockaddr_in(bytes),
            FI_SOCKADDR_IN6 => parse_sockaddr_in6(bytes),
            FI_SOCKADDR_IB => return write!(f, "fi_sockaddr_ib://({} bytes)", bytes.len()),
            FI_ADDR_STR => return fmt::Display::fmt(BStr::from_bytes(until_nul(bytes)), f),
            _ => None,
        };
        match ip {
            Some(addr) => AddrText(&addr).fmt(f),
            None => write!(f, "({} bytes)", bytes.len()),
        }
    }
}

#[kunit_tests(kofi_abi_addr)]
mod tests {
    use super::*;

    // Returns a result instead of asserting: outside of a test function, `assert!` panics the kernel.
    fn formats_as(format: u32, bytes: &[u8], expected: &str) -> bool {
        let mut buf = [0; 96];
        let mut text = Text::new(&mut buf);
        let address = Address { format, bytes };
        text.write_fmt(fmt!("{}", address)).is_ok() && text.as_bytes() == expected.as_bytes()
    }

    fn family_of(number: u32) -> [u8; 2] {
        (number as u16).to_ne_bytes()
    }

    fn in4() -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&family_of(AF_INET));
        bytes[2..8].copy_from_slice(&[0x1d, 0x4c, 10, 0, 0, 1]);
        bytes
    }

    fn in6(scope: u32) -> [u8; 28] {
        let mut bytes = [0; 28];
        bytes[..2].copy_from_slice(&family_of(AF_INET6));
        bytes[2..4].copy_from_slice(&[0x1d, 0x4c]);
        bytes[8..10].copy_from_slice(&[0xfe, 0x80]);
        bytes[23] = 1;
        bytes[24..].copy_from_slice(&scope.to_ne_bytes());
        bytes
    }

    #[test]
    fn ipv4_and_ipv6_are_formatted_as_addr_str() {
        assert!(formats_as(
            FI_SOCKADDR_IN,
            &in4(),
            "fi_sockaddr_in://10.0.0.1:7500"
        ));
        assert!(formats_as(
            FI_SOCKADDR_IN6,
            &in6(0),
            "fi_sockaddr_in6://[fe80::1]:7500"
        ));
        assert!(formats_as(
            FI_SOCKADDR_IN6,
            &in6(3),
            "fi_sockaddr_in6://[fe80::1%3]:7500",
        ));
    }

    #[test]
    fn sockaddr_is_formatted_by_its_family() {
        assert!(formats_as(
            FI_SOCKADDR,
            &in4(),
            "fi_sockaddr_in://10.0.0.1:7500"
        ));
        assert!(formats_as(
            FI_SOCKADDR,
            &in6(0),
            "fi_sockaddr_in6://[fe80::1]:7500"
        ));
        assert!(formats_as(FI_SOCKADDR, &[0xff, 0xff, 0, 0], "(4 bytes)"));
    }

    #[test]
    fn truncated_addresses_print_their_length() {
        for len in 0..8 {
            let mut buf = [0; 32];
            let mut text = Text::new(&mut buf);
            let address = Address {
                format: FI_SOCKADDR_IN,
                bytes: &in4()[..len],
            };
            assert!(text.write_fmt(fmt!("{}", address)).is_ok());
            assert!(text.as_bytes().ends_with(b" bytes)"));
        }
        assert!(formats_as(FI_SOCKADDR_IN6, &in6(0)[..27], "(27 bytes)"));
    }

    #[test]
    fn addr_str_ends_at_a_nul_or_the_buffer_end() {
        assert!(formats_as(FI_ADDR_STR, b"fi_shm://x\0rest", "fi_shm://x"));
        assert!(formats_as(FI_ADDR_STR, b"fi_shm://x", "fi_shm://x"));
    }

    #[test]
    fn sockaddr_bytes_round_trip() {
        for bytes in [&in4()[..], &in6(3)[..]] {
            let addr = from_bytes(FI_SOCKADDR, bytes);
            assert!(addr.is_some_and(|addr| Bytes::new(&addr).as_bytes() == bytes));
            assert!(sockaddr_len(FI_SOCKADDR, bytes) == Some(bytes.len()));
            for len in 0..bytes.len() {
                assert!(from_bytes(FI_SOCKADDR, &bytes[..len]).is_none());
            }
        }
        assert!(from_bytes(FI_SOCKADDR_IN, &in4()).is_some());
        assert!(from_bytes(FI_SOCKADDR_IN, &in6(0)).is_none());
        assert!(from_bytes(FI_SOCKADDR_IN6, &in4()).is_none());
        assert!(from_bytes(FI_SOCKADDR, &[0xff; 28]).is_none());
        assert!(sockaddr_len(FI_SOCKADDR, &[0xff; 28]).is_none());
    }

    #[test]
    fn from_names_parses_numeric_hosts_and_services() {
        let parse = |node: &CStr, service: &CStr| from_names(Some(node), Some(service));
        let parses_to = |addr: Result<SocketAddr, AddrParseError>, bytes: &[u8]| {
            addr.is_ok_and(|addr| Bytes::new(&addr).as_bytes() == bytes)
        };
        assert!(parses_to(parse(c"10.0.0.1", c"7500"), &in4()));
        assert!(parses_to(parse(c"fe80::1", c"7500"), &in6(0)));
        assert!(parses_to(parse(c"fe80::1%3", c"7500"), &in6(3)));
        for name in [c"host", c"host10", c"localhost.", c"fe80"] {
            assert!(parse(name, c"1") == Err(AddrParseError::HostName));
        }
        for invalid in [
            c"",
            c"256.0.0.1",
            c"10.1.0",
            c"1:2",
            c"::g",
            c"10.1.0.1%",
            c"10.1.0.1%2",
            c"fe80::1%nodev",
        ] {
            assert!(parse(invalid, c"1") == Err(AddrParseError::Invalid));
        }
        assert!(parse(c"10.0.0.1", c"ssh") == Err(AddrParseError::HostName));
        for invalid in [c"", c"65536", c"-1", c"1x"] {
            assert!(parse(c"10.0.0.1", invalid) == Err(AddrParseError::Invalid));
        }
        assert!(from_names(None, None).is_ok_and(|any| any.ip().is_unspecified()));
    }

    #[test]
    fn from_addr_str_parses_ipv4_and_ipv6() {
        let parses_to = |text: &[u8], bytes: &[u8]| {
            from_addr_str(text).is_some_and(|addr| Bytes::new(&addr).as_bytes() == bytes)
        };
        assert!(parses_to(b"fi_sockaddr_in://10.0.0.1:7500", &in4()));
        assert!(parses_to(b"fi_sockaddr_in6://[fe80::1]:7500", &in6(0)));
        assert!(parses_to(b"fi_sockaddr_in6://[fe80::1%3]:7500", &in6(3)));
        for invalid in [
            &b""[..],
            b"10.0.0.1:7500",
            b"fi_sockaddr_in://10.0.0.1",
            b"fi_sockaddr_in://10.0.0.1:",
            b"fi_sockaddr_in://[10.0.0.1]:7500",
            b"fi_sockaddr_in://fe80::1:7500",
            b"fi_sockaddr_in6://[10.0.0.1]:7500",
            b"fi_sockaddr_in6://fe80::1:7500",
            b"fi_sockaddr_ib://10.0.0.1:7500",
            b"fi_sockaddr_in://10.0.0.1:7500 ",
            b"\xff://10.0.0.1:7500",
        ] {
            assert!(from_addr_str(invalid).is_none());
        }
    }
}
