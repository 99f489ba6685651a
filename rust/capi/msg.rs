// SPDX-License-Identifier: GPL-2.0

//! Message calls of C callers: the table of `fid_ep.msg` for a provider's endpoints.

use super::{
    ops::fi_ops,
    xfer_args::{
        post_any_vector,
        post_single,
        post_vector,
        try_fast_inject,
        try_fast_post,
        TypedEp,
        XferArgs, //
    },
};
use crate::{
    abi::{
        fi_msg,
        fi_ops_msg,
        kvec, //
    },
    fi::{
        prelude::*,
        provider::{
            Endpoint,
            Operation,
            SingleSegment, //
        },
    },
};

/// Table of calls for endpoints of type `E`.
pub(super) struct Table<E>(PhantomData<E>);

impl<E: Endpoint> Table<E> {
    fi_ops! {
        pub(super) const OPS: fi_ops_msg {
            recv: fn fi_recv(
                ep: *mut fid_ep as TypedEp<'_, E>,
                buf: *mut c_void,
                len: usize,
                desc: *mut c_void,
                src_addr: fi_addr_t,
                context: *mut c_void,
            ) -> isize {
                let args = (context, ep.rx_op_flags());
                let post = |one: &SingleSegment<'_>| ep.provider.try_fast_receive(one);
                // SAFETY: The memory and its descriptor are valid until the transfer completes.
                match unsafe { try_fast_post(buf, len, desc, args, post) } {
                    Some(posted) => posted,
                    // SAFETY: The arguments are those of this call.
                    None => unsafe {
                        Self::slow_recv(ep.as_ptr(), buf, len, desc, src_addr, context)
                    },
                }
            }

            recvv: fn fi_recvv(
                ep: *mut fid_ep as TypedEp<'_, E>,
                iov: *const kvec,
                desc: *mut *mut c_void,
                count: usize,
                src_addr: fi_addr_t,
                context: *mut c_void,
            ) -> isize {
                let args = XferArgs::new(context, ep.rx_op_flags()).with_peer(src_addr);
                // SAFETY: `iov` and `desc` have `count` entries; the memory is valid until the transfer completes.
                unsafe { post_vector(iov, desc, count, args, |message| ep.receive(message)) }
            }

            recvmsg: fn fi_recvmsg(
                ep: *mut fid_ep as TypedEp<'_, E>,
                msg: *const fi_msg,
                flags: u64,
            ) -> isize {
                // SAFETY: `msg` is NULL or valid.
                let Some(msg) = (unsafe { msg.as_ref() }) else {
                    return Errno::EINVAL.to_ssize();
                };
                let args = XferArgs::new(msg.context, flags).with_peer(msg.addr);
                let (iov, desc, count) = (msg.msg_iov, msg.desc, msg.iov_count);
                // SAFETY: `iov` and `desc` have `count` entries; the memory is valid until the transfer completes.
                unsafe { post_any_vector(iov, desc, count, args, |message| ep.receive(message)) }
            }

            send: fn fi_send(
                ep: *mut fid_ep as TypedEp<'_, E>,
                buf: *const c_void,
                len: usize,
                desc: *mut c_void,
                dest_addr: fi_addr_t,
                context: *mut c_void,
            ) -> isize {
                let args = (context, ep.tx_op_flags());
                let post =
                    |one: &SingleSegment<'_>| ep.provider.try_fast_transmit(Operation::Send, one);
                // SAFETY: The memory and its descriptor are valid until the transfer completes.
                match unsafe { try_fast_post(buf.cast_mut(), len, desc, args, post) } {
                    Some(posted) => posted,
                    // SAFETY: The arguments are those of this call.
                    None => unsafe {
                        Self::slow_send(ep.as_ptr(), buf, len, desc, dest_addr, context)
                    },
                }
            }

            sendv: fn fi_sendv(
                ep: *mut fid_ep as TypedEp<'_, E>,
                iov: *const kvec,
                desc: *mut *mut c_void,
                count: usize,
                dest_addr: fi_addr_t,
                context: *mut c_void,
            ) -> isize {
                let args = XferArgs::new(context, ep.tx_op_flags()).with_peer(dest_addr);
                // SAFETY: `iov` and `desc` have `count` entries; the memory is valid until the transfer completes.
                unsafe { post_vector(iov, desc, count, args, |message| ep.send(message)) }
            }

            sendmsg: fn fi_sendmsg(
                ep: *mut fid_ep as TypedEp<'_, E>,
                msg: *const fi_msg,
                flags: u64,
            ) -> isize {
                // SAFETY: `msg` is NULL or valid.
                let Some(msg) = (unsafe { msg.as_ref() }) else {
                    return Errno::EINVAL.to_ssize();
                };
                let args = XferArgs {
                    data: msg.data,
                    ..XferArgs::new(msg.context, flags).with_peer(msg.addr)
                };
                let (iov, desc, count) = (msg.msg_iov, msg.desc, msg.iov_count);
                // SAFETY: `iov` and `desc` have `count` entries; the memory is valid until the transfer completes.
                unsafe { post_any_vector(iov, desc, count, args, |message| ep.send(message)) }
            }

            inject: fn fi_inject(
                ep: *mut fid_ep as TypedEp<'_, E>,
                buf: *const c_void,
                len: usize,
                dest_addr: fi_addr_t,
            ) -> isize {
                let flags = ep.tx_op_flags();
                let post =
                    |memory: &Segment| ep.provider.try_fast_inject(Operation::Send, memory, flags);
                // SAFETY: The memory is valid during the call.
                match unsafe { try_fast_inject(buf, len, post) } {
                    Some(posted) => posted,
                    // SAFETY: The arguments are those of this call.
                    None => unsafe { Self::slow_inject(ep.as_ptr(), buf, len, dest_addr) },
                }
            }

            senddata: fn fi_senddata(
                ep: *mut fid_ep as TypedEp<'_, E>,
                buf: *const c_void,
                len: usize,
                desc: *mut c_void,
                data: u64,
                dest_addr: fi_addr_t,
                context: *mut c_void,
            ) -> isize {
                let args =
                    XferArgs::with_data(context, ep.tx_op_flags(), data).with_peer(dest_addr);
                // SAFETY: The memory and its descriptor are valid until the transfer completes.
                unsafe { post_single(buf.cast_mut(), len, desc, args, |message| ep.send(message)) }
            }

            injectdata: fn fi_injectdata(
                ep: *mut fid_ep as TypedEp<'_, E>,
                buf: *const c_void,
                len: usize,
                data: u64,
                dest_addr: fi_addr_t,
            ) -> isize {
                let args = XferArgs::with_data(ptr::null_mut(), ep.tx_op_flags(), data)
                    .with_peer(dest_addr)
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

    fi_ops! {
        slow fn slow_recv(
            ep: *mut fid_ep as TypedEp<'_, E>,
            buf: *mut c_void,
            len: usize,
            desc: *mut c_void,
            src_addr: fi_addr_t,
            context: *mut c_void,
        ) -> isize {
            let args = XferArgs::new(context, ep.rx_op_flags()).with_peer(src_addr);
            // SAFETY: The memory and its descriptor are valid until the transfer completes.
            unsafe { post_single(buf, len, desc, args, |message| ep.receive(message)) }
        }

        slow fn slow_send(
            ep: *mut fid_ep as TypedEp<'_, E>,
            buf: *const c_void,
            len: usize,
            desc: *mut c_void,
            dest_addr: fi_addr_t,
            context: *mut c_void,
        ) -> isize {
            let args = XferArgs::new(context, ep.tx_op_flags()).with_peer(dest_addr);
            // SAFETY: The memory and its descriptor are valid until the transfer completes.
            unsafe { post_single(buf.cast_mut(), len, desc, args, |message| ep.send(message)) }
        }

        slow fn slow_inject(
            ep: *mut fid_ep as TypedEp<'_, E>,
            buf: *const c_void,
            len: usize,
            dest_addr: fi_addr_t,
        ) -> isize {
            let args = XferArgs::new(ptr::null_mut(), ep.tx_op_flags())
                .with_peer(dest_addr)
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
