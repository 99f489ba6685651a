// SPDX-License-Identifier: GPL-2.0

//! Collective calls of an endpoint, which are passed to its offload.

use super::{
    super::{
        ep::EndpointObject,
        prelude::*, //
    },
    peer_open::checked_table, //
};

macro_rules! collectives {
    ($($call:ident($($arg:ident)*))*) => {
        fi_ops! {
            /// Table of the collective calls. They return -FI_ENOSYS if the endpoint has no offload, or the
            /// offload lacks the call.
            pub(in super::super) static COLLECTIVE_OPS: fi_ops_collective {
                $($call: fn $call(ep: &EndpointObject $(, $arg)*) -> Result<isize> {
                    let theirs = ep.offload()?.ep();
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

/// Returns the collectives that a table has calls for, as the flags of a set.
///
/// # Safety
///
/// The requirements of [`checked_table`].
pub(super) unsafe fn supported_collectives(ops: *const fi_ops_collective) -> u64 {
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
