// SPDX-License-Identifier: GPL-2.0

//! Objects that C callers hold: a `fid` of the headers at the beginning of a Rust struct. Arrays, addresses and
//! strings that C callers pass and get.

use super::prelude::*;
use crate::{
    abi::addr,
    util::noio::NoIo, //
};

/// A struct whose first member is a `struct fid` or begins with one.
///
/// # Safety
///
/// Implementors are `#[repr(C)]` and begin with a `struct fid`, whose `fclass` is one of the type's classes and
/// whose `ops` is `ops()` in every object of the type and in no other.
pub(super) unsafe trait Object: Sized {
    /// FI_CLASS number of the type, or the first of several.
    const CLASS: u32;

    /// Returns true for a class of the type.
    fn has_class(class: usize) -> bool;

    /// Returns the calls that every object has.
    fn ops() -> &'static fi_ops;

    /// Shuts the object down for `fi_close()`, which frees it unless this fails.
    fn close(&self) -> Result {
        Ok(())
    }
}

/// Makes the `fid` of a new object.
pub(super) fn new_fid<T: Object>(context: *mut c_void) -> fid {
    fid {
        fclass: T::CLASS as usize,
        context,
        ops: ptr::from_ref(T::ops()).cast_mut(),
    }
}

/// Returns the object that a `fid` of any class is the beginning of.
///
/// # Errors
///
/// -FI_EINVAL for NULL, another class, or an object of another module.
///
/// # Safety
///
/// `fid` is NULL or valid for `'a`.
pub(super) unsafe fn from_fid<'a, T: Object>(fid: *mut fid) -> Result<&'a T> {
    // SAFETY: By the caller's contract, `fid` is NULL or valid for `'a`.
    let common = unsafe { fid.as_ref() }.ok_or(Errno::EINVAL)?;
    ensure(
        T::has_class(common.fclass) && ptr::eq(common.ops, T::ops()),
        Errno::EINVAL,
    )?;
    // SAFETY: By the trait's contract only objects of this type have these operations.
    Ok(unsafe { &*fid.cast::<T>() })
}

/// Memory for an object that a C caller opens, and the caller's pointer to the new object.
pub(super) struct Opening<T, F> {
    memory: KBox<MaybeUninit<T>>,
    out: *mut *mut F,
    /// A consumer in the path of memory reclaim opens objects when it reconnects.
    _scope: NoIo,
}

impl<T: Object, F> Opening<T, F> {
    /// Allocates the memory of an object whose address is written to `*out`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for NULL, -FI_ENOMEM.
    ///
    /// # Safety
    ///
    /// `out` is NULL, or valid for writing until the object is opened.
    pub(super) unsafe fn new(out: *mut *mut F) -> Result<Self> {
        ensure(!out.is_null(), Errno::EINVAL)?;
        let scope = NoIo::enter();
        let memory = KBox::new_uninit(GFP_KERNEL)?;
        Ok(Self {
            memory,
            out,
            _scope: scope,
        })
    }

    /// Returns the address that the object will have.
    pub(super) fn address(&self) -> usize {
        ptr::from_ref(&*self.memory).expose_provenance()
    }

    /// Initialises the object, and writes its address to `*out`. Succeeds.
    pub(super) fn open(self, value: T) -> Result {
        let object = KBox::into_raw(KBox::write(self.memory, value));
        // SAFETY: By the contract of `new`, `out` is valid, and it is not NULL; an object begins with its
        // `fid`.
        unsafe { *self.out = object.cast() };
        Ok(())
    }
}

/// Reads the attributes at `attr` for a call that opens an object, and allocates the object's memory. May sleep.
///
/// # Errors
///
/// -FI_EINVAL for NULL, -FI_ENOMEM.
///
/// # Safety
///
/// `attr` and `out` are NULL or valid for `'a`, and no other thread accesses `attr` during the call.
pub(super) unsafe fn open_args<'a, A, T: Object, F>(
    attr: *mut A,
    out: *mut *mut F,
) -> Result<(&'a mut A, Opening<T, F>)> {
    // SAFETY: By this function's contract, both are NULL or valid, and `attr` is not shared.
    unsafe { Ok((attr.as_mut().ok_or(Errno::EINVAL)?, Opening::new(out)?)) }
}

/// Reads the info for a call that opens an object, as [`open_args`] does.
///
/// # Errors
///
/// The errors of [`open_args`].
///
/// # Safety
///
/// The requirements of [`open_args`].
pub(super) unsafe fn open_info<'a, T: Object, F>(
    info: *mut fi_info,
    out: *mut *mut F,
) -> Result<(&'a Info, Opening<T, F>)> {
    // SAFETY: `open_args` has the same requirements; an `Info` has the layout of its `fi_info`.
    unsafe {
        let (info, slot) = open_args(info, out)?;
        Ok((Info::from_ptr(info), slot))
    }
}

/// Fails with `errno` unless `condition` is true.
#[inline(always)]
pub(super) fn ensure(condition: bool, errno: Errno) -> Result {
    match condition {
        true => Ok(()),
        false => Err(errno),
    }
}

/// Returns a C caller's address or data as a slice, which is empty if `len` is 0.
///
/// # Errors
///
/// -FI_EINVAL for NULL with a length above 0, and for a length above `isize::MAX`.
///
/// # Safety
///
/// `data` is NULL or valid for `len` bytes for `'a`.
pub(super) unsafe fn byte_slice<'a>(data: *const c_void, len: usize) -> Result<&'a [u8]> {
    if len == 0 {
        return Ok(&[]);
    }
    ensure(
        !data.is_null() && isize::try_from(len).is_ok(),
        Errno::EINVAL,
    )?;
    // SAFETY: By the caller's contract, `data` is valid for `len` bytes.
    Ok(unsafe { slice::from_raw_parts(data.cast(), len) })
}

/// Copies `from` to a C caller's buffer, truncated to `*len` bytes, and writes the full length to `*len`.
///
/// # Errors
///
/// -FI_ETOOSMALL if it was truncated, -FI_EINVAL for a NULL buffer with a length above 0.
///
/// # Safety
///
/// `len` is NULL or valid; `to` is NULL or valid for `*len` bytes.
pub(super) unsafe fn copy_out(from: &[u8], to: *mut c_void, len: *mut usize) -> Result {
    // SAFETY: By the caller's contract, `len` is NULL or valid.
    let len = unsafe { len.as_mut() }.ok_or(Errno::EINVAL)?;
    ensure(*len == 0 || !to.is_null(), Errno::EINVAL)?;
    let space = from.len().min(*len);
    let fits = *len >= from.len();
    *len = from.len();
    if space > 0 {
        // SAFETY: `to` has space for `space` bytes, and is the caller's memory: it does not overlap `from`.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to.cast(), space) };
    }
    ensure(fits, Errno::ETOOSMALL)
}

/// Returns a C caller's array of `count` elements, to be written.
///
/// # Errors
///
/// -FI_EINVAL for a negative count, and for NULL with a count above 0.
///
/// # Safety
///
/// `to` is NULL or valid for writing `count` elements for `'a`.
pub(super) unsafe fn uninit_slice<'a, T>(
    to: *mut T,
    count: c_int,
) -> Result<&'a mut [MaybeUninit<T>]> {
    match usize::try_from(count) {
        Ok(0) => Ok(&mut []),
        // SAFETY: By the caller's contract, `to` is valid for `count` elements, which need not be
        // initialised.
        Ok(count) if !to.is_null() => Ok(unsafe { slice::from_raw_parts_mut(to.cast(), count) }),
        _ => Err(Errno::EINVAL),
    }
}

/// Length of the longest socket address, `struct sockaddr_storage`.
const MAX_ADDR_LEN: usize = 128;

/// Reads an address of the given format and length.
///
/// # Safety
///
/// The requirements of [`byte_slice`].
pub(super) unsafe fn address(format: u32, addr: *const c_void, len: usize) -> Result<SocketAddr> {
    ensure(len <= MAX_ADDR_LEN, Errno::EINVAL)?;
    // SAFETY: By the contract of `byte_slice`.
    addr::read_sockaddr(format, unsafe { byte_slice(addr, len)? })
}

/// Reads an address without a length argument: a string, or a socket address whose family implies its length.
/// Returns `None` for NULL.
///
/// # Safety
///
/// `at` is NULL, or points to an address of `format`.
pub(super) unsafe fn address_unbounded(
    format: u32,
    at: *const c_void,
) -> Result<Option<SocketAddr>> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: By the caller's contract, `at` is an address of `format`; every socket address begins with its
    // family, which implies its length.
    let bytes = unsafe {
        if format == abi::FI_ADDR_STR {
            CStr::from_char_ptr(at.cast()).to_bytes()
        } else {
            let family = slice::from_raw_parts(at.cast(), size_of::<u16>());
            let len = addr::sockaddr_len(abi::FI_SOCKADDR, family).ok_or(Errno::EINVAL)?;
            slice::from_raw_parts(at.cast(), len)
        }
    };
    addr::read_sockaddr(format, bytes).map(Some)
}

/// Copies a string into a C caller's buffer, truncated to fit and terminated. Without a buffer, returns the
/// string itself.
///
/// # Safety
///
/// `buf` is NULL or valid for `len` bytes.
pub(super) unsafe fn copy_static(
    text: &'static CStr,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    if buf.is_null() || len == 0 {
        return text.as_char_ptr();
    }
    let bytes = text.to_bytes();
    let space = bytes.len().min(len - 1);
    // SAFETY: By the caller's contract, `buf` has `len` bytes: `space` and the terminator fit.
    unsafe {
        ptr::copy_nonoverlapping(bytes.as_ptr(), buf.cast(), space);
        buf.add(space).write(0);
    }
    buf
}

/// Copies a text and its terminator into a C caller's buffer, truncated and terminated if it does not fit,
/// and writes its full length to `*len`.
///
/// # Errors
///
/// -FI_ETOOSMALL if it was truncated, -FI_EINVAL for a NULL buffer with a length above 0.
///
/// # Safety
///
/// `len` is NULL or valid; `buf` is NULL or valid for `*len` bytes.
pub(super) unsafe fn copy_truncated(text: &[u8], buf: *mut c_char, len: *mut usize) -> Result {
    // SAFETY: By the caller's contract, `len` is NULL or valid.
    let space = *unsafe { len.as_ref() }.ok_or(Errno::EINVAL)?;
    // SAFETY: By the caller's contract, `buf` is NULL or valid for `*len` bytes.
    let copied = unsafe { copy_out(text, buf.cast(), len) };
    if let (Err(Errno::ETOOSMALL), Some(last)) = (copied, space.checked_sub(1)) {
        // SAFETY: `last` is within the `*len` bytes of `buf`.
        unsafe { buf.add(last).write(0) };
    }
    copied
}
