// SPDX-License-Identifier: GPL-2.0

//! Endpoints, as their consumers see them.

mod access;
mod atomic;
mod post;

pub(super) use atomic::most_elements;
pub(super) use post::LOOK_FLAGS;

use super::{
    buffers::Least,
    domain::Domain,
    offer,
    office::{
        Size,
        Stock, //
    },
    outlets::{
        Receives,
        Transmits, //
    },
    retiring::Left,
    srx::Srx,
    station::{
        Bound,
        Mover,
        Station, //
    },
    stx::Stx,
    sw_cq::{
        ProgressHandle,
        SwCq, //
    },
    traffic::{
        Floor,
        SENDS, //
    },
    wire::EAGER, //
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
        av::AddressVector,
        cntr::BoundCounters,
        prelude::*,
        provider::{
            self,
            Bindings,
            CqBinding,
            EpOption,
            Message,
            Operation,
            Peers, //
        },
        srx::SharedReceive,
        stx::SharedTransmit, //
    },
    util::context, //
};
use core::any::Any;

/// Where the operations of one direction complete.
struct Exit {
    queue: Arc<SwCq>,
    /// Successes complete only with FI_COMPLETION.
    is_selective: bool,
}

impl Exit {
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
struct Exits {
    transmit: Option<Exit>,
    receive: Option<Exit>,
}

impl Exits {
    fn queues(&self) -> impl Iterator<Item = &Arc<SwCq>> {
        let all = [&self.transmit, &self.receive];
        all.into_iter().flatten().map(|exit| &exit.queue)
    }
}

/// What is bound, kept open until the endpoint is closed.
struct Holds {
    _addresses: Option<ChildRef<AddressVector>>,
    _transmit: Option<CqBinding>,
    _receive: Option<CqBinding>,
    shared: Option<ChildRef<SharedReceive>>,
    packets: Option<ChildRef<SharedTransmit>>,
    /// Where a peer's transfers complete.
    transfers: Option<CqBinding>,
    /// For what it leaves.
    left: Left,
}

/// The context for a peer's transfers, beside the first.
const TRANSFERS: u8 = 1;

/// What an endpoint is to its station.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// All that there is.
    Whole,
    /// One of the contexts that send.
    Transmits,
    /// One of those that receive.
    Receives,
}

impl Role {
    /// Returns whether contexts of this role send.
    pub(super) fn sends(self) -> bool {
        self != Self::Receives
    }

    /// Whether it receives.
    pub(super) fn receives(self) -> bool {
        self != Self::Transmits
    }
}

/// An endpoint.
#[pin_data]
pub(crate) struct Endpoint {
    station: Arc<Station>,
    /// Moves the station's packets.
    mover: Arc<ProgressHandle>,
    role: Role,
    /// Which context of the station's it is, of those that send or of those that receive.
    context: u8,
    size: Size,
    /// Most bytes of a message that is injected.
    inject: usize,
    /// And of any.
    most: usize,
    is_directed: bool,
    has_rma: bool,
    has_atomics: bool,
    /// Bytes of the data that a write may bring.
    written_data_size: usize,
    tells_sources: bool,
    tells_strangers: bool,
    /// Whether its messages take receives that it shares with others: it has none of its own.
    shares_receives: bool,
    /// Whether it sends with packets that it shares with others: it has none of its own.
    shares_transmits: bool,
    /// Whether receives may take several messages.
    takes_several: bool,
    /// When less than that is left, they take no more.
    least: Least,
    /// What addresses look like, where none is given to listen at.
    format: u32,
    exits: SetOnce<Exits>,
    /// Where a peer's transfers complete.
    transfers: SetOnce<Exit>,
    #[pin]
    holds: Mutex<Option<Holds>>,
}

impl Endpoint {
    /// Makes an endpoint. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for an info that is not of `domain`, or more than is offered; -FI_ENOMEM.
    pub(super) fn new(domain: Arc<Domain>, info: &Info) -> Result<Arc<Self>> {
        if offer::contexts(info) != Some([1, 1]) {
            return Err(Errno::EINVAL);
        }
        let size = Size::of(info)?;
        let contexts = 1 + usize::from(offer::is_collective(info));
        let station = Station::new(domain, info, [contexts; 2], size)?;
        if contexts > 1 {
            let stock = Stock::new(TRANSFERS, size)?;
            let mut floor = station.traffic.lock();
            floor.offices.of_mut(TRANSFERS).supply(stock);
        }
        let mover = Mover::of(&station)?;
        Self::part((station, mover), (Role::Whole, 0), info, size)
    }

    /// Makes a part of a station, which the mover is of, and which has parts of that size. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn part(
        (station, mover): (Arc<Station>, Arc<ProgressHandle>),
        (role, context): (Role, u8),
        info: &Info,
        size: Size,
    ) -> Result<Arc<Self>> {
        let office = |floor: &Floor| floor.offices.of(context).is_supplied();
        if role.receives() && !office(&station.traffic.lock()) {
            let stock = Stock::new(context, size)?;
            let mut floor = station.traffic.lock();
            floor.offices.of_mut(context).supply(stock);
        }
        let lower = station.domain.lower_info();
        let most = offer::most(lower);
        let written_data_size = lower.domain().map_or(0, |domain| domain.cq_data_size);
        Ok(Arc::pin_init(
            pin_init!(Self {
                mover,
                station,
                role,
                context,
                size,
                most,
                inject: info.tx().map_or(0, |tx| tx.inject_size).min(EAGER),
                is_directed: info.caps() & FI_DIRECTED_RECV != 0,
                has_rma: info.caps() & FI_RMA != 0,
                has_atomics: info.caps() & FI_ATOMIC != 0 && role.sends(),
                written_data_size,
                tells_sources: info.caps() & (FI_SOURCE | FI_SOURCE_ERR) != 0,
                tells_strangers: info.caps() & FI_SOURCE_ERR != 0,
                shares_receives: offer::uses_shared_rx(info),
                shares_transmits: offer::shares_transmits(info),
                takes_several: info.caps() & FI_MULTI_RECV != 0,
                least: Least::new(),
                format: info.addr_format(),
                exits: SetOnce::new(),
                transfers: SetOnce::new(),
                holds <- new_mutex!(None, "kofi::rdm::Endpoint"),
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
        let exit = |side: &Option<CqBinding>| side.as_ref().map(Exit::of).transpose();
        let exits = Exits {
            transmit: exit(&transmit)?,
            receive: exit(&receive)?,
        };
        // A context has the addresses of its station, which has begun.
        let known = match &addresses {
            Some(addresses) => addresses.arc().clone(),
            None => self.station.bound()?.addresses.clone(),
        };
        let most_left = match self.role {
            // What that leaves is told where it is.
            Role::Whole => 0,
            Role::Transmits => SENDS,
            Role::Receives => self.size.receives,
        };
        let holds = Holds {
            left: Left::new(most_left)?,
            _addresses: addresses,
            _transmit: transmit,
            _receive: receive,
            shared,
            packets,
            transfers: None,
        };
        self.attach(&exits, &known, counters)?;
        if self.role == Role::Whole {
            let begun = self
                .share(holds.packets.as_ref(), holds.shared.as_ref())
                .and_then(|()| self.station.begin(here, &known, self.format));
            begun.inspect_err(|_| self.detach(&exits))?;
        }
        *self.holds.lock() = Some(holds);
        // It has not been enabled before.
        let _ = self.exits.populate(exits);
        Ok(())
    }

    /// Has it send with packets that it shares with others, and its messages take such receives, if they do.
    fn share(
        &self,
        packets: Option<&ChildRef<SharedTransmit>>,
        shared: Option<&ChildRef<SharedReceive>>,
    ) -> Result {
        if let Some(packets) = packets {
            let packets = packets.core().clone().into_any().downcast::<Stx>();
            self.station.send_with(packets.map_err(|_| Errno::EINVAL)?);
        }
        let Some(shared) = shared else {
            return Ok(());
        };
        let shared = shared.core().clone().into_any().downcast::<Srx>();
        self.station.join(&shared.map_err(|_| Errno::EINVAL)?)
    }

    /// Has what comes of its operations told there.
    fn attach(
        &self,
        exits: &Exits,
        addresses: &Arc<AddressVector>,
        counters: BoundCounters,
    ) -> Result {
        let transmits = match &exits.transmit {
            Some(exit) => Some(Transmits::new(&exit.queue, counters.try_clone()?)?),
            None => None,
        };
        let receives = exits.receive.as_ref().map(|exit| Receives {
            queue: exit.queue.clone(),
            counters,
            tells_all: !exit.is_selective,
            sources: self.tells_sources.then(|| addresses.clone()),
            tells_strangers: self.tells_strangers,
        });
        for (admitted, queue) in exits.queues().enumerate() {
            queue.attach_source(&self.mover).inspect_err(|_| {
                for queue in exits.queues().take(admitted) {
                    queue.detach_source(&self.mover);
                }
            })?;
        }
        let mut floor = self.station.traffic.lock();
        if transmits.is_some() {
            *floor.outlets.transmits.of_mut(self.context) = transmits;
        }
        if receives.is_some() {
            *floor.outlets.receives.of_mut(self.context) = receives;
        }
        Ok(())
    }

    /// Has it told nowhere.
    fn detach(&self, exits: &Exits) {
        self.station.leave();
        for queue in exits.queues() {
            queue.detach_source(&self.mover);
        }
        let mut floor = self.station.traffic.lock();
        floor.sends.wake_refused();
        let outlets = floor.outlets.take(self.role, self.context);
        drop(floor);
        drop(outlets);
    }

    /// By what a peer's transfers complete, and the context of those.
    ///
    /// # Errors
    ///
    /// -FI_EBADFLAGS where there are none.
    #[cold]
    fn transfers(&self) -> Result<(&Exit, u8)> {
        let exit = self.transfers.as_ref().ok_or(Errno::EBADFLAGS)?;
        Ok((exit, TRANSFERS))
    }

    /// By what it sends; -FI_EOPBADSTATE before it is enabled, -FI_ENOSYS of a context that receives.
    #[inline]
    fn outward(&self) -> Result<(&Exit, &Bound)> {
        let exit = self
            .exits
            .as_ref()
            .and_then(|exits| exits.transmit.as_ref());
        match (exit, self.station.bound()) {
            (Some(exit), Ok(bound)) => Ok((exit, bound)),
            _ => Err(absent(self.role.sends())),
        }
    }

    /// The same for receives of its own; -FI_ENOSYS of one that shares them, too.
    #[inline]
    fn inward(&self) -> Result<(&Exit, &Bound)> {
        let exit = self.exits.as_ref().and_then(|exits| exits.receive.as_ref());
        match (exit, self.station.bound()) {
            (Some(exit), Ok(bound)) if !self.shares_receives => Ok((exit, bound)),
            _ => Err(absent(self.role.receives() && !self.shares_receives)),
        }
    }

    /// Tells what it has done.
    fn tell_counts(&self, out: &mut ObjectInfo<'_>) {
        let floor = self.station.traffic.lock();
        if self.role.sends() {
            floor.outlets.sent.of(self.context).report(out);
        }
        if self.role.receives() {
            let left = floor.offices.of(self.context).receives_left();
            let waiting = self.size.receives.saturating_sub(left);
            floor.outlets.taken.of(self.context).report(waiting, out);
        }
    }
}

/// Why there is nothing in a direction that it has, or has not.
#[cold]
fn absent(has: bool) -> Errno {
    match has {
        true => Errno::EOPBADSTATE,
        false => Errno::ENOSYS,
    }
}

impl provider::Endpoint for Endpoint {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn directions(&self) -> u64 {
        match self.role {
            Role::Whole => FI_TRANSMIT | FI_RECV,
            Role::Transmits => FI_TRANSMIT,
            Role::Receives => FI_RECV,
        }
    }

    fn peers(&self) -> Peers {
        Peers::Any
    }

    fn countable(&self) -> u64 {
        match self.role {
            Role::Whole => FI_SEND | FI_RECV | FI_READ | FI_WRITE,
            Role::Transmits => FI_SEND | FI_READ | FI_WRITE,
            Role::Receives => FI_RECV,
        }
    }

    fn shares_receives(&self) -> bool {
        self.shares_receives
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
        match self.role {
            Role::Whole => self.station.set_name(addr),
            _ => provider::not_implemented(),
        }
    }

    fn name(&self) -> Result<SocketAddr> {
        self.station.name()
    }

    fn peer(&self) -> Result<SocketAddr> {
        provider::not_implemented()
    }

    fn private_data_limit(&self) -> usize {
        0
    }

    fn receives_left(&self) -> Result<usize> {
        self.inward()?;
        let traffic = self.station.traffic.lock();
        Ok(traffic.offices.of(self.context).receives_left())
    }

    fn transmits_left(&self) -> Result<usize> {
        self.outward()?;
        Ok(self.station.traffic.lock().sends_left())
    }

    fn transmit(&self, operation: Operation<'_>, message: &Message<'_>) -> Result {
        match operation {
            Operation::Send => self.send(message),
            Operation::Rma(way, remote) => self.access(way, remote, message),
        }
    }

    fn atomic(&self, atomic: &Atomic<'_>, message: &Message<'_>) -> Result {
        self.ask(atomic, message)
    }

    fn max_atomic_elements(&self, form: Form, _op: Op, datatype: Datatype) -> Result<usize> {
        match self.has_atomics {
            true => Ok(most_elements(form, datatype)),
            false => provider::not_implemented(),
        }
    }

    fn bind_transfer_cq(&self, queue: ChildRef<fi::cq::CompletionQueue>) -> Result {
        if self.role != Role::Whole || self.station.traffic.lock().offices.len() < 2 {
            return provider::not_implemented();
        }
        let bound = self.station.bound()?;
        let mut holds = self.holds.lock();
        let Some(holds) = &mut *holds else {
            return Err(Errno::EOPBADSTATE);
        };
        if holds.transfers.is_some() {
            return Err(Errno::EALREADY);
        }
        let side = CqBinding {
            queue,
            selective: false,
        };
        let exit = Exit::of(&side)?;
        let transmits = Transmits::new(&exit.queue, BoundCounters::default())?;
        let receives = Receives {
            queue: exit.queue.clone(),
            counters: BoundCounters::default(),
            tells_all: true,
            sources: Some(bound.addresses.clone()),
            tells_strangers: false,
        };
        exit.queue.attach_source(&self.mover)?;
        self.station.with_outlets(|outlets| {
            *outlets.transmits.of_mut(TRANSFERS) = Some(transmits);
            *outlets.receives.of_mut(TRANSFERS) = Some(receives);
        });
        holds.transfers = Some(side);
        let is_awaited = exit.queue.has_waiter();
        // It has not carried any before.
        let _ = self.transfers.populate(exit);
        if is_awaited {
            self.station.expect();
        }
        Ok(())
    }

    fn getopt(&self, setting: EpOption) -> Result<usize> {
        match (setting, self.role) {
            (EpOption::MinMultiRecv, Role::Transmits) => Err(Errno::ENOPROTOOPT),
            (EpOption::MinMultiRecv, _) => Ok(self.least.get()),
            (_, Role::Whole) => self.station.setting(setting),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    fn setopt(&self, setting: EpOption, value: usize) -> Result {
        match (setting, self.role) {
            (EpOption::MinMultiRecv, Role::Transmits) => Err(Errno::ENOPROTOOPT),
            (EpOption::MinMultiRecv, _) => self.least.set(value),
            (_, Role::Whole) => self.station.set(setting, value),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    fn receive(&self, message: &Message<'_>) -> Result {
        self.post(message)
    }

    fn cancel(&self, context: Context) -> Result {
        if self.shares_receives {
            return Err(Errno::EOPNOTSUPP);
        }
        self.inward()?;
        let cancel = |at| {
            self.station
                .with(|traffic, outlets| traffic.cancel(outlets, at, context))
        };
        match (cancel(self.context), self.transfers()) {
            (Err(Errno::ENOENT), Ok((_, at))) => cancel(at),
            (outcome, _) => outcome,
        }
    }

    fn fill_info(&self, out: &mut ObjectInfo<'_>) {
        out.set_state(match self.exits.as_ref() {
            Some(_) => KOFI_STATE_ENABLED,
            None => KOFI_STATE_OPEN,
        });
        if self.role.sends() && !self.shares_transmits {
            out.add_value(KOFI_VALUE_TX_SIZE, SENDS as u64);
        }
        if self.role.receives() && !self.shares_receives {
            out.add_value(KOFI_VALUE_RX_SIZE, self.size.receives as u64);
        }
        self.tell_counts(out);
        match self.role {
            Role::Whole => self.station.tell(out),
            _ => out.add_value(KOFI_VALUE_INDEX, self.context.into()),
        }
    }

    fn close(&self, reclaim: &mut dyn FnMut(Context)) {
        let holds = self.holds.lock().take();
        let (Some(mut holds), Some(exits)) = (holds, self.exits.as_ref()) else {
            return;
        };
        let transfers = self.transfers.as_ref().map(|exit| &exit.queue);
        for queue in Iterator::chain(exits.queues(), transfers) {
            queue.detach_source(&self.mover);
        }
        if self.role == Role::Whole {
            self.station.end(reclaim);
            return;
        }
        let Ok(bound) = self.station.bound() else {
            return;
        };
        let left = &mut holds.left;
        self.station.retire(bound, (self.role, self.context), left);
        for queue in exits.queues() {
            queue.release_many(left.rooms());
        }
        for &context in left.contexts() {
            reclaim(context);
        }
    }
}
