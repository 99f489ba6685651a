// SPDX-License-Identifier: GPL-2.0

//! What an endpoint and its connections have in common: the objects below it, and who moves packets.
//!
//! Completions of the lower endpoints are handled by whoever comes: a reader of the consumer's queue
//! who finds nothing, in any context, or the queue's handler, a work item that is called for the next
//! completion when there were none. So nothing waits for a consumer to read. One at a time does it, and
//! whoever finds another there leaves it to that one.
//!
//! While readers come again and again the handler is not called for each completion, which would cost
//! more than all the rest of a short message: it looks in every [`PACE`], until nobody has come meanwhile.

use super::{
    alarm::{
        Alarm,
        Set, //
    },
    cq::Feeder,
    domain::Domain,
    limits::Limits,
    links::Links,
    offer,
    office::Size,
    outlets::Outlets,
    posting::Arrival,
    traffic::{
        Floor,
        Traffic,
        FLIGHTS, //
    },
};
use crate::{
    abi::{
        context::InProcess,
        fi_cq_data_entry,
        flags::{
            FI_REMOTE_WRITE,
            FI_RMA, //
        },
        info::Info,
        lock::FastLockIrq,
        Errno,
        Result, //
    },
    fi::{
        av::AddressVector,
        card::Ends,
        cq::{
            CompletionQueue,
            Shape,
            TaskHandler, //
        },
        eq::EventQueue,
        gate::Gate,
        memory::{
            Context,
            EntrySlots, //
        }, //
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            AtomicFlag,
            Full,
            Relaxed, //
        },
        new_mutex,
        static_lock_class,
        Arc,
        Mutex,
        SetOnce, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
};

/// Completions that are taken from the lower queue at once.
const BATCH: usize = 16;

/// How many batches a reader handles before it looks at its own queue again.
const READER_BUDGET: usize = 4;

/// How many the handler does before others on its workqueue have their turn.
const HANDLER_BUDGET: usize = 16;

/// How long completions may wait when their reader has gone.
const PACE: Delta = Delta::from_millis(1);

/// Between two looks at whether somebody else is done.
const MOMENT: Delta = Delta::from_micros(50);

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
    /// Has the handler called that handles completions.
    pub(super) alarm: Arc<Alarm<CompletionQueue>>,
    /// And the one that looks after connections.
    pub(super) clock: Arc<Alarm<EventQueue>>,
}

/// See the module.
#[pin_data]
pub(super) struct Station {
    pub(super) domain: Arc<Domain>,
    #[pin]
    pub(super) traffic: FastLockIrq<Floor>,
    pub(super) bound: SetOnce<Bound>,
    #[pin]
    pub(super) links: Mutex<Links>,
    /// What the consumer may set of them.
    pub(super) limits: Limits,
    /// Its address, for those who only look.
    #[pin]
    pub(super) ends: Ends,
    /// Whoever looks after connections is inside.
    #[pin]
    pub(super) gate: Gate,
    /// Somebody handles completions.
    is_busy: AtomicFlag,
    /// And is to see to it that the handler is called.
    is_asked: AtomicFlag,
    /// Something waits for its reader to make room, as far as is known.
    is_awaiting: AtomicFlag,
    /// A reader has come since the handler was here.
    is_read: AtomicFlag,
    /// The handler is called for the next completion.
    is_armed: AtomicFlag,
    /// When it is called otherwise.
    #[pin]
    watch: Mutex<Option<Set<CompletionQueue>>>,
}

impl Bound {
    /// Has somebody look after connections soon. Any context.
    pub(super) fn kick(&self) {
        self.events.call_handler();
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
        let (local, _) = info.ends()?;
        let links = Links::new(local, domain.lower_info(), receives);
        let traffic = Traffic::new(receives, size, domain.regions().clone())?;
        let hears_writes = info.caps() & FI_RMA != 0;
        let outlets = Outlets::new(transmits, receives, hears_writes)?;
        let floor = Floor::new(traffic, outlets);
        Ok(Arc::pin_init(
            pin_init!(Self {
                domain,
                traffic <- FastLockIrq::new(
                    floor,
                    c"kofi::rdm::Traffic",
                    static_lock_class!()
                ),
                bound: SetOnce::new(),
                ends <- Ends::new(links.local, None),
                links <- new_mutex!(links, "kofi::rdm::Links"),
                limits: Limits::new(),
                gate <- Gate::new(),
                is_busy: AtomicFlag::new(false),
                is_asked: AtomicFlag::new(false),
                is_awaiting: AtomicFlag::new(false),
                is_read: AtomicFlag::new(false),
                is_armed: AtomicFlag::new(false),
                watch <- new_mutex!(None, "kofi::rdm::Station::watch"),
            }),
            GFP_KERNEL,
        )?)
    }

    /// What is bound; -FI_EOPBADSTATE before the endpoint is enabled. Any context.
    #[inline]
    pub(super) fn bound(&self) -> Result<&Bound> {
        self.bound.as_ref().ok_or(Errno::EOPBADSTATE)
    }

    /// Does something with what is under way, of which consumers may be told. Any context.
    pub(super) fn with<R>(&self, act: impl FnOnce(&mut Traffic, &Outlets) -> R) -> R {
        let mut floor = self.traffic.lock();
        let (traffic, outlets) = floor.parts();
        act(traffic, outlets)
    }

    /// Handles completions, at most so many batches; `arms` has the handler called for what comes when
    /// there are no more. False if nothing has come of it. Any context.
    fn drain(&self, arms: bool, budget: usize) -> bool {
        let Some(bound) = self.bound.as_ref() else {
            return false;
        };
        if arms {
            let _ = self.is_asked.xchg(true, Full);
        }
        let mut has_come = false;
        // Whoever is there sees, when it is done, what it has been asked for.
        while !self.is_busy.xchg(true, Full) {
            let arms = self.is_asked.xchg(false, Full);
            if arms {
                // Before it is: whoever is called for a completion says that it is not any more.
                self.is_armed.store(true, Relaxed);
            }
            let batches = (0..budget).take_while(|_| self.take(bound, arms)).count();
            let _ = self.is_busy.xchg(false, Full);
            // Its reader may have made room.
            if batches > 0 || self.is_awaiting.load(Relaxed) {
                has_come = true;
                self.deliver(bound);
            }
            if batches == budget {
                // The handler may have come meanwhile, and have left it to us.
                if arms || self.is_asked.load(Acquire) {
                    bound.queue.call_handler();
                }
                return true;
            }
            if !self.is_asked.load(Acquire) {
                return has_come;
            }
        }
        true
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
            self.is_awaiting.store(traffic.awaits_reader(), Relaxed);
            break traffic.is_calling();
        };
        if is_calling {
            bound.kick();
        }
    }

    /// Handles a batch; false if there was nothing.
    fn take(&self, bound: &Bound, arms: bool) -> bool {
        let mut slots = EntrySlots::<fi_cq_data_entry, BATCH>::new();
        let queue = &*bound.queue;
        let count = match arms {
            true => queue.read(slots.room()),
            false => queue.core().read(Shape::entries(slots.room())),
        };
        match count {
            Ok(count) => {
                let mut floor = self.traffic.lock();
                let (traffic, outlets) = floor.parts();
                for entry in slots.get().into_iter().take(count) {
                    let context = Context::new(entry.op_context);
                    let arrival = match entry.flags & FI_REMOTE_WRITE {
                        0 => Arrival::Bytes(entry.len),
                        _ => Arrival::Written(entry.data),
                    };
                    traffic.land(outlets, context, Ok(arrival));
                }
                self.is_awaiting.store(traffic.awaits_reader(), Relaxed);
                true
            }
            Err(Errno::EAVAIL) => {
                if let Ok(failure) = queue.core().read_error() {
                    let context = failure.completion.context;
                    self.with(|traffic, outlets| {
                        traffic.land(outlets, context, Err(failure.errno));
                    });
                }
                true
            }
            Err(_) => false,
        }
    }

    /// Handles all completions that there are now: others may come as fast as these go. Process context.
    pub(super) fn settle(&self) {
        while self.is_busy.xchg(true, Full) {
            fsleep(MOMENT);
        }
        if let Some(bound) = self.bound.as_ref() {
            let _ = (0..=FLIGHTS / BATCH).all(|_| self.take(bound, false));
        }
        let _ = self.is_busy.xchg(false, Full);
        if self.is_asked.load(Acquire) {
            let _ = self.drain(true, HANDLER_BUDGET);
        }
    }

    /// What a reader does who finds nothing; false if there still is nothing. Any context.
    fn read(&self) -> bool {
        self.is_read.store(true, Relaxed);
        self.drain(false, READER_BUDGET)
    }

    /// A reader is to be told of what comes, and does not come again before that; its queue says so from
    /// now on. Any context.
    fn expect(&self) {
        self.is_read.store(false, Relaxed);
        if let (false, Some(bound)) = (self.is_armed.load(Acquire), self.bound.as_ref()) {
            bound.queue.call_handler();
        }
    }

    /// What the handler does.
    fn handle(&self) {
        self.is_armed.store(false, Relaxed);
        let is_read = self.is_read.xchg(false, Full);
        let is_watched = is_read && !self.traffic.lock().outlets.are_awaited();
        match self.bound.as_ref().filter(|_| is_watched) {
            None => drop(self.drain(true, HANDLER_BUDGET)),
            Some(bound) => {
                let _ = self.drain(false, HANDLER_BUDGET);
                bound.alarm.set(&mut self.watch.lock(), PACE);
            }
        }
    }

    /// The handler, which has ended, is not called any more. May sleep.
    pub(super) fn stop_watching(&self) {
        drop(self.watch.lock().take());
    }
}

/// Calls [`Station::drain`] where there is something to handle.
pub(super) struct Mover(pub(super) Arc<Station>);

impl Mover {
    /// That of a station, for readers. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn of(station: &Arc<Station>) -> Result<Arc<dyn Feeder>> {
        let mover: Arc<dyn Feeder> = Arc::new(Self(station.clone()), GFP_KERNEL)?;
        Ok(mover)
    }
}

impl Feeder for Mover {
    fn progress(&self) -> bool {
        self.0.read()
    }

    fn expect(&self) {
        self.0.expect();
    }
}

impl TaskHandler for Mover {
    fn ready(&self, _here: InProcess) {
        self.0.handle();
    }
}
