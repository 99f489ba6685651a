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
        ObjectEntry,
        ObjectInfo, //
    },
    memory::Context,
    object::ChildRef,
    provider::{
        self,
        Bindings,
        Peers,
        Side, //
    },
    sep::ContextSlot,
    srx::{
        self,
        SharedReceive, //
    },
    stx::{
        self,
        SharedTransmit, //
    },
};
use crate::abi::{
    flags,
    info::Info,
    Errno,
    Result,
    KOFI_OBJECT_EP,
    KOFI_VALUE_EQ,
    KOFI_VALUE_RX_CQ,
    KOFI_VALUE_SRX,
    KOFI_VALUE_STX,
    KOFI_VALUE_TX_CQ, //
};
use core::net::SocketAddr;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        static_lock_class,
        Arc,
        Mutex, //
    },
};

/// The bindings of an endpoint that is not enabled yet.
#[derive(Default)]
struct PendingBindings {
    addresses: Option<ChildRef<AddressVector>>,
    events: Option<ChildRef<EventQueue>>,
    shared: Option<ChildRef<SharedReceive>>,
    packets: Option<ChildRef<SharedTransmit>>,
    transmit: Option<Side>,
    receive: Option<Side>,
    counters: BoundCounters,
}

/// The state of an endpoint.
enum EpState {
    Open(PendingBindings),
    /// Enabled; the provider holds the bindings.
    Enabled {
        events: Option<Arc<EventQueue>>,
        /// Address vector of the peers.
        addresses: Option<Arc<AddressVector>>,
        _feeds: QueueLinks,
    },
}

/// An active endpoint. The mutex guards the state; `fi_enable()` runs under it, the data path and the
/// connection calls do not take it.
#[pin_data(PinnedDrop)]
pub struct Endpoint {
    core: Arc<dyn provider::Endpoint>,
    #[pin]
    stage: Mutex<EpState>,
    source: Source,
    shown: Arc<EpInfo>,
    card: ObjectEntry,
    domain: ChildRef<Domain>,
    /// Context slot in a scalable endpoint, for a context. Dropped last, so that the slot is free only after
    /// everything else is gone.
    seat: Option<ContextSlot>,
}

/// The introspection source of an endpoint.
struct EpInfo {
    core: Arc<dyn provider::Endpoint>,
    /// Object numbers of the transmit CQ, receive CQ, EQ, shared receive context and shared transmit context;
    /// 0 for none, and before the endpoint is enabled.
    queues: [Atomic<u64>; 5],
}

impl Introspect for EpInfo {
    fn tell(&self, told: &mut ObjectInfo<'_>) {
        let what = [
            KOFI_VALUE_TX_CQ,
            KOFI_VALUE_RX_CQ,
            KOFI_VALUE_EQ,
            KOFI_VALUE_SRX,
            KOFI_VALUE_STX,
        ];
        for (what, queue) in what.into_iter().zip(&self.queues) {
            match queue.load(Relaxed) {
                0 => {}
                number => told.value(what, number),
            }
        }
        self.core.tell(told);
    }
}

impl Endpoint {
    pub(super) fn new(domain: ChildRef<Domain>, info: &Info, source: Source) -> Result<Arc<Self>> {
        let core = domain.core().clone().endpoint(info, source)?;
        Self::around(core, domain, None, KOFI_OBJECT_EP, source)
    }

    /// Returns the endpoint of a context of a scalable endpoint, as an object of `kind`.
    pub(super) fn of_context(
        core: Arc<dyn provider::Endpoint>,
        domain: ChildRef<Domain>,
        seat: ContextSlot,
        kind: u32,
        source: Source,
    ) -> Result<Arc<Self>> {
        Self::around(core, domain, Some(seat), kind, source)
    }

    fn around(
        core: Arc<dyn provider::Endpoint>,
        domain: ChildRef<Domain>,
        seat: Option<ContextSlot>,
        kind: u32,
        source: Source,
    ) -> Result<Arc<Self>> {
        let made = Self::of_core(&core, domain, seat, kind, source);
        if made.is_err() {
            core.close(&mut |_| {});
        }
        made
    }

    fn of_core(
        core: &Arc<dyn provider::Endpoint>,
        domain: ChildRef<Domain>,
        seat: Option<ContextSlot>,
        kind: u32,
        source: Source,
    ) -> Result<Arc<Self>> {
        let shown = EpInfo {
            core: core.clone(),
            queues: [const { Atomic::new(0) }; 5],
        };
        let shown = Arc::new(shown, GFP_KERNEL)?;
        // An endpoint with any number of peers enables lower endpoints, which have one peer, under its own
        // lock.
        let class = match core.peers() {
            Peers::One => static_lock_class!(),
            Peers::Any => static_lock_class!(),
        };
        let parent = match &seat {
            Some(seat) => seat.parent().card(),
            None => domain.card(),
        };
        let card = parent.child(kind, c"", Some(shown.clone()))?;
        Ok(Arc::pin_init(
            pin_init!(Self {
                core: core.clone(),
                stage <- Mutex::new(
                    EpState::Open(PendingBindings::default()),
                    c"kofi::ep::Endpoint",
                    class,
                ),
                source,
                shown,
                card,
                domain,
                seat,
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

    fn plan<R>(&self, change: impl FnOnce(&mut PendingBindings) -> Result<R>) -> Result<R> {
        match &mut *self.stage.lock() {
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
    pub fn bind_events(&self, queue: &Arc<EventQueue>, flags: u64) -> Result {
        if flags != 0 {
            return Err(Errno::EBADFLAGS);
        }
        if self.seat.is_some() || !queue.is_of(self.domain.fabric()) {
            return Err(Errno::EINVAL);
        }
        let held = ChildRef::new(queue)?;
        self.plan(|plan| match plan.events {
            Some(_) => Err(Errno::EINVAL),
            None => {
                plan.events = Some(held);
                Ok(())
            }
        })
    }

    /// Binds the address vector of the peers.
    ///
    /// # Errors
    ///
    /// -FI_EBADFLAGS for any flag; -FI_EINVAL if a vector is bound, for a connected endpoint, and for a
    /// context, which uses its scalable endpoint's; -FI_EDOMAIN for another domain's vector; -FI_EOPBADSTATE
    /// once enabled.
    pub fn bind_addresses(&self, vector: &Arc<AddressVector>, flags: u64) -> Result {
        if flags != 0 {
            return Err(Errno::EBADFLAGS);
        }
        if self.core.peers() == Peers::One || self.seat.is_some() {
            return Err(Errno::EINVAL);
        }
        if !vector.is_of(self.domain.arc()) {
            return Err(Errno::EDOMAIN);
        }
        let held = ChildRef::new(vector)?;
        self.plan(|plan| match plan.addresses {
            Some(_) => Err(Errno::EINVAL),
            None => {
                plan.addresses = Some(held);
                Ok(())
            }
        })
    }

    /// Binds a shared receive context.
    ///
    /// # Errors
    ///
    /// -FI_EBADFLAGS for any flag; -FI_EINVAL if one is bound, if `shared` is closed, and for an endpoint
    /// that was not opened with FI_SHARED_CONTEXT for receives; -FI_EDOMAIN for another domain's;
    /// -FI_EOPBADSTATE once enabled.
    pub fn bind_receives(&self, shared: &Arc<SharedReceive>, flags: u64) -> Result {
        if flags != 0 {
            return Err(Errno::EBADFLAGS);
        }
        if !self.core.shares_receives() {
            return Err(Errno::EINVAL);
        }
        let held = srx::hold(shared, self.domain.arc())?;
        self.plan(|plan| match plan.shared {
            Some(_) => Err(Errno::EINVAL),
            None => {
                plan.shared = Some(held);
                Ok(())
            }
        })
    }

    /// Binds a shared transmit context.
    ///
    /// # Errors
    ///
    /// As [`Self::bind_srx`].
    pub fn bind_transmits(&self, shared: &Arc<SharedTransmit>, flags: u64) -> Result {
        if flags != 0 {
            return Err(Errno::EBADFLAGS);
        }
        if !self.core.shares_transmits() {
            return Err(Errno::EINVAL);
        }
        let held = stx::hold(shared, self.domain.arc())?;
        self.plan(|plan| match plan.packets {
            Some(_) => Err(Errno::EINVAL),
            None => {
                plan.packets = Some(held);
                Ok(())
            }
        })
    }

    /// Binds a completion queue for FI_TRANSMIT, FI_RECV or both.
    ///
    /// # Errors
    ///
    /// -FI_EBADFLAGS for neither, for a direction that the endpoint does not have, or for unknown bits;
    /// -FI_EINVAL if a direction has a queue already, -FI_EDOMAIN for another domain's queue, -FI_EOPBADSTATE
    /// once enabled.
    pub fn bind_completions(&self, queue: &Arc<CompletionQueue>, flags: u64) -> Result {
        let places = self.core.directions();
        if flags & places == 0 || flags & !(places | flags::FI_SELECTIVE_COMPLETION) != 0 {
            return Err(Errno::EBADFLAGS);
        }
        if !queue.is_of(self.domain.arc()) {
            return Err(Errno::EDOMAIN);
        }
        let selective = flags & flags::FI_SELECTIVE_COMPLETION != 0;
        let bound = |wanted: u64| -> Result<Option<Side>> {
            if flags & wanted == 0 {
                return Ok(None);
            }
            let queue = ChildRef::new(queue)?;
            Ok(Some(Side { queue, selective }))
        };
        let transmit = bound(flags::FI_TRANSMIT)?;
        let receive = bound(flags::FI_RECV)?;
        self.plan(|plan| {
            let taken = (transmit.is_some() && plan.transmit.is_some())
                || (receive.is_some() && plan.receive.is_some());
            if taken {
                return Err(Errno::EINVAL);
            }
            plan.transmit = transmit.or(plan.transmit.take());
            plan.receive = receive.or(plan.receive.take());
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
        if flags == 0 || !flags::CNTR_BINDING.covers(flags) {
            return Err(Errno::EBADFLAGS);
        }
        if flags & !self.core.countable() != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        if !counter.is_of(self.domain.arc()) {
            return Err(Errno::EDOMAIN);
        }
        self.plan(|plan| plan.counters.bind(counter, flags))
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
        let mut stage = self.stage.lock();
        let plan = match &mut *stage {
            EpState::Open(plan) => plan,
            EpState::Enabled { .. } => return Ok(()),
        };
        let own = plan.events.as_ref().map(ChildRef::arc);
        let events = own.or_else(|| self.domain.events());
        match self.core.peers() {
            Peers::One if events.is_none() => return Err(Errno::ENOEQ),
            Peers::Any if self.seat.is_none() && plan.addresses.is_none() => {
                return Err(Errno::ENOAV)
            }
            _ => {}
        }
        if self.core.shares_receives() && plan.shared.is_none() {
            return Err(Errno::ENORX);
        }
        if self.core.shares_transmits() && plan.packets.is_none() {
            return Err(Errno::EOPBADSTATE);
        }
        let sides = [&plan.transmit, &plan.receive];
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
        let feeds = plan.counters.feed(
            transmit.map(|side| side.queue.arc()),
            receive.map(|side| side.queue.arc()),
        )?;
        let addresses = plan.addresses.as_ref();
        let shared = plan.shared.as_ref();
        let packets = plan.packets.as_ref();
        // The bindings stay in place until the provider has succeeded, so that a failed enable can be
        // retried.
        let bindings = Bindings {
            events: events.map(ChildRef::new).transpose()?,
            addresses: addresses
                .map(|held| ChildRef::new(held.arc()))
                .transpose()?,
            shared: shared.map(|held| ChildRef::new(held.arc())).transpose()?,
            packets: packets.map(|held| ChildRef::new(held.arc())).transpose()?,
            transmit: transmit.map(Side::again).transpose()?,
            receive: receive.map(Side::again).transpose()?,
            counters: plan.counters.again()?,
        };
        if let Some(seat) = &self.seat {
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
        for (shown, number) in self.shown.queues.iter().zip(numbers) {
            shown.store(number, Relaxed);
        }
        *stage = EpState::Enabled {
            events,
            addresses,
            _feeds: feeds,
        };
        Ok(())
    }

    /// Returns the address vector of the peers.
    ///
    /// # Errors
    ///
    /// -FI_EOPBADSTATE before the endpoint is enabled, -FI_ENOSYS for a connected endpoint or a context.
    pub(crate) fn addresses(&self) -> Result<Arc<AddressVector>> {
        match &*self.stage.lock() {
            EpState::Open(_) => Err(Errno::EOPBADSTATE),
            EpState::Enabled { addresses, .. } => addresses.clone().ok_or(Errno::ENOSYS),
        }
    }

    /// Binds the completion queue of operations with FI_PEER_TRANSFER, until the endpoint closes. May sleep.
    ///
    /// # Errors
    ///
    /// As [`provider::Endpoint::bind_transfer_cq`]; -FI_EINVAL if the queue is closed.
    pub(crate) fn carry(&self, queue: &Arc<CompletionQueue>) -> Result {
        self.core.carry(ChildRef::new(queue)?)
    }

    /// Reserves a completion event for `source` in the domain's event queue; `None` if the domain has none.
    /// May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn notice(&self, source: Source, event: u32) -> Result<Option<ReservedEvent>> {
        let queue = self.domain.events();
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
        self.card.withdraw();
        let stage = core::mem::replace(
            &mut *self.stage.lock(),
            EpState::Open(PendingBindings::default()),
        );
        if let EpState::Enabled {
            events: Some(events),
            ..
        } = &stage
        {
            events.forget(self.source);
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
