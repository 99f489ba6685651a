// SPDX-License-Identifier: GPL-2.0

//! Tables of calls for a provider's own types, by which C callers reach its data path with one indirect call.

use super::{
    atomic,
    cq,
    msg,
    prelude::*,
    rma,
    srx,
    tagged, //
};
use crate::fi::{
    cq::Format,
    provider::{
        self,
        Provider, //
    },
};
use core::any::Any;

/// The types of a provider's data path.
pub(crate) trait ProviderTypes {
    /// Type of every endpoint of the provider's domains.
    type Endpoint: provider::Endpoint;
    /// Type of every completion queue of the provider's domains.
    type CompletionQueue: provider::CompletionQueue;
    /// Type of every shared receive context of the provider's domains.
    type SharedReceive: provider::SharedReceive;
}

/// A provider and its tables of calls for the C API.
pub(crate) struct ProviderOps {
    pub(super) provider: &'static dyn Provider,
    pub(super) msg: &'static fi_ops_msg,
    pub(super) rma: &'static fi_ops_rma,
    pub(super) tagged: &'static fi_ops_tagged,
    pub(super) atomic: &'static fi_ops_atomic,
    pub(super) srx_msg: &'static fi_ops_msg,
    pub(super) srx_tagged: &'static fi_ops_tagged,
    pub(super) cq: fn(Format, bool) -> &'static fi_ops_cq,
    /// Returns the address of an endpoint as the provider's own type; -FI_EINVAL for another type.
    pub(super) ep_addr: fn(&dyn Any) -> Result<*const c_void>,
    /// Returns the address of a completion queue as the provider's own type; -FI_EINVAL for another type.
    pub(super) cq_addr: fn(&dyn Any) -> Result<*const c_void>,
    /// Returns the address of a shared receive context as the provider's own type; -FI_EINVAL for another
    /// type.
    pub(super) srx_addr: fn(&dyn Any) -> Result<*const c_void>,
}

impl ProviderOps {
    /// Makes the tables of a provider whose types are those of `F`.
    pub(crate) const fn new<F: ProviderTypes>(provider: &'static dyn Provider) -> Self {
        Self {
            provider,
            msg: &msg::Table::<F::Endpoint>::OPS,
            rma: &rma::Table::<F::Endpoint>::OPS,
            tagged: &tagged::Table::<F::Endpoint>::OPS,
            atomic: &atomic::Table::<F::Endpoint>::OPS,
            srx_msg: &srx::Table::<F::SharedReceive>::OPS,
            srx_tagged: &srx::Table::<F::SharedReceive>::TAGGED_OPS,
            cq: cq::ops::<cq::OwnCq<F::CompletionQueue>>,
            ep_addr: addr_as::<F::Endpoint>,
            cq_addr: addr_as::<F::CompletionQueue>,
            srx_addr: addr_as::<F::SharedReceive>,
        }
    }
}

fn addr_as<T: 'static>(object: &dyn Any) -> Result<*const c_void> {
    let object = object.downcast_ref::<T>().ok_or(Errno::EINVAL)?;
    Ok(ptr::from_ref(object).cast())
}

// SAFETY: Providers are `Sync`, and the tables are constant.
unsafe impl Sync for ProviderOps {}
