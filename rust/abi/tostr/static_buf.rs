// SPDX-License-Identifier: GPL-2.0

//! The static buffers that `fi_tostr()` returns in turn, as its C callers expect a string that they need not
//! free. Two callers never write one buffer at the same time; by the C API's rule a caller copies its text
//! before the buffer is used again.

use super::{
    super::fi_type,
    write_value,
    Text, //
};
use crate::prelude::*;
use core::cell::UnsafeCell;

/// Bytes of a buffer: enough for an info with every flag set.
const BUFFER_SIZE: usize = 8192;

/// Number of buffers; a power of two, so that the turn may wrap around.
const BUFFER_COUNT: u32 = 8;

struct Buffer {
    /// Set while a caller writes.
    in_use: AtomicFlag,
    bytes: UnsafeCell<[u8; BUFFER_SIZE]>,
}

// SAFETY: `bytes` is written only by the caller that has set `in_use`.
unsafe impl Sync for Buffer {}

static BUFFERS: [Buffer; BUFFER_COUNT as usize] = [const {
    Buffer {
        in_use: AtomicFlag::new(false),
        bytes: UnsafeCell::new([0; BUFFER_SIZE]),
    }
}; BUFFER_COUNT as usize];

static NEXT_BUFFER: Atomic<u32> = Atomic::new(0);

/// Implements `fi_tostr()`. Any context.
///
/// Returns null if `data` is null, if `datatype` is unknown, or if other callers are writing all buffers.
///
/// # Safety
///
/// `data` is null, or as [`describe`] requires.
pub(crate) unsafe fn tostr_static(data: *const c_void, datatype: fi_type) -> *mut c_char {
    if data.is_null() {
        return ptr::null_mut();
    }
    for _ in 0..BUFFER_COUNT {
        let turn = NEXT_BUFFER.fetch_add(1, Relaxed) % BUFFER_COUNT;
        let buffer = &BUFFERS[turn as usize];
        // Waiting could deadlock: this may be an interrupt of the caller that writes.
        if buffer.in_use.xchg(true, Acquire) {
            continue;
        }
        // SAFETY: The caller that has set `in_use` has exclusive access to the buffer.
        let buf = unsafe { &mut *buffer.bytes.get() };
        // SAFETY: By this function's safety requirement.
        let known = unsafe { write_value(data, datatype, &mut Text::new(buf)) };
        buffer.in_use.store(false, Release);
        return if known {
            buffer.bytes.get().cast()
        } else {
            ptr::null_mut()
        };
    }
    ptr::null_mut()
}
