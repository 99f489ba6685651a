// SPDX-License-Identifier: GPL-2.0

//! How C callers reach a provider's data path with one indirect call: tables made for its types.

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
        fi_ops_tagged,
        Errno,
        Result, //
    },
    fi::{
        cq::Format,
        provider::{
            self,
            Provider, //
        },
    },
};
use core::ptr;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The types behind a provider's data path.
pub(crate) trait ProviderTypes {
    /// Every endpoint that its domains make.
    type Endpoint: provider::Endpoint;
    /// Every completion queue that they make.
    type CompletionQueue: provider::CompletionQueue;
    /// All receives to be shared that they make.
    type SharedReceive: provider::SharedReceive;
}

/// A provider as the C API sees it.
pub(crate) struct ProviderOps {
    pub(super) provider: &'static dyn Provider,
    pub(super) msg: &'static fi_ops_msg,
    pub(super) rma: &'static fi_ops_rma,
    pub(super) tagged: &'static fi_ops_tagged,
    pub(super) atomic: &'static fi_ops_atomic,
    pub(super) shared: &'static fi_ops_msg,
    pub(super) shared_tagged: &'static fi_ops_tagged,
    pub(super) cq: fn(Format, bool) -> &'static fi_ops_cq,
    endpoint: fn(&dyn provider::Endpoint) -> Option<*const c_void>,
    queue: fn(&dyn provider::CompletionQueue) -> Option<*const c_void>,
    shared_receive: fn(&dyn provider::SharedReceive) -> Option<*const c_void>,
}

impl ProviderOps {
    /// The face of the provider whose types are those of `F`.
    pub(crate) const fn new<F: ProviderTypes>(provider: &'static dyn Provider) -> Self {
        Self {
            provider,
            msg: &msg::Table::<F::Endpoint>::OPS,
            rma: &rma::Table::<F::Endpoint>::OPS,
            tagged: &tagged::Table::<F::Endpoint>::OPS,
            atomic: &atomic::Table::<F::Endpoint>::OPS,
            shared: &srx::Table::<F::SharedReceive>::OPS,
            shared_tagged: &srx::Table::<F::SharedReceive>::TAGGED,
            cq: cq::ops::<cq::OwnCq<F::CompletionQueue>>,
            endpoint: |endpoint| {
                let exact = endpoint.as_any().downcast_ref::<F::Endpoint>();
                exact.map(|exact| ptr::from_ref(exact).cast())
            },
            queue: |queue| {
                let exact = queue.as_any().downcast_ref::<F::CompletionQueue>();
                exact.map(|exact| ptr::from_ref(exact).cast())
            },
            shared_receive: |shared| {
                let exact = shared.as_any().downcast_ref::<F::SharedReceive>();
                exact.map(|exact| ptr::from_ref(exact).cast())
            },
        }
    }

    /// The address of an endpoint, which is one of the family's type.
    pub(super) fn endpoint(&self, endpoint: &Arc<dyn provider::Endpoint>) -> Result<*const c_void> {
        (self.endpoint)(&**endpoint).ok_or(Errno::EINVAL)
    }

    /// The address of a completion queue, which is one of the family's type.
    pub(super) fn queue(
        &self,
        queue: &Arc<dyn provider::CompletionQueue>,
    ) -> Result<*const c_void> {
        (self.queue)(&**queue).ok_or(Errno::EINVAL)
    }

    /// The address of receives to be shared, which are of the family's type.
    pub(super) fn shared(
        &self,
        shared: &Arc<dyn provider::SharedReceive>,
    ) -> Result<*const c_void> {
        (self.shared_receive)(&**shared).ok_or(Errno::EINVAL)
    }
}

// SAFETY: Shared providers and constant tables.
unsafe impl Sync for ProviderOps {}
