// SPDX-License-Identifier: GPL-2.0

//! Memory regions for C callers.

use super::{
    domain::DomainObject,
    prelude::*, //
};
use crate::fi::{
    domain::Domain,
    eq::Source,
    mr::{
        Access,
        MemoryRegion, //
    },
};

/// A memory region, as C callers hold it.
#[repr(C)]
struct RegionObject {
    fid: fid_mr,
    /// Domain of the region, if the registration was reported as an event.
    event_domain: Option<Arc<Domain>>,
    _mr: Arc<MemoryRegion>,
}

fi_ops! {
    impl Object for RegionObject: FI_CLASS_MR {}
    close(mr) {
        if let Some(domain) = &mr.event_domain {
            domain.drop_events(Source(ptr::from_ref(mr).expose_provenance()));
        }
        Ok(())
    }
}

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
    // SAFETY: By the caller's contract, `domain` is NULL or valid.
    let object = unsafe { InProcess::<&DomainObject>::from_fid(domain)? };
    ensure(!out.is_null() && offset == 0, Errno::EINVAL)?;
    ensure(flags == 0, Errno::EBADFLAGS)?;
    // SAFETY: By the caller's contract, `out` is valid.
    let slot = unsafe { Opening::new(out)? };
    let source = Source(slot.address());
    let domain = &object.domain;
    let notice = domain.reserve_mr_event(source)?;
    let region = domain.register(memory, Access::from_bits(access)?)?;
    slot.open(RegionObject {
        fid: fid_mr {
            fid: new_fid::<RegionObject>(context),
            mem_desc: region.descriptor().as_ptr(),
            key: region.key(),
            iova: region.base(),
        },
        event_domain: notice.is_some().then(|| domain.clone()),
        _mr: region,
    })?;
    // The event follows `*out`, so that its reader finds the region there.
    if let Some(notice) = notice {
        notice.write();
    }
    Ok(())
}

fi_ops! {
    pub(super) static OPS: fi_ops_mr {
        reg: fn fi_mr_reg(
            domain: *mut fid, buf, len, access, offset, _requested_key, flags, out, context,
        ) -> Result {
            // SAFETY: The memory stays valid until the region is closed.
            let segment = unsafe { Segment::new(buf.cast_mut(), len) };
            let memory = slice::from_ref(&segment);
            // SAFETY: As above; `domain` and `out` are NULL or valid.
            unsafe { register(domain, memory, access, offset, flags, out, context) }
        }

        regv: fn fi_mr_regv(
            domain: *mut fid, iov, count, access, offset, _requested_key, flags, out, context,
        ) -> Result {
            // SAFETY: `iov` has `count` entries, whose memory stays valid until the region is closed.
            let memory = unsafe { Segment::from_vector(iov, count)? };
            // SAFETY: As above; `domain` and `out` are NULL or valid.
            unsafe { register(domain, memory, access, offset, flags, out, context) }
        }

        regattr: fn fi_mr_regattr(domain: *mut fid, attr, flags, out) -> Result {
            // SAFETY: `attr` is NULL or valid.
            let attr = unsafe { attr.as_ref() }.ok_or(Errno::EINVAL)?;
            if attr.iface != abi::FI_HMEM_SYSTEM {
                // No provider supports accelerator memory (FI_HMEM).
                return Err(Errno::ENOSYS);
            }
            // SAFETY: `mr_iov` has `iov_count` entries, whose memory stays valid until the region is closed.
            let memory = unsafe { Segment::from_vector(attr.mr_iov, attr.iov_count)? };
            let (access, offset, context) = (attr.access, attr.offset, attr.context);
            // SAFETY: As above; `domain` and `out` are NULL or valid.
            unsafe { register(domain, memory, access, offset, flags, out, context) }
        }
    }
}
