// SPDX-License-Identifier: GPL-2.0

//! Remote memory access for C callers: `struct fi_ops_rma`, the table that `fid_ep.rma` points to.

use super::{
    nosys,
    xfer_args::{
        ep_from_fid,
        post_any_vector,
        post_single,
        post_vector,
        remote_range,
        try_fast_inject,
        try_fast_post,
        XferArgs, //
    },
};
use crate::{
    abi::{
        fi_addr_t,
        fi_msg_rma,
        fi_ops_rma,
        fi_rma_iov,
        fid_ep,
        kvec,
        Errno,
        Result, //
    },
    fi::provider::{
        Endpoint,
        Message,
        Operation,
        Rma, //
    },
};
use core::{
    marker::PhantomData,
    ptr,
    slice, //
};
use kernel::prelude::*;

/// The calls of `struct fi_ops_rma` for endpoints of type `E`.
pub(super) struct Table<E>(PhantomData<E>);

/// Maximum number of remote ranges that a call may pass; a provider may accept fewer.
const MAX_REMOTE_RANGES: usize = 256;

/// Posts a read or write of one range of the peer's memory, which is as long as the message.
#[inline]
fn post_one<E: Endpoint>(
    endpoint: &E,
    message: &Message<'_>,
    (addr, key): (u64, u64),
    op: Rma,
) -> Result {
    let remote = remote_range(message, addr, key)?;
    endpoint.transmit(Operation::Rma(op, slice::from_ref(&remote)), message)
}

impl<E: Endpoint> Table<E> {
    pub(super) const OPS: fi_ops_rma = fi_ops_rma {
        read: Some(Self::read),
        readv: Some(Self::readv),
        readmsg: Some(Self::readmsg),
        write: Some(Self::write),
        writev: Some(Self::writev),
        writemsg: Some(Self::writemsg),
        inject: Some(Self::inject),
        writedata: Some(Self::writedata),
        injectdata: Some(Self::injectdata),
        ..nosys::RMA
    };

    unsafe extern "C" fn read(
        ep: *mut fid_ep,
        buf: *mut c_void,
        len: usize,
        desc: *mut c_void,
        src_addr: fi_addr_t,
        addr: u64,
        key: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: By the contract of `fi_read()`.
        unsafe {
            let (object, endpoint) = ep_from_fid::<E>(ep);
            let args = (context, object.tx_op_flags());
            let remote = fi_rma_iov { addr, len, key };
            let posted = try_fast_post(buf, len, desc, args, |one| {
                let read = Operation::Rma(Rma::Read, slice::from_ref(&remote));
                endpoint.try_fast_transmit(read, one)
            });
            match posted {
                Some(posted) => posted,
                None => Self::read_any(ep, buf, len, desc, src_addr, addr, key, context),
            }
        }
    }

    /// Implements the slow path of `fi_read()`: posts any read.
    ///
    /// # Safety
    ///
    /// The contract of `fi_read()`.
    #[inline(never)]
    unsafe extern "C" fn read_any(
        ep: *mut fid_ep,
        buf: *mut c_void,
        len: usize,
        desc: *mut c_void,
        src_addr: fi_addr_t,
        addr: u64,
        key: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: By the contract of `fi_read()`.
        unsafe {
            let (object, endpoint) = ep_from_fid::<E>(ep);
            let args = XferArgs::for_read(context, object.tx_op_flags()).with_peer(src_addr);
            post_single(buf, len, desc, args, |message| {
                post_one(endpoint, message, (addr, key), Rma::Read)
            })
        }
    }

    unsafe extern "C" fn readv(
        ep: *mut fid_ep,
        iov: *const kvec,
        desc: *mut *mut c_void,
        count: usize,
        src_addr: fi_addr_t,
        addr: u64,
        key: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: By the contract of `fi_readv()`.
        unsafe {
            let (object, endpoint) = ep_from_fid::<E>(ep);
            let args = XferArgs::for_read(context, object.tx_op_flags()).with_peer(src_addr);
            post_vector(iov, desc, count, args, |message| {
                post_one(endpoint, message, (addr, key), Rma::Read)
            })
        }
    }

    unsafe extern "C" fn readmsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize {
        // SAFETY: By the contract of `fi_readmsg()`.
        unsafe { Self::post_msg(ep, msg, flags, Rma::Read) }
    }

    unsafe extern "C" fn writemsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize {
        // SAFETY: By the contract of `fi_writemsg()`.
        unsafe { Self::post_msg(ep, msg, flags, Rma::Write) }
    }

    /// Implements `fi_readmsg()` and `fi_writemsg()`: posts a read or write with the flags and the remote ranges that
    /// the caller passes.
    ///
    /// # Safety
    ///
    /// The contract of `fi_readmsg()` or `fi_writemsg()`.
    #[inline]
    unsafe fn post_msg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64, op: Rma) -> isize {
        // SAFETY: By the contract of `fi_readmsg()` or `fi_writemsg()`.
        unsafe {
            let (_, endpoint) = ep_from_fid::<E>(ep);
            let Some(msg) = msg.as_ref() else {
                return Errno::EINVAL.to_ssize();
            };
            if msg.rma_iov.is_null() || msg.rma_iov_count > MAX_REMOTE_RANGES {
                return Errno::EINVAL.to_ssize();
            }
            let remote = slice::from_raw_parts(msg.rma_iov, msg.rma_iov_count);
            let args = XferArgs {
                data: msg.data,
                ..XferArgs::new(msg.context, flags).with_peer(msg.addr)
            };
            post_any_vector(msg.msg_iov, msg.desc, msg.iov_count, args, |message| {
                endpoint.transmit(Operation::Rma(op, remote), message)
            })
        }
    }

    /// Posts a write from one range of local memory.
    ///
    /// # Safety
    ///
    /// The contract of `fi_write()`.
    #[inline]
    unsafe fn write_one(
        ep: *mut fid_ep,
        (buf, len, desc): (*const c_void, usize, *mut c_void),
        (addr, key): (u64, u64),
        make_args: impl FnOnce(u64) -> XferArgs,
    ) -> isize {
        // SAFETY: By the contract of `fi_write()`; a write only reads the local memory.
        unsafe {
            let (object, endpoint) = ep_from_fid::<E>(ep);
            let args = make_args(object.tx_op_flags());
            post_single(buf.cast_mut(), len, desc, args, |message| {
                post_one(endpoint, message, (addr, key), Rma::Write)
            })
        }
    }

    unsafe extern "C" fn write(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        desc: *mut c_void,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: By the contract of `fi_write()`.
        unsafe {
            let (object, endpoint) = ep_from_fid::<E>(ep);
            let args = (context, object.tx_op_flags());
            let remote = fi_rma_iov { addr, len, key };
            let posted = try_fast_post(buf.cast_mut(), len, desc, args, |one| {
                let write = Operation::Rma(Rma::Write, slice::from_ref(&remote));
                endpoint.try_fast_transmit(write, one)
            });
            match posted {
                Some(posted) => posted,
                None => Self::write_any(ep, buf, len, desc, dest_addr, addr, key, context),
            }
        }
    }

    /// Implements the slow path of `fi_write()`: posts any write.
    ///
    /// # Safety
    ///
    /// The contract of `fi_write()`.
    #[inline(never)]
    unsafe extern "C" fn write_any(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        desc: *mut c_void,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: By the contract of `fi_write()`.
        unsafe {
            Self::write_one(ep, (buf, len, desc), (addr, key), |flags| {
                XferArgs::new(context, flags).with_peer(dest_addr)
            })
        }
    }

    unsafe extern "C" fn writev(
        ep: *mut fid_ep,
        iov: *const kvec,
        desc: *mut *mut c_void,
        count: usize,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: By the contract of `fi_writev()`.
        unsafe {
            let (object, endpoint) = ep_from_fid::<E>(ep);
            let args = XferArgs::new(context, object.tx_op_flags()).with_peer(dest_addr);
            post_vector(iov, desc, count, args, |message| {
                post_one(endpoint, message, (addr, key), Rma::Write)
            })
        }
    }

    unsafe extern "C" fn inject(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
    ) -> isize {
        // SAFETY: By the contract of `fi_inject_write()`.
        unsafe {
            let (object, endpoint) = ep_from_fid::<E>(ep);
            let remote = fi_rma_iov { addr, len, key };
            let posted = try_fast_inject(buf, len, |segment| {
                let write = Operation::Rma(Rma::Write, slice::from_ref(&remote));
                endpoint.try_fast_inject(write, segment, object.tx_op_flags())
            });
            match posted {
                Some(posted) => posted,
                None => Self::inject_any(ep, buf, len, dest_addr, addr, key),
            }
        }
    }

    /// Implements the slow path of `fi_inject_write()`: posts any injected write.
    ///
    /// # Safety
    ///
    /// The contract of `fi_inject_write()`.
    #[inline(never)]
    unsafe extern "C" fn inject_any(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
    ) -> isize {
        // SAFETY: By the contract of `fi_inject_write()`.
        unsafe {
            Self::write_one(ep, (buf, len, ptr::null_mut()), (addr, key), |flags| {
                XferArgs::new(ptr::null_mut(), flags)
                    .with_peer(dest_addr)
                    .into_inject()
            })
        }
    }

    unsafe extern "C" fn writedata(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        desc: *mut c_void,
        data: u64,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: By the contract of `fi_writedata()`.
        unsafe {
            Self::write_one(ep, (buf, len, desc), (addr, key), |flags| {
                XferArgs::with_data(context, flags, data).with_peer(dest_addr)
            })
        }
    }

    unsafe extern "C" fn injectdata(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        data: u64,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
    ) -> isize {
        // SAFETY: By the contract of `fi_inject_writedata()`.
        unsafe {
            Self::write_one(ep, (buf, len, ptr::null_mut()), (addr, key), |flags| {
                XferArgs::with_data(ptr::null_mut(), flags, data)
                    .with_peer(dest_addr)
                    .into_inject()
            })
        }
    }
}
