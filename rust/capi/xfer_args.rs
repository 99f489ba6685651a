// SPDX-License-Identifier: GPL-2.0

//! From the arguments of a C caller's transfer to a message; the tables are in the modules below.

use super::ep::EndpointObject;
use crate::{
    abi::{
        cold::aside,
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
};
use core::slice;
use kernel::prelude::*;

/// What a C caller passes, and what its endpoint is.
///
/// # Safety
///
/// `ep` is an endpoint of the C API, one of whose tables of transfers is that of `E`.
#[inline]
pub(super) unsafe fn parts<'a, E: Endpoint>(ep: *mut fid_ep) -> (&'a EndpointObject, &'a E) {
    // SAFETY: By this function's safety requirement.
    let object = unsafe { &*ep.cast::<EndpointObject>() };
    // SAFETY: `EndpointObject` gets this table only with an endpoint of type `E`.
    (object, unsafe { &*object.exact().cast::<E>() })
}

/// What a transfer says of itself besides its memory.
#[derive(Clone, Copy)]
pub(super) struct XferArgs {
    pub(super) context: *mut c_void,
    pub(super) flags: u64,
    /// Writes no completion entry for a success.
    pub(super) errors_only: bool,
    pub(super) data: u64,
    /// Whom it goes to, or may come from.
    pub(super) peer: fi_addr_t,
    pub(super) tag: Option<Tag>,
}

impl XferArgs {
    /// A transfer without remote CQ data.
    #[inline]
    pub(super) fn plain(context: *mut c_void, flags: u64) -> Self {
        Self {
            context,
            flags,
            errors_only: false,
            data: 0,
            peer: FI_ADDR_UNSPEC,
            tag: None,
        }
    }

    /// Flags of a read: the endpoint's op_flags without those that concern outbound data only, [`FI_INJECT`]
    /// and the completion levels.
    #[inline]
    pub(super) fn read(context: *mut c_void, flags: u64) -> Self {
        Self::plain(context, flags & !(FI_INJECT | COMPLETION_LEVELS))
    }

    /// A transfer with remote CQ data.
    #[inline]
    pub(super) fn with_data(context: *mut c_void, flags: u64, data: u64) -> Self {
        Self {
            context,
            flags: flags | FI_REMOTE_CQ_DATA,
            data,
            ..Self::plain(context, flags)
        }
    }

    /// The same with a tag.
    #[inline]
    pub(super) fn tagged(self, tag: u64, ignore: u64) -> Self {
        let tag = Some(Tag { tag, ignore });
        Self { tag, ..self }
    }

    /// The same to that peer, or from it.
    #[inline]
    pub(super) fn with(self, peer: fi_addr_t) -> Self {
        Self { peer, ..self }
    }

    /// A transfer after which the memory is the caller's again at once, and of which only a failure
    /// is told.
    #[inline]
    pub(super) fn inject(self) -> Self {
        Self {
            flags: self.flags & !(FI_COMPLETION | COMPLETION_LEVELS) | FI_INJECT,
            errors_only: true,
            ..self
        }
    }
}

/// When a transmit counts as complete: nobody asks that of one that is not reported.
const COMPLETION_LEVELS: u64 = FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;

/// One range of memory and its descriptor, as a message.
///
/// # Safety
///
/// The caller answers for the memory and the descriptor as the types demand.
#[inline(always)]
pub(super) unsafe fn single(
    buf: *mut c_void,
    len: usize,
    desc: *mut c_void,
    terms: XferArgs,
    post: impl FnOnce(&Message<'_>) -> Result,
) -> isize {
    // SAFETY: By this function's safety requirement.
    let (segment, descriptor) = unsafe { (Segment::new(buf, len), Descriptor::new(desc)) };
    answer(post(&Message {
        memory: Memory::Segments(slice::from_ref(&segment)),
        descriptors: slice::from_ref(&descriptor),
        context: Context::new(terms.context),
        flags: terms.flags,
        errors_only: terms.errors_only,
        data: terms.data,
        peer: terms.peer,
        tag: terms.tag,
    }))
}

/// The same with the endpoint's own flags, if there is a short way for it.
///
/// # Safety
///
/// As of [`single`].
#[inline(always)]
pub(super) unsafe fn plain(
    buf: *mut c_void,
    len: usize,
    desc: *mut c_void,
    (context, flags): (*mut c_void, u64),
    post: impl FnOnce(&SingleSegment<'_>) -> Option<Result>,
) -> Option<isize> {
    // SAFETY: By this function's safety requirement.
    let (segment, descriptor) = unsafe { (Segment::new(buf, len), Descriptor::new(desc)) };
    let posted = post(&SingleSegment {
        segment: &segment,
        descriptor,
        context: Context::new(context),
        flags,
    })?;
    Some(brief(posted))
}

/// The calls that send one range of memory; `terms` makes the rest of the endpoint's flags.
///
/// # Safety
///
/// As a C caller of `fi_send()` promises; a send only reads the memory.
#[inline]
pub(super) unsafe fn send_one<E: Endpoint>(
    ep: *mut fid_ep,
    (buf, len, desc): (*const c_void, usize, *mut c_void),
    terms: impl FnOnce(u64) -> XferArgs,
) -> isize {
    // SAFETY: By this function's safety requirement.
    unsafe {
        let (object, endpoint) = parts::<E>(ep);
        let terms = terms(object.transmit_flags());
        single(buf.cast_mut(), len, desc, terms, |message| {
            endpoint.transmit(Operation::Send, message)
        })
    }
}

/// Those that receive into one.
///
/// # Safety
///
/// As a C caller of `fi_recv()` promises.
#[inline]
pub(super) unsafe fn receive_one<E: Endpoint>(
    ep: *mut fid_ep,
    (buf, len, desc): (*mut c_void, usize, *mut c_void),
    terms: impl FnOnce(u64) -> XferArgs,
) -> isize {
    // SAFETY: By this function's safety requirement.
    unsafe {
        let (object, endpoint) = parts::<E>(ep);
        let terms = terms(object.receive_flags());
        single(buf, len, desc, terms, |message| endpoint.receive(message))
    }
}

/// A vector as a C caller passes it, its descriptors, and how many entries both have.
pub(super) type Vector = (*const kvec, *mut *mut c_void, usize);

/// The calls that send a vector.
///
/// # Safety
///
/// As a C caller of `fi_sendv()` promises.
#[inline]
pub(super) unsafe fn send_vector<E: Endpoint>(
    ep: *mut fid_ep,
    (iov, desc, count): Vector,
    terms: impl FnOnce(u64) -> XferArgs,
) -> isize {
    // SAFETY: By this function's safety requirement.
    unsafe {
        let (object, endpoint) = parts::<E>(ep);
        let terms = terms(object.transmit_flags());
        vector(iov, desc, count, terms, |message| {
            endpoint.transmit(Operation::Send, message)
        })
    }
}

/// Those that receive into one.
///
/// # Safety
///
/// As a C caller of `fi_recvv()` promises.
#[inline]
pub(super) unsafe fn receive_vector<E: Endpoint>(
    ep: *mut fid_ep,
    (iov, desc, count): Vector,
    terms: impl FnOnce(u64) -> XferArgs,
) -> isize {
    // SAFETY: By this function's safety requirement.
    unsafe {
        let (object, endpoint) = parts::<E>(ep);
        let terms = terms(object.receive_flags());
        vector(iov, desc, count, terms, |message| endpoint.receive(message))
    }
}

/// The calls that send what a structure says.
///
/// # Safety
///
/// As a C caller of `fi_sendmsg()` promises.
#[inline]
pub(super) unsafe fn send_any<E: Endpoint>(
    ep: *mut fid_ep,
    (iov, desc, count): Vector,
    terms: XferArgs,
) -> isize {
    // SAFETY: By this function's safety requirement.
    unsafe {
        let (_, endpoint) = parts::<E>(ep);
        any_vector(iov, desc, count, terms, |message| {
            endpoint.transmit(Operation::Send, message)
        })
    }
}

/// Those that receive it.
///
/// # Safety
///
/// As a C caller of `fi_recvmsg()` promises.
#[inline]
pub(super) unsafe fn receive_any<E: Endpoint>(
    ep: *mut fid_ep,
    (iov, desc, count): Vector,
    terms: XferArgs,
) -> isize {
    // SAFETY: By this function's safety requirement.
    unsafe {
        let (_, endpoint) = parts::<E>(ep);
        any_vector(iov, desc, count, terms, |message| endpoint.receive(message))
    }
}

/// One range of memory that is injected, if there is a short way for it.
///
/// # Safety
///
/// As of [`single`].
#[inline(always)]
pub(super) unsafe fn plain_inject(
    buf: *const c_void,
    len: usize,
    post: impl FnOnce(&Segment) -> Option<Result>,
) -> Option<isize> {
    // SAFETY: By this function's safety requirement.
    let posted = post(&unsafe { Segment::new(buf.cast_mut(), len) })?;
    Some(brief(posted))
}

/// [`answer`], where a failure is rare.
#[inline(always)]
pub(super) fn brief(posted: Result) -> isize {
    match posted {
        Ok(()) => 0,
        Err(errno) => aside(move || errno.to_ssize()),
    }
}

/// A vector of memory, as a message.
///
/// # Safety
///
/// As of [`single`]; `iov` and, unless it is NULL, `desc` have `count` entries.
#[inline(never)]
pub(super) unsafe fn vector(
    iov: *const kvec,
    desc: *mut *mut c_void,
    count: usize,
    terms: XferArgs,
    post: impl FnOnce(&Message<'_>) -> Result,
) -> isize {
    // SAFETY: By this function's safety requirement.
    unsafe {
        let memory = Segment::from_vector(iov, count).map(Memory::Segments);
        described(memory, desc, terms, post)
    }
}

/// A vector of memory in the form that the flags name, as a message.
///
/// # Safety
///
/// As of [`vector`], for `iov` being what FI_BVEC or FI_SGL say.
#[inline]
pub(super) unsafe fn any_vector(
    iov: *const kvec,
    desc: *mut *mut c_void,
    count: usize,
    terms: XferArgs,
    post: impl FnOnce(&Message<'_>) -> Result,
) -> isize {
    // SAFETY: By this function's safety requirement.
    unsafe {
        let memory = match terms.flags & FORMS {
            0 => Segment::from_vector(iov, count).map(Memory::Segments),
            FI_BVEC => Memory::from_page_ranges(iov.cast(), count),
            FI_SGL => Memory::from_scatterlist(iov.cast(), count),
            _ => Err(Errno::EBADFLAGS),
        };
        let flags = terms.flags & !FORMS;
        described(memory, desc, XferArgs { flags, ..terms }, post)
    }
}

/// What a vector is of, if not of kernel addresses.
const FORMS: u64 = FI_BVEC | FI_SGL;

/// Memory and its descriptors, as a message.
///
/// # Safety
///
/// Unless it is NULL, `desc` has a descriptor as the type demands for each entry of `memory`.
#[inline]
unsafe fn described(
    memory: Result<Memory<'_>>,
    desc: *mut *mut c_void,
    terms: XferArgs,
    post: impl FnOnce(&Message<'_>) -> Result,
) -> isize {
    let memory = match memory {
        Ok(memory) => memory,
        Err(errno) => return errno.to_ssize(),
    };
    answer(post(&Message {
        memory,
        // SAFETY: By this function's safety requirement.
        descriptors: unsafe { Descriptor::from_vector(desc, memory.count()) },
        context: Context::new(terms.context),
        flags: terms.flags,
        errors_only: terms.errors_only,
        data: terms.data,
        peer: terms.peer,
        tag: terms.tag,
    }))
}

/// As many bytes of the peer's memory as there are in `message`.
///
/// # Errors
///
/// -FI_EMSGSIZE for more bytes than there are addresses.
#[inline]
pub(super) fn opposite(message: &Message<'_>, addr: u64, key: u64) -> Result<fi_rma_iov> {
    let len = message.memory.total_len()?;
    Ok(fi_rma_iov { addr, len, key })
}

#[inline]
fn answer(result: Result) -> isize {
    into_ssize(result.map(|()| 0))
}
