// SPDX-License-Identifier: GPL-2.0

//! Active endpoints: the objects bound to an endpoint, and the checks of `fi_enable()`.

use super::{
    av::AddressVector,
    cntr::{
        BoundCounters,
        Counter,
        QueueLinks, //
    },
    cq::CompletionQueue,
    domain::Domain,
    eq::{
        EventQueue,
        Kind,
        ReservedEvent,
        Source, //
    },
    introspect::{
        Introspect,
        ObjectEntry, //
    },
    provider::{
        self,
        Bindings,
        CqBinding,
        Peers, //
    },
    sep::ContextSlot,
    srx::SharedReceive,
    stx::SharedTransmit, //
};
use crate::{
    abi::{
        flags,
        KOFI_OBJECT_EP,
        KOFI_VALUE_EQ,
        KOFI_VALUE_RX_CQ,
        KOFI_VALUE_SRX,
        KOFI_VALUE_STX,
        KOFI_VALUE_TX_CQ, //
    },
    fi::prelude::*, //
};

/// The bindings of an endpoint that is not enabled yet.
#[derive(Default)]
struct PendingBindings {
    av: Option<ChildRef<AddressVector>>,
    eq: Option<ChildRef<EventQueue>>,
    srx: Option<ChildRef<SharedReceive>>,
    stx: Option<ChildRef<SharedTransmit>>,
    tx_cq: Option<CqBinding>,
    rx_cq: Option<CqBinding>,
    counters: BoundCounters,
}

/// The state of an endpoint.
enum EpState {
    Open(PendingBindings),
    /// Enabled; the provider holds the bindings.
    Enabled {
        eq: Option<Arc<EventQueue>>,
        /// Address vector of the peers.
        av: Option<Arc<AddressVector>>,
        _counter_links: QueueLinks,
    },
}

/// An active endpoint. The mutex guards the state; `fi_enable()` runs under it, the data path and the
/// connection calls do not take it.
#[pin_data(PinnedDrop)]
pub struct Endpoint {
    core: Arc<dyn provider::Endpoint>,
    #[pin]
    state: Mutex<EpState>,
    source: Source,
    info: Arc<EpInfo>,
    entry: ObjectEntry,
    domain: ChildRef<Domain>,
    /// Context slot in a scalable endpoint, for a context. Dropped last, so that the slot is free only after
    /// everything else is gone.
    context_slot: Option<ContextSlot>,
}

/// The introspection source of an endpoint.
struct EpInfo {
    core: Arc<dyn provider::Endpoint>,
    /// Object numbers of the transmit CQ, receive CQ, EQ, shared receive context and shared transmit context;
    /// 0 for none, and before the endpoint is enabled.
    bound_numbers: [Atomic<u64>; 5],
}

impl Introspect for EpInfo {
    fn fill_info(&self, info: &mut ObjectInfo<'_>) {
        let what = [
            KOFI_VALUE_TX_CQ,
            KOFI_VALUE_RX_CQ,
            KOFI_VALUE_EQ,
            KOFI_VALUE_SRX,
            KOFI_VALUE_STX,
        ];
        for (what, queue) in what.into_iter().zip(&self.bound_numbers) {
            match queue.load(Relaxed) {
                0 => {}
                number => info.add_value(what, number),
            }
        }
        self.core.fill_info(info);
    }
}

impl Endpoint {
    pub(super) fn new(domain: ChildRef<Domain>, info: &Info, source: Source) -> Result<Arc<Self>> {
        let core = domain.core().clone().endpoint(info, source)?;
        Self::build(core, domain, None, KOFI_OBJECT_EP, source)
    }

    /// Returns the endpoint of a context of a scalable endpoint, as an object of `kind`.
    pub(super) fn new_context(
        core: Arc<dyn provider::Endpoint>,
        domain: ChildRef<Domain>,
        context_slot: ContextSlot,
        kind: u32,
        source: Source,
    ) -> Result<Arc<Self>> {
        Self::build(core, domain, Some(context_slot), kind, source)
    }

    fn build(
        core: Arc<dyn provider::Endpoint>,
        domain: ChildRef<Domain>,
        context_slot: Option<ContextSlot>,
        kind: u32,
        source: Source,
    ) -> Result<Arc<Self>> {
        let made = Self::with_core(&core, domain, context_slot, kind, source);
        if made.is_err() {
            core.close(&mut |_| {});
        }
        made
    }

    fn with_core(
        core: &Arc<dyn provider::Endpoint>,
        domain: ChildRef<Domain>,
        context_slot: Option<ContextSlot>,
        kind: u32,
        source: Source,
    ) -> Result<Arc<Self>> {
        let shown = EpInfo {
            core: core.clone(),
            bound_numbers: [const { Atomic::new(0) }; 5],
        };
        let shown = Arc::new(shown, GFP_KERNEL)?;
        // An endpoint with any number of peers enables lower endpoints, which have one peer, under its own
        // lock.
        let (name, class) = match core.peers() {
            Peers::One => (c"kofi::Endpoint", static_lock_class!()),
            Peers::Any => (c"kofi::Endpoint::rdm", static_lock_class!()),
        };
        let parent = match &context_slot {
            Some(seat) => seat.parent().entry(),
            None => domain.entry(),
        };
        let card = parent.new_child(kind, c"", Some(shown.clone()))?;
        Ok(Arc::pin_init(
            pin_init!(Self {
                core: core.clone(),
                state <- Mutex::new(
                    EpState::Open(PendingBindings::default()),
                    name,
                    class,
                ),
                source,
                info: shown,
                entry: card,
                domain,
                context_slot,
            }),
            GFP_KERNEL,
        )?)
    }

    /// Returns the domain that the endpoint was opened in.
    pub(crate) fn domain(&self) -> &Arc<Domain> {
        self.domain.arc()
    }

    /// Returns the provider's endpoint.
    pub fn core(&self) -> &Arc<dyn provider::Endpoint> {
        &self.core
    }

    fn update_bindings<R>(
        &self,
        change: impl FnOnce(&mut PendingBindings) -> Result<R>,
    ) -> Result<R> {
        match &mut *self.state.lock() {
            EpState::Open(plan) => change(plan),
            EpState::Enabled { .. } => Err(Errno::EOPBADSTATE),
        }
    }

    /// Binds the event queue for connection events.
    ///
    /// # Errors
    ///
    /// -FI_EBADFLAGS for any flag; -FI_EINVAL if a queue is bound already, the queue belongs to another fabric, or the
    /// endpoint is a context, which has no events; -FI_EOPBADSTATE once enabled.
    pub fn bind_eq(&self, queue: &Arc<EventQueue>, flags: u64) -> Result {
        if flags != 0 {
            return Err(Errno::EBADFLAGS);
        }
        if self.context_slot.is_some() || !queue.is_of(self.domain.fabric()) {
            return Err(Errno::EINVAL);
        }
        let held = ChildRef::new(queue)?;
        self.update_bindings(|plan| bind_once(&mut plan.eq, held))
    }

    /// Binds the address vector of the peers.
    ///
    /// # Errors
    ///
    /// -FI_EBADFLAGS for any flag; -FI_EINVAL if a vector is bound, for a connected endpoint, and for a
    /// context, which uses its scalable endpoint's; -FI_EDOMAIN for another domain's vector; -FI_EOPBADSTATE
    /// once enabled.
    pub fn bind_av(&self, vector: &Arc<AddressVector>, flags: u64) -> Result {
        if flags != 0 {
            return Err(Errno::EBADFLAGS);
        }
        if self.core.peers() == Peers::One || self.context_slot.is_some() {
            return Err(Errno::EINVAL);
        }
        if !vector.is_of(self.domain.arc()) {
            return Err(Errno::EDOMAIN);
        }
        let held = ChildRef::new(vector)?;
        self.update_bindings(|plan| bind_once(&mut plan.av, held))
    }

    /// Binds a shared receive context.
    ///
    /// # Errors
    ///
    /// -FI_EBADFLAGS for any flag; -FI_EINVAL if one is bound, if `shared` is closed, and for an endpoint
    /// that was not opened with FI_SHARED_CONTEXT for receives; -FI_EDOMAIN for another domain's;
    /// -FI_EOPBADSTATE once enabled.
    pub fn bind_srx(&self, shared: &Arc<SharedReceive>, flags: u64) -> Result {
        if flags != 0 {
            return Err(Errno::EBADFLAGS);
        }
        if !self.core.shares_receives() {
            return Err(Errno::EINVAL);
        }
        if !shared.is_of(self.domain.arc()) {
            return Err(Errno::EDOMAIN);
        }
        let held = ChildRef::new(shared)?;
        self.update_bindings(|plan| bind_once(&mut plan.srx, held))
    }

    /// Binds a shared transmit context.
    ///
    /// # Errors
    ///
    /// As [`Self::bind_srx`].
    pub fn bind_stx(&self, shared: &Arc<SharedTransmit>, flags: u64) -> Result {
        if flags != 0 {
            return Err(Errno::EBADFLAGS);
        }
        if !self.core.shares_transmits() {
            return Err(Errno::EINVAL);
        }
        if !shared.is_of(self.domain.arc()) {
            return Err(Errno::EDOMAIN);
        }
        let held = ChildRef::new(shared)?;
        self.update_bindings(|plan| bind_once(&mut plan.stx, held))
    }

    /// Binds a completion queue for FI_TRANSMIT, FI_RECV or both.
    ///
    /// # Errors
    ///
    /// -FI_EBADFLAGS for neither, for a direction that the endpoint does not have, or for unknown bits;
    /// -FI_EINVAL if a direction has a queue already, -FI_EDOMAIN for another domain's queue, -FI_EOPBADSTATE
    /// once enabled.
    pub fn bind_cq(&self, queue: &Arc<CompletionQueue>, flags: u64) -> Result {
        let places = self.core.directions();
        if flags & places == 0 || flags & !(places | flags::FI_SELECTIVE_COMPLETION) != 0 {
            return Err(Errno::EBADFLAGS);
        }
        if !queue.is_of(self.domain.arc()) {
            return Err(Errno::EDOMAIN);
        }
        let selective = flags & flags::FI_SELECTIVE_COMPLETION != 0;
        let bound = |wanted: u64| -> Result<Option<CqBinding>> {
            if flags & wanted == 0 {
                return Ok(None);
            }
            let queue = ChildRef::new(queue)?;
            Ok(Some(CqBinding { queue, selective }))
        };
        let transmit = bound(flags::FI_TRANSMIT)?;
        let receive = bound(flags::FI_RECV)?;
        self.update_bindings(|plan| {
            let taken = (transmit.is_some() && plan.tx_cq.is_some())
                || (receive.is_some() && plan.rx_cq.is_some());
            if taken {
                return Err(Errno::EINVAL);
            }
            plan.tx_cq = transmit.or(plan.tx_cq.take());
            plan.rx_cq = receive.or(plan.rx_cq.take());
            Ok(())
        })
    }

    /// Binds a counter for the operations in `flags`: FI_SEND, FI_RECV, FI_READ, FI_WRITE.
    ///
    /// # Errors
    ///
    /// -FI_EBADFLAGS for none or for unknown bits, -FI_EOPNOTSUPP for operations that the device does not
    /// report, -FI_EINVAL if an operation has a counter already, -FI_EDOMAIN for another domain's counter,
    /// -FI_EOPBADSTATE once enabled.
    pub fn bind_counter(&self, counter: &Arc<Counter>, flags: u64) -> Result {
        if flags == 0 || !flags::CNTR_BINDING.contains(flags) {
            return Err(Errno::EBADFLAGS);
        }
        if flags & !self.core.countable() != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        if !counter.is_of(self.domain.arc()) {
            return Err(Errno::EDOMAIN);
        }
        self.update_bindings(|plan| plan.counters.bind(counter, flags))
    }

    /// `fi_enable()`. Does nothing if the endpoint is enabled. A context enables its scalable endpoint first.
    /// May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOCQ without a completion queue for a direction that the endpoint has. For a connected endpoint:
    /// -FI_ENOEQ without an event queue of its own or its domain's. For others: -FI_ENOAV without an address
    /// vector, its scalable endpoint's for a context. -FI_ENORX without the shared receive context, and
    /// -FI_EOPBADSTATE without the shared transmit context, that the endpoint was opened for.
    pub fn enable(&self) -> Result {
        let mut stage = self.state.lock();
        let plan = match &mut *stage {
            EpState::Open(plan) => plan,
            EpState::Enabled { .. } => return Ok(()),
        };
        let own = plan.eq.as_ref().map(ChildRef::arc);
        let events = own.or_else(|| self.domain.event_queue());
        match self.core.peers() {
            Peers::One if events.is_none() => return Err(Errno::ENOEQ),
            Peers::Any if self.context_slot.is_none() && plan.av.is_none() => {
                return Err(Errno::ENOAV)
            }
            _ => {}
        }
        if self.core.shares_receives() && plan.srx.is_none() {
            return Err(Errno::ENORX);
        }
        if self.core.shares_transmits() && plan.stx.is_none() {
            return Err(Errno::EOPBADSTATE);
        }
        let sides = [&plan.tx_cq, &plan.rx_cq];
        let directions = [flags::FI_TRANSMIT, flags::FI_RECV];
        let has = |direction| self.core.directions() & direction != 0;
        if sides
            .iter()
            .zip(directions)
            .any(|(side, direction)| side.is_none() && has(direction))
        {
            return Err(Errno::ENOCQ);
        }
        let [transmit, receive] = sides.map(Option::as_ref);
        let feeds = plan.counters.link_queues(
            transmit.map(|side| side.queue.arc()),
            receive.map(|side| side.queue.arc()),
        )?;
        let addresses = plan.av.as_ref();
        let shared = plan.srx.as_ref();
        let packets = plan.stx.as_ref();
        // The bindings stay in place until the provider has succeeded, so that a failed enable can be
        // retried.
        let bindings = Bindings {
            eq: events.map(ChildRef::new).transpose()?,
            av: addresses
                .map(|held| ChildRef::new(held.arc()))
                .transpose()?,
            srx: shared.map(|held| ChildRef::new(held.arc())).transpose()?,
            stx: packets.map(|held| ChildRef::new(held.arc())).transpose()?,
            tx_cq: transmit.map(CqBinding::try_clone).transpose()?,
            rx_cq: receive.map(CqBinding::try_clone).transpose()?,
            counters: plan.counters.try_clone()?,
        };
        if let Some(seat) = &self.context_slot {
            seat.parent().enable()?;
        }
        let events = events.cloned();
        let addresses = addresses.map(|addresses| addresses.arc().clone());
        let numbers = [
            transmit.map_or(0, |side| side.queue.number()),
            receive.map_or(0, |side| side.queue.number()),
            events.as_ref().map_or(0, |events| events.number()),
            shared.map_or(0, |shared| shared.number()),
            packets.map_or(0, |packets| packets.number()),
        ];
        self.core.clone().enable(bindings)?;
        for (shown, number) in self.info.bound_numbers.iter().zip(numbers) {
            shown.store(number, Relaxed);
        }
        *stage = EpState::Enabled {
            eq: events,
            av: addresses,
            _counter_links: feeds,
        };
        Ok(())
    }

    /// Returns the address vector of the peers.
    ///
    /// # Errors
    ///
    /// -FI_EOPBADSTATE before the endpoint is enabled, -FI_ENOSYS for a connected endpoint or a context.
    pub(crate) fn address_vector(&self) -> Result<Arc<AddressVector>> {
        match &*self.state.lock() {
            EpState::Open(_) => Err(Errno::EOPBADSTATE),
            EpState::Enabled { av: addresses, .. } => addresses.clone().ok_or(Errno::ENOSYS),
        }
    }

    /// Binds the completion queue of operations with FI_PEER_TRANSFER, until the endpoint closes. May sleep.
    ///
    /// # Errors
    ///
    /// As [`provider::Endpoint::bind_transfer_cq`]; -FI_EINVAL if the queue is closed.
    pub(crate) fn bind_transfer_cq(&self, queue: &Arc<CompletionQueue>) -> Result {
        self.core.bind_transfer_cq(ChildRef::new(queue)?)
    }

    /// Reserves a completion event for `source` in the domain's event queue; `None` if the domain has none.
    /// May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn reserve_event(
        &self,
        source: Source,
        event: u32,
    ) -> Result<Option<ReservedEvent>> {
        let queue = self.domain.event_queue();
        let notice = |queue| ReservedEvent::new(queue, source, Kind::Complete(event));
        queue.map(notice).transpose()
    }

    /// `fi_connect()`: enables the endpoint if it is not enabled. May sleep.
    pub fn connect(&self, to: Option<SocketAddr>, private_data: &[u8]) -> Result {
        self.check_private_data(private_data)?;
        self.enable()?;
        self.core.clone().connect(to, private_data)
    }

    /// `fi_accept()`: enables the endpoint if it is not enabled. May sleep.
    pub fn accept(&self, private_data: &[u8]) -> Result {
        self.check_private_data(private_data)?;
        self.enable()?;
        self.core.clone().accept(private_data)
    }

    fn check_private_data(&self, private_data: &[u8]) -> Result {
        if private_data.len() > self.core.private_data_limit() {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }

    /// Closes the endpoint without an event. May sleep.
    ///
    /// When it returns the device does not touch posted memory any more, and the context of every operation
    /// whose completion no reader has taken has been passed to `reclaim`.
    pub fn close(&self, reclaim: &mut dyn FnMut(Context)) {
        self.core.close(reclaim);
        self.entry.remove();
        let stage = core::mem::replace(
            &mut *self.state.lock(),
            EpState::Open(PendingBindings::default()),
        );
        if let EpState::Enabled {
            eq: Some(events), ..
        } = &stage
        {
            events.drop_events(self.source);
        }
    }
}

/// Stores the reference of a binding; -FI_EINVAL if there is one.
fn bind_once<T>(binding: &mut Option<T>, held: T) -> Result {
    match binding {
        Some(_) => Err(Errno::EINVAL),
        None => {
            *binding = Some(held);
            Ok(())
        }
    }
}

#[pinned_drop]
impl PinnedDrop for Endpoint {
    fn drop(self: Pin<&mut Self>) {
        // The provider's close does nothing for an endpoint that its owner has closed.
        self.close(&mut |_| {});
    }
}
