// SPDX-License-Identifier: GPL-2.0

//! Tagged messages for C callers: the table of `fid_ep.tagged` for a provider's endpoints.

use super::{
    ops::fi_ops,
    xfer_args::{
        post_any_vector,
        post_single,
        post_vector,
        TypedEp,
        XferArgs, //
    },
};
use crate::{
    abi::{
        fi_msg_tagged,
        fi_ops_tagged,
        flags::FI_MULTI_RECV,
        kvec, //
    },
    fi::{
        prelude::*,
        provider::Endpoint, //
    },
};

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
    fi_ops! {
        pub(super) const OPS: fi_ops_tagged {
            recv: fn fi_trecv(
                ep: *mut fid_ep as TypedEp<'_, E>,
                buf: *mut c_void,
                len: usize,
                desc: *mut c_void,
                src_addr: fi_addr_t,
                tag: u64,
                ignore: u64,
                context: *mut c_void,
            ) -> isize {
                let args = XferArgs::new(context, rx_default_flags(ep.rx_op_flags()))
                    .with_peer(src_addr)
                    .with_tag(tag, ignore);
                // SAFETY: The memory and its descriptor are valid until the transfer completes.
                unsafe { post_single(buf, len, desc, args, |message| ep.receive(message)) }
            }

            recvv: fn fi_trecvv(
                ep: *mut fid_ep as TypedEp<'_, E>,
                iov: *const kvec,
                desc: *mut *mut c_void,
                count: usize,
                src_addr: fi_addr_t,
                tag: u64,
                ignore: u64,
                context: *mut c_void,
            ) -> isize {
                let args = XferArgs::new(context, rx_default_flags(ep.rx_op_flags()))
                    .with_peer(src_addr)
                    .with_tag(tag, ignore);
                // SAFETY: `iov` and `desc` have `count` entries; the memory is valid until the transfer completes.
                unsafe { post_vector(iov, desc, count, args, |message| ep.receive(message)) }
            }

            recvmsg: fn fi_trecvmsg(
                ep: *mut fid_ep as TypedEp<'_, E>,
                msg: *const fi_msg_tagged,
                flags: u64,
            ) -> isize {
                // SAFETY: `msg` is NULL or valid.
                let Some(msg) = (unsafe { msg.as_ref() }) else {
                    return Errno::EINVAL.to_ssize();
                };
                let args = msg_args(msg, flags);
                let (iov, desc, count) = (msg.msg_iov, msg.desc, msg.iov_count);
                // SAFETY: `iov` and `desc` have `count` entries; the memory is valid until the transfer completes.
                unsafe { post_any_vector(iov, desc, count, args, |message| ep.receive(message)) }
            }

            send: fn fi_tsend(
                ep: *mut fid_ep as TypedEp<'_, E>,
                buf: *const c_void,
                len: usize,
                desc: *mut c_void,
                dest_addr: fi_addr_t,
                tag: u64,
                context: *mut c_void,
            ) -> isize {
                let args = XferArgs::new(context, ep.tx_op_flags())
                    .with_peer(dest_addr)
                    .with_tag(tag, 0);
                // SAFETY: The memory and its descriptor are valid until the transfer completes.
                unsafe { post_single(buf.cast_mut(), len, desc, args, |message| ep.send(message)) }
            }

            sendv: fn fi_tsendv(
                ep: *mut fid_ep as TypedEp<'_, E>,
                iov: *const kvec,
                desc: *mut *mut c_void,
                count: usize,
                dest_addr: fi_addr_t,
                tag: u64,
                context: *mut c_void,
            ) -> isize {
                let args = XferArgs::new(context, ep.tx_op_flags())
                    .with_peer(dest_addr)
                    .with_tag(tag, 0);
                // SAFETY: `iov` and `desc` have `count` entries; the memory is valid until the transfer completes.
                unsafe { post_vector(iov, desc, count, args, |message| ep.send(message)) }
            }

            sendmsg: fn fi_tsendmsg(
                ep: *mut fid_ep as TypedEp<'_, E>,
                msg: *const fi_msg_tagged,
                flags: u64,
            ) -> isize {
                // SAFETY: `msg` is NULL or valid.
                let Some(msg) = (unsafe { msg.as_ref() }) else {
                    return Errno::EINVAL.to_ssize();
                };
                let args = msg_args(msg, flags);
                let (iov, desc, count) = (msg.msg_iov, msg.desc, msg.iov_count);
                // SAFETY: `iov` and `desc` have `count` entries; the memory is valid until the transfer completes.
                unsafe { post_any_vector(iov, desc, count, args, |message| ep.send(message)) }
            }

            inject: fn fi_tinject(
                ep: *mut fid_ep as TypedEp<'_, E>,
                buf: *const c_void,
                len: usize,
                dest_addr: fi_addr_t,
                tag: u64,
            ) -> isize {
                let args = XferArgs::new(ptr::null_mut(), ep.tx_op_flags())
                    .with_peer(dest_addr)
                    .with_tag(tag, 0)
                    .into_inject();
                // SAFETY: The memory is valid during the call.
                unsafe {
                    post_single(buf.cast_mut(), len, ptr::null_mut(), args, |message| {
                        ep.send(message)
                    })
                }
            }

            senddata: fn fi_tsenddata(
                ep: *mut fid_ep as TypedEp<'_, E>,
                buf: *const c_void,
                len: usize,
                desc: *mut c_void,
                data: u64,
                dest_addr: fi_addr_t,
                tag: u64,
                context: *mut c_void,
            ) -> isize {
                let args = XferArgs::with_data(context, ep.tx_op_flags(), data)
                    .with_peer(dest_addr)
                    .with_tag(tag, 0);
                // SAFETY: The memory and its descriptor are valid until the transfer completes.
                unsafe { post_single(buf.cast_mut(), len, desc, args, |message| ep.send(message)) }
            }

            injectdata: fn fi_tinjectdata(
                ep: *mut fid_ep as TypedEp<'_, E>,
                buf: *const c_void,
                len: usize,
                data: u64,
                dest_addr: fi_addr_t,
                tag: u64,
            ) -> isize {
                let args = XferArgs::with_data(ptr::null_mut(), ep.tx_op_flags(), data)
                    .with_peer(dest_addr)
                    .with_tag(tag, 0)
                    .into_inject();
                // SAFETY: The memory is valid during the call.
                unsafe {
                    post_single(buf.cast_mut(), len, ptr::null_mut(), args, |message| {
                        ep.send(message)
                    })
                }
            }
        }
    }
}
