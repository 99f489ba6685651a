// SPDX-License-Identifier: GPL-2.0

//! Safe wrappers of the kernel's RDMA verbs and of rdma_cm, independent of `fi_*`.
//!
//! Each wrapper owns one kernel object and destroys it on drop. It holds a reference on each object
//! that it was created from, so that wrappers may be dropped in any order, and through its
//! [`device::DeviceRef`] it delays the removal of its device.
//!
//! Unless a function says otherwise, it may sleep and runs in process context. Posting, polling and
//! arming may be called in any context, take no lock of this module and allocate nothing.

pub(crate) mod cm;
mod completion;
pub(crate) mod cq;
pub(crate) mod device;
pub(crate) mod device_attr;
pub(crate) mod dim;
pub(crate) mod dma;
pub(crate) mod fast_reg_qp;
mod ib_client;
mod iwarp_loopback;
pub(crate) mod mr;
pub(crate) mod net;
pub(crate) mod nic;
pub(crate) mod pd;
mod prelude;
pub(crate) mod qp;
pub(crate) mod srq;
pub(crate) mod wr;
pub(crate) mod wr_template;

/// Owner of the module's objects in the kernel's resource tracking (`rdma resource show`).
const OWNER: &kernel::str::CStr = c"kofi";
