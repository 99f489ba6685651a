// SPDX-License-Identifier: GPL-2.0

//! The short way of the data path: one range of a registered region, no flags, and nothing in the
//! way. Whatever is otherwise is left to [`post`](super::post), before anything has been done.

use super::{
    super::{
        sge::SingleSge,
        wc_status,
        wq::OpKind, //
    },
    post::{
        facing,
        USUAL_RECEIVE, //
    },
    Endpoint, //
};
use crate::{
    abi::{
        cold::{
            apart,
            aside, //
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
        dma::MEMORY,
        wr::{
            SendFlag,
            SendFlags, //
        },
        wr_template::WrOp, //
    },
};

impl Endpoint {
    /// The memory of a transfer whose flags change nothing: none of `special`.
    #[inline(always)]
    fn whole_of(&self, single: &SingleSegment<'_>, special: u64) -> Option<SingleSge> {
        match single.flags & special {
            0 => SingleSge::of_one(single.segment, single.descriptor, &self.pd),
            _ => None,
        }
    }

    /// What an operation of `len` bytes asks of the device, and the flags of its completion.
    #[inline(always)]
    fn request(&self, operation: Operation<'_>, len: usize) -> Option<(u64, WrOp)> {
        Some(match operation {
            Operation::Send => (FI_SEND | FI_MSG, WrOp::Message),
            Operation::Rma(Rma::Write, remote) => {
                (FI_WRITE | FI_RMA, WrOp::Write(facing(remote, len).ok()?))
            }
            // What comes behind it would need a fence.
            Operation::Rma(Rma::Read, _) if self.limits.is_iwarp => return None,
            Operation::Rma(Rma::Read, remote) => {
                (FI_READ | FI_RMA, WrOp::Read(facing(remote, len).ok()?))
            }
        })
    }

    /// A send, a write or, where nothing overtakes it, a read.
    #[inline(always)]
    pub(super) fn post_plain<const LOCKS: bool>(
        &self,
        operation: Operation<'_>,
        single: &SingleSegment<'_>,
    ) -> Option<Result> {
        let whole = self.whole_of(single, self.limits.special_flags)?;
        let len = single.segment.len();
        let (flags, ask) = self.request(operation, len)?;
        let is_read = matches!(ask, WrOp::Read(_));
        // SAFETY: It is the send queue. This is a data call, which does not lock it again before `plain` is gone.
        let mut plain = unsafe {
            self.transmit
                .begin_send::<LOCKS>(single.context, (flags, len), OpKind::Reported)
        }?;
        let wr_id = plain.wr_id;
        let mut how = SendFlags::from(SendFlag::Signaled);
        let is_inline = !is_read && whole.len() <= plain.queue.inline();
        if is_inline {
            apart();
            how |= SendFlag::Inline;
        }
        let piece = (whole.addr(is_inline), whole.len());
        // SAFETY: The segment's type promises that the memory is the operation's until it completes;
        // what is inline is copied now.
        let posted = unsafe { plain.poster().post(wr_id, piece, ask, how) };
        plain.settle(&posted);
        Some(self.transmitted(posted))
    }

    /// What a driver says to a transmit.
    #[inline(always)]
    pub(super) fn transmitted(&self, posted: kernel::error::Result) -> Result {
        match posted {
            Ok(()) => Ok(()),
            Err(error) => {
                aside(move || Err(self.state.transmit_refused(wc_status::refused(error))))
            }
        }
    }

    /// A send or a write of what the driver copies while it posts.
    #[inline(always)]
    pub(super) fn post_injected(
        &self,
        operation: Operation<'_>,
        segment: &Segment,
        flags: u64,
    ) -> Option<Result> {
        let len = segment.len();
        // Nothing is more than any, which siw does not take inline.
        let fits = len.wrapping_sub(1) < self.transmit.inline() as usize;
        if flags & self.limits.special_flags != 0 || !fits || !MEMORY.contains(&segment.addr()) {
            return None;
        }
        let (flags, ask) = match self.request(operation, len)? {
            (_, WrOp::Read(_)) => return None,
            written => written,
        };
        // SAFETY: It is the send queue. This is a data call, which does not lock it again before `plain` is gone.
        let begun = unsafe {
            self.transmit
                .begin_send::<false>(Context::NULL, (flags, len), OpKind::Silent)
        };
        let mut plain = begun?;
        let wr_id = plain.wr_id;
        let mut how = SendFlags::from(SendFlag::Inline);
        if plain.signal() {
            how |= SendFlag::Signaled;
        }
        let piece = (segment.addr() as u64, len as u32);
        // SAFETY: The memory is copied now.
        let posted = unsafe { plain.poster().post(wr_id, piece, ask, how) };
        plain.settle_silent(&posted);
        Some(self.transmitted(posted))
    }

    /// A receive.
    #[inline(always)]
    pub(super) fn post_receive_plain<const LOCKS: bool>(
        &self,
        single: &SingleSegment<'_>,
    ) -> Option<Result> {
        let whole = self.whole_of(single, !USUAL_RECEIVE)?;
        let flags = FI_RECV | FI_MSG;
        // SAFETY: It is the receive queue. This is a data call, which does not lock it again before `plain` is gone.
        let mut plain = unsafe { self.receive.begin_receive::<LOCKS>(single.context, flags) }?;
        let wr_id = plain.wr_id;
        // SAFETY: As in `post_plain`.
        let posted = unsafe {
            plain
                .poster()
                .receive(wr_id, (whole.addr(false), whole.len()))
        };
        plain.settle(&posted);
        Some(match posted {
            Ok(()) => Ok(()),
            Err(error) => aside(move || Err(self.receive_refused(wc_status::refused(error)))),
        })
    }
}
