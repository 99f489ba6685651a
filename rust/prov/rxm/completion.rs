// SPDX-License-Identifier: GPL-2.0

//! Completion sinks: the completion queue, counters and statistics that each context reports to. Guarded by
//! `EpCore::inner`.

use super::{
    ep::{
        ctx::{
            CtxVec,
            RxCtx, //
        },
        EpKind, //
    },
    matcher::MsgKey,
    rx_entry::{
        Receive,
        RndvRead,
        RxKind, //
    },
    stats::{
        RxStats,
        TxStats, //
    },
    sw_cq::SwCq,
    tx_op::TxComp,
    tx_pool::TxWaiter,
    wire::Message, //
};
use crate::{
    abi::{
        fi_addr_t,
        flags::*,
        Errno,
        Result,
        FI_ADDR_NOTAVAIL, //
    },
    fi::{
        av::AddressVector,
        cntr::BoundCounters,
        cq::{
            Completion,
            CqEntry,
            ErrData,
            Failure, //
        },
        memory::Context, //
    },
    util::owned_list::ListBox, //
};
use core::mem;
use kernel::sync::Arc;

/// Request of the consumer: a posted receive, a peek, or a receive of a claimed message.
pub(super) struct RecvReq {
    /// Context of the consumer.
    pub(super) context: Context,
    /// True if a success is reported although the queue is selective.
    pub(super) reports_success: bool,
}

/// Sink of a transmit context.
pub(super) struct TxSink {
    /// Completion queue.
    pub(super) queue: Arc<SwCq>,
    /// Counters, which count unreported operations too.
    pub(super) counters: BoundCounters,
    /// Entry for the list of contexts that wait for a transmit buffer.
    pub(super) tx_waiter: Arc<TxWaiter>,
}

impl TxSink {
    /// Creates the sink of a context that reports to `queue`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(queue: &Arc<SwCq>, counters: BoundCounters) -> Result<Self> {
        Ok(Self {
            queue: queue.clone(),
            counters,
            tx_waiter: TxWaiter::new(queue)?,
        })
    }
}

/// Sink of a receive context.
pub(super) struct RxSink {
    /// Completion queue.
    pub(super) queue: Arc<SwCq>,
    /// Counters, which count unreported operations too.
    pub(super) counters: BoundCounters,
    /// Address vector that source addresses are looked up in, if sources are reported.
    pub(super) source_av: Option<Arc<AddressVector>>,
    /// True if every success is reported.
    pub(super) reports_all: bool,
    /// True if a message of an unknown source is reported as an error with its address.
    pub(super) reports_unknown_sources: bool,
}

/// Sinks of all contexts; `None` for a context that is not enabled.
pub(super) struct CompSinks {
    /// Sinks of the transmit contexts.
    pub(super) tx: CtxVec<Option<TxSink>>,
    /// Sinks of the receive contexts.
    pub(super) rx: CtxVec<Option<RxSink>>,
    /// True if peers may write to memory and send remote CQ data with that.
    pub(super) reports_remote_writes: bool,
    /// Statistics of the transmit contexts.
    pub(super) tx_stats: CtxVec<TxStats>,
    /// Statistics of the receive contexts.
    pub(super) rx_stats: CtxVec<RxStats>,
}

fn count(counters: &BoundCounters, flags: u64, result: Result) {
    match (counters.counter_for(flags), result) {
        (Some(counter), Ok(())) => counter.add(1),
        (Some(counter), Err(_)) => counter.add_errors(1),
        (None, _) => {}
    }
}

impl CompSinks {
    /// Creates the sinks of contexts that are not enabled. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    #[inline(never)]
    pub(super) fn new(
        transmits: usize,
        receives: usize,
        reports_remote_writes: bool,
    ) -> Result<Self> {
        Ok(Self {
            tx: CtxVec::new(transmits, |_| Ok(None))?,
            rx: CtxVec::new(receives, |_| Ok(None))?,
            reports_remote_writes,
            tx_stats: CtxVec::new(transmits, |_| Ok(TxStats::new()))?,
            rx_stats: CtxVec::new(receives, |_| Ok(RxStats::new()))?,
        })
    }

    /// Detaches the sinks of a context.
    pub(super) fn detach(&mut self, kind: EpKind, context: u8) -> (Option<TxSink>, Option<RxSink>) {
        let transmits = match kind.transmits() {
            true => self.tx.ctx_mut(context).take(),
            false => None,
        };
        let receives = match kind.receives() {
            true => self.rx.ctx_mut(context).take(),
            false => None,
        };
        (transmits, receives)
    }

    /// Returns whether a thread waits for a completion.
    pub(super) fn has_waiter(&self) -> bool {
        let transmits = self.tx.iter().flatten().map(|sink| &sink.queue);
        let receives = self.rx.iter().flatten().map(|sink| &sink.queue);
        transmits.chain(receives).any(|queue| queue.has_waiter())
    }

    /// Reserves a completion queue entry for a receive context. Returns false if the queue is full, or the context is
    /// not enabled.
    pub(super) fn reserve_rx(&self, rx_ctx: u8) -> bool {
        let sink = self.rx.ctx(rx_ctx).as_ref();
        sink.is_some_and(|sink| sink.queue.reserve())
    }

    /// Releases a reserved entry of a receive context.
    pub(super) fn release_rx(&self, rx_ctx: u8) {
        if let Some(sink) = self.rx.ctx(rx_ctx) {
            sink.queue.release();
        }
    }

    /// Wakes a refused poster of a receive context, after an entry was freed whose message had been reported before.
    #[cold]
    pub(super) fn wake_rx_poster(&self, rx_ctx: u8) {
        if let Some(sink) = self.rx.ctx(rx_ctx) {
            sink.queue.wake_slot_waiter();
        }
    }

    /// Releases a reserved entry of a transmit context, for an operation that is not reported.
    pub(super) fn release_tx(&self, context: u8) {
        if let Some(sink) = self.tx.ctx(context) {
            sink.queue.release();
        }
    }

    /// Reports the result of a transmit, whose entry is reserved.
    #[inline]
    pub(super) fn complete_tx(&self, comp: &TxComp, result: Result) {
        self.tx_stats.ctx(comp.tx_ctx).record_completion(result);
        let Some(sink) = self.tx.ctx(comp.tx_ctx) else {
            return;
        };
        // An access to a tagged receive counts as a read or write.
        let kind = match comp.flags & FI_RMA {
            0 => comp.flags,
            _ => comp.flags & !FI_SEND,
        };
        count(&sink.counters, kind, result);
        let completion = Completion::new(comp.context, comp.flags);
        match result {
            Ok(()) if !comp.reports_success => sink.queue.complete_silent(),
            Ok(()) => sink.queue.push_success(completion),
            Err(errno) => sink.queue.push(failed(completion, errno, 0)),
        }
    }

    /// Reports a received message, whose entry is reserved. Has no effect if the receive has been reported already.
    pub(super) fn complete_rx(
        &self,
        rx_ctxs: &mut CtxVec<RxCtx>,
        receive: &mut Receive,
        key: &MsgKey,
        message: &Message,
        len: usize,
    ) {
        self.complete_rx_as(rx_ctxs, receive, key, message, (len, 0));
    }

    /// Reports a received message or an access, with `flags` in addition to those of a message. As
    /// [`Self::complete_rx`].
    #[inline(always)]
    pub(super) fn complete_rx_as(
        &self,
        rx_ctxs: &mut CtxVec<RxCtx>,
        receive: &mut Receive,
        key: &MsgKey,
        message: &Message,
        (len, flags): (usize, u64),
    ) {
        if mem::replace(&mut receive.is_reported, true) {
            return;
        }
        let sink = self.rx.ctx(receive.rx_ctx).as_ref();
        let mut completion = match sink {
            Some(sink) => sink.describe(receive.context, key, message, len),
            None => Completion::new(receive.context, FI_RECV),
        };
        completion.flags |= flags;
        let dropped = (message.len as usize).saturating_sub(len);
        self.count_rx(
            receive,
            match dropped {
                0 => Ok(len),
                _ => Err(Errno::ETRUNC),
            },
        );
        let rx_ctx = rx_ctxs.ctx_mut(receive.rx_ctx);
        let freed = complete_slot(rx_ctx, receive, &mut completion);
        if let Some(sink) = sink {
            sink.complete(receive, completion, key, dropped);
        }
        self.finish_rx(rx_ctx, receive, freed);
    }

    /// Records the result of a receive in the statistics. A multi-receive buffer counts as one receive for each of its
    /// messages.
    #[inline]
    fn count_rx(&self, receive: &Receive, result: Result<usize>) {
        let stats = self.rx_stats.ctx(receive.rx_ctx);
        match receive.kind {
            RxKind::Single | RxKind::Shared => stats.record_completion(result),
            RxKind::Placed { .. } => {
                stats.record_post();
                stats.record_completion(result);
            }
            RxKind::Multi { .. } => {}
        }
    }

    /// Releases a multi-receive buffer that takes no more messages and holds none. A cancelled one is reported first.
    fn release_multi_recv(&self, rx_ctx: &mut RxCtx, freed: Option<ListBox<Receive>>) {
        let Some(mut receive) = freed else {
            return;
        };
        if is_cancelled(&receive) {
            self.report_failure(rx_ctx, &mut receive, Errno::ECANCELED);
        }
        rx_ctx.buffers.release(receive);
    }

    /// Returns the source address to report for a message.
    pub(super) fn source(&self, rx_ctx: u8, key: &MsgKey) -> fi_addr_t {
        let sink = self.rx.ctx(rx_ctx).as_ref();
        sink.map_or(FI_ADDR_NOTAVAIL, |sink| sink.source(key))
    }

    /// Reports the message that a peek has found; the entry is reserved.
    pub(super) fn complete_peek(
        &self,
        rx_ctx: u8,
        req: &RecvReq,
        key: &MsgKey,
        message: &Message,
        len: usize,
    ) {
        let Some(sink) = self.rx.ctx(rx_ctx) else {
            return;
        };
        match req.reports_success || sink.reports_all {
            false => sink.queue.complete_silent(),
            true => {
                let completion = sink.describe(req.context, key, message, len);
                sink.push_received(completion, key);
            }
        }
    }

    /// Reports that a peek has found no message.
    pub(super) fn fail_peek(&self, rx_ctx: u8, req: &RecvReq) {
        if let Some(sink) = self.rx.ctx(rx_ctx) {
            let completion = Completion::new(req.context, FI_RECV | FI_TAGGED);
            sink.queue.push(failed(completion, Errno::ENOMSG, 0));
        }
    }

    /// Reports a failed receive. Has no effect if the receive has been reported already.
    pub(super) fn fail_rx(&self, rx_ctxs: &mut CtxVec<RxCtx>, receive: &mut Receive, errno: Errno) {
        self.report_failure(rx_ctxs.ctx_mut(receive.rx_ctx), receive, errno);
    }

    fn report_failure(&self, rx_ctx: &mut RxCtx, receive: &mut Receive, errno: Errno) {
        if mem::replace(&mut receive.is_reported, true) {
            return;
        }
        self.count_rx(receive, Err(errno));
        let kind = receive.spec.tag.map_or(FI_MSG, |_| FI_TAGGED);
        let access = receive.rndv.as_ref().map_or(0, RndvRead::flags);
        let mut completion = Completion::new(receive.context, FI_RECV | kind | access);
        let freed = complete_slot(rx_ctx, receive, &mut completion);
        if let Some(sink) = self.rx.ctx(receive.rx_ctx) {
            count(&sink.counters, FI_RECV, Err(errno));
            sink.queue.push(failed(completion, errno, 0));
        }
        self.finish_rx(rx_ctx, receive, freed);
    }

    /// Handles the completion of a receive, which may have released a multi-receive buffer.
    fn finish_rx(&self, rx_ctx: &mut RxCtx, receive: &Receive, freed: Option<ListBox<Receive>>) {
        if receive.kind == RxKind::Shared {
            let sink = self.rx.ctx(receive.rx_ctx).as_ref();
            let position = sink.and_then(|sink| sink.queue.forward_position());
            rx_ctx.free_shared(receive.peer_entry, position);
        }
        self.release_multi_recv(rx_ctx, freed);
    }

    /// Reports that a peer has written `len` bytes to memory and sent `data` with it. Returns false if the queue is
    /// full. The first receive context reports it, because the device names no other.
    pub(super) fn complete_remote_write(&self, len: usize, data: u64) -> bool {
        let sink = self.rx.ctx(0).as_ref();
        let Some(sink) = sink.filter(|sink| sink.queue.reserve()) else {
            return false;
        };
        let flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
        sink.queue.push(CqEntry::Done(Completion {
            len,
            data,
            ..Completion::new(Context::NULL, flags)
        }));
        true
    }
}

impl RxSink {
    /// Returns the completion that describes a message.
    #[inline(always)]
    fn describe(
        &self,
        context: Context,
        key: &MsgKey,
        message: &Message,
        len: usize,
    ) -> Completion {
        let kind = key.tag.map_or(FI_MSG, |_| FI_TAGGED);
        let data = message.data.map_or(0, |_| FI_REMOTE_CQ_DATA);
        Completion {
            len,
            data: message.data.unwrap_or(0),
            tag: key.tag.unwrap_or(0),
            source: self.source(key),
            ..Completion::new(context, FI_RECV | kind | data)
        }
    }

    /// Returns the source address to report for a message.
    #[inline(always)]
    fn source(&self, key: &MsgKey) -> fi_addr_t {
        match &self.source_av {
            None => FI_ADDR_NOTAVAIL,
            Some(source_av) => source_av
                .find(&key.from)
                .map_or(FI_ADDR_NOTAVAIL, |source| source_av.reported_source(source)),
        }
    }

    /// Reports a received message, as an error if its source is unknown and such sources are reported.
    #[inline(always)]
    fn push_received(&self, completion: Completion, key: &MsgKey) {
        match completion.source {
            FI_ADDR_NOTAVAIL if self.reports_unknown_sources => {
                self.queue.push(CqEntry::Failed(Failure {
                    completion,
                    olen: 0,
                    errno: Errno::EADDRNOTAVAIL,
                    prov_errno: -Errno::EADDRNOTAVAIL.to_int(),
                    err_data: ErrData::Source(key.from),
                }));
            }
            _ => self.queue.push_success(completion),
        }
    }

    /// Reports the result of a receive; `dropped` bytes of the message did not fit.
    fn complete(&self, receive: &Receive, completion: Completion, key: &MsgKey, dropped: usize) {
        let result = match dropped {
            0 => Ok(()),
            _ => Err(Errno::ETRUNC),
        };
        count(&self.counters, FI_RECV, result);
        match result {
            Ok(()) if !receive.reports_success && !self.reports_all => self.queue.complete_silent(),
            Ok(()) => self.push_received(completion, key),
            Err(errno) => self.queue.push(failed(completion, errno, dropped)),
        }
    }
}

/// Completes the slot of a receive in a multi-receive buffer, and sets FI_MULTI_RECV in the last completion of the
/// buffer. Returns the receive of the buffer when its last message completes.
fn complete_slot(
    rx_ctx: &mut RxCtx,
    receive: &mut Receive,
    completion: &mut Completion,
) -> Option<ListBox<Receive>> {
    let (is_last, freed) = match receive.kind {
        RxKind::Single => (false, None),
        RxKind::Shared => {
            rx_ctx.complete_shared(receive);
            (false, None)
        }
        RxKind::Multi { .. } => (true, None),
        RxKind::Placed { of, at } => {
            completion.buf = at;
            let freed = rx_ctx.buffers.complete_slot(of);
            // A cancelled buffer is reported once more.
            let is_last = freed
                .as_deref()
                .is_some_and(|receive| !is_cancelled(receive));
            (is_last, freed)
        }
    };
    if is_last {
        completion.flags |= FI_MULTI_RECV;
    }
    freed
}

fn is_cancelled(receive: &Receive) -> bool {
    receive.kind == RxKind::Multi { is_cancelled: true }
}

fn failed(completion: Completion, errno: Errno, dropped: usize) -> CqEntry {
    CqEntry::Failed(Failure {
        completion,
        olen: dropped,
        errno,
        prov_errno: -errno.to_int(),
        err_data: ErrData::None,
    })
}
