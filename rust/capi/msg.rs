// SPDX-License-Identifier: GPL-2.0

//! Message calls of C callers: the table of `fid_ep.msg` for a provider's endpoints.

use super::{
    prelude::*,
    xfer_args::*, //
};
use crate::fi::provider::{
    Endpoint,
    SingleSegment, //
};

/// Table of calls for endpoints of type `E`.
pub(super) struct Table<E>(PhantomData<E>);

impl<E: Endpoint> Table<E> {
    fi_ops! {
        pub(super) const OPS: fi_ops_msg {
            recvv: fn fi_recvv(ep: TypedEp<'_, E>, iov, desc, count, src_addr, context) -> isize {
                let args = ep.rx_args(context).with_peer(src_addr);
                // SAFETY: `iov` and `desc` have `count` entries; the memory is valid until the transfer completes.
                unsafe { post_vector(iov, desc, count, args, |message| ep.receive(message)) }
            }

            recvmsg: fn fi_recvmsg(ep: TypedEp<'_, E>, msg, flags) -> Result<isize> {
                // SAFETY: `msg` is NULL or valid.
                let msg = unsafe { msg.as_ref() }.ok_or(Errno::EINVAL)?;
                let args = ep.recvmsg_args(msg, flags)?;
                let (iov, desc, count) = (msg.msg_iov, msg.desc, msg.iov_count);
                // SAFETY: `iov` and `desc` have `count` entries; the memory is valid until the transfer completes.
                Ok(unsafe { post_any_vector(iov, desc, count, args, |message| ep.receive(message)) })
            }

            sendv: fn fi_sendv(ep: TypedEp<'_, E>, iov, desc, count, dest_addr, context) -> isize {
                let args = ep.tx_args(context).with_peer(dest_addr);
                // SAFETY: `iov` and `desc` have `count` entries; the memory is valid until the transfer completes.
                unsafe { post_vector(iov, desc, count, args, |message| ep.send(message)) }
            }

            sendmsg: fn fi_sendmsg(ep: TypedEp<'_, E>, msg, flags) -> Result<isize> {
                // SAFETY: `msg` is NULL or valid.
                let msg = unsafe { msg.as_ref() }.ok_or(Errno::EINVAL)?;
                let args = XferArgs {
                    data: msg.data,
                    ..XferArgs::new(msg.context, flags).with_peer(msg.addr)
                };
                let (iov, desc, count) = (msg.msg_iov, msg.desc, msg.iov_count);
                // SAFETY: `iov` and `desc` have `count` entries; the memory is valid until the transfer completes.
                Ok(unsafe { post_any_vector(iov, desc, count, args, |message| ep.send(message)) })
            }

            senddata: fn fi_senddata(
                ep: TypedEp<'_, E>, buf, len, desc, data, dest_addr, context,
            ) -> isize {
                let args = ep.tx_args(context).with_data(data).with_peer(dest_addr);
                // SAFETY: The memory and its descriptor are valid until the transfer completes.
                unsafe { post_single(buf, len, desc, args, |message| ep.send(message)) }
            }

            injectdata: fn fi_injectdata(ep: TypedEp<'_, E>, buf, len, data, dest_addr) -> isize {
                let args = ep.inject_args().with_data(data).with_peer(dest_addr);
                // SAFETY: The memory is valid during the call.
                unsafe { post_single(buf, len, ptr::null_mut(), args, |message| ep.send(message)) }
            }
        }
        fast {
            recv: fn fi_recv(ep: TypedEp<'_, E>, buf, len, desc, src_addr, context) -> isize {
                let args = (context, ep.rx_op_flags());
                let post = |one: &SingleSegment<'_>| ep.provider.try_fast_receive(one);
                // SAFETY: The memory and its descriptor are valid until the transfer completes.
                unsafe { try_fast_post(buf, len, desc, args, post) }
            } else {
                let args = ep.rx_args(context).with_peer(src_addr);
                // SAFETY: As above.
                unsafe { post_single(buf, len, desc, args, |message| ep.receive(message)) }
            }

            send: fn fi_send(ep: TypedEp<'_, E>, buf, len, desc, dest_addr, context) -> isize {
                let args = (context, ep.tx_op_flags());
                let post = |one: &SingleSegment<'_>| ep.try_fast_send(one, untagged(dest_addr));
                // SAFETY: The memory and its descriptor are valid until the transfer completes.
                unsafe { try_fast_post(buf, len, desc, args, post) }
            } else {
                let args = ep.tx_args(context).with_peer(dest_addr);
                // SAFETY: As above.
                unsafe { post_single(buf, len, desc, args, |message| ep.send(message)) }
            }

            inject: fn fi_inject(ep: TypedEp<'_, E>, buf, len, dest_addr) -> isize {
                let post = |memory: &Segment| ep.try_fast_inject(memory, untagged(dest_addr));
                // SAFETY: The memory is valid during the call.
                unsafe { try_fast_inject(buf, len, post) }
            } else {
                let args = ep.inject_args().with_peer(dest_addr);
                // SAFETY: As above.
                unsafe { post_single(buf, len, ptr::null_mut(), args, |message| ep.send(message)) }
            }
        }
    }
}
