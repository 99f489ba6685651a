// SPDX-License-Identifier: GPL-2.0

//! Objects that providers share, also with providers of other modules: `rdma/fi_ext.h`.
//!
//! Structs of an owner or a peer begin with their size, which is trusted: a larger struct is of a newer
//! version, a smaller one is refused.

mod av;
mod av_set;
mod cq;
mod srx;

pub(super) use self::{
    av::{
        export_av,
        export_internal,
        owner_av, //
    },
    av_set::{
        export_av_set,
        owner_av_set, //
    },
    cq::{
        export_cq,
        import_cq,
        with_err_entry, //
    },
    srx::{
        export_srx,
        import_srx,
        owner_srx, //
    },
};

use super::{
    domain::DomainObject,
    eq::QueueObject,
    prelude::*, //
};
use crate::fi::{
    domain::Domain,
    eq::EventQueue, //
};

/// Implements `fi_control()` of an object that can be exported (`fi_export_fid()`): `make` makes the exported
/// object from its `fid`. May sleep.
///
/// # Errors
///
/// -FI_ENOSYS for a command other than FI_EXPORT_FID, -FI_EINVAL for NULL, -FI_EBADFLAGS, -FI_EOPBADSTATE in
/// atomic context, -FI_ENOMEM, and the errors of `make`.
///
/// # Safety
///
/// With FI_EXPORT_FID, `arg` is NULL or a valid `struct fi_fid_export`.
unsafe fn export<T: Object>(
    command: c_int,
    arg: *mut c_void,
    make: impl FnOnce(fid) -> Result<T>,
) -> Result {
    ensure(command as u32 == abi::FI_EXPORT_FID, Errno::ENOSYS)?;
    // SAFETY: By the caller's contract, `arg` is NULL or a valid `struct fi_fid_export`.
    let request = unsafe { arg.cast::<fi_fid_export>().as_ref() }.ok_or(Errno::EINVAL)?;
    ensure(!request.fid.is_null(), Errno::EINVAL)?;
    ensure(request.flags == 0, Errno::EBADFLAGS)?;
    in_process()?;
    // SAFETY: `fid` is valid by the contract of `fi_export_fid()`.
    let slot = unsafe { Opening::new(request.fid)? };
    slot.open(make(new_fid::<T>(request.context))?)
}

/// Checks the class of an object, which may be of another module.
///
/// # Errors
///
/// -FI_EINVAL for NULL and for another class.
///
/// # Safety
///
/// `object` is NULL or valid.
unsafe fn check_class(object: *mut fid, class: u32) -> Result {
    // SAFETY: By the caller's contract, `object` is NULL or valid.
    match unsafe { object.as_ref() } {
        Some(object) if object.fclass == class as usize => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

/// Returns a struct that begins with its size, after a check that it is large enough.
///
/// # Errors
///
/// -FI_EINVAL for NULL, and for a struct that is too small.
///
/// # Safety
///
/// `at` is NULL, or valid for reading for `'a` as many bytes as the `usize` at its beginning says. A `T`
/// begins with a `usize`.
pub(super) unsafe fn checked_struct<'a, T>(at: *const c_void) -> Result<&'a T> {
    ensure(!at.is_null(), Errno::EINVAL)?;
    // SAFETY: By the caller's contract, `at` begins with its size.
    match unsafe { at.cast::<usize>().read() } {
        // SAFETY: By the caller's contract, `at` is valid for `size` bytes.
        size if size >= size_of::<T>() => Ok(unsafe { &*at.cast::<T>() }),
        _ => Err(Errno::EINVAL),
    }
}

/// Returns the owner's queue in the context of `fi_eq_open()` with FI_PEER. The queue must be kOFI's: for
/// another module's, there is only `fi_eq_write()`, which cannot report errors.
///
/// # Errors
///
/// -FI_EINVAL for NULL, for a struct that is too small, and for a queue of another module.
///
/// # Safety
///
/// `context` is NULL or a valid `struct fi_peer_eq_context`.
pub(super) unsafe fn owner_eq<'a>(context: *mut c_void) -> Result<&'a Arc<EventQueue>> {
    // SAFETY: By the caller's contract, `context` is valid; nothing beyond a struct's size is read.
    unsafe {
        let context = checked_struct::<fi_peer_eq_context>(context)?;
        from_fid::<QueueObject>(context.eq.cast()).map(|owner| &owner.queue)
    }
}

/// Returns the owner's domain in the context of `fi_domain2()` with FI_PEER, or `None` for a domain of
/// another module. That one stays open as long as the consumer guarantees; kOFI's providers call neither.
///
/// # Errors
///
/// -FI_EINVAL for NULL, for a struct that is too small, and for an object that is not a domain.
///
/// # Safety
///
/// `context` is NULL or a `struct fi_peer_domain_context` whose domain is valid until the peer's is closed.
pub(super) unsafe fn owner_domain<'a>(context: *mut c_void) -> Result<Option<&'a Arc<Domain>>> {
    // SAFETY: By the caller's contract, `context` is valid; nothing beyond a struct's size is read.
    unsafe {
        let domain = checked_struct::<fi_peer_domain_context>(context)?
            .domain
            .cast();
        check_class(domain, abi::FI_CLASS_DOMAIN)?;
        Ok(from_fid::<DomainObject>(domain)
            .ok()
            .map(|ours| &ours.domain))
    }
}
