// SPDX-License-Identifier: GPL-2.0

//! The buffers that `fi_tostr()` hands out in turn, as its C callers expect a string that they need
//! not free. A buffer is never written by two callers at once; that a reader copies its text before
//! its turn comes again is the C API's rule.

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

/// How many there are; a power of two, so that the turn may wrap around.
const COUNT: u32 = 8;

struct Buffer {
    /// Set while somebody writes.
    taken: AtomicFlag,
    room: UnsafeCell<[u8; SIZE]>,
}

// SAFETY: `room` is written only by whoever has set `taken`.
unsafe impl Sync for Buffer {}

static BUFFERS: [Buffer; COUNT as usize] = [const {
    Buffer {
        taken: AtomicFlag::new(false),
        room: UnsafeCell::new([0; SIZE]),
    }
}; COUNT as usize];

static TURN: Atomic<u32> = Atomic::new(0);

/// `fi_tostr()`. Any context.
///
/// Null if `data` is, if `datatype` is unknown, or if so many others write at this very moment that
/// no buffer is free.
///
/// # Safety
///
/// `data` is null or as [`describe`] wants it.
pub(crate) unsafe fn shared(data: *const c_void, datatype: fi_type) -> *mut c_char {
    if data.is_null() {
        return ptr::null_mut();
    }
    for _ in 0..COUNT {
        let turn = TURN.fetch_add(1, Relaxed) % COUNT;
        let buffer = &BUFFERS[turn as usize];
        // An interrupt may come between another caller and its text: never wait for one.
        if buffer.taken.xchg(true, Acquire) {
            continue;
        }
        // SAFETY: Whoever has set `taken` has the buffer for itself.
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
