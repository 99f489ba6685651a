// SPDX-License-Identifier: GPL-2.0

//! Connection management for C callers: the table of `fid_ep.cm`, and what those of other endpoints share with it.

use super::{
    ep::EndpointObject,
    object::{
        address,
        address_unbounded,
        byte_slice,
        copy_out,
        copy_truncated, //
    },
    offload::GROUP_OPS,
    prelude::*,
};
use crate::abi::addr::with_bytes;

fi_ops! {
    pub(super) static ACTIVE_OPS: fi_ops_cm {
        setname: fn fi_setname(ep: InProcess<&EndpointObject>, addr, len) -> Result {
            // SAFETY: `addr` is NULL or valid for `len` bytes.
            let name = unsafe { address(ep.shared.addr_format, addr, len)? };
            ep.endpoint.core().set_name(name)
        }

        getname: fn fi_getname(ep: InProcess<&EndpointObject>, addr, len) -> Result {
            let name = ep.endpoint.core().name()?;
            // SAFETY: `len` is NULL or valid, `addr` is NULL or valid for `*len` bytes.
            unsafe { copy_address(ep.shared.addr_format, name, addr, len) }
        }

        getpeer: fn fi_getpeer(ep: InProcess<&EndpointObject>, addr, len) -> Result {
            let peer = ep.endpoint.core().peer()?;
            // SAFETY: `len` is NULL or valid, `addr` is NULL or valid for `*len` bytes.
            unsafe { copy_address(ep.shared.addr_format, peer, addr, len) }
        }

        connect: fn fi_connect(ep: &EndpointObject, addr, param, param_len) -> Result {
            in_process()?;
            // SAFETY: `addr` is NULL or an address of the endpoint's format.
            let to = unsafe { address_unbounded(ep.shared.addr_format, addr)? };
            // SAFETY: `param` is NULL or valid for `param_len` bytes.
            ep.endpoint.connect(to, unsafe { byte_slice(param, param_len)? })
        }

        accept: fn fi_accept(ep: &EndpointObject, param, param_len) -> Result {
            in_process()?;
            // SAFETY: `param` is NULL or valid for `param_len` bytes.
            ep.endpoint.accept(unsafe { byte_slice(param, param_len)? })
        }

        shutdown: fn fi_shutdown(ep: &EndpointObject, flags) -> Result {
            ep.endpoint.core().shutdown(flags)
        }
    }
    from GROUP_OPS;
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
