// SPDX-License-Identifier: GPL-2.0

//! The C API: pointers in, calls of [`fi`](crate::fi), errno out.
//!
//! C callers hold `fid` structs with tables of calls. Those for control end in the objects of
//! [`fi`](crate::fi); those of the data path are made for each provider's own types ([`ops_tables`]), so
//! that one indirect call leads from `fi_send()` to its code.
//!
//! Whatever stands in a table is called through the inline of that name in `include/rdma`, whose
//! documentation is its safety contract; the same holds for the `try_` functions behind them.

#![allow(clippy::missing_safety_doc)]

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
pub(crate) mod ops_tables;
mod peer;
mod pep;
mod poll;
mod prov_registry;
mod rma;
mod sep;
mod srx;
mod strings;
mod stx;
mod tagged;
mod wait;
mod wait_set;
mod xfer_args;
