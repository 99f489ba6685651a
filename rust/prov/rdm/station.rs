// SPDX-License-Identifier: GPL-2.0

//! What an endpoint and its connections have in common: the objects below it, and who moves packets.
//!
//! Completions of the lower endpoints are handled by whoever comes: a reader of the consumer's queue
//! who finds nothing, in any context, or the queue's handler, a work item that is called for the next
//! completion when there were none. So nothing waits for a consumer to read. They are taken and handled
//! under the lock of the traffic, a batch at a time, and so in order.
//!
//! While readers come again and again the handler is not called for each completion, which would cost
//! more than all the rest of a short message: it looks in every [`PACE`], until nobody has come meanwhile.

use super::{
    super::common::mr_table::EpRights,
    below::{
        ProtectionDomain,
        Route, //
    },
    domain::Domain,
    limits::Limits,
    links::Links,
    offer,
    office::Size,
    outlets::Outlets,
    sw_cq::{
        DetachGuard,
        ProgressHandle,
        ProgressSource, //
    },
    traffic::{
        Batch,
        Floor,
        Traffic,
        FLIGHTS, //
    },
};
use crate::{
    fi::{
        av::AddressVector,
        cq::{
            CompletionQueue,
            FormatEntry,
            TaskHandler, //
        },
        eq::{
            EventQueue,
            OwnedEvent, //
        },
        introspect::EndpointAddrs,
        prelude::*,
        rundown::Rundown,
        timer::{
            ArmedTimer,
            Timer, //
        },
        wait::Budget, //
    },
    util::once::{
        load_acquire,
        write_once,
        OnceBox, //
    },
};

/// How many batches a reader handles before it looks at its own queue again.
const READER_BUDGET: usize = 4;

/// How many the handler does before others on its workqueue have their turn.
const HANDLER_BUDGET: usize = 16;

/// How long completions may wait when their reader has gone.
const PACE: Delta = Delta::from_millis(1);

/// What there is from when the endpoint is enabled.
pub(super) struct Bound {
    /// Where the consumer's addresses stand.
    pub(super) addresses: Arc<AddressVector>,
    /// Whom there is a number for; two for each: for the connection with it, and for the one with itself
    /// that it accepts.
    pub(super) ways: Arc<AddressVector>,
    /// Where the lower endpoints' operations complete.
    pub(super) queue: Arc<CompletionQueue>,
    /// And their connections are told of.
    pub(super) events: Arc<EventQueue>,
    /// The same of those by which peers on the same host are reached.
    pub(super) local: Option<Local>,
    /// Has the handler called that handles completions.
    pub(super) alarm: Arc<Timer<CompletionQueue>>,
    /// And the one that looks after connections.
    pub(super) clock: Arc<Timer<EventQueue>>,
}

/// What there is where peers on the same host are reached.
pub(super) struct Local {
    /// From the first connection on: what completes there is put into the other queue.
    pub(super) queue: OnceBox<Arc<CompletionQueue>>,
    pub(super) events: Arc<EventQueue>,
}

/// See the module.
#[pin_data]
pub(super) struct Station {
    pub(super) domain: Arc<Domain>,
    /// Protection domain of the connections and of the memory registered for them.
    pub(super) protection: Arc<ProtectionDomain>,
    /// Access to registered memory that peers have.
    pub(super) rights: EpRights,
    #[pin]
    pub(super) traffic: FastLockIrq<Floor>,
    pub(super) bound: OnceBox<Bound>,
    #[pin]
    pub(super) links: Mutex<KBox<Links>>,
    /// What the consumer may set of them.
    pub(super) limits: Limits,
    /// Whether peers on the same host are reached without what is between hosts.
    pub(super) is_local: bool,
    /// Its address, for those who only look.
    #[pin]
    pub(super) ends: EndpointAddrs,
    /// Whoever looks after connections is inside.
    #[pin]
    pub(super) gate: Rundown,
    /// A reader has come since the handler was here.
    is_read: Atomic<u32>,
    /// The handler is called for the next completion.
    is_armed: Atomic<u32>,
    /// When it is called otherwise.
    #[pin]
    watch: Mutex<Option<ArmedTimer<CompletionQueue>>>,
}

impl Bound {
    /// The next event of a connection, if there is one, and which way that goes.
    pub(super) fn event(&self, here: ProcessContext) -> Option<(Route, OwnedEvent)> {
        let next = |events: &EventQueue| events.next(here, &mut Budget::from_millis(0)).ok();
        let local = || Some((Route::Host, next(&self.local.as_ref()?.events)?));
        let wire = next(&self.events).map(|event| (Route::Wire, event));
        wire.or_else(local)
    }

    /// Has somebody look after connections soon. Any context.
    pub(super) fn kick(&self) {
        self.events.schedule_handler();
    }
}

impl Station {
    /// For what an info describes, with so many contexts that send, and that receive; the latter of that
    /// size each. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for an info that is not of `domain`, or more than is offered; -FI_ENOMEM.
    pub(super) fn new(
        domain: Arc<Domain>,
        info: &Info,
        [transmits, receives]: [usize; 2],
        size: Size,
    ) -> Result<Arc<Self>> {
        offer::check(info)?;
        if info.domain_name() != domain.lower_info().domain_name() {
            return Err(Errno::EINVAL);
        }
        let (local, _) = info.addresses()?;
        let links = KBox::new(Links::new(local, domain.lower_info(), receives), GFP_KERNEL)?;
        let name = domain.fabric().provider_name();
        let rights = EpRights::from_caps(info.caps());
        let protection = domain.protection_domain(rights)?.clone();
        let regions = (domain.regions().clone(), rights);
        let traffic = Traffic::new(receives, size, regions, name)?;
        let is_local = offer::is_local(info) && protection.has_host();
        let hears_writes = rights.has_rma_write();
        let outlets = Outlets::new(transmits, receives, hears_writes)?;
        let floor = Floor::new(traffic, outlets);
        Self::assemble((domain, protection), rights, floor, links, is_local)
    }

    /// Assembles the object from its parts.
    #[inline(never)]
    fn assemble(
        (domain, protection): (Arc<Domain>, Arc<ProtectionDomain>),
        rights: EpRights,
        floor: impl Init<Floor>,
        links: KBox<Links>,
        is_local: bool,
    ) -> Result<Arc<Self>> {
        Ok(Arc::pin_init(
            pin_init!(Self {
                domain,
                protection,
                rights,
                traffic <- FastLockIrq::new(
                    floor,
                    c"kofi::rdm::Traffic",
                    static_lock_class!()
                ),
                bound: OnceBox::new(),
                ends <- EndpointAddrs::new(links.local, None),
                links <- new_mutex!(links, "kofi::rdm::Links"),
                limits: Limits::new(),
                is_local,
                gate <- Rundown::new(),
                is_read: Atomic::new(0),
                is_armed: Atomic::new(0),
                watch <- new_mutex!(None, "kofi::rdm::Station::watch"),
            }),
            GFP_KERNEL,
        )?)
    }

    /// What is bound; -FI_EOPBADSTATE before the endpoint is enabled. Any context.
    #[inline]
    pub(super) fn bound(&self) -> Result<&Bound> {
        self.bound.get().ok_or(Errno::EOPBADSTATE)
    }

    /// Does something with what is under way, of which consumers may be told. Any context.
    pub(super) fn with<R>(&self, act: impl FnOnce(&mut Traffic, &Outlets) -> R) -> R {
        let mut floor = self.traffic.lock();
        let (traffic, outlets) = floor.parts();
        act(traffic, outlets)
    }

    /// Changes where is told what comes of operations.
    pub(super) fn with_outlets(&self, change: impl FnOnce(&mut Outlets)) {
        change(&mut self.traffic.lock().outlets);
    }

    /// Handles completions, at most so many batches; `arms` has the handler called for what comes when
    /// there are no more. False if nothing has come of it. Any context.
    fn drain(&self, arms: bool, budget: usize) -> bool {
        let Some(bound) = self.bound.get() else {
            return false;
        };
        let mut has_come = false;
        for _ in 0..budget {
            let taken = self.take(bound, arms);
            has_come |= taken.has_come;
            if taken.is_all {
                return has_come;
            }
        }
        if arms {
            bound.queue.schedule_handler();
        }
        has_come
    }

    /// Hands over what waits for no more than room to tell of it. Any context.
    pub(super) fn deliver(&self, bound: &Bound) {
        let is_calling = loop {
            let mut floor = self.traffic.lock();
            let (traffic, outlets) = floor.parts();
            if traffic.deliver(outlets) {
                continue;
            }
            if traffic.is_holding() {
                traffic.resume(outlets, None);
            }
            break traffic.is_calling();
        };
        if is_calling {
            bound.kick();
        }
    }

    /// Handles a batch, and has the handler called for the next completion if there was none and it `arms`.
    fn take(&self, bound: &Bound, arms: bool) -> Batch {
        let mut floor = self.traffic.lock();
        let (traffic, outlets) = floor.parts();
        if arms {
            // Before it is: whoever is called for a completion says that it is not any more.
            write_once(&self.is_armed, 1);
        }
        let Batch { has_come, is_all } = traffic.take(outlets, &bound.queue, arms);
        let is_calling = traffic.is_calling();
        // Its reader may have made room.
        let awaits_reader = traffic.awaits_reader();
        drop(floor);
        if is_calling {
            bound.kick();
        }
        if awaits_reader {
            self.deliver(bound);
        }
        Batch {
            has_come: has_come || awaits_reader,
            is_all,
        }
    }

    /// Handles all completions that there are now: others may come as fast as these go. Any context.
    pub(super) fn settle(&self) {
        if let Some(bound) = self.bound.get() {
            // Each call takes at least one completion: a failure is read alone.
            let _ = (0..=FLIGHTS).all(|_| !self.take(bound, false).is_all);
        }
    }

    /// Gives up what has come of operations and has not been handled. No connection is there any more.
    pub(super) fn abandon_rest(&self) {
        let Some(queue) = self.bound.get().map(|bound| &*bound.queue) else {
            return;
        };
        loop {
            let mut floor = self.traffic.lock();
            let room = floor.found.as_mut_slots();
            match queue.read_queue().read(FormatEntry::entries(room)) {
                Ok(count) => {
                    for at in 0..count {
                        if let Some(context) = floor.found.nth(at).map(|entry| entry.context) {
                            floor.abandon(context);
                        }
                    }
                }
                Err(Errno::EAVAIL) => {
                    if let Ok(failure) = queue.read_queue().read_error() {
                        floor.abandon(failure.completion.context);
                    }
                }
                Err(_) => return,
            }
        }
    }

    /// What a reader does who finds nothing; false if there still is nothing. Any context.
    fn read(&self) -> bool {
        write_once(&self.is_read, 1);
        self.drain(false, READER_BUDGET)
    }

    /// A reader is to be told of what comes, and does not come again before that; its queue says so from
    /// now on. Any context.
    pub(super) fn expect(&self) {
        write_once(&self.is_read, 0);
        if let (0, Some(bound)) = (load_acquire(&self.is_armed), self.bound.get()) {
            bound.queue.schedule_handler();
        }
    }

    /// What the handler does.
    fn handle(&self) {
        write_once(&self.is_armed, 0);
        let is_read = self.is_read.xchg(0, Full) != 0;
        let is_watched = is_read && !self.traffic.lock().outlets.are_awaited();
        match self.bound.get().filter(|_| is_watched) {
            None => drop(self.drain(true, HANDLER_BUDGET)),
            Some(bound) => {
                let _ = self.drain(false, HANDLER_BUDGET);
                bound.alarm.arm(&mut self.watch.lock(), PACE);
            }
        }
    }

    /// The handler, which has ended, is not called any more. May sleep.
    pub(super) fn stop_watching(&self) {
        drop(self.watch.lock().take());
    }
}

/// Calls [`Station::drain`] for readers.
pub(super) struct Mover {
    // Dropped in this order.
    station: Arc<Station>,
    _farewell: DetachGuard,
}

impl Mover {
    /// That of a station, for readers. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn of(station: &Arc<Station>) -> Result<Arc<ProgressHandle>> {
        let mover = |farewell| Self {
            station: station.clone(),
            _farewell: farewell,
        };
        Ok(Arc::new(ProgressHandle::new(mover)?, GFP_KERNEL)?)
    }
}

impl ProgressSource for Mover {
    fn progress(&self) -> bool {
        self.station.read()
    }

    fn arm(&self) {
        self.station.expect();
    }

    fn entries_forwarded(&self, count: u64) {
        self.station.passed_on(count);
    }
}

/// Calls it for the queue's handler.
pub(super) struct Watcher(pub(super) Arc<Station>);

impl TaskHandler for Watcher {
    fn ready(&self, _here: ProcessContext) {
        self.0.handle();
    }
}
