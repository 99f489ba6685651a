// SPDX-License-Identifier: GPL-2.0

//! Collectives of an endpoint, which are passed to its offload: the calls, and the groups (`fi_join_collective()`),
//! each of which is a group of the offload.

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

macro_rules! collectives {
    ($($call:ident($($arg:ident)*))*) => {
        fi_ops! {
            /// Table of the collective calls. They return -FI_ENOSYS if the endpoint has no offload, or the
            /// offload lacks the call.
            pub(in super::super) static COLLECTIVE_OPS: fi_ops_collective {
                $($call: fn $call(ep: &EndpointObject $(, $arg)*) -> Result<isize> {
                    let theirs = ep.offload()?.ep.as_ptr();
                    // SAFETY: The offload's endpoint is open as long as the endpoint, and so is its table.
                    let ops = unsafe { checked_table((*theirs).collective)? };
                    let call = ops.$call.ok_or(Errno::ENOSYS)?;
                    // SAFETY: The arguments are those of this call, for the offload's endpoint.
                    Ok(unsafe { call(theirs $(, $arg)*) })
                })*
            }
        }
    };
}

collectives! {
    barrier(coll_addr context)
    broadcast(buf count desc coll_addr root_addr datatype flags context)
    alltoall(buf count desc result result_desc coll_addr datatype flags context)
    allreduce(buf count desc result result_desc coll_addr datatype op flags context)
    allgather(buf count desc result result_desc coll_addr datatype flags context)
    reduce_scatter(buf count desc result result_desc coll_addr datatype op flags context)
    reduce(buf count desc result result_desc coll_addr root_addr datatype op flags context)
    scatter(buf count desc result result_desc coll_addr root_addr datatype flags context)
    gather(buf count desc result result_desc coll_addr root_addr datatype flags context)
    msg(msg resultv result_desc result_count flags)
    barrier2(coll_addr flags context)
}

/// A group that an endpoint has joined.
#[repr(C)]
struct GroupObject {
    fid: fid_mc,
    // Dropped in this order.
    _group: Open<fid_mc>,
    _set: Open<fid_av_set>,
    _peer_object: Open<fid>,
    domain: Arc<Domain>,
    _join_count: JoinCount,
}

/// Counts a joined group: the endpoint cannot be closed before this is dropped. The endpoint shares the state with
/// its aliases: any of them may have joined the group.
struct JoinCount(Arc<EpShared>);

impl Drop for JoinCount {
    fn drop(&mut self) {
        if let Some(offload) = self.0.offload.as_ref() {
            let _ = offload.group_count.fetch_sub(1usize, Full);
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
            ensure(flags & abi::FI_COLLECTIVE != 0, Errno::ENOSYS)?;
            // SAFETY: With FI_COLLECTIVE, `addr` is NULL or a valid `struct fi_collective_addr`.
            let addr = unsafe { addr.cast::<fi_collective_addr>().as_ref() }.ok_or(Errno::EINVAL)?;
            ensure(!addr.set.is_null() && !mc.is_null(), Errno::EINVAL)?;
            in_process()?;
            let addresses = ep.endpoint.address_vector()?;
            // SAFETY: The set is valid.
            let set = unsafe { from_fid::<SetObject>(addr.set.cast_mut().cast())? };
            ensure(set.set.is_in(&addresses), Errno::EINVAL)?;
            // SAFETY: The offload's endpoint is open as long as the offload, and so is its table.
            let supported = unsafe { supported_collectives((*offload.ep.as_ptr()).collective) };
            ensure(set.collectives & !supported == 0, Errno::EOPNOTSUPP)?;
            // SAFETY: `mc` is valid.
            let slot = unsafe { Opening::new(mc)? };
            let source = Source(slot.address());
            let notice = ep.endpoint.reserve_event(source, abi::FI_JOIN_COMPLETE)?;
            // SAFETY: The set is valid.
            let peer_object = unsafe { export(addr.set.cast_mut().cast())? };
            // SAFETY: The offload's objects are open as long as `offload`.
            let peer_set = unsafe { open_set(offload, &peer_object, set.collectives)? };
            let theirs = fi_collective_addr {
                set: peer_set.as_ptr(),
                coll_addr: addr.coll_addr,
            };
            // SAFETY: As above; the set is open, and `theirs` is valid during the call.
            let group = unsafe { join_group(offload.ep.as_ptr(), &theirs, flags, context)? };
            let _ = offload.group_count.fetch_add(1usize, Full);
            slot.open(GroupObject {
                fid: fid_mc {
                    fid: new_fid::<GroupObject>(context),
                    // SAFETY: The group is open.
                    fi_addr: unsafe { (*group.as_ptr()).fi_addr },
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
unsafe fn open_set(
    offload: &Offload,
    exported: &Open<fid>,
    collectives: u64,
) -> Result<Open<fid_av_set>> {
    let attr = fi_av_set_attr {
        start_addr: FI_ADDR_NOTAVAIL,
        end_addr: FI_ADDR_NOTAVAIL,
        flags: abi::FI_PEER_AV | collectives,
        ..pin_init::zeroed()
    };
    let peer = fi_peer_av_set_context {
        size: size_of::<fi_peer_av_set_context>(),
        av_set: exported.as_ptr().cast(),
    };
    let av = offload.av.as_ptr();
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
) -> Result<Open<fid_mc>> {
    // SAFETY: By the caller's contract, the endpoint is open, and its table is valid.
    let join = unsafe { checked_table((*ep).cm)? }
        .join
        .ok_or(Errno::ENOSYS)?;
    let mut group = ptr::null_mut();
    // SAFETY: By the caller's contract, the endpoint and the set are open.
    let ret = unsafe { join(ep, ptr::from_ref(addr).cast(), flags, &mut group, context) };
    // SAFETY: The call has opened the group, unless it has failed.
    unsafe { Open::from_result(ret, group) }
}

/// Returns the collectives that a table has calls for, as the flags of a set.
///
/// # Safety
///
/// The requirements of [`checked_table`].
unsafe fn supported_collectives(ops: *const fi_ops_collective) -> u64 {
    // SAFETY: By the caller's contract, `ops` is as `checked_table` requires.
    let Ok(ops) = (unsafe { checked_table(ops) }) else {
        return 0;
    };
    [
        (abi::FI_BARRIER_SET, ops.barrier.is_some()),
        (abi::FI_BROADCAST_SET, ops.broadcast.is_some()),
        (abi::FI_ALLTOALL_SET, ops.alltoall.is_some()),
        (abi::FI_ALLREDUCE_SET, ops.allreduce.is_some()),
        (abi::FI_ALLGATHER_SET, ops.allgather.is_some()),
        (abi::FI_REDUCE_SCATTER_SET, ops.reduce_scatter.is_some()),
        (abi::FI_REDUCE_SET, ops.reduce.is_some()),
        (abi::FI_SCATTER_SET, ops.scatter.is_some()),
        (abi::FI_GATHER_SET, ops.gather.is_some()),
    ]
    .iter()
    .filter(|(_, is_there)| *is_there)
    .fold(0, |all, (flag, _)| all | flag)
}
