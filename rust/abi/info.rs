// SPDX-License-Identifier: GPL-2.0

//! [`Info`]: an owned `struct fi_info`.
//!
//! An [`Info`] has the layout of the C struct, and frees all memory that it owns with `kfree()`. A C caller may
//! therefore replace an address or a name by memory from `kmalloc()`, as libfabric's consumers do, and
//! `fi_freeinfo()` drops the [`Info`].

mod memory;
#[cfg(CONFIG_KUNIT = "y")]
mod tests;

use super::{
    addr,
    fi_domain_attr,
    fi_ep_attr,
    fi_fabric_attr,
    fi_info,
    fi_rx_attr,
    fi_tx_attr,
    fid_fabric,
    net,
    nic::{
        self,
        NicDesc, //
    }, //
};
use crate::prelude::*;
use pin_init::zeroed;

use memory::{
    addr_bytes,
    alloc_copy,
    free_ptr,
    replace_ptr, //
};

/// A node of the list that `fi_getinfo()` returns, or the hints that it takes.
///
/// # Invariants
///
/// Every pointer but `next`, `handle`, `nic`, the attributes' `fabric` and `domain`, and `net` is null or a
/// separate allocation of `kmalloc()` that this object owns. Names are NUL-terminated; addresses and keys have
/// the length in the field beside them. `nic` is null or a description that this object owns, whose table of calls
/// is null or closes and copies it in any thread. Safe code compares `handle`, `fabric`, `domain` and `net`, and
/// does not dereference them.
#[repr(transparent)]
pub struct Info(fi_info);

// SAFETY: By the type invariant an `Info` owns the memory that it reads and frees, and any thread may call `nic`. It
// never dereferences the other pointers.
unsafe impl Send for Info {}

// SAFETY: Safe code only reads through a shared reference, and copies `nic`.
unsafe impl Sync for Info {}

/// Defines the getters of an attribute: the second is mutable, and returns -FI_EINVAL if the attribute is missing.
macro_rules! part {
    ($get:ident, $vis:vis $get_mut:ident, $field:ident, $type:ty) => {
        #[doc = concat!("Returns `", stringify!($field), "`.")]
        pub fn $get(&self) -> Option<&$type> {
            // SAFETY: By the type invariant the pointer is null or valid while `self` is.
            unsafe { self.0.$field.as_ref() }
        }

        #[doc = concat!("Returns `", stringify!($field), "`, mutably; -FI_EINVAL if it is missing.")]
        $vis fn $get_mut(&mut self) -> Result<&mut $type> {
            // SAFETY: As above.
            unsafe { self.0.$field.as_mut() }.ok_or(Errno::EINVAL)
        }
    };
}

macro_rules! name {
    ($(#[$doc:meta])* $get:ident, $set:ident, $attr:ident, $attr_mut:ident, $name:ident) => {
        $(#[$doc])*
        pub fn $get(&self) -> Option<&CStr> {
            let name = self.$attr()?.$name;
            if name.is_null() {
                return None;
            }
            // SAFETY: By the type invariant names are NUL-terminated.
            Some(unsafe { CStr::from_char_ptr(name.cast_const().cast()) })
        }

        /// Sets the name that the getter above returns; -FI_EINVAL if the attribute that has the name is missing.
        pub fn $set(&mut self, name: &CStr) -> Result {
            let attr = self.$attr_mut()?;
            replace_ptr(&mut attr.$name, alloc_copy(name.to_bytes_with_nul())?.cast());
            Ok(())
        }
    };
}

impl Info {
    /// Returns an info with all attributes allocated and zeroed. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub fn new() -> Result<KBox<Self>> {
        // INVARIANT: No pointer is set yet.
        let mut info = KBox::new(Self(zeroed()), GFP_KERNEL)?;
        info.alloc_attrs()?;
        Ok(info)
    }

    /// Borrows the info that a C caller passes, for the duration of the call.
    ///
    /// # Safety
    ///
    /// `info` is valid for `'a` and keeps the type's invariants.
    pub unsafe fn from_ptr<'a>(info: *const fi_info) -> &'a Self {
        // SAFETY: By this function's safety requirements; the type is transparent.
        unsafe { &*info.cast() }
    }

    /// Passes ownership to a C caller, which frees the info with `fi_freeinfo()`.
    pub fn into_raw(info: KBox<Self>) -> *mut fi_info {
        KBox::into_raw(info).cast()
    }

    /// Returns the C struct; ownership stays here.
    pub fn as_raw(&self) -> *mut fi_info {
        ptr::from_ref(self).cast_mut().cast()
    }

    /// Takes back the ownership of an info that [`Self::into_raw`] passed to a C caller.
    ///
    /// # Safety
    ///
    /// `info` came from [`Self::into_raw`], or keeps the type's invariants in an allocation of its own, and
    /// is not used afterwards.
    pub unsafe fn from_raw(info: *mut fi_info) -> KBox<Self> {
        // SAFETY: By this function's safety requirements; the type is transparent.
        unsafe { KBox::from_raw(info.cast()) }
    }

    /// Returns the capabilities.
    pub fn caps(&self) -> u64 {
        self.0.caps
    }

    /// Sets the capabilities.
    pub fn set_caps(&mut self, caps: u64) {
        self.0.caps = caps;
    }

    /// Returns the mode bits.
    pub fn mode(&self) -> u64 {
        self.0.mode
    }

    /// Sets the mode bits.
    pub fn set_mode(&mut self, mode: u64) {
        self.0.mode = mode;
    }

    /// Returns the address format.
    pub fn addr_format(&self) -> u32 {
        self.0.addr_format
    }

    /// Sets the address format.
    pub fn set_addr_format(&mut self, format: u32) {
        self.0.addr_format = format;
    }

    /// Returns the handle of the connection request that the info describes; 0 for none.
    pub fn handle(&self) -> usize {
        self.0.handle as usize
    }

    /// Sets the handle of the connection request.
    pub fn set_handle(&mut self, handle: usize) {
        self.0.handle = ptr::without_provenance_mut(handle);
    }

    part!(tx, pub tx_mut, tx_attr, fi_tx_attr);
    part!(rx, pub rx_mut, rx_attr, fi_rx_attr);
    part!(ep, ep_mut, ep_attr, fi_ep_attr);
    part!(domain, domain_mut, domain_attr, fi_domain_attr);
    part!(fabric, fabric_mut, fabric_attr, fi_fabric_attr);
    name!(
        /// Returns the domain's name.
        domain_name, set_domain_name, domain, domain_mut, name
    );
    name!(
        /// Returns the fabric's name.
        fabric_name, set_fabric_name, fabric, fabric_mut, name
    );
    name!(
        /// Returns the provider's name.
        provider_name, set_provider_name, fabric, fabric_mut, prov_name
    );

    /// Sets all endpoint attributes but the key.
    pub fn set_ep(&mut self, ep: &fi_ep_attr) -> Result {
        let own = self.ep_mut()?;
        *own = fi_ep_attr {
            auth_key: own.auth_key,
            auth_key_size: own.auth_key_size,
            ..*ep
        };
        Ok(())
    }

    /// Sets all domain attributes but the name, the key and an open domain.
    pub fn set_domain(&mut self, domain: &fi_domain_attr) -> Result {
        let own = self.domain_mut()?;
        *own = fi_domain_attr {
            domain: own.domain,
            name: own.name,
            auth_key: own.auth_key,
            auth_key_size: own.auth_key_size,
            ..*domain
        };
        Ok(())
    }

    /// Sets all fabric attributes but the names, an open fabric and the namespace.
    pub(crate) fn set_fabric(&mut self, fabric: &fi_fabric_attr) -> Result {
        let own = self.fabric_mut()?;
        *own = fi_fabric_attr {
            fabric: own.fabric,
            name: own.name,
            prov_name: own.prov_name,
            net: own.net,
            ..*fabric
        };
        Ok(())
    }

    /// Returns the open fabric and the open domain that a C caller's info is restricted to; null for any. The
    /// addresses are for comparison only.
    pub fn open_objects(&self) -> (*mut fid_fabric, *mut fid_domain) {
        let fabric = self.fabric().map_or(ptr::null_mut(), |attr| attr.fabric);
        let domain = self.domain().map_or(ptr::null_mut(), |attr| attr.domain);
        (fabric, domain)
    }

    /// Sets the open fabric and the open domain that the info is restricted to, for a C caller to read.
    pub fn set_open_objects(&mut self, fabric: *mut fid_fabric, domain: *mut fid_domain) {
        if let Ok(attr) = self.fabric_mut() {
            attr.fabric = fabric;
        }
        if let Ok(attr) = self.domain_mut() {
            attr.domain = domain;
        }
    }

    /// Sets the description of the device, with the contents that `fill` writes. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn set_nic(&mut self, fill: impl FnOnce(&mut NicDesc)) -> Result {
        let old = mem::replace(&mut self.0.nic, nic::create(fill)?);
        // SAFETY: By the type invariant; the info does not have the old description any more.
        unsafe { nic::close(old) };
        Ok(())
    }

    /// Sets the provider's version.
    pub fn set_provider_version(&mut self, version: u32) -> Result {
        self.fabric_mut()?.prov_version = version;
        Ok(())
    }

    /// Sets the API version that the consumer asked for.
    pub fn set_api_version(&mut self, version: u32) -> Result {
        self.fabric_mut()?.api_version = version;
        Ok(())
    }

    /// Returns the network namespace that a C caller's info names.
    ///
    /// # Safety
    ///
    /// The `net` of the fabric attributes is NULL, or a namespace that the caller holds during `'a`.
    pub unsafe fn net<'a>(&self) -> &'a Namespace {
        // SAFETY: By this function's safety requirement.
        unsafe { Namespace::from_ptr(self.raw_net()) }
    }

    /// Returns whether a C caller's info names a network namespace.
    pub(crate) fn has_net(&self) -> bool {
        !self.raw_net().is_null()
    }

    /// Returns whether the info names this network namespace. Compares addresses.
    pub(crate) fn is_in_net(&self, net: &Namespace) -> bool {
        Namespace::address_of(self.raw_net()) == net.address()
    }

    /// Sets the network namespace without taking a reference: the namespace has to stay alive for as long as a C
    /// caller may read the info.
    pub(crate) fn set_net(&mut self, net: &Namespace) {
        if let Ok(fabric) = self.fabric_mut() {
            fabric.net = net.to_ptr();
        }
    }

    fn raw_net(&self) -> *mut net {
        self.fabric().map_or(ptr::null_mut(), |fabric| fabric.net)
    }

    /// Returns the local address.
    pub fn src_addr(&self) -> Option<&[u8]> {
        // SAFETY: The invariant says that the address has the length beside it.
        unsafe { addr_bytes(self.0.src_addr, self.0.src_addrlen) }
    }

    /// Returns the peer's address.
    pub fn dest_addr(&self) -> Option<&[u8]> {
        // SAFETY: The invariant says that the address has the length beside it.
        unsafe { addr_bytes(self.0.dest_addr, self.0.dest_addrlen) }
    }

    /// Returns the local address and the peer's, each if it is set.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for an address that does not parse in the info's format.
    pub fn addresses(&self) -> Result<(Option<SocketAddr>, Option<SocketAddr>)> {
        let read = |bytes| addr::read_sockaddr(self.addr_format(), bytes);
        Ok((
            self.src_addr().map(read).transpose()?,
            self.dest_addr().map(read).transpose()?,
        ))
    }

    /// Sets both addresses and their format.
    pub fn set_addresses(
        &mut self,
        format: u32,
        src: Option<&SocketAddr>,
        dest: Option<&SocketAddr>,
    ) -> Result {
        let own = |end: Option<&SocketAddr>| match end {
            None => Ok((ptr::null_mut(), 0)),
            Some(end) => addr::with_bytes(format, end, |bytes| {
                alloc_copy(bytes).map(|own| (own.cast(), bytes.len()))
            }),
        };
        let (src, src_len) = own(src)?;
        // Sets both or neither, because the format is that of both.
        let (dest, dest_len) = own(dest).inspect_err(|_| free_ptr(src))?;
        replace_ptr(&mut self.0.src_addr, src);
        self.0.src_addrlen = src_len;
        replace_ptr(&mut self.0.dest_addr, dest);
        self.0.dest_addrlen = dest_len;
        self.0.addr_format = format;
        Ok(())
    }
}

/// The result of `fi_getinfo()`: nodes in the order of preference.
pub type InfoList = KVec<KBox<Info>>;

/// Links the nodes into a list for a C caller; null for an empty list.
pub fn into_raw_list(list: InfoList) -> *mut fi_info {
    let mut next = ptr::null_mut();
    let mut list = list;
    while let Some(mut info) = list.pop() {
        info.0.next = next;
        next = Info::into_raw(info);
    }
    next
}

/// Frees a linked list of nodes.
///
/// # Safety
///
/// The requirements of [`Info::from_raw`], for every node.
pub unsafe fn free_raw_list(mut info: *mut fi_info) {
    while !info.is_null() {
        // SAFETY: By this function's safety requirement.
        let node = unsafe { Info::from_raw(info) };
        info = node.0.next;
    }
}
