// SPDX-License-Identifier: GPL-2.0

//! Posting of sends, writes and reads: from the provider's interface to `ib_post_send()`. Any
//! context; nothing here sleeps or allocates.
//!
//! A post checks its arguments, and then takes three steps:
//!
//! - `build_sges()` describes the local memory to the device;
//! - [`reserve()`](super::super::wq::WorkQueue::reserve) locks the send queue and takes a slot,
//!   which also holds the mappings of memory without a descriptor;
//! - `post()` calls the driver, and the slot is kept, or returned if the driver refuses.
//!
//! The fast path, [`Endpoint::post_fast`], takes the same steps for what most posts are: a single
//! range of a registered region, and no special flags. There is nothing to map, the work request is
//! prepared, and the state of the endpoint and its bindings are checked together by
//! [`reserve_fast()`](super::super::wq::WorkQueue::reserve_fast). What it cannot take is left to
//! [`Endpoint::post_transmit`], before anything has been done.
//!
//! An RMA operation that takes several work requests is left to [`long_rma`](super::long_rma).

use super::{
    super::{
        super::common::flags::{
            check_message,
            COMPLETION_LEVELS,
            TRANSMIT_FLAGS, //
        },
        sge::SingleSge,
        wq::{
            ReportPolicy,
            ReservedSlot, //
        },
    },
    siw_quirk, //
};
use crate::{
    abi::fi_rma_iov,
    fi::{
        memory::Start,
        provider::{
            Operation,
            Rma,
            SingleSegment, //
        },
    },
    prov::verbs::prelude::*,
    rdma::dma::VALID_ADDRS,
    util::cold::{
        call_cold,
        cold_hint, //
    },
};

/// Flags of a transmit that do not change the work request.
pub(super) const FAST_TX_FLAGS: u64 = FI_COMPLETION | FI_MORE | COMPLETION_LEVELS;

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
    /// Posts a send, write or, except on iWARP, a read of a single range of a registered region.
    /// Returns None, without any effect, if the fast path cannot take it. `LOCKS` selects the
    /// instance of [`reserve_fast`](super::super::wq::WorkQueue::reserve_fast).
    #[inline(always)]
    pub(super) fn post_fast<const LOCKS: bool>(
        &self,
        operation: Operation<'_>,
        single: &SingleSegment<'_>,
    ) -> Option<Result> {
        if single.flags & self.attrs.slow_path_flags != 0 {
            return None;
        }
        let sge = SingleSge::from_segment(single.segment, single.descriptor, &self.pd)?;
        let len = single.segment.len();
        let (flags, op) = self.fast_op(operation, len)?;
        let is_read = matches!(op, WrOp::Read(_));
        // SAFETY: This is a data call, which does not lock the queue again before `finish_fast`.
        let mut slot = unsafe {
            self.sq
                .reserve_fast::<LOCKS>(single.context, (flags, len), OpKind::Reported)
        }?;
        let wr_id = slot.wr_id;
        let mut send_flags = SendFlags::from(SendFlag::Signaled);
        let is_inline = !is_read && sge.len() <= slot.wq.inline_size();
        if is_inline {
            cold_hint();
            send_flags |= SendFlag::Inline;
        }
        let range = (sge.addr(is_inline), sge.len());
        // SAFETY: It is the send queue. The segment's type promises that the memory is the
        // operation's until it completes; what is inline is copied now.
        let posted = unsafe { slot.send_template().post(wr_id, range, op, send_flags) };
        slot.finish_fast(&posted);
        Some(self.map_post_result(posted))
    }

    /// Posts a send or write whose data the driver copies while it posts. Returns None, without any
    /// effect, if the fast path cannot take it.
    #[inline(always)]
    pub(super) fn post_inject_fast<const LOCKS: bool>(
        &self,
        operation: Operation<'_>,
        segment: &Segment,
        flags: u64,
    ) -> Option<Result> {
        let len = segment.len();
        // An empty message fails this check, too: siw does not take it inline.
        let fits = len.wrapping_sub(1) < self.sq.inline_size() as usize;
        if flags & self.attrs.slow_path_flags != 0
            || !fits
            || !VALID_ADDRS.contains(&segment.addr())
        {
            return None;
        }
        let (flags, op) = match self.fast_op(operation, len)? {
            (_, WrOp::Read(_)) => return None,
            written => written,
        };
        // SAFETY: As in `post_fast`.
        let slot = unsafe {
            self.sq
                .reserve_fast::<LOCKS>(Context::NULL, (flags, len), OpKind::Silent)
        };
        let mut slot = slot?;
        let wr_id = slot.wr_id;
        let mut send_flags = SendFlags::from(SendFlag::Inline);
        if slot.is_signalled {
            send_flags |= SendFlag::Signaled;
        }
        let range = (segment.addr() as u64, len as u32);
        // SAFETY: It is the send queue, and the memory is copied now.
        let posted = unsafe { slot.send_template().post(wr_id, range, op, send_flags) };
        slot.finish_fast(&posted);
        Some(self.map_post_result(posted))
    }

    /// Returns the flags of the completion of an operation of `len` bytes, and its work request.
    /// None if the fast path cannot take it.
    #[inline(always)]
    fn fast_op(&self, operation: Operation<'_>, len: usize) -> Option<(u64, WrOp)> {
        Some(match operation {
            Operation::Send => (FI_SEND | FI_MSG, WrOp::Send),
            Operation::Rma(Rma::Write, remote) => (
                FI_WRITE | FI_RMA,
                WrOp::Write(remote_addr(remote, len).ok()?),
            ),
            // Operations behind the read would need a fence.
            Operation::Rma(Rma::Read, _) if self.attrs.is_iwarp => return None,
            Operation::Rma(Rma::Read, remote) => {
                (FI_READ | FI_RMA, WrOp::Read(remote_addr(remote, len).ok()?))
            }
        })
    }

    /// Maps the result of posting a transmit to the errno of the call.
    #[inline(always)]
    pub(super) fn map_post_result(&self, posted: kernel::error::Result) -> Result {
        match posted {
            Ok(()) => Ok(()),
            Err(error) => {
                call_cold(move || Err(self.state.transmit_error(wc_status::post_errno(error))))
            }
        }
    }

    /// Posts a send, write or read of any kind, for `fi_send()` and its variants.
    #[inline(always)]
    pub(super) fn post_transmit(&self, operation: Operation<'_>, message: &Message<'_>) -> Result {
        if let Some(posted) = self.post_fast_locked(operation, message) {
            return posted;
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

    /// Posts what the fast path takes, if data calls take the lock. Returns None, without any effect, if it cannot.
    #[inline(always)]
    fn post_fast_locked(&self, operation: Operation<'_>, message: &Message<'_>) -> Option<Result> {
        if let Some(single) = as_single_xfer(message, FAST_TX_FLAGS) {
            return self.post_fast::<true>(operation, &single);
        }
        match message.memory {
            Memory::Segments([segment])
                if message.flags & !FAST_TX_FLAGS == FI_INJECT && message.errors_only =>
            {
                let flags = message.flags & FAST_TX_FLAGS;
                self.post_inject_fast::<true>(operation, segment, flags)
            }
            _ => None,
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

    /// Checks a transmit, and posts it.
    #[inline(always)]
    fn post_checked(&self, operation: Operation<'_>, message: Message<'_>) -> Result {
        self.state.check_transmit()?;
        if let Operation::Rma(rma, remote) = operation {
            let is_cut = |range: &fi_rma_iov| {
                rma == Rma::Read
                    && self.attrs.is_iwarp
                    && range.len > siw_quirk::max_read(self.pd.device(), range.addr)
            };
            let is_long = message.memory.count() > self.attrs.tx_iov_limit;
            if is_long || !matches!(remote, [range] if !is_cut(range)) {
                return call_cold(move || self.post_long_rma(rma, remote, &message));
            }
        }
        let limits = (self.attrs.tx_iov_limit, self.attrs.max_msg_size as usize);
        let total = check_message(
            &message,
            (TRANSMIT_FLAGS, self.attrs.unsupported_flags),
            limits,
        )?;
        let request = TxRequest::new(operation, &message, total)?;
        self.note_read(&request);
        if request.inject {
            check_inject(&message, total, self.attrs.inject_size)?;
        } else if let Some(sge) =
            SingleSge::from_memory(message.memory, message.descriptors, &self.pd)
        {
            return self.post_single_sge(&request, &sge);
        }
        call_cold(move || self.post_sge_list(request, operation, &message))
    }

    /// Closes the fast path when the first read is posted on iWARP: operations behind it may need a fence.
    #[inline(always)]
    pub(super) fn note_read(&self, request: &TxRequest) {
        if request.is_read && self.attrs.is_iwarp && !self.has_read.xchg(true, Relaxed) {
            self.sq.set_fast_path(false);
        }
    }

    /// Returns the flags of the work request of a transmit.
    #[inline(always)]
    pub(super) fn send_flags(&self, request: &TxRequest, slot: &ReservedSlot<'_>) -> SendFlags {
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
        // siw takes no inline data in a send that invalidates a key.
        let is_inline =
            !request.is_read && request.invalidate.is_none() && sge.len() <= self.sq.inline_size();
        let sges = [sge.build(is_inline, &self.pd)];
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
}

/// Parameters of a transmit, without its memory.
#[derive(Clone, Copy)]
pub(super) struct TxRequest {
    pub(super) op: OpDesc,
    pub(super) remote: Option<RemoteAddr>,
    pub(super) imm: Option<u32>,
    /// Key of the peer that a send invalidates.
    pub(super) invalidate: Option<u32>,
    pub(super) is_read: bool,
    pub(super) inject: bool,
    pub(super) flags: SendFlags,
}

impl TxRequest {
    /// Builds the request of a message of `total` bytes.
    ///
    /// # Errors
    ///
    /// The errors of [`remote_addr`]; -FI_EINVAL for immediate data of more than 32 bits, -FI_ENOKEY for such a key
    /// to invalidate, -FI_EBADFLAGS for a read with FI_INJECT or FI_REMOTE_CQ_DATA, and for FI_REMOTE_INVALIDATE
    /// with one of these or in an RMA operation.
    #[inline(always)]
    pub(super) fn new(
        operation: Operation<'_>,
        message: &Message<'_>,
        total: usize,
    ) -> Result<Self> {
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
        let invalidate = match message.flags & FI_REMOTE_INVALIDATE {
            0 => None,
            _ if inject || data.is_some() || remote.is_some() => return Err(Errno::EBADFLAGS),
            _ => Some(u32::try_from(message.data).map_err(|_| Errno::ENOKEY)?),
        };
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
            invalidate,
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
    pub(super) unsafe fn post(
        &self,
        qp: &Qp,
        wr_id: u64,
        sges: &[Sge],
        flags: SendFlags,
    ) -> Result {
        let wr = match (self.remote, self.imm, self.invalidate) {
            (None, None, None) => SendWr::new(wr_id, sges, WrOp::Send, flags),
            (None, None, Some(rkey)) => SendWr::send_with_inv(wr_id, sges, rkey, flags),
            (None, Some(data), _) => SendWr::send_with_imm(wr_id, sges, data, flags),
            (Some(remote), ..) if self.is_read => {
                SendWr::new(wr_id, sges, WrOp::Read(remote), flags)
            }
            (Some(remote), None, _) => SendWr::new(wr_id, sges, WrOp::Write(remote), flags),
            (Some(remote), Some(data), _) => {
                SendWr::write_with_imm(wr_id, sges, remote, data, flags)
            }
        };
        // SAFETY: By this function's safety requirement.
        unsafe { qp.post_send(&wr) }.map_err(wc_status::post_errno)
    }
}

/// Returns the message as a single segment if the fast path may take it: its flags are among
/// `usual`.
#[inline(always)]
pub(super) fn as_single_xfer<'a>(message: &Message<'a>, usual: u64) -> Option<SingleSegment<'a>> {
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
pub(super) fn check_inject(message: &Message<'_>, total: usize, max_len: usize) -> Result {
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
