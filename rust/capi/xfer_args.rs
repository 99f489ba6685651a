// SPDX-License-Identifier: GPL-2.0

//! Arguments of a C caller's transfer, and their translation to a [`Message`]. The modules of the tables use
//! this one.

use super::{
    ep::EndpointObject,
    prelude::*, //
};
use crate::{
    abi::errno::into_ssize,
    fi::{
        mr::ep_region::RegionMemory,
        provider::{
            Destination,
            Endpoint,
            Message,
            Operation,
            Rma,
            SingleSegment,
            Tag, //
        },
    },
    util::{
        cold::call_cold,
        once::read_once, //
    },
};

/// An endpoint with a table of transfers for type `E`. The class is not checked.
#[derive(Clone, Copy)]
pub(super) struct TypedEp<'a, E> {
    object: &'a EndpointObject,
    pub(super) provider: &'a E,
}

impl<E> FromFid for TypedEp<'_, E> {
    #[inline(always)]
    unsafe fn from_fid(fid: *mut fid) -> Result<Self> {
        // SAFETY: By the contract of this function, `fid` is an endpoint of the C API.
        let object = unsafe { &*fid.cast::<EndpointObject>() };
        // SAFETY: Only endpoints of type `E` get these tables.
        let provider = unsafe { &*object.provider_ep.cast::<E>() };
        Ok(Self { object, provider })
    }
}

/// Returns whether the flags of an untagged receive are those of `fi_recvfrom()`. FI_DIRECTED_RECV has the bit of
/// FI_CLAIM: beside flags that such a receive does not take, the provider refuses it as FI_CLAIM.
#[inline]
pub(super) fn is_directed(flags: u64) -> bool {
    const FLAGS: u64 = FI_COMPLETION | FI_MORE | FI_MULTI_RECV | FI_BVEC | FI_SGL;
    flags & FI_DIRECTED_RECV != 0 && flags & !(FLAGS | FI_DIRECTED_RECV) == 0
}

impl<E: Endpoint> TypedEp<'_, E> {
    /// Returns the default flags of transmits.
    #[inline(always)]
    pub(super) fn tx_op_flags(&self) -> u64 {
        read_once(&self.object.tx_op_flags)
    }

    /// Returns the default flags of receives.
    #[inline(always)]
    pub(super) fn rx_op_flags(&self) -> u64 {
        read_once(&self.object.rx_op_flags)
    }

    /// Makes the arguments of a transmit with the default flags.
    #[inline(always)]
    pub(super) fn tx_args(&self, context: *mut c_void) -> XferArgs {
        XferArgs::new(context, self.tx_op_flags())
    }

    /// Makes the arguments of a receive with the default flags.
    #[inline(always)]
    pub(super) fn rx_args(&self, context: *mut c_void) -> XferArgs {
        XferArgs::new(context, self.rx_op_flags())
    }

    /// Makes the arguments of an inject: the caller may reuse the memory when the call returns, and only an
    /// error writes a completion entry.
    #[inline(always)]
    pub(super) fn inject_args(&self) -> XferArgs {
        let flags = self.tx_op_flags() & !(FI_COMPLETION | COMPLETION_LEVELS) | FI_INJECT;
        XferArgs {
            errors_only: true,
            ..XferArgs::new(ptr::null_mut(), flags)
        }
    }

    /// Makes the arguments of a read from the endpoint's op_flags, without those that concern outbound data
    /// only: [`FI_INJECT`] and the completion levels.
    #[inline(always)]
    pub(super) fn read_args(&self, context: *mut c_void) -> XferArgs {
        let flags = self.tx_op_flags() & !(FI_INJECT | COMPLETION_LEVELS);
        XferArgs::new(context, flags)
    }

    /// Makes the arguments of `fi_recvmsg()`. With FI_DIRECTED_RECV, which `fi_recvfrom()` passes, the source has to
    /// be named, and the default flags apply too.
    ///
    /// # Errors
    ///
    /// -FI_EOPNOTSUPP if the endpoint ignores source addresses, -FI_EINVAL for FI_ADDR_UNSPEC.
    #[inline]
    pub(super) fn recvmsg_args(&self, msg: &fi_msg, mut flags: u64) -> Result<XferArgs> {
        if is_directed(flags) {
            ensure(self.provider.directs_receives(), Errno::EOPNOTSUPP)?;
            ensure(msg.addr != FI_ADDR_UNSPEC, Errno::EINVAL)?;
            flags = flags & !FI_DIRECTED_RECV | self.rx_op_flags();
        }
        Ok(XferArgs::new(msg.context, flags).with_peer(msg.addr))
    }

    /// Posts a send.
    #[inline(always)]
    pub(super) fn send(&self, message: &Message<'_>) -> Result {
        self.provider.transmit(Operation::Send, message)
    }

    /// Posts a send on the fast path; `None` if the fast path does not apply.
    #[inline(always)]
    pub(super) fn try_fast_send(
        &self,
        single: &SingleSegment<'_>,
        to: Destination,
    ) -> Option<Result> {
        self.provider.try_fast_transmit(Operation::Send, single, to)
    }

    /// Injects a message on the fast path; `None` if the fast path does not apply.
    #[inline(always)]
    pub(super) fn try_fast_inject(&self, memory: &Segment, to: Destination) -> Option<Result> {
        let flags = self.tx_op_flags();
        self.provider
            .try_fast_inject(Operation::Send, memory, flags, to)
    }

    /// Posts a receive.
    #[inline(always)]
    pub(super) fn receive(&self, message: &Message<'_>) -> Result {
        self.provider.receive(message)
    }

    /// Posts a read of a range of the peer's memory, an address and a key, that has as many bytes as `message`.
    #[inline(always)]
    pub(super) fn read(&self, remote: (u64, u64), message: &Message<'_>) -> Result {
        self.post_rma(Rma::Read, remote, message)
    }

    /// Posts a write of a range of the peer's memory, an address and a key, that has as many bytes as `message`.
    #[inline(always)]
    pub(super) fn write(&self, remote: (u64, u64), message: &Message<'_>) -> Result {
        self.post_rma(Rma::Write, remote, message)
    }

    /// # Errors
    ///
    /// -FI_EMSGSIZE if the number of bytes overflows, and the errors of the provider.
    #[inline]
    fn post_rma(&self, op: Rma, (addr, key): (u64, u64), message: &Message<'_>) -> Result {
        let len = message.memory.total_len()?;
        let remote = fi_rma_iov { addr, len, key };
        let op = Operation::Rma(op, slice::from_ref(&remote));
        self.provider.transmit(op, message)
    }
}

/// Returns the destination of an untagged transfer.
#[inline(always)]
pub(super) fn untagged(peer: fi_addr_t) -> Destination {
    Destination { peer, tag: None }
}

/// Returns the destination of a tagged message.
#[inline(always)]
pub(super) fn tagged(peer: fi_addr_t, tag: u64) -> Destination {
    Destination {
        peer,
        tag: Some(tag),
    }
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

    /// Sets the remote CQ data.
    #[inline]
    pub(super) fn with_data(self, data: u64) -> Self {
        let flags = self.flags | FI_REMOTE_CQ_DATA;
        Self {
            flags,
            data,
            ..self
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

    /// Makes the message of these arguments.
    #[inline(always)]
    pub(super) fn message<'a>(
        &self,
        memory: Memory<'a>,
        descriptors: &'a [Descriptor],
    ) -> Message<'a> {
        Message {
            memory,
            descriptors,
            context: Context::new(self.context),
            flags: self.flags,
            errors_only: self.errors_only,
            data: self.data,
            peer: self.peer,
            tag: self.tag,
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
    buf: *const c_void,
    len: usize,
    desc: *mut c_void,
    args: XferArgs,
    post: impl FnOnce(&Message<'_>) -> Result,
) -> isize {
    // SAFETY: By the caller's contract, the memory and the descriptor are valid.
    let segment = unsafe { Segment::new(buf.cast_mut(), len) };
    // SAFETY: As above.
    let descriptor = unsafe { Descriptor::new(desc) };
    let memory = Memory::Segments(slice::from_ref(&segment));
    into_isize(post(&args.message(memory, slice::from_ref(&descriptor))))
}

/// Posts one range of memory with the endpoint's own flags on the fast path; `None` if the fast path does not
/// apply.
///
/// # Safety
///
/// The requirements of [`post_single`].
#[inline(always)]
pub(super) unsafe fn try_fast_post(
    buf: *const c_void,
    len: usize,
    desc: *mut c_void,
    (context, flags): (*mut c_void, u64),
    post: impl FnOnce(&SingleSegment<'_>) -> Option<Result>,
) -> Option<isize> {
    // SAFETY: By the contract of `post_single`.
    let segment = unsafe { Segment::new(buf.cast_mut(), len) };
    let posted = post(&SingleSegment {
        segment: &segment,
        // SAFETY: As above.
        descriptor: unsafe { Descriptor::new(desc) },
        context: Context::new(context),
        flags,
    })?;
    Some(into_isize_fast(posted))
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
        let memory = vector_memory(iov, count, args.flags & VECTOR_FORMS);
        let flags = args.flags & !VECTOR_FORMS;
        post_described(memory, desc, XferArgs { flags, ..args }, post)
    }
}

/// Returns the memory of a vector in the form that `flags` name.
///
/// # Errors
///
/// -FI_EBADFLAGS for other flags, -FI_EINVAL for NULL with entries, and for too many entries.
///
/// # Safety
///
/// `iov` has `count` entries of that form, as [`Segment::from_vector`] requires.
#[inline(always)]
unsafe fn vector_memory<'a>(iov: *const kvec, count: usize, flags: u64) -> Result<Memory<'a>> {
    // SAFETY: By this function's safety requirement.
    unsafe {
        match flags {
            0 => Segment::from_vector(iov, count).map(Memory::Segments),
            FI_BVEC => Memory::from_page_ranges(iov.cast(), count),
            FI_SGL => Memory::from_scatterlist(iov.cast(), count),
            _ => Err(Errno::EBADFLAGS),
        }
    }
}

/// Returns the memory of a region, from a vector in the form that `flags` name.
///
/// # Errors
///
/// The errors of [`vector_memory`].
///
/// # Safety
///
/// `iov` has `count` entries of that form, whose memory stays valid until the region is closed.
pub(super) unsafe fn region_memory<'a>(
    iov: *const kvec,
    count: usize,
    flags: u64,
) -> Result<RegionMemory<'a>> {
    let form = match flags {
        MAPPED_LIST => FI_SGL,
        flags => flags,
    };
    // SAFETY: By this function's safety requirement; a mapped list is a scatterlist.
    Ok(match unsafe { vector_memory(iov, count, form)? } {
        Memory::ScatterList(list) if flags == MAPPED_LIST => RegionMemory::Mapped(list),
        memory => RegionMemory::Kernel(memory),
    })
}

/// Flags for a list that has been mapped for the device.
const MAPPED_LIST: u64 = FI_SGL | FI_SGL_DMA;

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
    // SAFETY: By the caller's contract, `desc` is NULL or has a descriptor for each entry.
    let descriptors = unsafe { Descriptor::from_vector(desc, memory.count()) };
    into_isize(post(&args.message(memory, descriptors)))
}

#[inline]
fn into_isize(result: Result) -> isize {
    into_ssize(result.map(|()| 0))
}
