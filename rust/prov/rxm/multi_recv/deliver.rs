// SPDX-License-Identifier: GPL-2.0

//! Receives that take several messages: each has a place in the buffer at once, and is received when there
//! is room to tell of it. Those that wait for that do so in order, and nobody overtakes them.

use super::{
    super::{
        completion::CompSinks,
        ep::ctx::RxCtx,
        ep_state::EpState,
        inflight::Indexed,
        iov::DstBuf,
        matcher::{
            MatchResult,
            MatchSpec,
            MsgKey, //
        },
        rx_entry::{
            Receive,
            RxKind,
            RxTarget, //
        },
        unexpected::UnexpMsg,
        wire::Message, //
    },
    MultiRecvSlot, //
};
use crate::{
    fi::prelude::*,
    util::owned_list::ListBox, //
};
use core::result::Result;

/// How many messages may be coming into buffers, or what is shared, at once.
pub(in super::super) const INTERNAL_ENTRIES: usize = 128;

/// How many are handed over before others have their turn.
const BATCH: usize = 16;

/// What a message lacks.
pub(in super::super) enum Missing {
    /// A receive; or room to be told of one that is shared.
    Receive,
    /// Room to be told of: it goes to the buffer of that number.
    CqSlot(u32),
}

impl EpState {
    /// The receive of a message that has come, if that can be received now.
    #[inline]
    pub(in super::super) fn match_rx(
        &mut self,
        sinks: &CompSinks,
        key: &MsgKey,
        message: &Message,
    ) -> Result<ListBox<Receive>, Missing> {
        let rx_ctx = self.rx_ctxs.ctx_mut(key.context);
        let buffer = match rx_ctx.matcher.match_msg(key) {
            None => {
                let shared = rx_ctx.get_shared(sinks, key, message);
                return shared.ok_or(Missing::Receive);
            }
            Some(MatchResult::One(receive)) => return Ok(receive),
            Some(MatchResult::Multi(buffer)) => buffer,
        };
        let entry = match rx_ctx.assigned.is_empty() {
            true => rx_ctx.get_internal(sinks),
            false => None,
        };
        let entry = entry.ok_or(Missing::CqSlot(buffer))?;
        let slot = rx_ctx.take_slot(buffer, message.len);
        let target = slot.map(RxTarget::Slot);
        rx_ctx
            .assign_internal(sinks, entry, target)
            .ok_or(Missing::Receive)
    }

    /// Has a message wait for what it lacks.
    pub(in super::super) fn queue_missing(
        &mut self,
        sinks: &CompSinks,
        mut unexp: ListBox<UnexpMsg>,
        missing: Missing,
    ) {
        let has_deferred_rx = self.has_deferred_rx();
        let at = unexp.key.context;
        let rx_ctx = self.rx_ctxs.ctx_mut(at);
        if let Missing::CqSlot(buffer) = missing {
            unexp.target = rx_ctx
                .take_slot(buffer, unexp.message.len)
                .map(RxTarget::Slot);
        }
        if unexp.target.is_some() {
            rx_ctx.assigned.push(unexp);
        } else if let Some((srx_recv, unexp)) = rx_ctx.queue(sinks, unexp, has_deferred_rx) {
            self.srx_matched(sinks, srx_recv, unexp);
        }
        self.needs_srx_retry |= self.rx_ctxs.ctx(at).needs_srx_retry();
    }

    /// Hands over some of the messages that have got something, as far as there is room to tell of them;
    /// whether to come again at once.
    pub(in super::super) fn deliver(&mut self, sinks: &CompSinks) -> bool {
        let mut rx_ctxs = 0..self.rx_ctxs.len() as u8;
        rx_ctxs.any(|at| self.deliver_ctx(sinks, at))
    }

    pub(in super::super) fn deliver_ctx(&mut self, sinks: &CompSinks, at: u8) -> bool {
        for _ in 0..BATCH {
            let rx_ctx = self.rx_ctxs.ctx_mut(at);
            if rx_ctx.assigned.is_empty() {
                return false;
            }
            let Some(entry) = rx_ctx.get_internal(sinks) else {
                return false;
            };
            let unexp = rx_ctx.assigned.pop();
            let Some(mut unexp) = unexp else {
                rx_ctx.assign_internal(sinks, entry, None);
                return false;
            };
            let target = unexp.target.take();
            if let Some(RxTarget::Discard) = target {
                sinks.release(entry.rx_ctx);
            }
            if let Some(receive) = rx_ctx.assign_internal(sinks, entry, target) {
                self.deliver_unexp(sinks, receive, &unexp);
            }
        }
        !self.rx_ctxs.ctx(at).assigned.is_empty()
    }

    /// Ends a receive that takes no more messages, as the consumer does not want it; once all that is in its
    /// buffer is over. Room has been taken to tell of it.
    pub(in super::super) fn cancel_multi(
        &mut self,
        sinks: &CompSinks,
        mut receive: ListBox<Receive>,
    ) {
        receive.kind = RxKind::Multi { is_cancelled: true };
        let rx_ctx = self.rx_ctxs.ctx_mut(receive.rx_ctx);
        if let Some(receive) = rx_ctx.buffers.close(receive) {
            self.give_up_receive(sinks, receive, Errno::ECANCELED);
        }
    }
}

impl RxCtx {
    /// A receive for a message that has got something, and room to tell of it.
    pub(in super::super) fn get_internal(&mut self, sinks: &CompSinks) -> Option<ListBox<Receive>> {
        let entry = self.internal.pop()?;
        if sinks.reserve(entry.rx_ctx) {
            return Some(entry);
        }
        self.internal.push(entry);
        None
    }

    /// Has it receive a message that has got that; if it has got nothing it is not needed.
    pub(in super::super) fn assign_internal(
        &mut self,
        sinks: &CompSinks,
        mut entry: ListBox<Receive>,
        target: Option<RxTarget>,
    ) -> Option<ListBox<Receive>> {
        match target {
            Some(target) => {
                entry.assign(target);
                Some(entry)
            }
            None => {
                sinks.release(entry.rx_ctx);
                self.internal.push(entry);
                None
            }
        }
    }

    /// Takes a place for a message of `len` bytes in the buffer of a receive that waits.
    fn take_slot(&mut self, buffer: u32, len: u64) -> Option<MultiRecvSlot> {
        let slot = self.buffers.take_slot(buffer, len);
        if !self.buffers.takes_more(buffer) {
            let is = |receive: &Receive| receive.number() == buffer;
            if let Some(receive) = self.matcher.cancel(false, is) {
                self.close_multi(receive);
            }
        }
        slot
    }

    /// A receive takes no more messages.
    fn close_multi(&mut self, receive: ListBox<Receive>) {
        if let Some(receive) = self.buffers.close(receive) {
            self.put_back(receive);
        }
    }

    /// Posts a receive for several messages, into memory that begins at `at`: it waits until less than
    /// `least` bytes of that are left. Those that are there have places then, and are to be
    /// [`delivered`](Traffic::deliver).
    pub(in super::super) fn post_multi(
        &mut self,
        mut receive: ListBox<Receive>,
        at: usize,
        min_free: usize,
        spec: MatchSpec,
    ) {
        receive.spec = spec;
        receive.kind = RxKind::Multi {
            is_cancelled: false,
        };
        let number = receive.number();
        let memory = mem::replace(&mut receive.into, DstBuf::EMPTY);
        self.buffers.open(&receive, (at, memory), min_free);
        let Self {
            matcher, buffers, ..
        } = self;
        let mut assigned = matcher.claim_multi(&receive.spec, |unexp| {
            unexp.target = buffers
                .take_slot(number, unexp.message.len)
                .map(RxTarget::Slot);
            unexp.target.is_some()
        });
        self.assigned.append(&mut assigned);
        match self.buffers.takes_more(number) {
            true => self.matcher.queue_receive(receive),
            false => self.close_multi(receive),
        }
    }
}
