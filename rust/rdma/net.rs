// SPDX-License-Identifier: GPL-2.0

//! Network namespaces and socket addresses of connections.

use super::prelude::*;
use crate::compat::EAFNOSUPPORT;
use core::net::{
    IpAddr,
    Ipv4Addr,
    Ipv6Addr,
    SocketAddr,
    SocketAddrV4,
    SocketAddrV6, //
};

/// A reference to a network namespace.
///
/// # Invariants
///
/// The pointer is valid, and one reference on the namespace belongs to this object.
#[derive(PartialEq, Eq)]
pub(crate) struct Net(NonNull<kernel::bindings::net>);

// SAFETY: A namespace is refcounted and has its own locks; any thread may hold and drop it.
unsafe impl Send for Net {}

// SAFETY: As above; no method changes the namespace through a shared reference.
unsafe impl Sync for Net {}

impl Net {
    /// Takes a reference on a borrowed namespace.
    pub(crate) fn new(net: &kernel::bindings::net) -> Self {
        // SAFETY: The lender of `net` holds a reference; only the count, which is atomic, changes.
        unsafe { Self::from_raw(ptr::from_ref(net).cast_mut()) }
    }

    /// Takes a reference on the namespace at `net`.
    ///
    /// # Safety
    ///
    /// `net` is not NULL and the caller holds a reference on it during this call.
    unsafe fn from_raw(net: *mut kernel::bindings::net) -> Self {
        // SAFETY: The caller holds a reference, so another one may be taken.
        let net = unsafe { crate::bindings::get_net(net) };
        // INVARIANT: `get_net` took a reference and returned its argument, which is not NULL.
        // SAFETY: `get_net` returns its argument, which is not NULL.
        Self(unsafe { NonNull::new_unchecked(net) })
    }

    /// Returns whether this is the initial namespace.
    pub(super) fn is_init(&self) -> bool {
        ptr::eq(self.as_ptr(), &raw const kernel::bindings::init_net)
    }

    /// Returns whether this is the namespace of the current task. Process context.
    pub(crate) fn is_current(&self) -> bool {
        // SAFETY: The pointer is only compared.
        unsafe { crate::bindings::kofi_is_current_net(self.as_ptr()) }
    }

    /// Returns whether an interface of the namespace has `addr`. Process context.
    pub(crate) fn has_addr(&self, addr: &SockAddr) -> bool {
        let raw = addr.to_raw();
        // SAFETY: Both are valid during the call, which only reads the address.
        unsafe { crate::bindings::kofi_has_address(self.as_ptr(), raw.as_ptr()) }
    }

    /// Returns the namespace, valid as long as `self`.
    pub(crate) fn as_ptr(&self) -> *mut kernel::bindings::net {
        self.0.as_ptr()
    }
}

impl Clone for Net {
    fn clone(&self) -> Self {
        // SAFETY: `self` holds a reference.
        unsafe { Self::from_raw(self.as_ptr()) }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // SAFETY: `self` owns the reference that is dropped here.
        unsafe { crate::bindings::put_net(self.as_ptr()) };
    }
}

/// Size in bytes of a `struct sockaddr_in`.
const SOCKADDR_IN_LEN: usize = 16;
/// Size in bytes of a `struct sockaddr_in6`.
const SOCKADDR_IN6_LEN: usize = 28;
/// Size in bytes of a `struct sockaddr_storage`, the largest socket address.
const SOCKADDR_STORAGE_LEN: usize = 128;

const AF_INET: u16 = kernel::bindings::AF_INET as u16;
const AF_INET6: u16 = kernel::bindings::AF_INET6 as u16;

/// An IPv4 or IPv6 address with a port.
///
/// rdma_cm connects by no other family; [`Self::from_bytes`] rejects all others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SockAddr(SocketAddr);

impl SockAddr {
    /// Creates an address. `scope` is used for IPv6 only.
    pub(crate) fn new(ip: IpAddr, port: u16, scope: u32) -> Self {
        Self(match ip {
            IpAddr::V4(ip) => SocketAddr::V4(SocketAddrV4::new(ip, port)),
            IpAddr::V6(ip) => SocketAddr::V6(SocketAddrV6::new(ip, port, 0, scope)),
        })
    }

    /// Reads a `struct sockaddr_in` or `struct sockaddr_in6` from the start of `bytes`.
    ///
    /// # Errors
    ///
    /// `EINVAL` when `bytes` is shorter than its family's structure, `EAFNOSUPPORT` for another
    /// family.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let family = u16::from_ne_bytes(read_field(bytes, 0)?);
        let port = u16::from_be_bytes(read_field(bytes, 2)?);
        match family {
            AF_INET if bytes.len() >= SOCKADDR_IN_LEN => {
                let ip: [u8; 4] = read_field(bytes, 4)?;
                Ok(Self::new(Ipv4Addr::from(ip).into(), port, 0))
            }
            AF_INET6 if bytes.len() >= SOCKADDR_IN6_LEN => {
                let flow = u32::from_be_bytes(read_field(bytes, 4)?);
                let ip: [u8; 16] = read_field(bytes, 8)?;
                let scope = u32::from_ne_bytes(read_field(bytes, 24)?);
                let v6 = SocketAddrV6::new(Ipv6Addr::from(ip), port, flow, scope);
                Ok(Self(SocketAddr::V6(v6)))
            }
            AF_INET | AF_INET6 => Err(EINVAL),
            _ => Err(EAFNOSUPPORT),
        }
    }

    /// Reads the address at the start of a C `struct sockaddr_storage`.
    ///
    /// # Safety
    ///
    /// `storage` is readable for [`SOCKADDR_STORAGE_LEN`] bytes, which do not change during the
    /// call.
    pub(super) unsafe fn from_storage(
        storage: *const kernel::bindings::__kernel_sockaddr_storage,
    ) -> Result<Self> {
        // SAFETY: By this function's contract.
        let bytes = unsafe { core::slice::from_raw_parts(storage.cast(), SOCKADDR_STORAGE_LEN) };
        Self::from_bytes(bytes)
    }

    /// Returns the C structure of the address.
    pub(crate) fn to_raw(self) -> RawSockAddr {
        let mut raw = RawSockAddr {
            bytes: [0; SOCKADDR_STORAGE_LEN],
            len: SOCKADDR_IN_LEN,
        };
        match self.0 {
            SocketAddr::V4(v4) => {
                write_field(&mut raw.bytes, 0, &AF_INET.to_ne_bytes());
                write_field(&mut raw.bytes, 2, &v4.port().to_be_bytes());
                write_field(&mut raw.bytes, 4, &v4.ip().octets());
            }
            SocketAddr::V6(v6) => {
                raw.len = SOCKADDR_IN6_LEN;
                write_field(&mut raw.bytes, 0, &AF_INET6.to_ne_bytes());
                write_field(&mut raw.bytes, 2, &v6.port().to_be_bytes());
                write_field(&mut raw.bytes, 4, &v6.flowinfo().to_be_bytes());
                write_field(&mut raw.bytes, 8, &v6.ip().octets());
                write_field(&mut raw.bytes, 24, &v6.scope_id().to_ne_bytes());
            }
        }
        raw
    }

    /// Returns the IP address.
    pub(crate) fn ip(&self) -> IpAddr {
        self.0.ip()
    }

    /// Returns the port, in host byte order.
    pub(crate) fn port(&self) -> u16 {
        self.0.port()
    }

    /// Returns the address with another port.
    pub(crate) fn with_port(mut self, port: u16) -> Self {
        self.0.set_port(port);
        self
    }

    /// Returns the address with `scope` if it is link-local and has no scope, otherwise unchanged.
    pub(super) fn with_scope(mut self, scope: u32) -> Self {
        if let SocketAddr::V6(v6) = &mut self.0 {
            if v6.ip().is_unicast_link_local() && v6.scope_id() == 0 {
                v6.set_scope_id(scope);
            }
        }
        self
    }

    /// Returns the interface index of an IPv6 link-local address; 0 for none.
    pub(crate) fn scope(&self) -> u32 {
        match self.0 {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(v6) => v6.scope_id(),
        }
    }

    /// Returns whether this is an IPv6 address.
    pub(crate) fn is_ipv6(&self) -> bool {
        self.0.is_ipv6()
    }

    /// Returns whether the IP address is the wildcard.
    pub(crate) fn is_unspecified(&self) -> bool {
        self.0.ip().is_unspecified()
    }
}

impl From<SocketAddr> for SockAddr {
    fn from(addr: SocketAddr) -> Self {
        Self(addr)
    }
}

impl From<SockAddr> for SocketAddr {
    fn from(addr: SockAddr) -> Self {
        addr.0
    }
}

/// A socket address in C layout, with the size of the largest.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(crate) struct RawSockAddr {
    bytes: [u8; SOCKADDR_STORAGE_LEN],
    len: usize,
}

impl RawSockAddr {
    /// Returns the bytes of the address, without the unused rest.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&self.bytes)
    }

    /// Returns a pointer for functions that only read a `struct sockaddr *`.
    pub(super) fn as_ptr(&self) -> *const kernel::bindings::sockaddr {
        self.bytes.as_ptr().cast()
    }

    /// Returns a pointer for functions that take a mutable `struct sockaddr *`.
    pub(super) fn as_mut_ptr(&mut self) -> *mut kernel::bindings::sockaddr {
        self.bytes.as_mut_ptr().cast()
    }
}

/// Returns `N` bytes of `bytes` from offset `at`.
fn read_field<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N]> {
    let end = at.checked_add(N).ok_or(EINVAL)?;
    let part = bytes.get(at..end).ok_or(EINVAL)?;
    part.try_into().map_err(|_| EINVAL)
}

/// Writes `value` into `bytes` from offset `at`, cut at the end of `bytes`.
fn write_field(bytes: &mut [u8; SOCKADDR_STORAGE_LEN], at: usize, value: &[u8]) {
    for (to, from) in bytes.iter_mut().skip(at).zip(value) {
        *to = *from;
    }
}

#[kunit_tests(kofi_rdma_net)]
mod tests {
    use super::*;

    #[test]
    fn sockaddr_ipv4_round_trip() -> Result {
        let addr = SockAddr::new(Ipv4Addr::new(10, 0, 0, 1).into(), 7500, 9);
        let raw = addr.to_raw();
        assert_eq!(raw.as_bytes().len(), SOCKADDR_IN_LEN);
        assert_eq!(
            raw.as_bytes().get(2..8),
            Some(&[0x1d, 0x4c, 10, 0, 0, 1][..])
        );
        assert_eq!(SockAddr::from_bytes(raw.as_bytes())?, addr);
        assert_eq!(addr.scope(), 0);
        Ok(())
    }

    #[test]
    fn sockaddr_ipv6_keeps_the_scope() -> Result {
        let ip = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
        let addr = SockAddr::new(ip.into(), 1, 2);
        let raw = addr.to_raw();
        assert_eq!(raw.as_bytes().len(), SOCKADDR_IN6_LEN);
        let back = SockAddr::from_bytes(raw.as_bytes())?;
        assert_eq!(back, addr);
        assert_eq!(back.scope(), 2);
        Ok(())
    }

    #[test]
    fn sockaddr_with_scope_changes_link_local_addresses_only() {
        let link_local =
            |scope| SockAddr::new(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1).into(), 1, scope);
        assert_eq!(link_local(0).with_scope(3), link_local(3));
        assert_eq!(link_local(2).with_scope(3), link_local(2));
        assert_eq!(link_local(0).with_scope(0), link_local(0));
        for ip in [
            Ipv4Addr::LOCALHOST.into(),
            Ipv6Addr::LOCALHOST.into(),
            Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).into(),
        ] {
            let addr = SockAddr::new(ip, 1, 0);
            assert_eq!(addr.with_scope(3), addr);
        }
    }

    #[test]
    fn sockaddr_rejects_truncated_bytes_and_unknown_families() -> Result {
        let raw4 = SockAddr::new(Ipv4Addr::LOCALHOST.into(), 1, 0).to_raw();
        let raw6 = SockAddr::new(Ipv6Addr::LOCALHOST.into(), 1, 0).to_raw();
        for raw in [raw4, raw6] {
            for len in 0..raw.as_bytes().len() {
                let part = raw.as_bytes().get(..len).ok_or(EINVAL)?;
                assert_eq!(SockAddr::from_bytes(part).err(), Some(EINVAL));
            }
            assert!(SockAddr::from_bytes(raw.as_bytes()).is_ok());
        }
        assert_eq!(SockAddr::from_bytes(&[1; 64]).err(), Some(EAFNOSUPPORT));
        Ok(())
    }

    #[test]
    fn sockaddr_wildcard_is_unspecified_and_takes_a_port() {
        let any = SockAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0, 0);
        assert!(any.is_unspecified());
        assert!(!any.is_ipv6());
        assert_eq!(any.with_port(5).port(), 5);
        assert_ne!(any.with_port(5), any);
    }
}
