// SPDX-License-Identifier: GPL-2.0

//! Passive endpoints for C callers.

use super::{
    cm::copy_address,
    eq,
    fabric::FabricObject,
    object::{
        address,
        byte_slice, //
    },
    options::{
        getopt,
        read_option, //
    },
    prelude::*, //
};
use crate::fi::{
    eq::Source,
    pep::PassiveEndpoint, //
};

/// A passive endpoint, as C callers hold it.
#[repr(C)]
struct ListenerObject {
    fid: fid_pep,
    listener: Arc<PassiveEndpoint>,
    addr_format: u32,
}

fi_ops! {
    impl Object for ListenerObject: FI_CLASS_PEP {
        bind: fn fi_pep_bind(pep: &ListenerObject, other, flags) -> Result {
            in_process()?;
            // SAFETY: `other` is NULL or valid.
            let events = unsafe { from_fid::<eq::QueueObject>(other)? };
            pep.listener.bind_eq(&events.queue, flags)
        }

        control: fn fi_control(pep: &ListenerObject, command, arg) -> Result {
            ensure(command as u32 == abi::FI_BACKLOG, Errno::ENOSYS)?;
            in_process()?;
            // SAFETY: For this command, `arg` is NULL or an int.
            let backlog = unsafe { arg.cast::<c_int>().as_ref() }.ok_or(Errno::EINVAL)?;
            pep.listener.core().set_backlog(*backlog)
        }
    }
    close(pep) {
        pep.listener.close();
        Ok(())
    }
}

fi_ops! {
    static OPS: fi_ops_ep {
        getopt: fn fi_getopt(pep: &ListenerObject, level, name, value, len) -> Result {
            let core = pep.listener.core();
            let data_size = Some(core.private_data_limit());
            // SAFETY: `len` is NULL or valid, `value` is NULL or valid for `*len` bytes.
            unsafe { getopt(|option| core.getopt(option), data_size, level, name, value, len) }
        }

        setopt: fn fi_setopt(pep: &ListenerObject, level, name, value, len) -> Result {
            // SAFETY: `value` is NULL or valid for `len` bytes.
            let (option, value) = unsafe { read_option(level, name, value, len)? };
            pep.listener.core().setopt(option, value)
        }
    }
}

fi_ops! {
    static CM_OPS: fi_ops_cm {
        setname: fn fi_setname(pep: InProcess<&ListenerObject>, addr, len) -> Result {
            // SAFETY: `addr` is NULL or valid for `len` bytes.
            let name = unsafe { address(pep.addr_format, addr, len)? };
            pep.listener.core().set_name(name)
        }

        getname: fn fi_getname(pep: InProcess<&ListenerObject>, addr, len) -> Result {
            let name = pep.listener.core().name()?;
            // SAFETY: `len` is NULL or valid, `addr` is NULL or valid for `*len` bytes.
            unsafe { copy_address(pep.addr_format, name, addr, len) }
        }

        listen: fn fi_listen(pep: &ListenerObject) -> Result {
            in_process()?;
            pep.listener.listen()
        }

        reject: fn fi_reject(pep: &ListenerObject, handle, param, param_len) -> Result {
            // SAFETY: `param` is NULL or valid for `param_len` bytes.
            let data = unsafe { byte_slice(param, param_len)? };
            // The handle is only looked up, never dereferenced.
            pep.listener.core().reject(handle as usize, data)
        }
    }
}

fi_ops! {
    /// `fi_passive_ep()`.
    pub(super) const FABRIC_OPS: fi_ops_fabric {
        passive_ep: fn fi_passive_ep(
            fabric: InProcess<&FabricObject>, info, out, context,
        ) -> Result {
            // SAFETY: `info` and `out` are NULL or valid, and `info` is not shared during the call.
            let (info, slot) = unsafe { open_info(info, out)? };
            let source = Source(slot.address());
            slot.open(ListenerObject {
                fid: fid_pep {
                    fid: new_fid::<ListenerObject>(context),
                    ops: ptr::from_ref(&OPS).cast_mut(),
                    cm: ptr::from_ref(&CM_OPS).cast_mut(),
                },
                listener: fabric.fabric.passive_endpoint(info, source)?,
                addr_format: info.addr_format(),
            })
        }
    }
}
