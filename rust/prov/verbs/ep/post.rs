// SPDX-License-Identifier: GPL-2.0

//! The data path of an endpoint: from a message to a work request. Any context; nothing here sleeps
//! or allocates.

use super::{
    super::{
        info::COMPLETION_LEVELS,
        sge::{
            self,
            SgeList,
            SingleSge, //
        },
        wc_status,
        wq::{
            OpDesc,
            PostResources,
            ReportPolicy,
            ReservedSlot, //
        },
    },
    Endpoint, //
};
use crate::{
    abi::{
        cold::call_cold,
        fi_rma_iov,
        flags::*,
        Errno,
        Result, //
    },
    fi::{
        memory::{
            Descriptor,
            Memory,
            Start, //
        },
        provider::{
            Message,
            Operation,
            Rma,
            SingleSegment, //
        },
    },
    rdma::{
        dma::{
            DataDirection,
            VALID_ADDRS, //
        },
        qp::Qp,
        wr::{
            RecvWr,
            RemoteAddr,
            SendFlag,
            SendFlags,
            SendWr,
            Sge, //
        },
    },
};
use core::slice::from_ref;
use kernel::sync::atomic::Relaxed;

/// Flags of a transmit; [`EpAttrs`](super::attrs::EpAttrs) has those of them that the device does
/// not support.
pub(super) const TX_FLAGS: u64 = FI_COMPLETION
    | FI_MORE
    | FI_FENCE
    | FI_INJECT
    | FI_REMOTE_CQ_DATA
    | FI_REMOTE_SIGNAL
    | FI_INJECT_COMPLETE
    | FI_TRANSMIT_COMPLETE
    | FI_DELIVERY_COMPLETE;

/// Flags of a transmit that do not change the work request.
pub(super) const FAST_TX_FLAGS: u64 = FI_COMPLETION | FI_MORE | COMPLETION_LEVELS;

/// Flags of a receive that do not change the work request.
pub(super) const FAST_RX_FLAGS: u64 = FI_COMPLETION | FI_MORE;

/// Flags of a receive.
const RX_FLAGS: u64 = FAST_RX_FLAGS | FI_MULTI_RECV;

/// Returns the policy for reporting the success of an operation.
#[inline(always)]
pub(super) fn report_policy(message: &Message<'_>) -> ReportPolicy {
    if message.flags & FI_COMPLETION != 0 {
        ReportPolicy::Always
    } else if message.errors_only {
        ReportPolicy::Never
    } else {
        ReportPolicy::PerBinding
    }
}

impl Endpoint {
    /// Checks the flags and memory of a message, and returns the length of the memory.
    #[inline(always)]
    fn check_message(
        &self,
        message: &Message<'_>,
        (known, refused): (u64, u64),
        segments: usize,
    ) -> Result<usize> {
        if message.flags & refused != 0 {
            return Err(match message.flags & !known {
                0 => Errno::EOPNOTSUPP,
                _ => Errno::EBADFLAGS,
            });
        }
        if message.memory.count() > segments {
            return Err(Errno::EINVAL);
        }
        let total = message.memory.total_len()?;
        if total > self.attrs.max_msg_size as usize {
            return Err(Errno::EMSGSIZE);
        }
        Ok(total)
    }

    /// Posts a send, write or read.
    #[inline(always)]
    pub(super) fn post_transmit(&self, operation: Operation<'_>, message: &Message<'_>) -> Result {
        if let (Operation::Send, Some(single)) = (operation, as_single_xfer(message, FAST_TX_FLAGS))
        {
            if let Some(posted) = self.post_fast::<true>(operation, &single) {
                return posted;
            }
        }
        match message.flags & !FAST_TX_FLAGS {
            // With the other flags known to be clear, the compiler leaves out the code for them.
            0 => self.post_checked(
                operation,
                Message {
                    flags: message.flags & FAST_TX_FLAGS,
                    ..*message
                },
            ),
            _ => {
                let message = *message;
                call_cold(move || self.post_with_rare_flags(operation, message))
            }
        }
    }

    /// Posts a transmit with flags that few operations have.
    #[inline(never)]
    fn post_with_rare_flags(&self, operation: Operation<'_>, message: Message<'_>) -> Result {
        self.check_fence(message.flags)?;
        self.post_checked(operation, message)
    }

    /// Checks that a fence can be kept: the device knows nothing of operations that take several
    /// work requests, so such operations have to complete first.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN while such an operation is in flight.
    pub(super) fn check_fence(&self, flags: u64) -> Result {
        match flags & FI_FENCE != 0 && self.sq.has_cas_in_flight() {
            true => Err(Errno::EAGAIN),
            false => Ok(()),
        }
    }

    #[inline(always)]
    fn post_checked(&self, operation: Operation<'_>, message: Message<'_>) -> Result {
        self.state.check_transmit()?;
        let total = self.check_message(
            &message,
            (TX_FLAGS, self.attrs.unsupported_flags),
            self.attrs.tx_iov_limit,
        )?;
        let transmit = TxRequest::new(operation, &message, total)?;
        if transmit.is_read && self.attrs.is_iwarp && !self.has_read.xchg(true, Relaxed) {
            // Operations behind the read may need a fence.
            self.sq.set_fast_path(false);
        }
        if transmit.inject {
            check_inject(&message, total, self.attrs.inject_size)?;
        } else if let Some(whole) = self.single_sge(&message) {
            return self.post_single_sge(&transmit, &whole);
        }
        call_cold(move || self.post_sge_list(transmit, message.memory, message.descriptors))
    }

    /// Returns the single scatter/gather element of a message in registered memory that needs no
    /// mapping; None if the message needs more.
    #[inline(always)]
    fn single_sge(&self, message: &Message<'_>) -> Option<SingleSge> {
        SingleSge::from_memory(message.memory, message.descriptors, &self.pd)
    }

    /// Returns that element for a work request.
    #[inline(always)]
    fn build_sge(&self, sge: &SingleSge, is_inline: bool) -> Sge {
        Sge::new(sge.addr(is_inline), sge.len(), self.pd.local_dma_lkey())
    }

    /// Returns the flags of the work request of a transmit.
    #[inline(always)]
    fn send_flags(&self, request: &TxRequest, slot: &ReservedSlot<'_>) -> SendFlags {
        let mut flags = request.flags;
        if slot.is_signalled {
            flags |= SendFlag::Signaled;
        }
        // Without a fence siw completes operations behind a read before the read, out of order. A
        // read never overtakes another, and siw takes no fence before one.
        if self.attrs.is_iwarp && !request.is_read && slot.follows_read() {
            flags |= SendFlag::Fence;
        }
        flags
    }

    /// Posts a transmit of a single range of registered memory.
    #[inline(always)]
    fn post_single_sge(&self, request: &TxRequest, sge: &SingleSge) -> Result {
        let is_inline = !request.is_read && sge.len() <= self.sq.inline_size();
        let sges = [self.build_sge(sge, is_inline)];
        // SAFETY: This is a data call, which does not lock the queue again before `finish`.
        let slot = unsafe { self.sq.reserve(&request.op) }?;
        let mut flags = self.send_flags(request, &slot);
        if is_inline {
            flags |= SendFlag::Inline;
        }
        // SAFETY: The segment's type promises that the memory is the operation's until it completes;
        // what is inline is copied now.
        let posted = unsafe { request.post(slot.qp(), slot.wr_id, &sges, flags) };
        slot.finish(&request.op, posted)
    }

    /// Posts a transmit whose memory is injected, or has to be mapped or takes several elements.
    #[inline(never)]
    fn post_sge_list(
        &self,
        request: TxRequest,
        memory: Memory<'_>,
        descriptors: &[Descriptor],
    ) -> Result {
        let (direction, limit) = match request.is_read {
            false => (DataDirection::ToDevice, self.attrs.tx_iov_limit),
            true => (DataDirection::FromDevice, self.attrs.read_iov_limit),
        };
        // SAFETY: As in `post_single_sge`.
        let mut slot = unsafe { self.sq.reserve(&request.op) }?;
        let mut flags = self.send_flags(&request, &slot);
        let wr_id = slot.wr_id;
        let PostResources {
            qp,
            mappings,
            inject_buf: bounce,
        } = slot.resources();
        let mut list = SgeList::new(qp, direction, limit, mappings);
        let added = if request.inject {
            list.push_inject(memory, bounce)
        } else if request.is_read && self.attrs.is_iwarp {
            list.push_memory(memory, descriptors)
                .and_then(|()| list.pad_if_empty())
        } else {
            list.push_memory(memory, descriptors)
        };
        if list.is_inline() {
            flags |= SendFlag::Inline;
        }
        let posted = added.and_then(|()| {
            // SAFETY: The segments' types promise that the memory is the operation's until it
            // completes. The inject buffer is as well, and inline data is copied now; the slot
            // keeps the mappings as long.
            unsafe { request.post(qp, wr_id, list.sges(), flags) }.inspect_err(|_| list.unmap_all())
        });
        slot.finish(&request.op, posted)
    }

    /// Posts a receive, for `fi_recv()` and its variants.
    #[inline(always)]
    pub(super) fn post_receive(&self, message: &Message<'_>) -> Result {
        if let Some(single) = as_single_xfer(message, FAST_RX_FLAGS) {
            if let Some(posted) = self.post_recv_fast::<true>(&single) {
                return posted;
            }
        }
        self.state.check_receive()?;
        if message.flags & !FAST_RX_FLAGS != 0 {
            let message = *message;
            return call_cold(move || self.post_multi_recv(&message));
        }
        let len = self.check_message(message, (RX_FLAGS, !RX_FLAGS), self.attrs.rx_iov_limit)?;
        let op = OpDesc {
            context: message.context,
            flags: FI_RECV | FI_MSG,
            len,
            report_policy: report_policy(message),
        };
        let Some(whole) = self.single_sge(message) else {
            let message = *message;
            return call_cold(move || {
                self.post_recv_sge_list(op, message.memory, message.descriptors)
            });
        };
        let sges = [self.build_sge(&whole, false)];
        // SAFETY: As in `post_single_sge`.
        let slot = unsafe { self.rq.reserve(&op) }?;
        let wr = RecvWr::new(slot.wr_id, &sges);
        // SAFETY: As in `post_single_sge`.
        let posted = unsafe { slot.qp().post_recv(&wr) }.map_err(wc_status::post_errno);
        slot.finish(&op, posted)
    }

    /// Returns the error of a receive that failed with `errno`.
    #[cold]
    pub(super) fn receive_error(&self, errno: Errno) -> Errno {
        match self.attrs.uses_srx {
            // Receives are posted to the shared receive context.
            true => Errno::ENOSYS,
            false => self.state.receive_error(errno),
        }
    }

    /// Posts a multi-receive buffer: one receive for each of its pieces.
    #[inline(never)]
    fn post_multi_recv(&self, message: &Message<'_>) -> Result {
        let len = self.check_message(message, (RX_FLAGS, !RX_FLAGS), 1)?;
        let Memory::Segments([segment]) = message.memory else {
            return Err(Errno::EINVAL);
        };
        let descriptor = message.descriptors.first().copied();
        let descriptor = descriptor.unwrap_or(Descriptor::NONE);
        // The whole buffer is checked before the first piece is posted.
        sge::check_descriptor(segment, descriptor, &self.pd)?;
        let size = self.multi_recv_size.load(Relaxed);
        let count = len.checked_div(size).ok_or(Errno::EINVAL)?;
        let count = u32::try_from(count).map_err(|_| Errno::EAGAIN)?.max(1);
        // The last piece has the remainder, too.
        let piece = |number: u32| {
            let is_last = number == count - 1;
            segment.part(number as usize * size, if is_last { len } else { size })
        };
        let op_at = |number: u32| OpDesc {
            context: message.context,
            flags: FI_RECV | FI_MSG,
            len: piece(number).len(),
            report_policy: ReportPolicy::MultiRecv {
                start: piece(number).addr(),
                last: number == count - 1,
                always: message.flags & FI_COMPLETION != 0,
            },
        };
        let post = |slot: &mut ReservedSlot<'_>, number| {
            let piece = piece(number);
            let wr_id = slot.wr_id;
            let PostResources { qp, mappings, .. } = slot.resources();
            let limit = self.attrs.rx_iov_limit;
            let mut list = SgeList::new(qp, DataDirection::FromDevice, limit, mappings);
            list.push_memory(Memory::Segments(from_ref(&piece)), from_ref(&descriptor))?;
            let wr = RecvWr::new(wr_id, list.sges());
            // SAFETY: As in `post_sge_list`.
            unsafe { qp.post_recv(&wr) }.map_err(|error| {
                list.unmap_all();
                wc_status::post_errno(error)
            })
        };
        // SAFETY: This is a data call; the closures access the memory and post, and lock no queue.
        let posted = unsafe { self.rq.post_all(count, op_at, post) };
        posted.or_else(|(errno, last)| match (last, self.rq.cq_for_data_call()) {
            // The buffer ends at the first piece that could not be posted.
            (Some((number, seq)), Some(cq))
                // SAFETY: It has been posted above.
                if unsafe { cq.end_multi_recv(&self.rq, seq, piece(number).addr()) } =>
            {
                Ok(())
            }
            _ => Err(errno),
        })
    }

    /// Posts a receive whose memory has to be mapped or takes several elements.
    #[inline(never)]
    fn post_recv_sge_list(
        &self,
        op: OpDesc,
        memory: Memory<'_>,
        descriptors: &[Descriptor],
    ) -> Result {
        // SAFETY: As in `post_single_sge`.
        let mut slot = unsafe { self.rq.reserve(&op) }?;
        let wr_id = slot.wr_id;
        let limit = self.attrs.rx_iov_limit;
        let PostResources { qp, mappings, .. } = slot.resources();
        let mut list = SgeList::new(qp, DataDirection::FromDevice, limit, mappings);
        let posted = list.push_memory(memory, descriptors).and_then(|()| {
            let wr = RecvWr::new(wr_id, list.sges());
            // SAFETY: As in `post_sge_list`.
            unsafe { qp.post_recv(&wr) }.map_err(|error| {
                list.unmap_all();
                wc_status::post_errno(error)
            })
        });
        slot.finish(&op, posted)
    }
}

/// Parameters of a transmit, without its memory.
#[derive(Clone, Copy)]
struct TxRequest {
    op: OpDesc,
    remote: Option<RemoteAddr>,
    imm: Option<u32>,
    is_read: bool,
    inject: bool,
    flags: SendFlags,
}

impl TxRequest {
    /// Builds the request of a message of `total` bytes.
    ///
    /// # Errors
    ///
    /// The errors of [`remote_addr`]; -FI_EINVAL for immediate data of more than 32 bits,
    /// -FI_EBADFLAGS for a read with FI_INJECT or FI_REMOTE_CQ_DATA.
    #[inline(always)]
    fn new(operation: Operation<'_>, message: &Message<'_>, total: usize) -> Result<Self> {
        let (flags, is_read, remote) = match operation {
            Operation::Send => (FI_SEND | FI_MSG, false, None),
            Operation::Rma(Rma::Write, remote) => {
                (FI_WRITE | FI_RMA, false, Some(remote_addr(remote, total)?))
            }
            Operation::Rma(Rma::Read, remote) => {
                (FI_READ | FI_RMA, true, Some(remote_addr(remote, total)?))
            }
        };
        let op = OpDesc {
            context: message.context,
            flags,
            len: total,
            report_policy: report_policy(message),
        };
        let data = match message.flags & FI_REMOTE_CQ_DATA {
            0 => None,
            // Immediate data has 32 bits.
            _ => Some(u32::try_from(message.data).map_err(|_| Errno::EINVAL)?),
        };
        let inject = message.flags & FI_INJECT != 0;
        if is_read && (inject || data.is_some()) {
            return Err(Errno::EBADFLAGS);
        }
        let mut flags = SendFlags::default();
        if message.flags & FI_FENCE != 0 && !is_read {
            flags |= SendFlag::Fence;
        }
        if message.flags & FI_REMOTE_SIGNAL != 0 {
            flags |= SendFlag::Solicited;
        }
        Ok(Self {
            op,
            remote,
            imm: data,
            is_read,
            inject,
            flags,
        })
    }

    /// Posts the work request.
    ///
    /// # Safety
    ///
    /// The requirements of [`Qp::post_send`] hold.
    #[inline(always)]
    unsafe fn post(&self, qp: &Qp, wr_id: u64, sges: &[Sge], flags: SendFlags) -> Result {
        let wr = match (self.remote, self.imm) {
            (None, None) => SendWr::send(wr_id, sges, flags),
            (None, Some(data)) => SendWr::send_with_imm(wr_id, sges, data, flags),
            (Some(remote), _) if self.is_read => SendWr::read(wr_id, sges, remote, flags),
            (Some(remote), None) => SendWr::write(wr_id, sges, remote, flags),
            (Some(remote), Some(data)) => SendWr::write_with_imm(wr_id, sges, remote, data, flags),
        };
        // SAFETY: By this function's safety requirement.
        unsafe { qp.post_send(&wr) }.map_err(wc_status::post_errno)
    }
}

/// Returns the message as a single segment if the fast path may take it: its flags are among
/// `usual`.
#[inline(always)]
fn as_single_xfer<'a>(message: &Message<'a>, usual: u64) -> Option<SingleSegment<'a>> {
    match (message.memory, message.descriptors, message.flags & !usual) {
        (Memory::Segments([segment]), [descriptor], 0) => Some(SingleSegment {
            segment,
            descriptor: *descriptor,
            context: message.context,
            flags: message.flags,
        }),
        _ => None,
    }
}

/// Checks memory that is copied while it is posted. It may be anywhere in the kernel, also on a
/// stack.
///
/// # Errors
///
/// -FI_EMSGSIZE for more than can be injected; -FI_EINVAL for addresses outside the kernel's.
#[inline]
fn check_inject(message: &Message<'_>, total: usize, max_len: usize) -> Result {
    if total > max_len {
        return Err(Errno::EMSGSIZE);
    }
    message.memory.for_each(|part| match part.start() {
        Start::Address(addr) if !part.is_empty() && !VALID_ADDRS.contains(&addr) => {
            Err(Errno::EINVAL)
        }
        _ => Ok(()),
    })
}

/// Returns the peer's memory range of an RMA operation of `len` bytes.
///
/// # Errors
///
/// -FI_EINVAL for several ranges, or for one of another length; -FI_ENOKEY for a value that is no
/// key of a verbs device.
#[inline(always)]
pub(super) fn remote_addr(remote: &[fi_rma_iov], len: usize) -> Result<RemoteAddr> {
    let [range] = remote else {
        return Err(Errno::EINVAL);
    };
    if range.len != len {
        return Err(Errno::EINVAL);
    }
    Ok(RemoteAddr {
        addr: range.addr,
        rkey: u32::try_from(range.key).map_err(|_| Errno::ENOKEY)?,
    })
}
