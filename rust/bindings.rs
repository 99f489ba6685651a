// SPDX-License-Identifier: GPL-2.0

//! Raw bindings of the kernel's RDMA headers, made by bindgen within Kbuild.
//!
//! Only definitions of `include/rdma` and `include/uapi/rdma` are generated; all other types are
//! those of [`kernel::bindings`], so that values need no casts between the two. `rdma/` uses this
//! module, and `compat` on older series of Linux.

#![allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::as_underscore,
    clippy::cast_lossless,
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    unused_imports
)]
#![cfg_attr(CONFIG_RUSTC_HAS_UNNECESSARY_TRANSMUTES, allow(unnecessary_transmutes))]

mod raw {
    use kernel::{
        bindings::*,
        ffi, //
    };
    use pin_init::{
        MaybeZeroable,
        Zeroable, //
    };

    // SAFETY: `__BindgenBitfieldUnit<Storage>` is a newtype around `Storage`.
    unsafe impl<Storage> Zeroable for __BindgenBitfieldUnit<Storage> where Storage: Zeroable {}

    include!(concat!(env!("KOFI_OBJ"), "/rust/bindings/generated.rs"));
}

mod helpers {
    use super::raw::*;
    use kernel::{
        bindings::{
            dma_addr_t,
            dma_data_direction,
            net,
            page,
            scatterlist,
            sockaddr, //
        },
        ffi, //
    };

    include!(concat!(
        env!("KOFI_OBJ"),
        "/rust/bindings/helpers_generated.rs"
    ));
}

pub(crate) use helpers::*;
pub(crate) use raw::*;
