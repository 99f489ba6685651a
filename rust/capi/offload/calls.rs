// SPDX-License-Identifier: GPL-2.0

//! The collectives of an endpoint: those of its offload.

use super::{
    super::{
        ep::EndpointObject,
        object, //
    },
    open::table, //
};
use crate::abi::{
    fi_addr_t,
    fi_datatype,
    fi_ioc,
    fi_msg_collective,
    fi_op,
    fi_ops_collective,
    fid_ep,
    Errno, //
};
use kernel::prelude::*;

macro_rules! collectives {
    ($($call:ident($($arg:ident: $type:ty),*);)*) => {
        $(
            unsafe extern "C" fn $call(ep: *mut fid_ep $(, $arg: $type)*) -> isize {
                // SAFETY: As the C caller promises; the offload's objects are open as long as it is there.
                unsafe {
                    let offload = object::object::<EndpointObject>(ep.cast())
                        .and_then(EndpointObject::offload);
                    let theirs = match offload {
                        Ok(offload) => offload.ep(),
                        Err(errno) => return errno.to_ssize(),
                    };
                    match table((*theirs).collective).ok().and_then(|ops| ops.$call) {
                        Some(call) => call(theirs $(, $arg)*),
                        None => Errno::ENOSYS.to_ssize(),
                    }
                }
            }
        )*

        /// The collectives of an endpoint: those of its offload, or none.
        pub(in super::super) static COLLECTIVE: fi_ops_collective = fi_ops_collective {
            size: size_of::<fi_ops_collective>(),
            $($call: Some($call),)*
        };
    };
}

type Data = *const c_void;
type Room = *mut c_void;

collectives! {
    barrier(coll_addr: fi_addr_t, context: Room);
    broadcast(buf: Room, count: usize, desc: Room, coll_addr: fi_addr_t, root_addr: fi_addr_t,
        datatype: fi_datatype, flags: u64, context: Room);
    alltoall(buf: Data, count: usize, desc: Room, result: Room, result_desc: Room,
        coll_addr: fi_addr_t, datatype: fi_datatype, flags: u64, context: Room);
    allreduce(buf: Data, count: usize, desc: Room, result: Room, result_desc: Room,
        coll_addr: fi_addr_t, datatype: fi_datatype, op: fi_op, flags: u64, context: Room);
    allgather(buf: Data, count: usize, desc: Room, result: Room, result_desc: Room,
        coll_addr: fi_addr_t, datatype: fi_datatype, flags: u64, context: Room);
    reduce_scatter(buf: Data, count: usize, desc: Room, result: Room, result_desc: Room,
        coll_addr: fi_addr_t, datatype: fi_datatype, op: fi_op, flags: u64, context: Room);
    reduce(buf: Data, count: usize, desc: Room, result: Room, result_desc: Room,
        coll_addr: fi_addr_t, root_addr: fi_addr_t, datatype: fi_datatype, op: fi_op, flags: u64,
        context: Room);
    scatter(buf: Data, count: usize, desc: Room, result: Room, result_desc: Room,
        coll_addr: fi_addr_t, root_addr: fi_addr_t, datatype: fi_datatype, flags: u64, context: Room);
    gather(buf: Data, count: usize, desc: Room, result: Room, result_desc: Room,
        coll_addr: fi_addr_t, root_addr: fi_addr_t, datatype: fi_datatype, flags: u64, context: Room);
    msg(msg: *const fi_msg_collective, resultv: *mut fi_ioc, result_desc: *mut Room, result_count: usize,
        flags: u64);
    barrier2(coll_addr: fi_addr_t, flags: u64, context: Room);
}
