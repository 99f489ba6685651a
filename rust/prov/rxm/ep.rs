// SPDX-License-Identifier: GPL-2.0

//! Endpoints: opening, binding, and the completion queues that they report to.

pub(super) mod atomic;
pub(super) mod ctx;
pub(super) mod ctx_close;
pub(super) mod enable;
pub(super) mod msg;
pub(super) mod ops;
pub(super) mod rma;
mod short;
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
    super::common::mr_table::EpRights,
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
        tx_ops,
        EpInner, //
    },
    info::{
        self,
        PoolSize, //
    },
    multi_recv::MinMultiRecv,
    progress::ReaderProgress,
    srx::Srx,
    stx::Stx,
    sw_cq::{
        ProgressSource,
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
    util::once::OnceBox, //
};

/// Completion queue that one direction reports to.
struct BoundCq {
    queue: Arc<SwCq>,
    /// True if successes are reported only with FI_COMPLETION.
    is_selective: bool,
}

impl BoundCq {
    /// Returns the provider's own queue of a binding.
    fn of(side: &CqBinding) -> Result<Self> {
        let queue = side.queue.core().clone().into_any().downcast::<SwCq>();
        Ok(Self {
            queue: queue.map_err(|_| Errno::EINVAL)?,
            is_selective: side.selective,
        })
    }
}

/// Completion queues of an enabled endpoint.
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

/// References to bound objects, held until the endpoint is closed.
struct Refs {
    _addresses: Option<ChildRef<AddressVector>>,
    _transmit: Option<CqBinding>,
    _receive: Option<CqBinding>,
    shared: Option<ChildRef<SharedReceive>>,
    packets: Option<ChildRef<SharedTransmit>>,
    /// Completion queue for peer transfers.
    transfer_cq: Option<CqBinding>,
    /// Memory for the operations that are left when a context is closed.
    drain: CtxDrain,
}

/// Index of the context for peer transfers.
const TRANSFER_CTX: u8 = 1;

/// Kind of an endpoint object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EpKind {
    /// Ordinary endpoint, which owns its core.
    Full,
    /// Transmit context of a scalable endpoint.
    Tx,
    /// Receive context of a scalable endpoint.
    Rx,
}

impl EpKind {
    /// Returns whether endpoints of this kind transmit.
    pub(super) fn transmits(self) -> bool {
        self != Self::Rx
    }

    /// Returns whether endpoints of this kind receive.
    pub(super) fn receives(self) -> bool {
        self != Self::Tx
    }
}

/// An endpoint, or a context of a scalable endpoint.
#[pin_data]
pub(crate) struct Endpoint {
    core: Arc<EpCore>,
    /// Progress source that the endpoint's completion queues call.
    progress: Arc<dyn ProgressSource>,
    kind: EpKind,
    /// Index of the context.
    context: u8,
    size: RxSize,
    /// Largest injected message in bytes.
    inject: usize,
    /// Largest message in bytes.
    max_msg_size: usize,
    is_directed: bool,
    has_rma: bool,
    has_atomics: bool,
    /// Size in bytes of the remote CQ data of a write.
    written_data_size: usize,
    /// Completion levels of reads and writes, which are those of the lower endpoint.
    rma_levels: u64,
    reports_sources: bool,
    reports_unknown_sources: bool,
    /// True if messages take receives of a shared receive context.
    shares_receives: bool,
    /// True if operations use transmit buffers of a shared transmit context.
    shares_transmits: bool,
    /// True if multi-receive buffers can be posted.
    has_multi_recv: bool,
    /// Option FI_OPT_MIN_MULTI_RECV.
    min_multi_recv: MinMultiRecv,
    /// Address format, if no address to listen on is given.
    format: u32,
    cqs: OnceBox<BoundCqs>,
    /// Completion queue for peer transfers.
    transfer_cq: SetOnce<BoundCq>,
    #[pin]
    refs: Mutex<Option<Refs>>,
}

impl Endpoint {
    /// Creates an endpoint. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for an info that is not of `domain`, or for attributes beyond the limits; -FI_ENOMEM.
    pub(super) fn new(domain: Arc<Domain>, info: &Info) -> Result<Arc<Self>> {
        if info::contexts(info) != Some([1, 1]) {
            return Err(Errno::EINVAL);
        }
        let size = RxSize::of(info)?;
        let contexts = 1 + usize::from(info::is_collective(info));
        let pool_size = PoolSize::of(info, info::shares_transmits(info))?;
        let core = EpCore::new(domain, info, [contexts; 2], (pool_size, size))?;
        if contexts > 1 {
            let entries = RxEntries::new(TRANSFER_CTX, size)?;
            let mut inner = core.inner.lock();
            inner.rx_ctxs.ctx_mut(TRANSFER_CTX).set_entries(entries);
        }
        let progress = ReaderProgress::source_of(&core)?;
        Self::new_part((core, progress), (EpKind::Full, 0), info, size)
    }

    /// Creates the endpoint object for context `context` of a core. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new_part(
        (core, progress): (Arc<EpCore>, Arc<dyn ProgressSource>),
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
        if kind.receives() {
            let rights = EpRights::from_caps(info.caps());
            core.inner.lock().rx_ctxs.ctx_mut(context).rights = rights;
        }
        let lower = core.domain.lower_info();
        let max_msg_size = info::max_msg_size(lower);
        let rma_levels = lower.tx().map_or(0, |tx| tx.op_flags);
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
                rma_levels,
                reports_sources: info.caps() & (FI_SOURCE | FI_SOURCE_ERR) != 0,
                reports_unknown_sources: info.caps() & FI_SOURCE_ERR != 0,
                shares_receives: info::uses_shared_rx(info),
                shares_transmits: info::shares_transmits(info),
                has_multi_recv: info.caps() & FI_MULTI_RECV != 0,
                min_multi_recv: MinMultiRecv::new(),
                format: info.addr_format(),
                cqs: OnceBox::new(),
                transfer_cq: SetOnce::new(),
                refs <- new_mutex!(None, "kofi::rxm::Endpoint"),
            }),
            GFP_KERNEL,
        )?)
    }

    /// Enables the endpoint: attaches its completion queues, and listens if it owns its core.
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
        let vector = receive.as_ref().map_or(0, |side| side.queue.attr().vector);
        let cqs = BoundCqs {
            transmit: bound_cq(&transmit)?,
            receive: bound_cq(&receive)?,
        };
        let cqs = KBox::new(cqs, GFP_KERNEL)?;
        // A context uses the address vector of its scalable endpoint, which is enabled.
        let known = match &addresses {
            Some(addresses) => addresses.arc().clone(),
            None => self.core.bound()?.addresses.clone(),
        };
        let most_left = match self.kind {
            // An ordinary endpoint returns what is left when its core ends.
            EpKind::Full => 0,
            EpKind::Tx => tx_ops(self.core.pool_size),
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
                .and_then(|()| self.core.enable(here, &known, self.format, vector));
            enabled.inspect_err(|_| self.detach(&cqs))?;
        }
        *self.refs.lock() = Some(refs);
        // `enable()` is called once.
        let _ = self.cqs.set(cqs);
        Ok(())
    }

    /// Attaches the shared transmit and receive contexts, if any are bound.
    fn attach_shared(
        &self,
        packets: Option<&ChildRef<SharedTransmit>>,
        shared: Option<&ChildRef<SharedReceive>>,
    ) -> Result {
        if let Some(packets) = packets {
            let packets = packets.core().clone().into_any().downcast::<Stx>();
            self.core.use_stx(packets.map_err(|_| Errno::EINVAL)?)?;
        }
        let Some(shared) = shared else {
            return Ok(());
        };
        let shared = shared.core().clone().into_any().downcast::<Srx>();
        self.core.attach_srx(&shared.map_err(|_| Errno::EINVAL)?)
    }

    /// Attaches the completion queues and counters to the core.
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

    /// Detaches the endpoint from its completion queues and counters.
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

    /// Returns the completion queue and the context index for peer transfers.
    ///
    /// # Errors
    ///
    /// -FI_EBADFLAGS if the endpoint has none.
    #[cold]
    fn transfer_cq(&self) -> Result<(&BoundCq, u8)> {
        let bound_cq = self.transfer_cq.as_ref().ok_or(Errno::EBADFLAGS)?;
        Ok((bound_cq, TRANSFER_CTX))
    }

    /// Returns the completion queue of transmits and the lower objects.
    ///
    /// # Errors
    ///
    /// -FI_EOPBADSTATE before the endpoint is enabled, -FI_ENOSYS for a receive context.
    #[inline]
    fn tx_path(&self) -> Result<(&BoundCq, &Bound)> {
        let bound_cq = self.cqs.get().and_then(|cqs| cqs.transmit.as_ref());
        match (bound_cq, self.core.bound()) {
            (Some(bound_cq), Ok(bound)) => Ok((bound_cq, bound)),
            _ => Err(not_available(self.kind.transmits())),
        }
    }

    /// Returns the completion queue of receives and the lower objects.
    ///
    /// # Errors
    ///
    /// -FI_EOPBADSTATE before the endpoint is enabled, -FI_ENOSYS for a transmit context or if receives are shared.
    #[inline]
    fn rx_path(&self) -> Result<(&BoundCq, &Bound)> {
        let bound_cq = self.cqs.get().and_then(|cqs| cqs.receive.as_ref());
        match (bound_cq, self.core.bound()) {
            (Some(bound_cq), Ok(bound)) if !self.shares_receives => Ok((bound_cq, bound)),
            _ => Err(not_available(self.kind.receives() && !self.shares_receives)),
        }
    }

    /// Adds the endpoint's statistics to its introspection entry.
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

/// Returns the errno of a call in a direction that is not enabled, or that the endpoint does not have.
#[cold]
fn not_available(has: bool) -> Errno {
    match has {
        true => Errno::EOPBADSTATE,
        false => Errno::ENOSYS,
    }
}
