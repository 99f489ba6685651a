// SPDX-License-Identifier: GPL-2.0

//! Arguments of a C caller's transfer, and their translation to a [`Message`]. The modules of the tables use
//! this one.

use super::ep::EndpointObject;
use crate::{
    abi::{
        errno::into_ssize,
        fi_addr_t,
        fi_rma_iov,
        fid_ep,
        flags::*,
        kvec,
        Errno,
        Result,
        FI_ADDR_UNSPEC, //
    },
    fi::{
        memory::{
            Context,
            Descriptor,
            Memory,
            Segment, //
        },
        provider::{
            Endpoint,
            Message,
            Operation,
            SingleSegment,
            Tag, //
        },
    },
    util::cold::call_cold, //
};
use core::slice;
use kernel::prelude::*;

/// Returns the object of an endpoint, and the provider's part of it.
///
/// # Safety
///
/// `ep` is an endpoint of the C API with a table of transfers for type `E`.
#[inline]
pub(super) unsafe fn ep_from_fid<'a, E: Endpoint>(ep: *mut fid_ep) -> (&'a EndpointObject, &'a E) {
    // SAFETY: By the caller's contract, `ep` is an endpoint of the C API.
    let object = unsafe { &*ep.cast::<EndpointObject>() };
    // SAFETY: Only endpoints of type `E` get these tables.
    (object, unsafe { &*object.provider_ep().cast::<E>() })
}

/// Arguments of a transfer other than its memory.
#[derive(Clone, Copy)]
pub(super) struct XferArgs {
    pub(super) context: *mut c_void,
    pub(super) flags: u64,
    /// True if only an error writes a completion entry.
    pub(super) errors_only: bool,
    pub(super) data: u64,
    /// Destination of a send, or source of a receive.
    pub(super) peer: fi_addr_t,
    pub(super) tag: Option<Tag>,
}

impl XferArgs {
    /// Makes the arguments of a transfer without remote CQ data.
    #[inline]
    pub(super) fn new(context: *mut c_void, flags: u64) -> Self {
        Self {
            context,
            flags,
            errors_only: false,
            data: 0,
            peer: FI_ADDR_UNSPEC,
            tag: None,
        }
    }

    /// Makes the arguments of a read from the endpoint's op_flags, without those that concern outbound data
    /// only: [`FI_INJECT`] and the completion levels.
    #[inline]
    pub(super) fn for_read(context: *mut c_void, flags: u64) -> Self {
        Self::new(context, flags & !(FI_INJECT | COMPLETION_LEVELS))
    }

    /// Makes the arguments of a transfer with remote CQ data.
    #[inline]
    pub(super) fn with_data(context: *mut c_void, flags: u64, data: u64) -> Self {
        Self {
            context,
            flags: flags | FI_REMOTE_CQ_DATA,
            data,
            ..Self::new(context, flags)
        }
    }

    /// Sets the tag, and the tag bits to ignore.
    #[inline]
    pub(super) fn with_tag(self, tag: u64, ignore: u64) -> Self {
        let tag = Some(Tag { tag, ignore });
        Self { tag, ..self }
    }

    /// Sets the peer's address.
    #[inline]
    pub(super) fn with_peer(self, peer: fi_addr_t) -> Self {
        Self { peer, ..self }
    }

    /// Makes the transfer an inject: the caller may reuse the memory when the call returns, and only an error
    /// writes a completion entry.
    #[inline]
    pub(super) fn into_inject(self) -> Self {
        Self {
            flags: self.flags & !(FI_COMPLETION | COMPLETION_LEVELS) | FI_INJECT,
            errors_only: true,
            ..self
        }
    }
}

/// Completion levels of a transmit, which have no meaning for one that writes no completion entry.
const COMPLETION_LEVELS: u64 = FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;

/// Posts a message of one range of memory through `post`.
///
/// # Safety
///
/// The memory and the descriptor are as [`Segment::new`] and [`Descriptor::new`] require.
#[inline(always)]
pub(super) unsafe fn post_single(
    buf: *mut c_void,
    len: usize,
    desc: *mut c_void,
    args: XferArgs,
    post: impl FnOnce(&Message<'_>) -> Result,
) -> isize {
    // SAFETY: By the caller's contract, the memory and the descriptor are valid.
    let (segment, descriptor) = unsafe { (Segment::new(buf, len), Descriptor::new(desc)) };
    into_isize(post(&Message {
        memory: Memory::Segments(slice::from_ref(&segment)),
        descriptors: slice::from_ref(&descriptor),
        context: Context::new(args.context),
        flags: args.flags,
        errors_only: args.errors_only,
        data: args.data,
        peer: args.peer,
        tag: args.tag,
    }))
}

/// Posts one range of memory with the endpoint's own flags on the fast path; `None` if the fast path does not
/// apply.
///
/// # Safety
///
/// The requirements of [`post_single`].
#[inline(always)]
pub(super) unsafe fn try_fast_post(
    buf: *mut c_void,
    len: usize,
    desc: *mut c_void,
    (context, flags): (*mut c_void, u64),
    post: impl FnOnce(&SingleSegment<'_>) -> Option<Result>,
) -> Option<isize> {
    // SAFETY: By the contract of `post_single`.
    let (segment, descriptor) = unsafe { (Segment::new(buf, len), Descriptor::new(desc)) };
    let posted = post(&SingleSegment {
        segment: &segment,
        descriptor,
        context: Context::new(context),
        flags,
    })?;
    Some(into_isize_fast(posted))
}

/// Sends one range of memory; `make_args` makes the other arguments from the endpoint's flags.
///
/// # Safety
///
/// The contract of `fi_send()`.
#[inline]
pub(super) unsafe fn send_one<E: Endpoint>(
    ep: *mut fid_ep,
    (buf, len, desc): (*const c_void, usize, *mut c_void),
    make_args: impl FnOnce(u64) -> XferArgs,
) -> isize {
    // SAFETY: By the contract of `fi_send()`; a send only reads the memory.
    unsafe {
        let (object, endpoint) = ep_from_fid::<E>(ep);
        let args = make_args(object.tx_op_flags());
        post_single(buf.cast_mut(), len, desc, args, |message| {
            endpoint.transmit(Operation::Send, message)
        })
    }
}

/// Receives into one range of memory; `make_args` makes the other arguments from the endpoint's flags.
///
/// # Safety
///
/// The contract of `fi_recv()`.
#[inline]
pub(super) unsafe fn receive_one<E: Endpoint>(
    ep: *mut fid_ep,
    (buf, len, desc): (*mut c_void, usize, *mut c_void),
    make_args: impl FnOnce(u64) -> XferArgs,
) -> isize {
    // SAFETY: By the contract of `fi_recv()`.
    unsafe {
        let (object, endpoint) = ep_from_fid::<E>(ep);
        let args = make_args(object.rx_op_flags());
        post_single(buf, len, desc, args, |message| endpoint.receive(message))
    }
}

/// A C caller's vector, its descriptors, and the number of entries of each.
pub(super) type Vector = (*const kvec, *mut *mut c_void, usize);

/// Sends a vector; `make_args` makes the other arguments from the endpoint's flags.
///
/// # Safety
///
/// The contract of `fi_sendv()`.
#[inline]
pub(super) unsafe fn send_vector<E: Endpoint>(
    ep: *mut fid_ep,
    (iov, desc, count): Vector,
    make_args: impl FnOnce(u64) -> XferArgs,
) -> isize {
    // SAFETY: By the contract of `fi_sendv()`.
    unsafe {
        let (object, endpoint) = ep_from_fid::<E>(ep);
        let args = make_args(object.tx_op_flags());
        post_vector(iov, desc, count, args, |message| {
            endpoint.transmit(Operation::Send, message)
        })
    }
}

/// Receives into a vector; `make_args` makes the other arguments from the endpoint's flags.
///
/// # Safety
///
/// The contract of `fi_recvv()`.
#[inline]
pub(super) unsafe fn receive_vector<E: Endpoint>(
    ep: *mut fid_ep,
    (iov, desc, count): Vector,
    make_args: impl FnOnce(u64) -> XferArgs,
) -> isize {
    // SAFETY: By the contract of `fi_recvv()`.
    unsafe {
        let (object, endpoint) = ep_from_fid::<E>(ep);
        let args = make_args(object.rx_op_flags());
        post_vector(iov, desc, count, args, |message| endpoint.receive(message))
    }
}

/// Sends the memory of an `fi_msg` or `fi_msg_tagged`, in the form that its flags name.
///
/// # Safety
///
/// The contract of `fi_sendmsg()`.
#[inline]
pub(super) unsafe fn send_any<E: Endpoint>(
    ep: *mut fid_ep,
    (iov, desc, count): Vector,
    args: XferArgs,
) -> isize {
    // SAFETY: By the contract of `fi_sendmsg()`.
    unsafe {
        let (_, endpoint) = ep_from_fid::<E>(ep);
        post_any_vector(iov, desc, count, args, |message| {
            endpoint.transmit(Operation::Send, message)
        })
    }
}

/// Receives into the memory of an `fi_msg` or `fi_msg_tagged`, in the form that its flags name.
///
/// # Safety
///
/// The contract of `fi_recvmsg()`.
#[inline]
pub(super) unsafe fn receive_any<E: Endpoint>(
    ep: *mut fid_ep,
    (iov, desc, count): Vector,
    args: XferArgs,
) -> isize {
    // SAFETY: By the contract of `fi_recvmsg()`.
    unsafe {
        let (_, endpoint) = ep_from_fid::<E>(ep);
        post_any_vector(iov, desc, count, args, |message| endpoint.receive(message))
    }
}

/// Injects one range of memory on the fast path; `None` if the fast path does not apply.
///
/// # Safety
///
/// The requirements of [`post_single`].
#[inline(always)]
pub(super) unsafe fn try_fast_inject(
    buf: *const c_void,
    len: usize,
    post: impl FnOnce(&Segment) -> Option<Result>,
) -> Option<isize> {
    // SAFETY: By the contract of `post_single`.
    let posted = post(&unsafe { Segment::new(buf.cast_mut(), len) })?;
    Some(into_isize_fast(posted))
}

/// Converts a result as [`into_isize`] does, with the error path out of line.
#[inline(always)]
pub(super) fn into_isize_fast(posted: Result) -> isize {
    match posted {
        Ok(()) => 0,
        Err(errno) => call_cold(move || errno.to_ssize()),
    }
}

/// Posts a message of a vector of kernel addresses through `post`.
///
/// # Safety
///
/// The requirements of [`post_single`]; `iov` and, unless it is NULL, `desc` have `count` entries.
#[inline(never)]
pub(super) unsafe fn post_vector(
    iov: *const kvec,
    desc: *mut *mut c_void,
    count: usize,
    args: XferArgs,
    post: impl FnOnce(&Message<'_>) -> Result,
) -> isize {
    // SAFETY: By the contract of `post_vector`.
    unsafe {
        let memory = Segment::from_vector(iov, count).map(Memory::Segments);
        post_described(memory, desc, args, post)
    }
}

/// Posts a message of a vector in the form that the flags name through `post`.
///
/// # Safety
///
/// The requirements of [`post_vector`]; with FI_BVEC or FI_SGL, `iov` points to that kind of vector.
#[inline]
pub(super) unsafe fn post_any_vector(
    iov: *const kvec,
    desc: *mut *mut c_void,
    count: usize,
    args: XferArgs,
    post: impl FnOnce(&Message<'_>) -> Result,
) -> isize {
    // SAFETY: By the contract of `post_any_vector`.
    unsafe {
        let memory = match args.flags & VECTOR_FORMS {
            0 => Segment::from_vector(iov, count).map(Memory::Segments),
            FI_BVEC => Memory::from_page_ranges(iov.cast(), count),
            FI_SGL => Memory::from_scatterlist(iov.cast(), count),
            _ => Err(Errno::EBADFLAGS),
        };
        let flags = args.flags & !VECTOR_FORMS;
        post_described(memory, desc, XferArgs { flags, ..args }, post)
    }
}

/// Flags for a vector that is not of kernel addresses.
const VECTOR_FORMS: u64 = FI_BVEC | FI_SGL;

/// Posts a message of memory and its descriptors through `post`.
///
/// # Safety
///
/// `desc` is NULL, or has a valid descriptor for each entry of `memory`.
#[inline]
unsafe fn post_described(
    memory: Result<Memory<'_>>,
    desc: *mut *mut c_void,
    args: XferArgs,
    post: impl FnOnce(&Message<'_>) -> Result,
) -> isize {
    let memory = match memory {
        Ok(memory) => memory,
        Err(errno) => return errno.to_ssize(),
    };
    into_isize(post(&Message {
        memory,
        // SAFETY: By the caller's contract, `desc` is NULL or has a descriptor for each entry.
        descriptors: unsafe { Descriptor::from_vector(desc, memory.count()) },
        context: Context::new(args.context),
        flags: args.flags,
        errors_only: args.errors_only,
        data: args.data,
        peer: args.peer,
        tag: args.tag,
    }))
}

/// Returns the range of the peer's memory that has as many bytes as `message`.
///
/// # Errors
///
/// -FI_EMSGSIZE if the number of bytes overflows.
#[inline]
pub(super) fn remote_range(message: &Message<'_>, addr: u64, key: u64) -> Result<fi_rma_iov> {
    let len = message.memory.total_len()?;
    Ok(fi_rma_iov { addr, len, key })
}

#[inline]
fn into_isize(result: Result) -> isize {
    into_ssize(result.map(|()| 0))
}
