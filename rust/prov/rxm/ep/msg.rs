// SPDX-License-Identifier: GPL-2.0

//! Message calls: sends, and posted receives of all kinds.

use super::{
    super::{
        completion::RecvReq,
        ep_core::Bound,
        flags::{
            check_flags,
            COMPLETION_LEVELS,
            TRANSMIT_FLAGS, //
        },
        iov::{
            AddrCheck,
            PostedDst,
            PostedSrc, //
        },
        local::{
            LocalMsg,
            LocalPath, //
        },
        matcher::MatchSpec,
        pkt_buf::Packet,
        rx_entry::Receive,
        turn::Held,
        tx_op::TxComp,
        wire::{
            self,
            EAGER, //
        },
    },
    tagged::PeekOp,
    BoundCq,
    Endpoint, //
};
use crate::{
    abi::{
        flags::*,
        FI_ADDR_UNSPEC, //
    },
    fi::{
        prelude::*,
        provider::Message, //
    },
};

/// Flags that a send accepts.
pub(super) const SEND_FLAGS: u64 =
    FI_COMPLETION | FI_INJECT | FI_MORE | FI_REMOTE_CQ_DATA | COMPLETION_LEVELS;

/// Flags that every receive accepts.
const RECEIVE_FLAGS: u64 = FI_COMPLETION | FI_MORE;

/// Flags that a tagged receive accepts in addition.
pub(in super::super) const PEEK_FLAGS: u64 = FI_PEEK | FI_CLAIM | FI_DISCARD;

/// Flags that discard a claimed message.
const DISCARD_CLAIMED: u64 = FI_CLAIM | FI_DISCARD;

/// Fills the packet buffer of a new operation.
pub(super) trait FillPacket {
    /// Fills the packet buffer. Called once.
    fn fill(&self, packet: &mut Packet);

    /// Returns the message, if it can be delivered to a local peer without a packet buffer.
    #[inline(always)]
    fn local_msg(&self) -> Option<&LocalMsg<'_>> {
        None
    }
}

impl<F: Fn(&mut Packet)> FillPacket for F {
    #[inline(always)]
    fn fill(&self, packet: &mut Packet) {
        self(packet);
    }
}

impl FillPacket for LocalMsg<'_> {
    #[inline(always)]
    fn fill(&self, packet: &mut Packet) {
        self.fill_packet(packet);
    }

    #[inline(always)]
    fn local_msg(&self) -> Option<&LocalMsg<'_>> {
        Some(self)
    }
}

impl Endpoint {
    /// Sends a message.
    pub(super) fn send(&self, message: &Message<'_>) -> Result {
        let refused = !(SEND_FLAGS | FI_PEER_TRANSFER);
        check_flags(message.flags, (TRANSMIT_FLAGS | FI_PEER_TRANSFER, refused))?;
        let (mut bound_cq, bound) = self.tx_path()?;
        let mut tx_ctx = self.context;
        let is_transfer = message.flags & FI_PEER_TRANSFER != 0;
        if is_transfer {
            (bound_cq, tx_ctx) = self.transfer_cq()?;
        }
        let is_injected = message.flags & FI_INJECT != 0;
        let most = match is_injected {
            true => self.inject,
            false => self.max_msg_size,
        };
        let len = message.memory.total_len()?;
        if len > most {
            return Err(Errno::EMSGSIZE);
        }
        if !is_injected {
            self.check_descriptors(message)?;
        }
        // An eager message is copied into its packet buffer before the call returns.
        let check = match is_injected || len <= EAGER {
            true => AddrCheck::Kernel,
            false => AddrCheck::Device,
        };
        // SAFETY: The buffer is copied and dropped before this call returns, or dropped with the message, before the
        // poster's completion is written.
        let from =
            unsafe { PostedSrc::borrow(message.memory, check, self.core.iov_limits.segments) }?;
        let to = bound.addresses.lookup(message.peer)?;
        let kind = message.tag.map_or(FI_MSG, |_| FI_TAGGED);
        let comp = TxComp {
            tx_ctx,
            context: message.context,
            flags: FI_SEND | kind,
            reports_success: message.flags & FI_COMPLETION != 0
                || !bound_cq.is_selective && !message.errors_only,
        };
        let has_data = message.flags & FI_REMOTE_CQ_DATA != 0;
        // A context index that does not fit into the header exceeds every peer's contexts.
        let context = match is_transfer {
            // Peer transfers are received by the peer's context for peer transfers.
            true => Ok(tx_ctx),
            false => u8::try_from(bound.addresses.rx_context(message.peer)),
        };
        let key = wire::Message {
            context: context.map_err(|_| Errno::EINVAL)?,
            ack: None,
            tag: message.tag.map(|tag| tag.tag),
            len: len as u64,
            data: has_data.then_some(message.data),
        };
        let local_msg = LocalMsg {
            message: key,
            from,
            wants_ack: message.flags & FI_DELIVERY_COMPLETE != 0,
        };
        self.start((bound_cq, bound), &to, len, comp, local_msg)
    }

    /// Starts an operation of `len` bytes.
    #[inline(always)]
    pub(super) fn start(
        &self,
        (bound_cq, bound): (&BoundCq, &Bound),
        to: &SocketAddr,
        len: usize,
        comp: TxComp,
        what: impl FillPacket,
    ) -> Result {
        if !bound_cq.queue.reserve() {
            self.core
                .inner
                .lock()
                .sinks
                .tx_stats
                .ctx(comp.tx_ctx)
                .record_eagain();
            return Err(Errno::EAGAIN);
        }
        self.start_held(self.core.hold(), (bound_cq, bound), to, len, comp, what)
    }

    /// Starts an operation of `len` bytes, whose completion queue entry is reserved.
    #[inline(always)]
    pub(super) fn start_held<'a>(
        &'a self,
        mut held: Held<'a>,
        (bound_cq, bound): (&BoundCq, &Bound),
        to: &SocketAddr,
        len: usize,
        comp: TxComp,
        what: impl FillPacket,
    ) -> Result {
        let peer_idx = held.peer_idx_by_addr(to, &bound.peer_av);
        if let (Some(peer_idx), Some(local_msg)) = (peer_idx, what.local_msg()) {
            if let Some(local_path) = held.local_path(peer_idx, &local_msg.message) {
                drop(held);
                match self.try_local(bound, &local_path, local_msg, &comp) {
                    None => return Ok(()),
                    Some(again) => held = again,
                }
            }
        }
        let (state, sinks) = held.split();
        let sent = sinks.tx_stats.ctx(comp.tx_ctx);
        let sink = sinks.tx.ctx(comp.tx_ctx).as_ref();
        let packet = sink.and_then(|sink| state.packet(to, peer_idx, &sink.tx_waiter));
        let Some(mut packet) = packet else {
            sent.record_eagain();
            drop(held);
            bound_cq.queue.release();
            return Err(Errno::EAGAIN);
        };
        sent.record_start(comp.flags, len);
        packet.begin(comp);
        // Peers are not removed while a thread copies. A peer without an index could get one.
        match peer_idx.is_some_and(|peer_idx| state.peer(peer_idx).is_some()) {
            true => held.copy(len, || what.fill(&mut packet)),
            false => what.fill(&mut packet),
        }
        let (state, sinks) = held.split();
        state.send(sinks, to, peer_idx, packet);
        let needs_cm_work = state.needs_cm_work();
        drop(held);
        if needs_cm_work {
            bound.schedule_cm_work();
        }
        Ok(())
    }

    /// Delivers a message to a peer on the same host without packets. Returns the lock again if the peer did not take
    /// it.
    #[inline(never)]
    fn try_local(
        &self,
        bound: &Bound,
        local_path: &LocalPath,
        local_msg: &LocalMsg<'_>,
        comp: &TxComp,
    ) -> Option<Held<'_>> {
        let is_taken = local_path.deliver(local_msg);
        let mut held = self.core.hold();
        let (state, sinks) = held.split();
        if is_taken {
            let sent = sinks.tx_stats.ctx(comp.tx_ctx);
            sent.record_start(comp.flags, local_msg.message.len as usize);
        }
        state.release_local_path(sinks, local_path, is_taken.then_some(comp));
        if !is_taken {
            return Some(held);
        }
        let needs_cm_work = state.needs_cm_work();
        drop(held);
        if needs_cm_work {
            bound.schedule_cm_work();
        }
        None
    }

    /// Posts a receive.
    pub(super) fn post(&self, message: &Message<'_>) -> Result {
        let known = match message.tag {
            Some(_) => RECEIVE_FLAGS | PEEK_FLAGS,
            None => RECEIVE_FLAGS | FI_MULTI_RECV,
        };
        if message.flags & !known != 0 {
            return self.post_transfer(message);
        }
        let (bound_cq, bound) = self.rx_path()?;
        let at = self.context;
        let req = RecvReq {
            context: message.context,
            reports_success: message.flags & FI_COMPLETION != 0,
        };
        match message.flags & (PEEK_FLAGS | FI_MULTI_RECV) {
            FI_MULTI_RECV => self.post_multi((bound_cq, bound), message, &req),
            0 => {
                // SAFETY: The buffer is dropped with the receive, before the poster's completion is written.
                let into = unsafe { self.dst_buf(message) }?;
                let spec = self.spec(bound, message)?;
                self.post_single((bound_cq, bound), at, (into, spec), &req)
            }
            FI_CLAIM => {
                // SAFETY: The buffer is dropped with the receive, before the poster's completion is written.
                let into = unsafe { self.dst_buf(message) }?;
                self.with_cq_entry((bound_cq, bound), |held| {
                    held.receive_claimed(at, into, &req)?;
                    held.sinks.rx_stats.ctx(at).record_post();
                    Ok(())
                })
            }
            DISCARD_CLAIMED => {
                self.with_cq_entry((bound_cq, bound), |held| held.discard_claimed(at, &req))
            }
            flags => {
                let peek_op = match flags ^ FI_PEEK {
                    0 => PeekOp::Peek,
                    FI_CLAIM => PeekOp::Claim,
                    FI_DISCARD => PeekOp::Discard,
                    _ => return Err(Errno::EBADFLAGS),
                };
                let spec = self.spec(bound, message)?;
                while self.with_cq_entry((bound_cq, bound), |held| {
                    held.peek(at, (&spec, peek_op), &req)
                })? {
                    bound_cq.queue.release();
                }
                Ok(())
            }
        }
    }

    /// Posts a receive for a peer transfer.
    ///
    /// # Errors
    ///
    /// -FI_EBADFLAGS if the flags are others, or the endpoint has no context for peer transfers.
    #[cold]
    fn post_transfer(&self, message: &Message<'_>) -> Result {
        let (bound_cq, at) = self.transfer_cq()?;
        if message.flags & !RECEIVE_FLAGS != FI_PEER_TRANSFER {
            return Err(Errno::EBADFLAGS);
        }
        let (_, bound) = self.rx_path()?;
        let req = RecvReq {
            context: message.context,
            reports_success: true,
        };
        // SAFETY: The buffer is dropped with the receive, before the poster's completion is written.
        let into = unsafe { self.dst_buf(message) }?;
        let spec = self.spec(bound, message)?;
        self.post_single((bound_cq, bound), at, (into, spec), &req)
    }

    /// Posts a receive of one message to the context `at`.
    #[inline(always)]
    fn post_single(
        &self,
        (bound_cq, bound): (&BoundCq, &Bound),
        at: u8,
        (into, spec): (PostedDst<'_>, MatchSpec),
        req: &RecvReq,
    ) -> Result {
        let again = self.with_cq_entry((bound_cq, bound), |held| {
            let mut receive = held.receive(at, into, req).ok_or(Errno::EAGAIN)?;
            receive.spec = spec;
            held.post(receive)
        })?;
        match again {
            None => Ok(()),
            Some(receive) => self.continue_post((bound_cq, bound), receive),
        }
    }

    /// Continues the post of a receive whose search for a message is not complete. Each turn is a section under the
    /// lock of bounded length.
    #[cold]
    fn continue_post(
        &self,
        (bound_cq, bound): (&BoundCq, &Bound),
        receive: ListBox<Receive>,
    ) -> Result {
        let mut again = Some(receive);
        while let Some(receive) = again {
            again = self
                .act((bound_cq, bound), |held| held.post(receive))
                .inspect_err(|_| bound_cq.queue.release())?;
        }
        Ok(())
    }

    /// Posts a multi-receive buffer. Completion queue entries are reserved when its messages arrive.
    fn post_multi(
        &self,
        (bound_cq, bound): (&BoundCq, &Bound),
        message: &Message<'_>,
        req: &RecvReq,
    ) -> Result {
        if !self.has_multi_recv {
            return Err(Errno::EOPNOTSUPP);
        }
        let Memory::Segments([segment]) = message.memory else {
            return Err(Errno::EINVAL);
        };
        // SAFETY: The buffer is dropped with the receive, before the poster's completion is written.
        let into = unsafe { self.dst_buf(message) }?;
        let spec = self.spec(bound, message)?;
        let min_multi_recv = self.min_multi_recv.get();
        let mut again = self.act((bound_cq, bound), |held| {
            let receive = held.receive(self.context, into, req);
            let mut receive = receive.ok_or(Errno::EAGAIN)?;
            receive.spec = spec;
            let rx_ctx = held.rx_ctxs.ctx_mut(self.context);
            rx_ctx.open_multi(&mut receive, segment.addr(), min_multi_recv);
            let again = rx_ctx.post_multi(receive);
            held.retry_wanted = true;
            Ok(again)
        })?;
        while let Some(receive) = again {
            again = self.act((bound_cq, bound), |held| {
                held.retry_wanted = true;
                Ok(held.rx_ctxs.ctx_mut(self.context).post_multi(receive))
            })?;
        }
        self.core.deliver(bound);
        Ok(())
    }

    /// Checks that the memory of an operation lies in the regions of its descriptors.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if it does not, or for regions of another domain.
    #[inline(always)]
    pub(super) fn check_descriptors(&self, message: &Message<'_>) -> Result {
        let domain = &self.core.domain;
        domain.check_descriptors(message.memory, message.descriptors)
    }

    /// Checks the descriptors as [`Self::check_descriptors`] does, and returns the check that the addresses still
    /// need.
    ///
    /// # Errors
    ///
    /// Errors of [`Self::check_descriptors`].
    #[inline(always)]
    pub(super) fn addr_check(&self, message: &Message<'_>) -> Result<AddrCheck> {
        self.check_descriptors(message)?;
        match (message.memory, message.descriptors) {
            (Memory::Segments([_]), [region]) if !region.as_ptr().is_null() => {
                Ok(AddrCheck::Registered)
            }
            _ => Ok(AddrCheck::Device),
        }
    }

    /// Returns the memory of a receive.
    ///
    /// # Errors
    ///
    /// Errors of [`Self::addr_check`] and [`PostedDst::borrow`].
    ///
    /// # Safety
    ///
    /// The requirements of [`PostedDst::borrow`].
    #[inline(always)]
    unsafe fn dst_buf<'a>(&self, message: &Message<'a>) -> Result<PostedDst<'a>> {
        let check = self.addr_check(message)?;
        // SAFETY: By this function's safety requirement; `check` is of this memory.
        unsafe { PostedDst::borrow(message.memory, check, self.size.segments) }
    }

    /// Returns the messages that a receive matches.
    #[inline(always)]
    fn spec(&self, bound: &Bound, message: &Message<'_>) -> Result<MatchSpec> {
        let from = match self.is_directed && message.peer != FI_ADDR_UNSPEC {
            true => Some(bound.addresses.lookup(message.peer)?),
            false => None,
        };
        Ok(MatchSpec {
            tag: message.tag.map(|tag| (tag.tag, tag.ignore)),
            from,
        })
    }

    /// Reserves a completion queue entry and runs `act`. The entry is released if `act` fails.
    #[inline(always)]
    fn with_cq_entry<T>(
        &self,
        (bound_cq, bound): (&BoundCq, &Bound),
        act: impl FnOnce(&mut Held<'_>) -> Result<T>,
    ) -> Result<T> {
        if !bound_cq.queue.reserve() {
            self.core
                .inner
                .lock()
                .sinks
                .rx_stats
                .ctx(self.context)
                .record_eagain();
            return Err(Errno::EAGAIN);
        }
        self.act((bound_cq, bound), act)
            .inspect_err(|_| bound_cq.queue.release())
    }

    /// Runs `act` under the lock, and schedules the connection manager if it has work.
    #[inline(always)]
    fn act<T>(
        &self,
        (bound_cq, bound): (&BoundCq, &Bound),
        act: impl FnOnce(&mut Held<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut held = self.core.hold();
        let done = act(&mut held);
        if let Err(Errno::EAGAIN) = done {
            held.sinks.rx_stats.ctx(self.context).record_eagain();
            bound_cq.queue.set_slot_waiter();
        }
        let needs_cm_work = held.needs_cm_work();
        drop(held);
        if needs_cm_work {
            bound.schedule_cm_work();
        }
        done
    }
}
