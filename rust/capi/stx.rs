// SPDX-License-Identifier: GPL-2.0

//! Shared transmit contexts for C callers, which have no calls besides `fi_close()`.

use super::{
    domain::DomainObject,
    nosys,
    object::{
        new_fid,
        open_args, //
    },
    ops::{
        fi_ops,
        InProcess, //
    },
};
use crate::{
    abi::{
        fi_ops_ep,
        fi_tx_attr,
        fid_stx, //
    },
    fi::{
        prelude::*,
        stx::{
            Attr,
            SharedTransmit, //
        },
    },
};

/// A shared transmit context, as C callers hold it.
#[repr(C)]
pub(super) struct SharedObject {
    fid: fid_stx,
    stx: Arc<SharedTransmit>,
}

fi_ops! {
    impl Object for SharedObject: FI_CLASS_STX_CTX {
        close: fn fi_close(stx) {
            stx.stx.close()
        }
    }
}

impl SharedObject {
    /// Returns the Rust object.
    pub(super) fn stx(&self) -> &Arc<SharedTransmit> {
        &self.stx
    }
}

static OPS: fi_ops_ep = nosys::EP;

fi_ops! {
    pub(super) fn fi_stx_context(
        domain: *mut fid_domain as InProcess<&DomainObject>,
        attr: *mut fi_tx_attr,
        out: *mut *mut fid_stx,
        context: *mut c_void,
    ) -> Result {
        let mut any = pin_init::zeroed();
        let attr = match attr.is_null() {
            true => &raw mut any,
            false => attr,
        };
        // SAFETY: `attr` is valid, and not shared during the call; `out` is NULL or valid.
        let (attr, slot) = unsafe { open_args::<_, SharedObject, _>(attr, out)? };
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
        slot.open(SharedObject {
            fid: fid_stx {
                fid: new_fid::<SharedObject>(context),
                ops: ptr::from_ref(&OPS).cast_mut(),
            },
            stx,
        })
    }
}
