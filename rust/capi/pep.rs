// SPDX-License-Identifier: GPL-2.0

//! Passive endpoints for C callers.

use super::{
    cm::{
        self,
        NamedObject, //
    },
    eq,
    fabric::FabricObject,
    object::{
        from_fid,
        new_fid,
        open_info, //
    },
    ops::{
        fi_ops,
        InProcess, //
    },
};
use crate::{
    abi::{
        fi_info,
        fi_ops_ep,
        fid_fabric,
        fid_pep, //
    },
    fi::{
        eq::Source,
        pep::PassiveEndpoint,
        prelude::*, //
    },
    util::context, //
};

/// A passive endpoint, as C callers hold it.
#[repr(C)]
pub(super) struct ListenerObject {
    fid: fid_pep,
    listener: Arc<PassiveEndpoint>,
    addr_format: u32,
}

fi_ops! {
    impl Object for ListenerObject: FI_CLASS_PEP {
        close: fn fi_close(pep) {
            pep.listener.close();
            Ok(())
        }

        bind: fn fi_pep_bind(
            pep: *mut fid as &ListenerObject,
            other: *mut fid,
            flags: u64,
        ) -> Result {
            context::in_process()?;
            // SAFETY: `other` is NULL or valid.
            let queue = unsafe { from_fid::<eq::QueueObject>(other)? };
            pep.listener.bind_eq(queue.queue(), flags)
        }

        control: fn fi_control(
            pep: *mut fid as &ListenerObject,
            command: c_int,
            arg: *mut c_void,
        ) -> Result {
            match u32::try_from(command) {
                Ok(abi::FI_BACKLOG) => {
                    context::in_process()?;
                    // SAFETY: For this command, `arg` is NULL or an int.
                    let backlog = unsafe { arg.cast::<c_int>().as_ref() };
                    pep.listener
                        .core()
                        .set_backlog(*backlog.ok_or(Errno::EINVAL)?)
                }
                _ => Err(Errno::ENOSYS),
            }
        }
    }
}

impl ListenerObject {
    /// Returns the Rust object.
    pub(super) fn listener(&self) -> &PassiveEndpoint {
        &self.listener
    }
}

impl NamedObject for ListenerObject {
    fn addr_format(&self) -> u32 {
        self.addr_format
    }

    fn set_name(&self, addr: SocketAddr) -> Result {
        self.listener.core().set_name(addr)
    }

    fn name(&self) -> Result<SocketAddr> {
        self.listener.core().name()
    }
}

fi_ops! {
    static OPS: fi_ops_ep {
        getopt: fn fi_getopt(
            pep: *mut fid as &ListenerObject,
            level: c_int,
            name: c_int,
            value: *mut c_void,
            len: *mut usize,
        ) -> Result {
            let limit = pep.listener.core().private_data_limit();
            let option = |name| (name == abi::FI_OPT_CM_DATA_SIZE).then_some(limit);
            // SAFETY: `len` is NULL or valid, `value` is NULL or valid for `*len` bytes.
            unsafe { cm::getopt(option, level, name, value, len) }
        }
    }
}

fi_ops! {
    pub(super) fn fi_passive_ep(
        fabric: *mut fid_fabric as InProcess<&FabricObject>,
        info: *mut fi_info,
        out: *mut *mut fid_pep,
        context: *mut c_void,
    ) -> Result {
        // SAFETY: `info` and `out` are NULL or valid, and `info` is not shared during the call.
        let (info, slot) = unsafe { open_info::<ListenerObject, _>(info, out)? };
        let source = Source(slot.address());
        let listener = fabric.fabric().passive_endpoint(info, source)?;
        slot.open(ListenerObject {
            fid: fid_pep {
                fid: new_fid::<ListenerObject>(context),
                ops: ptr::from_ref(&OPS).cast_mut(),
                cm: ptr::from_ref(&cm::PASSIVE_OPS).cast_mut(),
            },
            listener,
            addr_format: info.addr_format(),
        })
    }
}
