// SPDX-License-Identifier: GPL-2.0

//! Rust items of the C API.
//!
//! Each struct, flag and number is defined only in `include/rdma`: bindgen turns it into the items that this
//! module exports under their C names. Constants have the type of the fields that they are for: `u64` for
//! flags, [`c_int`](kernel::ffi::c_int) for error numbers and `mr_mode` bits.
//!
//! The submodules add types on top: errors, sets of flags, text, owned infos.

pub(crate) mod addr;
pub(crate) mod enum_names;
pub mod errno;
pub mod flags;
pub mod info;
pub mod nic;
pub(crate) mod tostr;
pub mod uapi;

#[allow(
    clippy::all,
    clippy::as_underscore,
    clippy::cast_lossless,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn
)]
mod raw {
    use kernel::{
        bindings::*,
        ffi, //
    };
    use pin_init::{
        MaybeZeroable,
        Zeroable, //
    };

    // The headers only declare these types. Those of the kernel crate are not always FFI-safe to the
    // compiler: a spinlock has no bytes on one CPU.
    #[repr(C)]
    pub struct net([u8; 0]);
    #[repr(C)]
    pub struct module([u8; 0]);
    #[repr(C)]
    pub struct device([u8; 0]);

    // SAFETY: It has no bytes.
    unsafe impl<T> Zeroable for __IncompleteArrayField<T> {}

    include!(concat!(env!("KOFI_OBJ"), "/rust/abi/generated.rs"));
}

pub use errno::{
    Errno,
    Result, //
};
pub use kernel::bindings::{
    bio_vec,
    kvec,
    page,
    scatterlist, //
};
pub use raw::*;

// SAFETY: Its pointers are to objects and tables of any thread, and to the consumer's context, which only the
// consumer uses.
unsafe impl Send for fid_mr {}

// SAFETY: As above.
unsafe impl Sync for fid_mr {}

/// No address: any sender, or a connected endpoint's only peer.
pub const FI_ADDR_UNSPEC: fi_addr_t = fi_addr_t::MAX;

/// No address: the sender is not known, or an insertion failed.
pub const FI_ADDR_NOTAVAIL: fi_addr_t = fi_addr_t::MAX;

/// No key: the region is for local use only.
pub const FI_KEY_NOTAVAIL: u64 = u64::MAX;

/// Context count of an endpoint that shares its context with other endpoints.
pub const FI_SHARED_CONTEXT: usize = usize::MAX;

/// Version that `fi_version()` returns.
pub const VERSION: u32 = version(FI_MAJOR_VERSION, FI_MINOR_VERSION);

/// Returns a version as FI_VERSION() forms it.
pub const fn version(major: u32, minor: u32) -> u32 {
    major << 16 | minor
}
