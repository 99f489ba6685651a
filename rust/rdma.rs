// SPDX-License-Identifier: GPL-2.0

//! Safe wrappers of the kernel's RDMA verbs and of rdma_cm. Knows nothing of `fi_*`.
//!
//! One wrapper owns one object of the kernel's and destroys it when it is dropped. Each holds a
//! reference on what it was made of, so that no order of dropping is wrong, and through its
//! [`device::Use`] keeps a device that is going away from being freed.
//!
//! Unless a function says otherwise it may sleep, and belongs in process context. Posting, polling
//! and arming may be called in any context, take no lock of ours and allocate nothing.

// These follow the verbs, of which each provider needs a part.
#![allow(dead_code)]

pub(crate) mod by_hand;
pub(crate) mod cm;
mod completion;
pub(crate) mod cq;
pub(crate) mod device;
pub(crate) mod device_attr;
pub(crate) mod dma;
pub(crate) mod fast_reg_qp;
mod ib_client;
mod iwarp_loopback;
pub(crate) mod mr;
pub(crate) mod net;
pub(crate) mod pd;
pub(crate) mod qp;
pub(crate) mod siw_kick;
pub(crate) mod srq;
pub(crate) mod wr;
pub(crate) mod wr_template;

/// What the kernel's resource tracking (`rdma resource show`) calls the owner of our objects.
const OWNER: &kernel::str::CStr = c"kofi";
