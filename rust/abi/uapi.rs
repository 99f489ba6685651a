// SPDX-License-Identifier: GPL-2.0

//! Argument structs of the requests to `/dev/kofi`, as bytes of a process: see `include/uapi/linux/kofi.h`.

use super::{
    kofi_address,
    kofi_addresses,
    kofi_info,
    kofi_object,
    kofi_objects,
    kofi_offer,
    kofi_text,
    kofi_version, //
};
use kernel::transmute::{
    AsBytes,
    FromBytes, //
};
use pin_init::Zeroable;

/// A struct of numbers and arrays of them, without padding.
pub trait Plain: FromBytes + AsBytes + Zeroable {}

/// Argument of a request: it begins with its size and flags.
pub trait Argument: Plain {
    /// Size in the first version of the interface.
    const V1_SIZE: usize;

    /// Known flags.
    const FLAGS: u32;

    /// Returns the caller's flags.
    fn flags(&self) -> u32;
}

/// Implements [`Plain`] for structs that bindgen generated from a UAPI header: their fields are
/// integers and arrays of integers. `$sizes` are the sizes of the fields in order; their sum proves
/// that there is no padding.
#[macro_export]
macro_rules! plain_structs {
    ($($type:ident: $($size:expr),+;)*) => {
        $(
            const _: () = assert!(size_of::<$type>() == 0 $(+ $size)+, "there are gaps");

            // SAFETY: Integers and arrays of them: every value of their bytes is one.
            unsafe impl ::kernel::transmute::FromBytes for $type {}

            // SAFETY: As above, and by the assertion there are no bytes between them.
            unsafe impl ::kernel::transmute::AsBytes for $type {}

            impl $crate::abi::uapi::Plain for $type {}
        )*
    };
}

plain_structs! {
    kofi_version: 4 * 4;
    kofi_text: 4 * 4, 8, 1024;
    kofi_info: 2 * 4, 2 * 8, 2 * 4, 96, 16, 32, 64, 64, 8, 2 * 4;
    kofi_object: 2 * 8, 4 * 4, 64, 64, 96, 96, 32 * 4, 32 * 8;
    kofi_objects: 2 * 4, 2 * 8, 2 * 4;
    kofi_address: 2 * 8, 2 * 4, 96;
    kofi_addresses: 2 * 4, 3 * 8, 2 * 4;
    kofi_offer: 43 * 8, 12 * 4, 96, 96, 64, 64, 32;
}

/// Implements [`Argument`] for structs: the size in the first version, and the known flags.
#[macro_export]
macro_rules! ioctl_arguments {
    ($($type:ident: $first:expr, $flags:expr;)*) => {
        $(impl $crate::abi::uapi::Argument for $type {
            const V1_SIZE: usize = $first;
            const FLAGS: u32 = $flags;

            fn flags(&self) -> u32 {
                self.flags
            }
        })*
    };
}

ioctl_arguments! {
    kofi_version: 16, 0;
    kofi_text: 1048, 0;
    kofi_info: 320, super::KOFI_INFO_SOURCE;
    kofi_objects: 32, 0;
    kofi_addresses: 40, 0;
}
