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
        Object, //
    },
    opened::Listed,
    ops_tables::ProviderOps,
    peer,
    poll,
    sep,
    srx,
    stx, //
};
use crate::{
    abi::{
        self,
        errno::into_int,
        fi_info,
        fi_ops,
        fi_ops_domain,
        fid,
        fid_domain,
        fid_fabric,
        info::Info,
        Errno,
        Result, //
    },
    fi::{
        domain::Domain,
        eq::Source, //
    },
    util::{
        biased_lock::Threading,
        context, //
    },
};
use core::ptr;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A domain, as C callers hold it.
#[repr(C)]
pub(super) struct DomainObject {
    fid: fid_domain,
    domain: Arc<Domain>,
    provider_ops: &'static ProviderOps,
    _open_entry: Listed,
}

// SAFETY: `#[repr(C)]`, begins with a `fid_domain`, and is the only type with this table.
unsafe impl Object for DomainObject {
    const CLASS: u32 = abi::FI_CLASS_DOMAIN;

    fn ops() -> &'static fi_ops {
        static OPS: fi_ops = object::fid_ops(close, Some(bind), None);
        &OPS
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
    av_open: Some(av::open),
    cq_open: Some(cq::open),
    cntr_open: Some(cntr::fi_cntr_open),
    poll_open: Some(poll::open),
    endpoint: Some(ep::open),
    endpoint2: Some(ep::open2),
    scalable_ep: Some(sep::open),
    srx_ctx: Some(srx::open),
    stx_ctx: Some(stx::open),
    query_atomic: Some(atomic::query),
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

/// Implements `fi_domain()`.
pub(super) unsafe extern "C" fn open(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    out: *mut *mut fid_domain,
    context: *mut c_void,
) -> c_int {
    // SAFETY: By the contract of `fi_domain()`.
    into_int(unsafe { try_open(fabric, info, out, context, None) })
}

/// # Safety
///
/// The contract of `fi_domain()`: arguments are valid or NULL.
unsafe fn try_open(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    out: *mut *mut fid_domain,
    context: *mut c_void,
    owner: Option<&Arc<Domain>>,
) -> Result {
    // SAFETY: By the contract of `fi_domain()`.
    unsafe {
        object::open_child(
            fabric.cast(),
            info,
            out,
            |_ctx, fabric: &FabricObject, info, slot| {
                let threading = threading_from_info(info)?;
                let domain = fabric.fabric().domain_for(info, threading, owner)?;
                let scope = Some(domain.scope());
                let open_entry =
                    Listed::new(slot.address(), fabric.owner(), fabric.fabric(), scope)?;
                Ok(slot.init(DomainObject {
                    domain,
                    fid: fid_domain {
                        fid: new_fid::<DomainObject>(context),
                        ops: ptr::from_ref(&OPS).cast_mut(),
                        mr: ptr::from_ref(&mr::OPS).cast_mut(),
                    },
                    provider_ops: fabric.provider_ops(),
                    _open_entry: open_entry,
                }))
            },
        )
    }
}

/// Implements `fi_domain2()`.
pub(super) unsafe extern "C" fn open2(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    out: *mut *mut fid_domain,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: By the contract of `fi_domain2()`.
    into_int(unsafe {
        match flags {
            0 => try_open(fabric, info, out, context, None),
            abi::FI_PEER => peer::owner_domain(context)
                .and_then(|owner| try_open(fabric, info, out, context, owner)),
            _ => Err(Errno::EINVAL),
        }
    })
}

unsafe extern "C" fn bind(fid: *mut fid, other: *mut fid, flags: u64) -> c_int {
    let source = Source(fid.expose_provenance());
    // SAFETY: By the contract of `fi_domain_bind()`.
    into_int(unsafe {
        object::from_fid::<DomainObject>(fid).and_then(|object| {
            context::in_process()?;
            let events = object::from_fid::<eq::QueueObject>(other)?;
            object.domain.bind_eq(events.queue(), source, flags)
        })
    })
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: By the contract of `fi_close()`.
    into_int(unsafe { object::close::<DomainObject>(fid, |object| object.domain.close()) })
}
