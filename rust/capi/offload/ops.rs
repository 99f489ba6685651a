// SPDX-License-Identifier: GPL-2.0

//! Collective calls of an endpoint, which are passed to its offload.

use super::{
    super::{
        ep::EndpointObject,
        ops::fi_ops, //
    },
    peer_open::checked_table, //
};
use crate::{
    abi::{
        fi_datatype,
        fi_ioc,
        fi_msg_collective,
        fi_op,
        fi_ops_collective, //
    },
    fi::prelude::*, //
};

macro_rules! collectives {
    ($($call:ident($($arg:ident: $type:ty),*);)*) => {
        $(
            fi_ops! {
                fn $call(ep: *mut fid_ep as &EndpointObject $(, $arg: $type)*) -> isize {
                    let theirs = match ep.offload() {
                        Ok(offload) => offload.ep(),
                        Err(errno) => return errno.to_ssize(),
                    };
                    // SAFETY: The offload's endpoint is open as long as the endpoint, and so is its table.
                    let ops = unsafe { checked_table((*theirs).collective) };
                    match ops.ok().and_then(|ops| ops.$call) {
                        // SAFETY: The arguments are those of this call, for the offload's endpoint.
                        Some(call) => unsafe { call(theirs $(, $arg)*) },
                        None => Errno::ENOSYS.to_ssize(),
                    }
                }
            }
        )*

        /// Table of the collective calls. They return -FI_ENOSYS if the endpoint has no offload, or the
        /// offload lacks the call.
        pub(in super::super) static COLLECTIVE_OPS: fi_ops_collective = fi_ops_collective {
            size: size_of::<fi_ops_collective>(),
            $($call: Some($call),)*
        };
    };
}

type Data = *const c_void;
type EntryRoom = *mut c_void;

collectives! {
    barrier(coll_addr: fi_addr_t, context: EntryRoom);
    broadcast(buf: EntryRoom, count: usize, desc: EntryRoom, coll_addr: fi_addr_t, root_addr: fi_addr_t,
        datatype: fi_datatype, flags: u64, context: EntryRoom);
    alltoall(buf: Data, count: usize, desc: EntryRoom, result: EntryRoom, result_desc: EntryRoom,
        coll_addr: fi_addr_t, datatype: fi_datatype, flags: u64, context: EntryRoom);
    allreduce(buf: Data, count: usize, desc: EntryRoom, result: EntryRoom, result_desc: EntryRoom,
        coll_addr: fi_addr_t, datatype: fi_datatype, op: fi_op, flags: u64, context: EntryRoom);
    allgather(buf: Data, count: usize, desc: EntryRoom, result: EntryRoom, result_desc: EntryRoom,
        coll_addr: fi_addr_t, datatype: fi_datatype, flags: u64, context: EntryRoom);
    reduce_scatter(buf: Data, count: usize, desc: EntryRoom, result: EntryRoom, result_desc: EntryRoom,
        coll_addr: fi_addr_t, datatype: fi_datatype, op: fi_op, flags: u64, context: EntryRoom);
    reduce(buf: Data, count: usize, desc: EntryRoom, result: EntryRoom, result_desc: EntryRoom,
        coll_addr: fi_addr_t, root_addr: fi_addr_t, datatype: fi_datatype, op: fi_op, flags: u64,
        context: EntryRoom);
    scatter(buf: Data, count: usize, desc: EntryRoom, result: EntryRoom, result_desc: EntryRoom,
        coll_addr: fi_addr_t, root_addr: fi_addr_t, datatype: fi_datatype, flags: u64, context: EntryRoom);
    gather(buf: Data, count: usize, desc: EntryRoom, result: EntryRoom, result_desc: EntryRoom,
        coll_addr: fi_addr_t, root_addr: fi_addr_t, datatype: fi_datatype, flags: u64, context: EntryRoom);
    msg(msg: *const fi_msg_collective, resultv: *mut fi_ioc, result_desc: *mut EntryRoom, result_count: usize,
        flags: u64);
    barrier2(coll_addr: fi_addr_t, flags: u64, context: EntryRoom);
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
