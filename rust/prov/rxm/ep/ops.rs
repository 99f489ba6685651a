// SPDX-License-Identifier: GPL-2.0

//! Operations of [`Endpoint`] as the object model calls them.

use super::{
    super::{
        completion::{
            CompSinks,
            RxSink,
            TxSink, //
        },
        ep_state::EpState, //
    },
    max_elements,
    BoundCq,
    Endpoint,
    EpKind,
    TRANSFER_CTX, //
};
use crate::{
    abi::{
        flags::*,
        KOFI_STATE_ENABLED,
        KOFI_STATE_OPEN,
        KOFI_VALUE_INDEX,
        KOFI_VALUE_RX_SIZE,
        KOFI_VALUE_TX_SIZE, //
    },
    fi::{
        self,
        atomic::{
            Atomic,
            Datatype,
            Form,
            Op, //
        },
        cntr::BoundCounters,
        prelude::*,
        provider::{
            self,
            Bindings,
            CqBinding,
            Destination,
            EpOption,
            Message,
            Operation,
            Peers,
            SingleSegment, //
        },
    },
    util::context, //
};
use core::any::Any;

impl provider::Endpoint for Endpoint {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn directions(&self) -> u64 {
        match self.kind {
            EpKind::Full => FI_TRANSMIT | FI_RECV,
            EpKind::Tx => FI_TRANSMIT,
            EpKind::Rx => FI_RECV,
        }
    }

    fn peers(&self) -> Peers {
        Peers::Any
    }

    fn countable(&self) -> u64 {
        match self.kind {
            EpKind::Full => FI_SEND | FI_RECV | FI_READ | FI_WRITE,
            EpKind::Tx => FI_SEND | FI_READ | FI_WRITE,
            EpKind::Rx => FI_RECV,
        }
    }

    fn shares_receives(&self) -> bool {
        self.shares_receives
    }

    fn directs_receives(&self) -> bool {
        self.is_directed
    }

    fn shares_transmits(&self) -> bool {
        self.shares_transmits
    }

    fn enable(self: Arc<Self>, bindings: Bindings) -> Result {
        self.open(context::in_process()?, bindings)
    }

    fn connect(self: Arc<Self>, _to: Option<SocketAddr>, _private_data: &[u8]) -> Result {
        provider::not_implemented()
    }

    fn accept(self: Arc<Self>, _private_data: &[u8]) -> Result {
        provider::not_implemented()
    }

    fn shutdown(&self, _flags: u64) -> Result {
        provider::not_implemented()
    }

    fn set_name(&self, addr: SocketAddr) -> Result {
        match self.kind {
            EpKind::Full => self.core.set_name(addr),
            _ => provider::not_implemented(),
        }
    }

    fn name(&self) -> Result<SocketAddr> {
        self.core.name()
    }

    fn peer(&self) -> Result<SocketAddr> {
        provider::not_implemented()
    }

    fn private_data_limit(&self) -> usize {
        0
    }

    fn receives_left(&self) -> Result<usize> {
        self.rx_path()?;
        let state = self.core.inner.lock();
        Ok(state.rx_ctxs.ctx(self.context).receives_left())
    }

    fn transmits_left(&self) -> Result<usize> {
        self.tx_path()?;
        Ok(self.core.inner.lock().tx_left())
    }

    fn transmit(&self, operation: Operation<'_>, message: &Message<'_>) -> Result {
        match operation {
            Operation::Send => self.send(message),
            Operation::Rma(way, remote) => self.post_rma(way, remote, message),
        }
    }

    #[inline(always)]
    fn try_fast_transmit(
        &self,
        operation: Operation<'_>,
        single: &SingleSegment<'_>,
        to: Destination,
    ) -> Option<Result> {
        match operation {
            Operation::Send => self.try_short_send(single, to),
            Operation::Rma(way, remote) => self.try_short_rma(way, remote, single, to),
        }
    }

    #[inline(always)]
    fn try_fast_inject(
        &self,
        operation: Operation<'_>,
        segment: &Segment,
        flags: u64,
        to: Destination,
    ) -> Option<Result> {
        match operation {
            Operation::Send => self.try_short_inject(segment, flags, to),
            Operation::Rma(..) => None,
        }
    }

    fn atomic(&self, atomic: &Atomic<'_>, message: &Message<'_>) -> Result {
        self.post_atomic(atomic, message)
    }

    fn max_atomic_elements(&self, form: Form, _op: Op, datatype: Datatype) -> Result<usize> {
        match self.has_atomics {
            true => Ok(max_elements(form, datatype)),
            false => provider::not_implemented(),
        }
    }

    fn bind_transfer_cq(&self, queue: ChildRef<fi::cq::CompletionQueue>) -> Result {
        if self.kind != EpKind::Full || self.core.inner.lock().rx_ctxs.len() < 2 {
            return provider::not_implemented();
        }
        let bound = self.core.bound()?;
        let mut refs = self.refs.lock();
        let Some(refs) = &mut *refs else {
            return Err(Errno::EOPBADSTATE);
        };
        if refs.transfer_cq.is_some() {
            return Err(Errno::EALREADY);
        }
        let side = CqBinding {
            queue,
            selective: false,
        };
        let bound_cq = BoundCq::of(&side)?;
        let transmits = TxSink::new(&bound_cq.queue, BoundCounters::default())?;
        let receives = RxSink {
            queue: bound_cq.queue.clone(),
            counters: BoundCounters::default(),
            reports_all: true,
            source_av: Some(bound.addresses.clone()),
            reports_unknown_sources: false,
        };
        bound_cq.queue.attach_source(&self.progress)?;
        self.core.with_sinks(|sinks| {
            *sinks.tx.ctx_mut(TRANSFER_CTX) = Some(transmits);
            *sinks.rx.ctx_mut(TRANSFER_CTX) = Some(receives);
        });
        refs.transfer_cq = Some(side);
        let is_awaited = bound_cq.queue.has_waiter();
        // A queue for transfers is bound once.
        let _ = self.transfer_cq.populate(bound_cq);
        if is_awaited {
            self.core.arm();
        }
        Ok(())
    }

    fn getopt(&self, option: EpOption) -> Result<usize> {
        match (option, self.kind) {
            (EpOption::MinMultiRecv, EpKind::Tx) => Err(Errno::ENOPROTOOPT),
            (EpOption::MinMultiRecv, _) => Ok(self.min_multi_recv.get()),
            (_, EpKind::Full) => self.core.getopt(option),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    fn setopt(&self, option: EpOption, value: usize) -> Result {
        match (option, self.kind) {
            (EpOption::MinMultiRecv, EpKind::Tx) => Err(Errno::ENOPROTOOPT),
            (EpOption::MinMultiRecv, _) => self.min_multi_recv.set(value),
            (_, EpKind::Full) => self.core.setopt(option, value),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    fn receive(&self, message: &Message<'_>) -> Result {
        self.post(message)
    }

    fn cancel(&self, context: Context) -> Result {
        let of_receives = self.cancel_receive(context);
        match of_receives {
            Err(Errno::ENOENT | Errno::EOPNOTSUPP) if self.kind.transmits() => {
                match self.cancel_transmit(context) {
                    Err(Errno::ENOENT) => of_receives,
                    outcome => outcome,
                }
            }
            _ => of_receives,
        }
    }

    fn fill_info(&self, out: &mut ObjectInfo<'_>) {
        out.set_state(match self.cqs.get() {
            Some(_) => KOFI_STATE_ENABLED,
            None => KOFI_STATE_OPEN,
        });
        if self.kind.transmits() && !self.shares_transmits {
            let tx_bufs = self.core.inner.lock().tx_pool.size();
            out.add_value(KOFI_VALUE_TX_SIZE, tx_bufs as u64);
        }
        if self.kind.receives() && !self.shares_receives {
            out.add_value(KOFI_VALUE_RX_SIZE, self.size.receives as u64);
        }
        self.fill_counts(out);
        match self.kind {
            EpKind::Full => self.core.fill_info(out),
            _ => out.add_value(KOFI_VALUE_INDEX, self.context.into()),
        }
    }

    fn close(&self, reclaim: &mut dyn FnMut(Context)) {
        let refs = self.refs.lock().take();
        let (Some(mut refs), Some(cqs)) = (refs, self.cqs.get()) else {
            return;
        };
        let transfer_cq = self.transfer_cq.as_ref().map(|bound_cq| &bound_cq.queue);
        for queue in Iterator::chain(cqs.queues(), transfer_cq) {
            queue.detach_source(&self.progress);
        }
        if self.kind == EpKind::Full {
            self.core.end(reclaim);
            return;
        }
        let Ok(bound) = self.core.bound() else {
            return;
        };
        let drain = &mut refs.drain;
        self.core.drain_ctx(bound, (self.kind, self.context), drain);
        for queue in cqs.queues() {
            queue.release_many(drain.cq_slots());
        }
        for &context in drain.contexts() {
            reclaim(context);
        }
    }
}

impl Endpoint {
    /// Cancels a receive.
    ///
    /// # Errors
    ///
    /// -FI_EOPNOTSUPP if receives are shared, otherwise as `fi_cancel()`.
    fn cancel_receive(&self, context: Context) -> Result {
        if self.kind == EpKind::Tx {
            return Err(Errno::ENOENT);
        }
        if self.shares_receives {
            return Err(Errno::EOPNOTSUPP);
        }
        self.rx_path()?;
        self.cancel_of_ctxs(|at| loop {
            let cancel = |state: &mut EpState, sinks: &CompSinks| state.cancel(sinks, at, context);
            if let Some(done) = self.core.with_state(cancel) {
                break done;
            }
        })
    }

    /// Cancels a queued transmit.
    ///
    /// # Errors
    ///
    /// As `fi_cancel()`.
    fn cancel_transmit(&self, context: Context) -> Result {
        let (_, bound) = self.tx_path()?;
        self.cancel_of_ctxs(|tx_ctx| {
            let mut inner = self.core.inner.lock();
            let (state, sinks) = inner.split();
            let done = state.cancel_tx(sinks, tx_ctx, context);
            let needs_cm_work = state.needs_cm_work();
            drop(inner);
            if needs_cm_work {
                bound.schedule_cm_work();
            }
            done
        })
    }

    /// Calls `cancel` for the context and, if that has no such operation, for the context for peer transfers.
    fn cancel_of_ctxs(&self, cancel: impl Fn(u8) -> Result) -> Result {
        match (cancel(self.context), self.transfer_cq()) {
            (Err(Errno::ENOENT), Ok((_, at))) => cancel(at),
            (outcome, _) => outcome,
        }
    }
}
