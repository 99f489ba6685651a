// SPDX-License-Identifier: GPL-2.0

//! Domains for C callers.

use super::{
    atomic,
    av,
    cntr,
    cq,
    ep,
    eq,
    fabric::FabricObject,
    mr,
    nosys,
    object::{
        self,
        new_fid,
        open_info,
        Opening, //
    },
    opened::Listed,
    ops::{
        fi_ops,
        FromFid,
        InProcess, //
    },
    ops_tables::ProviderOps,
    peer,
    poll,
    sep,
    srx,
    stx, //
};
use crate::{
    abi::{
        fi_info,
        fi_ops_domain,
        fid_fabric, //
    },
    fi::{
        domain::Domain,
        eq::Source,
        prelude::*, //
    },
    util::{
        biased_lock::Threading,
        context, //
    },
};

/// A domain, as C callers hold it.
#[repr(C)]
pub(super) struct DomainObject {
    fid: fid_domain,
    domain: Arc<Domain>,
    provider_ops: &'static ProviderOps,
    _open_entry: Listed,
}

fi_ops! {
    impl Object for DomainObject: FI_CLASS_DOMAIN {
        close: fn fi_close(domain) {
            domain.domain.close()
        }

        bind: fn fi_domain_bind(
            domain: *mut fid as &DomainObject,
            other: *mut fid,
            flags: u64,
        ) -> Result {
            context::in_process()?;
            // SAFETY: `other` is NULL or valid.
            let events = unsafe { object::from_fid::<eq::QueueObject>(other)? };
            let source = Source(ptr::from_ref(domain).expose_provenance());
            domain.domain.bind_eq(events.queue(), source, flags)
        }
    }
}

impl DomainObject {
    /// Returns the Rust object.
    pub(super) fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// Returns the tables of calls for the domain's children.
    pub(super) fn provider_ops(&self) -> &'static ProviderOps {
        self.provider_ops
    }
}

static OPS: fi_ops_domain = fi_ops_domain {
    av_open: Some(av::fi_av_open),
    cq_open: Some(cq::fi_cq_open),
    cntr_open: Some(cntr::fi_cntr_open),
    poll_open: Some(poll::fi_poll_open),
    endpoint: Some(ep::fi_endpoint),
    endpoint2: Some(ep::fi_endpoint2),
    scalable_ep: Some(sep::fi_scalable_ep),
    srx_ctx: Some(srx::fi_srx_context),
    stx_ctx: Some(stx::fi_stx_context),
    query_atomic: Some(atomic::fi_query_atomic),
    ..nosys::DOMAIN
};

/// Reads the threading model that the info requests.
///
/// # Errors
///
/// -FI_EINVAL for an unknown model.
///
/// # Safety
///
/// The caller serializes its data calls as the info's threading model requires.
unsafe fn threading_from_info(info: &Info) -> Result<Threading> {
    match info.domain().map_or(0, |domain| domain.threading) {
        // SAFETY: By the caller's contract, data calls are serialized.
        abi::FI_THREAD_COMPLETION | abi::FI_THREAD_DOMAIN => Ok(unsafe { Threading::serialized() }),
        abi::FI_THREAD_UNSPEC
        | abi::FI_THREAD_SAFE
        | abi::FI_THREAD_FID
        | abi::FI_THREAD_ENDPOINT => Ok(Threading::SAFE),
        _ => Err(Errno::EINVAL),
    }
}

fi_ops! {
    pub(super) fn fi_domain(
        fabric: *mut fid_fabric as InProcess<&FabricObject>,
        info: *mut fi_info,
        out: *mut *mut fid_domain,
        context: *mut c_void,
    ) -> Result {
        // SAFETY: `info` and `out` are NULL or valid, and `info` is not shared during the call.
        let (info, slot) = unsafe { open_info(info, out)? };
        open(&fabric, info, slot, context, None)
    }

    pub(super) fn fi_domain2(
        fabric: *mut fid_fabric as *mut fid,
        info: *mut fi_info,
        out: *mut *mut fid_domain,
        flags: u64,
        context: *mut c_void,
    ) -> Result {
        let owner = match flags {
            0 => None,
            // SAFETY: With FI_PEER, `context` is NULL or a valid `struct fi_peer_domain_context`.
            abi::FI_PEER => unsafe { peer::owner_domain(context)? },
            _ => return Err(Errno::EINVAL),
        };
        // SAFETY: `fabric` is NULL or valid.
        let fabric = unsafe { InProcess::<&FabricObject>::from_fid(fabric)? };
        // SAFETY: `info` and `out` are NULL or valid, and `info` is not shared during the call.
        let (info, slot) = unsafe { open_info(info, out)? };
        open(&fabric, info, slot, context, owner)
    }
}

/// Opens a domain, for a peer of the domain `owner` if there is one.
fn open(
    fabric: &FabricObject,
    info: &Info,
    slot: Opening<DomainObject, fid_domain>,
    context: *mut c_void,
    owner: Option<&Arc<Domain>>,
) -> Result {
    // SAFETY: By the contract of `fi_domain()`, data calls are serialized as the info requires.
    let threading = unsafe { threading_from_info(info)? };
    let domain = fabric.fabric().domain_for(info, threading, owner)?;
    let scope = Some(domain.scope());
    let open_entry = Listed::new(slot.address(), fabric.owner(), fabric.fabric(), scope)?;
    slot.open(DomainObject {
        domain,
        fid: fid_domain {
            fid: new_fid::<DomainObject>(context),
            ops: ptr::from_ref(&OPS).cast_mut(),
            mr: ptr::from_ref(&mr::OPS).cast_mut(),
        },
        provider_ops: fabric.provider_ops(),
        _open_entry: open_entry,
    })
}
