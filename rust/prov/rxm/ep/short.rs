// SPDX-License-Identifier: GPL-2.0

//! Fast paths: post a short message, or an RDMA read or write of one registered segment, to a connected peer at once.
//!
//! The message is copied into its packet buffer under the lock. An operation that is long, has several segments or other
//! flags, goes to an IPv6 address, or finds the completion queue full, is left to the general path before anything has
//! been done. So is an RDMA operation that cannot be posted at once, and such a send continues on the general path under
//! the same lock: the peer was not used recently, has no open connection, has deferred operations or is reached through
//! the loop provider, there is no credit or no free buffer, or the post fails.

use super::{
    super::{
        flags::COMPLETION_LEVELS,
        iov::{
            AddrCheck,
            PostedSrc, //
        },
        local::LocalMsg,
        turn::SHORT_COPY,
        tx_op::TxComp,
        wire, //
    },
    Endpoint, //
};
use crate::{
    abi::{
        fi_rma_iov,
        flags::*, //
    },
    fi::{
        prelude::*,
        provider::{
            Destination,
            Rma,
            SingleSegment, //
        },
    },
    util::cold::call_cold, //
};
use core::net::Ipv4Addr;

/// Flags of a send that change neither its packet nor its protocol.
const PLAIN_FLAGS: u64 = FI_COMPLETION | FI_MORE | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE;

impl Endpoint {
    /// Sends a short message. Returns `None`, without any effect, if the general path has to send it.
    #[inline(always)]
    pub(super) fn try_short_send(
        &self,
        single: &SingleSegment<'_>,
        to: Destination,
    ) -> Option<Result> {
        let is_short = single.flags & !PLAIN_FLAGS == 0 && single.segment.len() <= SHORT_COPY;
        match is_short {
            true => self.send_short(single, to, false),
            false => None,
        }
    }

    /// Posts an RDMA read or write of one registered segment. Returns `None`, without any effect, if the general path
    /// has to post it.
    #[inline(always)]
    pub(super) fn try_short_rma(
        &self,
        way: Rma,
        remote: &[fi_rma_iov],
        single: &SingleSegment<'_>,
        to: Destination,
    ) -> Option<Result> {
        let refused = !PLAIN_FLAGS | COMPLETION_LEVELS & !self.rma_levels;
        match remote {
            [range] if single.flags & refused == 0 && self.has_rma => {
                self.rma_short((way, range), single, to)
            }
            _ => None,
        }
    }

    #[inline(never)]
    fn rma_short(
        &self,
        (way, range): (Rma, &fi_rma_iov),
        single: &SingleSegment<'_>,
        to: Destination,
    ) -> Option<Result> {
        let len = single.segment.len();
        let core = &self.core;
        let is_plain = range.len == len
            && len <= self.max_msg_size
            && !single.descriptor.as_ptr().is_null()
            && core.domain.is_open(&core.protection);
        if !is_plain {
            return None;
        }
        let memory = Memory::Segments(slice::from_ref(single.segment));
        core.domain
            .check_descriptors(memory, slice::from_ref(&single.descriptor))
            .ok()?;
        let (bound_cq, bound) = self.tx_path().ok()?;
        let addr = bound.addresses.lookup_v4(to.peer)?;
        let kind = match way {
            Rma::Read => FI_READ,
            Rma::Write => FI_WRITE,
        };
        let comp = TxComp {
            tx_ctx: self.context,
            context: single.context,
            flags: FI_RMA | kind,
            reports_success: single.flags & FI_COMPLETION != 0 || !bound_cq.is_selective,
        };
        if !bound_cq.queue.reserve() {
            return None;
        }
        let mut held = core.hold();
        let (state, sinks) = held.split();
        let is_enabled = sinks.tx.ctx(comp.tx_ctx).is_some();
        if is_enabled && state.post_short_rma(addr, (comp, (way, range), single)) {
            let posted = sinks.tx_stats.ctx(comp.tx_ctx);
            posted.record_start(comp.flags, len);
            return Some(Ok(()));
        }
        drop(held);
        bound_cq.queue.release();
        None
    }

    /// Injects a short message. Returns `None`, without any effect, if the general path has to send it.
    #[inline(always)]
    pub(super) fn try_short_inject(
        &self,
        segment: &Segment,
        flags: u64,
        to: Destination,
    ) -> Option<Result> {
        let is_short = flags & !(PLAIN_FLAGS | FI_INJECT) == 0
            && segment.len() <= SHORT_COPY
            && segment.len() <= self.inject;
        let single = SingleSegment {
            segment,
            descriptor: Descriptor::NONE,
            context: Context::NULL,
            flags: 0,
        };
        match is_short {
            true => self.send_short(&single, to, true),
            false => None,
        }
    }

    /// Sends a message of up to [`SHORT_COPY`] bytes; with `errors_only` a success is reported only if the flags have
    /// FI_COMPLETION. Returns `None`, without any effect, if the general path has to send it.
    #[inline(never)]
    fn send_short(
        &self,
        single: &SingleSegment<'_>,
        to: Destination,
        errors_only: bool,
    ) -> Option<Result> {
        let memory = Memory::Segments(slice::from_ref(single.segment));
        let domain = &self.core.domain;
        domain
            .check_descriptors(memory, slice::from_ref(&single.descriptor))
            .ok()?;
        // SAFETY: The memory is copied before this call returns.
        let from = unsafe { PostedSrc::borrow(memory, AddrCheck::Kernel, 1) }.ok()?;
        let (bound_cq, bound) = self.tx_path().ok()?;
        let addr = bound.addresses.lookup_v4(to.peer)?;
        let message = wire::Message {
            context: u8::try_from(bound.addresses.rx_context(to.peer)).ok()?,
            ack: None,
            tag: to.tag,
            len: from.len() as u64,
            data: None,
        };
        let comp = TxComp {
            tx_ctx: self.context,
            context: single.context,
            flags: FI_SEND | to.tag.map_or(FI_MSG, |_| FI_TAGGED),
            reports_success: single.flags & FI_COMPLETION != 0
                || !bound_cq.is_selective && !errors_only,
        };
        if !bound_cq.queue.reserve() {
            return None;
        }
        let mut held = self.core.hold();
        let (state, sinks) = held.split();
        let is_enabled = sinks.tx.ctx(comp.tx_ctx).is_some();
        if is_enabled && state.post_short(addr, comp, &message, &from) {
            let sent = sinks.tx_stats.ctx(comp.tx_ctx);
            sent.record_start(comp.flags, from.len());
            return Some(Ok(()));
        }
        Some(call_cold(move || {
            let to = (Ipv4Addr::from_bits(addr.0), addr.1).into();
            let local_msg = LocalMsg {
                message,
                from,
                wants_ack: false,
            };
            let len = from.len();
            self.start_held(held, (bound_cq, bound), &to, len, comp, local_msg)
        }))
    }
}
