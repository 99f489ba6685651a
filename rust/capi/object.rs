// SPDX-License-Identifier: GPL-2.0

//! The objects that C callers hold: a `fid` of the headers, and behind it the Rust object.

use crate::abi::{
    self,
    addr,
    context::{
        self,
        ProcessContext, //
    },
    fi_info,
    fi_ops,
    fid,
    info::Info,
    Errno,
    Result, //
};
use core::{
    mem::MaybeUninit,
    net::SocketAddr,
    ptr,
    slice, //
};
use kernel::prelude::*;

/// A struct whose first member is a `struct fid` or begins with one.
///
/// # Safety
///
/// Implementors are `#[repr(C)]` and begin with a `struct fid`, whose `fclass` is `CLASS` and whose
/// `ops` is `ops()` in every object of the type and in no other.
pub(super) unsafe trait Object: Sized {
    /// Its FI_CLASS number.
    const CLASS: u32;

    /// The calls that every object has.
    fn ops() -> &'static fi_ops;
}

/// The common part of an object that is being made.
pub(super) fn header<T: Object>(context: *mut c_void) -> fid {
    fid {
        fclass: T::CLASS as usize,
        context,
        ops: ptr::from_ref(T::ops()).cast_mut(),
    }
}

/// The object that a `fid` of any kind belongs to.
///
/// # Errors
///
/// -FI_EINVAL for NULL, another class, or an object that is not ours.
///
/// # Safety
///
/// `fid` is NULL or valid for `'a`.
pub(super) unsafe fn object<'a, T: Object>(fid: *mut fid) -> Result<&'a T> {
    // SAFETY: By this function's safety requirement.
    let common = unsafe { fid.as_ref() }.ok_or(Errno::EINVAL)?;
    if common.fclass != T::CLASS as usize || !ptr::eq(common.ops, T::ops()) {
        return Err(Errno::EINVAL);
    }
    // SAFETY: By the trait's contract only objects of this type have these operations.
    Ok(unsafe { &*fid.cast::<T>() })
}

/// Memory for an object whose address is needed before the object can be made.
pub(super) struct UninitObject<T>(KBox<MaybeUninit<T>>);

impl<T: Object> UninitObject<T> {
    /// Makes room. May sleep.
    pub(super) fn new() -> Result<Self> {
        Ok(Self(KBox::new_uninit(GFP_KERNEL)?))
    }

    /// Where the object will be.
    pub(super) fn address(&self) -> usize {
        ptr::from_ref(&*self.0) as usize
    }

    /// Moves the object in, and gives it to the C caller. The address has not changed.
    pub(super) fn put(self, value: T) -> *mut T {
        KBox::into_raw(KBox::write(self.0, value))
    }
}

/// `fi_cq_open()`, `fi_av_open()` and their kind: opens a child of `parent` with the attributes at
/// `attr`. `make` fills the place of the new object.
///
/// # Errors
///
/// -FI_EINVAL for NULL and for a parent of another class, -FI_EOPBADSTATE in atomic context,
/// -FI_ENOMEM, what `make` says.
///
/// # Safety
///
/// `parent`, `attr` and `out` are NULL or valid, and nobody else has `attr` meanwhile.
pub(super) unsafe fn open_with<P: Object, A, T: Object, F>(
    parent: *mut fid,
    attr: *mut A,
    out: *mut *mut F,
    make: impl FnOnce(ProcessContext, &P, &mut A, UninitObject<T>) -> Result<*mut T>,
) -> Result {
    let here = context::in_process()?;
    // SAFETY: By this function's safety requirement.
    let (parent, attr) = unsafe { (object::<P>(parent)?, attr.as_mut()) };
    let attr = attr.ok_or(Errno::EINVAL)?;
    if out.is_null() {
        return Err(Errno::EINVAL);
    }
    let made = make(here, parent, attr, UninitObject::new()?)?;
    // SAFETY: `out` is not NULL, and valid by this function's safety requirement.
    unsafe { hand_out(out, made) };
    Ok(())
}

/// `fi_domain()`, `fi_endpoint()` and their kind: the same with an info, which is only read.
///
/// # Errors
///
/// Those of [`open_with`].
///
/// # Safety
///
/// As of [`open_with`].
pub(super) unsafe fn open_child<P: Object, T: Object, F>(
    parent: *mut fid,
    info: *mut fi_info,
    out: *mut *mut F,
    make: impl FnOnce(ProcessContext, &P, &Info, UninitObject<T>) -> Result<*mut T>,
) -> Result {
    // SAFETY: By this function's safety requirement; an info is no more than its `fi_info`.
    unsafe {
        open_with(
            parent,
            info,
            out,
            |here, parent, info: &mut fi_info, place| {
                make(here, parent, Info::from_ptr(info), place)
            },
        )
    }
}

/// `fi_close()`: frees an object that [`UninitObject::put`] gave away, once `shut` has agreed.
///
/// # Errors
///
/// -FI_EINVAL for what is no such object, -FI_EOPBADSTATE in atomic context, what `shut` says.
///
/// # Safety
///
/// `fid` is NULL or valid; if the object is closed, it is not used any more.
pub(super) unsafe fn close<T: Object>(fid: *mut fid, shut: impl FnOnce(&T) -> Result) -> Result {
    // SAFETY: By this function's safety requirement.
    let closing = unsafe { object::<T>(fid)? };
    context::in_process()?;
    shut(closing)?;
    // SAFETY: Every object of the type came from `UninitObject::put`, and its owner has given it up.
    drop(unsafe { KBox::from_raw(fid.cast::<T>()) });
    Ok(())
}

/// Writes the object's address to where the caller wants it.
///
/// # Safety
///
/// `out` is valid for writing.
pub(super) unsafe fn hand_out<T: Object, F>(out: *mut *mut F, object: *mut T) {
    // SAFETY: By this function's safety requirement; an object begins with its `fid`.
    unsafe { *out = object.cast() };
}

/// The bytes of a C caller's address or data; none for NULL or nothing.
///
/// # Safety
///
/// `data` is NULL or valid for `len` bytes for `'a`.
pub(super) unsafe fn bytes<'a>(data: *const c_void, len: usize) -> Result<&'a [u8]> {
    if len == 0 {
        return Ok(&[]);
    }
    if data.is_null() || isize::try_from(len).is_err() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: By this function's safety requirement.
    Ok(unsafe { slice::from_raw_parts(data.cast(), len) })
}

/// Copies as much of `from` as there is room for to a C caller's buffer, and tells the whole length:
/// -FI_ETOOSMALL if it did not fit.
///
/// # Safety
///
/// `len` is NULL or valid; `to` is NULL or valid for `*len` bytes.
pub(super) unsafe fn copy_out(from: &[u8], to: *mut c_void, len: *mut usize) -> Result {
    // SAFETY: By this function's safety requirement.
    let len = unsafe { len.as_mut() }.ok_or(Errno::EINVAL)?;
    if *len > 0 && to.is_null() {
        return Err(Errno::EINVAL);
    }
    let room = from.len().min(*len);
    let fits = *len >= from.len();
    *len = from.len();
    if room > 0 {
        // SAFETY: `to` has room for that much, and is the caller's, not ours.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to.cast(), room) };
    }
    if fits {
        Ok(())
    } else {
        Err(Errno::ETOOSMALL)
    }
}

/// The array that a C caller has for so many answers.
///
/// # Errors
///
/// -FI_EINVAL for a negative count, and for NULL with room in it.
///
/// # Safety
///
/// `to` is NULL or valid for writing `count` elements for `'a`.
pub(super) unsafe fn room<'a, T>(to: *mut T, count: c_int) -> Result<&'a mut [MaybeUninit<T>]> {
    match usize::try_from(count) {
        Ok(0) => Ok(&mut []),
        // SAFETY: By this function's safety requirement; the elements need not be initialised.
        Ok(count) if !to.is_null() => Ok(unsafe { slice::from_raw_parts_mut(to.cast(), count) }),
        _ => Err(Errno::EINVAL),
    }
}

/// The longest socket address, `struct sockaddr_storage`.
const MAX_ADDR: usize = 128;

/// The address of this format that comes with its length.
///
/// # Safety
///
/// As of [`bytes`].
pub(super) unsafe fn address(format: u32, addr: *const c_void, len: usize) -> Result<SocketAddr> {
    if len > MAX_ADDR {
        return Err(Errno::EINVAL);
    }
    // SAFETY: By this function's safety requirement.
    addr::read(format, unsafe { bytes(addr, len)? })
}

/// The address of this format that a call takes without a length: it is a string, or its family tells.
///
/// # Safety
///
/// `at` is NULL or such an address.
pub(super) unsafe fn endless(format: u32, at: *const c_void) -> Result<Option<SocketAddr>> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: By this function's safety requirement; every socket address begins with its family, and is
    // as long as that says.
    let bytes = unsafe {
        if format == abi::FI_ADDR_STR {
            CStr::from_char_ptr(at.cast()).to_bytes()
        } else {
            let family = slice::from_raw_parts(at.cast(), size_of::<u16>());
            let len = addr::length(abi::FI_SOCKADDR, family).ok_or(Errno::EINVAL)?;
            slice::from_raw_parts(at.cast(), len)
        }
    };
    addr::read(format, bytes).map(Some)
}

/// Unused by every object here: `fi_open_ops()`.
pub(super) const fn fid_ops(
    close: unsafe extern "C" fn(*mut fid) -> c_int,
    bind: Option<unsafe extern "C" fn(*mut fid, *mut fid, u64) -> c_int>,
    control: Option<unsafe extern "C" fn(*mut fid, c_int, *mut c_void) -> c_int>,
) -> fi_ops {
    let absent = super::nosys::FID;
    abi::fi_ops {
        close: Some(close),
        bind: match bind {
            None => absent.bind,
            some => some,
        },
        control: match control {
            None => absent.control,
            some => some,
        },
        ..absent
    }
}
