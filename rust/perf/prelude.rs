// SPDX-License-Identifier: GPL-2.0

//! Names that most files of the transports and of both sides of a test use, beside those of the kernel's prelude.

pub(crate) use super::{
    config::{
        AtomicConfig,
        Traffic, //
    },
    stats::Stats,
    transport::{
        PendingTransport,
        Transport, //
    },
};
pub(crate) use kernel::{
    prelude::*,
    sync::Arc,
    time::{
        Delta,
        Instant,
        Monotonic, //
    },
};
pub(crate) use kofi::{
    abi::{
        info::Info,
        Errno,
        Result, //
    },
    fi::{
        atomic::{
            Form,
            Op, //
        },
        msg::{
            Connection,
            RemoteElements,
            RemoteMemory, //
        },
    },
    util::{
        context::ProcessContext,
        namespace::Namespace, //
    },
};
