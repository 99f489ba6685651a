// SPDX-License-Identifier: GPL-2.0

//! Connection management for C callers: the tables of `fid_ep.cm` and `fid_pep.cm`.

use super::{
    ep::EndpointObject,
    nosys,
    object::{
        address,
        address_unbounded,
        byte_slice,
        copy_out,
        from_fid, //
    },
    offload,
    pep::ListenerObject,
    strings::copy_truncated, //
};
use crate::{
    abi::{
        self,
        addr::with_bytes,
        errno::into_int,
        fi_ops_cm,
        fid,
        fid_ep,
        fid_pep,
        Errno,
        Result,
        FI_ADDR_STR, //
    },
    util::context, //
};
use core::{
    net::SocketAddr,
    ptr, //
};
use kernel::prelude::*;

pub(super) static ACTIVE_OPS: fi_ops_cm = fi_ops_cm {
    setname: Some(active_setname),
    getname: Some(active_getname),
    getpeer: Some(getpeer),
    connect: Some(connect),
    accept: Some(accept),
    shutdown: Some(shutdown),
    join: Some(offload::join),
    ..nosys::CM
};

pub(super) static PASSIVE_OPS: fi_ops_cm = fi_ops_cm {
    setname: Some(passive_setname),
    getname: Some(passive_getname),
    listen: Some(listen),
    reject: Some(reject),
    ..nosys::CM
};

unsafe extern "C" fn active_setname(fid: *mut fid, addr: *mut c_void, len: usize) -> c_int {
    // SAFETY: By the contract of `fi_setname()`.
    into_int(unsafe {
        context::in_process().and_then(|_| {
            from_fid::<EndpointObject>(fid).and_then(|object| {
                let addr = address(object.addr_format(), addr, len)?;
                object.endpoint().core().set_name(addr)
            })
        })
    })
}

unsafe extern "C" fn passive_setname(fid: *mut fid, addr: *mut c_void, len: usize) -> c_int {
    // SAFETY: By the contract of `fi_setname()`.
    into_int(unsafe {
        context::in_process().and_then(|_| {
            from_fid::<ListenerObject>(fid).and_then(|object| {
                let addr = address(object.addr_format(), addr, len)?;
                object.listener().core().set_name(addr)
            })
        })
    })
}

/// Copies an address of this format to the caller's buffer, truncated if it does not fit (a string stays
/// terminated), and writes its full length to `*len`.
///
/// # Errors
///
/// -FI_ETOOSMALL if it was truncated, -FI_EINVAL for a NULL buffer with a length above 0.
///
/// # Safety
///
/// The requirements of [`copy_out`].
pub(super) unsafe fn copy_address(
    format: u32,
    address: SocketAddr,
    to: *mut c_void,
    len: *mut usize,
) -> Result {
    // SAFETY: By the contract of `copy_out`.
    with_bytes(format, &address, |bytes| unsafe {
        match format {
            FI_ADDR_STR => copy_truncated(bytes, to.cast(), len),
            _ => copy_out(bytes, to, len),
        }
    })
}

unsafe extern "C" fn active_getname(fid: *mut fid, addr: *mut c_void, len: *mut usize) -> c_int {
    // SAFETY: By the contract of `fi_getname()`.
    into_int(unsafe {
        context::in_process().and_then(|_| {
            from_fid::<EndpointObject>(fid).and_then(|object| {
                let known = object.endpoint().core().name()?;
                copy_address(object.addr_format(), known, addr, len)
            })
        })
    })
}

unsafe extern "C" fn passive_getname(fid: *mut fid, addr: *mut c_void, len: *mut usize) -> c_int {
    // SAFETY: By the contract of `fi_getname()`.
    into_int(unsafe {
        context::in_process().and_then(|_| {
            from_fid::<ListenerObject>(fid).and_then(|object| {
                let known = object.listener().core().name()?;
                copy_address(object.addr_format(), known, addr, len)
            })
        })
    })
}

unsafe extern "C" fn getpeer(ep: *mut fid_ep, addr: *mut c_void, len: *mut usize) -> c_int {
    // SAFETY: By the contract of `fi_getpeer()`.
    into_int(unsafe {
        context::in_process().and_then(|_| {
            from_fid::<EndpointObject>(ep.cast()).and_then(|object| {
                let known = object.endpoint().core().peer()?;
                copy_address(object.addr_format(), known, addr, len)
            })
        })
    })
}

unsafe extern "C" fn connect(
    ep: *mut fid_ep,
    addr: *const c_void,
    param: *const c_void,
    param_len: usize,
) -> c_int {
    // SAFETY: By the contract of `fi_connect()`.
    into_int(unsafe {
        from_fid::<EndpointObject>(ep.cast()).and_then(|object| {
            context::in_process()?;
            let to = address_unbounded(object.addr_format(), addr)?;
            object.endpoint().connect(to, byte_slice(param, param_len)?)
        })
    })
}

unsafe extern "C" fn accept(ep: *mut fid_ep, param: *const c_void, param_len: usize) -> c_int {
    // SAFETY: By the contract of `fi_accept()`.
    into_int(unsafe {
        from_fid::<EndpointObject>(ep.cast()).and_then(|object| {
            context::in_process()?;
            object.endpoint().accept(byte_slice(param, param_len)?)
        })
    })
}

unsafe extern "C" fn shutdown(ep: *mut fid_ep, flags: u64) -> c_int {
    // SAFETY: By the contract of `fi_shutdown()`.
    into_int(unsafe {
        from_fid::<EndpointObject>(ep.cast())
            .and_then(|object| object.endpoint().core().shutdown(flags))
    })
}

unsafe extern "C" fn listen(pep: *mut fid_pep) -> c_int {
    // SAFETY: By the contract of `fi_listen()`.
    into_int(unsafe {
        from_fid::<ListenerObject>(pep.cast()).and_then(|object| {
            context::in_process()?;
            object.listener().listen()
        })
    })
}

unsafe extern "C" fn reject(
    pep: *mut fid_pep,
    handle: *mut fid,
    param: *const c_void,
    param_len: usize,
) -> c_int {
    // SAFETY: By the contract of `fi_reject()`; the handle is only looked up, never dereferenced.
    into_int(unsafe {
        from_fid::<ListenerObject>(pep.cast()).and_then(|object| {
            let data = byte_slice(param, param_len)?;
            object.listener().core().reject(handle as usize, data)
        })
    })
}

/// Implements `fi_getopt()` of numeric options, whose values `option` returns.
///
/// # Errors
///
/// -FI_ENOPROTOOPT for an unknown option, -FI_EINVAL for a NULL `len`, -FI_ETOOSMALL for a NULL or short
/// buffer.
///
/// # Safety
///
/// `len` is NULL or valid; `value` is NULL or valid for `*len` bytes.
pub(super) unsafe fn getopt(
    option: impl FnOnce(u32) -> Option<usize>,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut usize,
) -> Result {
    let known = match level == abi::FI_OPT_ENDPOINT as c_int {
        true => option(name as u32),
        false => None,
    };
    let found = known.ok_or(Errno::ENOPROTOOPT)?;
    // SAFETY: By the caller's contract, `len` is NULL or valid.
    let len = unsafe { len.as_mut() }.ok_or(Errno::EINVAL)?;
    if value.is_null() || *len < size_of::<usize>() {
        *len = size_of::<usize>();
        return Err(Errno::ETOOSMALL);
    }
    *len = size_of::<usize>();
    // SAFETY: `value` has room for a `usize`.
    unsafe { ptr::write_unaligned(value.cast::<usize>(), found) };
    Ok(())
}
