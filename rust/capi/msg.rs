// SPDX-License-Identifier: GPL-2.0

//! Messages: the table of `fid_ep.msg` for a provider's endpoints.

use super::{
    ep::EndpointObject,
    nosys, //
};
use crate::{
    abi::{
        errno::into_ssize,
        fi_addr_t,
        fi_msg,
        fi_ops_msg,
        fid_ep,
        kvec,
        Errno,
        Result, //
    },
    fi::{
        memory::{
            Context,
            Descriptor,
            Segment, //
        },
        provider::{
            Endpoint,
            Message, //
        },
    },
};
use core::{
    marker::PhantomData,
    slice, //
};
use kernel::prelude::*;

/// The calls for endpoints of type `E`.
pub(super) struct Table<E>(PhantomData<E>);

/// What a C caller passes, and what its endpoint is.
///
/// # Safety
///
/// `ep` is an endpoint of the C API whose `msg` is the table of `E`.
#[inline]
unsafe fn parts<'a, E: Endpoint>(ep: *mut fid_ep) -> (&'a EndpointObject, &'a E) {
    // SAFETY: By this function's safety requirement.
    let object = unsafe { &*ep.cast::<EndpointObject>() };
    // SAFETY: `EndpointObject` gets this table only with an endpoint of type `E`.
    (object, unsafe { &*object.exact().cast::<E>() })
}

#[inline]
fn answer(result: Result) -> isize {
    into_ssize(result.map(|()| 0))
}

/// One range of memory and its descriptor, as a message.
///
/// # Safety
///
/// The caller answers for the memory and the descriptor as the types demand.
#[inline]
unsafe fn single(
    buf: *mut c_void,
    len: usize,
    desc: *mut c_void,
    context: *mut c_void,
    flags: u64,
    post: impl FnOnce(&Message<'_>) -> Result,
) -> isize {
    // SAFETY: By this function's safety requirement.
    let (segment, descriptor) = unsafe { (Segment::new(buf, len), Descriptor::new(desc)) };
    answer(post(&Message {
        segments: slice::from_ref(&segment),
        descriptors: slice::from_ref(&descriptor),
        context: Context::new(context),
        flags,
    }))
}

/// A vector of memory, as a message.
///
/// # Safety
///
/// As of [`single`]; `iov` and, unless it is NULL, `desc` have `count` entries.
#[inline]
unsafe fn vector(
    iov: *const kvec,
    desc: *mut *mut c_void,
    count: usize,
    context: *mut c_void,
    flags: u64,
    post: impl FnOnce(&Message<'_>) -> Result,
) -> isize {
    // SAFETY: By this function's safety requirement.
    let segments = match unsafe { Segment::from_vector(iov, count) } {
        Ok(segments) => segments,
        Err(errno) => return errno.to_ssize(),
    };
    answer(post(&Message {
        segments,
        // SAFETY: By this function's safety requirement.
        descriptors: unsafe { Descriptor::from_vector(desc, segments.len()) },
        context: Context::new(context),
        flags,
    }))
}

impl<E: Endpoint> Table<E> {
    pub(super) const OPS: fi_ops_msg = fi_ops_msg {
        recv: Some(Self::recv),
        recvv: Some(Self::recvv),
        recvmsg: Some(Self::recvmsg),
        send: Some(Self::send),
        sendv: Some(Self::sendv),
        sendmsg: Some(Self::sendmsg),
        ..nosys::MSG
    };

    unsafe extern "C" fn recv(
        ep: *mut fid_ep,
        buf: *mut c_void,
        len: usize,
        desc: *mut c_void,
        _src_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: As a C caller of `fi_recv()` promises.
        unsafe {
            let (object, endpoint) = parts::<E>(ep);
            let flags = object.receive_flags();
            single(buf, len, desc, context, flags, |message| {
                endpoint.receive(message)
            })
        }
    }

    unsafe extern "C" fn recvv(
        ep: *mut fid_ep,
        iov: *const kvec,
        desc: *mut *mut c_void,
        count: usize,
        _src_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: As a C caller of `fi_recvv()` promises.
        unsafe {
            let (object, endpoint) = parts::<E>(ep);
            let flags = object.receive_flags();
            vector(iov, desc, count, context, flags, |message| {
                endpoint.receive(message)
            })
        }
    }

    unsafe extern "C" fn recvmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize {
        // SAFETY: As a C caller of `fi_recvmsg()` promises.
        unsafe {
            let (_, endpoint) = parts::<E>(ep);
            let Some(msg) = msg.as_ref() else {
                return Errno::EINVAL.to_ssize();
            };
            vector(
                msg.msg_iov,
                msg.desc,
                msg.iov_count,
                msg.context,
                flags,
                |message| endpoint.receive(message),
            )
        }
    }

    unsafe extern "C" fn send(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        desc: *mut c_void,
        _dest_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: As a C caller of `fi_send()` promises; a send only reads the memory.
        unsafe {
            let (object, endpoint) = parts::<E>(ep);
            let flags = object.transmit_flags();
            single(buf.cast_mut(), len, desc, context, flags, |message| {
                endpoint.send(message)
            })
        }
    }

    unsafe extern "C" fn sendv(
        ep: *mut fid_ep,
        iov: *const kvec,
        desc: *mut *mut c_void,
        count: usize,
        _dest_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: As a C caller of `fi_sendv()` promises.
        unsafe {
            let (object, endpoint) = parts::<E>(ep);
            let flags = object.transmit_flags();
            vector(iov, desc, count, context, flags, |message| {
                endpoint.send(message)
            })
        }
    }

    unsafe extern "C" fn sendmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize {
        // SAFETY: As a C caller of `fi_sendmsg()` promises.
        unsafe {
            let (_, endpoint) = parts::<E>(ep);
            let Some(msg) = msg.as_ref() else {
                return Errno::EINVAL.to_ssize();
            };
            vector(
                msg.msg_iov,
                msg.desc,
                msg.iov_count,
                msg.context,
                flags,
                |message| endpoint.send(message),
            )
        }
    }
}
