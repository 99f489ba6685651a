// SPDX-License-Identifier: GPL-2.0

//! Active endpoints. The mutex `link` guards the state of the connection; the data path takes only the lock
//! of a [`Channel`].

mod cm;
mod long_rma;
mod post;

use super::{
    super::common::{
        cm_data::{
            CmDataLimits,
            RawCmData, //
        },
        conn_state::{
            AtomicConnState,
            ConnState, //
        },
        min_multi_recv::MinMultiRecv,
        sw_cq::ProgressSource, //
    },
    channel::{
        DirectReceiver,
        ProgressWork,
        RxSide,
        TxResources, //
    },
    domain::Domain,
    info::Limits,
    op,
    prelude::*,
    srx::{
        Srx,
        SrxAttachment, //
    },
};
use crate::{
    abi::flags::*,
    fi::{
        atomic::Atomic,
        cq::CompletionQueue,
        ep,
        eq::{
            Event,
            EventQueue,
            OwnedEvent, //
        },
        introspect::{
            EndpointAddrs,
            Introspect, //
        },
        provider::{
            Bindings,
            EpOption,
            Operation, //
        },
        srx::SharedReceive, //
    },
};
use core::any::Any;

/// Bound objects, kept open until the endpoint is closed.
struct Resources {
    /// Progress source that readers of the receive queue call. Dropped first.
    progress: Option<Arc<dyn ProgressSource>>,
    eq: ChildRef<EventQueue>,
    _tx_cq: ChildRef<CompletionQueue>,
    _rx_cq: ChildRef<CompletionQueue>,
    /// The shared receive context.
    _srx: Option<ChildRef<SharedReceive>>,
}

/// State of the connection.
struct Link {
    /// The connection request that the endpoint was made for, until it is accepted.
    connreq: Option<Request>,
    resources: Option<Resources>,
    /// Transmit resources, until they move to the channel to the peer.
    tx_resources: Option<TxResources>,
    /// Allocated with the endpoint, so that reporting cannot fail: FI_CONNECTED or the failure.
    connect_event: Option<OwnedEvent>,
    /// Allocated with the endpoint as well: FI_SHUTDOWN.
    shutdown_event: Option<OwnedEvent>,
    local: Option<SocketAddr>,
    peer: Option<SocketAddr>,
    /// Local port of an endpoint that calls `fi_connect()`.
    port: Option<Port>,
    conn: Option<Arc<Conn>>,
}

/// An active endpoint.
#[pin_data]
pub(crate) struct Endpoint {
    state: AtomicConnState,
    /// Channel to the peer, set when the connection is established.
    tx_channel: SetOnce<Arc<Channel>>,
    rx_channel: Arc<Channel>,
    limits: Limits,
    domain: Arc<Domain>,
    /// Identifies the endpoint to its owner, in events and completions.
    source: Source,
    /// Bytes of each piece that a multi-receive buffer is posted in.
    min_multi_recv: MinMultiRecv,
    /// Set if private data has the limits of data without a length byte.
    raw_cm_data: RawCmData,
    /// Set if the endpoint was made to accept a connection request.
    is_for_request: bool,
    #[pin]
    link: Mutex<Link>,
    /// Copy of the addresses in `link`, for introspection.
    #[pin]
    addrs: EndpointAddrs,
}

impl Endpoint {
    /// Makes an endpoint, for the connection request in `info` if there is one. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for more than is offered, and for an unknown connection request; -FI_ENOMEM.
    pub(super) fn new(domain: Arc<Domain>, info: &Info, source: Source) -> Result<Arc<Self>> {
        let limits = Limits::new(info, domain.fabric.port_owner)?;
        let (local, peer) = info.addresses()?;
        let rx_channel = Channel::new(match limits.shares_receives {
            true => 0,
            false => limits.rx_size,
        })?;
        let connect_event = Event::alloc(source)?;
        let shutdown_event = Event::alloc(source)?;
        let connreq = match info.handle() {
            0 => None,
            handle => Some(domain.fabric.connreqs.take(handle)?),
        };
        let (local, peer) = match &connreq {
            None => (local, peer),
            Some(connreq) => (Some(connreq.local.into()), Some(connreq.peer.into())),
        };
        Ok(Arc::pin_init(
            pin_init!(Self {
                state: AtomicConnState::new(),
                tx_channel: SetOnce::new(),
                rx_channel,
                limits,
                domain,
                source,
                min_multi_recv: MinMultiRecv::new(),
                raw_cm_data: RawCmData::new(connreq.as_ref().is_some_and(|it| it.is_raw)),
                is_for_request: connreq.is_some(),
                addrs <- EndpointAddrs::new(local, peer),
                link <- new_mutex!(
                    Link {
                        connreq,
                        resources: None,
                        tx_resources: None,
                        connect_event: Some(connect_event),
                        shutdown_event: Some(shutdown_event),
                        local,
                        peer,
                        port: None,
                        conn: None,
                    },
                    "kofi::loop::Endpoint"
                ),
            }),
            GFP_KERNEL,
        )?)
    }

    /// Returns the loop endpoint behind `ep`, if it is one.
    #[inline]
    pub(in crate::prov) fn from_endpoint(ep: &ep::Endpoint) -> Option<&Self> {
        ep.core().as_any().downcast_ref()
    }

    /// Sets `consumer`, the endpoint's consumer, as the target of the peer's direct calls until the endpoint is
    /// closed. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(in crate::prov) fn set_direct_receiver(
        &self,
        consumer: Arc<dyn Any + Send + Sync>,
    ) -> Result {
        let source = self.source;
        self.rx_channel
            .set_direct_receiver(DirectReceiver { consumer, source })
    }

    /// Calls the peer's consumer directly and passes the value by which it knows its endpoint. Returns `None`
    /// if a transmit to the peer is under way or no target is set. The connection does not end during the
    /// call. Any context.
    #[inline]
    pub(in crate::prov) fn call_peer<R>(
        &self,
        call: impl FnOnce(&(dyn Any + Send + Sync), Source) -> R,
    ) -> Option<R> {
        let tx_channel = self.tx_channel.as_ref()?;
        tx_channel.call_direct(|receiver| call(&*receiver.consumer, receiver.source))
    }

    /// Attaches the endpoint to a shared receive context.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for a context of another provider or domain, -FI_ENOMEM.
    fn attach_srx(&self, srx: &SharedReceive) -> Result<SrxAttachment> {
        match srx.core().clone().into_any().downcast::<Srx>() {
            Ok(srx) if Arc::ptr_eq(&srx.mr_table, &self.domain.mr_table) => SrxAttachment::new(srx),
            _ => Err(Errno::EINVAL),
        }
    }
}

impl provider::Endpoint for Endpoint {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn shares_receives(&self) -> bool {
        self.limits.shares_receives
    }

    fn countable(&self) -> u64 {
        // A target's counters and queues do not see the peer's RMA.
        FI_SEND | FI_RECV | FI_READ | FI_WRITE
    }

    fn enable(self: Arc<Self>, bindings: Bindings) -> Result {
        let eq = bindings.eq.ok_or(Errno::ENOEQ)?;
        let transmit = bindings.tx_cq.ok_or(Errno::ENOCQ)?;
        let receive = bindings.rx_cq.ok_or(Errno::ENOCQ)?;
        let tx_resources = TxResources {
            comp_sink: CompSink::new(&transmit, self.source, false)?,
            tx_queue: Fifo::new(self.limits.tx_size, PostedOp::unused)?,
            counters: bindings.counters.try_clone()?,
            addr: None,
        };
        let receiver = RxSide {
            comp_sink: CompSink::new(&receive, self.source, self.limits.waits_for_signals)?,
            mr_table: self.domain.mr_table.clone(),
            rights: self.limits.rights,
        };
        let (attachment, progress) = match &bindings.srx {
            None => (None, None),
            Some(srx) => {
                let attachment = self.attach_srx(srx)?;
                let progress = ProgressWork::source_of(&self.rx_channel)?;
                receiver.comp_sink.cq.attach_source(&progress)?;
                (Some(attachment), Some(progress))
            }
        };
        let mut link = self.link.lock();
        link.tx_resources = Some(tx_resources);
        link.resources = Some(Resources {
            progress,
            eq,
            _tx_cq: transmit.queue,
            _rx_cq: receive.queue,
            _srx: bindings.srx,
        });
        drop(link);
        self.rx_channel
            .enable(receiver, bindings.counters, attachment);
        self.state.transition(ConnState::Open, ConnState::Enabled);
        Ok(())
    }

    fn connect(self: Arc<Self>, to: Option<SocketAddr>, private_data: &[u8]) -> Result {
        self.start_connect(to, private_data)
    }

    fn accept(self: Arc<Self>, private_data: &[u8]) -> Result {
        self.start_accept(private_data)
    }

    fn shutdown(&self, flags: u64) -> Result {
        self.start_shutdown(flags)
    }

    fn set_name(&self, addr: SocketAddr) -> Result {
        if self.state.get() != ConnState::Open {
            return Err(Errno::EOPBADSTATE);
        }
        self.link.lock().local = Some(addr);
        self.addrs.set_local(addr);
        Ok(())
    }

    fn name(&self) -> Result<SocketAddr> {
        self.link.lock().local.ok_or(Errno::EADDRNOTAVAIL)
    }

    fn peer(&self) -> Result<SocketAddr> {
        match self.state.get() {
            ConnState::Open | ConnState::Enabled | ConnState::Connecting => Err(Errno::ENOTCONN),
            _ => self.link.lock().peer.ok_or(Errno::ENOTCONN),
        }
    }

    fn private_data_limit(&self) -> usize {
        let limits = CmDataLimits::new(self.raw_cm_data.get());
        match self.is_for_request {
            true => limits.accept,
            false => limits.connect,
        }
    }

    fn receives_left(&self) -> Result<usize> {
        self.rx_channel.rx_side()?;
        if self.limits.shares_receives {
            return Err(Errno::ENOSYS);
        }
        Ok(self.rx_channel.receives_left())
    }

    fn transmits_left(&self) -> Result<usize> {
        self.rx_channel.rx_side()?;
        let connected = self.tx_channel.as_ref();
        Ok(connected.map_or(self.limits.tx_size, |channel| channel.transmits_left()))
    }

    #[inline]
    fn transmit(&self, operation: Operation<'_>, message: &Message<'_>) -> Result {
        self.post_transmit(operation, message)
            .map_err(|errno| self.state.transmit_error(errno))
    }

    fn atomic(&self, atomic: &Atomic<'_>, message: &Message<'_>) -> Result {
        self.post_atomic(atomic, message)
            .map_err(|errno| self.state.transmit_error(errno))
    }

    fn max_atomic_elements(&self, _form: Form, _op: Op, datatype: Datatype) -> Result<usize> {
        self.limits.check_atomics()?;
        Ok(op::max_elements(datatype))
    }

    fn getopt(&self, option: EpOption) -> Result<usize> {
        match option {
            EpOption::CmDataRaw => Ok(self.raw_cm_data.get().into()),
            _ => self.min_multi_recv.getopt(option),
        }
    }

    fn setopt(&self, option: EpOption, value: usize) -> Result {
        if option != EpOption::CmDataRaw {
            return self.min_multi_recv.setopt(option, value);
        }
        self.state.check_not_connecting()?;
        self.raw_cm_data.set(value)
    }

    #[inline]
    fn receive(&self, message: &Message<'_>) -> Result {
        self.post_receive(message)
            .map_err(|errno| self.state.receive_error(errno))
    }

    fn fill_info(&self, info: &mut ObjectInfo<'_>) {
        info.set_state(self.state.get().to_uapi());
        info.add_value(abi::KOFI_VALUE_TX_SIZE, self.limits.tx_size as u64);
        info.add_value(abi::KOFI_VALUE_RX_SIZE, self.limits.rx_size as u64);
        if let Some(tx_channel) = self.tx_channel.as_ref() {
            tx_channel.fill_tx_info(info);
        }
        self.rx_channel.fill_rx_info(info);
        self.addrs.fill_info(info);
    }

    fn close(&self, reclaim: &mut dyn FnMut(Context)) {
        self.close_and_reclaim(reclaim);
    }
}
