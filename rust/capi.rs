// SPDX-License-Identifier: GPL-2.0

//! The C API: translates C arguments, calls [`fi`](crate::fi), and returns errnos.
//!
//! C callers hold `fid` structs with tables of calls. The control calls lead to the objects of
//! [`fi`](crate::fi). The tables of the data path are generic over each provider's own types
//! ([`ops_tables`]), so that `fi_send()` reaches the provider's code with one indirect call.
//!
//! Each function in a table is called through the inline function in `include/rdma` whose name it has, for
//! example `fi_send()`. [`ops::fi_ops`] declares both; the documentation of the inline function is the safety
//! contract of the function in the table.

mod atomic;
mod av;
mod av_set;
mod cm;
mod cntr;
mod cq;
mod domain;
mod ep;
mod eq;
mod err_data;
mod fabric;
mod info;
mod mr;
mod msg;
mod nosys;
mod object;
mod offload;
mod opened;
mod ops;
pub(crate) mod ops_tables;
mod options;
mod peer;
mod pep;
mod poll;
mod prov_registry;
mod rma;
mod sep;
mod srx;
mod stx;
mod tagged;
mod wait;
mod wait_set;
mod xfer_args;

/// Names that most files of the C API use, beside those of [`fi`](crate::fi).
mod prelude {
    pub(super) use super::{
        object::{
            ensure,
            from_fid,
            new_fid,
            open_args,
            open_info,
            Object,
            Opening, //
        },
        ops::{
            fi_ops,
            FromFid,
            InProcess, //
        },
    };
    pub(super) use crate::{
        abi::*,
        fi::prelude::*, //
    };
}
