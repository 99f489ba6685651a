// SPDX-License-Identifier: GPL-2.0

//! Memory regions for C callers.

mod ep_region;

use super::{
    domain::DomainObject,
    ep::EndpointObject,
    prelude::*,
    xfer_args, //
};
use crate::{
    fi::{
        domain::Domain,
        eq::Source,
        mr::{
            ep_region::RegionMemory,
            Access,
            MemoryRegion, //
        },
    },
    util::noio::NoIo,
};

/// A memory region, as C callers hold it.
#[repr(C)]
struct RegionObject {
    fid: fid_mr,
    /// Domain of the region, if the registration was reported as an event.
    event_domain: Option<Arc<Domain>>,
    /// True in a domain with FI_MR_ENDPOINT, whose consumers bind and enable each region.
    is_ep_mode: bool,
    _mr: Arc<MemoryRegion>,
}

fi_ops! {
    impl Object for RegionObject: FI_CLASS_MR {
        bind: fn fi_mr_bind(mr: &RegionObject, other, flags) -> Result {
            ensure(mr.is_ep_mode, Errno::ENOSYS)?;
            ensure(flags & !FI_COMPLETION == 0, Errno::EBADFLAGS)?;
            // SAFETY: `other` is NULL or valid.
            let _: &EndpointObject = unsafe { from_fid(other)? };
            Ok(())
        }

        control: fn fi_mr_enable(mr: &RegionObject, command, _arg) -> Result {
            ensure(mr.is_ep_mode && command as u32 == FI_ENABLE, Errno::ENOSYS)
        }
    }
    close(mr) {
        if let Some(domain) = &mr.event_domain {
            domain.drop_events(Source(ptr::from_ref(mr).expose_provenance()));
        }
        Ok(())
    }
}

/// Access of peers.
const REMOTE: u64 = FI_REMOTE_READ | FI_REMOTE_WRITE;

/// Registers `memory`, or maps it for a region that an endpoint will register. As in libfabric, `offset` must be
/// 0.
///
/// # Safety
///
/// `domain` and `out` are NULL or valid, and the memory stays valid until the region is closed.
unsafe fn register(
    domain: *mut fid,
    memory: RegionMemory<'_>,
    access: u64,
    offset: u64,
    out: *mut *mut fid_mr,
    context: *mut c_void,
) -> Result {
    // SAFETY: By the caller's contract, `domain` is NULL or valid.
    if let Ok(object) = unsafe { from_fid::<DomainObject>(domain) } {
        if object.domain.has_ep_regions() && access & REMOTE != 0 {
            ensure(offset == 0, Errno::EINVAL)?;
            let access = Access::from_bits(access)?;
            // SAFETY: By the caller's contract.
            return unsafe { ep_region::open(&object.domain, memory, access, out, context) };
        }
    }
    // SAFETY: As above.
    let object = unsafe { InProcess::<&DomainObject>::from_fid(domain)? };
    let _scope = NoIo::enter();
    ensure(!out.is_null() && offset == 0, Errno::EINVAL)?;
    let RegionMemory::Kernel(memory) = memory else {
        // The memory has no address for a descriptor, and kOFI would unmap it.
        return Err(Errno::EOPNOTSUPP);
    };
    let converted;
    let memory = match memory {
        Memory::Segments(segments) => segments,
        _ => {
            converted = memory.to_segments()?;
            converted.as_slice()
        }
    };
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
        is_ep_mode: domain.is_ep_mode(),
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
            let memory = RegionMemory::Kernel(Memory::Segments(slice::from_ref(&segment)));
            ensure(flags == 0, Errno::EBADFLAGS)?;
            // SAFETY: As above; `domain` and `out` are NULL or valid.
            unsafe { register(domain, memory, access, offset, out, context) }
        }

        regv: fn fi_mr_regv(
            domain: *mut fid, iov, count, access, offset, _requested_key, flags, out, context,
        ) -> Result {
            // SAFETY: `iov` has `count` entries, whose memory stays valid until the region is closed.
            let memory = unsafe { Segment::from_vector(iov, count)? };
            let memory = RegionMemory::Kernel(Memory::Segments(memory));
            ensure(flags == 0, Errno::EBADFLAGS)?;
            // SAFETY: As above; `domain` and `out` are NULL or valid.
            unsafe { register(domain, memory, access, offset, out, context) }
        }

        regattr: fn fi_mr_regattr(domain: *mut fid, attr, flags, out) -> Result {
            // SAFETY: `attr` is NULL or valid.
            let attr = unsafe { attr.as_ref() }.ok_or(Errno::EINVAL)?;
            if attr.iface != abi::FI_HMEM_SYSTEM {
                // No provider supports accelerator memory (FI_HMEM).
                return Err(Errno::ENOSYS);
            }
            // SAFETY: `mr_iov` has `iov_count` entries of the form that the flags name, whose memory stays valid
            // until the region is closed.
            let memory = unsafe { xfer_args::region_memory(attr.mr_iov, attr.iov_count, flags)? };
            let (access, offset, context) = (attr.access, attr.offset, attr.context);
            // SAFETY: As above; `domain` and `out` are NULL or valid.
            unsafe { register(domain, memory, access, offset, out, context) }
        }
    }
}
