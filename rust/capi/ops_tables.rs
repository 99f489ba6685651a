// SPDX-License-Identifier: GPL-2.0

//! Tables of calls for a provider's own types, by which C callers reach its data path with one indirect call.

use super::{
    atomic,
    cq,
    msg,
    rma,
    srx,
    tagged, //
};
use crate::{
    abi::{
        fi_ops_atomic,
        fi_ops_cq,
        fi_ops_msg,
        fi_ops_rma,
        fi_ops_tagged, //
    },
    fi::{
        cq::Format,
        prelude::*,
        provider::{
            self,
            Provider, //
        },
    },
};

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
    ep_addr: fn(&dyn provider::Endpoint) -> Option<*const c_void>,
    cq_addr: fn(&dyn provider::CompletionQueue) -> Option<*const c_void>,
    srx_addr: fn(&dyn provider::SharedReceive) -> Option<*const c_void>,
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
            ep_addr: |endpoint| {
                let provider_ptr = endpoint.as_any().downcast_ref::<F::Endpoint>();
                provider_ptr.map(|provider_ptr| ptr::from_ref(provider_ptr).cast())
            },
            cq_addr: |queue| {
                let provider_ptr = queue.as_any().downcast_ref::<F::CompletionQueue>();
                provider_ptr.map(|provider_ptr| ptr::from_ref(provider_ptr).cast())
            },
            srx_addr: |shared| {
                let provider_ptr = shared.as_any().downcast_ref::<F::SharedReceive>();
                provider_ptr.map(|provider_ptr| ptr::from_ref(provider_ptr).cast())
            },
        }
    }

    /// Returns the address of an endpoint as the provider's own type; -FI_EINVAL for another type.
    pub(super) fn provider_ep(
        &self,
        endpoint: &Arc<dyn provider::Endpoint>,
    ) -> Result<*const c_void> {
        (self.ep_addr)(&**endpoint).ok_or(Errno::EINVAL)
    }

    /// Returns the address of a completion queue as the provider's own type; -FI_EINVAL for another type.
    pub(super) fn provider_cq(
        &self,
        queue: &Arc<dyn provider::CompletionQueue>,
    ) -> Result<*const c_void> {
        (self.cq_addr)(&**queue).ok_or(Errno::EINVAL)
    }

    /// Returns the address of a shared receive context as the provider's own type; -FI_EINVAL for another
    /// type.
    pub(super) fn provider_srx(
        &self,
        shared: &Arc<dyn provider::SharedReceive>,
    ) -> Result<*const c_void> {
        (self.srx_addr)(&**shared).ok_or(Errno::EINVAL)
    }
}

// SAFETY: Providers are `Sync`, and the tables are constant.
unsafe impl Sync for ProviderOps {}
