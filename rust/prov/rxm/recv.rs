// SPDX-License-Identifier: GPL-2.0

//! Posted receives: posting, completion and cancellation. Guarded by `EpCore::inner`.

use super::{
    completion::{
        CompSinks,
        RecvReq, //
    },
    dispatch::RxMsg,
    ep_state::EpState,
    iov::PostedDst,
    matcher::{
        MsgKey,
        PostResult,
        Search, //
    },
    rx_entry::{
        Receive,
        RxKind, //
    },
    turn::Held,
    unexpected::{
        UnexpBody,
        UnexpMsg, //
    },
    wire::Message, //
};
use crate::fi::prelude::*;

impl EpState {
    /// Takes a free receive entry of the context `at`, to be posted.
    pub(super) fn receive(
        &mut self,
        at: u8,
        into: PostedDst<'_>,
        req: &RecvReq,
    ) -> Option<ListBox<Receive>> {
        let mut receive = self.rx_ctxs.ctx_mut(at).get_entry(into)?;
        receive.context = req.context;
        receive.reports_success = req.reports_success;
        Some(receive)
    }
}

impl Held<'_> {
    /// Posts a receive, which may match an unexpected message. Returns the receive if the search for a message is not
    /// complete: the caller posts it again, and releases the lock before.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN if receives with too many different ignore masks are posted.
    #[inline]
    pub(super) fn post(&mut self, receive: ListBox<Receive>) -> Result<Option<ListBox<Receive>>> {
        let at = receive.rx_ctx;
        self.retry_wanted |= self.may_match_deferred(at, &receive.spec);
        let (state, sinks) = self.split();
        match state.rx_ctxs.ctx_mut(at).matcher.post(receive) {
            PostResult::Posted => sinks.rx_stats.ctx(at).record_post(),
            PostResult::Matched(receive, unexp) => {
                sinks.rx_stats.ctx(at).record_post();
                self.deliver_unexp(receive, &unexp);
            }
            PostResult::Again(receive) => return Ok(Some(receive)),
            PostResult::Refused(receive) => {
                self.put_back(receive);
                return Err(Errno::EAGAIN);
            }
        }
        self.retry_if_wanted();
        Ok(None)
    }

    /// Delivers an unexpected message to its receive.
    pub(super) fn deliver_unexp(&mut self, receive: ListBox<Receive>, unexp: &UnexpMsg) {
        let peer_idx = unexp.peer_idx;
        self.release_unexp(unexp);
        match &unexp.body {
            UnexpBody::Bytes(bytes) => {
                let len = self.copy(bytes.len(), || receive.into.copy_from_slice(0, bytes));
                let (state, sinks) = self.split();
                state.end_receive(sinks, receive, &unexp.key, &unexp.message, len);
                state.delivered(peer_idx, unexp.conn_gen, unexp.message.ack);
            }
            UnexpBody::Rndv(req) => {
                let msg = RxMsg {
                    peer_idx,
                    conn_gen: req.conn_gen,
                    key: unexp.key,
                    message: unexp.message,
                    is_limited: true,
                };
                let (state, sinks) = self.split();
                state.start_read(sinks, receive, msg.rndv_read(req.id, req.ranges));
            }
            UnexpBody::Sar(number) => self.deliver_sar(receive, peer_idx, *number),
            UnexpBody::PeerMsg(_) => {
                let (state, sinks) = self.split();
                state.give_up_receive(sinks, receive, Errno::ECONNABORTED);
            }
        }
        if unexp.message.ack.is_some() {
            let (state, sinks) = self.split();
            state.progress_peer(sinks, peer_idx);
        }
    }
}

impl EpState {
    /// Completes a receive with a message, of which `len` bytes have been copied.
    pub(super) fn end_receive(
        &mut self,
        sinks: &CompSinks,
        mut receive: ListBox<Receive>,
        key: &MsgKey,
        message: &Message,
        len: usize,
    ) {
        sinks.complete_rx(&mut self.rx_ctxs, &mut receive, key, message, len);
        self.put_back(receive);
    }

    /// Cancels the oldest receive with this context. Returns `None` if the search for it is not complete: the caller
    /// calls this again, and releases the lock before.
    ///
    /// # Errors
    ///
    /// -FI_ENOENT if it is not posted, -FI_EAGAIN for a multi-receive buffer if no completion queue entry is free.
    pub(super) fn cancel(&mut self, sinks: &CompSinks, at: u8, context: Context) -> Option<Result> {
        let mut refused = Errno::ENOENT;
        let reserve = |receive: &Receive| {
            let is_reserved = receive.has_cq_entry() || sinks.reserve_rx(at);
            if !is_reserved {
                refused = Errno::EAGAIN;
            }
            is_reserved
        };
        let matcher = &mut self.rx_ctxs.ctx_mut(at).matcher;
        match matcher.cancel(context.as_ptr() as usize, reserve) {
            Search::Again => return None,
            Search::NotFound => return Some(Err(refused)),
            Search::Found(receive) => match receive.kind {
                RxKind::Multi { .. } => self.cancel_multi(sinks, receive),
                _ => self.give_up_receive(sinks, receive, Errno::ECANCELED),
            },
        }
        Some(Ok(()))
    }

    /// Fails a receive.
    pub(super) fn give_up_receive(
        &mut self,
        sinks: &CompSinks,
        mut receive: ListBox<Receive>,
        errno: Errno,
    ) {
        if receive.kind == RxKind::Shared && self.rx_ctxs.ctx(receive.rx_ctx).is_detached() {
            // The shared receive of the entry is posted again.
            self.keep_until_end(receive);
            return;
        }
        let was_reported = receive.is_reported;
        sinks.fail_rx(&mut self.rx_ctxs, &mut receive, errno);
        self.put_back_late(sinks, receive, was_reported);
    }

    /// Puts back a reported entry. If it `was_reported` earlier, a post can have been refused meanwhile.
    pub(super) fn put_back_late(
        &mut self,
        sinks: &CompSinks,
        receive: ListBox<Receive>,
        was_reported: bool,
    ) {
        let (at, is_internal) = (receive.rx_ctx, receive.is_internal());
        self.put_back(receive);
        if was_reported && !is_internal {
            sinks.wake_rx_poster(at);
        }
    }

    /// Puts back a reported entry.
    #[inline(always)]
    pub(super) fn put_back(&mut self, receive: ListBox<Receive>) {
        self.rx_ctxs.ctx_mut(receive.rx_ctx).put_back(receive);
    }
}
