// SPDX-License-Identifier: GPL-2.0

//! Endpoints, as their consumers see them.

pub(super) mod atomic;
pub(super) mod ctx;
pub(super) mod ctx_close;
pub(super) mod enable;
pub(super) mod msg;
pub(super) mod ops;
pub(super) mod rma;
pub(super) mod tagged;

pub(super) use self::{
    atomic::max_elements,
    msg::PEEK_FLAGS, //
};
use self::{
    ctx::{
        RxEntries,
        RxSize, //
    },
    ctx_close::CtxDrain, //
};
use super::{
    completion::{
        RxSink,
        TxSink, //
    },
    domain::Domain,
    ep_core::{
        Bound,
        EpCore, //
    },
    ep_state::{
        EpInner,
        TX_BUFS, //
    },
    info,
    multi_recv::MinMultiRecv,
    progress::ReaderProgress,
    srx::Srx,
    stx::Stx,
    sw_cq::{
        ProgressHandle,
        SwCq, //
    },
    wire::EAGER, //
};
use crate::{
    abi::flags::*,
    fi::{
        av::AddressVector,
        cntr::BoundCounters,
        prelude::*,
        provider::{
            Bindings,
            CqBinding, //
        },
        srx::SharedReceive,
        stx::SharedTransmit, //
    },
};

/// Where the operations of one direction complete.
struct BoundCq {
    queue: Arc<SwCq>,
    /// Successes complete only with FI_COMPLETION.
    is_selective: bool,
}

impl BoundCq {
    /// The provider's own part of what is bound.
    fn of(side: &CqBinding) -> Result<Self> {
        let queue = side.queue.core().clone().into_any().downcast::<SwCq>();
        Ok(Self {
            queue: queue.map_err(|_| Errno::EINVAL)?,
            is_selective: side.selective,
        })
    }
}

/// What there is from when it is enabled.
struct BoundCqs {
    transmit: Option<BoundCq>,
    receive: Option<BoundCq>,
}

impl BoundCqs {
    fn queues(&self) -> impl Iterator<Item = &Arc<SwCq>> {
        let all = [&self.transmit, &self.receive];
        all.into_iter().flatten().map(|bound_cq| &bound_cq.queue)
    }
}

/// What is bound, kept open until the endpoint is closed.
struct Refs {
    _addresses: Option<ChildRef<AddressVector>>,
    _transmit: Option<CqBinding>,
    _receive: Option<CqBinding>,
    shared: Option<ChildRef<SharedReceive>>,
    packets: Option<ChildRef<SharedTransmit>>,
    /// Where a peer's transfers complete.
    transfer_cq: Option<CqBinding>,
    /// For what it leaves.
    drain: CtxDrain,
}

/// The context for a peer's transfers, beside the first.
const TRANSFER_CTX: u8 = 1;

/// What an endpoint is to its station.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EpKind {
    /// All that there is.
    Full,
    /// One of the contexts that send.
    Tx,
    /// One of those that receive.
    Rx,
}

impl EpKind {
    /// Returns whether contexts of this role send.
    pub(super) fn transmits(self) -> bool {
        self != Self::Rx
    }

    /// Whether it receives.
    pub(super) fn receives(self) -> bool {
        self != Self::Tx
    }
}

/// An endpoint.
#[pin_data]
pub(crate) struct Endpoint {
    core: Arc<EpCore>,
    /// Moves the station's packets.
    progress: Arc<ProgressHandle>,
    kind: EpKind,
    /// Which context of the station's it is, of those that send or of those that receive.
    context: u8,
    size: RxSize,
    /// Most bytes of a message that is injected.
    inject: usize,
    /// And of any.
    max_msg_size: usize,
    is_directed: bool,
    has_rma: bool,
    has_atomics: bool,
    /// Bytes of the data that a write may bring.
    written_data_size: usize,
    reports_sources: bool,
    reports_unknown_sources: bool,
    /// Whether its messages take receives that it shares with others: it has none of its own.
    shares_receives: bool,
    /// Whether it sends with packets that it shares with others: it has none of its own.
    shares_transmits: bool,
    /// Whether receives may take several messages.
    has_multi_recv: bool,
    /// When less than that is left, they take no more.
    min_multi_recv: MinMultiRecv,
    /// What addresses look like, where none is given to listen at.
    format: u32,
    cqs: SetOnce<BoundCqs>,
    /// Where a peer's transfers complete.
    transfer_cq: SetOnce<BoundCq>,
    #[pin]
    refs: Mutex<Option<Refs>>,
}

impl Endpoint {
    /// Makes an endpoint. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for an info that is not of `domain`, or more than is offered; -FI_ENOMEM.
    pub(super) fn new(domain: Arc<Domain>, info: &Info) -> Result<Arc<Self>> {
        if info::contexts(info) != Some([1, 1]) {
            return Err(Errno::EINVAL);
        }
        let size = RxSize::of(info)?;
        let contexts = 1 + usize::from(info::is_collective(info));
        let core = EpCore::new(domain, info, [contexts; 2], size)?;
        if contexts > 1 {
            let entries = RxEntries::new(TRANSFER_CTX, size)?;
            let mut inner = core.inner.lock();
            inner.rx_ctxs.ctx_mut(TRANSFER_CTX).set_entries(entries);
        }
        let progress = ReaderProgress::of(&core)?;
        Self::new_part((core, progress), (EpKind::Full, 0), info, size)
    }

    /// Makes a part of a station, which the mover is of, and which has parts of that size. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new_part(
        (core, progress): (Arc<EpCore>, Arc<ProgressHandle>),
        (kind, context): (EpKind, u8),
        info: &Info,
        size: RxSize,
    ) -> Result<Arc<Self>> {
        let rx_ctx = |inner: &EpInner| inner.rx_ctxs.ctx(context).has_entries();
        if kind.receives() && !rx_ctx(&core.inner.lock()) {
            let entries = RxEntries::new(context, size)?;
            let mut inner = core.inner.lock();
            inner.rx_ctxs.ctx_mut(context).set_entries(entries);
        }
        let lower = core.domain.lower_info();
        let max_msg_size = info::max_msg_size(lower);
        let written_data_size = lower.domain().map_or(0, |domain| domain.cq_data_size);
        Ok(Arc::pin_init(
            pin_init!(Self {
                progress,
                core,
                kind,
                context,
                size,
                max_msg_size,
                inject: info.tx().map_or(0, |tx| tx.inject_size).min(EAGER),
                is_directed: info.caps() & FI_DIRECTED_RECV != 0,
                has_rma: info.caps() & FI_RMA != 0,
                has_atomics: info.caps() & FI_ATOMIC != 0 && kind.transmits(),
                written_data_size,
                reports_sources: info.caps() & (FI_SOURCE | FI_SOURCE_ERR) != 0,
                reports_unknown_sources: info.caps() & FI_SOURCE_ERR != 0,
                shares_receives: info::uses_shared_rx(info),
                shares_transmits: info::shares_transmits(info),
                has_multi_recv: info.caps() & FI_MULTI_RECV != 0,
                min_multi_recv: MinMultiRecv::new(),
                format: info.addr_format(),
                cqs: SetOnce::new(),
                transfer_cq: SetOnce::new(),
                refs <- new_mutex!(None, "kofi::rxm::Endpoint"),
            }),
            GFP_KERNEL,
        )?)
    }

    /// Has what comes of its operations told, and listens.
    fn open(&self, here: ProcessContext, bindings: Bindings) -> Result {
        let Bindings {
            av: addresses,
            tx_cq: transmit,
            rx_cq: receive,
            srx: shared,
            stx: packets,
            counters,
            ..
        } = bindings;
        let bound_cq = |side: &Option<CqBinding>| side.as_ref().map(BoundCq::of).transpose();
        let cqs = BoundCqs {
            transmit: bound_cq(&transmit)?,
            receive: bound_cq(&receive)?,
        };
        // A context has the addresses of its station, which has begun.
        let known = match &addresses {
            Some(addresses) => addresses.arc().clone(),
            None => self.core.bound()?.addresses.clone(),
        };
        let most_left = match self.kind {
            // What that leaves is told where it is.
            EpKind::Full => 0,
            EpKind::Tx => TX_BUFS,
            EpKind::Rx => self.size.receives,
        };
        let refs = Refs {
            drain: CtxDrain::new(most_left)?,
            _addresses: addresses,
            _transmit: transmit,
            _receive: receive,
            shared,
            packets,
            transfer_cq: None,
        };
        self.attach(&cqs, &known, counters)?;
        if self.kind == EpKind::Full {
            let enabled = self
                .attach_shared(refs.packets.as_ref(), refs.shared.as_ref())
                .and_then(|()| self.core.enable(here, &known, self.format));
            enabled.inspect_err(|_| self.detach(&cqs))?;
        }
        *self.refs.lock() = Some(refs);
        // It has not been enabled before.
        let _ = self.cqs.populate(cqs);
        Ok(())
    }

    /// Has it send with packets that it shares with others, and its messages take such receives, if they do.
    fn attach_shared(
        &self,
        packets: Option<&ChildRef<SharedTransmit>>,
        shared: Option<&ChildRef<SharedReceive>>,
    ) -> Result {
        if let Some(packets) = packets {
            let packets = packets.core().clone().into_any().downcast::<Stx>();
            self.core.use_stx(packets.map_err(|_| Errno::EINVAL)?);
        }
        let Some(shared) = shared else {
            return Ok(());
        };
        let shared = shared.core().clone().into_any().downcast::<Srx>();
        self.core.attach_srx(&shared.map_err(|_| Errno::EINVAL)?)
    }

    /// Has what comes of its operations told there.
    fn attach(
        &self,
        cqs: &BoundCqs,
        addresses: &Arc<AddressVector>,
        counters: BoundCounters,
    ) -> Result {
        let transmits = match &cqs.transmit {
            Some(bound_cq) => Some(TxSink::new(&bound_cq.queue, counters.try_clone()?)?),
            None => None,
        };
        let receives = cqs.receive.as_ref().map(|bound_cq| RxSink {
            queue: bound_cq.queue.clone(),
            counters,
            reports_all: !bound_cq.is_selective,
            source_av: self.reports_sources.then(|| addresses.clone()),
            reports_unknown_sources: self.reports_unknown_sources,
        });
        for (admitted, queue) in cqs.queues().enumerate() {
            queue.attach_source(&self.progress).inspect_err(|_| {
                for queue in cqs.queues().take(admitted) {
                    queue.detach_source(&self.progress);
                }
            })?;
        }
        let mut inner = self.core.inner.lock();
        if transmits.is_some() {
            *inner.sinks.tx.ctx_mut(self.context) = transmits;
        }
        if receives.is_some() {
            *inner.sinks.rx.ctx_mut(self.context) = receives;
        }
        Ok(())
    }

    /// Has it told nowhere.
    fn detach(&self, cqs: &BoundCqs) {
        self.core.detach_srx();
        for queue in cqs.queues() {
            queue.detach_source(&self.progress);
        }
        let mut inner = self.core.inner.lock();
        inner.tx_pool.wake_waiters();
        let sinks = inner.sinks.detach(self.kind, self.context);
        drop(inner);
        drop(sinks);
    }

    /// By what a peer's transfers complete, and the context of those.
    ///
    /// # Errors
    ///
    /// -FI_EBADFLAGS where there are none.
    #[cold]
    fn transfer_cq(&self) -> Result<(&BoundCq, u8)> {
        let bound_cq = self.transfer_cq.as_ref().ok_or(Errno::EBADFLAGS)?;
        Ok((bound_cq, TRANSFER_CTX))
    }

    /// By what it sends; -FI_EOPBADSTATE before it is enabled, -FI_ENOSYS of a context that receives.
    #[inline]
    fn tx_path(&self) -> Result<(&BoundCq, &Bound)> {
        let bound_cq = self.cqs.as_ref().and_then(|cqs| cqs.transmit.as_ref());
        match (bound_cq, self.core.bound()) {
            (Some(bound_cq), Ok(bound)) => Ok((bound_cq, bound)),
            _ => Err(not_available(self.kind.transmits())),
        }
    }

    /// The same for receives of its own; -FI_ENOSYS of one that shares them, too.
    #[inline]
    fn rx_path(&self) -> Result<(&BoundCq, &Bound)> {
        let bound_cq = self.cqs.as_ref().and_then(|cqs| cqs.receive.as_ref());
        match (bound_cq, self.core.bound()) {
            (Some(bound_cq), Ok(bound)) if !self.shares_receives => Ok((bound_cq, bound)),
            _ => Err(not_available(self.kind.receives() && !self.shares_receives)),
        }
    }

    /// Tells what it has done.
    fn fill_counts(&self, out: &mut ObjectInfo<'_>) {
        let inner = self.core.inner.lock();
        if self.kind.transmits() {
            inner.sinks.tx_stats.ctx(self.context).report(out);
        }
        if self.kind.receives() {
            let left = inner.rx_ctxs.ctx(self.context).receives_left();
            let waiting = self.size.receives.saturating_sub(left);
            inner.sinks.rx_stats.ctx(self.context).report(waiting, out);
        }
    }
}

/// Why there is nothing in a direction that it has, or has not.
#[cold]
fn not_available(has: bool) -> Errno {
    match has {
        true => Errno::EOPBADSTATE,
        false => Errno::ENOSYS,
    }
}
