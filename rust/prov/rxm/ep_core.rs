// SPDX-License-Identifier: GPL-2.0

//! What an endpoint and its connections have in common: the objects below it, and who moves packets.
//!
//! Completions of the lower endpoints are handled by whoever comes: a reader of the consumer's queue
//! who finds nothing, in any context, or the queue's handler, a work item that is called for the next
//! completion when there were none. So nothing waits for a consumer to read. They are taken and handled
//! under the lock of the traffic, a batch at a time, and so in order.
//!
//! While readers come again and again the handler is not called for each completion, which would cost
//! more than all the rest of a short message: it looks in every [`POLL_INTERVAL`], until nobody has come meanwhile.

use super::{
    super::common::mr_table::EpRights,
    cm::{
        admission::ConnLimits,
        ConnMgr, //
    },
    completion::CompSinks,
    domain::Domain,
    ep::ctx::RxSize,
    ep_state::{
        EpInner,
        EpState, //
    },
    info,
    lower::{
        ProtectionDomain,
        Route, //
    },
};
use crate::{
    fi::{
        av::AddressVector,
        cq::CompletionQueue,
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
    util::once::OnceBox, //
};

/// What there is from when the endpoint is enabled.
pub(super) struct Bound {
    /// Where the consumer's addresses stand.
    pub(super) addresses: Arc<AddressVector>,
    /// Whom there is a number for; two for each: for the connection with it, and for the one with itself
    /// that it accepts.
    pub(super) peer_av: Arc<AddressVector>,
    /// Where the lower endpoints' operations complete.
    pub(super) queue: Arc<CompletionQueue>,
    /// And their connections are told of.
    pub(super) events: Arc<EventQueue>,
    /// The same of those by which peers on the same host are reached.
    pub(super) local: Option<Local>,
    /// Has the handler called that handles completions.
    pub(super) progress_timer: Arc<Timer<CompletionQueue>>,
    /// And the one that looks after connections.
    pub(super) cm_timer: Arc<Timer<EventQueue>>,
}

/// What there is where peers on the same host are reached.
pub(super) struct Local {
    /// From the first connection on: what completes there is put into the other queue.
    pub(super) queue: OnceBox<Arc<CompletionQueue>>,
    pub(super) events: Arc<EventQueue>,
}

/// See the module.
#[pin_data]
pub(super) struct EpCore {
    pub(super) domain: Arc<Domain>,
    /// Protection domain of the connections and of the memory registered for them.
    pub(super) protection: Arc<ProtectionDomain>,
    /// Access to registered memory that peers have.
    pub(super) rights: EpRights,
    #[pin]
    pub(super) inner: FastLockIrq<EpInner>,
    pub(super) bound: OnceBox<Bound>,
    #[pin]
    pub(super) cm: Mutex<KBox<ConnMgr>>,
    /// What the consumer may set of them.
    pub(super) limits: ConnLimits,
    /// Whether peers on the same host are reached without what is between hosts.
    pub(super) is_local: bool,
    /// Its address, for those who only look.
    #[pin]
    pub(super) addrs: EndpointAddrs,
    /// Whoever looks after connections is inside.
    #[pin]
    pub(super) rundown: Rundown,
    /// A reader has come since the handler was here.
    pub(super) is_read: Atomic<u32>,
    /// The handler is called for the next completion.
    pub(super) is_armed: Atomic<u32>,
    /// When it is called otherwise.
    #[pin]
    pub(super) poll_timer: Mutex<Option<ArmedTimer<CompletionQueue>>>,
}

impl Bound {
    /// The next event of a connection, if there is one, and which way that goes.
    pub(super) fn event(&self, here: ProcessContext) -> Option<(Route, OwnedEvent)> {
        let next = |events: &EventQueue| events.next(here, &mut Budget::from_millis(0)).ok();
        let local = || Some((Route::Local, next(&self.local.as_ref()?.events)?));
        let device = next(&self.events).map(|event| (Route::Device, event));
        device.or_else(local)
    }

    /// Has somebody look after connections soon. Any context.
    pub(super) fn schedule_cm_work(&self) {
        self.events.schedule_handler();
    }
}

impl EpCore {
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
        size: RxSize,
    ) -> Result<Arc<Self>> {
        info::check(info)?;
        if info.domain_name() != domain.lower_info().domain_name() {
            return Err(Errno::EINVAL);
        }
        let (local, _) = info.addresses()?;
        let cm = KBox::new(
            ConnMgr::new(local, domain.lower_info(), receives),
            GFP_KERNEL,
        )?;
        let name = domain.fabric().provider_name();
        let rights = EpRights::from_caps(info.caps());
        let protection = domain.protection_domain(rights)?.clone();
        let regions = (domain.regions().clone(), rights);
        let state = EpState::new(receives, size, regions, name)?;
        let is_local = info::is_local(info) && protection.has_local();
        let reports_remote_writes = rights.has_rma_write();
        let sinks = CompSinks::new(transmits, receives, reports_remote_writes)?;
        let inner = EpInner::new(state, sinks);
        Self::assemble((domain, protection), rights, inner, cm, is_local)
    }

    /// Assembles the object from its parts.
    #[inline(never)]
    fn assemble(
        (domain, protection): (Arc<Domain>, Arc<ProtectionDomain>),
        rights: EpRights,
        inner: impl Init<EpInner>,
        cm: KBox<ConnMgr>,
        is_local: bool,
    ) -> Result<Arc<Self>> {
        Ok(Arc::pin_init(
            pin_init!(Self {
                domain,
                protection,
                rights,
                inner <- FastLockIrq::new(
                    inner,
                    c"kofi::rxm::EpState",
                    static_lock_class!()
                ),
                bound: OnceBox::new(),
                addrs <- EndpointAddrs::new(cm.local, None),
                cm <- new_mutex!(cm, "kofi::rxm::ConnMgr"),
                limits: ConnLimits::new(),
                is_local,
                rundown <- Rundown::new(),
                is_read: Atomic::new(0),
                is_armed: Atomic::new(0),
                poll_timer <- new_mutex!(None, "kofi::rxm::EpCore::poll_timer"),
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
    pub(super) fn with_state<R>(&self, act: impl FnOnce(&mut EpState, &CompSinks) -> R) -> R {
        let mut inner = self.inner.lock();
        let (state, sinks) = inner.split();
        act(state, sinks)
    }

    /// Changes where is told what comes of operations.
    pub(super) fn with_sinks(&self, change: impl FnOnce(&mut CompSinks)) {
        change(&mut self.inner.lock().sinks);
    }
}
