// SPDX-License-Identifier: GPL-2.0

//! The short way of an atomic operation: on one word, whose old value comes into a registered region.
//! Whatever is otherwise is left to [`post_atomic`](Endpoint::post_atomic), before anything has been
//! done.

use super::{
    NativeAtomic,
    WORD, //
};
use crate::{
    abi::{
        flags::*,
        Result, //
    },
    fi::{
        atomic::Atomic,
        memory::{
            Memory,
            Segment, //
        },
        provider::Message, //
    },
    prov::verbs::{
        cas_atomic::operands,
        ep::Endpoint,
        sge::SingleSge,
        wq::OpKind, //
    },
    rdma::{
        wr::{
            RemoteAddr,
            SendFlag,
            SendFlags, //
        },
        wr_template::WrOp, //
    },
};

/// What an operation takes with it.
fn word(segments: &[Segment]) -> Option<u64> {
    match segments {
        [segment] if segment.len() == WORD => operands::word(segment).ok(),
        _ => None,
    }
}

impl Endpoint {
    /// An operation that the device has, with its result.
    #[inline(always)]
    pub(in crate::prov::verbs::ep) fn post_word(
        &self,
        atomic: &Atomic<'_>,
        message: &Message<'_>,
    ) -> Option<Result> {
        // iWARP would need a fence behind it.
        let is_special = message.flags & self.limits.special_flags != 0;
        if is_special || self.limits.no_atomics.is_some() || self.limits.is_iwarp {
            return None;
        }
        let native = NativeAtomic::of(atomic.form, atomic.op, atomic.datatype, 1)?;
        let ([range], [result], [descriptor], Memory::Segments(operands)) = (
            atomic.remote,
            atomic.result,
            atomic.result_descriptors,
            message.memory,
        ) else {
            return None;
        };
        if range.count != 1 || range.addr % WORD as u64 != 0 {
            return None;
        }
        let remote = RemoteAddr {
            addr: range.addr,
            rkey: u32::try_from(range.key).ok()?,
        };
        let whole = SingleSge::of_one(result, *descriptor, &self.pd)?;
        if whole.len() as usize != WORD {
            return None;
        }
        let ask = match native {
            NativeAtomic::Read => WrOp::Read(remote),
            NativeAtomic::Add => WrOp::FetchAdd(remote, word(operands)?),
            NativeAtomic::Swap => WrOp::CompareSwap(remote, word(atomic.compare)?, word(operands)?),
        };
        let flags = FI_READ | FI_ATOMIC;
        // SAFETY: It is the send queue. This is a data call, which does not lock it again before `plain` is gone.
        let begun = unsafe {
            self.transmit
                .begin_send::<false>(message.context, (flags, WORD), OpKind::Reported)
        };
        let mut plain = begun?;
        let wr_id = plain.wr_id;
        let piece = (whole.addr(false), whole.len());
        let how = SendFlags::from(SendFlag::Signaled);
        // SAFETY: The segment's type promises that the memory is the operation's until it completes.
        let posted = unsafe { plain.poster().post(wr_id, piece, ask, how) };
        plain.settle(&posted);
        Some(self.transmitted(posted))
    }
}
