// SPDX-License-Identifier: GPL-2.0

//! Active endpoints: the objects bound to an endpoint, and the checks of `fi_enable()`.

use super::{
    av::AddressVector,
    cntr::{
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
    mr::region_pool::RegionReservation,
    object::{
        impl_parent,
        ChildCount,
        Listed,
        Parent, //
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
    fi::prelude::*,
    util::noio::NoIo, //
};

/// The state of an endpoint.
enum EpState {
    /// Not enabled; the bindings so far.
    Open(Bindings),
    /// Enabled; the provider holds the bindings.
    Enabled {
        eq: Option<Arc<EventQueue>>,
        /// Address vector of the peers.
        av: Option<Arc<AddressVector>>,
        _counter_links: QueueLinks,
        _regions: Option<RegionReservation>,
    },
}

/// An active endpoint. The mutex guards the state; `fi_enable()` runs under it, the data path and the
/// connection calls do not take it.
#[pin_data(PinnedDrop)]
pub struct Endpoint {
    core: Arc<dyn provider::Endpoint>,
    #[pin]
    state: Mutex<EpState>,
    pub(super) source: Source,
    info: Arc<EpInfo>,
    entry: ObjectEntry,
    /// Counts the bound regions, and the aliases of a C caller.
    users: ChildCount,
    domain: ChildRef<Domain>,
    /// Context slot in a scalable endpoint, for a context. Dropped last, so that the slot is free only after
    /// everything else is gone.
    context_slot: Option<ContextSlot>,
}

impl_parent!(Endpoint);

/// The introspection source of an endpoint.
struct EpInfo {
    core: Arc<dyn provider::Endpoint>,
    /// Object numbers of the transmit CQ, receive CQ, EQ, shared receive context and shared transmit context;
    /// 0 for none, and before the endpoint is enabled.
    bound_numbers: [Atomic<u64>; 5],
}

impl Introspect for EpInfo {
    fn fill_info(&self, info: &mut ObjectInfo<'_>) {
        let keys = [
            KOFI_VALUE_TX_CQ,
            KOFI_VALUE_RX_CQ,
            KOFI_VALUE_EQ,
            KOFI_VALUE_SRX,
            KOFI_VALUE_STX,
        ];
        for (key, number) in keys.into_iter().zip(&self.bound_numbers) {
            let number = number.load(Relaxed);
            if number != 0 {
                info.add_value(key, number);
            }
        }
        self.core.fill_info(info);
    }
}

impl Endpoint {
    pub(super) fn new(domain: ChildRef<Domain>, info: &Info, source: Source) -> Result<Arc<Self>> {
        let core = domain.core().clone().endpoint(info, source)?;
        Self::of_core(core, domain, None, source)
    }

    /// Opens the object of the provider's endpoint `core`, a context of a scalable endpoint if it has a slot.
    /// Closes `core` if that fails.
    pub(super) fn of_core(
        core: Arc<dyn provider::Endpoint>,
        domain: ChildRef<Domain>,
        context_slot: Option<ContextSlot>,
        source: Source,
    ) -> Result<Arc<Self>> {
        Self::build(&core, domain, context_slot, source).inspect_err(|_| core.close(&mut |_| {}))
    }

    fn build(
        core: &Arc<dyn provider::Endpoint>,
        domain: ChildRef<Domain>,
        context_slot: Option<ContextSlot>,
        source: Source,
    ) -> Result<Arc<Self>> {
        let info = new_arc(EpInfo {
            core: core.clone(),
            bound_numbers: [const { Atomic::new(0) }; 5],
        })?;
        // An endpoint with any number of peers enables lower endpoints, which have one peer, under its own
        // lock.
        let (name, class) = match core.peers() {
            Peers::One => (c"kofi::Endpoint", static_lock_class!()),
            Peers::Any => (c"kofi::Endpoint::rdm", static_lock_class!()),
        };
        let (parent, kind) = match &context_slot {
            Some(slot) => (slot.parent().entry(), slot.object_kind()),
            None => (domain.entry(), KOFI_OBJECT_EP),
        };
        let entry = parent.new_child(kind, c"", Some(info.clone()))?;
        pin_arc(pin_init!(Self {
            core: core.clone(),
            state <- Mutex::new(EpState::Open(Bindings::default()), name, class),
            source,
            info,
            entry,
            users: ChildCount::new(),
            domain,
            context_slot,
        }))
    }

    /// Returns the domain that the endpoint was opened in.
    pub(crate) fn domain(&self) -> &Arc<Domain> {
        self.domain.arc()
    }

    /// Returns the provider's endpoint.
    pub fn core(&self) -> &Arc<dyn provider::Endpoint> {
        &self.core
    }

    fn update_bindings(&self, change: impl FnOnce(&mut Bindings) -> Result) -> Result {
        match &mut *self.state.lock() {
            EpState::Open(bindings) => change(bindings),
            EpState::Enabled { .. } => Err(Errno::EOPBADSTATE),
        }
    }

    /// Stores a counted reference to `object` in the binding that `select` selects; -FI_EINVAL if it has one.
    fn bind_once<T: Parent>(
        &self,
        object: &Arc<T>,
        select: impl FnOnce(&mut Bindings) -> &mut Option<ChildRef<T>>,
    ) -> Result {
        let held = ChildRef::new(object)?;
        self.update_bindings(|bindings| {
            let binding = select(bindings);
            Errno::EINVAL.when(binding.is_some())?;
            *binding = Some(held);
            Ok(())
        })
    }

    /// Binds the event queue for connection events.
    ///
    /// # Errors
    ///
    /// -FI_EBADFLAGS for any flag; -FI_EINVAL if a queue is bound already, the queue belongs to another fabric, or the
    /// endpoint is a context, which has no events; -FI_EOPBADSTATE once enabled.
    pub fn bind_eq(&self, queue: &Arc<EventQueue>, flags: u64) -> Result {
        Errno::EBADFLAGS.when(flags != 0)?;
        let is_foreign = !queue.is_of(self.domain.fabric());
        Errno::EINVAL.when(self.context_slot.is_some() || is_foreign)?;
        self.bind_once(queue, |bindings| &mut bindings.eq)
    }

    /// Binds the address vector of the peers.
    ///
    /// # Errors
    ///
    /// -FI_EBADFLAGS for any flag; -FI_EINVAL if a vector is bound, for a connected endpoint, and for a
    /// context, which uses its scalable endpoint's; -FI_EDOMAIN for another domain's vector; -FI_EOPBADSTATE
    /// once enabled.
    pub fn bind_av(&self, vector: &Arc<AddressVector>, flags: u64) -> Result {
        Errno::EBADFLAGS.when(flags != 0)?;
        let is_connected = self.core.peers() == Peers::One;
        Errno::EINVAL.when(is_connected || self.context_slot.is_some())?;
        Errno::EDOMAIN.when(!vector.entry_guard.is_of(self.domain()))?;
        self.bind_once(vector, |bindings| &mut bindings.av)
    }

    /// Binds a shared receive context.
    ///
    /// # Errors
    ///
    /// -FI_EBADFLAGS for any flag; -FI_EINVAL if one is bound, if `shared` is closed, and for an endpoint
    /// that was not opened with FI_SHARED_CONTEXT for receives; -FI_EDOMAIN for another domain's;
    /// -FI_EOPBADSTATE once enabled.
    pub fn bind_srx(&self, shared: &Arc<SharedReceive>, flags: u64) -> Result {
        Errno::EBADFLAGS.when(flags != 0)?;
        Errno::EINVAL.when(!self.core.shares_receives())?;
        Errno::EDOMAIN.when(!shared.entry_guard.is_of(self.domain()))?;
        self.bind_once(shared, |bindings| &mut bindings.srx)
    }

    /// Binds a shared transmit context.
    ///
    /// # Errors
    ///
    /// As [`Self::bind_srx`].
    pub fn bind_stx(&self, shared: &Arc<SharedTransmit>, flags: u64) -> Result {
        Errno::EBADFLAGS.when(flags != 0)?;
        Errno::EINVAL.when(!self.core.shares_transmits())?;
        Errno::EDOMAIN.when(!shared.entry_guard.is_of(self.domain()))?;
        self.bind_once(shared, |bindings| &mut bindings.stx)
    }

    /// Binds a completion queue for FI_TRANSMIT, FI_RECV or both.
    ///
    /// # Errors
    ///
    /// -FI_EBADFLAGS for neither, for a direction that the endpoint does not have, or for unknown bits;
    /// -FI_EINVAL if a direction has a queue already, -FI_EDOMAIN for another domain's queue, -FI_EOPBADSTATE
    /// once enabled.
    pub fn bind_cq(&self, queue: &Arc<CompletionQueue>, flags: u64) -> Result {
        let directions = self.core.directions();
        let unknown = flags & !(directions | flags::FI_SELECTIVE_COMPLETION);
        Errno::EBADFLAGS.when(flags & directions == 0 || unknown != 0)?;
        Errno::EDOMAIN.when(!queue.entry_guard.is_of(self.domain()))?;
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
        self.update_bindings(|bindings| {
            for (binding, new) in [(&bindings.tx_cq, &transmit), (&bindings.rx_cq, &receive)] {
                Errno::EINVAL.when(binding.is_some() && new.is_some())?;
            }
            bindings.tx_cq = transmit.or(bindings.tx_cq.take());
            bindings.rx_cq = receive.or(bindings.rx_cq.take());
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
        Errno::EBADFLAGS.when(flags == 0 || !flags::CNTR_BINDING.contains(flags))?;
        Errno::EOPNOTSUPP.when(flags & !self.core.countable() != 0)?;
        Errno::EDOMAIN.when(!counter.entry_guard.is_of(self.domain()))?;
        self.update_bindings(|bindings| bindings.counters.bind(counter, flags))
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
        let _scope = NoIo::enter();
        let mut state = self.state.lock();
        let EpState::Open(pending) = &*state else {
            return Ok(());
        };
        let core = &self.core;
        let own_eq = pending.eq.as_ref().map(ChildRef::arc);
        let eq = own_eq.or_else(|| self.domain.event_queue());
        match core.peers() {
            Peers::One => Errno::ENOEQ.when(eq.is_none())?,
            Peers::Any => Errno::ENOAV.when(self.context_slot.is_none() && pending.av.is_none())?,
        }
        Errno::ENORX.when(core.shares_receives() && pending.srx.is_none())?;
        Errno::EOPBADSTATE.when(core.shares_transmits() && pending.stx.is_none())?;
        for (cq, direction) in [
            (&pending.tx_cq, flags::FI_TRANSMIT),
            (&pending.rx_cq, flags::FI_RECV),
        ] {
            Errno::ENOCQ.when(cq.is_none() && core.directions() & direction != 0)?;
        }
        let links = pending
            .counters
            .link_queues(&pending.tx_cq, &pending.rx_cq)?;
        // The bindings stay in place until the provider has succeeded, so that a failed enable can be
        // retried.
        let bindings = Bindings {
            eq: eq.map(ChildRef::new).transpose()?,
            ..pending.try_clone()?
        };
        if let Some(slot) = &self.context_slot {
            slot.parent().enable()?;
        }
        let regions = RegionReservation::new(self.domain(), core.region_limits())?;
        let eq = eq.cloned();
        let av = bindings.av.as_ref().map(|av| av.arc().clone());
        let numbers = bindings.numbers();
        core.clone().enable(bindings)?;
        for (shown, number) in self.info.bound_numbers.iter().zip(numbers) {
            shown.store(number, Relaxed);
        }
        *state = EpState::Enabled {
            eq,
            av,
            _counter_links: links,
            _regions: regions,
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
            EpState::Enabled { av, .. } => av.clone().ok_or(Errno::ENOSYS),
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
        let reserve = |eq| ReservedEvent::new(eq, source, Kind::Complete(event));
        self.domain.event_queue().map(reserve).transpose()
    }

    /// `fi_connect()`: enables the endpoint if it is not enabled. May sleep.
    pub fn connect(&self, to: Option<SocketAddr>, private_data: &[u8]) -> Result {
        let _scope = NoIo::enter();
        self.enable_to_connect(private_data)?
            .connect(to, private_data)
    }

    /// `fi_accept()`: enables the endpoint if it is not enabled. May sleep.
    pub fn accept(&self, private_data: &[u8]) -> Result {
        let _scope = NoIo::enter();
        self.enable_to_connect(private_data)?.accept(private_data)
    }

    /// Enables the endpoint, if it can send that private data, and returns the provider's endpoint.
    fn enable_to_connect(&self, private_data: &[u8]) -> Result<Arc<dyn provider::Endpoint>> {
        Errno::EINVAL.when(private_data.len() > self.core.private_data_limit())?;
        self.enable()?;
        Ok(self.core.clone())
    }

    /// Closes the endpoint without an event. May sleep.
    ///
    /// When it returns the device does not touch posted memory any more, and the context of every operation
    /// whose completion no reader has taken has been passed to `reclaim`.
    pub fn close(&self, reclaim: &mut dyn FnMut(Context)) {
        let _scope = NoIo::enter();
        self.core.close(reclaim);
        self.entry.remove();
        let open = EpState::Open(Bindings::default());
        let state = mem::replace(&mut *self.state.lock(), open);
        if let EpState::Enabled { eq: Some(eq), .. } = &state {
            eq.drop_events(self.source);
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
