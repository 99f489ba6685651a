// SPDX-License-Identifier: GPL-2.0

//! The fast path of atomic operations: on one word, whose old value goes into a registered region.
//! Other operations are left to [`post_atomic`](Endpoint::post_atomic), before anything has been
//! done.

use super::{
    NativeAtomic,
    WORD_SIZE, //
};
use crate::{
    abi::flags::*,
    fi::{
        atomic::Atomic,
        prelude::*,
        provider::Message, //
    },
    prov::verbs::{
        cas_atomic::operands,
        ep::Endpoint,
        sge::SingleSge,
        wq::OpKind, //
    },
    rdma::wr::{
        RemoteAddr,
        SendFlag,
        SendFlags,
        WrOp, //
    },
};

/// Returns the operand of an operation on one word.
fn operand_word(segments: &[Segment]) -> Option<u64> {
    match segments {
        [segment] if segment.len() == WORD_SIZE => operands::read_segment_word(segment).ok(),
        _ => None,
    }
}

impl Endpoint {
    /// Posts a fetching operation that the device has. Returns None if the fast path cannot take
    /// it.
    #[inline(always)]
    pub(in crate::prov::verbs::ep) fn post_atomic_fast(
        &self,
        atomic: &Atomic<'_>,
        message: &Message<'_>,
    ) -> Option<Result> {
        // On iWARP later operations would need a fence.
        let is_special = message.flags & self.attrs.slow_path_flags != 0;
        if is_special || self.attrs.atomics_errno.is_some() || self.attrs.is_iwarp {
            return None;
        }
        let native = NativeAtomic::for_op(atomic.form, atomic.op, atomic.datatype, 1)?;
        let ([range], [result], [descriptor], Memory::Segments(operands)) = (
            atomic.remote,
            atomic.result,
            atomic.result_descriptors,
            message.memory,
        ) else {
            return None;
        };
        if range.count != 1 || range.addr % WORD_SIZE as u64 != 0 {
            return None;
        }
        let remote = RemoteAddr {
            addr: range.addr,
            rkey: u32::try_from(range.key).ok()?,
        };
        let sge = SingleSge::from_segment(result, *descriptor, &self.pd)?;
        if sge.len() as usize != WORD_SIZE {
            return None;
        }
        let op = match native {
            NativeAtomic::Read => WrOp::Read(remote),
            NativeAtomic::FetchAdd => WrOp::FetchAdd(remote, operand_word(operands)?),
            NativeAtomic::CmpSwap => WrOp::CmpSwap(
                remote,
                operand_word(atomic.compare)?,
                operand_word(operands)?,
            ),
        };
        let flags = FI_READ | FI_ATOMIC;
        // SAFETY: This is a data call, which does not lock the queue again before `finish_fast`.
        let slot = unsafe {
            self.sq
                .reserve_fast::<false>(message.context, (flags, WORD_SIZE), OpKind::Reported)
        };
        let mut slot = slot?;
        let wr_id = slot.wr_id;
        let range = (sge.addr(false), sge.len());
        let send_flags = SendFlags::from(SendFlag::Signaled);
        // SAFETY: It is the send queue. The segment's type promises that the memory is the
        // operation's until it completes.
        let posted = unsafe { slot.send_template().post(wr_id, range, op, send_flags) };
        slot.finish_fast(&posted);
        Some(self.map_post_result(posted))
    }
}
