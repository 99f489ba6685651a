// SPDX-License-Identifier: GPL-2.0

//! Objects that providers share, others' of other modules too: `rdma/fi_ext.h`.
//!
//! Whatever an owner gives is a struct of C that begins with its size, and is believed as far as that goes: a
//! larger one is newer, a smaller one is refused.

mod av;
mod av_set;
mod cq;
mod srx;

pub(super) use self::{
    av::{
        export_vector,
        form_of_vector,
        owner_of_vector, //
    },
    av_set::{
        export_set,
        owner_of_set, //
    },
    cq::{
        export_queue,
        owner_of_queue,
        with_entry, //
    },
    srx::{
        export_receives,
        owner_of_receives,
        receives_of, //
    },
};

use super::{
    domain::DomainObject,
    eq::QueueObject,
    object::{
        self,
        hand_out,
        header,
        Object,
        UninitObject, //
    },
};
use crate::{
    abi::{
        self,
        context::in_process,
        fi_fid_export,
        fi_peer_domain_context,
        fi_peer_eq_context,
        fid,
        Errno,
        Result, //
    },
    fi::{
        domain::Domain,
        eq::EventQueue, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Whether `fi_control()` is asked for an export.
///
/// # Errors
///
/// -FI_ENOSYS for other commands.
pub(super) fn check_export(command: c_int) -> Result {
    match u32::try_from(command) == Ok(abi::FI_EXPORT_FID) {
        true => Ok(()),
        false => Err(Errno::ENOSYS),
    }
}

/// `fi_export_fid()`, of what `make` makes with the common part of its fid. May sleep.
///
/// # Errors
///
/// -FI_EINVAL for NULL, -FI_EBADFLAGS, -FI_EOPBADSTATE in atomic context, -FI_ENOMEM, what `make` says.
///
/// # Safety
///
/// `arg` is NULL or a valid `struct fi_fid_export`.
unsafe fn export<T: Object>(arg: *mut c_void, make: impl FnOnce(fid) -> Result<T>) -> Result {
    // SAFETY: By this function's safety requirement.
    let asked = unsafe { arg.cast::<fi_fid_export>().as_ref() }.ok_or(Errno::EINVAL)?;
    if asked.fid.is_null() {
        return Err(Errno::EINVAL);
    }
    if asked.flags != 0 {
        return Err(Errno::EBADFLAGS);
    }
    in_process()?;
    let made = UninitObject::new()?.put(make(header::<T>(asked.context))?);
    // SAFETY: `fid` is not NULL, and valid as the C caller promises.
    unsafe { hand_out(asked.fid, made) };
    Ok(())
}

/// A struct that begins with its size, if that is enough.
///
/// # Errors
///
/// -FI_EINVAL.
///
/// # Safety
///
/// `at` is NULL or valid for reading as many bytes as it says that it has, which it begins with, for `'a`. A
/// `T` begins with a `usize`.
pub(super) unsafe fn sized<'a, T>(at: *const c_void) -> Result<&'a T> {
    if at.is_null() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: By this function's safety requirement.
    match unsafe { at.cast::<usize>().read() } {
        // SAFETY: As above.
        size if size >= size_of::<T>() => Ok(unsafe { &*at.cast::<T>() }),
        _ => Err(Errno::EINVAL),
    }
}

/// The owner's queue in the context of `fi_eq_open()` with FI_PEER. It has to be ours: `fi_eq_write()`, which is
/// all that there is for another's, cannot tell of a failure.
///
/// # Errors
///
/// -FI_EINVAL for NULL, for a struct that is too small, and for a queue of another make.
///
/// # Safety
///
/// `context` is NULL or a valid `struct fi_peer_eq_context`.
pub(super) unsafe fn owner_of_events<'a>(context: *mut c_void) -> Result<&'a Arc<EventQueue>> {
    // SAFETY: By this function's safety requirement; nothing beyond a struct's size is looked at.
    let owner = unsafe {
        let context = sized::<fi_peer_eq_context>(context)?;
        object::object::<QueueObject>(context.eq.cast())?
    };
    Ok(owner.queue())
}

/// The owner's domain in the context of `fi_domain2()` with FI_PEER, if it is ours. One of another make is
/// there for as long as its consumer has promised; providers here ask nothing of either.
///
/// # Errors
///
/// -FI_EINVAL for NULL, for a struct that is too small, and for what is no domain.
///
/// # Safety
///
/// `context` is NULL or a `struct fi_peer_domain_context` whose domain is valid until the peer's is closed.
pub(super) unsafe fn owner_of_domain<'a>(context: *mut c_void) -> Result<Option<&'a Arc<Domain>>> {
    // SAFETY: By this function's safety requirement; nothing beyond a struct's size is looked at.
    let (common, ours) = unsafe {
        let context = sized::<fi_peer_domain_context>(context)?;
        let fid = context.domain.cast::<fid>();
        (
            fid.as_ref().ok_or(Errno::EINVAL)?,
            object::object::<DomainObject>(fid),
        )
    };
    if common.fclass != abi::FI_CLASS_DOMAIN as usize {
        return Err(Errno::EINVAL);
    }
    Ok(ours.ok().map(DomainObject::domain))
}
