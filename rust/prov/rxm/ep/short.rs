// SPDX-License-Identifier: GPL-2.0

//! Fast path of sends: posts a short message to a connected peer at once.
//!
//! The message is copied into its packet buffer under the lock. A send that has to wait, or needs a choice of protocol, is
//! left to the general path before anything has been done: it is long or has several segments, other flags, no connection,
//! no credit or no free buffer, or other operations to the peer are deferred.

use super::{
    super::{
        iov::{
            AddrCheck,
            PostedSrc, //
        },
        turn::SHORT_COPY,
        tx_op::TxComp,
        wire, //
    },
    Endpoint, //
};
use crate::{
    abi::flags::*,
    fi::{
        prelude::*,
        provider::{
            Destination,
            SingleSegment, //
        },
    },
};

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
        if single.flags & !PLAIN_FLAGS != 0 {
            return None;
        }
        if !single.descriptor.as_ptr().is_null() {
            let memory = Memory::Segments(slice::from_ref(single.segment));
            let descriptors = slice::from_ref(&single.descriptor);
            let domain = &self.core.domain;
            domain.check_descriptors(memory, descriptors).ok()?;
        }
        let always = single.flags & FI_COMPLETION != 0;
        self.send_short(single.segment, to, single.context, |is_selective| {
            always || !is_selective
        })
    }

    /// Injects a short message. Returns `None`, without any effect, if the general path has to send it.
    #[inline(always)]
    pub(super) fn try_short_inject(
        &self,
        segment: &Segment,
        flags: u64,
        to: Destination,
    ) -> Option<Result> {
        if flags & !(PLAIN_FLAGS | FI_INJECT) != 0 || segment.len() > self.inject {
            return None;
        }
        self.send_short(segment, to, Context::NULL, |_| false)
    }

    /// Sends a message; `reports_success` returns whether a success is reported to a queue that is selective or not.
    #[inline(always)]
    fn send_short(
        &self,
        segment: &Segment,
        to: Destination,
        context: Context,
        reports_success: impl FnOnce(bool) -> bool,
    ) -> Option<Result> {
        let len = segment.len();
        if len > SHORT_COPY {
            return None;
        }
        let memory = Memory::Segments(slice::from_ref(segment));
        // SAFETY: The memory is copied before this call returns.
        let from = unsafe { PostedSrc::borrow(memory, AddrCheck::Kernel, 1) }.ok()?;
        let (bound_cq, bound) = self.tx_path().ok()?;
        let addr = bound.addresses.lookup_v4(to.peer)?;
        let message = wire::Message {
            context: u8::try_from(bound.addresses.rx_context(to.peer)).ok()?,
            ack: None,
            tag: to.tag,
            len: len as u64,
            data: None,
        };
        let comp = TxComp {
            tx_ctx: self.context,
            context,
            flags: FI_SEND | to.tag.map_or(FI_MSG, |_| FI_TAGGED),
            reports_success: reports_success(bound_cq.is_selective),
        };
        if !bound_cq.queue.reserve() {
            return None;
        }
        let mut inner = self.core.inner.lock();
        let (state, sinks) = inner.split();
        if state.post_short(addr, comp, &message, &from) {
            let sent = sinks.tx_stats.ctx(comp.tx_ctx);
            sent.record_start(comp.flags, len);
            return Some(Ok(()));
        }
        drop(inner);
        bound_cq.queue.release();
        None
    }
}
