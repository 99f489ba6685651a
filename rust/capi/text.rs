// SPDX-License-Identifier: GPL-2.0

//! Texts for C callers.

use core::ptr;
use kernel::prelude::*;

/// Copies a text into a C caller's buffer, cut and terminated; without one, the text itself.
///
/// # Safety
///
/// `buf` is NULL or valid for `len` bytes.
pub(super) unsafe fn copy(text: &'static CStr, buf: *mut c_char, len: usize) -> *const c_char {
    if buf.is_null() || len == 0 {
        return text.as_char_ptr();
    }
    let bytes = text.to_bytes();
    let room = bytes.len().min(len - 1);
    // SAFETY: By this function's safety requirement; `room` and the terminator fit.
    unsafe {
        ptr::copy_nonoverlapping(bytes.as_ptr(), buf.cast(), room);
        buf.add(room).write(0);
    }
    buf
}
