// SPDX-License-Identifier: GPL-2.0

//! Names that most files above the `rdma` module use, beside those of the kernel's prelude.
//!
//! `Result` is kOFI's, whose error is an [`Errno`]; a file that wants the kernel's imports it.

pub(crate) use crate::{
    abi::{
        self,
        fi_addr_t,
        fid,
        fid_domain,
        info::Info,
        Errno,
        Result, //
    },
    util::{
        context::{
            in_process,
            ProcessContext, //
        },
        deferred_drop::DeferredDrop,
        lock::FastLockIrq,
        namespace::Namespace,
        owned_list::{
            BoxList,
            ListBox, //
        },
    },
};
pub(crate) use core::{
    marker::PhantomData,
    mem::{
        self,
        MaybeUninit, //
    },
    net::SocketAddr,
    ops::{
        Deref,
        DerefMut, //
    },
    ptr::{
        self,
        NonNull, //
    },
    slice, //
};
pub(crate) use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            AtomicFlag,
            Full,
            Relaxed,
            Release, //
        },
        new_mutex,
        static_lock_class,
        Arc,
        Mutex,
        SetOnce, //
    },
    time::Delta,
    workqueue::{
        impl_has_work,
        new_work,
        Work,
        WorkItem, //
    },
};
