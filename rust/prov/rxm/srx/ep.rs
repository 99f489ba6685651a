// SPDX-License-Identifier: GPL-2.0

//! Endpoints that are attached to a [shared receive context](super::srx). Guarded by `EpCore::inner`.
//!
//! When a message has matched a shared receive, it needs an internal entry and a completion queue entry. If one is
//! missing, it waits with its receive, and later messages do not overtake it.

use super::{
    super::{
        completion::CompSinks,
        ep::ctx::RxCtx,
        ep_core::EpCore,
        iov::DstBuf,
        matcher::MsgKey,
        peer_srx::ImportedSrx,
        rx_entry::{
            Receive,
            RxTarget, //
        },
        turn::Held,
        unexpected::UnexpMsg,
        wire::Message, //
    },
    entry::SrxRecv,
    Srx,
    SrxEp, //
};
use crate::fi::{
    prelude::*,
    srx::{
        MessageInfo,
        RxEntryList, //
    },
};

/// Attachment of an endpoint to a shared receive context.
pub(in super::super) struct SrxAttachment {
    srx: Arc<Srx>,
    /// Slot of the endpoint, until it is detached.
    ep_slot: Option<usize>,
    /// Completed entries of an owner in another module, whose completions have not been forwarded yet.
    completed: RxEntryList,
    /// Number of entries of the endpoint's queue when the last of these entries completed.
    position: u64,
}

impl SrxAttachment {
    fn free_completed(&mut self) {
        if let Some(imported) = self.srx.imported() {
            self.completed.free(imported.owner());
        }
    }
}

impl RxCtx {
    /// Returns the shared receive context and the endpoint's slot, if the endpoint is attached.
    fn srx_slot(&self) -> Option<(&Srx, usize)> {
        let attachment = self.attachment.as_ref()?;
        Some((&attachment.srx, attachment.ep_slot?))
    }

    /// Returns an internal entry with a shared receive for a message, with a completion queue entry reserved.
    #[inline(never)]
    pub(in super::super) fn get_shared(
        &mut self,
        sinks: &CompSinks,
        key: &MsgKey,
        message: &Message,
    ) -> Option<ListBox<Receive>> {
        if self.attachment.is_none() || !self.assigned.is_empty() {
            return None;
        }
        let entry = self.get_internal(sinks)?;
        let srx_recv = self
            .srx_slot()
            .and_then(|(srx, ep_slot)| match srx.imported() {
                None => srx.get(ep_slot, key),
                Some(imported) => imported.get(&MessageInfo {
                    tag: key.tag,
                    len: message.len as usize,
                    source: sinks.source(key.context, key),
                }),
            });
        self.assign_internal(sinks, entry, srx_recv.map(RxTarget::Shared))
    }

    /// Queues a message, unless a shared receive has been posted for it: then returns both. `has_deferred_rx` tells
    /// whether other messages are deferred.
    pub(in super::super) fn queue(
        &mut self,
        sinks: &CompSinks,
        unexp: ListBox<UnexpMsg>,
        has_deferred_rx: bool,
    ) -> Option<(SrxRecv, ListBox<UnexpMsg>)> {
        match self.srx_slot() {
            Some((srx, ep_slot)) => match srx.imported() {
                None => srx.queue(ep_slot, unexp, has_deferred_rx),
                Some(imported) => {
                    let source = sinks.source(unexp.key.context, &unexp.key);
                    imported.queue(ep_slot, unexp, source)
                }
            },
            None => {
                self.matcher.queue_unexp(unexp);
                None
            }
        }
    }

    /// Takes the queued messages of a source that `selects` accepts.
    pub(in super::super) fn remove_unexp(
        &mut self,
        from: &SocketAddr,
        selects: impl FnMut(&UnexpMsg) -> bool,
    ) -> BoxList<UnexpMsg> {
        match self.srx_slot() {
            Some((srx, ep_slot)) => srx.remove_unexp(ep_slot, from, selects),
            None => self.matcher.remove_unexp(from, selects),
        }
    }

    /// Returns whether the endpoint has been detached because it closes.
    pub(in super::super) fn is_detached(&self) -> bool {
        self.attachment
            .as_ref()
            .is_some_and(|attachment| attachment.ep_slot.is_none())
    }

    /// Completes a shared receive of kOFI before its completion is visible: the reader may post the next receive at
    /// once.
    pub(in super::super) fn complete_shared(&self, receive: &mut Receive) {
        let attachment = self.attachment.as_ref();
        if let Some(attachment) =
            attachment.filter(|attachment| attachment.srx.imported().is_none())
        {
            if receive.into.is_long() {
                // Its slot is free.
                receive.into = DstBuf::EMPTY;
            }
            attachment.srx.complete(receive.peer_entry);
        }
    }

    /// Handles the completion of an imported receive, which is at `position` of the endpoint's queue. Its entry is
    /// freed now, or when the completion has been forwarded.
    pub(in super::super) fn free_shared(&mut self, peer_entry: usize, position: Option<u64>) {
        let Some(attachment) = &mut self.attachment else {
            return;
        };
        let Some(imported) = attachment.srx.imported() else {
            return;
        };
        match position.filter(|_| attachment.ep_slot.is_some()) {
            None => imported.owner().free(peer_entry),
            Some(position) => {
                attachment.completed.push(imported.owner(), peer_entry);
                attachment.position = position;
            }
        }
    }

    /// Frees the entries whose completions are among the first `count` entries of the endpoint's queue, all
    /// forwarded.
    fn entries_forwarded(&mut self, count: u64) {
        let attachment = self.attachment.as_mut();
        if let Some(attachment) = attachment.filter(|attachment| attachment.position <= count) {
            attachment.free_completed();
        }
    }

    /// Returns whether the shared receive context is imported.
    pub(in super::super) fn is_imported(&self) -> bool {
        self.attachment
            .as_ref()
            .is_some_and(|attachment| attachment.srx.imported().is_some())
    }

    /// Returns whether the owner of an imported context has not been told about a message.
    pub(in super::super) fn needs_srx_retry(&self) -> bool {
        let attachment = self.attachment.as_ref();
        let imported = attachment.and_then(|attachment| attachment.srx.imported());
        imported.is_some_and(ImportedSrx::needs_srx_retry)
    }
}

impl Held<'_> {
    /// Delivers a message that has got memory, and retries deferred packets. If another thread has the turn, it has
    /// that done.
    fn deliver_to(&mut self, target: RxTarget, unexp: ListBox<UnexpMsg>) {
        let at = unexp.key.context;
        self.rx_ctxs.ctx_mut(at).assign(target, unexp);
        let delivered = self.with_turn(|held, _| held.deliver_ctx(at));
        self.turn.again |= delivered.is_none();
        self.retry_deferred();
    }
}

impl EpCore {
    /// Attaches the endpoint's only receive context to a shared one. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(in super::super) fn attach_srx(self: &Arc<Self>, srx: &Arc<Srx>) -> Result {
        let attachment = SrxAttachment {
            srx: srx.clone(),
            ep_slot: Some(srx.attach(self.clone())?),
            completed: RxEntryList::default(),
            position: 0,
        };
        let old =
            self.with_state(|state, _| state.rx_ctxs.ctx_mut(0).attachment.replace(attachment));
        drop(old);
        Ok(())
    }

    /// Detaches the endpoint, if it is attached; receives of messages that have not been reported are posted again.
    /// May sleep.
    pub(in super::super) fn detach_srx(&self) {
        let attachment = self.with_state(|state, _| {
            let attachment = state.rx_ctxs.ctx_mut(0).attachment.as_mut()?;
            // Completions that have not been forwarded are dropped with the endpoint's queue.
            attachment.free_completed();
            Some((attachment.srx.clone(), attachment.ep_slot.take()?))
        });
        let Some((srx, ep_slot)) = attachment else {
            return;
        };
        drop(srx.detach(ep_slot));
        let mut assigned =
            self.with_state(|state, _| mem::take(&mut state.rx_ctxs.ctx_mut(0).assigned));
        while let Some(mut unexp) = assigned.pop() {
            if let Some(RxTarget::Shared(srx_recv)) = unexp.target.take() {
                srx.post_again(srx_recv);
            }
        }
    }

    /// Posts a receive again whose message did not arrive, after [`Self::detach_srx`].
    pub(in super::super) fn post_again(&self, srx_recv: SrxRecv) {
        let srx = self.with_state(|state, _| {
            let attachment = state.rx_ctxs.ctx(0).attachment.as_ref()?;
            Some(attachment.srx.clone())
        });
        if let Some(srx) = srx {
            srx.post_again(srx_recv);
        }
    }

    /// Frees the entries whose completions are among the first `count` entries of the queue. Any context.
    pub(in super::super) fn entries_forwarded(&self, count: u64) {
        self.with_state(|state, _| state.rx_ctxs.ctx_mut(0).entries_forwarded(count));
    }

    /// Retries messages that an imported context had no memory or no receive for. Any context.
    pub(in super::super) fn retry_imported(&self) {
        let srx = self.with_state(|state, _| {
            let attachment = state.rx_ctxs.ctx(0).attachment.as_ref()?;
            Some(attachment.srx.clone())
        });
        if let Some(srx) = srx {
            srx.retry_unannounced();
        }
        self.with_cm_work(|held| {
            held.retry_deferred();
            let needs_srx_retry = held.rx_ctxs.ctx(0).needs_srx_retry();
            held.needs_srx_retry |= needs_srx_retry;
        });
    }

    /// Runs `act` under the lock, and schedules the connection manager if it has work. Any context.
    fn with_cm_work(&self, act: impl FnOnce(&mut Held<'_>)) {
        let mut held = self.hold();
        act(&mut held);
        let needs_cm_work = held.needs_cm_work();
        drop(held);
        if let (true, Ok(bound)) = (needs_cm_work, self.bound()) {
            bound.schedule_cm_work();
        }
    }
}

impl SrxEp for EpCore {
    fn start(&self, srx_recv: SrxRecv, unexp: ListBox<UnexpMsg>) {
        self.with_cm_work(|held| held.deliver_to(RxTarget::Shared(srx_recv), unexp));
    }

    fn retry(&self) {
        self.with_cm_work(|held| held.retry_deferred());
    }

    fn discard(&self, unexp: ListBox<UnexpMsg>) {
        self.with_cm_work(|held| held.deliver_to(RxTarget::Discard, unexp));
    }
}
