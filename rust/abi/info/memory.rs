// SPDX-License-Identifier: GPL-2.0

//! The memory that an [`Info`] owns: its allocation, copy and release.

use super::{
    super::{
        fi_domain_attr,
        fi_ep_attr,
        fi_fabric_attr,
        fi_rx_attr,
        fi_tx_attr,
        nic, //
    },
    Info, //
};
use crate::prelude::*;
use kernel::bindings;
use pin_init::{
    init_zeroed,
    zeroed, //
};

/// Allocates a zeroed attribute struct.
fn attr<T: Zeroable>() -> Result<*mut T> {
    // Initialised in place: a caller allocates several of these structs, which together are too large for the stack.
    let attr = KBox::<T>::init(init_zeroed(), GFP_KERNEL)?;
    Ok(KBox::into_raw(attr))
}

/// Copies `bytes` into an allocation that `kfree()` frees; null for an empty slice.
pub(super) fn alloc_copy(bytes: &[u8]) -> Result<*mut u8> {
    if bytes.is_empty() {
        return Ok(ptr::null_mut());
    }
    let mut copy = KVec::with_capacity(bytes.len(), GFP_KERNEL)?;
    copy.extend_from_slice(bytes, GFP_KERNEL)?;
    Ok(copy.into_raw_parts().0)
}

/// Frees an allocation of an [`Info`]; no effect for null.
pub(super) fn free_ptr<T>(pointer: *mut T) {
    // SAFETY: This private function is for the pointers of an `Info`: by the type invariant, each is null or a
    // separate allocation.
    unsafe { bindings::kfree(pointer.cast::<c_void>()) };
}

/// Replaces the pointer and frees the old allocation.
pub(super) fn replace_ptr<T>(at: &mut *mut T, new: *mut T) {
    free_ptr(core::mem::replace(at, new));
}

impl Info {
    /// Allocates the attributes that are missing, zeroed. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub fn alloc_attrs(&mut self) -> Result {
        fn add<T: Zeroable>(at: &mut *mut T) -> Result {
            if at.is_null() {
                *at = attr()?;
            }
            Ok(())
        }
        add::<fi_tx_attr>(&mut self.0.tx_attr)?;
        add::<fi_rx_attr>(&mut self.0.rx_attr)?;
        add::<fi_ep_attr>(&mut self.0.ep_attr)?;
        add::<fi_domain_attr>(&mut self.0.domain_attr)?;
        add::<fi_fabric_attr>(&mut self.0.fabric_attr)
    }

    /// Copies this node without its successors. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub fn duplicate(&self) -> Result<KBox<Self>> {
        // INVARIANT: No pointer is set yet.
        let mut new = KBox::new(Self(zeroed()), GFP_KERNEL)?;
        // SAFETY: The invariant says that the addresses have the lengths beside them.
        unsafe {
            (new.0.src_addr, new.0.src_addrlen) = copy_bytes(self.0.src_addr, self.0.src_addrlen)?;
            (new.0.dest_addr, new.0.dest_addrlen) =
                copy_bytes(self.0.dest_addr, self.0.dest_addrlen)?;
        }
        new.0.caps = self.0.caps;
        new.0.mode = self.0.mode;
        new.0.addr_format = self.0.addr_format;
        new.0.handle = self.0.handle;
        if let Some(tx) = self.tx() {
            new.0.tx_attr = KBox::into_raw(KBox::new(*tx, GFP_KERNEL)?);
        }
        if let Some(rx) = self.rx() {
            new.0.rx_attr = KBox::into_raw(KBox::new(*rx, GFP_KERNEL)?);
        }
        if let Some(ep) = self.ep() {
            new.0.ep_attr = attr()?;
            new.set_ep(ep)?;
            let own = new.ep_mut()?;
            // SAFETY: The invariant says that the key has the length beside it.
            let key = unsafe { copy_bytes(ep.auth_key, ep.auth_key_size) }?;
            (own.auth_key, own.auth_key_size) = key;
        }
        if let Some(domain) = self.domain() {
            new.0.domain_attr = attr()?;
            new.set_domain(domain)?;
            let own = new.domain_mut()?;
            own.domain = domain.domain;
            // SAFETY: The invariant says that the key has the length beside it.
            let key = unsafe { copy_bytes(domain.auth_key, domain.auth_key_size) }?;
            (own.auth_key, own.auth_key_size) = key;
        }
        if let Some(name) = self.domain_name() {
            new.set_domain_name(name)?;
        }
        if let Some(fabric) = self.fabric() {
            new.0.fabric_attr = attr()?;
            new.set_fabric(fabric)?;
            let own = new.fabric_mut()?;
            (own.net, own.fabric) = (fabric.net, fabric.fabric);
        }
        if let Some(name) = self.fabric_name() {
            new.set_fabric_name(name)?;
        }
        if let Some(name) = self.provider_name() {
            new.set_provider_name(name)?;
        }
        // SAFETY: By the type invariant.
        new.0.nic = unsafe { nic::duplicate(self.0.nic) }?;
        Ok(new)
    }
}

/// Returns the bytes of an address; `None` for a null pointer or a length of 0.
///
/// # Safety
///
/// `addr` is null or valid for `len` bytes for `'a`.
pub(super) unsafe fn addr_bytes<'a>(addr: *const c_void, len: usize) -> Option<&'a [u8]> {
    if addr.is_null() || len == 0 {
        return None;
    }
    // SAFETY: By this function's safety requirement.
    Some(unsafe { core::slice::from_raw_parts(addr.cast(), len) })
}

/// Copies an address or an authorization key; returns it with its length.
///
/// # Safety
///
/// The requirements of [`addr_bytes`].
unsafe fn copy_bytes<T>(bytes: *const T, len: usize) -> Result<(*mut T, usize)> {
    // SAFETY: By this function's safety requirement.
    let bytes = unsafe { addr_bytes(bytes.cast(), len) }.unwrap_or(&[]);
    Ok((alloc_copy(bytes)?.cast(), bytes.len()))
}

impl Drop for Info {
    fn drop(&mut self) {
        if let Some(ep) = self.ep() {
            free_ptr(ep.auth_key);
        }
        if let Some(domain) = self.domain() {
            free_ptr(domain.name);
            free_ptr(domain.auth_key);
        }
        if let Some(fabric) = self.fabric() {
            free_ptr(fabric.name);
            free_ptr(fabric.prov_name);
        }
        free_ptr(self.0.tx_attr);
        free_ptr(self.0.rx_attr);
        free_ptr(self.0.ep_attr);
        free_ptr(self.0.domain_attr);
        free_ptr(self.0.fabric_attr);
        free_ptr(self.0.src_addr);
        free_ptr(self.0.dest_addr);
        // SAFETY: By the type invariant.
        unsafe { nic::close(self.0.nic) };
    }
}
