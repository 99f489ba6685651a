// SPDX-License-Identifier: GPL-2.0

//! Message calls of C callers: the table of `fid_ep.msg` for a provider's endpoints.

use super::{
    nosys,
    xfer_args::{
        ep_from_fid,
        receive_any,
        receive_one,
        receive_vector,
        send_any,
        send_one,
        send_vector,
        try_fast_inject,
        try_fast_post,
        XferArgs, //
    },
};
use crate::{
    abi::{
        fi_addr_t,
        fi_msg,
        fi_ops_msg,
        fid_ep,
        kvec,
        Errno, //
    },
    fi::provider::{
        Endpoint,
        Operation, //
    },
};
use core::{
    marker::PhantomData,
    ptr, //
};
use kernel::prelude::*;

/// Table of calls for endpoints of type `E`.
pub(super) struct Table<E>(PhantomData<E>);

impl<E: Endpoint> Table<E> {
    pub(super) const OPS: fi_ops_msg = fi_ops_msg {
        recv: Some(Self::recv),
        recvv: Some(Self::recvv),
        recvmsg: Some(Self::recvmsg),
        send: Some(Self::send),
        sendv: Some(Self::sendv),
        sendmsg: Some(Self::sendmsg),
        inject: Some(Self::inject),
        senddata: Some(Self::senddata),
        injectdata: Some(Self::injectdata),
        ..nosys::MSG
    };

    unsafe extern "C" fn recv(
        ep: *mut fid_ep,
        buf: *mut c_void,
        len: usize,
        desc: *mut c_void,
        src_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: By the contract of `fi_recv()`.
        unsafe {
            let (object, endpoint) = ep_from_fid::<E>(ep);
            let args = (context, object.rx_op_flags());
            let posted = try_fast_post(buf, len, desc, args, |one| endpoint.try_fast_receive(one));
            match posted {
                Some(posted) => posted,
                None => Self::recv_any(ep, buf, len, desc, src_addr, context),
            }
        }
    }

    /// Posts a receive of any kind, without the fast path (`fi_recv()`).
    ///
    /// # Safety
    ///
    /// The contract of `fi_recv()`.
    #[inline(never)]
    unsafe extern "C" fn recv_any(
        ep: *mut fid_ep,
        buf: *mut c_void,
        len: usize,
        desc: *mut c_void,
        src_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: By the contract of `fi_recv()`.
        unsafe {
            receive_one::<E>(ep, (buf, len, desc), |flags| {
                XferArgs::new(context, flags).with_peer(src_addr)
            })
        }
    }

    unsafe extern "C" fn recvv(
        ep: *mut fid_ep,
        iov: *const kvec,
        desc: *mut *mut c_void,
        count: usize,
        src_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: By the contract of `fi_recvv()`.
        unsafe {
            receive_vector::<E>(ep, (iov, desc, count), |flags| {
                XferArgs::new(context, flags).with_peer(src_addr)
            })
        }
    }

    unsafe extern "C" fn recvmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize {
        // SAFETY: By the contract of `fi_recvmsg()`.
        unsafe {
            let Some(msg) = msg.as_ref() else {
                return Errno::EINVAL.to_ssize();
            };
            let args = XferArgs::new(msg.context, flags).with_peer(msg.addr);
            receive_any::<E>(ep, (msg.msg_iov, msg.desc, msg.iov_count), args)
        }
    }

    unsafe extern "C" fn send(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        desc: *mut c_void,
        dest_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: By the contract of `fi_send()`.
        unsafe {
            let (object, endpoint) = ep_from_fid::<E>(ep);
            let args = (context, object.tx_op_flags());
            let posted = try_fast_post(buf.cast_mut(), len, desc, args, |one| {
                endpoint.try_fast_transmit(Operation::Send, one)
            });
            match posted {
                Some(posted) => posted,
                None => Self::send_any(ep, buf, len, desc, dest_addr, context),
            }
        }
    }

    /// Posts a send of any kind, without the fast path (`fi_send()`).
    ///
    /// # Safety
    ///
    /// The contract of `fi_send()`.
    #[inline(never)]
    unsafe extern "C" fn send_any(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        desc: *mut c_void,
        dest_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: By the contract of `fi_send()`.
        unsafe {
            send_one::<E>(ep, (buf, len, desc), |flags| {
                XferArgs::new(context, flags).with_peer(dest_addr)
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
        context: *mut c_void,
    ) -> isize {
        // SAFETY: By the contract of `fi_senddata()`.
        unsafe {
            send_one::<E>(ep, (buf, len, desc), |flags| {
                XferArgs::with_data(context, flags, data).with_peer(dest_addr)
            })
        }
    }

    unsafe extern "C" fn inject(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        dest_addr: fi_addr_t,
    ) -> isize {
        // SAFETY: By the contract of `fi_inject()`.
        unsafe {
            let (object, endpoint) = ep_from_fid::<E>(ep);
            let posted = try_fast_inject(buf, len, |segment| {
                endpoint.try_fast_inject(Operation::Send, segment, object.tx_op_flags())
            });
            match posted {
                Some(posted) => posted,
                None => Self::inject_any(ep, buf, len, dest_addr),
            }
        }
    }

    /// Injects a message of any kind, without the fast path (`fi_inject()`).
    ///
    /// # Safety
    ///
    /// The contract of `fi_inject()`.
    #[inline(never)]
    unsafe extern "C" fn inject_any(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        dest_addr: fi_addr_t,
    ) -> isize {
        // SAFETY: By the contract of `fi_inject()`.
        unsafe {
            send_one::<E>(ep, (buf, len, ptr::null_mut()), |flags| {
                XferArgs::new(ptr::null_mut(), flags)
                    .with_peer(dest_addr)
                    .into_inject()
            })
        }
    }

    unsafe extern "C" fn injectdata(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        data: u64,
        dest_addr: fi_addr_t,
    ) -> isize {
        // SAFETY: By the contract of `fi_injectdata()`.
        unsafe {
            send_one::<E>(ep, (buf, len, ptr::null_mut()), |flags| {
                XferArgs::with_data(ptr::null_mut(), flags, data)
                    .with_peer(dest_addr)
                    .into_inject()
            })
        }
    }

    unsafe extern "C" fn sendv(
        ep: *mut fid_ep,
        iov: *const kvec,
        desc: *mut *mut c_void,
        count: usize,
        dest_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: By the contract of `fi_sendv()`.
        unsafe {
            send_vector::<E>(ep, (iov, desc, count), |flags| {
                XferArgs::new(context, flags).with_peer(dest_addr)
            })
        }
    }

    unsafe extern "C" fn sendmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize {
        // SAFETY: By the contract of `fi_sendmsg()`.
        unsafe {
            let Some(msg) = msg.as_ref() else {
                return Errno::EINVAL.to_ssize();
            };
            let args = XferArgs {
                data: msg.data,
                ..XferArgs::new(msg.context, flags).with_peer(msg.addr)
            };
            send_any::<E>(ep, (msg.msg_iov, msg.desc, msg.iov_count), args)
        }
    }
}
