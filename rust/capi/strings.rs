// SPDX-License-Identifier: GPL-2.0

//! Strings for C callers.

use super::object::copy_out;
use crate::fi::prelude::*;

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
    let room = bytes.len().min(len - 1);
    // SAFETY: By the caller's contract, `buf` has `len` bytes: `room` and the terminator fit.
    unsafe {
        ptr::copy_nonoverlapping(bytes.as_ptr(), buf.cast(), room);
        buf.add(room).write(0);
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
    let room = match len.is_null() {
        true => return Err(Errno::EINVAL),
        // SAFETY: By the caller's contract, `len` is valid.
        false => unsafe { len.read() },
    };
    // SAFETY: By the caller's contract, `buf` is NULL or valid for `*len` bytes.
    let copied = unsafe { copy_out(text, buf.cast(), len) };
    if let (Err(Errno::ETOOSMALL), Some(last)) = (copied, room.checked_sub(1)) {
        // SAFETY: `last` is within the `*len` bytes of `buf`.
        unsafe { buf.add(last).write(0) };
    }
    copied
}
