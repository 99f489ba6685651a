// SPDX-License-Identifier: GPL-2.0

//! Tracepoints for perf, bpftrace and trace-cmd.
//!
//! `include/trace/events/kofi.h` defines the fields of the events. While an event is off, the check costs one
//! no-op instruction, which the kernel patches into a jump when it is turned on; without jump labels it reads
//! a counter. The kernel crate's macro `declare_trace!` only finds tracepoints of its own bindings.

use crate::prelude::*;
use kernel::ffi::{
    c_char,
    c_int,
    c_void, //
};

/// Bytes of an address in an event: those of a `struct sockaddr_in6`.
pub(crate) const ADDR_LEN: usize = 28;

macro_rules! tracepoints {
    ($($name:ident($($arg:ident: $type:ty),*), is_on = $is_on:ident;)*) => {
        #[cfg(CONFIG_TRACEPOINTS)]
        mod ffi {
            use super::*;
            use kernel::bindings::tracepoint;

            kernel::macros::paste! {
                // With static calls a tracepoint contains a struct without fields.
                #[allow(improper_ctypes)]
                extern "C" {
                    $(
                        pub(super) static [<__tracepoint_ $name>]: tracepoint;
                        pub(super) fn [<rust_do_trace_ $name>]($($arg: $type),*);
                    )*
                }
            }
        }

        $(
            #[doc = concat!("Returns whether the tracepoint `", stringify!($name), "` is enabled.")]
            #[inline(always)]
            pub(crate) fn $is_on() -> bool {
                kernel::macros::paste! { is_on!([<__tracepoint_ $name>]) }
            }

            /// Emits the event.
            ///
            /// # Safety
            ///
            /// Pointers that the event follows are valid.
            #[inline(always)]
            unsafe fn $name($($arg: $type),*) {
                #[cfg(CONFIG_TRACEPOINTS)]
                kernel::macros::paste! {
                    // SAFETY: By this function's safety requirement.
                    unsafe { ffi::[<rust_do_trace_ $name>]($($arg),*) };
                }
                #[cfg(not(CONFIG_TRACEPOINTS))]
                let _ = ($($arg,)*);
            }
        )*
    };
}

/// Evaluates whether a tracepoint is on, by an instruction that is patched.
#[cfg(all(CONFIG_TRACEPOINTS, CONFIG_JUMP_LABEL))]
macro_rules! is_on {
    ($tracepoint:ident) => {
        'branch: {
            // SAFETY: The instruction does nothing or jumps to `yes`, and the key exists as long as the module.
            unsafe {
                kernel::asm!(
                    include!(concat!(
                        env!("KOFI_OBJ"),
                        "/rust/util/static_branch_generated.rs"
                    ));
                    yes = label { break 'branch true },
                    key = sym ffi::$tracepoint,
                    at = const core::mem::offset_of!(kernel::bindings::tracepoint, key),
                    branch = const 0,
                )
            };
            false
        }
    };
}

/// Evaluates whether a tracepoint is on, by the number of its listeners.
#[cfg(all(CONFIG_TRACEPOINTS, not(CONFIG_JUMP_LABEL)))]
macro_rules! is_on {
    ($tracepoint:ident) => {{
        // SAFETY: The tracepoint exists as long as the module. The volatile read is that of READ_ONCE().
        unsafe {
            let key = &raw const ffi::$tracepoint.key.key.enabled.counter;
            key.read_volatile() > 0
        }
    }};
}

#[cfg(not(CONFIG_TRACEPOINTS))]
macro_rules! is_on {
    ($tracepoint:ident) => {
        false
    };
}

tracepoints! {
    kofi_post(device: *const c_char, qp: u32, flags: u64, len: u64, context: *mut c_void, signaled: bool),
        is_on = posts;
    kofi_complete(device: *const c_char, qp: u32, flags: u64, len: u64, context: *mut c_void),
        is_on = completions;
    kofi_error(
        device: *const c_char, qp: u32, flags: u64, context: *mut c_void, status: u32, vendor: u32, error: c_int
    ), is_on = errors;
    kofi_connection(
        device: *const c_char, qp: u32, from: *const c_char, to: *const c_char, error: c_int, provider: c_int
    ), is_on = connections;
    kofi_request(device: *const c_char, local: *const c_void, peer: *const c_void, error: c_int),
        is_on = requests;
}

/// The queue pair of an event. The device's name is the current one.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    /// Name of the device.
    pub device: &'a CStr,
    /// Number of the queue pair; 0 before it exists.
    pub qp: u32,
}

/// The operation of an event.
#[derive(Clone, Copy)]
pub(crate) struct Operation {
    /// Completion flags: FI_SEND | FI_MSG, ...
    pub flags: u64,
    /// Bytes: of the memory at the post, transferred at the completion.
    pub len: u64,
    /// Context of the consumer.
    pub context: *mut c_void,
}

/// Traces that an operation was posted to the device; with `signaled` its success is reported. Any context.
pub(crate) fn post(at: At<'_>, operation: Operation, signaled: bool) {
    let (device, op) = (at.device.as_char_ptr(), operation);
    // SAFETY: The name is a C string.
    unsafe { kofi_post(device, at.qp, op.flags, op.len, op.context, signaled) };
}

/// Traces that the device has completed an operation. Any context.
pub(crate) fn complete(at: At<'_>, operation: Operation) {
    let (device, op) = (at.device.as_char_ptr(), operation);
    // SAFETY: The name is a C string.
    unsafe { kofi_complete(device, at.qp, op.flags, op.len, op.context) };
}

/// Traces that an operation failed, with its status and the driver's vendor error. Any context.
pub(crate) fn error(at: At<'_>, operation: Operation, (status, vendor): (u32, u32), errno: Errno) {
    let (device, op, error) = (at.device.as_char_ptr(), operation, errno.code());
    // SAFETY: The name is a C string.
    unsafe { kofi_error(device, at.qp, op.flags, op.context, status, vendor, error) };
}

/// Traces a change of a connection's state, with its reason if there is one. Any context.
pub(crate) fn connection(at: At<'_>, (from, to): (&CStr, &CStr), error: Option<(Errno, c_int)>) {
    let device = at.device.as_char_ptr();
    let (error, provider) = error.map_or((0, 0), |(errno, provider)| (errno.code(), provider));
    let (from, to) = (from.as_char_ptr(), to.as_char_ptr());
    // SAFETY: The names are C strings.
    unsafe { kofi_connection(device, at.qp, from, to, error, provider) };
}

/// Traces a connection request to a listener, refused if there is an error. Any context.
pub(crate) fn request(device: &CStr, local: &[u8], peer: &[u8], refused: Option<Errno>) {
    let whole = |addr: &[u8]| -> [u8; ADDR_LEN] {
        core::array::from_fn(|at| addr.get(at).copied().unwrap_or(0))
    };
    let (local, peer) = (whole(local), whole(peer));
    let (local, peer) = (local.as_ptr().cast(), peer.as_ptr().cast());
    let error = refused.map_or(0, Errno::code);
    // SAFETY: The name is a C string, and each address has as many bytes as an event takes.
    unsafe { kofi_request(device.as_char_ptr(), local, peer, error) };
}

#[kunit_tests(kofi_trace)]
mod tests {
    use super::*;

    #[test]
    fn tracepoints_are_disabled_without_listeners() {
        let enabled = [posts(), completions(), errors(), connections(), requests()];
        assert_eq!(enabled, [false; 5]);
    }
}
