// SPDX-License-Identifier: GPL-2.0

//! Peek, claim and discard of unexpected messages (FI_PEEK, FI_CLAIM, FI_DISCARD). Guarded by `EpCore::inner`.

use super::super::{
    completion::{
        CompSinks,
        PeekReq, //
    },
    ep_state::EpState,
    iov::DstBuf,
    matcher::MatchSpec,
    unexpected::UnexpMsg, //
};
use crate::{
    fi::prelude::*,
    util::owned_list::ListBox, //
};

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

impl EpState {
    /// Finds the message that a receive with this `spec` would take, reports it, and applies `peek_op`.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN if no receive entry is free to discard it with.
    pub(in super::super) fn peek(
        &mut self,
        sinks: &CompSinks,
        at: u8,
        (spec, peek_op): (&MatchSpec, PeekOp),
        req: &PeekReq,
    ) -> Result {
        let rx_ctx = self.rx_ctxs.ctx_mut(at);
        let found = rx_ctx.matcher.peek(spec);
        let Some((key, message)) = found.map(|unexp| (unexp.key, unexp.message)) else {
            sinks.fail_peek(at, req);
            return Ok(());
        };
        if peek_op == PeekOp::Discard && rx_ctx.receives_left() == 0 {
            return Err(Errno::EAGAIN);
        }
        sinks.complete_peek(at, req, &key, &message, message.len as usize);
        if peek_op == PeekOp::Peek {
            return Ok(());
        }
        if let Some(mut unexp) = rx_ctx.matcher.claim(spec) {
            if peek_op == PeekOp::Claim {
                unexp.claim = Some(req.context);
                rx_ctx.claimed.push(unexp);
            } else {
                self.discard(sinks, &unexp);
            }
        }
        Ok(())
    }

    /// Takes the message that a context has claimed.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if there is none.
    fn claimed(&mut self, at: u8, req: &PeekReq) -> Result<ListBox<UnexpMsg>> {
        let is = |unexp: &UnexpMsg| unexp.claim == Some(req.context);
        let claimed = &mut self.rx_ctxs.ctx_mut(at).claimed;
        claimed.remove_first_where(is).ok_or(Errno::EINVAL)
    }

    /// Receives a claimed message.
    ///
    /// # Errors
    ///
    /// As of [`Self::discard_claimed`].
    pub(in super::super) fn receive_claimed(
        &mut self,
        sinks: &CompSinks,
        at: u8,
        into: DstBuf,
        req: &PeekReq,
    ) -> Result {
        let mut receive = self.receive(at, into, req).ok_or(Errno::EAGAIN)?;
        match self.claimed(at, req) {
            Ok(unexp) => {
                receive.spec.tag = unexp.key.tag.map(|tag| (tag, 0));
                self.deliver_unexp(sinks, receive, &unexp);
                self.retry_deferred_all(sinks);
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
    pub(in super::super) fn discard_claimed(
        &mut self,
        sinks: &CompSinks,
        at: u8,
        req: &PeekReq,
    ) -> Result {
        if self.rx_ctxs.ctx(at).receives_left() == 0 {
            return Err(Errno::EAGAIN);
        }
        let unexp = self.claimed(at, req)?;
        sinks.complete_peek(at, req, &unexp.key, &unexp.message, 0);
        self.discard(sinks, &unexp);
        Ok(())
    }

    /// Receives a message into no memory: its sender sees an ordinary completion.
    fn discard(&mut self, sinks: &CompSinks, unexp: &UnexpMsg) {
        let rx_ctx = self.rx_ctxs.ctx_mut(unexp.key.context);
        if let Some(mut receive) = rx_ctx.get_free() {
            receive.is_reported = true;
            self.deliver_unexp(sinks, receive, unexp);
            self.retry_deferred_all(sinks);
        }
    }
}
