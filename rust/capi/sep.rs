// SPDX-License-Identifier: GPL-2.0

//! Scalable endpoints for C callers. Their contexts are endpoints ([`super::ep`]).

use super::{
    av::AvObject,
    cm,
    domain::DomainObject,
    ep::{
        self,
        EndpointObject, //
    },
    nosys,
    object::address,
    ops_tables::ProviderOps,
    options::{
        getopt,
        read_option, //
    },
    prelude::*, //
};
use crate::fi::{
    eq::Source,
    sep::{
        OpenContext,
        ScalableEndpoint, //
    },
};

/// A scalable endpoint, as C callers hold it.
#[repr(C)]
struct ScalableObject {
    fid: fid_ep,
    endpoint: Arc<ScalableEndpoint>,
    addr_format: u32,
    /// Tables of calls for its contexts.
    provider_ops: &'static ProviderOps,
}

fi_ops! {
    impl Object for ScalableObject: FI_CLASS_SEP {
        bind: fn fi_scalable_ep_bind(sep: &ScalableObject, other, flags) -> Result {
            in_process()?;
            // SAFETY: `other` is NULL or valid.
            let av = unsafe { from_fid::<AvObject>(other)? };
            sep.endpoint.bind_av(&av.av, flags)
        }

        control: fn fi_control(sep: &ScalableObject, command, _arg) -> Result {
            ensure(command as u32 == abi::FI_ENABLE, Errno::ENOSYS)?;
            in_process()?;
            sep.endpoint.enable()
        }
    }
    close(sep) {
        sep.endpoint.close()
    }
}

fi_ops! {
    static CM_OPS: fi_ops_cm {
        setname: fn fi_setname(sep: InProcess<&ScalableObject>, addr, len) -> Result {
            // SAFETY: `addr` is NULL or valid for `len` bytes.
            let name = unsafe { address(sep.addr_format, addr, len)? };
            sep.endpoint.core().set_name(name)
        }

        getname: fn fi_getname(sep: InProcess<&ScalableObject>, addr, len) -> Result {
            let name = sep.endpoint.core().name()?;
            // SAFETY: `len` is NULL or valid, `addr` is NULL or valid for `*len` bytes.
            unsafe { cm::copy_address(sep.addr_format, name, addr, len) }
        }
    }
}

fi_ops! {
    static OPS: fi_ops_ep {
        getopt: fn fi_getopt(sep: &ScalableObject, level, name, value, len) -> Result {
            let core = sep.endpoint.core();
            // SAFETY: `len` is NULL or valid, `value` is NULL or valid for `*len` bytes.
            unsafe { getopt(|option| core.getopt(option), None, level, name, value, len) }
        }

        setopt: fn fi_setopt(sep: &ScalableObject, level, name, value, len) -> Result {
            // SAFETY: `value` is NULL or valid for `len` bytes.
            let (option, value) = unsafe { read_option(level, name, value, len)? };
            sep.endpoint.core().setopt(option, value)
        }

        tx_ctx: fn fi_tx_context(
            sep: InProcess<&ScalableObject>, index, attr, out, context,
        ) -> Result {
            let open = |index, source| {
                // SAFETY: `attr` is NULL or valid, and not shared during the call.
                let attr = unsafe { attr.as_mut() };
                let flags = attr.as_ref().map_or(0, |attr| attr.op_flags);
                ep::check_op_flags(flags, abi::FI_INJECT)?;
                sep.endpoint.transmit_context(index, attr, source)
            };
            // SAFETY: `out` is NULL or valid.
            unsafe { open_context(abi::FI_CLASS_TX_CTX, &sep, index, out, context, open) }
        }

        rx_ctx: fn fi_rx_context(
            sep: InProcess<&ScalableObject>, index, attr, out, context,
        ) -> Result {
            let open = |index, source| {
                // SAFETY: `attr` is NULL or valid, and not shared during the call.
                let attr = unsafe { attr.as_mut() };
                let flags = attr.as_ref().map_or(0, |attr| attr.op_flags);
                ep::check_op_flags(flags, abi::FI_MULTI_RECV)?;
                sep.endpoint.receive_context(index, attr, source)
            };
            // SAFETY: `out` is NULL or valid.
            unsafe { open_context(abi::FI_CLASS_RX_CTX, &sep, index, out, context, open) }
        }
    }
}

fi_ops! {
    /// `fi_scalable_ep()`.
    pub(super) const DOMAIN_OPS: fi_ops_domain {
        scalable_ep: fn fi_scalable_ep(
            domain: InProcess<&DomainObject>, info, out, context,
        ) -> Result {
            // SAFETY: `info` and `out` are NULL or valid, and `info` is not shared during the call.
            let (info, slot) = unsafe { open_info(info, out)? };
            slot.open(ScalableObject {
                // Transfers are posted to the contexts, not to the scalable endpoint.
                fid: fid_ep {
                    ops: ptr::from_ref(&OPS).cast_mut(),
                    cm: ptr::from_ref(&CM_OPS).cast_mut(),
                    ..nosys::endpoint(new_fid::<ScalableObject>(context))
                },
                endpoint: domain.domain.scalable_endpoint(info)?,
                addr_format: info.addr_format(),
                provider_ops: domain.provider_ops,
            })
        }
    }
}

/// Opens a context, and makes its object of class `class` for a C caller.
///
/// # Errors
///
/// -FI_EINVAL for a negative index and for NULL, -FI_ENOMEM, and the errors of `open`.
///
/// # Safety
///
/// `out` is NULL or valid for writing.
unsafe fn open_context(
    class: u32,
    sep: &ScalableObject,
    index: c_int,
    out: *mut *mut fid_ep,
    context: *mut c_void,
    open: impl FnOnce(usize, Source) -> Result<OpenContext>,
) -> Result {
    let index = usize::try_from(index).map_err(|_| Errno::EINVAL)?;
    // SAFETY: By the caller's contract, `out` is NULL or valid.
    let slot = unsafe { Opening::new(out)? };
    let OpenContext { endpoint, info } = open(index, Source(slot.address()))?;
    slot.open(EndpointObject::new(
        class,
        sep.provider_ops,
        endpoint,
        &info,
        context,
    )?)
}
