// SPDX-License-Identifier: GPL-2.0

//! Scalable endpoints for C callers. Their contexts are endpoints ([`super::ep`]).

use super::{
    av,
    cm::{
        self,
        NamedObject, //
    },
    domain::DomainObject,
    ep,
    nosys,
    object::{
        self,
        new_fid,
        open_info,
        Opening, //
    },
    ops::{
        fi_ops,
        InProcess, //
    },
    ops_tables::ProviderOps, //
};
use crate::{
    abi::{
        fi_info,
        fi_ops_cm,
        fi_ops_ep,
        fi_rx_attr,
        fi_tx_attr, //
    },
    fi::{
        eq::Source,
        prelude::*,
        sep::{
            OpenContext,
            ScalableEndpoint, //
        },
    },
    util::context, //
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

fi_ops! {
    impl Object for ScalableObject: FI_CLASS_SEP {
        close: fn fi_close(sep) {
            sep.endpoint.close()
        }

        bind: fn fi_scalable_ep_bind(
            sep: *mut fid as &ScalableObject,
            other: *mut fid,
            flags: u64,
        ) -> Result {
            context::in_process()?;
            // SAFETY: `other` is NULL or valid.
            let av = unsafe { object::from_fid::<av::AvObject>(other)? };
            sep.endpoint.bind_av(av.av(), flags)
        }

        control: fn fi_control(
            sep: *mut fid as &ScalableObject,
            command: c_int,
            _arg: *mut c_void,
        ) -> Result {
            match u32::try_from(command) {
                Ok(abi::FI_ENABLE) => {
                    context::in_process()?;
                    sep.endpoint.enable()
                }
                _ => Err(Errno::ENOSYS),
            }
        }
    }
}

impl NamedObject for ScalableObject {
    fn addr_format(&self) -> u32 {
        self.addr_format
    }

    fn set_name(&self, addr: SocketAddr) -> Result {
        self.endpoint.core().set_name(addr)
    }

    fn name(&self) -> Result<SocketAddr> {
        self.endpoint.core().name()
    }
}

static CM_OPS: fi_ops_cm = fi_ops_cm {
    setname: Some(cm::fi_setname::<ScalableObject>),
    getname: Some(cm::fi_getname::<ScalableObject>),
    ..nosys::CM
};

fi_ops! {
    static OPS: fi_ops_ep {
        getopt: fn fi_getopt(
            sep: *mut fid as &ScalableObject,
            level: c_int,
            name: c_int,
            value: *mut c_void,
            len: *mut usize,
        ) -> Result {
            let core = sep.endpoint.core();
            let option = |name| ep::ep_option(name).and_then(|option| core.getopt(option).ok());
            // SAFETY: `len` is NULL or valid, `value` is NULL or valid for `*len` bytes.
            unsafe { cm::getopt(option, level, name, value, len) }
        }

        setopt: fn fi_setopt(
            sep: *mut fid as &ScalableObject,
            level: c_int,
            name: c_int,
            value: *const c_void,
            len: usize,
        ) -> Result {
            // SAFETY: `value` is NULL or valid for `len` bytes.
            let (option, value) = unsafe { ep::read_option(level, name, value, len)? };
            sep.endpoint.core().setopt(option, value)
        }

        tx_ctx: fn fi_tx_context(
            sep: *mut fid_ep as InProcess<&ScalableObject>,
            index: c_int,
            attr: *mut fi_tx_attr,
            out: *mut *mut fid_ep,
            context: *mut c_void,
        ) -> Result {
            let open = |index, source| {
                // SAFETY: `attr` is NULL or valid, and not shared during the call.
                let attr = unsafe { attr.as_mut() };
                let flags = attr.as_ref().map_or(0, |attr| attr.op_flags);
                ep::check_op_flags(flags, abi::FI_INJECT)?;
                sep.endpoint.transmit_context(index, attr, source)
            };
            // SAFETY: `out` is NULL or valid.
            unsafe { open_context::<ep::TransmitObject>(&sep, index, out, context, open) }
        }

        rx_ctx: fn fi_rx_context(
            sep: *mut fid_ep as InProcess<&ScalableObject>,
            index: c_int,
            attr: *mut fi_rx_attr,
            out: *mut *mut fid_ep,
            context: *mut c_void,
        ) -> Result {
            let open = |index, source| {
                // SAFETY: `attr` is NULL or valid, and not shared during the call.
                let attr = unsafe { attr.as_mut() };
                let flags = attr.as_ref().map_or(0, |attr| attr.op_flags);
                ep::check_op_flags(flags, abi::FI_MULTI_RECV)?;
                sep.endpoint.receive_context(index, attr, source)
            };
            // SAFETY: `out` is NULL or valid.
            unsafe { open_context::<ep::ReceiveObject>(&sep, index, out, context, open) }
        }
    }
}

fi_ops! {
    pub(super) fn fi_scalable_ep(
        domain: *mut fid_domain as InProcess<&DomainObject>,
        info: *mut fi_info,
        out: *mut *mut fid_ep,
        context: *mut c_void,
    ) -> Result {
        // SAFETY: `info` and `out` are NULL or valid, and `info` is not shared during the call.
        let (info, slot) = unsafe { open_info::<ScalableObject, _>(info, out)? };
        slot.open(ScalableObject {
            // Transfers are posted to the contexts, not to the scalable endpoint.
            fid: fid_ep {
                ops: ptr::from_ref(&OPS).cast_mut(),
                cm: ptr::from_ref(&CM_OPS).cast_mut(),
                ..nosys::endpoint(new_fid::<ScalableObject>(context))
            },
            endpoint: domain.domain().scalable_endpoint(info)?,
            addr_format: info.addr_format(),
            provider_ops: domain.provider_ops(),
        })
    }
}

/// Opens a context, and makes its object `T` for a C caller.
///
/// # Errors
///
/// -FI_EINVAL for a negative index and for NULL, -FI_ENOMEM, and the errors of `open`.
///
/// # Safety
///
/// `out` is NULL or valid for writing.
unsafe fn open_context<T: ep::ContextObject>(
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
    let object = ep::make_object::<T>(sep.provider_ops, endpoint, &info, context)?;
    slot.open(T::from_endpoint(object))
}
