// SPDX-License-Identifier: GPL-2.0

//! Argument structs of the requests to `/dev/kofi`, as bytes of a process: see `include/uapi/linux/kofi.h`.

use super::{
    kofi_address,
    kofi_addresses,
    kofi_info,
    kofi_object,
    kofi_objects,
    kofi_offer,
    kofi_stop,
    kofi_test,
    kofi_text,
    kofi_version,
    kofi_watch, //
};
use kernel::transmute::{
    AsBytes,
    FromBytes, //
};
use pin_init::Zeroable;

/// A struct of numbers and arrays of them, without padding.
pub(crate) trait Plain: FromBytes + AsBytes + Zeroable {}

/// Argument of a request: it begins with its size and flags.
pub(crate) trait Argument: Plain {
    /// Size in the first version of the interface.
    const FIRST_SIZE: usize;

    /// Known flags.
    const FLAGS: u32;

    /// Returns the caller's flags.
    fn flags(&self) -> u32;
}

/// Implements [`Plain`]. `$sizes` are the sizes of the fields in order; their sum proves that there is no
/// padding.
macro_rules! plain {
    ($($type:ident: $($size:expr),+;)*) => {
        $(
            const _: () = assert!(size_of::<$type>() == 0 $(+ $size)+, "there are gaps");

            // SAFETY: Integers and arrays of them: every value of their bytes is one.
            unsafe impl FromBytes for $type {}

            // SAFETY: As above, and by the assertion there are no bytes between them.
            unsafe impl AsBytes for $type {}

            impl Plain for $type {}
        )*
    };
}

plain! {
    kofi_version: 4 * 4;
    kofi_text: 4 * 4, 8, 1024;
    kofi_info: 2 * 4, 2 * 8, 2 * 4, 96, 16, 32, 64, 64, 8, 2 * 4;
    kofi_test: 4 * 4, 2 * 8, 2 * 4, 96, 16, 64, 2 * 4;
    kofi_watch: 6 * 4, 7 * 8, 4 * 4;
    kofi_stop: 2 * 4;
    kofi_object: 2 * 8, 4 * 4, 64, 64, 96, 96, 32 * 4, 32 * 8;
    kofi_objects: 2 * 4, 2 * 8, 2 * 4;
    kofi_address: 2 * 8, 2 * 4, 96;
    kofi_addresses: 2 * 4, 3 * 8, 2 * 4;
    kofi_offer: 43 * 8, 12 * 4, 96, 96, 64, 64, 32;
}

macro_rules! arguments {
    ($($type:ident: $first:expr, $flags:expr;)*) => {
        $(impl Argument for $type {
            const FIRST_SIZE: usize = $first;
            const FLAGS: u32 = $flags;

            fn flags(&self) -> u32 {
                self.flags
            }
        })*
    };
}

arguments! {
    kofi_version: 16, 0;
    kofi_text: 1048, 0;
    kofi_info: 320, super::KOFI_INFO_SOURCE;
    kofi_test: 216, super::KOFI_TEST_VERIFY | super::KOFI_TEST_VERBS;
    kofi_watch: 88, 0;
    kofi_stop: 8, 0;
    kofi_objects: 32, 0;
    kofi_addresses: 40, 0;
}
