// SPDX-License-Identifier: GPL-2.0

//! C types of the module: its UAPI (`include/uapi/linux/kofi_perf.h`) and its raw-verbs transport (`raw_verbs.h`).

#[allow(
    clippy::all,
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
        bindings::list_head,
        ffi, //
    };
    use pin_init::MaybeZeroable;

    // The header only names it, and the type of the kernel crate is not FFI-safe in all configurations.
    #[repr(C)]
    pub struct net([u8; 0]);

    include!(concat!(env!("KOFI_OBJ"), "/rust/perf/generated.rs"));
}

pub(crate) use raw::*;

kofi::plain_structs! {
    kofi_test: 4 * 4, 2 * 8, 2 * 4, 96, 16, 64, 2 * 4;
    kofi_watch: 6 * 4, 7 * 8, 4 * 4;
    kofi_stop: 2 * 4;
}

kofi::ioctl_arguments! {
    kofi_test: 216, KOFI_TEST_VERIFY | KOFI_TEST_VERBS;
    kofi_watch: 88, 0;
    kofi_stop: 8, 0;
}
