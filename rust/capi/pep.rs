// SPDX-License-Identifier: GPL-2.0

//! Passive endpoints for C callers.

use super::{
    cm,
    eq,
    fabric::FabricObject,
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
        fi_info,
        fi_ops,
        fi_ops_ep,
        fid,
        fid_fabric,
        fid_pep,
        Errno, //
    },
    fi::{
        eq::Source,
        pep::PassiveEndpoint, //
    },
    util::context, //
};
use core::ptr;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A passive endpoint, as C callers hold it.
#[repr(C)]
pub(super) struct ListenerObject {
    fid: fid_pep,
    listener: Arc<PassiveEndpoint>,
    addr_format: u32,
}

// SAFETY: `#[repr(C)]`, begins with a `fid_pep`, and is the only type with this table.
unsafe impl Object for ListenerObject {
    const CLASS: u32 = abi::FI_CLASS_PEP;

    fn ops() -> &'static fi_ops {
        static OPS: fi_ops = object::fid_ops(close, Some(bind), Some(control));
        &OPS
    }
}

impl ListenerObject {
    /// Returns the Rust object.
    pub(super) fn listener(&self) -> &PassiveEndpoint {
        &self.listener
    }

    /// Returns the format of the addresses that its calls take and return.
    pub(super) fn addr_format(&self) -> u32 {
        self.addr_format
    }
}

static OPS: fi_ops_ep = fi_ops_ep {
    getopt: Some(getopt),
    ..nosys::EP
};

/// Implements `fi_passive_ep()`.
pub(super) unsafe extern "C" fn open(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    out: *mut *mut fid_pep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: By the contract of `fi_passive_ep()`, arguments are valid or NULL.
    into_int(unsafe {
        object::open_child(
            fabric.cast(),
            info,
            out,
            |_ctx, fabric: &FabricObject, info, slot| {
                let source = Source(slot.address());
                let listener = fabric.fabric().passive_endpoint(info, source)?;
                Ok(slot.init(ListenerObject {
                    fid: fid_pep {
                        fid: new_fid::<ListenerObject>(context),
                        ops: ptr::from_ref(&OPS).cast_mut(),
                        cm: ptr::from_ref(&cm::PASSIVE_OPS).cast_mut(),
                    },
                    listener,
                    addr_format: info.addr_format(),
                }))
            },
        )
    })
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: By the contract of `fi_close()`.
    into_int(unsafe {
        object::close::<ListenerObject>(fid, |object| {
            object.listener.close();
            Ok(())
        })
    })
}

unsafe extern "C" fn bind(fid: *mut fid, other: *mut fid, flags: u64) -> c_int {
    // SAFETY: By the contract of `fi_pep_bind()`.
    into_int(unsafe {
        object::from_fid::<ListenerObject>(fid).and_then(|object| {
            context::in_process()?;
            let queue = object::from_fid::<eq::QueueObject>(other)?;
            object.listener.bind_eq(queue.queue(), flags)
        })
    })
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: By the contract of `fi_control()`.
    into_int(unsafe {
        object::from_fid::<ListenerObject>(fid).and_then(|object| match u32::try_from(command) {
            Ok(abi::FI_BACKLOG) => {
                context::in_process()?;
                let backlog = arg.cast::<c_int>().as_ref().ok_or(Errno::EINVAL)?;
                object.listener.core().set_backlog(*backlog)
            }
            _ => Err(Errno::ENOSYS),
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
        object::from_fid::<ListenerObject>(fid).and_then(|object| {
            let limit = object.listener.core().private_data_limit();
            let option = |name| (name == abi::FI_OPT_CM_DATA_SIZE).then_some(limit);
            cm::getopt(option, level, name, value, len)
        })
    })
}
