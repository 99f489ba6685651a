// SPDX-License-Identifier: GPL-2.0

//! Connection management for C callers: the tables of `fid_ep.cm` and `fid_pep.cm`.

use super::{
    ep::EndpointObject,
    object::{
        address,
        address_unbounded,
        byte_slice,
        copy_out,
        Object, //
    },
    offload,
    ops::{
        fi_ops,
        InProcess, //
    },
    pep::ListenerObject,
    strings::copy_truncated, //
};
use crate::{
    abi::{
        addr::with_bytes,
        fi_ops_cm,
        fid_pep,
        FI_ADDR_STR, //
    },
    fi::prelude::*,
    util::context, //
};

fi_ops! {
    pub(super) static ACTIVE_OPS: fi_ops_cm {
        getpeer: fn fi_getpeer(
            ep: *mut fid_ep as InProcess<&EndpointObject>,
            addr: *mut c_void,
            len: *mut usize,
        ) -> Result {
            let peer = ep.endpoint().core().peer()?;
            // SAFETY: `len` is NULL or valid, `addr` is NULL or valid for `*len` bytes.
            unsafe { copy_address(ep.addr_format(), peer, addr, len) }
        }

        connect: fn fi_connect(
            ep: *mut fid_ep as &EndpointObject,
            addr: *const c_void,
            param: *const c_void,
            param_len: usize,
        ) -> Result {
            context::in_process()?;
            // SAFETY: `addr` is NULL or an address of the endpoint's format.
            let to = unsafe { address_unbounded(ep.addr_format(), addr)? };
            // SAFETY: `param` is NULL or valid for `param_len` bytes.
            ep.endpoint()
                .connect(to, unsafe { byte_slice(param, param_len)? })
        }

        accept: fn fi_accept(
            ep: *mut fid_ep as &EndpointObject,
            param: *const c_void,
            param_len: usize,
        ) -> Result {
            context::in_process()?;
            // SAFETY: `param` is NULL or valid for `param_len` bytes.
            ep.endpoint()
                .accept(unsafe { byte_slice(param, param_len)? })
        }

        shutdown: fn fi_shutdown(ep: *mut fid_ep as &EndpointObject, flags: u64) -> Result {
            ep.endpoint().core().shutdown(flags)
        }
    }
    with {
        setname: Some(fi_setname::<EndpointObject>),
        getname: Some(fi_getname::<EndpointObject>),
        join: Some(offload::fi_join),
    }
}

fi_ops! {
    pub(super) static PASSIVE_OPS: fi_ops_cm {
        listen: fn fi_listen(pep: *mut fid_pep as &ListenerObject) -> Result {
            context::in_process()?;
            pep.listener().listen()
        }

        reject: fn fi_reject(
            pep: *mut fid_pep as &ListenerObject,
            handle: *mut fid,
            param: *const c_void,
            param_len: usize,
        ) -> Result {
            // SAFETY: `param` is NULL or valid for `param_len` bytes.
            let data = unsafe { byte_slice(param, param_len)? };
            // The handle is only looked up, never dereferenced.
            pep.listener().core().reject(handle as usize, data)
        }
    }
    with {
        setname: Some(fi_setname::<ListenerObject>),
        getname: Some(fi_getname::<ListenerObject>),
    }
}

/// An object with a local address.
pub(super) trait NamedObject: Object {
    /// Returns the format of the addresses that the object's calls take and return.
    fn addr_format(&self) -> u32;

    /// Sets the address.
    fn set_name(&self, addr: SocketAddr) -> Result;

    /// Returns the address.
    fn name(&self) -> Result<SocketAddr>;
}

fi_ops! {
    pub(super) fn fi_setname<T: NamedObject>(
        object: *mut fid as InProcess<&T>,
        addr: *mut c_void,
        len: usize,
    ) -> Result {
        // SAFETY: `addr` is NULL or valid for `len` bytes.
        object.set_name(unsafe { address(object.addr_format(), addr, len)? })
    }

    pub(super) fn fi_getname<T: NamedObject>(
        object: *mut fid as InProcess<&T>,
        addr: *mut c_void,
        len: *mut usize,
    ) -> Result {
        let name = object.name()?;
        // SAFETY: `len` is NULL or valid, `addr` is NULL or valid for `*len` bytes.
        unsafe { copy_address(object.addr_format(), name, addr, len) }
    }
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
