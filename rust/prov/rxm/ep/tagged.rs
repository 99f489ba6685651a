// SPDX-License-Identifier: GPL-2.0

//! Peek, claim and discard of unexpected messages (FI_PEEK, FI_CLAIM, FI_DISCARD). Guarded by `EpCore::inner`.

use super::super::{
    completion::RecvReq,
    iov::PostedDst,
    matcher::{
        MatchSpec,
        Search, //
    },
    turn::Held,
    unexpected::UnexpMsg, //
};
use crate::fi::prelude::*;

/// Effect of a peek on the message that it finds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum PeekOp {
    /// Leave the message queued.
    Peek,
    /// The message is reserved for the context that claims it.
    Claim,
    /// The message is dropped.
    Discard,
}

impl Held<'_> {
    /// Finds the message that a receive with this `spec` would take, reports it, and applies `peek_op`. Returns true
    /// if the search is not complete: the caller calls again, and releases the lock before.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN if no receive entry is free to discard it with.
    pub(in super::super) fn peek(
        &mut self,
        at: u8,
        (spec, peek_op): (&MatchSpec, PeekOp),
        req: &RecvReq,
    ) -> Result<bool> {
        let (state, sinks) = self.split();
        let rx_ctx = state.rx_ctxs.ctx_mut(at);
        let see = |unexp: &UnexpMsg| (unexp.key, unexp.message);
        let (key, message) = match rx_ctx.matcher.peek(spec, see) {
            Search::Found(seen) => seen,
            Search::NotFound => {
                sinks.fail_peek(at, req);
                return Ok(false);
            }
            Search::Again => return Ok(true),
        };
        if peek_op == PeekOp::Discard && rx_ctx.receives_left() == 0 {
            return Err(Errno::EAGAIN);
        }
        sinks.complete_peek(at, req, &key, &message, message.len as usize);
        if peek_op == PeekOp::Peek {
            return Ok(false);
        }
        if let Search::Found(mut unexp) = rx_ctx.matcher.claim(spec) {
            if peek_op == PeekOp::Claim {
                unexp.claim = Some(req.context);
                rx_ctx.matcher.keep_claimed(unexp);
            } else {
                self.discard(&unexp);
            }
        }
        Ok(false)
    }

    /// Takes the message that a context has claimed.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if there is none.
    fn claimed(&mut self, at: u8, req: &RecvReq) -> Result<ListBox<UnexpMsg>> {
        let matcher = &mut self.rx_ctxs.ctx_mut(at).matcher;
        let claimed = matcher.take_claimed(req.context.as_ptr() as usize);
        claimed.ok_or(Errno::EINVAL)
    }

    /// Receives a claimed message.
    ///
    /// # Errors
    ///
    /// As of [`Self::discard_claimed`].
    pub(in super::super) fn receive_claimed(
        &mut self,
        at: u8,
        into: PostedDst<'_>,
        req: &RecvReq,
    ) -> Result {
        let mut receive = self.receive(at, into, req).ok_or(Errno::EAGAIN)?;
        match self.claimed(at, req) {
            Ok(unexp) => {
                receive.spec.tag = unexp.key.tag.map(|tag| (tag, 0));
                self.deliver_unexp(receive, &unexp);
                self.retry_if_wanted();
                Ok(())
            }
            Err(errno) => {
                self.put_back(receive);
                Err(errno)
            }
        }
    }

    /// Drops a claimed message and reports it.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if there is none, -FI_EAGAIN if no receive entry is free.
    pub(in super::super) fn discard_claimed(&mut self, at: u8, req: &RecvReq) -> Result {
        if self.rx_ctxs.ctx(at).receives_left() == 0 {
            return Err(Errno::EAGAIN);
        }
        let unexp = self.claimed(at, req)?;
        self.sinks
            .complete_peek(at, req, &unexp.key, &unexp.message, 0);
        self.discard(&unexp);
        Ok(())
    }

    /// Receives a message into no memory: its sender sees an ordinary completion.
    fn discard(&mut self, unexp: &UnexpMsg) {
        let rx_ctx = self.rx_ctxs.ctx_mut(unexp.key.context);
        if let Some(mut receive) = rx_ctx.get_free() {
            receive.is_reported = true;
            self.deliver_unexp(receive, unexp);
            self.retry_if_wanted();
        }
    }
}
