// SPDX-License-Identifier: GPL-2.0

//! Domains for C callers.

use super::{
    atomic,
    av,
    cntr,
    cq,
    ep,
    eq,
    fabric::{
        opt_cstr,
        FabricObject, //
    },
    mr,
    opened::Listed,
    ops_tables::ProviderOps,
    peer,
    poll,
    prelude::*,
    sep,
    srx,
    stx, //
};
use crate::{
    abi::{
        device,
        fi_kofi_ops_device, //
    },
    fi::{
        domain::Domain,
        eq::Source,
        provider::DomainDevice, //
    },
    util::biased_lock::Threading,
};

/// A domain, as C callers hold it.
#[repr(C)]
pub(super) struct DomainObject {
    fid: fid_domain,
    pub(super) domain: Arc<Domain>,
    /// Tables of calls for the domain's children.
    pub(super) provider_ops: &'static ProviderOps,
    _open_entry: Listed,
}

fi_ops! {
    impl Object for DomainObject: FI_CLASS_DOMAIN {
        bind: fn fi_domain_bind(domain: &DomainObject, other, flags) -> Result {
            in_process()?;
            // SAFETY: `other` is NULL or valid.
            let events = unsafe { from_fid::<eq::QueueObject>(other)? };
            let source = Source(ptr::from_ref(domain).expose_provenance());
            domain.domain.bind_eq(&events.queue, source, flags)
        }

        ops_open: fn fi_open_ops(domain: &DomainObject, name, flags, ops, _context) -> Result {
            // SAFETY: `name` is NULL or a string.
            let name = unsafe { opt_cstr(name) }.ok_or(Errno::EINVAL)?;
            ensure(!ops.is_null(), Errno::EINVAL)?;
            ensure(flags == 0, Errno::EBADFLAGS)?;
            let is_device = name.to_bytes_with_nul() == abi::FI_KOFI_DEVICE_OPS;
            ensure(is_device && domain.domain.core().device().is_some(), Errno::ENOSYS)?;
            // SAFETY: `ops` is valid for writing a pointer.
            unsafe { ops.write(ptr::from_ref(&DEVICE_OPS).cast_mut().cast()) };
            Ok(())
        }
    }
    close(domain) {
        domain.domain.close()
    }
}

static DEVICE_OPS: fi_kofi_ops_device = fi_kofi_ops_device {
    size: size_of::<fi_kofi_ops_device>(),
    device: Some(ops_device),
    dma_device: Some(ops_dma_device),
    comp_vectors: Some(ops_comp_vectors),
};

/// Returns the device of a domain that has one.
///
/// # Safety
///
/// `domain` is NULL or an open domain.
unsafe fn device_of(domain: *mut fid_domain) -> Option<DomainDevice> {
    // SAFETY: By this function's safety requirement.
    let domain = unsafe { from_fid::<DomainObject>(domain.cast()) }.ok()?;
    domain.domain.core().device()
}

/// # Safety
///
/// As [`device_of`].
unsafe extern "C" fn ops_device(domain: *mut fid_domain) -> *mut device {
    // SAFETY: By this function's contract.
    let device = unsafe { device_of(domain) };
    ptr::with_exposed_provenance_mut(device.map_or(0, |it| it.device))
}

/// # Safety
///
/// As [`device_of`].
unsafe extern "C" fn ops_dma_device(domain: *mut fid_domain) -> *mut device {
    // SAFETY: By this function's contract.
    let device = unsafe { device_of(domain) };
    ptr::with_exposed_provenance_mut(device.map_or(0, |it| it.dma_device))
}

/// # Safety
///
/// As [`device_of`].
unsafe extern "C" fn ops_comp_vectors(domain: *mut fid_domain) -> u32 {
    // SAFETY: By this function's contract.
    let device = unsafe { device_of(domain) };
    device.map_or(0, |it| it.comp_vectors)
}

static OPS: fi_ops_domain = fi_ops_domain {
    av_open: av::DOMAIN_OPS.av_open,
    cq_open: cq::DOMAIN_OPS.cq_open,
    cntr_open: cntr::DOMAIN_OPS.cntr_open,
    poll_open: poll::DOMAIN_OPS.poll_open,
    scalable_ep: sep::DOMAIN_OPS.scalable_ep,
    srx_ctx: srx::DOMAIN_OPS.srx_ctx,
    stx_ctx: stx::DOMAIN_OPS.stx_ctx,
    query_atomic: atomic::DOMAIN_OPS.query_atomic,
    ..ep::DOMAIN_OPS
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
        | abi::FI_THREAD_ENDPOINT => Ok(Threading::THREAD_SAFE),
        _ => Err(Errno::EINVAL),
    }
}

fi_ops! {
    /// `fi_domain()` and `fi_domain2()`.
    pub(super) const FABRIC_OPS: fi_ops_fabric {
        domain: fn fi_domain(fabric: InProcess<&FabricObject>, info, out, context) -> Result {
            // SAFETY: `info` and `out` are NULL or valid, and `info` is not shared during the call.
            let (info, slot) = unsafe { open_info(info, out)? };
            open(&fabric, info, slot, context, None)
        }

        domain2: fn fi_domain2(fabric: *mut fid, info, out, flags, context) -> Result {
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
    let domain = fabric.fabric.domain_for(info, threading, owner)?;
    let scope = Some(domain.scope());
    let owner = fabric.open_entry.owner();
    let open_entry = Listed::new(slot.address(), owner, &fabric.fabric, scope)?;
    slot.open(DomainObject {
        domain,
        fid: fid_domain {
            fid: new_fid::<DomainObject>(context),
            ops: ptr::from_ref(&OPS).cast_mut(),
            mr: ptr::from_ref(&mr::OPS).cast_mut(),
        },
        provider_ops: fabric.provider_ops,
        _open_entry: open_entry,
    })
}
