// SPDX-License-Identifier: GPL-2.0

//! Remote memory access for C callers: `struct fi_ops_rma`, the table that `fid_ep.rma` points to.

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
        fi_msg_rma,
        fi_ops_rma,
        fi_rma_iov,
        kvec, //
    },
    fi::{
        prelude::*,
        provider::{
            Endpoint,
            Operation,
            Rma,
            SingleSegment, //
        },
    },
};

/// The calls of `struct fi_ops_rma` for endpoints of type `E`.
pub(super) struct Table<E>(PhantomData<E>);

/// Maximum number of remote ranges that a call may pass; a provider may accept fewer.
const MAX_REMOTE_RANGES: usize = 256;

impl<E: Endpoint> Table<E> {
    fi_ops! {
        pub(super) const OPS: fi_ops_rma {
            read: fn fi_read(
                ep: *mut fid_ep as TypedEp<'_, E>,
                buf: *mut c_void,
                len: usize,
                desc: *mut c_void,
                src_addr: fi_addr_t,
                addr: u64,
                key: u64,
                context: *mut c_void,
            ) -> isize {
                let args = (context, ep.tx_op_flags());
                let remote = fi_rma_iov { addr, len, key };
                let post = |one: &SingleSegment<'_>| {
                    let op = Operation::Rma(Rma::Read, slice::from_ref(&remote));
                    ep.provider.try_fast_transmit(op, one)
                };
                // SAFETY: The memory and its descriptor are valid until the transfer completes.
                match unsafe { try_fast_post(buf, len, desc, args, post) } {
                    Some(posted) => posted,
                    // SAFETY: The arguments are those of this call.
                    None => unsafe {
                        Self::slow_read(ep.as_ptr(), buf, len, desc, src_addr, addr, key, context)
                    },
                }
            }

            readv: fn fi_readv(
                ep: *mut fid_ep as TypedEp<'_, E>,
                iov: *const kvec,
                desc: *mut *mut c_void,
                count: usize,
                src_addr: fi_addr_t,
                addr: u64,
                key: u64,
                context: *mut c_void,
            ) -> isize {
                let args = XferArgs::for_read(context, ep.tx_op_flags()).with_peer(src_addr);
                let remote = (addr, key);
                // SAFETY: `iov` and `desc` have `count` entries; the memory is valid until the transfer completes.
                unsafe {
                    post_vector(iov, desc, count, args, |message| {
                        ep.post_rma(Rma::Read, remote, message)
                    })
                }
            }

            readmsg: fn fi_readmsg(
                ep: *mut fid_ep as TypedEp<'_, E>,
                msg: *const fi_msg_rma,
                flags: u64,
            ) -> isize {
                // SAFETY: `msg` is NULL or valid.
                unsafe { Self::post_msg(&ep, msg, flags, Rma::Read) }
            }

            write: fn fi_write(
                ep: *mut fid_ep as TypedEp<'_, E>,
                buf: *const c_void,
                len: usize,
                desc: *mut c_void,
                dest_addr: fi_addr_t,
                addr: u64,
                key: u64,
                context: *mut c_void,
            ) -> isize {
                let args = (context, ep.tx_op_flags());
                let remote = fi_rma_iov { addr, len, key };
                let post = |one: &SingleSegment<'_>| {
                    let op = Operation::Rma(Rma::Write, slice::from_ref(&remote));
                    ep.provider.try_fast_transmit(op, one)
                };
                // SAFETY: The memory and its descriptor are valid until the transfer completes.
                match unsafe { try_fast_post(buf.cast_mut(), len, desc, args, post) } {
                    Some(posted) => posted,
                    // SAFETY: The arguments are those of this call.
                    None => unsafe {
                        Self::slow_write(ep.as_ptr(), buf, len, desc, dest_addr, addr, key, context)
                    },
                }
            }

            writev: fn fi_writev(
                ep: *mut fid_ep as TypedEp<'_, E>,
                iov: *const kvec,
                desc: *mut *mut c_void,
                count: usize,
                dest_addr: fi_addr_t,
                addr: u64,
                key: u64,
                context: *mut c_void,
            ) -> isize {
                let args = XferArgs::new(context, ep.tx_op_flags()).with_peer(dest_addr);
                let remote = (addr, key);
                // SAFETY: `iov` and `desc` have `count` entries; the memory is valid until the transfer completes.
                unsafe {
                    post_vector(iov, desc, count, args, |message| {
                        ep.post_rma(Rma::Write, remote, message)
                    })
                }
            }

            writemsg: fn fi_writemsg(
                ep: *mut fid_ep as TypedEp<'_, E>,
                msg: *const fi_msg_rma,
                flags: u64,
            ) -> isize {
                // SAFETY: `msg` is NULL or valid.
                unsafe { Self::post_msg(&ep, msg, flags, Rma::Write) }
            }

            inject: fn fi_inject_write(
                ep: *mut fid_ep as TypedEp<'_, E>,
                buf: *const c_void,
                len: usize,
                dest_addr: fi_addr_t,
                addr: u64,
                key: u64,
            ) -> isize {
                let flags = ep.tx_op_flags();
                let remote = fi_rma_iov { addr, len, key };
                let post = |memory: &Segment| {
                    let op = Operation::Rma(Rma::Write, slice::from_ref(&remote));
                    ep.provider.try_fast_inject(op, memory, flags)
                };
                // SAFETY: The memory is valid during the call.
                match unsafe { try_fast_inject(buf, len, post) } {
                    Some(posted) => posted,
                    // SAFETY: The arguments are those of this call.
                    None => unsafe {
                        Self::slow_inject(ep.as_ptr(), buf, len, dest_addr, addr, key)
                    },
                }
            }

            writedata: fn fi_writedata(
                ep: *mut fid_ep as TypedEp<'_, E>,
                buf: *const c_void,
                len: usize,
                desc: *mut c_void,
                data: u64,
                dest_addr: fi_addr_t,
                addr: u64,
                key: u64,
                context: *mut c_void,
            ) -> isize {
                let args =
                    XferArgs::with_data(context, ep.tx_op_flags(), data).with_peer(dest_addr);
                let remote = (addr, key);
                // SAFETY: The memory and its descriptor are valid until the transfer completes.
                unsafe {
                    post_single(buf.cast_mut(), len, desc, args, |message| {
                        ep.post_rma(Rma::Write, remote, message)
                    })
                }
            }

            injectdata: fn fi_inject_writedata(
                ep: *mut fid_ep as TypedEp<'_, E>,
                buf: *const c_void,
                len: usize,
                data: u64,
                dest_addr: fi_addr_t,
                addr: u64,
                key: u64,
            ) -> isize {
                let args = XferArgs::with_data(ptr::null_mut(), ep.tx_op_flags(), data)
                    .with_peer(dest_addr)
                    .into_inject();
                let remote = (addr, key);
                // SAFETY: The memory is valid during the call.
                unsafe {
                    post_single(buf.cast_mut(), len, ptr::null_mut(), args, |message| {
                        ep.post_rma(Rma::Write, remote, message)
                    })
                }
            }
        }
    }

    fi_ops! {
        slow fn slow_read(
            ep: *mut fid_ep as TypedEp<'_, E>,
            buf: *mut c_void,
            len: usize,
            desc: *mut c_void,
            src_addr: fi_addr_t,
            addr: u64,
            key: u64,
            context: *mut c_void,
        ) -> isize {
            let args = XferArgs::for_read(context, ep.tx_op_flags()).with_peer(src_addr);
            let remote = (addr, key);
            // SAFETY: The memory and its descriptor are valid until the transfer completes.
            unsafe {
                post_single(buf, len, desc, args, |message| {
                    ep.post_rma(Rma::Read, remote, message)
                })
            }
        }

        slow fn slow_write(
            ep: *mut fid_ep as TypedEp<'_, E>,
            buf: *const c_void,
            len: usize,
            desc: *mut c_void,
            dest_addr: fi_addr_t,
            addr: u64,
            key: u64,
            context: *mut c_void,
        ) -> isize {
            let args = XferArgs::new(context, ep.tx_op_flags()).with_peer(dest_addr);
            let remote = (addr, key);
            // SAFETY: The memory and its descriptor are valid until the transfer completes.
            unsafe {
                post_single(buf.cast_mut(), len, desc, args, |message| {
                    ep.post_rma(Rma::Write, remote, message)
                })
            }
        }

        slow fn slow_inject(
            ep: *mut fid_ep as TypedEp<'_, E>,
            buf: *const c_void,
            len: usize,
            dest_addr: fi_addr_t,
            addr: u64,
            key: u64,
        ) -> isize {
            let args = XferArgs::new(ptr::null_mut(), ep.tx_op_flags())
                .with_peer(dest_addr)
                .into_inject();
            let remote = (addr, key);
            // SAFETY: The memory is valid during the call.
            unsafe {
                post_single(buf.cast_mut(), len, ptr::null_mut(), args, |message| {
                    ep.post_rma(Rma::Write, remote, message)
                })
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
