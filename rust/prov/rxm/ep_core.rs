// SPDX-License-Identifier: GPL-2.0

//! Endpoint core: the lower objects that all connections of an endpoint share, and its locks.
//!
//! `inner` guards the data path (connections, packet buffers, receives, completion sinks) and is taken in any
//! context. `cm` guards the connection manager and is taken in process context, outside `inner`.

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
    info::{
        self,
        PoolSize, //
    },
    iov::IovLimits,
    lower::{
        ProtectionDomain,
        Route, //
    },
    ring::ReadyRings,
    wire::Extensions, //
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
        tclass,
        timer::{
            ArmedTimer,
            Timer, //
        },
        wait::Budget, //
    },
    util::once::OnceBox, //
};

/// Holds the lower objects of an enabled endpoint.
pub(super) struct Bound {
    /// Address vector of the consumer.
    pub(super) addresses: Arc<AddressVector>,
    /// Address vector of the lower domain, which assigns peer indices. Each peer has two indices: one for its
    /// connection, and one for the accepting end of a connection of this endpoint to itself.
    pub(super) peer_av: Arc<AddressVector>,
    /// Completion queue of the first ring.
    pub(super) queue: Arc<CompletionQueue>,
    /// Event queue of the lower endpoints and the listener.
    pub(super) events: Arc<EventQueue>,
    /// Queues of the loop provider, if peers on the same host are reached through it.
    pub(super) local: Option<Local>,
    /// Timer that calls the completion handler.
    pub(super) progress_timer: Arc<Timer<CompletionQueue>>,
    /// Timer that calls the connection manager.
    pub(super) cm_timer: Arc<Timer<EventQueue>>,
}

/// Holds the queues of local connections, which are connections of the loop provider.
pub(super) struct Local {
    /// Completion queue of local connections, opened with the first one. Its entries go to the lower completion
    /// queue.
    pub(super) queue: OnceBox<Arc<CompletionQueue>>,
    /// Event queue of local connections and of their listener.
    pub(super) events: Arc<EventQueue>,
}

/// Represents an endpoint with its connections. The contexts of a scalable endpoint share it.
#[pin_data]
pub(super) struct EpCore {
    pub(super) domain: Arc<Domain>,
    /// Protection domain of the connections and of the memory registered for them.
    pub(super) protection: Arc<ProtectionDomain>,
    /// Rights that peers have on registered memory.
    pub(super) rights: EpRights,
    /// Limits of the vectors of transmits.
    pub(super) iov_limits: IovLimits,
    /// Size of the transmit pool.
    pub(super) pool_size: PoolSize,
    #[pin]
    pub(super) inner: FastLockIrq<EpInner>,
    pub(super) bound: OnceBox<Bound>,
    #[pin]
    pub(super) cm: Mutex<KBox<ConnMgr>>,
    /// Rings that have to be polled, apart from the first one.
    #[pin]
    pub(super) ready_rings: ReadyRings,
    /// Connection limits that the consumer can set.
    pub(super) limits: ConnLimits,
    /// True if peers on the same host are reached through the loop provider.
    pub(super) is_local: bool,
    /// Address of the endpoint, for introspection.
    #[pin]
    pub(super) addrs: EndpointAddrs,
    /// Rundown of the connection manager: the close waits for a run of it that is in progress.
    #[pin]
    pub(super) rundown: Rundown,
    /// Set by a reader that polls; cleared by the completion handler, and by a reader that waits. A handler that finds
    /// it set starts `progress_timer` instead of arming the lower queue, unless a reader waits.
    pub(super) is_read: Atomic<u32>,
    /// Set while the lower completion queue is armed: the next completion calls the completion handler.
    pub(super) is_armed: Atomic<u32>,
    /// Armed timer that calls the completion handler while readers poll.
    #[pin]
    pub(super) poll_timer: Mutex<Option<ArmedTimer<CompletionQueue>>>,
}

impl Bound {
    /// Takes the next event of the lower event queues, with the route that it belongs to.
    pub(super) fn event(&self, here: ProcessContext) -> Option<(Route, OwnedEvent)> {
        let next = |events: &EventQueue| events.next(here, &mut Budget::from_millis(0)).ok();
        let local = || Some((Route::Local, next(&self.local.as_ref()?.events)?));
        let device = next(&self.events).map(|event| (Route::Device, event));
        device.or_else(local)
    }

    /// Schedules a run of the connection manager. Any context.
    pub(super) fn schedule_cm_work(&self) {
        self.events.schedule_handler();
    }
}

impl EpCore {
    /// Creates an endpoint core for `info` with `transmits` transmit contexts, `receives` receive contexts of size
    /// `size`, and a transmit pool of size `pool_size`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for an info that is not of `domain`, or for attributes beyond the limits; -FI_ENOMEM.
    pub(super) fn new(
        domain: Arc<Domain>,
        info: &Info,
        [transmits, receives]: [usize; 2],
        (pool_size, size): (PoolSize, RxSize),
    ) -> Result<Arc<Self>> {
        info::check(info)?;
        if info.domain_name() != domain.lower_info().domain_name() {
            return Err(Errno::EINVAL);
        }
        let (local, _) = info.addresses()?;
        let tclass = tclass::of_endpoint(info);
        tclass::type_of_service(tclass)?;
        let rights = EpRights::from_caps(info.caps());
        let extensions = match rights.has_tagged_rma() {
            true => Extensions::TAGGED_RMA,
            false => Extensions::NONE,
        };
        let announced = (receives, extensions);
        let cm = KBox::new(
            ConnMgr::new(local, tclass, domain.lower_info(), announced),
            GFP_KERNEL,
        )?;
        let name = domain.fabric().provider_name();
        let protection = domain.protection_domain(rights)?.clone();
        let regions = (domain.regions().clone(), rights);
        let iov_limits = info::tx_iov_limits_of(info)?;
        let state = EpState::new(pool_size, (receives, size), regions, name)?;
        let is_local = info::is_local(info) && protection.has_local();
        let reports_remote_writes = rights.has_rma_write();
        let sinks = CompSinks::new(transmits, receives, reports_remote_writes)?;
        let inner = EpInner::new(state, sinks);
        let limits = (rights, iov_limits, pool_size);
        Self::assemble((domain, protection), limits, inner, cm, is_local)
    }

    /// Assembles the object from its parts.
    #[inline(never)]
    fn assemble(
        (domain, protection): (Arc<Domain>, Arc<ProtectionDomain>),
        (rights, iov_limits, pool_size): (EpRights, IovLimits, PoolSize),
        inner: impl Init<EpInner>,
        cm: KBox<ConnMgr>,
        is_local: bool,
    ) -> Result<Arc<Self>> {
        Ok(Arc::pin_init(
            pin_init!(Self {
                domain,
                protection,
                rights,
                iov_limits,
                pool_size,
                inner <- FastLockIrq::new(
                    inner,
                    c"kofi::rxm::EpState",
                    static_lock_class!()
                ),
                bound: OnceBox::new(),
                addrs <- EndpointAddrs::new(cm.local, None),
                cm <- new_mutex!(cm, "kofi::rxm::ConnMgr"),
                ready_rings <- ReadyRings::new(),
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

    /// Returns the lower objects. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EOPBADSTATE before the endpoint is enabled.
    #[inline]
    pub(super) fn bound(&self) -> Result<&Bound> {
        self.bound.get().ok_or(Errno::EOPBADSTATE)
    }

    /// Runs `act` with the data-path state and the completion sinks, under the lock. Any context.
    pub(super) fn with_state<R>(&self, act: impl FnOnce(&mut EpState, &CompSinks) -> R) -> R {
        let mut inner = self.inner.lock();
        let (state, sinks) = inner.split();
        act(state, sinks)
    }

    /// Changes the completion sinks under the lock.
    pub(super) fn with_sinks(&self, change: impl FnOnce(&mut CompSinks)) {
        change(&mut self.inner.lock().sinks);
    }
}
