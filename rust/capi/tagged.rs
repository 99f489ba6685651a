// SPDX-License-Identifier: GPL-2.0

//! Tagged messages for C callers: the table of `fid_ep.tagged` for a provider's endpoints.

use super::{
    nosys,
    xfer_args::{
        receive_any,
        receive_one,
        receive_vector,
        send_any,
        send_one,
        send_vector,
        XferArgs, //
    },
};
use crate::{
    abi::{
        fi_addr_t,
        fi_msg_tagged,
        fi_ops_tagged,
        fid_ep,
        flags::FI_MULTI_RECV,
        kvec,
        Errno, //
    },
    fi::provider::Endpoint, //
};
use core::{
    marker::PhantomData,
    ptr, //
};
use kernel::prelude::*;

/// Table of calls for endpoints of type `E`.
pub(super) struct Table<E>(PhantomData<E>);

/// Returns the arguments of `fi_trecvmsg()` and `fi_tsendmsg()` other than the memory.
pub(super) fn msg_args(msg: &fi_msg_tagged, flags: u64) -> XferArgs {
    XferArgs {
        data: msg.data,
        ..XferArgs::new(msg.context, flags)
            .with_peer(msg.addr)
            .with_tag(msg.tag, msg.ignore)
    }
}

/// Returns the endpoint's default flags that apply to tagged receives: FI_MULTI_RECV does not.
fn rx_default_flags(flags: u64) -> u64 {
    flags & !FI_MULTI_RECV
}

impl<E: Endpoint> Table<E> {
    pub(super) const OPS: fi_ops_tagged = fi_ops_tagged {
        recv: Some(Self::recv),
        recvv: Some(Self::recvv),
        recvmsg: Some(Self::recvmsg),
        send: Some(Self::send),
        sendv: Some(Self::sendv),
        sendmsg: Some(Self::sendmsg),
        inject: Some(Self::inject),
        senddata: Some(Self::senddata),
        injectdata: Some(Self::injectdata),
        ..nosys::TAGGED
    };

    unsafe extern "C" fn recv(
        ep: *mut fid_ep,
        buf: *mut c_void,
        len: usize,
        desc: *mut c_void,
        src_addr: fi_addr_t,
        tag: u64,
        ignore: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: By the contract of `fi_trecv()`.
        unsafe {
            receive_one::<E>(ep, (buf, len, desc), |flags| {
                XferArgs::new(context, rx_default_flags(flags))
                    .with_peer(src_addr)
                    .with_tag(tag, ignore)
            })
        }
    }

    unsafe extern "C" fn recvv(
        ep: *mut fid_ep,
        iov: *const kvec,
        desc: *mut *mut c_void,
        count: usize,
        src_addr: fi_addr_t,
        tag: u64,
        ignore: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: By the contract of `fi_trecvv()`.
        unsafe {
            receive_vector::<E>(ep, (iov, desc, count), |flags| {
                XferArgs::new(context, rx_default_flags(flags))
                    .with_peer(src_addr)
                    .with_tag(tag, ignore)
            })
        }
    }

    unsafe extern "C" fn recvmsg(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> isize {
        // SAFETY: By the contract of `fi_trecvmsg()`.
        unsafe {
            let Some(msg) = msg.as_ref() else {
                return Errno::EINVAL.to_ssize();
            };
            let memory = (msg.msg_iov, msg.desc, msg.iov_count);
            receive_any::<E>(ep, memory, msg_args(msg, flags))
        }
    }

    unsafe extern "C" fn send(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        desc: *mut c_void,
        dest_addr: fi_addr_t,
        tag: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: By the contract of `fi_tsend()`.
        unsafe {
            send_one::<E>(ep, (buf, len, desc), |flags| {
                XferArgs::new(context, flags)
                    .with_peer(dest_addr)
                    .with_tag(tag, 0)
            })
        }
    }

    unsafe extern "C" fn sendv(
        ep: *mut fid_ep,
        iov: *const kvec,
        desc: *mut *mut c_void,
        count: usize,
        dest_addr: fi_addr_t,
        tag: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: By the contract of `fi_tsendv()`.
        unsafe {
            send_vector::<E>(ep, (iov, desc, count), |flags| {
                XferArgs::new(context, flags)
                    .with_peer(dest_addr)
                    .with_tag(tag, 0)
            })
        }
    }

    unsafe extern "C" fn sendmsg(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> isize {
        // SAFETY: By the contract of `fi_tsendmsg()`.
        unsafe {
            let Some(msg) = msg.as_ref() else {
                return Errno::EINVAL.to_ssize();
            };
            let memory = (msg.msg_iov, msg.desc, msg.iov_count);
            send_any::<E>(ep, memory, msg_args(msg, flags))
        }
    }

    unsafe extern "C" fn inject(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        dest_addr: fi_addr_t,
        tag: u64,
    ) -> isize {
        // SAFETY: By the contract of `fi_tinject()`.
        unsafe {
            send_one::<E>(ep, (buf, len, ptr::null_mut()), |flags| {
                XferArgs::new(ptr::null_mut(), flags)
                    .with_peer(dest_addr)
                    .with_tag(tag, 0)
                    .into_inject()
            })
        }
    }

    unsafe extern "C" fn senddata(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        desc: *mut c_void,
        data: u64,
        dest_addr: fi_addr_t,
        tag: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: By the contract of `fi_tsenddata()`.
        unsafe {
            send_one::<E>(ep, (buf, len, desc), |flags| {
                XferArgs::with_data(context, flags, data)
                    .with_peer(dest_addr)
                    .with_tag(tag, 0)
            })
        }
    }

    unsafe extern "C" fn injectdata(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        data: u64,
        dest_addr: fi_addr_t,
        tag: u64,
    ) -> isize {
        // SAFETY: By the contract of `fi_tinjectdata()`.
        unsafe {
            send_one::<E>(ep, (buf, len, ptr::null_mut()), |flags| {
                XferArgs::with_data(ptr::null_mut(), flags, data)
                    .with_peer(dest_addr)
                    .with_tag(tag, 0)
                    .into_inject()
            })
        }
    }
}
