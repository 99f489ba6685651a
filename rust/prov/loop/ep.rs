// SPDX-License-Identifier: GPL-2.0

//! Active endpoints. The mutex `link` guards the state of the connection; the data path takes only the lock
//! of a [`Channel`].

mod cm;
mod post;

use super::{
    super::common::{
        conn_state::{
            AtomicConnState,
            ConnState, //
        },
        sw_cq::ProgressHandle, //
    },
    channel::{
        Channel,
        DirectReceiver,
        ProgressWork,
        RxSide,
        TxResources, //
    },
    completion::CompSink,
    conn::Conn,
    connreq::Request,
    domain::Domain,
    fifo::Fifo,
    info::{
        Limits,
        MAX_PRIVATE_DATA, //
    },
    op::{
        self,
        PostedOp, //
    },
    port::Port,
    rx_queue::SrxAttachment,
    srx::Srx, //
};
use crate::{
    abi::{
        downcast::downcast,
        flags::*,
        info::Info,
        Errno,
        Result,
        KOFI_VALUE_RX_SIZE,
        KOFI_VALUE_TX_SIZE, //
    },
    fi::{
        atomic::{
            Atomic,
            Datatype,
            Form,
            Op, //
        },
        cq::CompletionQueue,
        ep,
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
        memory::Context,
        object::ChildRef,
        provider::{
            self,
            Bindings,
            EpOption,
            Message,
            Operation, //
        },
        srx::SharedReceive, //
    },
};
use core::{
    any::Any,
    net::SocketAddr, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            self,
            Relaxed, //
        },
        new_mutex,
        Arc,
        Mutex,
        SetOnce, //
    },
};

/// Bytes for each message in a multi-receive buffer, unless the consumer sets FI_OPT_MIN_MULTI_RECV.
const PIECE: usize = 4096;

/// Bound objects, kept open until the endpoint is closed.
struct Resources {
    events: ChildRef<EventQueue>,
    _transmit: ChildRef<CompletionQueue>,
    _receive: ChildRef<CompletionQueue>,
    /// The shared receive context.
    _shared: Option<ChildRef<SharedReceive>>,
    /// Progress source that readers of the receive queue call.
    mover: Option<ProgressHandle>,
}

/// State of the connection.
struct Link {
    /// The connection request that the endpoint was made for, until it is accepted.
    request: Option<Request>,
    bound: Option<Resources>,
    /// Transmit resources, until they move to the channel to the peer.
    outfit: Option<TxResources>,
    /// Allocated with the endpoint, so that reporting cannot fail: FI_CONNECTED or the failure.
    outcome: Option<OwnedEvent>,
    /// Allocated with the endpoint as well: FI_SHUTDOWN.
    farewell: Option<OwnedEvent>,
    local: Option<SocketAddr>,
    peer: Option<SocketAddr>,
    /// Local port of an endpoint that calls `fi_connect()`.
    port: Option<Port>,
    tie: Option<Arc<Conn>>,
}

/// An active endpoint.
#[pin_data]
pub(crate) struct Endpoint {
    state: AtomicConnState,
    /// Channel to the peer, set when the connection is established.
    outbound: SetOnce<Arc<Channel>>,
    inbound: Arc<Channel>,
    limits: Limits,
    domain: Arc<Domain>,
    /// Identifies the endpoint to its owner, in events and completions.
    source: Source,
    /// Bytes of each piece that a multi-receive buffer is posted in.
    piece: atomic::Atomic<usize>,
    #[pin]
    link: Mutex<Link>,
    /// Copy of the addresses in `link`, for introspection.
    #[pin]
    ends: EndpointAddrs,
}

impl Endpoint {
    /// Makes an endpoint, for the connection request in `info` if there is one. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for more than is offered, and for an unknown connection request; -FI_ENOMEM.
    pub(super) fn new(domain: Arc<Domain>, info: &Info, source: Source) -> Result<Arc<Self>> {
        let limits = Limits::new(info, domain.fabric().realm().space)?;
        let (local, peer) = info.ends()?;
        let inbound = Channel::new(match limits.shares_receives {
            true => 0,
            false => limits.receives,
        })?;
        let outcome = Event::alloc(source)?;
        let farewell = Event::alloc(source)?;
        let request = match info.handle() {
            0 => None,
            handle => Some(domain.fabric().requests().take(handle)?),
        };
        let (local, peer) = match &request {
            None => (local, peer),
            Some(request) => (Some(request.local.into()), Some(request.peer.into())),
        };
        Ok(Arc::pin_init(
            pin_init!(Self {
                state: AtomicConnState::new(),
                outbound: SetOnce::new(),
                inbound,
                limits,
                domain,
                source,
                piece: atomic::Atomic::new(PIECE),
                ends <- EndpointAddrs::new(local, peer),
                link <- new_mutex!(
                    Link {
                        request,
                        bound: None,
                        outfit: None,
                        outcome: Some(outcome),
                        farewell: Some(farewell),
                        local,
                        peer,
                        port: None,
                        tie: None,
                    },
                    "kofi::loop::Endpoint"
                ),
            }),
            GFP_KERNEL,
        )?)
    }

    /// Returns the loop endpoint behind `ep`, if it is one.
    #[inline]
    pub(in crate::prov) fn of(ep: &ep::Endpoint) -> Option<&Self> {
        ep.core().as_any().downcast_ref()
    }

    /// Sets `who`, the endpoint's consumer, as the target of the peer's direct calls until the endpoint is
    /// closed. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(in crate::prov) fn introduce(&self, who: Arc<dyn Any + Send + Sync>) -> Result {
        let source = self.source;
        self.inbound.introduce(DirectReceiver { who, source })
    }

    /// Calls the peer's consumer directly and passes the value by which it knows its endpoint. Returns `None`
    /// if a transmit to the peer is under way or no target is set. The connection does not end during the
    /// call. Any context.
    #[inline]
    pub(in crate::prov) fn call_on<R>(
        &self,
        call: impl FnOnce(&(dyn Any + Send + Sync), Source) -> R,
    ) -> Option<R> {
        let outbound = self.outbound.as_ref()?;
        outbound.call_on(|user| call(&*user.who, user.source))
    }

    /// Attaches the endpoint to a shared receive context.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for a context of another provider or domain, -FI_ENOMEM.
    fn share(&self, shared: &SharedReceive) -> Result<SrxAttachment> {
        let srx: Option<Arc<Srx>> = downcast(shared.core().clone().into_any());
        let srx = srx.filter(|srx| srx.is_of(self.domain.regions()));
        SrxAttachment::new(srx.ok_or(Errno::EINVAL)?)
    }

    /// Takes over the bindings and lets receives be posted.
    fn open(&self, bindings: Bindings) -> Result {
        let events = bindings.eq.ok_or(Errno::ENOEQ)?;
        let transmit = bindings.tx_cq.ok_or(Errno::ENOCQ)?;
        let receive = bindings.rx_cq.ok_or(Errno::ENOCQ)?;
        let outfit = TxResources {
            exit: CompSink::new(&transmit, self.source, false)?,
            orders: Fifo::new(self.limits.transmits, PostedOp::idle)?,
            counters: bindings.counters.try_clone()?,
            addr: None,
        };
        let receiver = RxSide {
            exit: CompSink::new(&receive, self.source, self.limits.waits_for_signals)?,
            regions: self.domain.regions().clone(),
            rights: self.limits.rights,
        };
        let shared = bindings.srx;
        let share = shared.as_ref().map(|shared| self.share(shared));
        let share = share.transpose()?;
        let mover = share.as_ref().map(|_| ProgressWork::of(&self.inbound));
        let mover = mover.transpose()?;
        if let Some(mover) = &mover {
            receiver.exit.admit(mover)?;
        }
        let mut link = self.link.lock();
        link.outfit = Some(outfit);
        link.bound = Some(Resources {
            events,
            _transmit: transmit.queue,
            _receive: receive.queue,
            _shared: shared,
            mover,
        });
        drop(link);
        self.inbound.open(receiver, bindings.counters, share);
        self.state.transition(ConnState::Open, ConnState::Enabled);
        Ok(())
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
        self.open(bindings)
    }

    fn connect(self: Arc<Self>, to: Option<SocketAddr>, private_data: &[u8]) -> Result {
        self.start_connect(to, private_data)
    }

    fn accept(self: Arc<Self>, private_data: &[u8]) -> Result {
        self.start_accept(private_data)
    }

    fn shutdown(&self, flags: u64) -> Result {
        self.end(flags)
    }

    fn set_name(&self, addr: SocketAddr) -> Result {
        if self.state.get() != ConnState::Open {
            return Err(Errno::EOPBADSTATE);
        }
        self.link.lock().local = Some(addr);
        self.ends.set_local(addr);
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
        MAX_PRIVATE_DATA
    }

    fn receives_left(&self) -> Result<usize> {
        self.inbound.receiver()?;
        match self.limits.shares_receives {
            true => Err(Errno::ENOSYS),
            false => Ok(self.inbound.receives_left()),
        }
    }

    fn transmits_left(&self) -> Result<usize> {
        self.inbound.receiver()?;
        match self.outbound.as_ref() {
            Some(outbound) => Ok(outbound.transmits_left()),
            None => Ok(self.limits.transmits),
        }
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
        match self.limits.no_atomics {
            Some(errno) => Err(errno),
            None => Ok(op::most_elements(datatype)),
        }
    }

    fn getopt(&self, setting: EpOption) -> Result<usize> {
        match setting {
            EpOption::MinMultiRecv => Ok(self.piece.load(Relaxed)),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    fn setopt(&self, setting: EpOption, value: usize) -> Result {
        match (setting, value) {
            (EpOption::MinMultiRecv, 0) => Err(Errno::EINVAL),
            (EpOption::MinMultiRecv, size) => {
                self.piece.store(size, Relaxed);
                Ok(())
            }
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    #[inline]
    fn receive(&self, message: &Message<'_>) -> Result {
        self.post_receive(message)
            .map_err(|errno| self.state.receive_error(errno))
    }

    fn fill_info(&self, told: &mut ObjectInfo<'_>) {
        told.set_state(self.state.get().to_uapi());
        told.add_value(KOFI_VALUE_TX_SIZE, self.limits.transmits as u64);
        told.add_value(KOFI_VALUE_RX_SIZE, self.limits.receives as u64);
        if let Some(outbound) = self.outbound.as_ref() {
            outbound.tell_sent(told);
        }
        self.inbound.tell_taken(told);
        self.ends.fill_info(told);
    }

    fn close(&self, reclaim: &mut dyn FnMut(Context)) {
        self.hang_up(reclaim);
    }
}
