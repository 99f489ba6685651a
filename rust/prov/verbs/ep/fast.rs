// SPDX-License-Identifier: GPL-2.0

//! The fast path of the data path: a single range of a registered region, and no special flags.
//! Other operations are left to [`post`](super::post), before anything has been done.

use super::{
    super::{
        sge::SingleSge,
        wc_status,
        wq::OpKind, //
    },
    post::{
        remote_addr,
        FAST_RX_FLAGS, //
    },
    Endpoint, //
};
use crate::{
    abi::{
        cold::{
            call_cold,
            cold_hint, //
        },
        flags::*,
        Result, //
    },
    fi::{
        memory::{
            Context,
            Segment, //
        },
        provider::{
            Operation,
            Rma,
            SingleSegment, //
        },
    },
    rdma::{
        dma::VALID_ADDRS,
        wr::{
            SendFlag,
            SendFlags, //
        },
        wr_template::WrOp, //
    },
};

impl Endpoint {
    /// Returns the memory of a transfer without any of the flags `special`; None if the fast path
    /// cannot take it.
    #[inline(always)]
    fn single_sge_if_fast(&self, single: &SingleSegment<'_>, special: u64) -> Option<SingleSge> {
        match single.flags & special {
            0 => SingleSge::from_segment(single.segment, single.descriptor, &self.pd),
            _ => None,
        }
    }

    /// Returns the flags of the completion of an operation of `len` bytes, and its work request.
    /// None if the fast path cannot take it.
    #[inline(always)]
    fn wr_op(&self, operation: Operation<'_>, len: usize) -> Option<(u64, WrOp)> {
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

    /// Posts a send, write or, except on siw, a read on the fast path. Returns None if the fast
    /// path cannot take it.
    #[inline(always)]
    pub(super) fn post_fast<const LOCKS: bool>(
        &self,
        operation: Operation<'_>,
        single: &SingleSegment<'_>,
    ) -> Option<Result> {
        let sge = self.single_sge_if_fast(single, self.attrs.slow_path_flags)?;
        let len = single.segment.len();
        let (flags, ask) = self.wr_op(operation, len)?;
        let is_read = matches!(ask, WrOp::Read(_));
        // SAFETY: This is a data call, which does not lock the queue again before `finish_fast`.
        let mut slot = unsafe {
            self.sq
                .reserve_fast::<LOCKS>(single.context, (flags, len), OpKind::Reported)
        }?;
        let wr_id = slot.wr_id;
        let mut how = SendFlags::from(SendFlag::Signaled);
        let is_inline = !is_read && sge.len() <= slot.wq.inline_size();
        if is_inline {
            cold_hint();
            how |= SendFlag::Inline;
        }
        let piece = (sge.addr(is_inline), sge.len());
        // SAFETY: It is the send queue. The segment's type promises that the memory is the
        // operation's until it completes; what is inline is copied now.
        let posted = unsafe { slot.send_template().post(wr_id, piece, ask, how) };
        slot.finish_fast(&posted);
        Some(self.map_post_result(posted))
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

    /// Posts a send or write whose data the driver copies while it posts. Returns None if the fast
    /// path cannot take it.
    #[inline(always)]
    pub(super) fn post_inject_fast(
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
        let (flags, ask) = match self.wr_op(operation, len)? {
            (_, WrOp::Read(_)) => return None,
            written => written,
        };
        // SAFETY: As in `post_fast`.
        let slot = unsafe {
            self.sq
                .reserve_fast::<false>(Context::NULL, (flags, len), OpKind::Silent)
        };
        let mut slot = slot?;
        let wr_id = slot.wr_id;
        let mut how = SendFlags::from(SendFlag::Inline);
        if slot.is_signalled {
            how |= SendFlag::Signaled;
        }
        let piece = (segment.addr() as u64, len as u32);
        // SAFETY: It is the send queue, and the memory is copied now.
        let posted = unsafe { slot.send_template().post(wr_id, piece, ask, how) };
        slot.finish_fast(&posted);
        Some(self.map_post_result(posted))
    }

    /// Posts a receive on the fast path. Returns None if the fast path cannot take it.
    #[inline(always)]
    pub(super) fn post_recv_fast<const LOCKS: bool>(
        &self,
        single: &SingleSegment<'_>,
    ) -> Option<Result> {
        let sge = self.single_sge_if_fast(single, !FAST_RX_FLAGS)?;
        // SAFETY: As in `post_fast`.
        let mut slot = unsafe {
            self.rq
                .reserve_fast::<LOCKS>(single.context, (FI_RECV | FI_MSG, 0), OpKind::Reported)
        }?;
        let wr_id = slot.wr_id;
        let range = (sge.addr(false), sge.len());
        // SAFETY: It is the receive queue; as in `post_fast`.
        let posted = unsafe { slot.recv_template().post(wr_id, range) };
        slot.finish_fast(&posted);
        Some(match posted {
            Ok(()) => Ok(()),
            Err(error) => call_cold(move || Err(self.receive_error(wc_status::post_errno(error)))),
        })
    }
}
