// SPDX-License-Identifier: GPL-2.0

//! Names that most files of `rdma` use.

pub(super) use crate::bindings;
pub(super) use core::{
    mem::MaybeUninit,
    ptr::{
        self,
        NonNull, //
    },
};
pub(super) use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        new_spinlock,
        Arc,
        SpinLock, //
    },
    types::Opaque, //
};
