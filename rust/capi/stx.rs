// SPDX-License-Identifier: GPL-2.0

//! Shared transmit contexts for C callers, which have no calls besides `fi_close()`.

use super::{
    domain::DomainObject,
    nosys,
    object::{
        self,
        new_fid,
        Object, //
    }, //
};
use crate::{
    abi::{
        self,
        errno::into_int,
        fi_ops,
        fi_ops_ep,
        fi_tx_attr,
        fid,
        fid_domain,
        fid_stx, //
    },
    fi::stx::{
        Attr,
        SharedTransmit, //
    },
};
use core::ptr;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A shared transmit context, as C callers hold it.
#[repr(C)]
pub(super) struct SharedObject {
    fid: fid_stx,
    stx: Arc<SharedTransmit>,
}

// SAFETY: `#[repr(C)]`, begins with a `fid_stx`, and is the only type with this table.
unsafe impl Object for SharedObject {
    const CLASS: u32 = abi::FI_CLASS_STX_CTX;

    fn ops() -> &'static fi_ops {
        static OPS: fi_ops = object::fid_ops(close, None, None);
        &OPS
    }
}

impl SharedObject {
    /// Returns the Rust object.
    pub(super) fn stx(&self) -> &Arc<SharedTransmit> {
        &self.stx
    }
}

static OPS: fi_ops_ep = nosys::EP;

/// Implements `fi_stx_context()`.
pub(super) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_tx_attr,
    out: *mut *mut fid_stx,
    context: *mut c_void,
) -> c_int {
    let mut any = pin_init::zeroed();
    let attr = match attr.is_null() {
        true => &raw mut any,
        false => attr,
    };
    // SAFETY: By the contract of `fi_stx_context()`, arguments are valid or NULL.
    into_int(unsafe {
        object::open_with(
            domain.cast(),
            attr,
            out,
            |_, domain: &DomainObject, attr, slot| {
                let stx = domain.domain().shared_transmit(&Attr {
                    size: attr.size,
                    segments: attr.iov_limit,
                    remote_ranges: attr.rma_iov_limit,
                    inject: attr.inject_size,
                    caps: attr.caps,
                    flags: attr.op_flags,
                    order: attr.msg_order,
                    completion_order: attr.comp_order,
                })?;
                Ok(slot.init(SharedObject {
                    fid: fid_stx {
                        fid: new_fid::<SharedObject>(context),
                        ops: ptr::from_ref(&OPS).cast_mut(),
                    },
                    stx,
                }))
            },
        )
    })
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: By the contract of `fi_close()`.
    into_int(unsafe { object::close::<SharedObject>(fid, |object| object.stx.close()) })
}
