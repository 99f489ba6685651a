// SPDX-License-Identifier: GPL-2.0

//! Objects of another module's provider that kOFI opens.

use super::super::{
    peer::checked_struct,
    prelude::*, //
};
use crate::abi::errno::from_int;

/// An object of another module's provider, which is closed when this is dropped.
///
/// # Invariants
///
/// The object is open, and only this closes it.
pub(super) struct Open<T>(*mut T);

// SAFETY: Any thread may close an object.
unsafe impl<T> Send for Open<T> {}

// SAFETY: The pointer is only copied.
unsafe impl<T> Sync for Open<T> {}

impl<T> Open<T> {
    /// Takes the object that a call has opened; `answer` is the call's return value.
    ///
    /// # Errors
    ///
    /// The errno in `answer`; -FI_EINVAL for NULL.
    ///
    /// # Safety
    ///
    /// With an `answer` of 0, `object` is NULL or open, and is closed only here.
    pub(super) unsafe fn from_result(ret: c_int, object: *mut T) -> Result<Self> {
        from_int(ret)?;
        match object.is_null() {
            true => Err(Errno::EINVAL),
            // INVARIANT: By the caller's contract, the object is open, and is closed only here.
            false => Ok(Self(object)),
        }
    }

    /// Opens a child of `parent` through `call`, with the peer context `context`.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS without a call, the errors of the call; -FI_EINVAL if it opens NULL.
    ///
    /// # Safety
    ///
    /// `parent` is open, and the arguments are as the call requires.
    pub(super) unsafe fn open_child<P, A, C>(
        call: Option<Call<P, A, T>>,
        parent: *mut P,
        mut attr: A,
        mut context: C,
    ) -> Result<Self> {
        let mut object = ptr::null_mut();
        let call = call.ok_or(Errno::ENOSYS)?;
        // SAFETY: By the caller's contract, the arguments are valid for this call.
        unsafe {
            let ret = call(parent, &mut attr, &mut object, (&raw mut context).cast());
            Self::from_result(ret, object)
        }
    }

    /// Returns the C object.
    pub(super) fn as_ptr(&self) -> *mut T {
        self.0
    }
}

impl<T> Drop for Open<T> {
    fn drop(&mut self) {
        let fid: *mut fid = self.0.cast();
        // SAFETY: By the invariant, the object is open; it begins with its `fid`.
        let ret = unsafe {
            let close = (*fid).ops.as_ref().and_then(|ops| ops.close);
            close.map_or(Errno::EINVAL.to_int(), |close| close(fid))
        };
        if let Err(errno) = from_int(ret) {
            crate::util::log::warn(
                &c"peer",
                fmt!("closing an object of an offload failed: {}", errno.to_int()),
            );
        }
    }
}

/// Exports a kOFI object (`fi_export_fid()`).
///
/// # Errors
///
/// -FI_EINVAL for NULL, and the errors of the call.
///
/// # Safety
///
/// `fid` is NULL or open.
pub(super) unsafe fn export(fid: *mut fid) -> Result<Open<fid>> {
    let mut object = ptr::null_mut();
    let mut request = fi_fid_export {
        fid: &mut object,
        flags: 0,
        context: ptr::null_mut(),
    };
    // SAFETY: By the caller's contract, `fid` is NULL or open.
    unsafe {
        let ops = fid.as_ref().and_then(|fid| fid.ops.as_ref());
        let control = ops.ok_or(Errno::EINVAL)?.control.ok_or(Errno::ENOSYS)?;
        let ret = control(fid, abi::FI_EXPORT_FID as c_int, (&raw mut request).cast());
        Open::from_result(ret, object)
    }
}

/// A call that opens a `T` as a child of a `P`.
type Call<P, A, T> = unsafe extern "C" fn(*mut P, *mut A, *mut *mut T, *mut c_void) -> c_int;

/// Returns a table of calls, after a check of the size that it begins with.
///
/// # Errors
///
/// -FI_ENOSYS for NULL, or for a table that is too small.
///
/// # Safety
///
/// `at` is NULL, or valid for `'a` and for as many bytes as the size at its beginning.
pub(super) unsafe fn checked_table<'a, T>(at: *const T) -> Result<&'a T> {
    // SAFETY: By the caller's contract, `at` is NULL or a table that begins with its size.
    unsafe { checked_struct(at.cast()) }.map_err(|_| Errno::ENOSYS)
}
