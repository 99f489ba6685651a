// SPDX-License-Identifier: GPL-2.0

//! Remote memory access for C callers: `struct fi_ops_rma`, the table that `fid_ep.rma` points to.

use super::{
    prelude::*,
    xfer_args::*, //
};
use crate::fi::provider::{
    Endpoint,
    Operation,
    Rma,
    SingleSegment, //
};

/// The calls of `struct fi_ops_rma` for endpoints of type `E`.
pub(super) struct Table<E>(PhantomData<E>);

/// Maximum number of remote ranges that a call may pass; a provider may accept fewer.
const MAX_REMOTE_RANGES: usize = 256;

impl<E: Endpoint> Table<E> {
    fi_ops! {
        pub(super) const OPS: fi_ops_rma {
            readv: fn fi_readv(
                ep: TypedEp<'_, E>, iov, desc, count, src_addr, addr, key, context,
            ) -> isize {
                let args = ep.read_args(context).with_peer(src_addr);
                let remote = (addr, key);
                // SAFETY: `iov` and `desc` have `count` entries; the memory is valid until the transfer completes.
                unsafe { post_vector(iov, desc, count, args, |msg| ep.read(remote, msg)) }
            }

            readmsg: fn fi_readmsg(ep: TypedEp<'_, E>, msg, flags) -> isize {
                // SAFETY: `msg` is NULL or valid.
                unsafe { Self::post_msg(&ep, msg, flags, Rma::Read) }
            }

            writev: fn fi_writev(
                ep: TypedEp<'_, E>, iov, desc, count, dest_addr, addr, key, context,
            ) -> isize {
                let args = ep.tx_args(context).with_peer(dest_addr);
                let remote = (addr, key);
                // SAFETY: `iov` and `desc` have `count` entries; the memory is valid until the transfer completes.
                unsafe { post_vector(iov, desc, count, args, |msg| ep.write(remote, msg)) }
            }

            writemsg: fn fi_writemsg(ep: TypedEp<'_, E>, msg, flags) -> isize {
                // SAFETY: `msg` is NULL or valid.
                unsafe { Self::post_msg(&ep, msg, flags, Rma::Write) }
            }

            writedata: fn fi_writedata(
                ep: TypedEp<'_, E>, buf, len, desc, data, dest_addr, addr, key, context,
            ) -> isize {
                let args = ep.tx_args(context).with_data(data).with_peer(dest_addr);
                let remote = (addr, key);
                // SAFETY: The memory and its descriptor are valid until the transfer completes.
                unsafe { post_single(buf, len, desc, args, |msg| ep.write(remote, msg)) }
            }

            injectdata: fn fi_inject_writedata(
                ep: TypedEp<'_, E>, buf, len, data, dest_addr, addr, key,
            ) -> isize {
                let args = ep.inject_args().with_data(data).with_peer(dest_addr);
                let remote = (addr, key);
                // SAFETY: The memory is valid during the call.
                unsafe { post_single(buf, len, ptr::null_mut(), args, |msg| ep.write(remote, msg)) }
            }
        }
        fast {
            read: fn fi_read(
                ep: TypedEp<'_, E>, buf, len, desc, src_addr, addr, key, context,
            ) -> isize {
                let (remote, to) = (fi_rma_iov { addr, len, key }, untagged(src_addr));
                let post = |one: &SingleSegment<'_>| {
                    let op = Operation::Rma(Rma::Read, slice::from_ref(&remote));
                    ep.provider.try_fast_transmit(op, one, to)
                };
                // SAFETY: The memory and its descriptor are valid until the transfer completes.
                unsafe { try_fast_post(buf, len, desc, (context, ep.tx_op_flags()), post) }
            } else {
                let args = ep.read_args(context).with_peer(src_addr);
                let remote = (addr, key);
                // SAFETY: As above.
                unsafe { post_single(buf, len, desc, args, |msg| ep.read(remote, msg)) }
            }

            write: fn fi_write(
                ep: TypedEp<'_, E>, buf, len, desc, dest_addr, addr, key, context,
            ) -> isize {
                let (remote, to) = (fi_rma_iov { addr, len, key }, untagged(dest_addr));
                let post = |one: &SingleSegment<'_>| {
                    let op = Operation::Rma(Rma::Write, slice::from_ref(&remote));
                    ep.provider.try_fast_transmit(op, one, to)
                };
                // SAFETY: The memory and its descriptor are valid until the transfer completes.
                unsafe { try_fast_post(buf, len, desc, (context, ep.tx_op_flags()), post) }
            } else {
                let args = ep.tx_args(context).with_peer(dest_addr);
                let remote = (addr, key);
                // SAFETY: As above.
                unsafe { post_single(buf, len, desc, args, |msg| ep.write(remote, msg)) }
            }

            inject: fn fi_inject_write(ep: TypedEp<'_, E>, buf, len, dest_addr, addr, key) -> isize {
                let flags = ep.tx_op_flags();
                let (remote, to) = (fi_rma_iov { addr, len, key }, untagged(dest_addr));
                let post = |memory: &Segment| {
                    let op = Operation::Rma(Rma::Write, slice::from_ref(&remote));
                    ep.provider.try_fast_inject(op, memory, flags, to)
                };
                // SAFETY: The memory is valid during the call.
                unsafe { try_fast_inject(buf, len, post) }
            } else {
                let args = ep.inject_args().with_peer(dest_addr);
                let remote = (addr, key);
                // SAFETY: As above.
                unsafe { post_single(buf, len, ptr::null_mut(), args, |msg| ep.write(remote, msg)) }
            }
        }
    }

    /// Implements `fi_readmsg()` and `fi_writemsg()`: posts a read or write with the flags and the remote ranges that
    /// the caller passes.
    ///
    /// # Safety
    ///
    /// `msg` is NULL or valid, with vectors and memory as `fi_readmsg()` or `fi_writemsg()` requires.
    #[inline]
    unsafe fn post_msg(ep: &TypedEp<'_, E>, msg: *const fi_msg_rma, flags: u64, op: Rma) -> isize {
        // SAFETY: By the caller's contract, `msg` is NULL or valid.
        let Some(msg) = (unsafe { msg.as_ref() }) else {
            return Errno::EINVAL.to_ssize();
        };
        if msg.rma_iov.is_null() || msg.rma_iov_count > MAX_REMOTE_RANGES {
            return Errno::EINVAL.to_ssize();
        }
        // SAFETY: `rma_iov` is not NULL, and has `rma_iov_count` entries.
        let remote = unsafe { slice::from_raw_parts(msg.rma_iov, msg.rma_iov_count) };
        let args = XferArgs {
            data: msg.data,
            ..XferArgs::new(msg.context, flags).with_peer(msg.addr)
        };
        // SAFETY: By the caller's contract, the vectors have as many entries as they say, and the memory is
        // valid until the transfer completes.
        unsafe {
            post_any_vector(msg.msg_iov, msg.desc, msg.iov_count, args, |message| {
                ep.provider.transmit(Operation::Rma(op, remote), message)
            })
        }
    }
}
