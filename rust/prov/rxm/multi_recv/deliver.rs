// SPDX-License-Identifier: GPL-2.0

//! Matching of received messages, and delivery of those that have a slot of a multi-receive buffer or a shared
//! receive. Guarded by `EpCore::inner`.
//!
//! Such a message needs an internal entry and a completion queue entry. If one is missing, it waits in order, and
//! later messages do not overtake it.

use super::{
    super::{
        completion::CompSinks,
        ep::ctx::RxCtx,
        ep_state::EpState,
        inflight::Indexed,
        iov::DstBuf,
        matcher::{
            MatchResult,
            MsgKey,
            Search,
            SEARCH_STEP, //
        },
        rx_entry::{
            Receive,
            RxKind,
            RxTarget, //
        },
        turn::Held,
        unexpected::UnexpMsg,
        wire::Message, //
    },
    MultiRecvSlot, //
};
use crate::fi::prelude::*;
use core::result::Result;

/// Number of messages that can be received into multi-receive buffers or shared receives at once.
pub(in super::super) const INTERNAL_ENTRIES: usize = 128;

/// Number of messages that are delivered before the lock is released.
const BATCH: usize = 16;

/// Resource that a message is missing.
#[derive(Clone, Copy)]
pub(in super::super) enum Missing {
    /// A receive, or a completion queue entry for a shared one.
    Receive,
    /// A completion queue entry for a message in the multi-receive buffer of this number.
    CqSlot(u32),
}

impl EpState {
    /// Returns the receive of a message, if it can be received now.
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
        let slot = rx_ctx.take_slot(buffer, key, message.len);
        let target = slot.map(RxTarget::Slot);
        rx_ctx
            .assign_internal(sinks, entry, target)
            .ok_or(Missing::Receive)
    }

    /// Cancels a multi-receive buffer; the cancellation is reported when all slots are complete. The caller has
    /// reserved an entry for it.
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

impl Held<'_> {
    /// Queues a message until the missing resource is available. The caller has the turn.
    pub(in super::super) fn queue_missing(
        &mut self,
        mut unexp: ListBox<UnexpMsg>,
        missing: Missing,
    ) {
        let (state, sinks) = self.split();
        let has_deferred_rx = state.has_deferred_rx();
        let at = unexp.key.context;
        let rx_ctx = state.rx_ctxs.ctx_mut(at);
        if let Missing::CqSlot(buffer) = missing {
            unexp.target = rx_ctx
                .take_slot(buffer, &unexp.key, unexp.message.len)
                .map(RxTarget::Slot);
        }
        if unexp.target.is_some() {
            rx_ctx.assigned.push(unexp);
        } else if let Some((srx_recv, unexp)) = rx_ctx.queue(sinks, unexp, has_deferred_rx) {
            rx_ctx.assign(RxTarget::Shared(srx_recv), unexp);
            let _ = self.deliver_ctx(at);
        }
        let needs_srx_retry = self.rx_ctxs.ctx(at).needs_srx_retry();
        self.needs_srx_retry |= needs_srx_retry;
    }

    /// Delivers messages that have memory, as far as completion queue entries are free. Returns true if there are
    /// more. The caller has the turn.
    pub(in super::super) fn deliver(&mut self) -> bool {
        let mut rx_ctxs = 0..self.rx_ctxs.len() as u8;
        rx_ctxs.any(|at| self.deliver_ctx(at))
    }

    pub(in super::super) fn deliver_ctx(&mut self, at: u8) -> bool {
        for _ in 0..BATCH {
            let (state, sinks) = self.split();
            let rx_ctx = state.rx_ctxs.ctx_mut(at);
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
                sinks.release_rx(entry.rx_ctx);
            }
            if let Some(receive) = rx_ctx.assign_internal(sinks, entry, target) {
                self.deliver_unexp(receive, &unexp);
            }
        }
        !self.rx_ctxs.ctx(at).assigned.is_empty()
    }
}

impl RxCtx {
    /// Queues a message that has memory until it is delivered.
    pub(in super::super) fn assign(&mut self, target: RxTarget, mut unexp: ListBox<UnexpMsg>) {
        unexp.target = Some(target);
        self.assigned.push(unexp);
    }

    /// Takes an internal entry and reserves a completion queue entry.
    pub(in super::super) fn get_internal(&mut self, sinks: &CompSinks) -> Option<ListBox<Receive>> {
        let entry = self.internal.pop()?;
        if sinks.reserve_rx(entry.rx_ctx) {
            return Some(entry);
        }
        self.internal.push(entry);
        None
    }

    /// Assigns `target` to an internal entry; without one, puts the entry back and releases the completion queue
    /// entry.
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
                sinks.release_rx(entry.rx_ctx);
                self.internal.push(entry);
                None
            }
        }
    }

    /// Takes a slot for a message of `len` bytes in the posted buffer that matches it.
    fn take_slot(&mut self, buffer: u32, key: &MsgKey, len: u64) -> Option<MultiRecvSlot> {
        let slot = self.buffers.take_slot(buffer, len);
        if !self.buffers.takes_more(buffer) {
            if let Some(receive) = self.matcher.take_receive(key) {
                self.close_multi(receive);
            }
        }
        slot
    }

    /// Closes a multi-receive buffer.
    fn close_multi(&mut self, receive: ListBox<Receive>) {
        if let Some(receive) = self.buffers.close(receive) {
            self.put_back(receive);
        }
    }

    /// Opens a multi-receive buffer, whose memory begins at address `at`; it takes messages until less than `min_free`
    /// bytes are free. The caller [posts](Self::post_multi) it.
    pub(in super::super) fn open_multi(
        &mut self,
        receive: &mut Receive,
        at: usize,
        min_free: usize,
    ) {
        receive.kind = RxKind::Multi {
            is_cancelled: false,
        };
        let memory = mem::replace(&mut receive.into, DstBuf::EMPTY);
        self.buffers.open(receive, (at, memory), min_free);
    }

    /// Posts a multi-receive buffer. Unexpected messages get slots at once, and the caller
    /// [delivers](Held::deliver) them. Returns the receive if there may be more messages: the caller posts it
    /// again, and releases the lock before.
    pub(in super::super) fn post_multi(
        &mut self,
        receive: ListBox<Receive>,
    ) -> Option<ListBox<Receive>> {
        let number = receive.number();
        for _ in 0..SEARCH_STEP {
            if !self.buffers.takes_more(number) {
                self.close_multi(receive);
                return None;
            }
            let Self {
                matcher, buffers, ..
            } = self;
            let take_slot = |unexp: &UnexpMsg| buffers.take_slot(number, unexp.message.len);
            match matcher.claim_if(&receive.spec, take_slot) {
                Search::Found(Some((mut unexp, slot))) => {
                    unexp.target = Some(RxTarget::Slot(slot));
                    self.assigned.push(unexp);
                }
                Search::NotFound => {
                    self.matcher.queue_receive(receive);
                    return None;
                }
                Search::Found(None) | Search::Again => break,
            }
        }
        Some(receive)
    }
}
