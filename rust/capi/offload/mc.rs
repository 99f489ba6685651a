// SPDX-License-Identifier: GPL-2.0

//! Collective groups (`fi_join_collective()`): each is a group of the endpoint's offload.

use super::{
    super::{
        av_set::SetObject,
        ep::{
            EndpointObject,
            EpShared, //
        },
        object::{
            self,
            new_fid,
            Object,
            UninitObject, //
        },
    },
    peer_open::{
        checked_table,
        export,
        Open, //
    },
};
use crate::{
    abi::{
        self,
        errno::into_int,
        fi_av_set_attr,
        fi_collective_addr,
        fi_ops,
        fi_peer_av_set_context,
        fid,
        fid_av_set,
        fid_ep,
        fid_mc,
        Errno,
        Result,
        FI_ADDR_NOTAVAIL, //
    },
    fi::{
        domain::Domain,
        eq::Source, //
    },
    util::context::in_process, //
};
use core::ptr;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A group that an endpoint has joined.
#[repr(C)]
struct GroupObject {
    fid: fid_mc,
    // Dropped in this order.
    _group: Open,
    _set: Open,
    _peer_object: Open,
    /// State that the endpoint shares with its aliases: any of them may have joined the group.
    ep_shared: Arc<EpShared>,
    domain: Arc<Domain>,
}

// SAFETY: `#[repr(C)]`, begins with a `fid_mc`, and is the only type with this table.
unsafe impl Object for GroupObject {
    const CLASS: u32 = abi::FI_CLASS_MC;

    fn ops() -> &'static fi_ops {
        static OPS: fi_ops = object::fid_ops(leave, None, None);
        &OPS
    }
}

unsafe extern "C" fn leave(fid: *mut fid) -> c_int {
    // SAFETY: By the contract of `fi_close()`.
    into_int(unsafe {
        object::from_fid::<GroupObject>(fid).and_then(|group| {
            let ep_shared = group.ep_shared.clone();
            object::close::<GroupObject>(fid, |group| {
                group.domain.drop_events(Source(fid.expose_provenance()));
                Ok(())
            })?;
            // After this the endpoint can be closed.
            if let Some(offload) = ep_shared.offload() {
                offload.count_leave();
            }
            Ok(())
        })
    })
}

/// Joins a group (`fi_join()`), with FI_COLLECTIVE only.
pub(in super::super) unsafe extern "C" fn join(
    ep: *mut fid_ep,
    addr: *const c_void,
    flags: u64,
    mc: *mut *mut fid_mc,
    context: *mut c_void,
) -> c_int {
    // SAFETY: By the contract of `fi_join()`.
    into_int(unsafe { try_join(ep, addr.cast(), flags, mc, context) })
}

/// # Safety
///
/// The contract of `fi_join_collective()`.
unsafe fn try_join(
    ep: *mut fid_ep,
    addr: *const fi_collective_addr,
    flags: u64,
    out: *mut *mut fid_mc,
    context: *mut c_void,
) -> Result {
    // SAFETY: By the contract of `fi_join_collective()`.
    let object = unsafe { object::from_fid::<EndpointObject>(ep.cast())? };
    let offload = object.offload()?;
    if flags & abi::FI_COLLECTIVE == 0 {
        return Err(Errno::ENOSYS);
    }
    // SAFETY: By the contract of `fi_join_collective()`.
    let addr = unsafe { addr.as_ref() }.ok_or(Errno::EINVAL)?;
    if addr.set.is_null() || out.is_null() {
        return Err(Errno::EINVAL);
    }
    in_process()?;
    let addresses = object.endpoint().address_vector()?;
    // SAFETY: By the contract of `fi_join_collective()`.
    let set = unsafe { object::from_fid::<SetObject>(addr.set.cast_mut().cast())? };
    if !set.set().is_in(&addresses) {
        return Err(Errno::EINVAL);
    }
    offload.check_collectives(set.collectives())?;
    let slot = UninitObject::<GroupObject>::new()?;
    let source = Source(slot.address());
    let notice = object
        .endpoint()
        .reserve_event(source, abi::FI_JOIN_COMPLETE)?;
    // SAFETY: By the contract of `fi_join_collective()`; the offload's objects are open as long as `offload`.
    unsafe {
        let peer_object = export(addr.set.cast_mut().cast())?;
        let attr = fi_av_set_attr {
            start_addr: FI_ADDR_NOTAVAIL,
            end_addr: FI_ADDR_NOTAVAIL,
            flags: abi::FI_PEER_AV | set.collectives(),
            ..pin_init::zeroed()
        };
        let peer = fi_peer_av_set_context {
            size: size_of::<fi_peer_av_set_context>(),
            av_set: peer_object.as_ptr(),
        };
        let av = offload.av();
        let opened = Open::open_child(checked_table((*av).ops)?.av_set, av, attr, peer)?;
        let theirs = fi_collective_addr {
            set: opened.as_ptr::<fid_av_set>(),
            coll_addr: addr.coll_addr,
        };
        let their_ep = offload.ep();
        let join = checked_table((*their_ep).cm)?.join.ok_or(Errno::ENOSYS)?;
        let mut group: *mut fid_mc = ptr::null_mut();
        let ret = join(
            their_ep,
            ptr::from_ref(&theirs).cast(),
            flags,
            &mut group,
            context,
        );
        let joined = Open::from_result(ret, group)?;
        offload.count_join();
        let made = slot.init(GroupObject {
            fid: fid_mc {
                fid: new_fid::<GroupObject>(context),
                fi_addr: (*group).fi_addr,
            },
            _group: joined,
            _set: opened,
            _peer_object: peer_object,
            ep_shared: object.shared().clone(),
            domain: object.endpoint().domain().clone(),
        });
        object::write_out(out, made);
    }
    if let Some(notice) = notice {
        notice.write();
    }
    Ok(())
}
