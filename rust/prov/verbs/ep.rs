// SPDX-License-Identifier: GPL-2.0

//! Active endpoints: an RC queue pair and its connection.
//!
//! The queue pair exists from `fi_enable()` on, before rdma_cm has chosen a path, so that receives
//! can be posted early. The data path reads `state` and takes the lock of the queue it posts to.
//! `link` guards everything about the connection; it is held across no call of rdma_cm, whose
//! handlers take it.

pub(super) mod atomic;
mod attrs;
mod cm;
mod drain;
mod fast;
pub(super) mod lingering_id;
mod post;
mod siw_quirk;
mod transition;

use super::{
    super::common::stats::Violations,
    cas_atomic::CasAtomicTable,
    cntr::WqCounters,
    conn_state::{
        AtomicConnState,
        ConnState, //
    },
    connreq::ConnReq,
    cq::{
        Cq,
        WakePolicy, //
    },
    domain::Domain,
    info,
    inject_buf::InjectBufs,
    srx::{
        Srx,
        SrxAttachment, //
    },
    wc_backlog::WqId,
    wq::{
        PostTarget,
        WorkQueue,
        WqDirection,
        WrTemplate, //
    }, //
};
use crate::{
    abi::{
        biased_lock::ExclusiveGuard,
        downcast::downcast,
        flags::*,
        info::Info,
        Errno,
        Result,
        KOFI_VALUE_RX_SIZE,
        KOFI_VALUE_TX_SIZE, //
    },
    fi::{
        self,
        atomic::{
            Datatype,
            Form,
            Op, //
        },
        cntr::BoundCounters,
        cq::CompletionQueue,
        eq::{
            Event,
            EventQueue,
            OwnedEvent,
            Source, //
        },
        introspect::{
            EndpointAddrs,
            Introspect,
            ObjectInfo, //
        },
        memory::{
            Context,
            Segment, //
        },
        object::ChildRef,
        provider::{
            self,
            Bindings,
            EpOption,
            Message,
            Operation, //
        },
        rundown::Rundown,
        srx::SharedReceive, //
    },
    rdma::{
        cm::CmId,
        device::Device,
        net::SockAddr,
        pd::Pd,
        qp::{
            Qp,
            QpCaps,
            QpEvent,
            QpEventHandler, //
        },
        wr_template::{
            RecvTemplate,
            SendTemplate, //
        },
    },
};
use attrs::EpAttrs;
use core::{
    any::Any,
    net::SocketAddr, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            AtomicFlag,
            Full,
            Relaxed, //
        },
        new_mutex,
        Arc,
        Mutex, //
    },
    workqueue::{
        new_work,
        Work, //
    },
};

/// What is bound, kept open until the endpoint is closed.
struct BoundObjects {
    events: ChildRef<EventQueue>,
    _transmit: ChildRef<CompletionQueue>,
    _receive: ChildRef<CompletionQueue>,
    _counters: Arc<BoundCounters>,
    _shared: Option<ChildRef<SharedReceive>>,
    /// Where counters are bound: who reads one takes completions too.
    _counting: Option<ExclusiveGuard>,
}

/// Everything about the connection.
struct EpConn {
    id: Option<Arc<CmId>>,
    /// The request that the endpoint was made for, until it is accepted.
    request: Option<ConnReq>,
    qp: Option<Arc<Qp>>,
    bound: Option<BoundObjects>,
    /// Made with the endpoint, so that reporting cannot fail: FI_CONNECTED or the failure.
    outcome: Option<OwnedEvent>,
    /// And FI_SHUTDOWN.
    farewell: Option<OwnedEvent>,
    local: Option<SockAddr>,
    peer: Option<SockAddr>,
    /// What `fi_connect()` has for the peer, until the path is known.
    greeting: cm::PendingCmData,
    /// Whether the peer has asked.
    accepts: bool,
    /// Whether rdma_cm has said that there is a connection, and the consumer is told later.
    settles: bool,
}

/// An active endpoint of a verbs device. What a post needs comes first, in one cache line.
#[pin_data]
#[repr(C, align(64))]
pub(crate) struct Endpoint {
    state: AtomicConnState,
    transmit: Arc<WorkQueue>,
    receive: Arc<WorkQueue>,
    /// That of `domain`.
    pd: Arc<Pd>,
    limits: EpAttrs,
    domain: Arc<Domain>,
    /// What it is known by to its owner.
    source: Source,
    /// How large the pieces are that a buffer for several messages is posted in.
    piece: Atomic<usize>,
    /// Whether it has read, where that makes a difference.
    reads: AtomicFlag,
    /// Where the device puts old values that nobody asked for.
    unwanted: KBox<DiscardBuf>,
    #[pin]
    link: Mutex<EpConn>,
    /// The addresses of `link`, for those who only look.
    #[pin]
    ends: EndpointAddrs,
    /// The device goes away, and the endpoint has been or is being told.
    told: AtomicFlag,
    /// Counts and logs violations by the peer.
    violations: Arc<Violations>,
    /// Lets a close wait for that, and for what `settling` does.
    #[pin]
    gate: Rundown,
    /// Where rdma_cm speaks too early.
    #[pin]
    settling: Work<Endpoint>,
}

/// A word that devices write. Caches that do not see it lose nothing else.
#[repr(align(128))]
struct DiscardBuf(Atomic<u64>);

impl DiscardBuf {
    fn as_ptr(&self) -> *mut u64 {
        self.0.as_ptr()
    }
}

/// Bytes for each message of a buffer that takes several, unless the consumer says how many.
const PIECE: usize = 4096;

impl Endpoint {
    /// Makes an endpoint, for the connection request in `info` if there is one. May sleep.
    pub(super) fn new(domain: Arc<Domain>, info: &Info, source: Source) -> Result<Arc<Self>> {
        info::check(info, domain.pd().device())?;
        if info.domain_name() != Some(domain.pd().device().name().as_c_str()) {
            return Err(Errno::EINVAL);
        }
        let limits = EpAttrs::new(&domain, info)?;
        let (local, peer) = info.ends()?;
        let pd = domain.pd();
        let transmit = WorkQueue::new(
            domain.serial(),
            pd,
            (limits.transmits, limits.segments),
            WqDirection::Transmit,
            match limits.no_atomics {
                None => Some(CasAtomicTable::new(pd.clone())?),
                Some(_) => None,
            },
        )?;
        let receive = WorkQueue::new(
            domain.serial(),
            pd,
            (limits.receives, limits.receive_segments),
            WqDirection::Receive,
            None,
        )?;
        let outcome = Event::reserve(source)?;
        let farewell = Event::reserve(source)?;
        let greeting = cm::PendingCmData::none();
        let unwanted = KBox::new(DiscardBuf(Atomic::new(0)), GFP_KERNEL)?;
        let violations = Arc::new(Violations::new(), GFP_KERNEL)?;
        let endpoint = Arc::pin_init(
            pin_init!(Self {
                state: AtomicConnState::new(),
                transmit,
                receive,
                pd: domain.pd().clone(),
                limits,
                domain,
                source,
                piece: Atomic::new(PIECE),
                reads: AtomicFlag::new(false),
                unwanted,
                told: AtomicFlag::new(false),
                violations,
                gate <- Rundown::new(),
                settling <- new_work!("kofi::Endpoint"),
                ends <- EndpointAddrs::new(local, peer),
                link <- new_mutex!(
                    EpConn {
                        id: None,
                        request: None,
                        qp: None,
                        bound: None,
                        outcome: Some(outcome),
                        farewell: Some(farewell),
                        local: local.map(SockAddr::from),
                        peer: peer.map(SockAddr::from),
                        greeting,
                        accepts: false,
                        settles: false,
                    },
                    "kofi::Endpoint"
                ),
            }),
            GFP_KERNEL,
        )?;
        endpoint.domain.admit(&endpoint)?;
        if info.handle() != 0 {
            if let Err(error) = endpoint.adopt(info.handle()) {
                endpoint.domain.dismiss(&endpoint);
                return Err(error);
            }
        }
        Ok(endpoint)
    }

    /// Makes the queue pair, and the memory for injected data if the queue pair takes none inline.
    fn make_qp(
        &self,
        transmit: &Cq,
        receive: &Cq,
        shared: Option<&Srx>,
    ) -> Result<(Arc<Qp>, Option<InjectBufs>)> {
        let caps = QpCaps {
            // With what is posted besides operations: the marker of a drain, and nudges.
            max_send_wr: self.limits.transmits + self.transmit.besides(),
            max_recv_wr: match shared {
                None => self.limits.receives + self.receive.besides(),
                Some(_) => 0,
            },
            max_send_sge: self.limits.segments as u32,
            max_recv_sge: self.limits.receive_segments as u32,
            max_inline_data: self.limits.inject as u32,
        };
        let pd = self.domain.pd();
        let srq = shared.map(Srx::srq).transpose()?;
        let make = |caps: &QpCaps| {
            let cqs = (transmit.ib().clone(), receive.ib().clone());
            let heard = EpQpEvents {
                device: pd.device().device().clone(),
                receive: self.receive.clone(),
                violations: self.violations.clone(),
            };
            Qp::sharing(pd.clone(), cqs.0, cqs.1, srq.clone(), caps, heard)
        };
        let qp = match make(&caps) {
            // Not every device takes that much inline, and none says so beforehand.
            Err(error) if error != ENOMEM => make(&QpCaps {
                max_inline_data: 0,
                ..caps
            }),
            made => made,
        }?;
        let bounce = match qp.caps().max_inline_data as usize {
            inline if inline >= self.limits.inject => None,
            _ => Some(self.transmit.bounce(self.limits.inject)?),
        };
        Ok((Arc::new(qp, GFP_KERNEL)?, bounce))
    }

    /// Makes the queue pair and lets receives be posted.
    fn open(&self, bindings: Bindings) -> Result {
        let others = self.domain.others();
        let events = bindings.events.ok_or(Errno::ENOEQ)?;
        let transmit_side = bindings.transmit.ok_or(Errno::ENOCQ)?;
        let receive_side = bindings.receive.ok_or(Errno::ENOCQ)?;
        let transmit = Cq::of(transmit_side.queue.core())?;
        let receive = Cq::of(receive_side.queue.core())?;
        let shared = match &bindings.shared {
            Some(shared) => Some(self.shared(shared)?),
            None => None,
        };
        let (qp, bounce) = self.make_qp(&transmit, &receive, shared.as_deref())?;
        // The port may turn out to be another one; see `connect`.
        qp.init(1, self.limits.access)?;

        let counters = Arc::new(bindings.counters, GFP_KERNEL)?;
        let tally = |counted: bool| -> Result<Option<KBox<WqCounters>>> {
            let tally = counted.then(|| KBox::new(WqCounters::new(counters.clone()), GFP_KERNEL));
            Ok(tally.transpose()?)
        };
        let sender = WrTemplate::Send(SendTemplate::new(qp.clone())?);
        let receiver = RecvTemplate::new(qp.clone())?;
        let is_counting = counters.has_transmits() || counters.has_receives();
        let transmit_tally = tally(counters.has_transmits())?;
        let receive_tally = tally(counters.has_receives())?;
        // A waiter on a counter has to be woken by each counted completion.
        let wakes = match self.limits.waits_for_signals && receive_tally.is_none() {
            true => WakePolicy::IfSignalled,
            false => WakePolicy::Always,
        };
        let registering = (transmit_tally, WakePolicy::Always);
        // SAFETY: The queue pair is new and completes there. An endpoint is opened once, or again after `unregister`.
        let transmit_place = unsafe { transmit.register(&self.transmit, registering, &others) }?;
        // SAFETY: As above.
        let registered =
            unsafe { receive.register(&self.receive, (receive_tally, wakes), &others) };
        let registered = registered.and_then(|place| {
            let joined = match &shared {
                Some(srx) => self.join(srx, (&receive, place), qp.address(), &others),
                None => Ok(()),
            };
            // SAFETY: Nothing has been posted to the queue pair.
            joined.inspect_err(|_| unsafe { receive.unregister(place, &mut |_| {}, &others) })?;
            Ok(place)
        });
        // SAFETY: As above.
        let receive_place = registered.inspect_err(|_| unsafe {
            transmit.unregister(transmit_place, &mut |_| {}, &others)
        })?;
        let mut link = self.link.lock();
        link.qp = Some(qp.clone());
        link.bound = Some(BoundObjects {
            events,
            _transmit: transmit_side.queue,
            _receive: receive_side.queue,
            _counters: counters.clone(),
            _shared: bindings.shared,
            _counting: is_counting.then(|| self.domain.others()),
        });
        drop(link);
        let target = PostTarget {
            poster: sender,
            qp: qp.clone(),
            cq: transmit,
            place: transmit_place,
            selective: transmit_side.selective,
            tallied: counters.has_transmits(),
        };
        self.transmit
            .open(target, self.limits.inject as u32, bounce, &others);
        match shared {
            None => {
                let target = PostTarget {
                    poster: WrTemplate::Receive(receiver),
                    qp,
                    cq: receive,
                    place: receive_place,
                    selective: receive_side.selective,
                    tallied: counters.has_receives(),
                };
                self.receive.open(target, 0, None, &others);
            }
            Some(srx) => {
                let selective = receive_side.selective;
                let receive = (receive, receive_place);
                let share = SrxAttachment::new(srx, receive, qp.address(), selective, self.source);
                self.receive.open_shared(share, qp.number());
            }
        }
        self.transmit.look_after(self.domain.serial());
        self.step(ConnState::Idle, ConnState::Ready, None);
        Ok(())
    }

    /// The verbs part of the receives that it shares.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for those of another provider or device.
    fn shared(&self, shared: &SharedReceive) -> Result<Arc<Srx>> {
        let srx: Option<Arc<Srx>> = downcast(shared.core().clone().into_any());
        srx.filter(|srx| srx.is_of(&self.pd)).ok_or(Errno::EINVAL)
    }

    /// Lets messages take receives from `srx`, which complete in the queue with the place that `receive` has
    /// there.
    fn join(
        &self,
        srx: &Srx,
        (cq, place): (&Arc<Cq>, WqId),
        qp: usize,
        others: &ExclusiveGuard,
    ) -> Result {
        srx.admit(&self.receive, cq, others)?;
        let known = cq.know(place, qp, others);
        known.inspect_err(|_| srx.dismiss(&self.receive, cq, others))
    }

    /// Notes that the device goes away; true the first time.
    pub(super) fn tell(&self) -> bool {
        !self.told.xchg(true, Full)
    }

    fn qp(&self) -> Result<Arc<Qp>> {
        self.link.lock().qp.clone().ok_or(Errno::EOPBADSTATE)
    }

    fn id(&self) -> Option<Arc<CmId>> {
        self.link.lock().id.clone()
    }
}

/// Completions and rdma_cm tell all that the endpoint needs to know of its queue pair, but for what a
/// peer has tried that it may not, and for the end of receives that are shared.
struct EpQpEvents {
    device: Arc<Device>,
    receive: Arc<WorkQueue>,
    violations: Arc<Violations>,
}

impl QpEventHandler for EpQpEvents {
    fn event(&self, number: u32, event: QpEvent) {
        match event {
            QpEvent::Violated(text) => self.violations.note(
                &self.device.name(),
                fmt!("endpoint {}: its peer is cut off: {}", number, text),
            ),
            QpEvent::Drained => self.receive.set_drained(),
            _ => {}
        }
    }
}

impl provider::Endpoint for Endpoint {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn countable(&self) -> u64 {
        // A target is not told of what its peer does with its memory.
        FI_SEND | FI_RECV | FI_READ | FI_WRITE
    }

    fn shares_receives(&self) -> bool {
        self.limits.shares_receives
    }

    fn doubts_reads(&self) -> bool {
        // See `Documentation/security.rst`.
        self.domain.pd().device().is_rxe()
    }

    fn enable(self: Arc<Self>, bindings: Bindings) -> Result {
        self.open(bindings)
    }

    fn connect(self: Arc<Self>, to: Option<SocketAddr>, private_data: &[u8]) -> Result {
        self.start_connect(to.map(SockAddr::from), private_data)
    }

    fn accept(self: Arc<Self>, private_data: &[u8]) -> Result {
        self.start_accept(private_data)
    }

    fn shutdown(&self, flags: u64) -> Result {
        self.end(flags)
    }

    fn set_name(&self, addr: SocketAddr) -> Result {
        if self.state.get() != ConnState::Idle {
            return Err(Errno::EOPBADSTATE);
        }
        self.link.lock().local = Some(addr.into());
        self.ends.set_local(addr);
        Ok(())
    }

    fn name(&self) -> Result<SocketAddr> {
        let known = self.id().and_then(|id| id.local_addr().ok());
        let addr = known.or_else(|| self.link.lock().local);
        Ok(addr.ok_or(Errno::EADDRNOTAVAIL)?.into())
    }

    fn peer(&self) -> Result<SocketAddr> {
        match self.state.get() {
            ConnState::Idle | ConnState::Ready | ConnState::Connecting => {
                return Err(Errno::ENOTCONN)
            }
            _ => {}
        }
        Ok(self.link.lock().peer.ok_or(Errno::ENOTCONN)?.into())
    }

    fn private_data_limit(&self) -> usize {
        super::cm_data::MAX_PRIVATE_DATA
    }

    fn receives_left(&self) -> Result<usize> {
        self.receive
            .room()
            .map_err(|errno| self.receive_refused(errno))
    }

    fn transmits_left(&self) -> Result<usize> {
        self.transmit.room()
    }

    #[inline(always)]
    fn transmit(&self, operation: Operation<'_>, message: &Message<'_>) -> Result {
        self.post_transmit(operation, message)
            .map_err(|errno| self.state.transmit_refused(errno))
    }

    #[inline(always)]
    fn transmit_plain(
        &self,
        operation: Operation<'_>,
        single: &provider::SingleSegment<'_>,
    ) -> Option<Result> {
        self.post_plain::<false>(operation, single)
    }

    #[inline(always)]
    fn inject_plain(
        &self,
        operation: Operation<'_>,
        segment: &Segment,
        flags: u64,
    ) -> Option<Result> {
        self.post_injected(operation, segment, flags)
    }

    #[inline(always)]
    fn receive_plain(&self, single: &provider::SingleSegment<'_>) -> Option<Result> {
        self.post_receive_plain::<false>(single)
    }

    fn atomic(&self, atomic: &fi::atomic::Atomic<'_>, message: &Message<'_>) -> Result {
        self.post_atomic(atomic, message)
            .map_err(|errno| self.state.transmit_refused(errno))
    }

    #[inline(always)]
    fn atomic_plain(
        &self,
        atomic: &fi::atomic::Atomic<'_>,
        message: &Message<'_>,
    ) -> Option<Result> {
        self.post_word(atomic, message)
    }

    fn most_elements(&self, _form: Form, _op: Op, datatype: Datatype) -> Result<usize> {
        self.count_elements(datatype)
    }

    fn setting(&self, setting: EpOption) -> Result<usize> {
        match setting {
            EpOption::MultiReceive => Ok(self.piece.load(Relaxed)),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    fn set(&self, setting: EpOption, value: usize) -> Result {
        match (setting, value) {
            (EpOption::MultiReceive, 0) => Err(Errno::EINVAL),
            (EpOption::MultiReceive, size) => {
                self.piece.store(size, Relaxed);
                Ok(())
            }
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    #[inline(always)]
    fn receive(&self, message: &Message<'_>) -> Result {
        self.post_receive(message)
            .map_err(|errno| self.receive_refused(errno))
    }

    fn tell(&self, told: &mut ObjectInfo<'_>) {
        told.state(self.state.get().told());
        told.value(KOFI_VALUE_TX_SIZE, self.limits.transmits.into());
        told.value(KOFI_VALUE_RX_SIZE, self.limits.receives.into());
        self.transmit.tell(told);
        self.receive.tell(told);
        self.violations.tell(told);
        self.ends.tell(told);
    }

    fn close(&self, reclaim: &mut dyn FnMut(Context)) {
        self.gate.shut();
        self.transmit.look_away();
        let others = self.domain.others();
        // What is flushed by the close is no failure.
        for queue in [&self.transmit, &self.receive] {
            if let Some((cq, place)) = queue.place(&others) {
                cq.end_count(place, &others);
            }
        }
        self.hang_up();
        if self.receive.share().is_some() {
            // What its queue pair takes along when it goes, nobody else finds.
            self.wait_for_receives(&others);
        }
        let places = [&self.transmit, &self.receive].map(|queue| queue.place(&others));
        let targets = [&self.transmit, &self.receive].map(|queue| queue.shut(&others));
        let (qp, bound) = {
            let mut link = self.link.lock();
            (link.qp.take(), link.bound.take())
        };
        // The last references to the queue pair: after this the device touches no posted memory.
        drop(targets);
        drop(qp);
        for (cq, place) in places.into_iter().flatten() {
            // SAFETY: The queue pair has been destroyed above.
            unsafe { cq.unregister(place, reclaim, &others) };
        }
        if let Some(share) = self.receive.share() {
            if share.end() {
                share.srx.dismiss(&self.receive, &share.cq, &others);
            }
        }
        drop(bound);
        self.domain.dismiss(self);
    }
}
