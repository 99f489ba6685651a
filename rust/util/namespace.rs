// SPDX-License-Identifier: GPL-2.0

//! Network namespaces: `struct net`, with its reference count.

use crate::{
    abi::net,
    prelude::*, //
};
use kernel::{
    sync::aref::{
        ARef,
        AlwaysRefCounted, //
    },
    types::Opaque, //
};

mod ffi {
    use super::net;

    extern "C" {
        pub(super) fn kofi_current_net() -> *mut net;
        pub(super) fn kofi_get_net(net: *mut net);
        pub(super) fn kofi_put_net(net: *mut net);
    }
}

/// A network namespace. An [`ARef`] of it holds a reference.
///
/// # Invariants
///
/// The memory is a `struct net` of the kernel.
#[repr(transparent)]
pub struct Namespace(Opaque<kernel::bindings::net>);

// SAFETY: A namespace is reference-counted and has its own locks: any thread may hold and drop it.
unsafe impl Send for Namespace {}

// SAFETY: As above; nothing here changes the namespace but for its reference count.
unsafe impl Sync for Namespace {}

// SAFETY: The count is that of the namespace, which lives at least until it is 0.
unsafe impl AlwaysRefCounted for Namespace {
    fn inc_ref(&self) {
        // SAFETY: `self` is valid because its owner holds a reference.
        unsafe { ffi::kofi_get_net(self.as_ptr().cast()) };
    }

    unsafe fn dec_ref(this: NonNull<Self>) {
        // SAFETY: By this function's contract the reference is the caller's.
        unsafe { ffi::kofi_put_net(this.as_ptr().cast()) };
    }
}

impl Namespace {
    /// Returns the initial namespace, `init_net`.
    pub fn init() -> &'static Self {
        // SAFETY: `init_net` lives as long as the kernel; the type is transparent.
        unsafe { &*(&raw mut kernel::bindings::init_net).cast::<Self>() }
    }

    /// Returns the namespace of the running task, which is in a system call.
    pub fn current() -> Option<ARef<Self>> {
        // SAFETY: A task in a system call has namespaces.
        let net = NonNull::new(unsafe { ffi::kofi_current_net() })?;
        // SAFETY: `kofi_current_net()` has taken the reference that the result holds.
        Some(unsafe { ARef::from_raw(net.cast()) })
    }

    /// Returns the namespace at a C caller's pointer; NULL is the initial one.
    ///
    /// # Safety
    ///
    /// `net` is NULL, or points to a namespace on which a reference is held during `'a`.
    pub unsafe fn from_ptr<'a>(net: *mut net) -> &'a Self {
        // SAFETY: By this function's safety requirement; the type is transparent.
        unsafe { net.cast::<Self>().as_ref() }.unwrap_or(Self::init())
    }

    /// Returns the C struct.
    pub fn as_ptr(&self) -> *mut kernel::bindings::net {
        self.0.get()
    }

    /// Returns the C struct in the form that wrappers of C functions take.
    pub(crate) fn as_raw(&self) -> &kernel::bindings::net {
        // SAFETY: By the type invariant, and `self` keeps it; nothing in it is read through this.
        unsafe { &*self.as_ptr() }
    }

    /// Returns the pointer that a C struct holds for the namespace; NULL for the initial one.
    pub(crate) fn to_ptr(&self) -> *mut net {
        match self == Self::init() {
            true => ptr::null_mut(),
            false => self.as_ptr().cast(),
        }
    }

    /// Returns the address of the C struct, for comparison.
    pub(crate) fn address(&self) -> usize {
        self.as_ptr().addr()
    }

    /// Returns the address of the namespace in a C struct, for comparison; NULL is the initial one.
    pub(crate) fn address_of(net: *const net) -> usize {
        match net.is_null() {
            true => Self::init().address(),
            false => net.addr(),
        }
    }
}

impl PartialEq for Namespace {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self, other)
    }
}

impl Eq for Namespace {}
