// SPDX-License-Identifier: GPL-2.0

//! Scalable endpoints for C callers. Their contexts are endpoints ([`super::ep`]).

use super::{
    av,
    cm,
    domain::DomainObject,
    ep,
    nosys,
    object::{
        self,
        new_fid,
        Object,
        UninitObject, //
    },
    ops_tables::ProviderOps, //
};
use crate::{
    abi::{
        self,
        errno::into_int,
        fi_info,
        fi_ops,
        fi_ops_cm,
        fi_ops_ep,
        fi_rx_attr,
        fi_tx_attr,
        fid,
        fid_domain,
        fid_ep,
        info::Info,
        Errno,
        Result, //
    },
    fi::{
        eq::Source,
        sep::{
            OpenContext,
            ScalableEndpoint, //
        },
    },
    util::context, //
};
use core::ptr;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A scalable endpoint, as C callers hold it.
#[repr(C)]
pub(super) struct ScalableObject {
    fid: fid_ep,
    endpoint: Arc<ScalableEndpoint>,
    addr_format: u32,
    /// Tables of calls for its contexts.
    provider_ops: &'static ProviderOps,
}

// SAFETY: `#[repr(C)]`, begins with a `fid_ep`, and is the only type with this table.
unsafe impl Object for ScalableObject {
    const CLASS: u32 = abi::FI_CLASS_SEP;

    fn ops() -> &'static fi_ops {
        static OPS: fi_ops = object::fid_ops(close, Some(bind), Some(control));
        &OPS
    }
}

static OPS: fi_ops_ep = fi_ops_ep {
    getopt: Some(getopt),
    setopt: Some(setopt),
    tx_ctx: Some(tx_ctx),
    rx_ctx: Some(rx_ctx),
    ..nosys::EP
};

static CM_OPS: fi_ops_cm = fi_ops_cm {
    setname: Some(setname),
    getname: Some(getname),
    ..nosys::CM
};

/// Implements `fi_scalable_ep()`.
pub(super) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    info: *mut fi_info,
    out: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: By the contract of `fi_scalable_ep()`, arguments are valid or NULL.
    into_int(unsafe {
        object::open_child(
            domain.cast(),
            info,
            out,
            |_ctx, domain: &DomainObject, info, slot| try_open(domain, info, slot, context),
        )
    })
}

fn try_open(
    domain: &DomainObject,
    info: &Info,
    slot: UninitObject<ScalableObject>,
    context: *mut c_void,
) -> Result<*mut ScalableObject> {
    Ok(slot.init(ScalableObject {
        // Transfers are posted to the contexts, not to the scalable endpoint.
        fid: fid_ep {
            ops: ptr::from_ref(&OPS).cast_mut(),
            cm: ptr::from_ref(&CM_OPS).cast_mut(),
            ..nosys::endpoint(new_fid::<ScalableObject>(context))
        },
        endpoint: domain.domain().scalable_endpoint(info)?,
        addr_format: info.addr_format(),
        provider_ops: domain.provider_ops(),
    }))
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: By the contract of `fi_close()`.
    into_int(unsafe { object::close::<ScalableObject>(fid, |object| object.endpoint.close()) })
}

unsafe extern "C" fn bind(fid: *mut fid, other: *mut fid, flags: u64) -> c_int {
    // SAFETY: By the contract of `fi_scalable_ep_bind()`.
    into_int(unsafe {
        object::from_fid::<ScalableObject>(fid).and_then(|object| {
            context::in_process()?;
            let av = object::from_fid::<av::AvObject>(other)?;
            object.endpoint.bind_av(av.av(), flags)
        })
    })
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, _arg: *mut c_void) -> c_int {
    // SAFETY: By the contract of `fi_control()`.
    into_int(unsafe {
        object::from_fid::<ScalableObject>(fid).and_then(|object| match u32::try_from(command) {
            Ok(abi::FI_ENABLE) => {
                context::in_process()?;
                object.endpoint.enable()
            }
            _ => Err(Errno::ENOSYS),
        })
    })
}

unsafe extern "C" fn setname(fid: *mut fid, addr: *mut c_void, len: usize) -> c_int {
    // SAFETY: By the contract of `fi_setname()`.
    into_int(unsafe {
        context::in_process().and_then(|_| {
            object::from_fid::<ScalableObject>(fid).and_then(|object| {
                let addr = object::address(object.addr_format, addr, len)?;
                object.endpoint.core().set_name(addr)
            })
        })
    })
}

unsafe extern "C" fn getname(fid: *mut fid, addr: *mut c_void, len: *mut usize) -> c_int {
    // SAFETY: By the contract of `fi_getname()`.
    into_int(unsafe {
        context::in_process().and_then(|_| {
            object::from_fid::<ScalableObject>(fid).and_then(|object| {
                let known = object.endpoint.core().name()?;
                cm::copy_address(object.addr_format, known, addr, len)
            })
        })
    })
}

unsafe extern "C" fn getopt(
    fid: *mut fid,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut usize,
) -> c_int {
    // SAFETY: By the contract of `fi_getopt()`.
    into_int(unsafe {
        object::from_fid::<ScalableObject>(fid).and_then(|object| {
            let core = object.endpoint.core();
            let option = |name| ep::ep_option(name).and_then(|option| core.getopt(option).ok());
            cm::getopt(option, level, name, value, len)
        })
    })
}

unsafe extern "C" fn setopt(
    fid: *mut fid,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: usize,
) -> c_int {
    // SAFETY: By the contract of `fi_setopt()`.
    into_int(unsafe {
        object::from_fid::<ScalableObject>(fid).and_then(|object| {
            let (option, value) = ep::read_option(level, name, value, len)?;
            object.endpoint.core().setopt(option, value)
        })
    })
}

/// Opens a context, and makes its object `T` for a C caller.
///
/// # Safety
///
/// `sep` and `out` are NULL or valid.
unsafe fn open_context<T: ep::ContextObject>(
    sep: *mut fid_ep,
    index: c_int,
    out: *mut *mut fid_ep,
    context: *mut c_void,
    open: impl FnOnce(&Arc<ScalableEndpoint>, usize, Source) -> Result<OpenContext>,
) -> Result {
    context::in_process()?;
    // SAFETY: By the caller's contract, `sep` is NULL or valid.
    let object = unsafe { object::from_fid::<ScalableObject>(sep.cast())? };
    let index = usize::try_from(index).map_err(|_| Errno::EINVAL)?;
    if out.is_null() {
        return Err(Errno::EINVAL);
    }
    let slot = UninitObject::<T>::new()?;
    let OpenContext { endpoint, info } = open(&object.endpoint, index, Source(slot.address()))?;
    let made = T::from_endpoint(ep::make_object::<T>(
        object.provider_ops,
        endpoint,
        &info,
        context,
    )?);
    // SAFETY: `out` is not NULL, and valid by the caller's contract.
    unsafe { object::write_out(out, slot.init(made)) };
    Ok(())
}

unsafe extern "C" fn tx_ctx(
    sep: *mut fid_ep,
    index: c_int,
    attr: *mut fi_tx_attr,
    out: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: By the contract of `fi_tx_context()`, the attributes are not accessed by others during the
    // call.
    into_int(unsafe {
        open_context::<ep::TransmitObject>(sep, index, out, context, |endpoint, index, source| {
            let attr = attr.as_mut();
            let flags = attr.as_ref().map_or(0, |attr| attr.op_flags);
            ep::check_op_flags(flags, abi::FI_INJECT)?;
            endpoint.transmit_context(index, attr, source)
        })
    })
}

unsafe extern "C" fn rx_ctx(
    sep: *mut fid_ep,
    index: c_int,
    attr: *mut fi_rx_attr,
    out: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: By the contract of `fi_rx_context()`, the attributes are not accessed by others during the
    // call.
    into_int(unsafe {
        open_context::<ep::ReceiveObject>(sep, index, out, context, |endpoint, index, source| {
            let attr = attr.as_mut();
            let flags = attr.as_ref().map_or(0, |attr| attr.op_flags);
            ep::check_op_flags(flags, abi::FI_MULTI_RECV)?;
            endpoint.receive_context(index, attr, source)
        })
    })
}
