// SPDX-License-Identifier: GPL-2.0

//! Memory regions for C callers.

use super::{
    domain::DomainObject,
    object::{
        self,
        new_fid,
        write_out,
        Object,
        UninitObject, //
    },
};
use crate::{
    abi::{
        self,
        errno::into_int,
        fi_mr_attr,
        fi_ops,
        fi_ops_mr,
        fid,
        fid_mr,
        kvec,
        Errno,
        Result, //
    },
    fi::{
        domain::Domain,
        eq::Source,
        memory::Segment,
        mr::{
            Access,
            MemoryRegion, //
        },
    },
    util::context, //
};
use core::slice;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A memory region, as C callers hold it.
#[repr(C)]
struct RegionObject {
    fid: fid_mr,
    /// Domain of the region, if the registration was reported as an event.
    event_domain: Option<Arc<Domain>>,
    _mr: Arc<MemoryRegion>,
}

// SAFETY: `#[repr(C)]`, begins with a `fid_mr`, and is the only type with this table.
unsafe impl Object for RegionObject {
    const CLASS: u32 = abi::FI_CLASS_MR;

    fn ops() -> &'static fi_ops {
        static OPS: fi_ops = object::fid_ops(close, None, None);
        &OPS
    }
}

pub(super) static OPS: fi_ops_mr = fi_ops_mr {
    size: size_of::<fi_ops_mr>(),
    reg: Some(reg),
    regv: Some(regv),
    regattr: Some(regattr),
};

/// Registers `memory`. As in libfabric, `offset` must be 0.
///
/// # Safety
///
/// `domain` and `out` are NULL or valid, and the memory stays valid until the region is closed.
unsafe fn register(
    domain: *mut fid,
    memory: &[Segment],
    access: u64,
    offset: u64,
    flags: u64,
    out: *mut *mut fid_mr,
    context: *mut c_void,
) -> Result {
    context::in_process()?;
    // SAFETY: By the caller's contract, `domain` is NULL or valid.
    let domain = unsafe { object::from_fid::<DomainObject>(domain)? };
    if out.is_null() || offset != 0 {
        return Err(Errno::EINVAL);
    }
    if flags != 0 {
        return Err(Errno::EBADFLAGS);
    }
    let slot = UninitObject::new()?;
    let source = Source(slot.address());
    let domain = domain.domain();
    let notice = domain.reserve_mr_event(source)?;
    let region = domain.register(memory, Access::from_bits(access)?)?;
    let made = slot.init(RegionObject {
        fid: fid_mr {
            fid: new_fid::<RegionObject>(context),
            mem_desc: region.descriptor().as_ptr(),
            key: region.key(),
        },
        event_domain: notice.is_some().then(|| domain.clone()),
        _mr: region,
    });
    // SAFETY: `out` is not NULL, and valid by the caller's contract.
    unsafe { write_out(out, made) };
    // The event follows `*out`, so that its reader finds the region there.
    if let Some(notice) = notice {
        notice.write();
    }
    Ok(())
}

unsafe extern "C" fn reg(
    domain: *mut fid,
    buf: *const c_void,
    len: usize,
    access: u64,
    offset: u64,
    _requested_key: u64,
    flags: u64,
    out: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: By the contract of `fi_mr_reg()`.
    into_int(unsafe {
        let segment = Segment::new(buf.cast_mut(), len);
        let memory = slice::from_ref(&segment);
        register(domain, memory, access, offset, flags, out, context)
    })
}

unsafe extern "C" fn regv(
    domain: *mut fid,
    iov: *const kvec,
    count: usize,
    access: u64,
    offset: u64,
    _requested_key: u64,
    flags: u64,
    out: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: By the contract of `fi_mr_regv()`.
    into_int(unsafe {
        Segment::from_vector(iov, count)
            .and_then(|memory| register(domain, memory, access, offset, flags, out, context))
    })
}

unsafe extern "C" fn regattr(
    domain: *mut fid,
    attr: *const fi_mr_attr,
    flags: u64,
    out: *mut *mut fid_mr,
) -> c_int {
    // SAFETY: By the contract of `fi_mr_regattr()`.
    into_int(unsafe {
        attr.as_ref().ok_or(Errno::EINVAL).and_then(|attr| {
            if attr.iface != abi::FI_HMEM_SYSTEM {
                // No provider supports accelerator memory (FI_HMEM).
                return Err(Errno::ENOSYS);
            }
            let memory = Segment::from_vector(attr.mr_iov, attr.iov_count)?;
            let (access, offset) = (attr.access, attr.offset);
            register(domain, memory, access, offset, flags, out, attr.context)
        })
    })
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: By the contract of `fi_close()`.
    into_int(unsafe {
        object::close::<RegionObject>(fid, |object| {
            if let Some(domain) = &object.event_domain {
                domain.drop_events(Source(fid.expose_provenance()));
            }
            Ok(())
        })
    })
}
