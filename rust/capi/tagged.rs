// SPDX-License-Identifier: GPL-2.0

//! Tagged messages for C callers: the table of `fid_ep.tagged` for a provider's endpoints.

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

/// Returns the arguments of `fi_trecvmsg()` and `fi_tsendmsg()` other than the memory.
pub(super) fn msg_args(msg: &fi_msg_tagged, flags: u64) -> XferArgs {
    XferArgs {
        data: msg.data,
        ..XferArgs::new(msg.context, flags)
            .with_peer(msg.addr)
            .with_tag(msg.tag, msg.ignore)
    }
}

impl<E: Endpoint> Table<E> {
    /// Makes the arguments of a receive with the default flags that apply to tagged receives: FI_MULTI_RECV does
    /// not.
    #[inline(always)]
    fn rx_args(ep: &TypedEp<'_, E>, context: *mut c_void) -> XferArgs {
        XferArgs::new(context, ep.rx_op_flags() & !FI_MULTI_RECV)
    }

    fi_ops! {
        pub(super) const OPS: fi_ops_tagged {
            recv: fn fi_trecv(
                ep: TypedEp<'_, E>, buf, len, desc, src_addr, tag, ignore, context,
            ) -> isize {
                let args = Self::rx_args(&ep, context).with_peer(src_addr).with_tag(tag, ignore);
                // SAFETY: The memory and its descriptor are valid until the transfer completes.
                unsafe { post_single(buf, len, desc, args, |message| ep.receive(message)) }
            }

            recvv: fn fi_trecvv(
                ep: TypedEp<'_, E>, iov, desc, count, src_addr, tag, ignore, context,
            ) -> isize {
                let args = Self::rx_args(&ep, context).with_peer(src_addr).with_tag(tag, ignore);
                // SAFETY: `iov` and `desc` have `count` entries; the memory is valid until the transfer completes.
                unsafe { post_vector(iov, desc, count, args, |message| ep.receive(message)) }
            }

            recvmsg: fn fi_trecvmsg(ep: TypedEp<'_, E>, msg, flags) -> Result<isize> {
                // SAFETY: `msg` is NULL or valid.
                let msg = unsafe { msg.as_ref() }.ok_or(Errno::EINVAL)?;
                let args = msg_args(msg, flags);
                let (iov, desc, count) = (msg.msg_iov, msg.desc, msg.iov_count);
                // SAFETY: `iov` and `desc` have `count` entries; the memory is valid until the transfer completes.
                Ok(unsafe { post_any_vector(iov, desc, count, args, |message| ep.receive(message)) })
            }

            sendv: fn fi_tsendv(
                ep: TypedEp<'_, E>, iov, desc, count, dest_addr, tag, context,
            ) -> isize {
                let args = ep.tx_args(context).with_peer(dest_addr).with_tag(tag, 0);
                // SAFETY: `iov` and `desc` have `count` entries; the memory is valid until the transfer completes.
                unsafe { post_vector(iov, desc, count, args, |message| ep.send(message)) }
            }

            sendmsg: fn fi_tsendmsg(ep: TypedEp<'_, E>, msg, flags) -> Result<isize> {
                // SAFETY: `msg` is NULL or valid.
                let msg = unsafe { msg.as_ref() }.ok_or(Errno::EINVAL)?;
                let args = msg_args(msg, flags);
                let (iov, desc, count) = (msg.msg_iov, msg.desc, msg.iov_count);
                // SAFETY: `iov` and `desc` have `count` entries; the memory is valid until the transfer completes.
                Ok(unsafe { post_any_vector(iov, desc, count, args, |message| ep.send(message)) })
            }

            senddata: fn fi_tsenddata(
                ep: TypedEp<'_, E>, buf, len, desc, data, dest_addr, tag, context,
            ) -> isize {
                let args = ep.tx_args(context).with_data(data);
                let args = args.with_peer(dest_addr).with_tag(tag, 0);
                // SAFETY: The memory and its descriptor are valid until the transfer completes.
                unsafe { post_single(buf, len, desc, args, |message| ep.send(message)) }
            }

            injectdata: fn fi_tinjectdata(
                ep: TypedEp<'_, E>, buf, len, data, dest_addr, tag,
            ) -> isize {
                let args = ep.inject_args().with_data(data);
                let args = args.with_peer(dest_addr).with_tag(tag, 0);
                // SAFETY: The memory is valid during the call.
                unsafe { post_single(buf, len, ptr::null_mut(), args, |message| ep.send(message)) }
            }
        }
        fast {
            send: fn fi_tsend(ep: TypedEp<'_, E>, buf, len, desc, dest_addr, tag, context) -> isize {
                let args = (context, ep.tx_op_flags());
                let post = |one: &SingleSegment<'_>| ep.try_fast_send(one, tagged(dest_addr, tag));
                // SAFETY: The memory and its descriptor are valid until the transfer completes.
                unsafe { try_fast_post(buf, len, desc, args, post) }
            } else {
                let args = ep.tx_args(context).with_peer(dest_addr).with_tag(tag, 0);
                // SAFETY: As above.
                unsafe { post_single(buf, len, desc, args, |message| ep.send(message)) }
            }

            inject: fn fi_tinject(ep: TypedEp<'_, E>, buf, len, dest_addr, tag) -> isize {
                let post = |memory: &Segment| ep.try_fast_inject(memory, tagged(dest_addr, tag));
                // SAFETY: The memory is valid during the call.
                unsafe { try_fast_inject(buf, len, post) }
            } else {
                let args = ep.inject_args().with_peer(dest_addr).with_tag(tag, 0);
                // SAFETY: As above.
                unsafe { post_single(buf, len, ptr::null_mut(), args, |message| ep.send(message)) }
            }
        }
    }
}
