// SPDX-License-Identifier: GPL-2.0

//! Objects of another module's provider that are opened here.

use super::super::peer::sized;
use crate::abi::{
    self,
    errno::from_int,
    fi_fid_export,
    fid,
    Errno,
    Result, //
};
use core::ptr;
use kernel::prelude::*;

/// An object of C, which is closed when this is dropped.
///
/// # Invariants
///
/// It is open, and nobody else closes it.
pub(super) struct Open(*mut fid);

// SAFETY: Objects may be closed by any thread.
unsafe impl Send for Open {}

// SAFETY: As above; the pointer is only passed on.
unsafe impl Sync for Open {}

impl Open {
    /// What a call has opened, if it says so.
    ///
    /// # Errors
    ///
    /// What it says; -FI_EINVAL for NULL.
    ///
    /// # Safety
    ///
    /// It is as the call says.
    pub(super) unsafe fn new<T>(answer: c_int, object: *mut T) -> Result<Self> {
        from_int(answer)?;
        match object.is_null() {
            true => Err(Errno::EINVAL),
            // INVARIANT: By this function's safety requirement.
            false => Ok(Self(object.cast())),
        }
    }

    /// One that is ours to close.
    ///
    /// # Safety
    ///
    /// It is open, and nobody else closes it.
    pub(super) unsafe fn own(object: *mut fid) -> Self {
        // INVARIANT: By this function's safety requirement.
        Self(object)
    }

    /// Opens a child of `parent` by such a call, with what its owner gives it.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS where the call is not there; what it says; -FI_EINVAL for NULL.
    ///
    /// # Safety
    ///
    /// `parent` is open, and the rest as the call demands.
    pub(super) unsafe fn child<P, A, T, C>(
        call: Option<Call<P, A, T>>,
        parent: *mut P,
        mut attr: A,
        mut context: C,
    ) -> Result<Self> {
        let mut object = ptr::null_mut();
        let call = call.ok_or(Errno::ENOSYS)?;
        // SAFETY: By this function's safety requirement.
        unsafe {
            let answer = call(parent, &mut attr, &mut object, (&raw mut context).cast());
            Self::new(answer, object)
        }
    }

    /// What it is to C.
    pub(super) fn get<T>(&self) -> *mut T {
        self.0.cast()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: By the invariant.
        let answer = unsafe {
            match (*self.0).ops.as_ref().and_then(|ops| ops.close) {
                Some(close) => close(self.0),
                None => Errno::EINVAL.to_int(),
            }
        };
        if let Err(errno) = from_int(answer) {
            abi::log::complain(
                &c"peer",
                fmt!("an offload's object does not close: {}", errno.to_int()),
            );
        }
    }
}

/// `fi_export_fid()`, of one of ours.
///
/// # Errors
///
/// -FI_EINVAL for NULL, what the call says.
///
/// # Safety
///
/// `fid` is NULL or open.
pub(super) unsafe fn export(fid: *mut fid) -> Result<Open> {
    let mut form = ptr::null_mut();
    let mut asked = fi_fid_export {
        fid: &mut form,
        flags: 0,
        context: ptr::null_mut(),
    };
    // SAFETY: By this function's safety requirement.
    unsafe {
        let ops = fid.as_ref().and_then(|fid| fid.ops.as_ref());
        let control = ops.ok_or(Errno::EINVAL)?.control.ok_or(Errno::ENOSYS)?;
        let answer = control(fid, abi::FI_EXPORT_FID as c_int, (&raw mut asked).cast());
        Open::new(answer, form)
    }
}

/// A call that opens a `T` of a `P`.
type Call<P, A, T> = unsafe extern "C" fn(*mut P, *mut A, *mut *mut T, *mut c_void) -> c_int;

/// A table of calls, which begins with its size.
///
/// # Errors
///
/// -FI_ENOSYS where there is none, or not all of it.
///
/// # Safety
///
/// `at` is NULL or valid for as many bytes as it says that it has, for `'a`.
pub(super) unsafe fn table<'a, T>(at: *const T) -> Result<&'a T> {
    // SAFETY: By this function's safety requirement; tables begin with their sizes.
    unsafe { sized(at.cast()) }.map_err(|_| Errno::ENOSYS)
}
