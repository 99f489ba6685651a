// SPDX-License-Identifier: GPL-2.0

//! Shared transmit contexts for C callers, which have no calls besides `fi_close()`.

use super::{
    domain::DomainObject,
    nosys,
    prelude::*, //
};
use crate::fi::stx::{
    Attr,
    SharedTransmit, //
};

/// A shared transmit context, as C callers hold it.
#[repr(C)]
pub(super) struct SharedObject {
    fid: fid_stx,
    pub(super) stx: Arc<SharedTransmit>,
}

fi_ops! {
    impl Object for SharedObject: FI_CLASS_STX_CTX {}
    close(stx) {
        stx.stx.close()
    }
}

fi_ops! {
    /// `fi_stx_context()`.
    pub(super) const DOMAIN_OPS: fi_ops_domain {
        stx_ctx: fn fi_stx_context(domain: InProcess<&DomainObject>, attr, out, context) -> Result {
            let mut any = pin_init::zeroed();
            let attr = match attr.is_null() {
                true => &raw mut any,
                false => attr,
            };
            // SAFETY: `attr` is valid, and not shared during the call; `out` is NULL or valid.
            let (attr, slot) = unsafe { open_args(attr, out)? };
            let stx = domain.domain.shared_transmit(&Attr {
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
                    ops: nosys::table(),
                },
                stx,
            })
        }
    }
}
