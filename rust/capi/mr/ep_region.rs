// SPDX-License-Identifier: GPL-2.0

//! Regions of domains with FI_MR_ENDPOINT, for C callers. Every call is legal in any context; the consumer
//! serializes the calls of a region.

use crate::{
    abi::errno::into_int,
    capi::{
        ep::EndpointObject,
        prelude::*, //
    },
    fi::{
        domain::Domain,
        mr::{
            ep_region::{
                EpRegion,
                RegionMemory, //
            },
            Access, //
        },
    },
};

// SAFETY: A region is `repr(C)` and begins with its `fid`. No other type has this table of calls.
unsafe impl Object for EpRegion {
    const CLASS: u32 = FI_CLASS_MR;

    fn has_class(class: usize) -> bool {
        class == FI_CLASS_MR as usize
    }

    fn ops() -> &'static fi_ops {
        &OPS
    }
}

const _: () = assert!(mem::offset_of!(EpRegion, fid) == 0);

fi_ops! {
    static OPS: fi_ops {
        bind: fn fi_mr_bind(mr: *mut fid, other, flags) -> Result {
            // SAFETY: `mr` is a region, and no other call of it runs.
            let region = unsafe { region_mut(mr)? };
            ensure(flags & !FI_COMPLETION == 0, Errno::EBADFLAGS)?;
            // SAFETY: `other` is NULL or valid.
            let ep = unsafe { from_fid::<EndpointObject>(other)? };
            region.bind(&ep.endpoint, flags & FI_COMPLETION != 0)
        }

        control: fn fi_mr_enable(mr: *mut fid, command, _arg) -> Result {
            // SAFETY: As for `fi_mr_bind()`.
            let region = unsafe { region_mut(mr)? };
            match command as u32 {
                FI_ENABLE => region.enable(),
                _ => Err(Errno::ENOSYS),
            }
        }
    }
    with { close: fi_close_region, }
}

/// Returns the region that a `fid` is the beginning of.
///
/// # Errors
///
/// -FI_EINVAL for another object.
///
/// # Safety
///
/// `mr` is NULL or valid for `'a`, and no other call of the region runs.
unsafe fn region_mut<'a>(mr: *mut fid) -> Result<&'a mut EpRegion> {
    // SAFETY: By this function's safety requirement.
    unsafe {
        let _: &EpRegion = from_fid(mr)?;
        Ok(&mut *mr.cast())
    }
}

/// Closes a region.
///
/// # Safety
///
/// The contract of `fi_close()` in `rdma/fabric.h`; no other call of the region runs.
unsafe extern "C" fn fi_close_region(mr: *mut fid) -> c_int {
    // SAFETY: By this function's safety requirement.
    into_int(unsafe { region_mut(mr) }.and_then(|region| {
        // SAFETY: Every region of a consumer came from `into_raw` below, and fi_close() ends its use.
        let region = unsafe { ListBox::from_raw(NonNull::from(region)) };
        EpRegion::close(region).map_err(|refused| {
            // The consumer keeps the region.
            let _ = refused.region.into_raw();
            refused.errno
        })
    }))
}

/// Maps memory for a region that an endpoint will register. Any context.
///
/// # Errors
///
/// -FI_EINVAL for a NULL `out`, and the errors of [`EpRegion::map`].
///
/// # Safety
///
/// `out` is NULL or valid, and the memory stays valid until the region is closed.
pub(super) unsafe fn open(
    domain: &Arc<Domain>,
    memory: RegionMemory<'_>,
    access: Access,
    out: *mut *mut fid_mr,
    context: *mut c_void,
) -> Result {
    // SAFETY: By this function's safety requirement.
    let out = unsafe { out.as_mut() }.ok_or(Errno::EINVAL)?;
    let mut region = EpRegion::map(domain, memory, access)?;
    region.fid.fid = new_fid::<EpRegion>(context);
    region.fid.mem_desc = ptr::null_mut();
    *out = region.into_raw().as_ptr().cast();
    Ok(())
}
