// SPDX-License-Identifier: GPL-2.0

//! Active endpoints: an RC queue pair and its connection.
//!
//! The queue pair exists from `fi_enable()` on, before rdma_cm has chosen a path, so that receives
//! can be posted early. The data path reads `state` and takes the lock of the queue it posts to.
//! `conn` guards the state of the connection; it is not held across calls of rdma_cm, whose
//! handlers take it.

pub(super) mod atomic;
mod attrs;
mod cm;
mod drain;
mod enable;
pub(super) mod lingering_id;
mod long_rma;
mod mr;
mod options;
mod post;
mod recv;
mod sge_list;
pub(super) mod siw_quirk;
mod transition;

use super::{
    super::common::stats::Violations,
    cas_atomic::{
        CasAtomicTable,
        DeviceWord, //
    },
    conn_state::{
        AtomicConnState,
        ConnState, //
    },
    connreq::ConnReq,
    domain::Domain,
    info,
    prelude::*, //
};
use crate::{
    abi::{
        fi_rma_iov,
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
            OwnedEvent, //
        },
        introspect::{
            EndpointAddrs,
            Introspect, //
        },
        mr::ep_region::{
            EpRegion,
            RefusedClose, //
        },
        provider::{
            Bindings,
            EpOption,
            Operation,
            Rma, //
        },
        rundown::Rundown,
        srx::SharedReceive, //
    },
    util::cold::call_cold, //
};
use attrs::EpAttrs;
use mr::{
    EpRegions,
    MAX_PAGES, //
};
use options::EpOptions;

/// Bound objects, which stay open until the endpoint is closed.
struct BoundObjects {
    eq: ChildRef<EventQueue>,
    _cqs: [ChildRef<CompletionQueue>; 2],
    _counters: Arc<BoundCounters>,
    _srx: Option<ChildRef<SharedReceive>>,
    /// Held where counters are bound: a thread that reads a counter polls completions, too.
    _counter_readers: Option<ExclusiveGuard>,
}

/// State of the connection.
struct EpConn {
    id: Option<Arc<CmId>>,
    /// Connection request that the endpoint was opened for, until it is accepted.
    connreq: Option<ConnReq>,
    qp: Option<Arc<Qp>>,
    objects: Option<BoundObjects>,
    /// Event for FI_CONNECTED or the failure, allocated with the endpoint so that reporting cannot
    /// fail.
    connect_event: Option<OwnedEvent>,
    /// Event for FI_SHUTDOWN, likewise.
    shutdown_event: Option<OwnedEvent>,
    local_addr: Option<SockAddr>,
    peer_addr: Option<SockAddr>,
    /// Private data of `fi_connect()` as it is sent, until the route is resolved.
    pending_data: Option<KVec<u8>>,
    /// Set on the passive side: the endpoint accepts a connection request.
    is_accepting: bool,
    /// Set once rdma_cm has reported the connection and FI_CONNECTED is reported later.
    is_connected_deferred: bool,
}

/// An active endpoint of a verbs device. The fields that a post needs come first, in one cache
/// line.
#[pin_data]
#[repr(C, align(64))]
pub(crate) struct Endpoint {
    state: AtomicConnState,
    sq: Arc<WorkQueue>,
    rq: Arc<WorkQueue>,
    /// Protection domain of `domain`.
    pd: Arc<Pd>,
    attrs: EpAttrs,
    domain: Arc<Domain>,
    /// Identifier of the endpoint in events and completions.
    source: Source,
    options: EpOptions,
    /// Set once the endpoint has posted an RDMA read, on iWARP only.
    has_read: AtomicFlag,
    /// Memory for the old values of atomic operations that do not fetch.
    discard_buf: KBox<DeviceWord>,
    #[pin]
    conn: Mutex<EpConn>,
    /// Addresses of `conn`, for introspection.
    #[pin]
    addrs: EndpointAddrs,
    /// Set when the device is being removed, and the endpoint has been or is being notified.
    is_removed: AtomicFlag,
    /// Counts and logs violations by the peer.
    violations: Arc<Violations>,
    /// Regions that the endpoint registers.
    regions: EpRegions,
    /// Lets a close wait for handlers of the removal and for `siw_work`.
    #[pin]
    rundown: Rundown,
    /// Delays FI_CONNECTED on siw, which reports the connection too early.
    #[pin]
    siw_work: Work<Endpoint>,
}

impl Endpoint {
    /// Opens an endpoint, for the connection request in `info` if there is one. May sleep.
    pub(super) fn new(domain: Arc<Domain>, info: &Info, source: Source) -> Result<Arc<Self>> {
        info::check_info(info, domain.pd.device())?;
        if info.domain_name() != Some(domain.pd.device().name().as_c_str()) {
            return Err(Errno::EINVAL);
        }
        let attrs = EpAttrs::new(&domain, info)?;
        let (local, peer) = info.addresses()?;
        let pd = domain.pd.clone();
        let new_queue = |sizes, direction, cas_atomics| {
            WorkQueue::new(domain.serial.clone(), &pd, sizes, direction, cas_atomics)
        };
        let cas_atomics = match attrs.atomics_errno {
            None => Some(CasAtomicTable::new(pd.clone())?),
            Some(_) => None,
        };
        let tx_sizes = (attrs.tx_size, attrs.tx_iov_limit);
        let sq = new_queue(tx_sizes, WqDirection::Transmit, cas_atomics)?;
        let rx_sizes = (attrs.rx_size, attrs.rx_iov_limit);
        let rq = new_queue(rx_sizes, WqDirection::Receive, None)?;
        let connect_event = Some(Event::alloc(source)?);
        let shutdown_event = Some(Event::alloc(source)?);
        let endpoint = Arc::pin_init(
            try_pin_init!(Self {
                state: AtomicConnState::new(),
                sq,
                rq,
                pd,
                options: EpOptions::new(attrs.is_iwarp),
                attrs,
                domain,
                source,
                has_read: AtomicFlag::new(false),
                discard_buf: KBox::new(DeviceWord(Atomic::new(0)), GFP_KERNEL)?,
                is_removed: AtomicFlag::new(false),
                violations: Arc::new(Violations::new(), GFP_KERNEL)?,
                regions: EpRegions::new(),
                rundown <- Rundown::new(),
                siw_work <- new_work!("kofi::verbs::Endpoint::siw_work"),
                addrs <- EndpointAddrs::new(local, peer),
                conn <- new_mutex!(
                    EpConn {
                        id: None,
                        connreq: None,
                        qp: None,
                        objects: None,
                        connect_event,
                        shutdown_event,
                        local_addr: local.map(SockAddr::from),
                        peer_addr: peer.map(SockAddr::from),
                        pending_data: None,
                        is_accepting: false,
                        is_connected_deferred: false,
                    },
                    "kofi::verbs::Endpoint"
                ),
            }? Error),
            GFP_KERNEL,
        )?;
        endpoint.rq.set_violations(&endpoint.violations);
        endpoint.domain.add_endpoint(&endpoint)?;
        if info.handle() != 0 {
            let taken = endpoint.take_connreq(info.handle());
            taken.inspect_err(|_| endpoint.domain.remove_endpoint(&endpoint))?;
        }
        Ok(endpoint)
    }

    /// Marks the endpoint as notified of the removal of its device; returns true the first time.
    pub(super) fn mark_removed(&self) -> bool {
        !self.is_removed.xchg(true, Full)
    }

    fn qp(&self) -> Result<Arc<Qp>> {
        self.conn.lock().qp.clone().ok_or(Errno::EOPBADSTATE)
    }

    fn id(&self) -> Option<Arc<CmId>> {
        self.conn.lock().id.clone()
    }
}

impl provider::Endpoint for Endpoint {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn countable(&self) -> u64 {
        // A target gets no completion of its peer's accesses to its memory.
        FI_SEND | FI_RECV | FI_READ | FI_WRITE
    }

    fn shares_receives(&self) -> bool {
        self.attrs.uses_srx
    }

    fn may_report_reads_early(&self) -> bool {
        // See `Documentation/security.rst`.
        self.pd.device().is_rxe
    }

    fn enable(self: Arc<Self>, bindings: Bindings) -> Result {
        self.create_and_bind(bindings)
    }

    fn connect(self: Arc<Self>, to: Option<SocketAddr>, private_data: &[u8]) -> Result {
        self.start_connect(to.map(SockAddr::from), private_data)
    }

    fn accept(self: Arc<Self>, private_data: &[u8]) -> Result {
        self.start_accept(private_data)
    }

    fn shutdown(&self, flags: u64) -> Result {
        self.shutdown_directions(flags)
    }

    fn set_name(&self, addr: SocketAddr) -> Result {
        if self.state.get() != ConnState::Open {
            return Err(Errno::EOPBADSTATE);
        }
        self.conn.lock().local_addr = Some(addr.into());
        self.addrs.set_local(addr);
        Ok(())
    }

    fn name(&self) -> Result<SocketAddr> {
        let known = self.id().and_then(|id| id.local_addr().ok());
        let addr = known.or_else(|| self.conn.lock().local_addr);
        Ok(addr.ok_or(Errno::EADDRNOTAVAIL)?.into())
    }

    fn peer(&self) -> Result<SocketAddr> {
        use ConnState::*;
        if let Open | Enabled | Connecting = self.state.get() {
            return Err(Errno::ENOTCONN);
        }
        Ok(self.conn.lock().peer_addr.ok_or(Errno::ENOTCONN)?.into())
    }

    fn private_data_limit(&self) -> usize {
        let limits = self.options.cm_format().limits(self.pd.device().protocol);
        match self.attrs.is_for_request {
            true => limits.accept,
            false => limits.connect,
        }
    }

    fn receives_left(&self) -> Result<usize> {
        self.rq
            .free_slots()
            .map_err(|errno| self.receive_error(errno))
    }

    fn transmits_left(&self) -> Result<usize> {
        self.sq.free_slots()
    }

    #[inline(always)]
    fn transmit(&self, operation: Operation<'_>, message: &Message<'_>) -> Result {
        self.post_transmit(operation, message)
            .map_err(|errno| self.state.transmit_error(errno))
    }

    fn send_segment(&self, single: &provider::SingleSegment<'_>) -> Result {
        match self.post_fast::<true>(Operation::Send, single) {
            Some(posted) => posted,
            None => call_cold(move || {
                let descriptors = slice::from_ref(&single.descriptor);
                let message = Message::with_segment(single.segment, descriptors, single.context);
                self.transmit(Operation::Send, &message)
            }),
        }
    }

    fn rma_segment(
        &self,
        way: Rma,
        remote: &fi_rma_iov,
        single: &provider::SingleSegment<'_>,
    ) -> Result {
        let operation = Operation::Rma(way, slice::from_ref(remote));
        match self.post_fast::<true>(operation, single) {
            Some(posted) => posted,
            None => call_cold(move || {
                let descriptors = slice::from_ref(&single.descriptor);
                let message = Message {
                    flags: single.flags,
                    ..Message::with_segment(single.segment, descriptors, single.context)
                };
                self.transmit(operation, &message)
            }),
        }
    }

    #[inline(always)]
    fn try_fast_transmit(
        &self,
        operation: Operation<'_>,
        single: &provider::SingleSegment<'_>,
        to: provider::Destination,
    ) -> Option<Result> {
        match to.tag {
            None => self.post_fast::<false>(operation, single),
            Some(_) => None,
        }
    }

    #[inline(always)]
    fn try_fast_inject(
        &self,
        operation: Operation<'_>,
        segment: &Segment,
        flags: u64,
        to: provider::Destination,
    ) -> Option<Result> {
        match to.tag {
            None => self.post_inject_fast::<false>(operation, segment, flags),
            Some(_) => None,
        }
    }

    #[inline(always)]
    fn try_fast_receive(&self, single: &provider::SingleSegment<'_>) -> Option<Result> {
        self.post_recv_fast::<false>(single)
    }

    fn atomic(&self, atomic: &fi::atomic::Atomic<'_>, message: &Message<'_>) -> Result {
        self.post_atomic(atomic, message)
            .map_err(|errno| self.state.transmit_error(errno))
    }

    #[inline(always)]
    fn try_fast_atomic(
        &self,
        atomic: &fi::atomic::Atomic<'_>,
        message: &Message<'_>,
    ) -> Option<Result> {
        self.post_atomic_fast(atomic, message)
    }

    fn max_atomic_elements(&self, _form: Form, _op: Op, datatype: Datatype) -> Result<usize> {
        self.atomic_count_limit(datatype)
    }

    fn getopt(&self, option: EpOption) -> Result<usize> {
        match self.regions.getopt(option) {
            Some(value) => Ok(value),
            None => self.options.getopt(option),
        }
    }

    fn setopt(&self, option: EpOption, value: usize) -> Result {
        let attributes = &self.pd.device().attributes;
        let most = attributes.max_fast_reg_page_list_len.min(MAX_PAGES);
        let set = self.regions.setopt(option, value, most);
        set.unwrap_or_else(|| self.options.setopt(option, value, &self.state))
    }

    #[inline(always)]
    fn receive(&self, message: &Message<'_>) -> Result {
        self.post_receive(message)
            .map_err(|errno| self.receive_error(errno))
    }

    fn region_limits(&self) -> (usize, usize) {
        self.regions.limits()
    }

    fn bind_region(&self, region: &mut dyn provider::RegionCore, reports: bool) -> Result<u64> {
        self.bind_pooled(region, reports)
    }

    fn enable_region(&self, region: &mut dyn provider::RegionCore, context: Context) -> Result {
        self.post_registration(region, context)
    }

    fn close_region(&self, region: ListBox<EpRegion>) -> core::result::Result<(), RefusedClose> {
        self.post_invalidation(region)
    }

    fn fill_info(&self, out: &mut ObjectInfo<'_>) {
        out.set_state(self.state.get().to_uapi());
        out.add_value(KOFI_VALUE_TX_SIZE, self.attrs.tx_size.into());
        out.add_value(KOFI_VALUE_RX_SIZE, self.attrs.rx_size.into());
        self.sq.report(out);
        self.rq.report(out);
        self.violations.report(out);
        self.addrs.fill_info(out);
    }

    fn close(&self, reclaim: &mut dyn FnMut(Context)) {
        self.rundown.run_down();
        self.sq.disable_cas_progress();
        let others = self.domain.enter_exclusive();
        // Operations that the close flushes are not counted as failures.
        for queue in [&self.sq, &self.rq] {
            if let Some((cq, place)) = queue.bound_cq_and_id(&others) {
                cq.stop_counters(place, &others);
            }
        }
        self.disconnect_silently();
        if self.rq.srx_attachment().is_some() {
            // Receives that the queue pair still holds when it is destroyed would be lost.
            self.drain_srx_receives(&others);
        }
        let places = [&self.sq, &self.rq].map(|queue| queue.bound_cq_and_id(&others));
        let targets = [&self.sq, &self.rq].map(|queue| queue.take_target(&others));
        let mut link = self.conn.lock();
        let (qp, bound) = (link.qp.take(), link.objects.take());
        drop(link);
        // The last references to the queue pair: after this the device accesses no posted memory.
        drop(targets);
        drop(qp);
        for (cq, place) in places.into_iter().flatten() {
            // SAFETY: The queue pair has been destroyed above.
            unsafe { cq.remove_wq(place, reclaim, &others) };
        }
        if let Some(share) = self.rq.srx_attachment() {
            if share.close() {
                share.srx.detach_endpoint(&self.rq, &share.cq, &others);
            }
        }
        self.regions.close();
        drop(bound);
        self.domain.remove_endpoint(self);
    }
}
