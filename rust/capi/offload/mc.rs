// SPDX-License-Identifier: GPL-2.0

//! Collective groups (`fi_join_collective()`): each is a group of the endpoint's offload.

use super::{
    super::{
        av_set::SetObject,
        ep::{
            EndpointObject,
            EpShared, //
        },
        prelude::*, //
    },
    peer_open::{
        checked_table,
        export,
        Open, //
    },
    Offload, //
};
use crate::fi::{
    domain::Domain,
    eq::Source, //
};

/// A group that an endpoint has joined.
#[repr(C)]
struct GroupObject {
    fid: fid_mc,
    // Dropped in this order.
    _group: Open,
    _set: Open,
    _peer_object: Open,
    domain: Arc<Domain>,
    _join_count: JoinCount,
}

/// Counts a joined group: the endpoint cannot be closed before this is dropped. The endpoint shares the state with
/// its aliases: any of them may have joined the group.
struct JoinCount(Arc<EpShared>);

impl Drop for JoinCount {
    fn drop(&mut self) {
        if let Some(offload) = self.0.offload.as_ref() {
            offload.count_leave();
        }
    }
}

fi_ops! {
    impl Object for GroupObject: FI_CLASS_MC {}
    close(group) {
        let source = Source(ptr::from_ref(group).expose_provenance());
        group.domain.drop_events(source);
        Ok(())
    }
}

fi_ops! {
    /// `fi_join()`: joins a group, with FI_COLLECTIVE only.
    pub(in super::super) const GROUP_OPS: fi_ops_cm {
        join: fn fi_join(ep: &EndpointObject, addr, flags, mc, context) -> Result {
            let offload = ep.offload()?;
            if flags & abi::FI_COLLECTIVE == 0 {
                return Err(Errno::ENOSYS);
            }
            // SAFETY: With FI_COLLECTIVE, `addr` is NULL or a valid `struct fi_collective_addr`.
            let addr = unsafe { addr.cast::<fi_collective_addr>().as_ref() }.ok_or(Errno::EINVAL)?;
            if addr.set.is_null() || mc.is_null() {
                return Err(Errno::EINVAL);
            }
            in_process()?;
            let addresses = ep.endpoint.address_vector()?;
            // SAFETY: The set is valid.
            let set = unsafe { from_fid::<SetObject>(addr.set.cast_mut().cast())? };
            if !set.set.is_in(&addresses) {
                return Err(Errno::EINVAL);
            }
            offload.check_collectives(set.collectives)?;
            // SAFETY: `mc` is valid.
            let slot = unsafe { Opening::new(mc)? };
            let source = Source(slot.address());
            let notice = ep.endpoint.reserve_event(source, abi::FI_JOIN_COMPLETE)?;
            // SAFETY: The set is valid.
            let peer_object = unsafe { export(addr.set.cast_mut().cast())? };
            // SAFETY: The offload's objects are open as long as `offload`.
            let peer_set = unsafe { open_set(offload, &peer_object, set.collectives)? };
            let theirs = fi_collective_addr {
                set: peer_set.as_ptr::<fid_av_set>(),
                coll_addr: addr.coll_addr,
            };
            // SAFETY: As above; the set is open, and `theirs` is valid during the call.
            let group = unsafe { join_group(offload.ep(), &theirs, flags, context)? };
            offload.count_join();
            slot.open(GroupObject {
                fid: fid_mc {
                    fid: new_fid::<GroupObject>(context),
                    // SAFETY: The group is open.
                    fi_addr: unsafe { (*group.as_ptr::<fid_mc>()).fi_addr },
                },
                _group: group,
                _set: peer_set,
                _peer_object: peer_object,
                domain: ep.endpoint.domain().clone(),
                _join_count: JoinCount(ep.shared.clone()),
            })?;
            if let Some(notice) = notice {
                notice.write();
            }
            Ok(())
        }
    }
}

/// Opens a set of the offload for an exported set.
///
/// # Safety
///
/// The offload's objects are open.
unsafe fn open_set(offload: &Offload, exported: &Open, collectives: u64) -> Result<Open> {
    let attr = fi_av_set_attr {
        start_addr: FI_ADDR_NOTAVAIL,
        end_addr: FI_ADDR_NOTAVAIL,
        flags: abi::FI_PEER_AV | collectives,
        ..pin_init::zeroed()
    };
    let peer = fi_peer_av_set_context {
        size: size_of::<fi_peer_av_set_context>(),
        av_set: exported.as_ptr(),
    };
    let av = offload.av();
    // SAFETY: By the caller's contract, the vector is open, and its table is valid.
    let ops = unsafe { checked_table((*av).ops)? };
    // SAFETY: As above; the exported set is open.
    unsafe { Open::open_child(ops.av_set, av, attr, peer) }
}

/// Joins a group of the offload's endpoint.
///
/// # Safety
///
/// The endpoint and the set in `addr` are open.
unsafe fn join_group(
    ep: *mut fid_ep,
    addr: &fi_collective_addr,
    flags: u64,
    context: *mut c_void,
) -> Result<Open> {
    // SAFETY: By the caller's contract, the endpoint is open, and its table is valid.
    let join = unsafe { checked_table((*ep).cm)? }
        .join
        .ok_or(Errno::ENOSYS)?;
    let mut group: *mut fid_mc = ptr::null_mut();
    // SAFETY: By the caller's contract, the endpoint and the set are open.
    let ret = unsafe { join(ep, ptr::from_ref(addr).cast(), flags, &mut group, context) };
    // SAFETY: The call has opened the group, unless it has failed.
    unsafe { Open::from_result(ret, group) }
}
