// SPDX-License-Identifier: GPL-2.0

//! The static buffers that `fi_tostr()` returns in turn, as its C callers expect a string that they need not
//! free. Two callers never write one buffer at the same time; by the C API's rule a caller copies its text
//! before the buffer is used again.

use super::{
    super::fi_type,
    describe,
    Text, //
};
use core::{
    cell::UnsafeCell,
    ptr, //
};
use kernel::{
    prelude::*,
    sync::atomic::{
        Acquire,
        Atomic,
        AtomicFlag,
        Relaxed,
        Release, //
    },
};

/// Bytes of a buffer: enough for an info with every flag set.
const SIZE: usize = 8192;

/// Number of buffers; a power of two, so that the turn may wrap around.
const COUNT: u32 = 8;

struct Buffer {
    /// Set while a caller writes.
    taken: AtomicFlag,
    room: UnsafeCell<[u8; SIZE]>,
}

// SAFETY: `room` is written only by the caller that has set `taken`.
unsafe impl Sync for Buffer {}

static BUFFERS: [Buffer; COUNT as usize] = [const {
    Buffer {
        taken: AtomicFlag::new(false),
        room: UnsafeCell::new([0; SIZE]),
    }
}; COUNT as usize];

static TURN: Atomic<u32> = Atomic::new(0);

/// Implements `fi_tostr()`. Any context.
///
/// Returns null if `data` is null, if `datatype` is unknown, or if other callers are writing all buffers.
///
/// # Safety
///
/// `data` is null, or as [`describe`] requires.
pub(crate) unsafe fn shared(data: *const c_void, datatype: fi_type) -> *mut c_char {
    if data.is_null() {
        return ptr::null_mut();
    }
    for _ in 0..COUNT {
        let turn = TURN.fetch_add(1, Relaxed) % COUNT;
        let buffer = &BUFFERS[turn as usize];
        // Waiting could deadlock: this may be an interrupt of the caller that writes.
        if buffer.taken.xchg(true, Acquire) {
            continue;
        }
        // SAFETY: The caller that has set `taken` has exclusive access to the buffer.
        let room = unsafe { &mut *buffer.room.get() };
        // SAFETY: By this function's safety requirement.
        let known = unsafe { describe(data, datatype, &mut Text::new(room)) };
        buffer.taken.store(false, Release);
        return if known {
            buffer.room.get().cast()
        } else {
            ptr::null_mut()
        };
    }
    ptr::null_mut()
}
